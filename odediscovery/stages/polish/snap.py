"""Snapping: exponents that the likelihood cannot tell from simple values are set to them.

A law with x^0.98(3) is better written with x. First all exponents are tried at once, by the quadratic
approximation of the likelihood; where that does not hold (two growth terms whose exponents can only
be determined together), they are tried one after another, each judged by a real refit. At last, values
taken are exchanged for others nearby. A value is taken only if the criterion, which charges a
held simple value less than a fitted constant, falls.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from odediscovery.laws.cost import SIMPLE, Free, but_whole_powers, constant_penalty, filled, picked, snap_penalty
from odediscovery.laws.power_sum import PowerSum
from odediscovery.runtime.arrays import ABOVE_ZERO, Array, Mask
from odediscovery.stages.values import Judged, Polished

# (law, what is free, start values to begin from [trajectories, states]) -> polished and judged.
Refit = Callable[[PowerSum, Free, Array], Judged]


@dataclass(frozen=True)
class SnapThresholds:
    """When an exponent becomes a simple value."""

    told_apart: float = 5.0  # a value farther away than this is told apart by the likelihood [squared standard errors]
    near: float = 5e-3  # an exponent so near to a simple value is tried at it whatever its error says
    tried: int = 3  # refits tried for each value that is fixed
    dearest: float = 2.5  # dearest kind of value that takes the place of another one [`snap_penalty`]
    reach: float = 16.0  # how far from the free fit it may be [squared standard errors]
    # A longer linear step of the other constants, or of the starts, is worse than none [dimensionless]
    longest_step: float = 1.0


SNAPPING = SnapThresholds()


def snap(row: Judged, refit: Refit) -> Judged:
    """The row with simple exponents wherever that lowers its criterion.

    Args:
        refit: law, what is free and where to begin -> polished and judged.
    """
    first = row
    together = [g for g in _goals(row.polished) if g[0] < 0.0]
    places: dict[tuple[int, int], float] = {}
    for _, place, value in together:
        places.setdefault(place, value)
    if len(places) > 1:
        after = refit(*_fixed(row.polished, places))
        if after.criterion < row.criterion:
            row = after
    row = _one_by_one(row, refit)
    while True:
        for trial in _exchanges(row.polished, first.polished):
            after = refit(*trial)
            # What is free in it may still become simple.
            worth = constant_penalty(after.polished.law.n_states, after.polished.counts.sum())
            if after.criterion - worth * after.polished.free[1].sum() < row.criterion:
                after = _one_by_one(after, refit)
            if after.criterion < row.criterion:
                row = after
                break
        else:
            return row


def _one_by_one(row: Judged, refit: Refit) -> Judged:
    """The row after simple values were taken one after another, the likeliest first."""
    while True:
        for _, place, value in _goals(row.polished)[: SNAPPING.tried]:
            after = refit(*_fixed(row.polished, {place: value}))
            if after.criterion < row.criterion:
                row = after
                break
        else:
            return row


def _exchanges(polished: Polished, first: Polished) -> list[tuple[PowerSum, Free, Array]]:
    """Laws with another simple value for one exponent that is held already.

    Values taken one after another need not be the best together: which of 0.5, 1 and 2 it is
    may become clear only once the others are held.
    """
    law, free = polished.law, polished.free
    if law.exponents.shape != first.law.exponents.shape:
        return []
    changed = []
    for j, k in np.argwhere(first.free[1] & ~free[1] & (law.exponents != 0)):
        now, error = law.exponents[j, k], max(float(first.errors.exponents[j, k]), ABOVE_ZERO)
        for value in SIMPLE:
            near = ((first.law.exponents[j, k] - value) / error) ** 2 < SNAPPING.reach
            if near and snap_penalty(value) <= SNAPPING.dearest and value != now:
                a, w, *inner = law.constants
                w = w.copy()
                w[j, k] = value
                changed.append((*merge_monomials(law.with_constants(a, w, *inner), free), polished.initial))
    return changed


def _goals(polished: Polished) -> list[tuple[float, tuple[int, int], float]]:
    """(expected change of the criterion, place of an exponent, simple value), best first."""
    law, errors = polished.law, polished.errors.exponents
    worth = constant_penalty(law.n_states, polished.counts.sum())
    goals = []
    for j, k in np.argwhere(polished.free[1]):
        error = max(float(errors[j, k]), ABOVE_ZERO)
        # Without its power a term costs nothing for it.
        for value, penalty in ((0.0, 0.0), *((value, snap_penalty(value)) for value in SIMPLE)):
            misfit = ((law.exponents[j, k] - value) / error) ** 2
            near = abs(law.exponents[j, k] - value) < SNAPPING.near
            if near or misfit < min(worth, SNAPPING.told_apart):
                goals.append((misfit + penalty - worth, (int(j), int(k)), value))
    return sorted(goals)


def _fixed(polished: Polished, places: dict[tuple[int, int], float]) -> tuple[PowerSum, Free, Array]:
    """Law, mask and starts with some exponents held; all other unknowns move along by the conditional mean."""
    law, free, initial = polished.law, polished.free, polished.initial
    index_of = {tuple(p): i for i, p in enumerate(np.argwhere(free[1]).tolist())}
    n_a = int(free[0].sum())
    theta = picked(law, free)
    index = np.array([n_a + index_of[place] for place in places])
    change = np.array(list(places.values())) - theta[index]
    c = polished.joint.matrix
    step = c[:, index] @ np.linalg.lstsq(c[np.ix_(index, index)], change, rcond=None)[0]
    # Far from the minimum a linear step is worse than none.
    near = [np.all(np.abs(part) <= SNAPPING.longest_step) for part in (step[: len(theta)], step[len(theta) :])]
    moved = theta + step[: len(theta)] if near[0] else theta.copy()
    start = initial + step[len(theta) :].reshape(initial.shape) if all(near) else initial
    moved[index] = list(places.values())
    still = free[1].copy()
    for place in places:
        still[place] = False
    changed = law.with_constants(*filled(law.constants, free, moved))
    return *merge_monomials(changed, (free[0], still, *free[2:])), start


def merge_monomials(law: PowerSum, free: Free) -> tuple[PowerSum, Free]:
    """Monomials that became equal as one; exponents stay held where they were."""
    merged = law.merged()
    rows = [int(np.flatnonzero((law.exponents == w).all(axis=1))[0]) for w in merged.exponents]
    held = free[1][rows].reshape(merged.exponents.shape)
    return merged, (merged.coefficients != 0, held, *free[2:])


def without_numbers(found: Polished, terms: Mask, powers: Mask) -> tuple[PowerSum, Free]:
    """The law without some terms, and with the nearest simple values for some exponents of states.

    Args:
        terms: those that go, bool [states, monomials].
        powers: exponents that become simple, bool [monomials, states].
    """
    a, w, b, v = (c.copy() for c in found.law.constants)
    free_a, free_w, free_b, free_v = (mask.copy() for mask in found.free)
    a[terms], free_a[terms] = 0.0, False
    simple = np.array([0.0, *SIMPLE])
    for j, k in np.argwhere(powers):
        w[j, k], free_w[j, k] = simple[np.argmin(np.abs(simple - w[j, k]))], False
    return without_unused(found.law.with_constants(a, w, b, v), (free_a, free_w, free_b, free_v))


def without_unused(law: PowerSum, free: Free) -> tuple[PowerSum, Free]:
    """The law with equal monomials as one, and without functions and sums that no monomial has."""
    law, free = merge_monomials(law, free)
    compact = law.compact()
    return (law, free) if compact.exponents.shape == law.exponents.shape else (compact, but_whole_powers(compact))
