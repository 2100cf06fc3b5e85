"""A member of a chain as straight-line code of plain numbers, for the few points at which arrays are slow."""

from __future__ import annotations

from functools import partial

import numpy as np

from odediscovery.families import STATE_FUNCTIONS
from odediscovery.ivp.marching import PlainRates
from odediscovery.laws.compiled import Graph
from odediscovery.networks.chain import EPSILON, Chain
from odediscovery.runtime.arrays import Array


def member_rates(chain: Chain, theta: Array) -> PlainRates | None:
    """The function x_1, ..., x_n -> (dx_1/dt, ...) of plain numbers, that of `Chain.rhs` but for rounding.

    Args:
        theta: parameters of one member [P].

    Returns:
        None where states that may be negative have powers that are not whole, since these turn (see `Pair.angles`),
        and where arguments of functions have bounds.

    Raises:
        ArithmeticError, ValueError: by the function, where a number becomes too large.

    >>> from odediscovery.networks.chain import Pair
    >>> pair = Pair(np.array([True]), 1, 1)
    >>> decay = Chain(1, (), (pair,), np.array([[1.0, -0.5]]), np.array([[False, True]]))
    >>> [round(rate, 9) for rate in member_rates(decay, decay.theta[0])(2.0)]
    [-1.0]
    """
    if any(np.isfinite(STATE_FUNCTIONS[f.name].bounds).any() for f in chain.functions):
        return None
    g, constants = Graph(), list[float]()

    def constant(value: float) -> int:
        constants.append(float(value))
        return g.p(len(constants) - 1)

    def sums(weights: Array, parts: list[int]) -> list[int]:
        return [g.plus(*(g.times(constant(row[j]), parts[j]) for j in np.flatnonzero(row))) for row in weights]

    z = [g.x(k) for k in range(chain.n_states)]
    z += [g.function(f.name, g.times(constant(f.rate), z[f.state])) for f in chain.functions]
    for pair, ((exponents,), (weights,)) in zip(chain.pairs, chain.unpack(theta[None]), strict=True):
        exponents = np.where(weights.any(axis=0)[:, None], exponents, 0.0)
        whole = exponents == np.rint(exponents)
        if (~whole & ~pair.nonnegative).any():
            return None
        near = constant(EPSILON)
        bases = [
            g.plus(g.function("ramp", x), near) if positive else g.plus(x, g.times(near, g.function("side", x)))
            for x, positive in zip(z, pair.nonnegative, strict=True)
        ]
        products = [
            g.times(*(g.power(bases[k], constant(row[k]), bool(own[k])) for k in np.flatnonzero(row)))
            for row, own in zip(exponents, whole, strict=True)
        ]
        z = sums(weights, products)
    values = z if chain.stoichiometry is None else sums(chain.stoichiometry, z)
    return partial(g.compiled(values, len(constants), chain.n_states, plain=True), *constants)
