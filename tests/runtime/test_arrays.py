"""Norms of columns: those of numpy, and right where a square is beyond the range of floats."""

from __future__ import annotations

import numpy as np
import pytest

from odediscovery.runtime.arrays import column_norms


def test_ordinary_norms_are_those_of_numpy() -> None:
    columns = np.random.default_rng(0).normal(size=(3, 7, 5))
    np.testing.assert_array_equal(column_norms(columns, axis=1), np.linalg.norm(columns, axis=1))
    assert column_norms(columns, axis=1, keepdims=True).shape == (3, 1, 5)


@pytest.mark.parametrize("size", [1e-300, 1.0, 1e155, 1e300])
def test_norms_hold_where_squares_overflow(size: float) -> None:
    columns = np.array([[3.0 * size, 3.0, 0.0], [-4.0 * size, 4.0, 0.0]])
    expected = [5.0 * size if size >= 1.0 else 0.0, 5.0, 0.0]
    np.testing.assert_allclose(column_norms(columns), expected, rtol=1e-12)


def test_what_is_no_number_stays_none() -> None:
    columns = np.array([[np.inf, np.nan, 1.7e308, 3.0], [1.0, 1.0, 1.7e308, 4.0]])
    norms = column_norms(columns)
    assert np.isinf(norms[[0, 2]]).all() and np.isnan(norms[1]) and norms[3] == 5.0
    assert column_norms(np.zeros((2, 0))).shape == (0,)
