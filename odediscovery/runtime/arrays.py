"""The types of arrays that pass between modules, and the lengths of their columns."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
# Numbers below it have squares, and sums of many squares, within the range of floats.
SQUARED = 1e150


def column_norms(columns: Array, axis: int = 0, keepdims: bool = False) -> Array:
    """|c| = (sum c^2)^(1/2) along an axis, also where a square is beyond the range of floats.

    Integrals of exponentials, and derivatives of errors of a law that runs away, are such numbers.

    Args:
        columns: any numbers; a norm is inf or nan where they are.
        axis: along which to sum.
        keepdims: whether that axis stays, of length 1.

    >>> column_norms(np.array([[0.0, 3.0], [4e200, 4.0]])).tolist()
    [4e+200, 5.0]
    """
    if max(columns.max(initial=0.0), -columns.min(initial=0.0)) < SQUARED:
        return np.asarray(np.linalg.norm(columns, axis=axis, keepdims=keepdims))
    largest = np.abs(columns).max(axis=axis, keepdims=True, initial=0.0)
    scale = np.where((largest > SQUARED) & np.isfinite(largest), largest, 1.0)
    with np.errstate(over="ignore"):  # what is beyond the range even so is infinite
        norms = scale * np.linalg.norm(columns / scale, axis=axis, keepdims=True)
    return np.asarray(norms if keepdims else norms.squeeze(axis))


def sparse_powers(y: Array, exponents: Array, least: Array) -> Array:
    """prod_k max(y_k, least[j, k]) ** W[j, k] for y [..., features] -> [..., rows], W nearly all 0.

    >>> sparse_powers(np.array([2.0, 3.0]), np.array([[0.0, 2.0], [0.0, 0.0]]), np.zeros((2, 2))).tolist()
    [9.0, 1.0]
    """
    most = int(np.count_nonzero(exponents, axis=1).max(initial=0))
    order = np.argsort(exponents == 0.0, axis=1, kind="stable")[:, :most]
    kept, floor = np.take_along_axis(exponents, order, axis=1), np.take_along_axis(least, order, axis=1)
    products: Array = np.ones((*y.shape[:-1], len(exponents)))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        for columns, w, lowest in zip(order.T, kept.T, floor.T, strict=True):
            products *= np.power(np.maximum(y[..., columns], lowest), w)
    return products
