"""Families of positive states: power sums, mass action, Lotka-Volterra and compartments."""

from __future__ import annotations

import numpy as np

from odediscovery.bench.random_laws.builder import Builder, case_of
from odediscovery.bench.random_laws.draft import Draft

OUTSIDE = -1
# Size of a coefficient, and chances of one, two or three states, where nothing else is said.
RATE, STATES = (0.2, 2.0), (0.25, 0.45, 0.3)


def power_sums(r: np.random.Generator) -> Draft:
    """Compartments with fluxes k x_s^a x_j^b from a state s, or from outside, to a state or outside.

    As many fluxes as states (two at least) or up to two more. At least one exponent is no whole number.
    """
    b = Builder(r, 1 + case_of(r, *STATES))
    n = b.states
    for flux in range(int(r.integers(max(n, 2), n + 2, endpoint=True))):
        source, target = r.choice(range(OUTSIDE, n), 2, replace=False).tolist()
        powers: dict[int, float | str] = {}
        # A flux from outside may depend on the state that it enters.
        if source != OUTSIDE or b.chance(0.4):
            powers[target if source == OUTSIDE else source] = b.inner(f"a{flux}", _exponent(b))
        if powers and n > 1 and b.chance(0.35):
            other = int(r.choice([k for k in range(n) if k not in powers]))
            powers[other] = b.inner(f"b{flux}", _exponent(b))
        k = b.size(*RATE)
        if source != OUTSIDE:
            b.add(source, -k, powers)
        if target != OUTSIDE:
            b.add(target, k, powers)
    draft = b.draft(b.positive_starts(), b.size(3.0, 30.0))
    return draft if any(a % 1.0 for a in draft.inner.values()) else power_sums(r)


def _exponent(b: Builder) -> float:
    """A simple exponent, or one to two decimals."""
    if b.chance(0.5):
        return float(b.random.choice((0.5, 1.0, 1.0, 1.5, 2.0)))
    return round(float(b.random.uniform(0.2, 2.2)), 2)


def mass_action(r: np.random.Generator) -> Draft:
    """Reactions of at most two molecules to at most two, at rates k times the amounts of what reacts.

    Two reactions, or up to two more than there are states.
    """
    b = Builder(r, 1 + case_of(r, 0.15, 0.45, 0.4))
    n = b.states
    for _ in range(int(r.integers(2, n + 2, endpoint=True))):
        before = r.integers(0, n, case_of(r, 0.15, 0.45, 0.4))
        after = r.integers(0, n, case_of(r, 0.2, 0.45, 0.35))
        orders = np.bincount(before, minlength=n)
        change, k = np.bincount(after, minlength=n) - orders, b.size(*RATE)
        powers: dict[int, float | str] = {j: int(order) for j, order in enumerate(orders) if order}
        for state in np.flatnonzero(change):
            b.add(int(state), k * float(change[state]), powers)
    return b.draft(b.positive_starts(), b.size(2.0, 30.0))


def lotka_volterra(r: np.random.Generator) -> Draft:
    """x_i' = x_i (r_i + sum_j a_ij x_j) with some a_ij; a_ii is negative, the others are of either sign."""
    b = Builder(r, 1 + case_of(r, 0.15, 0.5, 0.35), "own")
    for i in range(b.states):
        b.add(i, b.size(*RATE) * r.choice((-1.0, 1.0), p=(0.4, 0.6)), {i: 1})
        for j in range(b.states):
            if i == j and (b.states == 1 or b.chance(0.55)):
                b.add(i, -b.size(0.1, 1.0), {i: 2})
            elif i != j and b.chance(0.7):
                b.add(i, b.signed_size(*RATE), {i: 1, j: 1})
    return b.draft(b.positive_starts(0.2, 3.0), b.size(4.0, 30.0))


def compartments(r: np.random.Generator) -> Draft:
    """Linear compartments: constant inflows, transfer and elimination in proportion to the amount."""
    b = Builder(r, 1 + case_of(r, *STATES))
    n = b.states
    for i in range(n):
        if b.chance(0.6 if n == 1 else 0.35):
            b.add(i, b.size(*RATE))
        if n == 1 or b.chance(0.5):
            b.add(i, -b.size(*RATE), {i: 1})
        for j in range(n):
            if j != i and b.chance(0.6):
                k = b.size(*RATE)
                b.add(i, -k, {i: 1})
                b.add(j, k, {i: 1})
    return b.draft(b.positive_starts(), b.size(2.0, 15.0))
