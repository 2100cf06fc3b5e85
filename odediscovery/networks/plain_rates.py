"""A member of a chain as straight-line code of plain numbers, for the few points at which arrays are slow."""

from __future__ import annotations

import numpy as np

from odediscovery.families import STATE_FUNCTIONS
from odediscovery.ivp.marching import PlainRates
from odediscovery.laws.pointwise import Arithmetic
from odediscovery.networks.chain import EPSILON, Chain, Pair
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

    >>> pair = Pair(np.array([True]), 1, 1)
    >>> decay = Chain(1, (), (pair,), np.array([[1.0, -0.5]]), np.array([[False, True]]))
    >>> [round(rate, 9) for rate in member_rates(decay, decay.theta[0])(2.0)]
    [-1.0]
    """
    if any(np.isfinite(STATE_FUNCTIONS[f.name].bounds).any() for f in chain.functions):
        return None
    code = Arithmetic(chain.n_states)
    code.apply(chain.functions)
    for pair, ((exponents,), (weights,)) in zip(chain.pairs, chain.unpack(theta[None]), strict=True):
        exponents = np.where(weights.any(axis=0)[:, None], exponents, 0.0)
        if ((exponents != np.rint(exponents)) & ~pair.nonnegative).any():
            return None
        code.bases = [_base(code, pair, exponents, k) for k in range(pair.n_in)]
        products = code.products(exponents)
        code.bases = [code.let(code.combined(row, products)) for row in weights]
    values = code.bases
    if chain.stoichiometry is not None:
        values = [code.combined(row, values) for row in chain.stoichiometry]
    return code.compiled(values)


def _base(code: Arithmetic, pair: Pair, exponents: Array, k: int) -> str:
    """An input as the units see it, see `Pair.bases`; what is no number stays none."""
    x = code.bases[k]
    if not exponents[:, k].any():
        return x
    near = code.constant(EPSILON)
    if pair.nonnegative[k]:
        return code.let(f"{near} if {x} < 0.0 else {x} + {near}")
    return code.let(f"{x} - {near} if {x} < 0.0 else {x} + {near}")
