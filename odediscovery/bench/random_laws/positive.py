"""Families of positive states: power sums, mass action, Lotka-Volterra, compartments, saturation."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from odediscovery.bench.random_laws.builder import Builder
from odediscovery.bench.random_laws.draft import Draft

OUTSIDE = -1
# Exponents that are not drawn from the real numbers.
SIMPLE_POWERS = (0.5, 1.0, 1.0, 1.5, 2.0)


def _states(r: np.random.Generator, shares: tuple[float, ...] = (0.25, 0.45, 0.3)) -> int:
    return int(r.choice(len(shares), p=shares)) + 1


def power_sums(r: np.random.Generator) -> Draft:
    """Compartments with fluxes k x_s^a x_j^b from a state s, or from outside, to a state or outside.

    At least one exponent is no whole number.
    """
    b = Builder(r, _states(r))
    n = b.states
    for flux in range(int(r.integers(max(n, 2), n + 3))):
        source, target = r.choice(range(OUTSIDE, n), 2, replace=False).tolist()
        powers: dict[int, float | str] = {}
        if source != OUTSIDE or b.chance(0.4):
            powers[target if source == OUTSIDE else source] = b.inner(f"a{flux}", _exponent(b))
        if powers and n > 1 and b.chance(0.35):
            other = int(r.choice([k for k in range(n) if k not in powers]))
            powers[other] = b.inner(f"b{flux}", _exponent(b))
        k = b.size()
        if source != OUTSIDE:
            b.add(source, -k, powers)
        if target != OUTSIDE:
            b.add(target, k, powers)
    draft = b.draft(b.positive_starts(), b.size(3.0, 30.0))
    return draft if any(a % 1.0 for a in draft.inner.values()) else power_sums(r)


def _exponent(b: Builder) -> float:
    if b.chance(0.5):
        return float(b.random.choice(SIMPLE_POWERS))
    return round(float(b.random.uniform(0.2, 2.2)), 2)


def mass_action(r: np.random.Generator) -> Draft:
    """Reactions of at most two molecules to at most two, at rates k times the amounts of what reacts."""
    b = Builder(r, _states(r, (0.15, 0.45, 0.4)))
    n = b.states
    for _ in range(int(r.integers(2, n + 3))):
        before = r.integers(0, n, int(r.choice(3, p=(0.15, 0.45, 0.4))))
        after = r.integers(0, n, int(r.choice(3, p=(0.2, 0.45, 0.35))))
        orders = np.bincount(before, minlength=n)
        change, k = np.bincount(after, minlength=n) - orders, b.size()
        powers: dict[int, float | str] = {j: int(order) for j, order in enumerate(orders) if order}
        for state in np.flatnonzero(change):
            b.add(int(state), k * float(change[state]), powers)
    return b.draft(b.positive_starts(), b.size(2.0, 30.0))


def lotka_volterra(r: np.random.Generator) -> Draft:
    """x_i' = x_i (r_i + sum_j a_ij x_j) with some a_ij."""
    b = Builder(r, _states(r, (0.15, 0.5, 0.35)), "own")
    for i in range(b.states):
        b.add(i, b.size() * r.choice((-1.0, 1.0), p=(0.4, 0.6)), {i: 1})
        for j in range(b.states):
            if i == j and (b.states == 1 or b.chance(0.55)):
                b.add(i, -b.size(0.1, 1.0), {i: 2})
            elif i != j and b.chance(0.7):
                b.add(i, b.size() * r.choice((-1.0, 1.0)), {i: 1, j: 1})
    return b.draft(b.positive_starts(0.2, 3.0), b.size(4.0, 30.0))


def compartments(r: np.random.Generator) -> Draft:
    """Linear compartments: constant inflows, transfer and elimination in proportion to the amount."""
    b = Builder(r, _states(r))
    n = b.states
    for i in range(n):
        if b.chance(0.6 if n == 1 else 0.35):
            b.add(i, b.size())
        if n == 1 or b.chance(0.5):
            b.add(i, -b.size(), {i: 1})
        for j in range(n):
            if j != i and b.chance(0.6):
                k = b.size()
                b.add(i, -k, {i: 1})
                b.add(j, k, {i: 1})
    return b.draft(b.positive_starts(), b.size(2.0, 15.0))


def saturating(r: np.random.Generator) -> Draft:
    """One of the common laws in which a rate saturates."""
    build = SATURATING[int(r.integers(len(SATURATING)))]
    return build(r)


def _saturation(b: Builder, state: int, name: str, power: float | None = None) -> str:
    """x^n/(h + x^n) as text, h = K^n, where n = 1 unless given."""
    size, x = b.size(0.3, 2.0), f"x{state}"
    if power is None:
        return f"{x}/({b.constant_of(state, f'h{name}', size)} + {x})"
    n = b.inner(f"n{name}", power)
    return f"{x}**{n}/({b.constant_of(state, f'h{name}', size, power)} + {x}**{n})"


def _repression(b: Builder, state: int, name: str, power: float) -> str:
    """h/(h + x^n) as text, h = K^n."""
    h = b.constant_of(state, f"h{name}", b.size(0.3, 2.0), power)
    return f"{h}/({h} + x{state}**{b.inner(f'n{name}', power)})"


def _hill(b: Builder) -> float:
    return float(b.random.choice((2.0, 3.0, 4.0))) if b.chance(0.6) else round(float(b.random.uniform(1.4, 4.0)), 1)


def _michaelis_menten(r: np.random.Generator) -> Draft:
    """x' = s - V x/(K + x) - d x, without s or without d."""
    b = Builder(r, 1)
    if b.chance(0.6):
        b.add(0, b.size(0.1, 0.8))
    elif b.chance(0.5):
        b.add(0, -b.size(0.1, 0.5), {0: 1})
    b.add(0, -b.size(0.6, 2.0), factor=_saturation(b, 0, "m"))
    return b.draft(b.positive_starts(0.1, 6.0), b.size(3.0, 15.0))


def _harvest(r: np.random.Generator) -> Draft:
    """x' = r x - c x^2 - V x^n/(K^n + x^n), n = 1 or 2."""
    b = Builder(r, 1)
    b.add(0, b.size(0.4, 2.0), {0: 1})
    b.add(0, -b.size(0.1, 0.5), {0: 2})
    b.add(0, -b.size(0.4, 2.0), factor=_saturation(b, 0, "h", 2.0 if b.chance(0.7) else None))
    return b.draft(b.positive_starts(0.1, 6.0), b.size(3.0, 15.0))


def _autoregulation(r: np.random.Generator) -> Draft:
    """x' = s + V x^n/(K^n + x^n) - d x, or with repression instead."""
    b = Builder(r, 1)
    if b.chance(0.5):
        b.add(0, b.size(0.1, 0.5))
        b.add(0, b.size(0.6, 3.0), factor=_saturation(b, 0, "a", _hill(b)))
    else:
        b.add(0, b.size(0.6, 3.0), factor=_repression(b, 0, "r", _hill(b)))
    b.add(0, -b.size(0.4, 1.5), {0: 1})
    return b.draft(b.positive_starts(0.05, 5.0), b.size(2.0, 8.0))


def _predator(r: np.random.Generator) -> Draft:
    """Rosenzweig and MacArthur: logistic prey, predators that saturate (Holling II or III)."""
    b = Builder(r, 2, "own")
    factor, v = _saturation(b, 0, "p", 2.0 if b.chance(0.35) else None), b.size(0.6, 2.5)
    b.add(0, b.size(0.5, 2.0), {0: 1})
    b.add(0, -b.size(0.1, 0.6), {0: 2})
    b.add(0, -v, {1: 1}, factor)
    b.add(1, v * b.size(0.3, 1.0), {1: 1}, factor)
    b.add(1, -b.size(0.2, 0.8), {1: 1})
    return b.draft(b.positive_starts(0.3, 4.0), b.size(8.0, 40.0))


def _chemostat(r: np.random.Generator) -> Draft:
    """Monod: S' = D (S0 - S) - V/Y X S/(K + S), X' = V X S/(K + S) - D X; D = 0 is a batch."""
    b = Builder(r, 2, "own")
    factor, v = _saturation(b, 0, "s"), b.size(0.6, 2.0)
    dilution = 0.0 if b.chance(0.3) else b.size(0.1, 0.6)
    b.add(0, dilution * b.size(1.0, 4.0))
    b.add(0, -dilution, {0: 1})
    b.add(1, -(dilution or b.size(0.05, 0.3)), {1: 1})
    b.add(0, -v / b.size(0.3, 1.0), {1: 1}, factor)
    b.add(1, v, {1: 1}, factor)
    return b.draft(b.positive_starts(0.2, 4.0), b.size(4.0, 20.0))


def _enzymes(r: np.random.Generator) -> Draft:
    """Two steps: what saturates leaves x for y, which decays or saturates as well."""
    b = Builder(r, 2)
    factor, v = _saturation(b, 0, "1"), b.size(0.6, 2.0)
    if b.chance(0.6):
        b.add(0, b.size(0.1, 0.8))
    b.add(0, -v, factor=factor)
    b.add(1, v, factor=factor)
    if b.chance(0.5):
        b.add(1, -b.size(0.2, 1.0), {1: 1})
    else:
        b.add(1, -b.size(0.6, 2.0), factor=_saturation(b, 1, "2"))
    return b.draft(b.positive_starts(0.2, 5.0), b.size(4.0, 20.0))


def _genes(r: np.random.Generator) -> Draft:
    """x represses or activates y, which makes x."""
    b = Builder(r, 2, "own")
    regulated = _repression if b.chance(0.6) else _saturation
    b.add(0, b.size(0.5, 2.0), {1: 1})
    b.add(0, -b.size(0.3, 1.5), {0: 1})
    b.add(1, b.size(0.8, 4.0), factor=regulated(b, 0, "g", _hill(b)))
    b.add(1, -b.size(0.3, 1.5), {1: 1})
    return b.draft(b.positive_starts(0.1, 4.0), b.size(4.0, 15.0))


SATURATING: tuple[Callable[[np.random.Generator], Draft], ...] = (
    _michaelis_menten,
    _harvest,
    _autoregulation,
    _predator,
    _predator,
    _chemostat,
    _enzymes,
    _genes,
)
