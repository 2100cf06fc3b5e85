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
from itertools import product

import numpy as np

from odediscovery.laws.cost import count, filled, picked
from odediscovery.runtime.arrays import Array, Mask
from odediscovery.stages.values import Polished


@dataclass(frozen=True)
class BalanceThresholds:
    """What is taken as nothing in a tied equation."""

    # standard errors of what is left of a monomial up to which it is nothing [standard errors]; 99.7 % of a normal
    # distribution
    told_apart: float = 3.0
    # the same relative to the largest of its coefficients, where errors are those of integration; accuracy of the
    # solvers that judge
    negligible: float = 1e-6


BALANCING = BalanceThresholds()


def balance(found: Polished) -> Polished:
    """The law without terms of tied equations that are no more than error; constants under that.

    Its squares and starts are still those of the law given.
    """
    law, free, joint = found.law, found.free, found.joint
    if law.stoichiometry is None:
        return found
    theta = picked(law, free)
    index = {(int(r), int(j)): k for k, (r, j) in enumerate(np.argwhere(free[0]))}
    balanced, met = list[tuple[int, int]](), list[tuple[int, int]]()
    for tied, j in product(np.flatnonzero(np.diag(law.stoichiometry) == 0.0), range(law.n_monomials)):
        weights = law.stoichiometry[tied]
        places = [(int(r), j) for r in np.flatnonzero(weights) if (int(r), j) in index]
        g = np.zeros(len(theta))
        for place in places:
            g[index[place]] = weights[place[0]]
        held = weights @ np.where(free[0][:, j], 0.0, law.coefficients[:, j])
        left, variance = float(g @ theta + held), float(g @ joint.matrix[: len(g), : len(g)] @ g)
        sizes = np.abs(weights * law.coefficients[:, j])
        nothing = left**2 < BALANCING.told_apart**2 * variance or abs(left) < BALANCING.negligible * sizes.max()
        # One place alone has nothing that it could be balanced by.
        if np.count_nonzero(sizes) < 2 or not nothing or not variance > 0.0:
            continue
        theta = theta - joint.matrix[: len(g), : len(g)] @ g / variance * left
        joint = joint.given(np.append(g, np.zeros(len(joint.matrix) - len(g))))
        balanced.append((int(tied), j))
        met += places if len(places) == 1 else []
    if not balanced:
        return found
    a, w, b, v = filled(law.constants, free, theta)
    for row, j in balanced:
        _close(a, law.stoichiometry[row], j, free[0])
    return _without(dataclasses.replace(found, law=law.with_constants(a, w, b, v), joint=joint), met, index)


def _without(found: Polished, met: list[tuple[int, int]], index: dict[tuple[int, int], int]) -> Polished:
    """The law with the coefficients that meet known ones held: nothing is left of them to fit.

    Args:
        met: their equations and monomials.
        index: places of the free coefficients among the free constants.
    """
    free = (found.free[0].copy(), *found.free[1:])
    for place in met:
        free[0][place] = False
    joint = found.joint.part(np.setdiff1d(np.arange(len(found.joint.matrix)), [index[place] for place in met]))
    errors = np.sqrt(np.maximum(np.diag(joint.matrix)[: count(free)], 0.0))
    nothing_known = tuple(np.zeros_like(c) for c in found.law.constants)
    e = filled(nothing_known, free, errors)  # type: ignore[arg-type]
    return dataclasses.replace(found, joint=joint, free=free, errors=found.law.with_constants(*e))


def _close(a: Array, weights: Array, j: int, fitted: Mask) -> None:
    """The smallest fitted coefficient of monomial j from the others, so that nothing is left at all."""
    rows = np.flatnonzero((weights != 0) & (a[:, j] != 0))
    open_rows = rows[fitted[rows, j]]
    last = open_rows[np.argmin(np.abs(a[open_rows, j]))]
    others = rows[rows != last]
    a[last, j] = -(weights[others] @ a[others, j]) / weights[last]
