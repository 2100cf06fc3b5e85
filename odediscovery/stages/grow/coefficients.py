"""Coefficients of a law by linear least squares, each equation with its own monomials.

minimise  |y_i - sum_j A[i, j] g_i,j|^2    for every equation i
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dgeqrf, dorgqr, dtrtrs

from odediscovery.runtime.arrays import Array, Mask


@dataclass(frozen=True)
class CoefficientThresholds:
    """How coefficients are solved for."""

    ridge: float = 1e-11  # keeps columns of coinciding monomials solvable [norm of a column]


COEFFICIENTS = CoefficientThresholds()


@dataclass(frozen=True, eq=False)
class Linear:
    """Least squares for the coefficients of all equations at once.

    Args:
        q, r: of the scaled columns, [equations, samples, m] and [equations, m, m].
        scale: norms of the columns, [equations, m].
        coefficients: [equations, m].
        residual: target - columns @ coefficients, [equations, samples].
    """

    q: Array
    r: Array
    scale: Array
    coefficients: Array
    residual: Array

    def projected(self, columns: Array) -> Array:
        """What of columns [equations, samples, c] the monomials cannot express."""
        result: Array = columns - self.q @ (self.q.transpose(0, 2, 1) @ columns)
        return result


def solve(columns: Array, target: Array, used: Mask) -> Linear:
    """min |target_i - columns_i a_i|^2 over the used coefficients of every equation i.

    >>> t = np.arange(4.0)
    >>> columns = np.stack([t, t**2], axis=1)[None]
    >>> fit = solve(columns, 3 * t[None] - t[None] ** 2, np.array([[True, True]]))
    >>> fit.coefficients.round(6).tolist()
    [[3.0, -1.0]]
    """
    n, samples, m = columns.shape
    unit = np.eye(m)
    q, r, scale = np.zeros(columns.shape), np.empty((n, m, m)), np.ones((n, m))
    r[:] = unit
    coefficients, residual = np.zeros((n, m)), target.copy()
    for e in range(n):
        of = np.flatnonzero(used[e])
        k = len(of)
        if not k:
            continue
        own = columns[e] if k == m else columns[e][:, of]
        size = np.sqrt(np.einsum("tk,tk->k", own, own))
        size[~(size > 0)] = 1.0
        # LAPACK itself: laws are so small that numpy's checks would take most of the time.
        stacked = np.concatenate([own / size, COEFFICIENTS.ridge * unit[:k, :k]])
        reflected, tau, _, _ = dgeqrf(stacked)
        thin = dorgqr(reflected, tau)[0][:samples]
        a = dtrtrs(reflected[:k], thin.T @ target[e])[0]
        residual[e] -= stacked[:samples] @ a
        q[e, :, of], r[e, of[:, None], of] = thin.T, np.triu(reflected[:k])
        scale[e, of], coefficients[e, of] = size, a / size
    return Linear(q, r, scale, coefficients, residual)
