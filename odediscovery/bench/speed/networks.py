"""Sparse networks of power laws: systems of any size with a known answer, drawn from a seed.

    dx_i/dt = a_i * x_j ** g_ij * x_k ** g_ik - b_i * x_i

Every state is produced by a product of powers of one or two others and lost at a rate of its own,
the form of metabolic and genetic networks near their operating range. The spectral radius of |G| is
below 1: all solutions then stay positive and bounded and go to one steady state, because a weighted
maximum of |log x - log x*| can only fall (|G| is a contraction in that norm).

Source: Savageau, Biochemical Systems Analysis (1976); Voit, Computational Analysis of Biochemical
Systems (2000), GMA form.
"""

from __future__ import annotations

import math

import numpy as np

from odediscovery.data.series import TimeSeries
from odediscovery.laws.equations import Equations
from odediscovery.laws.power_sum import PowerSum
from odediscovery.runtime.arrays import Array

# Sizes of exponents, and their largest spectral radius.
EXPONENTS, RADIUS = (0.3, 1.0), 0.9
# Share of producing factors that inhibit (a negative exponent).
INHIBITING = 0.3
# Loss rates b, steady states x*, and how far starts are from them (factors e^-away to e^away).
RATES, STEADY, AWAY = (0.3, 2.0), (0.5, 5.0), 1.5
# Time in units of 1 / b, b the geometric middle of `RATES`.
SPAN = 6.0
_DIGITS = 3


def network(states: int, seed: int = 0) -> PowerSum:
    """A network of so many states; constants have three digits.

    >>> law = network(4, seed=1)
    >>> law.n_states, [int((row != 0).sum()) for row in law.coefficients]
    (4, [2, 2, 2, 2])
    """
    random = np.random.default_rng(seed)
    powers = _powers(states, random)
    loss = _rounded(np.exp(random.uniform(math.log(RATES[0]), math.log(RATES[1]), states)))
    steady = np.exp(random.uniform(math.log(STEADY[0]), math.log(STEADY[1]), states))
    gain = _rounded(loss * steady / np.exp(powers @ np.log(steady)))
    return PowerSum(np.hstack([np.diag(gain), -np.diag(loss)]), np.vstack([powers, np.eye(states)]))


def _powers(states: int, random: np.random.Generator) -> Array:
    """Exponents G [states, states] of production, drawn until all solutions are bounded."""
    while True:
        g = np.zeros((states, states))
        for i in range(states):
            count = min(int(random.integers(1, 3)), states - 1)
            others = random.choice(np.delete(np.arange(states), i), count, replace=False)
            sign = np.where(random.random(count) < INHIBITING, -1.0, 1.0)
            g[i, others] = sign * np.round(random.uniform(*EXPONENTS, count), 1)
        if np.abs(np.linalg.eigvals(np.abs(g))).max() <= RADIUS:
            return g


def _rounded(values: Array) -> Array:
    """The values with a few significant digits."""
    return np.array([float(f"{value:.{_DIGITS}g}") for value in values])


def network_series(law: PowerSum, trajectories: int = 5, samples: int = 60, seed: int = 0) -> TimeSeries:
    """Clean samples of a network from random starts around its steady state.

    Args:
        trajectories: how many.
        samples: equally spaced ones of each.
        seed: of the starts.
    """
    random = np.random.default_rng([seed, law.n_states])
    n = law.n_states
    gain, loss = law.coefficients[:, :n].diagonal(), -law.coefficients[:, n:].diagonal()
    steady = np.exp(np.linalg.solve(np.eye(n) - law.exponents[:n], np.log(gain / loss)))
    times = np.linspace(0.0, _rounded(np.array([SPAN / np.sqrt(np.prod(RATES))]))[0], samples)
    names = [f"x{k + 1}" for k in range(n)]
    equations = Equations.from_power_sum(names, law)
    values = [
        equations.simulate(steady * np.exp(random.uniform(-AWAY, AWAY, n)), times, rtol=1e-10)
        for _ in range(trajectories)
    ]
    return TimeSeries.from_arrays([times] * trajectories, values, names)
