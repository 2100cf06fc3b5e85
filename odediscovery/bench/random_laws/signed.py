"""Families of states that change their sign: oscillators with polynomials, and with sines of angles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import numpy as np

from odediscovery.bench.random_laws.builder import Builder, case_of
from odediscovery.bench.random_laws.draft import Draft
from odediscovery.bench.random_laws.ranges import Chances, Range, SignedRanges, drawn

# Powers of states by their index.
Powers: TypeAlias = dict[int, float | str]
Case = TypeVar("Case")


@dataclass(frozen=True)
class OscillatorRanges(SignedRanges):
    """x' = p y, y' = spring + damping + further terms, with a filter z in some."""

    jerk: float = drawn(0.15, "it is a jerk equation instead")
    two_states: float = drawn(0.7, "there is no filter")
    springs: tuple[tuple[float, float], ...] = drawn(
        ((-1.0, 0.0), (0.0, -1.0), (-1.0, -1.0), (1.0, -1.0)), "signs of the linear and of the cubic term of a spring"
    )
    linear: Range = drawn((0.4, 2.0), "size of the linear term")
    cubic: Range = drawn((0.3, 1.5), "size of the cubic term")
    dampings: tuple[int | str | None, ...] = drawn(
        (1, 3, "van der Pol", None), "power of the velocity that damps, van der Pol's (1 - x^2) y, or nothing"
    )
    van_der_pol: Range = drawn((0.2, 1.5), "size of both terms of van der Pol's")
    excitable: float = drawn(0.25, "x' has linear gain and cubic loss, as FitzHugh and Nagumo's")
    gain: Range = drawn((0.1, 0.6), "size of this gain")
    loss: Range = drawn((0.1, 0.5), "size of this loss")
    extras: tuple[Powers, ...] = drawn(
        ({}, {0: 2}, {0: 1, 1: 1}, {1: 2}, {0: 2, 1: 1}, {1: 3}),
        "powers of x (0) and y (1) in further terms of y', none, one or two of these",
    )
    extra: Range = drawn((0.1, 0.8), "size of a further term")
    by_state: float = drawn(0.6, "z is driven by x rather than x y")
    fed_back: float = drawn(0.7, "z acts on y")
    feedback: Range = drawn((0.2, 1.0), "size of this term")
    span: Range = drawn((6.0, 20.0), "last time")


@dataclass(frozen=True)
class JerkRanges(SignedRanges):
    """x''' = -a x'' - b x' - c x + one further term."""

    state: Range = drawn((0.2, 1.0), "c")
    velocity: Range = drawn((0.6, 2.0), "b")
    acceleration: Range = drawn((0.3, 1.0), "a")
    furthers: tuple[Powers, ...] = drawn(
        ({0: 2}, {0: 3}, {1: 2}, {0: 1, 1: 1}, {1: 3}), "powers of x (0) and x' (1) in the further term"
    )
    further: Range = drawn((0.1, 0.6), "size of the further term")
    starts: Range = drawn((-1.5, 1.5), "starts")
    span: Range = drawn((8.0, 20.0), "last time")


@dataclass(frozen=True)
class TrigonometricRanges(SignedRanges):
    """Adler's equation or a pendulum."""

    states: Chances = drawn((0.2, 0.55, 0.25), "Adler's equation, a pendulum, or a pendulum with a filter")


@dataclass(frozen=True)
class AdlerRanges(SignedRanges):
    """x' = a + b sin x, with a spring in some."""

    drift: Range = drawn((0.3, 2.0), "size of a")
    coupling: Range = drawn((0.5, 2.0), "size of b")
    has_spring: float = drawn(0.5, "there is a spring")
    spring: Range = drawn((0.1, 0.5), "size of the spring")
    starts: Range = drawn((-2.8, 2.8), "starts")
    span: Range = drawn((4.0, 15.0), "last time")


@dataclass(frozen=True)
class PendulumRanges(SignedRanges):
    """x' = p y, y' = -b sin x + damping + torque + spring, with a filter z in some."""

    plain_velocity: float = drawn(0.7, "p = 1")
    weight: Range = drawn((0.6, 3.0), "b")
    dampings: tuple[int | None, ...] = drawn((None, 1, 1, 3), "power of the velocity that damps, or nothing")
    has_torque: float = drawn(0.3, "there is a constant torque")
    torque: Range = drawn((0.1, 0.8), "size of the torque")
    has_spring: float = drawn(0.25, "there is a spring")
    spring: Range = drawn((0.1, 0.6), "size of the spring")
    by_velocity: float = drawn(0.5, "z is driven by y rather than sin x")
    fed_back: float = drawn(0.6, "z acts on y")
    feedback: Range = drawn((0.2, 0.8), "size of this term")
    starts: Range = drawn((-2.6, 2.6), "starts")
    aside: float = drawn(0.2, "by which the angle starts further from 0")
    span: Range = drawn((5.0, 20.0), "last time")


OSCILLATORS, JERK = OscillatorRanges(), JerkRanges()
TRIGONOMETRIC, ADLER, PENDULUM = TrigonometricRanges(), AdlerRanges(), PendulumRanges()


def _one_of(b: Builder, cases: Sequence[Case]) -> Case:
    return cases[int(b.random.integers(len(cases)))]


def oscillators(r: np.random.Generator) -> Draft:
    """Duffing, van der Pol, FitzHugh-Nagumo or jerk equations with further terms."""
    if r.random() < OSCILLATORS.jerk:
        return _jerk(r)
    filtered = r.random() >= OSCILLATORS.two_states
    b = Builder(r, 2 + filtered, "own")
    _spring(b)
    _damping(b)
    if b.chance(OSCILLATORS.excitable):
        b.add(0, b.size(OSCILLATORS.gain), {0: 1})
        b.add(0, -b.size(OSCILLATORS.loss), {0: 3})
    for k in r.permutation(len(OSCILLATORS.extras))[: int(r.integers(0, 2, endpoint=True))]:
        b.add(1, b.signed_size(OSCILLATORS.extra), OSCILLATORS.extras[k])
    if filtered:
        b.add(2, -b.size(OSCILLATORS.filter_decay), {2: 1})
        b.add(2, b.size(OSCILLATORS.filter_drive), {0: 1} if b.chance(OSCILLATORS.by_state) else {0: 1, 1: 1})
        if b.chance(OSCILLATORS.fed_back):
            b.add(1, b.signed_size(OSCILLATORS.feedback), {2: 1})
    return b.draft(b.signed_starts(OSCILLATORS.starts), b.size(OSCILLATORS.span), positive=False)


def _spring(b: Builder) -> None:
    """x' = p y, y' = -a x, -b x^3 or both; a may be negative beside b (two wells)."""
    b.add(0, b.size(OSCILLATORS.velocity), {1: 1})
    linear, cubic = _one_of(b, OSCILLATORS.springs)
    if linear:
        b.add(1, linear * b.size(OSCILLATORS.linear), {0: 1})
    if cubic:
        b.add(1, cubic * b.size(OSCILLATORS.cubic), {0: 3})


def _damping(b: Builder) -> None:
    """Linear, cubic, van der Pol's or none."""
    kind = _one_of(b, OSCILLATORS.dampings)
    if kind == "van der Pol":
        b.add(1, b.size(OSCILLATORS.van_der_pol), {1: 1})
        b.add(1, -b.size(OSCILLATORS.van_der_pol), {0: 2, 1: 1})
    elif kind is not None:
        b.add(1, -b.size(OSCILLATORS.damping), {1: kind})


def _jerk(r: np.random.Generator) -> Draft:
    """x''' = -a x'' - b x' - c x + one further term."""
    ranges = JERK.state, JERK.velocity, JERK.acceleration
    b = Builder(r, len(ranges), "own")
    b.add(0, 1.0, {1: 1})
    b.add(1, 1.0, {2: 1})
    for k, between in enumerate(ranges):
        b.add(2, -b.size(between), {k: 1})
    b.add(2, b.signed_size(JERK.further), _one_of(b, JERK.furthers))
    return b.draft(b.signed_starts(JERK.starts), b.size(JERK.span), positive=False)


def trigonometric(r: np.random.Generator) -> Draft:
    """Adler's equation, pendulums with damping and torque, and pendulums that drive a filter."""
    b = Builder(r, 1 + case_of(r, TRIGONOMETRIC.states), "none")
    sine = f"sin({b.inner('w', 1.0)}*x0)"
    return _adler(b, sine) if b.states == 1 else _pendulum(b, sine)


def _adler(b: Builder, sine: str) -> Draft:
    b.add(0, b.signed_size(ADLER.drift))
    b.add(0, b.signed_size(ADLER.coupling), factor=sine)
    if b.chance(ADLER.has_spring):
        b.add(0, -b.size(ADLER.spring), {0: 1})
    return b.draft(b.signed_starts(ADLER.starts), b.size(ADLER.span), positive=False, wide=(0,))


def _pendulum(b: Builder, sine: str) -> Draft:
    b.add(0, 1.0 if b.chance(PENDULUM.plain_velocity) else b.size(PENDULUM.velocity), {1: 1})
    b.add(1, -b.size(PENDULUM.weight), factor=sine)
    damping = _one_of(b, PENDULUM.dampings)
    if damping is not None:
        b.add(1, -b.size(PENDULUM.damping), {1: damping})
    if b.chance(PENDULUM.has_torque):
        b.add(1, b.signed_size(PENDULUM.torque))
    if b.chance(PENDULUM.has_spring):
        b.add(1, -b.size(PENDULUM.spring), {0: 1})
    if b.states > 2:
        b.add(2, -b.size(PENDULUM.filter_decay), {2: 1})
        if b.chance(PENDULUM.by_velocity):
            b.add(2, b.size(PENDULUM.filter_drive), {1: 1})
        else:
            b.add(2, b.size(PENDULUM.filter_drive), factor=sine)
        if b.chance(PENDULUM.fed_back):
            b.add(1, -b.size(PENDULUM.feedback), {2: 1})
    starts = b.signed_starts(PENDULUM.starts)
    starts[:, 0] += PENDULUM.aside * np.sign(starts[:, 0])
    return b.draft(starts, b.size(PENDULUM.span), positive=False, wide=(0,))
