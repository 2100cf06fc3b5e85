"""Norms of columns, right where a square is beyond the range of floats, and powers of few columns."""

from __future__ import annotations

import numpy as np
import pytest

from odediscovery.runtime.arrays import SparsePowers, column_norms, slopes_by_column


def test_ordinary_norms_are_those_of_numpy() -> None:
    columns = np.random.default_rng(0).normal(size=(3, 7, 5))
    np.testing.assert_array_equal(column_norms(columns, axis=1), np.linalg.norm(columns, axis=1))
    assert column_norms(columns, axis=1, keepdims=True).shape == (3, 1, 5)


@pytest.mark.parametrize("size", [1e-300, 1.0, 1e155, 1e300])
def test_norms_hold_where_squares_overflow(size: float) -> None:
    columns = np.array([[3.0 * size, 3.0, 0.0], [-4.0 * size, 4.0, 0.0]])
    expected = [5.0 * size if size >= 1.0 else 0.0, 5.0, 0.0]
    np.testing.assert_allclose(column_norms(columns), expected, rtol=1e-12)


def test_powers_of_few_columns_and_their_slopes_are_those_of_all() -> None:
    """Slopes against differences, also of a row without powers and one of a single feature."""
    w = np.zeros((5, 20))
    w[0, 3], w[1, [2, 7]], w[2, [0, 1, 19]], w[3, 5] = 2.0, (1.0, -0.5), (0.5, 1.5, 3.0), 1.0
    least, y = np.full(w.shape, -np.inf), np.random.default_rng(0).uniform(0.5, 2.0, (4, 20))
    sparse = SparsePowers.of(w, least)
    products, slopes = slopes_by_column(y, w, least)
    expected = np.prod(y[:, None, :] ** w, axis=2)
    np.testing.assert_allclose(products, expected, rtol=1e-14)
    np.testing.assert_allclose(sparse.products(y), expected, rtol=1e-14)
    for k in range(20):
        h = 1e-6 * np.eye(20)[k]
        np.testing.assert_allclose(
            slopes[:, :, k], (sparse.products(y + h) - sparse.products(y - h)) / 2e-6, rtol=1e-7, atol=1e-7
        )
