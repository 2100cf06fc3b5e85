"""Snapping: exponents that the likelihood cannot tell from simple values are set to them.

A law with x^0.98(3) is better told with x. First all exponents at once, by the quadratic
approximation of the likelihood; where that does not hold (two growth terms whose exponents
are told apart only together), one after another, each judged by a real refit. A value is taken
only if the criterion, which charges a held simple value less than a fitted constant, falls.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from odediscovery.cost import SIMPLE, Mask, kind, price
from odediscovery.judge import Judged
from odediscovery.polish import Polished
from odediscovery.powersum import PowerSum

Refit = Callable[[PowerSum, tuple[Mask, Mask]], Judged]

# Squared standard errors from which on the likelihood can tell two values apart.
TELL = 5.0
# Real refits tried for each value that is fixed.
TRIED = 3


def snapped(row: Judged, refit: Refit) -> Judged:
    """The row with simple exponents wherever that lowers its criterion.

    Args:
        refit: law and what is free -> polished and judged.
    """
    together = [g for g in _goals(row.polished) if g[0] < 0.0]
    places: dict[tuple[int, int], float] = {}
    for _, place, value in together:
        places.setdefault(place, value)
    if len(places) > 1:
        after = refit(*_fixed(row.polished, places))
        if after.criterion < row.criterion:
            row = after
    while True:
        for _, place, value in _goals(row.polished)[:TRIED]:
            after = refit(*_fixed(row.polished, {place: value}))
            if after.criterion < row.criterion:
                row = after
                break
        else:
            return row


def _goals(polished: Polished) -> list[tuple[float, tuple[int, int], float]]:
    """(expected change of the criterion, place of an exponent, simple value), best first."""
    law, errors = polished.law, polished.errors.exponents
    worth = price(law.n_states, polished.counts.sum())
    goals = []
    for j, k in np.argwhere(polished.free[1]):
        error = max(float(errors[j, k]), 1e-300)
        for value in SIMPLE:
            misfit = ((law.exponents[j, k] - value) / error) ** 2
            if misfit < min(worth, TELL):
                goals.append((misfit + kind(value) - worth, (int(j), int(k)), value))
    return sorted(goals)


def _fixed(
    polished: Polished, places: dict[tuple[int, int], float]
) -> tuple[PowerSum, tuple[Mask, Mask]]:
    """Law and mask with some exponents held; the others move along by the conditional mean."""
    law, (free_a, free_w) = polished.law, polished.free
    index_of = {tuple(p): i for i, p in enumerate(np.argwhere(free_w).tolist())}
    n_a = int(free_a.sum())
    theta = np.concatenate([law.coefficients[free_a], law.exponents[free_w]])
    index = np.array([n_a + index_of[place] for place in places])
    change = np.array(list(places.values())) - theta[index]
    c = polished.covariance
    moved = theta + c[:, index] @ np.linalg.lstsq(c[np.ix_(index, index)], change, rcond=None)[0]
    # Far from the minimum the linear step is worse than none.
    if not np.all(np.isfinite(moved)) or np.max(np.abs(moved - theta)) > 1.0:
        moved = theta.copy()
    moved[index] = list(places.values())
    a, w, still = law.coefficients.copy(), law.exponents.copy(), free_w.copy()
    a[free_a], w[free_w] = moved[:n_a], moved[n_a:]
    for place in places:
        still[place] = False
    return merged_law(PowerSum(a, w), (free_a, still))


def merged_law(law: PowerSum, free: tuple[Mask, Mask]) -> tuple[PowerSum, tuple[Mask, Mask]]:
    """Monomials that became equal as one; exponents stay held where they were."""
    merged = law.merged()
    rows = [int(np.flatnonzero((law.exponents == w).all(axis=1))[0]) for w in merged.exponents]
    held = free[1][rows].reshape(merged.exponents.shape)
    return merged, (merged.coefficients != 0, held)
