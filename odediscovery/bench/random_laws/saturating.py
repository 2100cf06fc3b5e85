"""The family in which a rate saturates: Michaelis-Menten, Monod, Hill, Holling II and III, in one or two states.

What saturates is x^n/(K^n + x^n) in all of them, or the repression K^n/(K^n + x^n).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from odediscovery.bench.random_laws.builder import Builder
from odediscovery.bench.random_laws.draft import Draft


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
    """A Hill exponent, whole or to one decimal."""
    if b.chance(0.6):
        return float(b.random.choice((2.0, 3.0, 4.0)))
    return round(float(b.random.uniform(1.4, 4.0)), 1)


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
    """x' = s + V x^n/(K^n + x^n) - d x, or V K^n/(K^n + x^n) - d x, n a Hill exponent."""
    b = Builder(r, 1)
    if b.chance(0.5):
        b.add(0, b.size(0.1, 0.5))
        b.add(0, b.size(0.6, 3.0), factor=_saturation(b, 0, "a", _hill(b)))
    else:
        b.add(0, b.size(0.6, 3.0), factor=_repression(b, 0, "r", _hill(b)))
    b.add(0, -b.size(0.4, 1.5), {0: 1})
    return b.draft(b.positive_starts(0.05, 5.0), b.size(2.0, 8.0))


def _predator(r: np.random.Generator) -> Draft:
    """Rosenzweig and MacArthur, Holling II or III: n = 1 or 2 in

    x' = r x - c x^2 - V y x^n/(K^n + x^n),    y' = e V y x^n/(K^n + x^n) - d y
    """
    b = Builder(r, 2, "own")
    factor = _saturation(b, 0, "p", 2.0 if b.chance(0.35) else None)
    v = b.size(0.6, 2.5)
    b.add(0, b.size(0.5, 2.0), {0: 1})
    b.add(0, -b.size(0.1, 0.6), {0: 2})
    b.add(0, -v, {1: 1}, factor)
    b.add(1, v * b.size(0.3, 1.0), {1: 1}, factor)
    b.add(1, -b.size(0.2, 0.8), {1: 1})
    return b.draft(b.positive_starts(0.3, 4.0), b.size(8.0, 40.0))


def _chemostat(r: np.random.Generator) -> Draft:
    """Monod: S' = D (S0 - S) - V/Y X S/(K + S), X' = V X S/(K + S) - D X; in a batch D = 0, and X dies."""
    b = Builder(r, 2, "own")
    factor, v = _saturation(b, 0, "s"), b.size(0.6, 2.0)
    dilution = 0.0 if b.chance(0.3) else b.size(0.1, 0.6)
    b.add(0, dilution * b.size(1.0, 4.0))
    b.add(0, -dilution, {0: 1})
    b.add(1, -(dilution or b.size(0.05, 0.3)), {1: 1})
    b.add(0, -v / b.size(0.3, 1.0), {1: 1}, factor)
    b.add(1, v, {1: 1}, factor)
    return b.draft(b.positive_starts(), b.size(4.0, 20.0))


def _enzymes(r: np.random.Generator) -> Draft:
    """x' = s - V x/(K + x), y' = V x/(K + x) - d y, or y saturates too."""
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
    """x' = k y - d x, y' = V K^n/(K^n + x^n) - e y, or V x^n/(K^n + x^n) - e y, n a Hill exponent."""
    b = Builder(r, 2, "own")
    regulated = _repression if b.chance(0.6) else _saturation
    b.add(0, b.size(0.5, 2.0), {1: 1})
    b.add(0, -b.size(0.3, 1.5), {0: 1})
    b.add(1, b.size(0.8, 4.0), factor=regulated(b, 0, "g", _hill(b)))
    b.add(1, -b.size(0.3, 1.5), {1: 1})
    return b.draft(b.positive_starts(0.1, 4.0), b.size(4.0, 15.0))


# Twice what is common, so that it is drawn twice as often.
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
