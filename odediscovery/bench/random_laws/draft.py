"""A law as it is drawn: terms with coefficients, constants inside the terms, starts and times.

    dx_i/dt = sum_j c_j phi_j(x; theta) over the terms j of state i

Coefficients c and inner constants theta (exponents, half-saturations, frequencies) are variables
here, so that one batch of Runge-Kutta solutions has every constant changed and every term dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from odediscovery.ivp.steps import rk4_step
from odediscovery.laws.equations import Equations, compiled
from odediscovery.runtime.arrays import Array

# Runge-Kutta steps between two samples.
STEPS = 8
# States above this have left all bounds; the units of a draft are of order 1 before they are drawn.
LARGEST = 1e12


@dataclass(frozen=True)
class Term:
    """c phi(x; theta) in the equation of one state.

    Args:
        state: index of the state.
        coefficient: c.
        shape: phi as text over x0, x1, ... and the names of inner constants.
    """

    state: int
    coefficient: float
    shape: str


@dataclass(frozen=True)
class Draft:
    """A law with starts and times, not yet accepted.

    Args:
        states: number of states.
        terms: of all equations.
        inner: constants inside the terms, by name.
        starts: [starts, states]; the last one is the unseen one.
        span: last time; the first is 0.
        samples: equally spaced, ends included.
        positive: whether states have to stay positive.
        wide: states whose range has to be at least so large, by index: sines of small angles are lines.
    """

    states: int
    terms: tuple[Term, ...]
    inner: Mapping[str, float]
    starts: Array
    span: float
    samples: int
    positive: bool = True
    wide: Mapping[int, float] = field(default_factory=dict)

    @property
    def constants(self) -> Array:
        """Coefficients, then inner constants."""
        return np.array([*(term.coefficient for term in self.terms), *self.inner.values()])

    def equations(self) -> Equations:
        """The law with its numbers, over x0, x1, ..."""
        names = [f"x{k}" for k in range(self.states)]
        texts = {
            name: " + ".join(f"({term.coefficient!r})*{term.shape}" for term in self.terms if term.state == k) or "0"
            for k, name in enumerate(names)
        }
        return Equations.parse(names, texts, constants=dict(self.inner))

    @cached_property
    def _over_constants(self) -> Callable[[Array], Array]:
        """[..., states and constants] -> dx/dt [..., states]."""
        states = [f"x{k}" for k in range(self.states)]
        coefficients = [f"c{j}" for j in range(len(self.terms))]
        texts = {
            name: " + ".join(f"c{j}*{term.shape}" for j, term in enumerate(self.terms) if term.state == k) or "0"
            for k, name in enumerate(states)
        }
        law = Equations.parse(states, texts, controls=[*coefficients, *self.inner])
        # As expressions: as a sum of powers of so many variables it would be slower by far.
        return compiled(replace(law, power_sum=None))

    def simulate(self, starts: Array, constants: Array, most: float = LARGEST) -> Array:
        """Solutions [samples, members, states], not finite from where one leaves all bounds.

        Args:
            starts: [members, states].
            constants: [members, constants].
            most: largest state; once one of all members is beyond it, all end.
        """
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
                largest = np.abs(x).max(axis=1)
                if most < LARGEST and not (largest <= most).all():
                    break
                x[~(largest < LARGEST)] = np.nan
                path[k] = x
        return path
