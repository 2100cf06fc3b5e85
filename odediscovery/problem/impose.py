"""Laws made to agree with what the user knows, on their way through the stages.

A stage may change a law as it likes; before the next one sees it, forbidden terms are taken out,
known ones put in, and what is known is marked as not free.
"""

from __future__ import annotations

import numpy as np

from odediscovery.laws.cost import Free
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.prepare import Prepared
from odediscovery.runtime.arrays import Mask


def agreed(p: Prepared, law: PowerSum) -> PowerSum:
    """The law that agrees with what is known and is nearest to a given one, dimensionless."""
    return law if p.knowledge is None else p.knowledge.impose(law)


def in_units(p: Prepared, law: PowerSum) -> PowerSum:
    """The dimensionless law in the user's units, known constants just as they were given."""
    user = law.unscaled(p.scale.state, p.scale.time)
    if p.given is None:
        return user
    exact = p.given.impose(user)
    # Rounding may bring two monomials so near that they merge: then errors would have no place.
    return exact if exact.coefficients.shape == user.coefficients.shape else user


def held(p: Prepared, law: PowerSum) -> tuple[Mask, Mask] | None:
    """Coefficients [states, monomials] and exponents [monomials, inputs] that are known."""
    return None if p.knowledge is None else p.knowledge.held(law)


def agreed_with(p: Prepared, law: PowerSum, free: Free) -> tuple[PowerSum, Free]:
    """The same with what a fit may change; what was held by the fit stays held."""
    known = p.knowledge
    if known is None:
        return law, free
    new = agreed(p, law)
    coefficients, exponents = known.held(new)
    fitted = np.zeros(new.exponents.shape, dtype=bool)
    low, high = known.bounds
    for j, w in enumerate(new.exponents):
        same = np.flatnonzero((law.exponents == w).all(axis=1))
        # An exponent that was moved to a bound stays there.
        fitted[j] = free[1][same[0]] if len(same) else (w != 0) & (w > low) & (w < high)
    return new, ((new.coefficients != 0) & ~coefficients, fitted & ~exponents, *free[2:])
