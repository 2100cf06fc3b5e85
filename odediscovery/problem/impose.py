"""Knowledge applied to laws between the stages.

A stage may change a law as it likes. Before the next one sees it, forbidden terms are taken out,
known ones put in, and known constants marked as not free.
"""

from __future__ import annotations

import numpy as np

from odediscovery.laws.cost import Free
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.problem import Problem
from odediscovery.runtime.arrays import Mask


def apply_knowledge(p: Problem, law: PowerSum) -> PowerSum:
    """The dimensionless law nearest to a given one that agrees with what is known."""
    return law if p.knowledge is None else p.knowledge.impose(law)


def in_user_units(p: Problem, law: PowerSum) -> PowerSum:
    """The dimensionless law in the user's units, known constants exactly as given."""
    user = law.unscaled(p.scale.state, p.scale.time)
    if p.given is None:
        return user
    exact = p.given.impose(user)
    # Rounding may bring two monomials so near that they merge: errors would then have no place.
    return exact if exact.coefficients.shape == user.coefficients.shape else user


def fixed_mask(p: Problem, law: PowerSum) -> tuple[Mask, Mask] | None:
    """Known coefficients [states, monomials] and exponents [monomials, features], or None."""
    return None if p.knowledge is None else p.knowledge.fixed_mask(law)


def apply_knowledge_to_fit(p: Problem, law: PowerSum, free: Free) -> tuple[PowerSum, Free]:
    """`apply_knowledge`, and the constants that are free in the new law.

    Args:
        free: the constants that a fit of the given law may change; others stay fixed.
    """
    known = p.knowledge
    if known is None:
        return law, free
    new = apply_knowledge(p, law)
    coefficients, exponents = known.fixed_mask(new)
    fitted = np.zeros(new.exponents.shape, dtype=bool)
    low, high = known.bounds
    for j, w in enumerate(new.exponents):
        same = np.flatnonzero((law.exponents == w).all(axis=1))
        # An exponent that was moved to a bound stays there.
        fitted[j] = free[1][same[0]] if len(same) else (w != 0) & (w > low) & (w < high)
    return new, ((new.coefficients != 0) & ~coefficients, fitted & ~exponents, *free[2:])
