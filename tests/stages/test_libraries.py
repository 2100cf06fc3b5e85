"""Candidate terms on the integral form: the increments that they would make."""

from __future__ import annotations

import numpy as np
from problems import growth

from odediscovery.families import FAMILIES, POWERS
from odediscovery.stages.grow.integral_form import Integral
from odediscovery.stages.grow.libraries import columns_of, features_for, grid_for, values_of

# N' = 0.5 N - 0.5 N^2 without noise.
SERIES = growth(np.linspace(0.0, 14.0, 60), 0.0)
REAL, CHANGING = np.array([False]), np.array([True])


def test_the_increments_of_the_data_are_a_sum_of_two_candidates() -> None:
    problem = Integral.of(SERIES, np.zeros(1), REAL, features_for(POWERS, REAL, CHANGING, np.ones(1)))
    grid = grid_for(problem, POWERS, REAL, CHANGING)
    columns = columns_of(grid, problem, problem.interpolated(), np.array([0]))[0]
    np.testing.assert_allclose(np.linalg.norm(columns, axis=0), 1.0, rtol=1e-12)
    true = [grid.rows.tolist().index([power]) for power in (1.0, 2.0)]
    target = problem.target[0]
    _, left, *_ = np.linalg.lstsq(columns[:, true], target, rcond=None)
    assert left[0] < 1e-6 * float(target @ target)


def test_values_are_those_of_the_formula_in_every_family() -> None:
    for family in FAMILIES:
        features = features_for(family, REAL, CHANGING, np.ones(1))
        problem = Integral.of(SERIES, np.zeros(1), family.whole(REAL), features)
        grid, path = grid_for(problem, family, REAL, CHANGING), problem.interpolated()
        values = values_of(grid, path)
        assert values.shape[2] == len(grid) > 1, family.name
        inner = 1.0 + grid.constant * path.monomials(grid.inner)
        plain = np.flatnonzero(inner.min(axis=(0, 1)) > 1e-6)
        expected = path.monomials(grid.rows)[..., plain] * inner[..., plain] ** grid.power[plain]
        np.testing.assert_allclose(values[..., plain], expected, rtol=1e-9)
