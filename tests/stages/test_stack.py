"""Laws in one stack are what each of them is alone, whatever empty places it has there."""

from __future__ import annotations

import numpy as np
import pytest
from problems import PISTON, bouncing

from odediscovery.laws.power_sum import NO_SUMS, Features, Sums
from odediscovery.stages.grow.integral_form import Integral
from odediscovery.stages.grow.stack import Constants, Places, Stack, evaluated, jacobian
from odediscovery.stages.grow.variable_projection import Fit, Projected
from odediscovery.stages.grow.wald import wald


@pytest.fixture(scope="module")
def fit() -> Fit:
    """A piston, whose second state changes its sign."""
    problem = Integral.of(
        bouncing(1e-3), np.full(2, 1e-3), np.array([False, True]), Features(2), np.array([True, False])
    )
    return Fit(problem, np.arange(PISTON.n_states), problem.counts, np.full(2, 1e-2))


@pytest.fixture(scope="module")
def laws(fit: Fit) -> list[Projected]:
    path = fit.problem.interpolated()
    plain = np.array([[0.0, 1.0], [-1.4, 0.0]])
    summed = np.array([[0.0, 1.0, 0.0, 0.0], [-1.2, 0.0, 0.0, -1.0], [1.0, 1.0, -1.0, 0.0]])
    sums = Sums(np.array([[0.5, 0.0], [0.2, 0.3]]), np.array([[0.0, 2.0], [1.5, 0.0]]))
    uses = np.array([[True, False, True], [False, True, True]])
    return [
        fit.model(plain, np.eye(2, dtype=bool), plain != 0, path, NO_SUMS),
        fit.model(summed, uses, summed != 0, path, sums),
        fit.model(summed[:2, [0, 1, 3]], uses[:, :2], summed[:2, [0, 1, 3]] != 0, path, sums.select(np.array([0]))),
    ]


@pytest.fixture(scope="module")
def stack(fit: Fit, laws: list[Projected]) -> Stack:
    return evaluated(fit, laws[0].path, Constants.of(laws, 2))


def test_each_law_of_a_stack_is_what_it_is_alone(laws: list[Projected], stack: Stack) -> None:
    for k, law in enumerate(laws):
        found = stack.model(k, law)
        np.testing.assert_allclose(found.coefficients, law.coefficients, rtol=1e-8)
        np.testing.assert_allclose(found.squares, law.squares, rtol=1e-8)
        assert found.score == pytest.approx(law.score, rel=1e-10) and found.structure == law.structure
        assert found.sums.weights.tolist() == law.sums.weights.tolist()


def test_laws_are_taken_from_a_stack_and_put_back(laws: list[Projected], stack: Stack) -> None:
    two = stack.take(np.array([2, 0]))
    assert two.score.tolist() == stack.score[[2, 0]].tolist()
    changed = stack.take(np.arange(3))
    changed.put(np.array([1]), stack.take(np.array([0])))
    assert changed.score[1] == stack.score[0] != stack.score[1]


def test_slopes_are_what_differences_say(fit: Fit, laws: list[Projected], stack: Stack) -> None:
    path, h = laws[0].path, 1e-6
    free = [Places.of_each(kind) for kind in zip(*(fit.places(law) for law in laws), strict=True)]
    slopes = jacobian(fit, path, stack, free)
    ends = [0, *np.cumsum([places.own.shape[1] for places in free])]
    count = 0
    for kind, places in enumerate(free):
        for law, place in np.argwhere(places.own):
            both = []
            for sign in (1.0, -1.0):
                at = Constants(stack.w.copy(), stack.b.copy(), stack.v.copy(), stack.used)
                (at.w, at.b, at.v)[kind][law, places.row[law, place], places.of[law, place]] += sign * h
                values = evaluated(fit, path, at).values[law][None, None]
                columns = fit.problem.rows(values, fit.equations)[0]
                both.append(np.einsum("emt,em->et", columns, stack.coefficients[law]))
            expected = (both[1] - both[0]) / (2 * h)
            found = slopes[law, :, ends[kind] + place]
            np.testing.assert_allclose(found, expected, atol=1e-6 * np.abs(expected).max() + 1e-9)
            count += 1
    assert count == sum(int(places.own.sum()) for places in free) >= 8
    assert not slopes[0, :, ends[1] :].any()


def test_a_law_of_constant_rates_has_no_slopes(fit: Fit, laws: list[Projected]) -> None:
    still = fit.model(
        np.zeros((1, 2)), np.ones((2, 1), dtype=bool), np.zeros((1, 2), dtype=bool), laws[0].path, NO_SUMS
    )
    now = evaluated(fit, still.path, Constants.of([still], 2))
    none = [Places.of_each([np.zeros((0, 2), dtype=int)])] * 3
    assert jacobian(fit, still.path, now, none).shape == (1, 2, 0, now.residual.shape[2])
    of_a, of_w, of_b = wald(fit, still)
    assert of_a.shape == (2, 1) and np.isfinite(of_a).all() and np.isinf(of_w).all() and not of_b.size
