"""Types of arrays that pass between modules, norms of columns, and products of powers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Indices = NDArray[np.int64]
# Below it, squares and sums of many squares stay within the range of floats.
SQUARED = 1e150
# Lower bound of divisors, of arguments of logarithms and of bases of fractional powers: so small that it changes no
# other number, but its inverse is finite, and 0 log(0) is 0.
ABOVE_ZERO = 1e-300


def column_norms(columns: Array, axis: int = 0) -> Array:
    """|c| = (sum c^2)^(1/2) along an axis, even if squares exceed the range of floats."""
    if max(columns.max(initial=0.0), -columns.min(initial=0.0)) < SQUARED:
        return np.asarray(np.linalg.norm(columns, axis=axis))
    largest = np.abs(columns).max(axis=axis, keepdims=True, initial=0.0)
    scale = np.where((largest > SQUARED) & np.isfinite(largest), largest, 1.0)
    with np.errstate(over="ignore"):  # norms beyond the range are infinite
        return np.asarray(scale.squeeze(axis) * np.linalg.norm(columns / scale, axis=axis))


def products_by_column(y: Array, exponents: Array, least: Array) -> Array:
    """prod_k max(y_k, least[j, k]) ** W[j, k] [..., J] for y [..., K], computing each non-zero power once."""
    known: dict[tuple[int, float, float], Array] = {}
    products = np.ones((*y.shape[:-1], len(exponents)))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        for j, (row, lows) in enumerate(zip(exponents.tolist(), least.tolist(), strict=True)):
            for k, (power, low) in enumerate(zip(row, lows, strict=True)):
                if power == 0.0:
                    continue
                if (k, power, low) not in known:
                    base = y[..., k] if low == -np.inf else np.maximum(y[..., k], low)
                    known[k, power, low] = base if power == 1.0 else base**power
                products[..., j] *= known[k, power, low]
    return products


def products_of_few(y: Array, exponents: Array, least: Array) -> Array:
    """As `products_by_column`, faster where most exponents of many rows are zero.

    >>> products_of_few(np.array([2.0, 3.0]), np.array([[0.0, 2.0], [0.0, 0.0]]), np.zeros((2, 2))).tolist()
    [9.0, 1.0]
    """
    most = int(np.count_nonzero(exponents, axis=1).max(initial=0))
    # The columns of each row with W != 0, padded with others [rows, most].
    columns = np.argsort(exponents == 0.0, axis=1, kind="stable")[:, :most]
    kept, lowest = np.take_along_axis(exponents, columns, axis=1), np.take_along_axis(least, columns, axis=1)
    products: Array = np.ones((*y.shape[:-1], len(columns)))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        for k in range(most):
            products *= np.power(np.maximum(y[..., columns[:, k]], lowest[:, k]), kept[:, k])
    return products
