"""Families of states that change their sign: oscillators with polynomials, and with sines of angles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from odediscovery.bench.random_laws.builder import Builder, case_of
from odediscovery.bench.random_laws.draft import Draft

# Sizes that several kinds share: p of x' = p y, damping, and what a filter z loses and is driven by.
VELOCITY, DAMPING, FILTER_DECAY, FILTER_DRIVE = (0.6, 1.6), (0.05, 0.4), (0.2, 1.5), (0.3, 1.5)
# Powers of x (0) and y (1) in further terms of y', of which none, one or two are there.
EXTRAS: tuple[dict[int, float | str], ...] = ({}, {0: 2}, {0: 1, 1: 1}, {1: 2}, {0: 2, 1: 1}, {1: 3})

Case = TypeVar("Case")


def _one_of(b: Builder, cases: Sequence[Case]) -> Case:
    return cases[int(b.random.integers(len(cases)))]


def oscillators(r: np.random.Generator) -> Draft:
    """Duffing, van der Pol, FitzHugh-Nagumo or jerk equations with further terms.

    x' = p y, y' = spring + damping + further terms, and in some a filter z that x or x y drives.
    """
    if r.random() < 0.15:
        return _jerk(r)
    filtered = r.random() >= 0.7
    b = Builder(r, 2 + filtered, "own")
    _spring(b)
    _damping(b)
    if b.chance(0.25):
        # As FitzHugh and Nagumo's.
        b.add(0, b.size(0.1, 0.6), {0: 1})
        b.add(0, -b.size(0.1, 0.5), {0: 3})
    for k in r.permutation(len(EXTRAS))[: int(r.integers(0, 2, endpoint=True))]:
        b.add(1, b.signed_size(0.1, 0.8), EXTRAS[k])
    if filtered:
        b.add(2, -b.size(*FILTER_DECAY), {2: 1})
        b.add(2, b.size(*FILTER_DRIVE), {0: 1} if b.chance(0.6) else {0: 1, 1: 1})
        if b.chance(0.7):
            b.add(1, b.signed_size(0.2, 1.0), {2: 1})
    return b.draft(b.signed_starts(), b.size(6.0, 20.0), positive=False)


def _spring(b: Builder) -> None:
    """x' = p y, y' = -a x, -b x^3 or both; a may be negative beside b (two wells)."""
    b.add(0, b.size(*VELOCITY), {1: 1})
    linear, cubic = _one_of(b, ((-1.0, 0.0), (0.0, -1.0), (-1.0, -1.0), (1.0, -1.0)))
    if linear:
        b.add(1, linear * b.size(0.4, 2.0), {0: 1})
    if cubic:
        b.add(1, cubic * b.size(0.3, 1.5), {0: 3})


def _damping(b: Builder) -> None:
    """Linear, cubic, van der Pol's or none."""
    kind = _one_of(b, (1, 3, "van der Pol", None))
    if kind == "van der Pol":
        b.add(1, b.size(0.2, 1.5), {1: 1})
        b.add(1, -b.size(0.2, 1.5), {0: 2, 1: 1})
    elif kind is not None:
        b.add(1, -b.size(*DAMPING), {1: kind})


def _jerk(r: np.random.Generator) -> Draft:
    """x''' = -a x'' - b x' - c x + one further term."""
    ranges = (0.2, 1.0), (0.6, 2.0), (0.3, 1.0)
    b = Builder(r, len(ranges), "own")
    b.add(0, 1.0, {1: 1})
    b.add(1, 1.0, {2: 1})
    for k, between in enumerate(ranges):
        b.add(2, -b.size(*between), {k: 1})
    b.add(2, b.signed_size(0.1, 0.6), _one_of(b, ({0: 2}, {0: 3}, {1: 2}, {0: 1, 1: 1}, {1: 3})))
    return b.draft(b.signed_starts(-1.5, 1.5), b.size(8.0, 20.0), positive=False)


def trigonometric(r: np.random.Generator) -> Draft:
    """Adler's equation, pendulums with damping and torque, and pendulums that drive a filter."""
    b = Builder(r, 1 + case_of(r, 0.2, 0.55, 0.25), "none")
    sine = f"sin({b.inner('w', 1.0)}*x0)"
    return _adler(b, sine) if b.states == 1 else _pendulum(b, sine)


def _adler(b: Builder, sine: str) -> Draft:
    """x' = a + b sin x, with a spring in some."""
    b.add(0, b.signed_size(0.3, 2.0))
    b.add(0, b.signed_size(0.5, 2.0), factor=sine)
    if b.chance(0.5):
        b.add(0, -b.size(0.1, 0.5), {0: 1})
    return b.draft(b.signed_starts(-2.8, 2.8), b.size(4.0, 15.0), positive=False, wide=(0,))


def _pendulum(b: Builder, sine: str) -> Draft:
    """x' = p y, y' = -b sin x + damping + torque + spring, with a filter z in some."""
    b.add(0, 1.0 if b.chance(0.7) else b.size(*VELOCITY), {1: 1})
    b.add(1, -b.size(0.6, 3.0), factor=sine)
    damping = _one_of(b, (None, 1, 1, 3))
    if damping is not None:
        b.add(1, -b.size(*DAMPING), {1: damping})
    if b.chance(0.3):
        b.add(1, b.signed_size(0.1, 0.8))
    if b.chance(0.25):
        b.add(1, -b.size(0.1, 0.6), {0: 1})
    if b.states > 2:
        b.add(2, -b.size(*FILTER_DECAY), {2: 1})
        if b.chance(0.5):
            b.add(2, b.size(*FILTER_DRIVE), {1: 1})
        else:
            b.add(2, b.size(*FILTER_DRIVE), factor=sine)
        if b.chance(0.6):
            b.add(1, -b.size(0.2, 0.8), {2: 1})
    starts = b.signed_starts(-2.6, 2.6)
    # Away from 0, near which a sine is a line.
    starts[:, 0] += 0.2 * np.sign(starts[:, 0])
    return b.draft(starts, b.size(5.0, 20.0), positive=False, wide=(0,))
