"""Small fields, laws and series for the tests of the machinery."""

import numpy as np
import torch
from scipy.integrate import solve_ivp

from odediscovery import Equations, Signal, TimeSeries, with_controls
from odediscovery.laws.power_sum import PowerSum
from odediscovery.networks.chain import Chain, Pair, chain_of
from odediscovery.networks.vector_field import VectorField
from odediscovery.units import NAU, RealNPU, glorot

# x' = 0.6 x - 0.4 x y,  y' = 0.3 x y - 0.5 y
PREY = PowerSum(np.array([[0.6, -0.4, 0.0], [0.0, 0.3, -0.5]]), np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]))
# N' = 0.5 N - 0.5 N^2
LOGISTIC = PowerSum(np.array([[0.5, -0.5]]), np.array([[1.0], [2.0]]))
# The same with its gain in two parts, of which data tell only the sum.
TWINS = PowerSum(np.array([[0.2, 0.3, -0.5]]), np.array([[1.0], [1.0], [2.0]]))
# S' = -0.06 (S I)^0.5 + 0.01 R,  I' = 0.06 (S I)^0.5 - 0.05 I,  R' = 0.05 I - 0.01 R
FSIR = PowerSum(
    np.array([[-0.06, 0.0, 0.01], [0.06, -0.05, 0.0], [0.0, 0.05, -0.01]]),
    np.array([[0.5, 0.5, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
)
STARTS = np.array([[1.5, 0.8], [0.6, 1.7]])


def field_of(law, members=1):
    """Identical members of a chain RealNPU -> NAU that compute the law."""
    chain = chain_of_law(law, members)
    (pair,), (real, weight) = chain.pairs, chain.places()[0]
    units = (RealNPU(pair.n_in, pair.width, nonnegative=True), NAU(pair.width, pair.n_out))
    gates, held = np.ones((members, pair.n_in)), np.zeros((members, pair.n_in), dtype=bool)
    theta = np.hstack([chain.theta[:, real], gates, chain.theta[:, weight]])
    free = np.hstack([chain.free[:, real], held, chain.free[:, weight]])
    return VectorField(units, torch.as_tensor(theta), torch.as_tensor(free))


def chain_of_law(law, members=1):
    """Identical members that compute the law, as arrays."""
    return chain_of([law] * members, np.ones(law.n_states, dtype=bool))


def random_field(members=2, states=2, width=3, seed=0):
    """RealNPU -> NAU with random weights and gates between 0 and 1."""
    units = (RealNPU(states, width, nonnegative=True, init_re=glorot(0.5)), NAU(width, states, init_weight=glorot(0.5)))
    return VectorField.random(units, members, torch.Generator().manual_seed(seed))


def random_chain(members=2, states=2, width=3, seed=0):
    """Random sums of powers of nonnegative states, everything free."""
    pair = Pair(np.ones(states, dtype=bool), width, states)
    theta = 0.5 * np.random.default_rng(seed).standard_normal((members, 2 * width * states))
    return Chain(states, (), (pair,), theta, np.ones_like(theta, dtype=bool))


def solved(law, start, times):
    """The law from its start at times[0], [times, states], far more accurate than any test asks."""
    solution = solve_ivp(
        lambda _, x: law.rhs(x), (times[0], times[-1]), start, method="DOP853", t_eval=times, rtol=1e-12, atol=1e-13
    )
    assert solution.success
    return solution.y.T


def logistic(t, r, c, n0):
    """N' = r N - c N^2 from n0."""
    k = r / c
    return k / (1.0 + (k / n0 - 1.0) * np.exp(-r * t))


def growth(times, sigma, seed=0):
    """The logistic law from 0.1 with additive noise."""
    noise = sigma * np.random.default_rng(seed).standard_normal(len(times))
    return TimeSeries.from_arrays(times, logistic(times, 0.5, 0.5, 0.1) + noise)


def series_of(law, starts, times, noise=0.0):
    """Trajectories of the law, with additive noise if asked for."""
    random = np.random.default_rng(0)
    values = [solved(law, start, t) for start, t in zip(starts, times, strict=True)]
    values = [x + noise * random.standard_normal(x.shape) for x in values]
    return TimeSeries.from_arrays(list(times), values)


def numeric_jacobian(function, at, step):
    """Central differences of function [members, U] -> [members, R]: [members, R, U]."""
    columns = []
    for k in range(at.shape[1]):
        shift = np.zeros_like(at)
        shift[:, k] = step
        columns.append((function(at + shift) - function(at - shift)) / (2.0 * step))
    return np.stack(columns, axis=-1)


# ---- driven systems ----

# Unequal times, a sine and a feed that somebody changes now and then.
TIMES = np.concatenate([[0.0], np.cumsum(np.random.default_rng(0).uniform(0.1, 0.4, 54))])
SINE = 1.2 + np.sin(TIMES)
FEED = np.array([0.5, 2.0, 1.0])[(TIMES // 2.5).astype(int) % 3]


def driven(texts, start, **controls):
    """Exact samples of equations under controls (values, held)."""
    states, names = list(texts), list(controls)
    values = np.column_stack([u for u, _ in controls.values()])
    held = np.array([h for _, h in controls.values()])
    law = Equations.parse(states, texts, controls=names)
    x = law.simulate(start, TIMES, controls=Signal(TIMES, values, held))
    series = TimeSeries.from_arrays(TIMES, np.hstack([x, values]), [*states, *names])
    linear = [name for name, (_, h) in controls.items() if not h]
    return with_controls(series, linear, [name for name in names if name not in linear])
