"""Terms put together in units of order 1, and written in the random units of a measurement.

From what laws are drawn stands in their generators, as numbers of the benchmark, none of the engine: whoever
changes one of them, or the order in which they are drawn, gets other laws, and no kept row is of these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from odediscovery.bench.random_laws.draft import Draft, Term
from odediscovery.runtime.arrays import Array

# Starts of a draft: two to train on, and the unseen one.
STARTS = 3
# Digits of the constants of a law.
DIGITS = 3
# Samples of a trajectory, and powers of 10 that are the units of a state and of the time.
SAMPLES, STATE_UNITS, TIME_UNITS = (40, 60, 80, 100), (-1.0, 2.0), (-1.0, 1.5)


def case_of(random: np.random.Generator, *chances: float) -> int:
    """Which of several cases, the first one 0, when each has its chance."""
    return int(random.choice(len(chances), p=chances))


def rounded(value: float, digits: int = DIGITS) -> float:
    """A number to so many significant digits.

    >>> rounded(0.0123456)
    0.0123
    """
    return float(f"{value:.{digits - 1}e}")


class Builder:
    """Collects terms whose numbers are of order 1, and writes them in random units.

    Args:
        random: the stream of the draw.
        states: number of states.
        units: "common" for all states, "own" for each, or "none".
    """

    def __init__(self, random: np.random.Generator, states: int, units: str = "common") -> None:
        self.random, self.states = random, states
        sizes = 10.0 ** random.uniform(*STATE_UNITS, states)
        self.units: Array = {"common": np.full(states, sizes[0]), "own": sizes, "none": np.ones(states)}[units]
        self.time = 10.0 ** random.uniform(*TIME_UNITS)
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
        """A power of a constant in the unit of a state, such as a half-saturation, by name.

        It is this power, as a law is printed and scored, that samples have to tell.
        """
        return self.inner(name, rounded((value * float(self.units[state])) ** power))

    def add(
        self, state: int, coefficient: float, powers: Mapping[int, float | str] | None = None, factor: str = ""
    ) -> None:
        """Add c prod_k x_k^w_k * factor to an equation; equal terms are added up.

        Args:
            state: whose equation.
            coefficient: in units of order 1.
            powers: w by state: a number, or the name of an inner constant.
            factor: further factor without a unit, as text.
        """
        size, shapes = float(self.units[state]) / self.time, []
        for k, w in (powers or {}).items():
            exponent = self._inner[w] if isinstance(w, str) else w
            size /= float(self.units[k]) ** exponent
            shapes.append(f"x{k}" if w == 1 else f"x{k}**{w}")
        key = state, "*".join([*shapes, *([factor] if factor else [])]) or "1"
        self._terms[key] = self._terms.get(key, 0.0) + coefficient * size

    def draft(self, starts: Array, span: float, *, positive: bool = True, wide: Sequence[int] = ()) -> Draft:
        """The draft of these terms.

        Args:
            starts: [starts, states] in units of order 1.
            span: last time in units of order 1.
            positive: whether states have to stay positive.
            wide: angles, whose range has to be wide enough that their sines are no lines.
        """
        terms = tuple(Term(k, rounded(c), shape) for (k, shape), c in self._terms.items() if c)
        begin = np.vectorize(rounded)(starts * self.units)
        samples = int(self.random.choice(SAMPLES))
        used = {n: v for n, v in self._inner.items() if any(n in _names(term.shape) for term in terms)}
        return Draft(
            self.states, terms, used, begin, rounded(span * self.time, 2), samples, positive, dict.fromkeys(wide, 2.0)
        )

    def positive_starts(self, low: float = 0.2, high: float = 4.0) -> Array:
        """Starts [starts, states] of positive states, in units of order 1, even on the logarithm."""
        starts: Array = np.exp(self.random.uniform(np.log(low), np.log(high), (STARTS, self.states)))
        return starts

    def signed_starts(self, low: float = -2.0, high: float = 2.0) -> Array:
        """Starts [starts, states] of either sign, in units of order 1."""
        starts: Array = self.random.uniform(low, high, (STARTS, self.states))
        return starts


def _names(shape: str) -> set[str]:
    return set("".join(c if c.isalnum() else " " for c in shape).split())
