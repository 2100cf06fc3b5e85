"""Laws fitted side by side come to where each comes alone."""

from __future__ import annotations

import numpy as np
import pytest
from problems import growth

from odediscovery.laws.power_sum import Features, Sums
from odediscovery.laws.systems import simulate_system
from odediscovery.runtime.monitor import Monitor
from odediscovery.stages.grow import side_by_side
from odediscovery.stages.grow.integral_form import Integral, Path
from odediscovery.stages.grow.side_by_side import StackThresholds, optimise_all
from odediscovery.stages.grow.variable_projection import Fit, Model

# N' = 0.5 N - 0.5 N^2 in noise.
SERIES = growth(np.linspace(0.0, 14.0, 60), 0.01)


@pytest.fixture(scope="module")
def fit() -> Fit:
    problem = Integral.of(SERIES, np.full(1, 0.01), np.array([False]), Features(1))
    return Fit(problem, np.array([0]), problem.counts, np.array([1e-14]))


@pytest.fixture(scope="module")
def path(fit: Fit) -> Path:
    return fit.problem.interpolated()


def model(fit: Fit, path: Path, *exponents: float, used: tuple[bool, ...] = ()) -> Model:
    w = np.array(exponents)[:, None]
    return fit.model(w, np.array([used or (True,) * len(w)]), w != 0, path)


def assert_alike(found: list[Model], alone: list[Model]) -> None:
    assert len(found) == len(alone)
    for a, b in zip(found, alone, strict=True):
        np.testing.assert_allclose(a.score, b.score, rtol=1e-7)
        np.testing.assert_allclose(a.exponents, b.exponents, atol=1e-4)
        np.testing.assert_allclose(a.coefficients, b.coefficients, rtol=1e-3, atol=1e-3)


def test_each_comes_to_where_it_comes_alone(fit: Fit, path: Path) -> None:
    models = [model(fit, path, 0.8, 2.3), model(fit, path, 0.0, 1.4), model(fit, path, 1.7), model(fit, path, 0.5, 3.0)]
    assert_alike(optimise_all(fit, models), [fit.optimised(one) for one in models])


def test_unused_coefficients_stay_nothing(fit: Fit, path: Path) -> None:
    models = [model(fit, path, 0.9, 2.2, used=(True, False)), model(fit, path, 0.9, 2.2)]
    found = optimise_all(fit, models)
    assert found[0].coefficients[0, 1] == 0.0 != found[1].coefficients[0, 1]
    assert_alike(found, [fit.optimised(one) for one in models])


def test_two_equations_share_their_monomials(lotka_volterra: Fit) -> None:
    fit, path = lotka_volterra, lotka_volterra.problem.interpolated()
    used = np.array([[True, True, False], [False, True, True]])
    starts = [np.array([[0.9, 0.0], [1.2, 0.8], [0.0, 1.1]]), np.array([[1.1, 0.0], [0.7, 1.3], [0.2, 0.9]])]
    models = [fit.model(w, used, w != 0, path) for w in starts]
    assert_alike(optimise_all(fit, models), [fit.optimised(one) for one in models])


@pytest.fixture(scope="module")
def lotka_volterra() -> Fit:
    series = simulate_system("lotka-volterra")
    problem = Integral.of(series, np.zeros(2), np.array([False, False]), Features(2))
    return Fit(problem, np.arange(2), problem.counts, np.full(2, 1e-14))


def test_laws_with_sums_are_fitted_alone(fit: Fit, path: Path) -> None:
    sums = Sums(np.array([[0.5]]), np.array([[1.0]]))
    w = np.array([[1.0, 0.0], [1.0, -1.0]])
    rich = fit.model(w, np.ones((1, 2), dtype=bool), w != 0, path, sums)
    models = [rich, model(fit, path, 0.8, 2.3), model(fit, path, 1.2, 2.6)]
    assert_alike(optimise_all(fit, models), [fit.optimised(one) for one in models])


def test_long_series_are_fitted_one_by_one_and_a_request_to_stop_is_heard(
    fit: Fit, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(side_by_side, "STACK", StackThresholds(most_values=1))
    models = [model(fit, path, 0.8, 2.3), model(fit, path, 1.2, 2.6)]
    assert_alike(optimise_all(fit, models), [fit.optimised(one) for one in models])
    monitor = Monitor()
    monitor.interrupt()
    assert len(optimise_all(fit, models, monitor)) == 1
