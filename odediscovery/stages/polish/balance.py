"""Terms of a tied equation that the data do not ask for.

The equation that follows from a conserved sum, x_l' = sum_r M[l, r] (A y^W)_r, has each monomial
with what the others leave of it. Where that is nothing but error, as in S' = -r, I' = r - b I,
R' = b I, the monomial only passes from one state to another, and

    g . theta = sum_r M[l, r] A[r, j] = 0

is a constraint on the constants: theta and their covariance C become what they are under it,
theta - C g (g C g)^-1 g . theta and C - C g (g C g)^-1 g C.

Source: Seber and Lee, Linear Regression Analysis (2003), Sec. 3.8 (least squares under a linear
constraint; here to second order in the constants).
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from odediscovery.laws.cost import filled
from odediscovery.runtime.arrays import Array
from odediscovery.runtime.thresholds import Thresholds, threshold
from odediscovery.stages.values import Polished


@dataclass(frozen=True)
class BalanceThresholds(Thresholds):
    """What is taken as nothing in a tied equation."""

    told_apart: float = threshold(
        3.0,
        "standard errors of what is left of a monomial up to which it is nothing",
        unit="standard errors",
        origin="99.7 % of a normal distribution",
    )
    negligible: float = threshold(
        1e-6,
        "the same relative to the largest of its coefficients, where errors are those of integration",
        origin="accuracy of the solvers that judge",
    )


BALANCING = BalanceThresholds()


def balance(found: Polished) -> Polished:
    """The law without terms of tied equations that are no more than error; constants under that.

    Its squares and starts are still those of the law given.
    """
    law, free = found.law, found.free
    if law.stoichiometry is None:
        return found
    theta = np.concatenate([c[mask] for c, mask in zip(law.constants, free, strict=True)])
    joint = found.joint
    index = {(int(r), int(j)): k for k, (r, j) in enumerate(np.argwhere(free[0]))}
    balance: list[tuple[int, int]] = []
    for tied in np.flatnonzero(np.diag(law.stoichiometry) == 0.0):
        for j in range(law.n_monomials):
            g = np.zeros(len(theta))
            rows = [r for r in np.flatnonzero(law.stoichiometry[tied]) if (int(r), j) in index]
            for r in rows:
                g[index[int(r), j]] = law.stoichiometry[tied, r]
            held = law.stoichiometry[tied] @ np.where(free[0][:, j], 0.0, law.coefficients[:, j])
            covariance = joint.part(slice(len(g)))
            left, variance = float(g @ theta + held), float(g @ covariance.matrix @ g)
            largest = np.abs(law.stoichiometry[tied] * law.coefficients[:, j]).max()
            nothing = left**2 < BALANCING.told_apart**2 * variance or abs(left) < BALANCING.negligible * largest
            if len(rows) < 2 or not nothing or not variance > 0.0:
                continue
            theta = theta - covariance.matrix @ g / variance * left
            joint = joint.given(np.append(g, np.zeros(len(joint.matrix) - len(g))))
            balance.append((int(tied), j))
    if not balance:
        return found
    a, w, b, v = filled(law.constants, free, theta)
    for row, j in balance:
        _close(a, law.stoichiometry[row], j)
    errors = np.sqrt(np.maximum(np.diag(joint.matrix)[: len(theta)], 0.0))
    nothing_known = tuple(np.zeros_like(c) for c in law.constants)
    e = filled(nothing_known, free, errors)  # type: ignore[arg-type]
    return dataclasses.replace(found, law=law.with_constants(a, w, b, v), joint=joint, errors=law.with_constants(*e))


def _close(a: Array, weights: Array, j: int) -> None:
    """The smallest coefficient of monomial j from the others, so that nothing is left at all."""
    rows = np.flatnonzero((weights != 0) & (a[:, j] != 0))
    last = rows[np.argmin(np.abs(a[rows, j]))]
    others = rows[rows != last]
    a[last, j] = -(weights[others] @ a[others, j]) / weights[last]
