"""Fits on the integral form: least squares with known answers, and a law from exponents that are off."""

from __future__ import annotations

import numpy as np
import pytest
from problems import growth

from odediscovery.laws.power_sum import Features
from odediscovery.runtime.arrays import Array
from odediscovery.runtime.monitor import Monitor
from odediscovery.stages.grow.integral_form import Integral
from odediscovery.stages.grow.shrink import best_of_each, descents, simpler
from odediscovery.stages.grow.side_by_side import optimise_all, settled
from odediscovery.stages.grow.variable_projection import Fit, Projected
from odediscovery.stages.grow.wald import wald

# N' = 0.5 N - 0.5 N^2 without noise.
SERIES = growth(np.linspace(0.0, 14.0, 60), 0.0)


@pytest.fixture(scope="module")
def fit() -> Fit:
    problem = Integral.of(SERIES, np.zeros(1), np.array([False]), Features(1))
    return Fit(problem, np.array([0]), problem.counts, np.array([1e-14]))


def model(fit: Fit, *exponents: float) -> Projected:
    """One equation of these powers with the best coefficients."""
    w = np.array(exponents)[:, None]
    return fit.model(w, np.ones((1, len(w)), dtype=bool), w != 0, fit.problem.interpolated())


def constants(found: Projected) -> Array:
    """Exponents and coefficients, by rising exponent."""
    order = np.argsort(found.exponents[:, 0])
    return np.concatenate([found.exponents[order, 0], found.coefficients[0, order]])


def test_exponents_that_are_off_come_to_the_true_ones(fit: Fit) -> None:
    start = model(fit, 0.8, 2.3)
    assert optimise_all(fit, [start])[0].score < start.score
    found = settled(fit, start)
    np.testing.assert_allclose(constants(found), [1.0, 2.0, 0.5, -0.5], atol=1e-4)
    assert found.size == 4 and fit.exact(found)
    np.testing.assert_allclose(fit.law(found).rhs(np.array([[0.3]])), [[0.5 * 0.3 - 0.5 * 0.3**2]], rtol=1e-5)


def test_the_term_that_nothing_needs_is_the_least_certain_and_goes(fit: Fit) -> None:
    crowded = model(fit, 1.0, 2.0, 3.0)
    of_coefficients, _, _ = wald(fit, crowded)
    assert np.argmin(of_coefficients[0]) == 2 and of_coefficients[0, 2] < 1.0 < 1e4 < of_coefficients[0, :2].min()
    less = min(optimise_all(fit, simpler(fit, crowded)), key=fit.criterion)
    assert less.size == crowded.size - 1
    assert fit.criterion(less) < fit.criterion(crowded)


def test_the_way_down_from_too_many_terms_passes_the_true_law(fit: Fit) -> None:
    path = descents(fit, [model(fit, 0.9, 1.1, 2.1)], Monitor(), settle=True)
    sizes = [m.size for m in path]
    assert sizes == sorted(set(sizes), reverse=True) and sizes[-1] == 1
    best = best_of_each(fit, path)[0]
    np.testing.assert_allclose(constants(best), [1.0, 2.0, 0.5, -0.5], atol=1e-3)
    assert [m.structure for m in best_of_each(fit, [*path, *path])] == [m.structure for m in best_of_each(fit, path)]
