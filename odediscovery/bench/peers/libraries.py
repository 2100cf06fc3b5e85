"""Libraries of functions for a sparse regression of rates: what pysindy may choose from."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from odediscovery.data.scale import Scale
from odediscovery.laws.equations import Equations
from odediscovery.laws.expressions import identifiers
from odediscovery.laws.power_sum import PowerSum
from odediscovery.runtime.arrays import Array

DEGREES = (1, 2, 3)
# Degrees of polynomials beside sines and cosines of x, or of x and 2 x.
WAVES = ((1, 1), (2, 1), (1, 2), (2, 2))
# Powers, of single states (1) or also their products in pairs (2). Small libraries find what in a
# large one is lost among functions that are nearly alike.
POWERS = (
    ((0.5, 1.0, 2.0), 1),
    ((-3.0, -2.0, -1.0, -0.5, 0.5, 1.0, 1.5, 2.0, 3.0), 1),
    ((0.5, 1.0), 2),
    ((-1.0, -0.5, 0.5, 1.0, 1.5, 2.0), 2),
)


@dataclass(frozen=True)
class Library:
    """Products of powers [n, states], then sines and cosines of x, 2 x, ... in user units."""

    exponents: Array
    waves: int = 0

    def columns(self, x: Array, state: Array) -> Array:
        """The functions at x [samples, states] in units of `state`."""
        values = np.ones((len(x), len(self.exponents)))
        with np.errstate(all="ignore"):
            for k, w in enumerate(self.exponents.T):
                for power in np.unique(w[w != 0]):
                    values[:, w == power] *= x[:, k : k + 1] ** power
            angles = [f * x * state for f in range(1, self.waves + 1)]
            result: Array = np.hstack([values, *(g(a) for a in angles for g in (np.sin, np.cos))])
        return result

    def equations(self, states: Sequence[str], c: Array, scale: Scale) -> Equations:
        """The equations with these coefficients [states, functions]."""
        n = len(self.exponents)
        law = PowerSum(c[:, :n], self.exponents).unscaled(scale.state, scale.time)
        names = list(identifiers(states).values())
        shapes = [
            "*".join(["1", *(f"{x}**({p})" for x, p in zip(names, w, strict=True) if p)])
            for w in law.exponents.tolist()
        ]
        shapes += [f"{g}({f}*{x})" for f in range(1, self.waves + 1) for g in ("sin", "cos") for x in names]
        numbers = np.hstack([law.coefficients, c[:, n:] * scale.state[:, None] / scale.time])
        texts = [
            " + ".join(["0", *(f"({a})*{m}" for a, m in zip(row, shapes, strict=True) if a)])
            for row in numbers.tolist()
        ]
        return Equations.parse(states, dict(zip(states, texts, strict=True)))


def libraries(values: Array) -> Iterator[Library]:
    """Polynomials, then with sines and cosines, then powers that the values have."""
    n = values.shape[1]

    def polynomials(degree: int) -> Array:
        every = itertools.product(range(degree + 1), repeat=n)
        return np.array([w for w in every if sum(w) <= degree], dtype=np.float64)

    def products(powers: Sequence[float], most: int) -> Array:
        rows = [np.zeros(n)]
        for size in range(1, most + 1):
            for places in itertools.combinations(range(n), size):
                for chosen in itertools.product(powers, repeat=size):
                    rows.append(np.zeros(n))
                    rows[-1][list(places)] = chosen
        every = np.array(rows)
        real = (every >= 0) & (every == np.round(every))
        kept: Array = every[(real | (values > 0).all(axis=0)).all(axis=1)]
        return kept

    yield from (Library(polynomials(degree)) for degree in DEGREES)
    yield from (Library(polynomials(degree), waves) for degree, waves in WAVES)
    yield from (Library(products(powers, most)) for powers, most in POWERS)
