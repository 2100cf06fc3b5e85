"""A member of a chain as straight-line code of plain numbers, for the few points at which arrays are slow."""

from __future__ import annotations

import numpy as np

from odediscovery.laws.pointwise import Arithmetic, PlainRates
from odediscovery.networks.chain import EPSILON, Chain, Pair
from odediscovery.runtime.arrays import Array


def member_rates(chain: Chain, theta: Array) -> PlainRates | None:
    """The function x_1, ..., x_n -> (dx_1/dt, ...) of plain numbers, that of `Chain.rhs` but for rounding.

    Args:
        theta: parameters of one member [P].

    Returns:
        None where states that may be negative have powers that are not whole: these turn (see `Pair.angles`).

    Raises:
        ArithmeticError, ValueError: by the function, where a number becomes too large.

    >>> pair = Pair(np.array([True]), 1, 1)
    >>> decay = Chain(1, (), (pair,), np.array([[1.0, -0.5]]), np.array([[False, True]]))
    >>> [round(rate, 9) for rate in member_rates(decay, decay.theta[0])(2.0)]
    [-1.0]
    """
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
    """An input as the units see it; to a positive whole power, how near to zero it is does not matter."""
    x, powers = code.bases[k], exponents[:, k]
    if not powers.any():
        return x
    far = "" if ((powers >= 0.0) & (powers == np.rint(powers))).all() else f" + {code.constant(EPSILON)}"
    if pair.nonnegative[k]:
        return code.let(f"({x} if {x} > 0.0 else 0.0){far}")
    return code.let(f"{x}{far} if {x} >= 0.0 else {x}{far.replace('+', '-')}") if far else x
