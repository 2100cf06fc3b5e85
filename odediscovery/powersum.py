"""Sums of products of real powers, the form that a pruned NPU -> NAU network has.

    dx_i/dt = sum_j A[i, j] * prod_k x_k ** W[j, k]

`A` are the weights of the sum layer (NAU), `W` the exponents of the power layer (NPU). Each
monomial (row of `W`) is shared by all equations, so an exponent is one constant even where the
monomial stands in several right-hand sides. Everything here is numpy and without scale: the
same class holds dimensionless and user units.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# Below this a base of a fractional power counts as zero: log(0) would turn 0 * log(0) to nan.
TINY = 1e-300


@dataclass(frozen=True, eq=False)
class PowerSum:
    """dx_i/dt = sum_j A[i, j] * prod_k x_k ** W[j, k].

    Args:
        coefficients: A, [states, monomials].
        exponents: W, [monomials, states]; a row of zeros is the constant term.

    >>> decay = PowerSum(np.array([[-0.5]]), np.array([[1.0]]))
    >>> decay.rates(np.array([[2.0], [4.0]])).tolist()
    [[-1.0], [-2.0]]
    """

    coefficients: Array
    exponents: Array

    def __post_init__(self) -> None:
        a, w = self.coefficients, self.exponents
        if a.ndim != 2 or w.ndim != 2 or a.shape != w.shape[::-1]:
            raise ValueError(
                f"coefficients [states, monomials] and exponents [monomials, states] do not fit: "
                f"{a.shape} and {w.shape}"
            )

    @property
    def n_states(self) -> int:
        """Number of states (equations)."""
        return int(self.coefficients.shape[0])

    @property
    def n_monomials(self) -> int:
        """Number of distinct products of powers."""
        return int(self.exponents.shape[0])

    @property
    def complexity(self) -> int:
        """Coefficients + non-zero exponents + states used (13 for the fractional SIR model)."""
        used = np.any(self.exponents != 0, axis=0)
        return int(
            np.count_nonzero(self.coefficients) + np.count_nonzero(self.exponents) + used.sum()
        )

    def monomials(self, x: Array) -> Array:
        """prod_k x_k ** W[j, k] for x [..., states] -> [..., monomials].

        A fractional power of a negative state is taken at 0: only noise or an overshooting
        solver brings a state there that has none by nature. Whole powers keep the sign.
        """
        whole = self.exponents == np.round(self.exponents)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
            base = np.where(whole, x[..., None, :], np.maximum(x, TINY)[..., None, :])
            products: Array = np.prod(np.power(base, self.exponents), axis=-1)
        return products

    def rates(self, x: Array) -> Array:
        """dx/dt for x [..., states] -> [..., states]."""
        dx_dt: Array = self.monomials(x) @ self.coefficients.T
        return dx_dt

    def rescaled(self, scale: Array, time_scale: float) -> PowerSum:
        """The same law for x' = x / scale and t' = t / time_scale: only coefficients change.

        With x_k = s_k x'_k:  A'[i, j] = A[i, j] * (T / s_i) * prod_k s_k ** W[j, k].
        """
        factor = np.exp(self.exponents @ np.log(scale))
        a = self.coefficients * factor[None, :] * time_scale / scale[:, None]
        return PowerSum(a, self.exponents.copy())

    def unscaled(self, scale: Array, time_scale: float) -> PowerSum:
        """Inverse of `rescaled`."""
        return self.rescaled(1.0 / scale, 1.0 / time_scale)

    def merged(self, tolerance: float = 1e-9) -> PowerSum:
        """Equal monomials (exponents within `tolerance`) summed into one, empty ones dropped.

        Done on numbers, since a computer algebra system keeps x**0.5 and x**0.5000000001 apart.
        The order of first appearance stays.
        """
        rows: list[Array] = []
        columns: list[Array] = []
        for j in range(self.n_monomials):
            w, a = self.exponents[j], self.coefficients[:, j]
            for k, row in enumerate(rows):
                if np.max(np.abs(row - w), initial=0.0) <= tolerance:
                    columns[k] = columns[k] + a
                    break
            else:
                rows.append(w.copy())
                columns.append(a.copy())
        keep = [k for k, column in enumerate(columns) if np.any(column != 0)]
        if not keep:
            return PowerSum(np.zeros((self.n_states, 0)), np.zeros((0, self.n_states)))
        return PowerSum(
            np.stack([columns[k] for k in keep], axis=1), np.stack([rows[k] for k in keep])
        )

    def structure(self) -> frozenset[tuple[bytes, bytes]]:
        """What has which constant, not their values: equal for the same terms in any order."""
        return frozenset(
            ((self.coefficients[:, j] != 0).tobytes(), (self.exponents[j] != 0).tobytes())
            for j in range(self.n_monomials)
        )
