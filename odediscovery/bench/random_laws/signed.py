"""Families of states that change their sign: oscillators with polynomials, and with sines of angles."""

from __future__ import annotations

import numpy as np

from odediscovery.bench.random_laws.builder import Builder
from odediscovery.bench.random_laws.draft import Draft

# Whole powers of the first two states of terms that an oscillator may have besides its own.
EXTRAS: tuple[dict[int, float | str], ...] = ({}, {0: 2}, {0: 1, 1: 1}, {1: 2}, {0: 2, 1: 1}, {1: 3})


def oscillators(r: np.random.Generator) -> Draft:
    """Duffing, van der Pol, FitzHugh-Nagumo or jerk equations with further terms."""
    if r.random() < 0.15:
        return _jerk(r)
    b = Builder(r, 2 if r.random() < 0.7 else 3, "own")
    _restoring(b)
    _damping(b)
    if b.chance(0.25):
        b.add(0, b.size(0.1, 0.6), {0: 1})
        b.add(0, -b.size(0.1, 0.5), {0: 3})
    for k in r.permutation(len(EXTRAS))[: int(r.integers(0, 3))]:
        b.add(1, b.size(0.1, 0.8) * r.choice((-1.0, 1.0)), dict(EXTRAS[k]))
    if b.states == 3:
        b.add(2, -b.size(0.2, 1.5), {2: 1})
        b.add(2, b.size(0.3, 1.5), {0: 1} if b.chance(0.6) else {0: 1, 1: 1})
        if b.chance(0.7):
            b.add(1, b.size(0.2, 1.0) * r.choice((-1.0, 1.0)), {2: 1})
    return b.draft(b.signed_starts(), b.size(6.0, 20.0), positive=False)


def _restoring(b: Builder) -> None:
    """x' = p y, y' = -a x, -b x^3 or both; a may be negative beside b (two wells)."""
    b.add(0, b.size(0.6, 1.6), {1: 1})
    kind = int(b.random.integers(4))
    if kind != 1:
        b.add(1, -b.size(0.4, 2.0) * (-1.0 if kind == 3 else 1.0), {0: 1})
    if kind != 0:
        b.add(1, -b.size(0.3, 1.5), {0: 3})


def _damping(b: Builder) -> None:
    """Linear, cubic, or van der Pol's (1 - x^2) y."""
    kind = int(b.random.integers(4))
    if kind == 0:
        b.add(1, -b.size(0.05, 0.4), {1: 1})
    elif kind == 1:
        b.add(1, -b.size(0.05, 0.4), {1: 3})
    elif kind == 2:
        b.add(1, b.size(0.2, 1.5), {1: 1})
        b.add(1, -b.size(0.2, 1.5), {0: 2, 1: 1})


def _jerk(r: np.random.Generator) -> Draft:
    """x''' = -a x'' - b x' - c x + one further term."""
    b = Builder(r, 3, "own")
    b.add(0, 1.0, {1: 1})
    b.add(1, 1.0, {2: 1})
    for k, (low, high) in enumerate(((0.2, 1.0), (0.6, 2.0), (0.3, 1.0))):
        b.add(2, -b.size(low, high), {k: 1})
    further: tuple[dict[int, float | str], ...] = ({0: 2}, {0: 3}, {1: 2}, {0: 1, 1: 1}, {1: 3})
    b.add(2, b.size(0.1, 0.6) * r.choice((-1.0, 1.0)), further[int(r.integers(len(further)))])
    return b.draft(b.signed_starts(1.5), b.size(8.0, 20.0), positive=False)


def trigonometric(r: np.random.Generator) -> Draft:
    """Adler's equation, pendulums with damping and torque, and pendulums that drive a filter."""
    n = int(r.choice(3, p=(0.2, 0.55, 0.25))) + 1
    b = Builder(r, n, "none")
    sine = f"sin({b.inner('w', 1.0)}*x0)"
    if n == 1:
        b.add(0, b.size(0.3, 2.0) * r.choice((-1.0, 1.0)))
        b.add(0, b.size(0.5, 2.0) * r.choice((-1.0, 1.0)), factor=sine)
        if b.chance(0.5):
            b.add(0, -b.size(0.1, 0.5), {0: 1})
        return b.draft(b.signed_starts(2.8), b.size(4.0, 15.0), positive=False, wide=(0,))
    b.add(0, 1.0 if b.chance(0.7) else b.size(0.6, 1.6), {1: 1})
    b.add(1, -b.size(0.6, 3.0), factor=sine)
    damping = int(r.integers(4))
    if damping:
        b.add(1, -b.size(0.05, 0.4), {1: 3 if damping == 3 else 1})
    if b.chance(0.3):
        b.add(1, b.size(0.1, 0.8) * r.choice((-1.0, 1.0)))
    if b.chance(0.25):
        b.add(1, -b.size(0.1, 0.6), {0: 1})
    if n == 3:
        b.add(2, -b.size(0.2, 1.5), {2: 1})
        if b.chance(0.5):
            b.add(2, b.size(0.3, 1.5), {1: 1})
        else:
            b.add(2, b.size(0.3, 1.5), factor=sine)
        if b.chance(0.6):
            b.add(1, -b.size(0.2, 0.8), {2: 1})
    starts = b.signed_starts(2.6)
    starts[:, 0] += 0.2 * np.sign(starts[:, 0])
    return b.draft(starts, b.size(5.0, 20.0), positive=False, wide=(0,))
