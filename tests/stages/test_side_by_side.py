"""Laws fitted side by side come to where each comes alone."""

from __future__ import annotations

import numpy as np
import pytest
from problems import growth, series_of

from odediscovery.fitting.levenberg_marquardt import damped_steps
from odediscovery.laws.power_sum import Features, PowerSum, Sums
from odediscovery.laws.systems import simulate_system
from odediscovery.runtime.arrays import ABOVE_ZERO, Array
from odediscovery.runtime.monitor import Monitor
from odediscovery.stages.grow import side_by_side
from odediscovery.stages.grow.integral_form import Integral, Path
from odediscovery.stages.grow.side_by_side import StackThresholds, optimise_all
from odediscovery.stages.grow.variable_projection import PROJECTION, Fit, Projected

BOUNDS = PROJECTION.least_exponent, PROJECTION.most_exponent
# N' = 0.5 N - 0.5 N^2 in noise.
SERIES = growth(np.linspace(0.0, 14.0, 60), 0.01)


@pytest.fixture(scope="module")
def fit() -> Fit:
    problem = Integral.of(SERIES, np.full(1, 0.01), np.array([False]), Features(1))
    return Fit(problem, np.array([0]), problem.counts, np.array([1e-14]))


@pytest.fixture(scope="module")
def path(fit: Fit) -> Path:
    return fit.problem.interpolated()


def model(fit: Fit, path: Path, *exponents: float, used: tuple[bool, ...] = ()) -> Projected:
    w = np.array(exponents)[:, None]
    return fit.model(w, np.array([used or (True,) * len(w)]), w != 0, path)


def constants_of(one: Projected) -> list[Array]:
    return [one.exponents.copy(), one.sums.weights.copy(), one.sums.exponents.copy()]


def slopes(fit: Fit, one: Projected, places: list[tuple[int, int, int]]) -> Array:
    """What the residuals change by with W, B and V, A held, by differences: [equations, samples, places]."""
    h, found = 1e-6, []
    for kind, row, of in places:
        both = []
        for sign in (1.0, -1.0):
            parts = constants_of(one)
            parts[kind][row, of] += sign * h
            columns = fit.problem.columns(one.path.with_sums(Sums(parts[1], parts[2])), parts[0], fit.equations)
            both.append(np.einsum("etm,em->et", columns, one.coefficients))
        found.append((both[1] - both[0]) / (2 * h))
    return np.stack(found, axis=2)


def alone(fit: Fit, one: Projected) -> Projected:
    """Levenberg-Marquardt on one law, as plainly as can be."""
    places = [(kind, int(row), int(of)) for kind, own in enumerate(fit.places(one)) for row, of in own]
    damping = PROJECTION.first_damping
    for _ in range(20 if places else 0):
        weight, linear = 1.0 / np.sqrt(one.squares + fit.floor)[:, None], fit.linear(one)
        jac = (linear.projected(slopes(fit, one, places)) * weight[..., None]).reshape(-1, len(places))
        gradient = jac.T @ (linear.residual * weight).ravel()
        parts = constants_of(one)
        step = damped_steps((jac.T @ jac)[None], gradient[None], np.array([damping]), PROJECTION.singular, ABOVE_ZERO)[
            0
        ]
        for (kind, row, of), change in zip(places, step, strict=True):
            most = 0.5 * abs(parts[1][row, of]) if kind == 1 else PROJECTION.longest
            moved = parts[kind][row, of] + np.clip(change, -most, most)
            parts[kind][row, of] = moved if kind else np.clip(moved, *BOUNDS)
        after = fit.model(parts[0], one.used, one.powers, one.path, Sums(*parts[1:]) if len(one.sums) else one.sums)
        gain = one.score - after.score
        damping *= 0.1 if gain > 0.0 else 10.0
        if gain > 0.0:
            one = after
        if 0.0 < gain < PROJECTION.gain or damping > PROJECTION.most_damping:
            break
    return one


def assert_alike(fit: Fit, found: list[Projected], begun: list[Projected]) -> None:
    assert len(found) == len(begun)
    for a, b in zip(found, [alone(fit, one) for one in begun], strict=True):
        assert a.score < b.score + 1e-6 * abs(b.score)
        np.testing.assert_allclose(a.score, b.score, rtol=1e-7)
        for part, other in zip((a.coefficients, *constants_of(a)), (b.coefficients, *constants_of(b)), strict=True):
            np.testing.assert_allclose(part, other, rtol=1e-4, atol=1e-4)
        again = fit.model(a.exponents, a.used, a.powers, a.path, a.sums)
        np.testing.assert_allclose(a.score, again.score, rtol=1e-9)


def test_each_comes_to_where_it_comes_alone(fit: Fit, path: Path) -> None:
    models = [model(fit, path, 0.8, 2.3), model(fit, path, 0.0, 1.4), model(fit, path, 1.7), model(fit, path, 0.5, 3.0)]
    assert_alike(fit, optimise_all(fit, models), models)


def test_unused_coefficients_stay_nothing(fit: Fit, path: Path) -> None:
    models = [model(fit, path, 0.9, 2.2, used=(True, False)), model(fit, path, 0.9, 2.2)]
    found = optimise_all(fit, models)
    assert found[0].coefficients[0, 1] == 0.0 != found[1].coefficients[0, 1]
    assert_alike(fit, found[1:], models[1:])


def test_two_equations_share_their_monomials(lotka_volterra: Fit) -> None:
    fit, path = lotka_volterra, lotka_volterra.problem.interpolated()
    used = np.array([[True, True, False], [False, True, True]])
    starts = [np.array([[0.9, 0.0], [1.2, 0.8], [0.0, 1.1]]), np.array([[1.1, 0.0], [0.7, 1.3], [0.2, 0.9]])]
    models = [fit.model(w, used, w != 0, path) for w in starts]
    assert_alike(fit, optimise_all(fit, models), models)


@pytest.fixture(scope="module")
def lotka_volterra() -> Fit:
    series = simulate_system("lotka-volterra")
    problem = Integral.of(series, np.zeros(2), np.array([False, False]), Features(2))
    return Fit(problem, np.arange(2), problem.counts, np.full(2, 1e-14))


@pytest.mark.parametrize("real_inside", [False, True])
def test_laws_with_one_sum_two_and_none_are_one_stack(real_inside: bool) -> None:
    """Prey x saturates its predators y: x' = x - 0.3 x^2 - x y / (1 + 0.8 x), y' = 0.9 x y / (1 + 0.8 x) - 0.4 y."""
    one = Sums(np.array([[0.8]]), np.array([[1.0, 0.0]]))
    w = np.array([[1.0, 0.0, 0.0], [2.0, 0.0, 0.0], [1.0, 1.0, -1.0], [0.0, 1.0, 0.0]])
    law = PowerSum(np.array([[1.0, -0.3, -1.0, 0.0], [0.0, 0.0, 0.9, -0.4]]), w, Features(2, (), one))
    series = series_of(law, np.array([[0.5, 1.0], [3.0, 0.3]]), [np.linspace(0.0, 12.0, 40)] * 2, 1e-3)
    whole = np.array([True, True])
    problem = Integral.of(series, np.full(2, 1e-3), whole, Features(2), whole & real_inside)
    fit, path = Fit(problem, np.arange(2), problem.counts, np.full(2, 1e-2)), problem.interpolated()
    used = law.coefficients != 0
    near, far = Sums(np.array([[0.5]]), np.array([[1.0, 0.0]])), Sums(np.array([[0.3]]), np.array([[2.0, 0.0]]))
    both = Sums(np.array([[0.5, 0.0], [0.4, 0.2]]), np.eye(2))
    of_both = np.array([[1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 0.0, -1.0], [1.0, 1.0, -1.0, 0.0], [0.0, 1.0, 0.0, 0.0]])
    models = [
        fit.model(w, used, w != 0, path, near),
        fit.model(of_both, used, of_both != 0, path, both),
        fit.model(w[:2, :2], used[:, :2], w[:2, :2] != 0, path),
        fit.model(w[1:], used[:, 1:], w[1:] != 0, path, far),
    ]
    found = optimise_all(fit, models)
    assert_alike(fit, found, models)
    np.testing.assert_allclose(found[0].sums.weights, 0.8, rtol=0.05)
    assert found[2].score == pytest.approx(models[2].score) and found[0].score < models[0].score - 100.0


def test_long_series_are_fitted_one_by_one_and_a_request_to_stop_is_heard(
    fit: Fit, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(side_by_side, "STACK", StackThresholds(most_values=1))
    models = [model(fit, path, 0.8, 2.3), model(fit, path, 1.2, 2.6)]
    assert_alike(fit, optimise_all(fit, models), models)
    monitor = Monitor()
    monitor.interrupt()
    assert len(optimise_all(fit, models, monitor)) == 1
