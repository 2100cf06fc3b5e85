"""Generators of random laws: terms with coefficients, constants inside the terms, starts and times.

    dx_i/dt = sum_j c_j phi_j(x; theta) over the terms j of state i

Coefficients c and inner constants theta (exponents, half-saturations, frequencies) are variables
of a draft, so that one batch of Runge-Kutta solutions covers every changed constant and every dropped term.
Terms are built in units of order 1, and written in the random units of a measurement.

The distributions of laws are fixed numbers of the benchmark, independent of the engine: a change of a
number, or of the order of draws, gives other laws, which invalidates all saved rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias, TypeVar

import numpy as np

from odediscovery.bench.systems import rounded
from odediscovery.ivp.solvers import rk4_step
from odediscovery.laws.equations import Equations
from odediscovery.runtime.arrays import Array

# Runge-Kutta steps between two samples.
STEPS = 8
# Larger states are out of bounds; a draft has units of order 1 before random units are drawn.
LARGEST = 1e12


@dataclass(frozen=True)
class Term:
    """c phi(x; theta) in the equation of one state, phi as text over x0, x1, ... and names of inner constants."""

    state: int
    coefficient: float
    shape: str


@dataclass(frozen=True)
class Draft:
    """A law with starts and times, not yet accepted."""

    states: int  # number of states
    terms: tuple[Term, ...]  # of all equations
    inner: Mapping[str, float]  # constants inside the terms, by name
    starts: Array  # [starts, states]; the last one is the unseen one
    span: float  # last time; the first is 0
    samples: int  # equally spaced, ends included
    positive: bool = True  # whether states have to stay positive
    wide: tuple[int, ...] = ()  # states whose range has to be wide, by index: sines of small angles are lines
    apart: bool = False  # whether states have scales of their own, each with bounds of its own

    @property
    def constants(self) -> Array:
        """Coefficients, then inner constants."""
        return np.array([*(term.coefficient for term in self.terms), *self.inner.values()])

    def _texts(self, coefficients: Sequence[str]) -> dict[str, str]:
        pairs = list(zip(coefficients, self.terms, strict=True))
        return {
            f"x{k}": " + ".join(f"{c}*{term.shape}" for c, term in pairs if term.state == k) or "0"
            for k in range(self.states)
        }

    def equations(self) -> Equations:
        """The law with its numbers, over x0, x1, ..."""
        texts = self._texts([f"({term.coefficient!r})" for term in self.terms])
        return Equations.parse(list(texts), texts, constants=dict(self.inner))

    @cached_property
    def _over_constants(self) -> Callable[[Array], Array]:
        """[..., states and constants] -> dx/dt [..., states]."""
        coefficients = [f"c{j}" for j in range(len(self.terms))]
        texts = self._texts(coefficients)
        law = Equations.parse(list(texts), texts, controls=[*coefficients, *self.inner])
        # Use expressions: a sum of powers of this many variables would be far slower.
        return replace(law, law=None).rhs_function()

    def simulate(self, starts: Array, constants: Array, most: float | Array = LARGEST) -> Array:
        """Solve [samples, members, states]; not finite after a solution exceeds the bounds, of all states or each."""
        over_constants, n = self._over_constants, self.states
        x, seen = starts, np.hstack([starts, constants])

        def rhs(_: float, at: Array) -> Array:
            seen[:, :n] = at
            return over_constants(seen)

        step = self.span / (self.samples - 1) / STEPS
        path = np.full((self.samples, len(x), n), np.nan)
        path[0] = starts
        with np.errstate(all="ignore"):
            for k in range(1, self.samples):
                for _ in range(STEPS):
                    x = rk4_step(rhs, x, step)
                size = np.abs(x)
                if np.min(most) < LARGEST and not (size <= most).all():
                    break
                x[~(size.max(axis=1) < LARGEST)] = np.nan
                path[k] = x
        return path


Case = TypeVar("Case")
# Starts of a draft: two to train on, and the unseen one.
STARTS = 3
# Digits of the constants of a law.
DIGITS = 3
Range: TypeAlias = tuple[float, float]
# Powers of ten of the units of states, and how many samples there may be; of states with scales of their own, too.
DECADES, SAMPLES = (-1.0, 2.0), (40, 60, 80, 100)
DECADES_APART, SAMPLES_APART = (-6.0, 6.0), (30, 40, 60, 80, 100, 150, 200, 300)


def case_of(random: np.random.Generator, *chances: float) -> int:
    """Draw one of several cases, counted from 0, with given probabilities."""
    return int(random.choice(len(chances), p=chances))


def one_of(random: np.random.Generator, cases: Sequence[Case]) -> Case:
    """Draw one of several cases, all as probable."""
    return cases[int(random.integers(len(cases)))]


class Builder:
    """Collects terms whose numbers are of order 1, and writes them in units: of all states, their own, or none."""

    def __init__(
        self, random: np.random.Generator, states: int, units: str | None = None, *, apart: bool = False
    ) -> None:
        self.random, self.states, self.apart = random, states, apart
        sizes = 10.0 ** random.uniform(*(DECADES_APART if apart else DECADES), states)
        units = units or ("own" if apart else "common")
        self.units: Array = {"common": np.full(states, sizes[0]), "own": sizes, "none": np.ones(states)}[units]
        self.time = 10.0 ** random.uniform(-1.0, 1.5)
        self._terms: dict[tuple[int, str], float] = {}
        self._inner: dict[str, float] = {}

    def chance(self, share: float) -> bool:
        """True in this share of the draws."""
        return bool(self.random.random() < share)

    def size(self, low: float, high: float) -> float:
        """A positive number between two, uniform on the logarithm."""
        return float(np.exp(self.random.uniform(np.log(low), np.log(high))))

    def signed_size(self, low: float, high: float) -> float:
        """A number of this size and of either sign."""
        return self.size(low, high) * float(self.random.choice((-1.0, 1.0)))

    def inner(self, name: str, value: float) -> str:
        """A constant inside terms, by name; it stays as it is."""
        self._inner[name] = value
        return name

    def constant_of(self, state: int, name: str, value: float, power: float = 1.0) -> str:
        """Add a power of a constant in the unit of a state, such as a half-saturation, by name: samples must
        identify it."""
        return self.inner(name, rounded((value * float(self.units[state])) ** power, DIGITS))

    def add(
        self, state: int, coefficient: float, powers: Mapping[int, float | str] | None = None, factor: str = ""
    ) -> None:
        """Add c prod_k x_k^w_k * factor to an equation, c in units of order 1; equal terms are added up."""
        size, shapes = float(self.units[state]) / self.time, []
        for k, w in (powers or {}).items():
            exponent = self._inner[w] if isinstance(w, str) else w
            size /= float(self.units[k]) ** exponent
            shapes.append(f"x{k}" if w == 1 else f"x{k}**{w}")
        key = state, "*".join([*shapes, *([factor] if factor else [])]) or "1"
        self._terms[key] = self._terms.get(key, 0.0) + coefficient * size

    def draft(self, starts: Range, span: Range, *, wide: tuple[int, ...] = (), push: float = 0.0) -> Draft:
        """The draft of these terms, with starts and a last time in these ranges in units of order 1, even on the
        logarithm where they are positive; a `push` moves starts of wide states away from 0."""
        positive = starts[0] > 0.0
        low, high = np.log(starts) if positive else starts
        first: Array = self.random.uniform(low, high, (STARTS, self.states))
        first = np.exp(first) if positive else first
        first[:, list(wide)] += push * np.sign(first[:, list(wide)])
        end = rounded(self.size(*span) * self.time, 2)
        terms = tuple(Term(k, rounded(c, DIGITS), shape) for (k, shape), c in self._terms.items() if c)
        begin = np.vectorize(rounded)(first * self.units, DIGITS)
        count = int(self.random.choice(SAMPLES_APART if self.apart else SAMPLES))
        names = {name for term in terms for name in re.findall(r"\w+", term.shape)}
        used = {n: v for n, v in self._inner.items() if n in names}
        return Draft(self.states, terms, used, begin, end, count, positive, wide, self.apart)


OUTSIDE = -1
# Size of a coefficient, and chances of one, two or three states, where nothing else is said.
RATE, STATES = (0.2, 2.0), (0.25, 0.45, 0.3)


def power_sums(r: np.random.Generator) -> Draft:
    """Fluxes k x_s^a x_j^b from a state s, or from outside, to another one or outside; some exponent is no whole
    number."""
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
    draft = b.draft((0.2, 4.0), (3.0, 30.0))
    return draft if any(a % 1.0 for a in draft.inner.values()) else power_sums(r)


def _exponent(b: Builder) -> float:
    """A simple exponent, or one to two decimals."""
    if b.chance(0.5):
        return float(b.random.choice((0.5, 1.0, 1.0, 1.5, 2.0)))
    return round(float(b.random.uniform(0.2, 2.2)), 2)


def mass_action(r: np.random.Generator) -> Draft:
    """Reactions of at most two molecules to at most two, at rates k times the amounts of what reacts."""
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
    return b.draft((0.2, 4.0), (2.0, 30.0))


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
    return b.draft((0.2, 3.0), (4.0, 30.0))


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
    return b.draft((0.2, 4.0), (2.0, 15.0))


# Sizes that several kinds share: p of x' = p y, damping, and what a filter z loses and is driven by.
VELOCITY, DAMPING, FILTER_DECAY, FILTER_DRIVE = (0.6, 1.6), (0.05, 0.4), (0.2, 1.5), (0.3, 1.5)
# Powers of x (0) and y (1) in further terms of y', at most two of them.
EXTRAS: tuple[dict[int, float | str], ...] = ({}, {0: 2}, {0: 1, 1: 1}, {1: 2}, {0: 2, 1: 1}, {1: 3})


def oscillators(r: np.random.Generator) -> Draft:
    """x' = p y, y' = spring + damping + further terms, and in some a filter z that x or x y drives; or a jerk
    equation."""
    if r.random() < 0.15:
        return _jerk(r)
    filtered = r.random() >= 0.7
    b = Builder(r, 2 + filtered, "own")
    b.add(0, b.size(*VELOCITY), {1: 1})
    # A spring may have a negative linear part beside a cubic one (two wells).
    linear, cubic = one_of(r, ((-1.0, 0.0), (0.0, -1.0), (-1.0, -1.0), (1.0, -1.0)))
    if linear:
        b.add(1, linear * b.size(0.4, 2.0), {0: 1})
    if cubic:
        b.add(1, cubic * b.size(0.3, 1.5), {0: 3})
    damping = one_of(r, (1, 3, "van der Pol", None))
    if damping == "van der Pol":
        b.add(1, b.size(0.2, 1.5), {1: 1})
        b.add(1, -b.size(0.2, 1.5), {0: 2, 1: 1})
    elif damping is not None:
        b.add(1, -b.size(*DAMPING), {1: damping})
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
    return b.draft((-2.0, 2.0), (6.0, 20.0))


def _jerk(r: np.random.Generator) -> Draft:
    """x''' = -a x'' - b x' - c x + one further term."""
    ranges = (0.2, 1.0), (0.6, 2.0), (0.3, 1.0)
    b = Builder(r, len(ranges), "own")
    b.add(0, 1.0, {1: 1})
    b.add(1, 1.0, {2: 1})
    for k, between in enumerate(ranges):
        b.add(2, -b.size(*between), {k: 1})
    b.add(2, b.signed_size(0.1, 0.6), one_of(b.random, ({0: 2}, {0: 3}, {1: 2}, {0: 1, 1: 1}, {1: 3})))
    return b.draft((-1.5, 1.5), (8.0, 20.0))


def trigonometric(r: np.random.Generator) -> Draft:
    """Adler's equation x' = a + b sin x, with a spring in some; pendulums with damping and torque, and pendulums that
    drive a filter."""
    b = Builder(r, 1 + case_of(r, 0.2, 0.55, 0.25), "none")
    sine = f"sin({b.inner('w', 1.0)}*x0)"
    if b.states > 1:
        return _pendulum(b, sine)
    b.add(0, b.signed_size(0.3, 2.0))
    b.add(0, b.signed_size(0.5, 2.0), factor=sine)
    if b.chance(0.5):
        b.add(0, -b.size(0.1, 0.5), {0: 1})
    return b.draft((-2.8, 2.8), (4.0, 15.0), wide=(0,))


def _pendulum(b: Builder, sine: str) -> Draft:
    """x' = p y, y' = -b sin x + damping + torque + spring, with a filter z in some."""
    b.add(0, 1.0 if b.chance(0.7) else b.size(*VELOCITY), {1: 1})
    b.add(1, -b.size(0.6, 3.0), factor=sine)
    damping = one_of(b.random, (None, 1, 1, 3))
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
    # Near 0 a sine is a line.
    return b.draft((-2.6, 2.6), (5.0, 20.0), wide=(0,), push=0.2)


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


def hill_exponent(b: Builder, least: float = 1.4) -> float:
    """A Hill exponent, whole or to one decimal."""
    if b.chance(0.6):
        return float(b.random.choice((2.0, 3.0, 4.0)))
    return round(float(b.random.uniform(least, 4.0)), 1)


def _michaelis_menten(b: Builder) -> None:
    """x' = s - V x/(K + x) - d x, without s or without d."""
    if b.chance(0.6):
        b.add(0, b.size(0.1, 0.8))
    elif b.chance(0.5):
        b.add(0, -b.size(0.1, 0.5), {0: 1})
    b.add(0, -b.size(0.6, 2.0), factor=_saturation(b, 0, "m"))


def _harvest(b: Builder) -> None:
    """x' = r x - c x^2 - V x^n/(K^n + x^n), n = 1 or 2."""
    b.add(0, b.size(0.4, 2.0), {0: 1})
    b.add(0, -b.size(0.1, 0.5), {0: 2})
    b.add(0, -b.size(0.4, 2.0), factor=_saturation(b, 0, "h", 2.0 if b.chance(0.7) else None))


def _autoregulation(b: Builder) -> None:
    """x' = s + V x^n/(K^n + x^n) - d x, or V K^n/(K^n + x^n) - d x, n a Hill exponent."""
    if b.chance(0.5):
        b.add(0, b.size(0.1, 0.5))
        b.add(0, b.size(0.6, 3.0), factor=_saturation(b, 0, "a", hill_exponent(b)))
    else:
        b.add(0, b.size(0.6, 3.0), factor=_repression(b, 0, "r", hill_exponent(b)))
    b.add(0, -b.size(0.4, 1.5), {0: 1})


def _predator(b: Builder) -> None:
    """x' = r x - c x^2 - V y x^n/(K^n + x^n), y' = e V y x^n/(K^n + x^n) - d y, n = 1 or 2 (Holling II or III)."""
    factor = _saturation(b, 0, "p", 2.0 if b.chance(0.35) else None)
    v = b.size(0.6, 2.5)
    b.add(0, b.size(0.5, 2.0), {0: 1})
    b.add(0, -b.size(0.1, 0.6), {0: 2})
    b.add(0, -v, {1: 1}, factor)
    b.add(1, v * b.size(0.3, 1.0), {1: 1}, factor)
    b.add(1, -b.size(0.2, 0.8), {1: 1})


def _chemostat(b: Builder) -> None:
    """Monod: S' = D (S0 - S) - V/Y X S/(K + S), X' = V X S/(K + S) - D X; in a batch D = 0, and X dies."""
    factor, v = _saturation(b, 0, "s"), b.size(0.6, 2.0)
    dilution = 0.0 if b.chance(0.3) else b.size(0.1, 0.6)
    b.add(0, dilution * b.size(1.0, 4.0))
    b.add(0, -dilution, {0: 1})
    b.add(1, -(dilution or b.size(0.05, 0.3)), {1: 1})
    b.add(0, -v / b.size(0.3, 1.0), {1: 1}, factor)
    b.add(1, v, {1: 1}, factor)


def _enzymes(b: Builder) -> None:
    """x' = s - V x/(K + x), y' = V x/(K + x) - d y, or y saturates too."""
    factor, v = _saturation(b, 0, "1"), b.size(0.6, 2.0)
    if b.chance(0.6):
        b.add(0, b.size(0.1, 0.8))
    b.add(0, -v, factor=factor)
    b.add(1, v, factor=factor)
    if b.chance(0.5):
        b.add(1, -b.size(0.2, 1.0), {1: 1})
    else:
        b.add(1, -b.size(0.6, 2.0), factor=_saturation(b, 1, "2"))


def _genes(b: Builder) -> None:
    """x' = k y - d x, y' = V K^n/(K^n + x^n) - e y, or V x^n/(K^n + x^n) - e y, n a Hill exponent."""
    regulated = _repression if b.chance(0.6) else _saturation
    b.add(0, b.size(0.5, 2.0), {1: 1})
    b.add(0, -b.size(0.3, 1.5), {0: 1})
    b.add(1, b.size(0.8, 4.0), factor=regulated(b, 0, "g", hill_exponent(b)))
    b.add(1, -b.size(0.3, 1.5), {1: 1})


# What adds the terms, how many states, their units, and the ranges of the starts and of the last time. Twice what is
# common, so that it is drawn twice as often.
SATURATING: tuple[tuple[Callable[[Builder], None], int, str, Range, Range], ...] = (
    (_michaelis_menten, 1, "common", (0.1, 6.0), (3.0, 15.0)),
    (_harvest, 1, "common", (0.1, 6.0), (3.0, 15.0)),
    (_autoregulation, 1, "common", (0.05, 5.0), (2.0, 8.0)),
    (_predator, 2, "own", (0.3, 4.0), (8.0, 40.0)),
    (_predator, 2, "own", (0.3, 4.0), (8.0, 40.0)),
    (_chemostat, 2, "own", (0.2, 4.0), (4.0, 20.0)),
    (_enzymes, 2, "common", (0.2, 5.0), (4.0, 20.0)),
    (_genes, 2, "own", (0.1, 4.0), (4.0, 15.0)),
)


def saturating(r: np.random.Generator) -> Draft:
    """Draw one of the common laws with a saturating rate."""
    add_terms, states, units, starts, span = one_of(r, SATURATING)
    b = Builder(r, states, units)
    add_terms(b)
    return b.draft(starts, span)
