"""Families of positive states: power sums, mass action, Lotka-Volterra and compartments."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from odediscovery.bench.random_laws.builder import Builder, case_of
from odediscovery.bench.random_laws.draft import Draft
from odediscovery.bench.random_laws.ranges import Chances, PositiveRanges, Range, drawn

OUTSIDE = -1


@dataclass(frozen=True)
class TermRanges(PositiveRanges):
    """Laws that are put together term by term."""

    states: Chances = drawn((0.25, 0.45, 0.3), "one, two or three states")
    rate: Range = drawn((0.2, 2.0), "size of a coefficient that is not named below")


@dataclass(frozen=True)
class PowerSumRanges(TermRanges):
    """Compartments with fluxes k x_s^a x_j^b, as many as states (two at least) or up to two more."""

    from_outside: float = drawn(0.4, "a flux from outside depends on the state that it enters")
    second_state: float = drawn(0.35, "a flux depends on a second state")
    simple_exponent: float = drawn(0.5, "an exponent is one of the simple ones")
    simple_exponents: tuple[float, ...] = drawn((0.5, 1.0, 1.0, 1.5, 2.0), "simple exponents")
    exponent: Range = drawn((0.2, 2.2), "other exponents, to two decimals")
    span: Range = drawn((3.0, 30.0), "last time")


@dataclass(frozen=True)
class MassActionRanges(TermRanges):
    """Two reactions, or up to two more than there are states."""

    states: Chances = drawn((0.15, 0.45, 0.4), "one, two or three states")
    before: Chances = drawn((0.15, 0.45, 0.4), "none, one or two molecules react")
    after: Chances = drawn((0.2, 0.45, 0.35), "none, one or two molecules are made")
    span: Range = drawn((2.0, 30.0), "last time")


@dataclass(frozen=True)
class LotkaVolterraRanges(TermRanges):
    """x_i' = x_i (r_i + sum_j a_ij x_j)."""

    states: Chances = drawn((0.15, 0.5, 0.35), "one, two or three states")
    growth_sign: Chances = drawn((0.4, 0.6), "r_i is negative, or positive")
    crowded: float = drawn(0.55, "there is a_ii, which is negative; always of one state alone")
    crowding: Range = drawn((0.1, 1.0), "size of a_ii")
    interaction: float = drawn(0.7, "there is a_ij, of either sign")
    starts: Range = drawn((0.2, 3.0), "starts, even on the logarithm")
    span: Range = drawn((4.0, 30.0), "last time")


@dataclass(frozen=True)
class CompartmentRanges(TermRanges):
    """Linear compartments."""

    inflow: float = drawn(0.35, "something flows into a compartment from outside")
    inflow_alone: float = drawn(0.6, "the same where there is one compartment alone")
    elimination: float = drawn(0.5, "a compartment loses something to the outside; always where it is alone")
    transfer: float = drawn(0.6, "a compartment loses something to another one")
    span: Range = drawn((2.0, 15.0), "last time")


POWER_SUMS, MASS_ACTION = PowerSumRanges(), MassActionRanges()
LOTKA_VOLTERRA, COMPARTMENTS = LotkaVolterraRanges(), CompartmentRanges()


def power_sums(r: np.random.Generator) -> Draft:
    """Compartments with fluxes k x_s^a x_j^b from a state s, or from outside, to a state or outside.

    At least one exponent is no whole number.
    """
    b = Builder(r, 1 + case_of(r, POWER_SUMS.states))
    n = b.states
    for flux in range(int(r.integers(max(n, 2), n + 2, endpoint=True))):
        source, target = r.choice(range(OUTSIDE, n), 2, replace=False).tolist()
        powers: dict[int, float | str] = {}
        if source != OUTSIDE or b.chance(POWER_SUMS.from_outside):
            powers[target if source == OUTSIDE else source] = b.inner(f"a{flux}", _exponent(b))
        if powers and n > 1 and b.chance(POWER_SUMS.second_state):
            other = int(r.choice([k for k in range(n) if k not in powers]))
            powers[other] = b.inner(f"b{flux}", _exponent(b))
        k = b.size(POWER_SUMS.rate)
        if source != OUTSIDE:
            b.add(source, -k, powers)
        if target != OUTSIDE:
            b.add(target, k, powers)
    draft = b.draft(b.positive_starts(POWER_SUMS.starts), b.size(POWER_SUMS.span))
    return draft if any(a % 1.0 for a in draft.inner.values()) else power_sums(r)


def _exponent(b: Builder) -> float:
    if b.chance(POWER_SUMS.simple_exponent):
        return float(b.random.choice(POWER_SUMS.simple_exponents))
    return round(float(b.random.uniform(*POWER_SUMS.exponent)), 2)


def mass_action(r: np.random.Generator) -> Draft:
    """Reactions of at most two molecules to at most two, at rates k times the amounts of what reacts."""
    b = Builder(r, 1 + case_of(r, MASS_ACTION.states))
    n = b.states
    for _ in range(int(r.integers(2, n + 2, endpoint=True))):
        before = r.integers(0, n, case_of(r, MASS_ACTION.before))
        after = r.integers(0, n, case_of(r, MASS_ACTION.after))
        orders = np.bincount(before, minlength=n)
        change, k = np.bincount(after, minlength=n) - orders, b.size(MASS_ACTION.rate)
        powers: dict[int, float | str] = {j: int(order) for j, order in enumerate(orders) if order}
        for state in np.flatnonzero(change):
            b.add(int(state), k * float(change[state]), powers)
    return b.draft(b.positive_starts(MASS_ACTION.starts), b.size(MASS_ACTION.span))


def lotka_volterra(r: np.random.Generator) -> Draft:
    """x_i' = x_i (r_i + sum_j a_ij x_j) with some a_ij."""
    b = Builder(r, 1 + case_of(r, LOTKA_VOLTERRA.states), "own")
    for i in range(b.states):
        b.add(i, b.size(LOTKA_VOLTERRA.rate) * r.choice((-1.0, 1.0), p=LOTKA_VOLTERRA.growth_sign), {i: 1})
        for j in range(b.states):
            if i == j and (b.states == 1 or b.chance(LOTKA_VOLTERRA.crowded)):
                b.add(i, -b.size(LOTKA_VOLTERRA.crowding), {i: 2})
            elif i != j and b.chance(LOTKA_VOLTERRA.interaction):
                b.add(i, b.signed_size(LOTKA_VOLTERRA.rate), {i: 1, j: 1})
    return b.draft(b.positive_starts(LOTKA_VOLTERRA.starts), b.size(LOTKA_VOLTERRA.span))


def compartments(r: np.random.Generator) -> Draft:
    """Linear compartments: constant inflows, transfer and elimination in proportion to the amount."""
    b = Builder(r, 1 + case_of(r, COMPARTMENTS.states))
    n = b.states
    for i in range(n):
        if b.chance(COMPARTMENTS.inflow_alone if n == 1 else COMPARTMENTS.inflow):
            b.add(i, b.size(COMPARTMENTS.rate))
        if n == 1 or b.chance(COMPARTMENTS.elimination):
            b.add(i, -b.size(COMPARTMENTS.rate), {i: 1})
        for j in range(n):
            if j != i and b.chance(COMPARTMENTS.transfer):
                k = b.size(COMPARTMENTS.rate)
                b.add(i, -k, {i: 1})
                b.add(j, k, {i: 1})
    return b.draft(b.positive_starts(COMPARTMENTS.starts), b.size(COMPARTMENTS.span))
