"""Candidate terms on the integral form: the increments that they would make."""

from __future__ import annotations

import numpy as np
from problems import growth

from odediscovery.families import FAMILIES
from odediscovery.stages.grow.integral_form import Integral
from odediscovery.stages.grow.libraries import features_for, grid_for, values_of

# N' = 0.5 N - 0.5 N^2 without noise.
SERIES = growth(np.linspace(0.0, 14.0, 60), 0.0)
REAL, CHANGING = np.array([False]), np.array([True])


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
