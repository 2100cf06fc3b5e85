"""What a chosen law leaves open: exponents and combinations that the data hardly determine.

An exponent that was set to a simple value, because the data cannot tell the difference, may be one
that they hardly determine at all. Each is fitted again with everything else that is free; where its
interval holds several whole numbers, the reader is warned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from odediscovery.judge.doubt import interval_squares
from odediscovery.judge.notes.constants import not_determined, open_exponent
from odediscovery.judge.notes.note import Note, listed
from odediscovery.judge.residual_tests import autocorrelation_inflation
from odediscovery.laws.cost import Free, count, filled, picked
from odediscovery.laws.expressions import identifiers
from odediscovery.laws.power_sum import PowerSum, equations_with
from odediscovery.laws.records import interval
from odediscovery.problem.impose import fixed_mask
from odediscovery.problem.problem import Problem
from odediscovery.runtime.arrays import Array, Mask
from odediscovery.solve.trajectories import residuals
from odediscovery.stages.polish.intervals import INTERVALS
from odediscovery.stages.values import Polished, residual_freedom


class Refit(Protocol):
    """How a law is polished with some of its constants free."""

    def __call__(self, law: PowerSum, free: Free, most: int | None = None) -> Polished:
        """The law polished, with at most so many evaluations of the Jacobian (default: as many as usual)."""


@dataclass(frozen=True)
class IdentifiabilityThresholds:
    """Which constants are named as undetermined."""

    # factor by which a power starts beside that of a known term in another equation; not 1: equal monomials are
    # merged
    beside: float = 1.001
    sure: float = 0.25  # an exponent is told where its interval, all exponents free at once, is not longer
    # a constant is in a combination from this share of the largest part on [share of the relative change]
    named: float = 0.1
    # relative change of constants that intervals without noise tell; what it leaves is 1e-4, squared
    moved: float = 0.01


IDENTIFIABILITY = IdentifiabilityThresholds()


def split_known(p: Problem, law: PowerSum, free: Free, *, fit: bool) -> tuple[PowerSum, Free]:
    """The law with known monomials once more for equations that are not known to have them.

    With h' = v known, the power of v in h' is 1; in v' = g - c v nothing is known of it.

    Args:
        p: what is known of the data and the law.
        law: a sum of powers, dimensionless.
        free: which of its constants are fitted.
        fit: whether exponents of the new monomials are fitted, where they may be real.
    """
    known = fixed_mask(p, law)
    if known is None or law.features is not None:
        return law, free
    real = (law.exponents != 0) & p.nonnegative & (not p.integer_exponents)
    common = free[0] & known[0].any(axis=0) & real.any(axis=1)
    rows = np.flatnonzero(common.any(axis=0))
    if not len(rows):
        return law, free
    a = np.hstack([np.where(common, 0.0, law.coefficients), np.where(common, law.coefficients, 0.0)[:, rows]])
    w = np.vstack([law.exponents, np.where(real[rows], IDENTIFIABILITY.beside, 1.0) * law.exponents[rows]])
    fitted = np.vstack([free[1], real[rows] & fit])
    also = np.hstack([free[0] & ~common, common[:, rows]])
    return PowerSum(a, w, None, law.stoichiometry), (also, fitted, free[2], free[3])


def undetermined_exponents(p: Problem, found: Polished, refit: Refit) -> list[Note]:
    """Exponents whose 95 % interval holds two whole numbers or more, one sentence each.

        w +- t f standard error,  t the 97.5 % point of Student's t,

    with f from `residual_tests.autocorrelation_inflation`. All other exponents that the law holds stay
    held. Those that are told although all are free at once need no refit.

    Args:
        p: what is known of the data and the law.
        found: the law, dimensionless; exponents have no unit.
        refit: a law with some constants free, polished.
    """
    if found.law.features is not None:
        return []
    notes = []
    law, free = split_known(p, found.law, found.free, fit=False)
    real = _may_be_real(p, law)
    if not real.any():
        return []
    all_free = refit(law, (free[0], free[1] | real, free[2], free[3]), 0)
    for j, k in np.argwhere(real & ~_are_told(p, all_free, law, real)):
        refitted = found
        if law is not found.law or not free[1][j, k]:
            fitted = free[1].copy()
            fitted[j, k] = True
            refitted = refit(law, (free[0], fitted, free[2], free[3]))
        if not refitted.finite or refitted.law.exponents.shape != law.exponents.shape:
            continue
        ends = _interval(p, refitted, int(j), int(k))
        if ends is not None and np.floor(ends[1]) - np.ceil(ends[0]) >= 1:
            notes.append(_sentence(p, law, int(j), int(k), ends))
    return notes


def _interval(p: Problem, found: Polished, j: int, k: int) -> list[float] | None:
    """The 95 % interval of the exponent of state k in monomial j; None where it has none."""
    value, error = found.law.exponents[j, k], found.errors.exponents[j, k]
    error *= autocorrelation_inflation(residuals(found.law, p.data, found.initial))
    return interval(float(value), float(error), residual_freedom(found))


def _are_told(p: Problem, free: Polished, law: PowerSum, asked: Mask) -> Mask:
    """Which exponents among those `asked` [monomials, states] have short intervals although all are free."""
    told = np.zeros_like(asked)
    if free.finite and free.law.exponents.shape == law.exponents.shape:
        for j, k in np.argwhere(asked):
            ends = _interval(p, free, int(j), int(k))
            told[j, k] = ends is not None and ends[1] - ends[0] <= IDENTIFIABILITY.sure
    return told


def unidentifiable_combinations(p: Problem, found: Polished) -> list[Note]:
    """Constants of which the data know a combination only, a sentence for each combination.

    From the directions in which the likelihood does not change, C = (J^T J)^-1.
    """
    law, k = found.law, count(found.free)
    if law.features is not None or not k:
        return []
    names = _constants(p, law, found.free)
    values = picked(law, found.free)
    hidden, notes = np.isnan(found.joint.deviations()[:k]), []
    for direction in found.joint.unknown[:, :k]:
        share = np.where(hidden, np.abs(direction / np.where(values == 0.0, 1.0, values)), 0.0)
        named = [names[i] for i in np.flatnonzero(share > IDENTIFIABILITY.named * share.max(initial=0.0))]
        if named and not _is_told_by_intervals(p, found, direction * IDENTIFIABILITY.moved / share.max()):
            notes.append(not_determined(named))
    return notes


def _is_told_by_intervals(p: Problem, found: Polished, change: Array) -> bool:
    """Whether constants that are changed leave something of intervals where there is no noise.

    On whole trajectories of chaos what one combination does to their ends hides all others.
    """
    if not p.clean:
        return False
    law, free = found.law, found.free
    values = picked(law, free)
    moved = law.with_constants(*filled(law.constants, free, values + change))
    return bool((interval_squares(moved, p)[~p.constant] > INTERVALS.exact).any())


def _constants(p: Problem, law: PowerSum, free: Free) -> list[str]:
    """What the free constants of a sum of powers are called, in their order."""
    names = list(identifiers(p.data.states).values())
    terms = [_term(p, w) for w in law.exponents]
    called = [f"the coefficient of {term}" if term else "the constant term" for term in terms]
    sides = [(j, [f"{names[k]}'" for k in equations_with(law, i)]) for i, j in np.argwhere(free[0]).tolist()]
    coefficients = [f"{called[j]} in {listed(own)}" for j, own in sides]
    return coefficients + [f"the exponent of {names[k]} in {terms[j]}" for j, k in np.argwhere(free[1])]


def _may_be_real(p: Problem, law: PowerSum) -> Mask:
    """Exponents that neither the sign of a state nor the user holds, [monomials, states]."""
    known = fixed_mask(p, law)
    real: Mask = (law.exponents != 0) & p.nonnegative
    return real if known is None else real & ~known[1]


def _sentence(p: Problem, law: PowerSum, j: int, k: int, ends: Sequence[float]) -> Note:
    names = list(identifiers(p.data.states).values())
    of = " and ".join(f"{names[i]}'" for i in np.flatnonzero(law.coefficients[:, j]))
    low, high = ends
    return open_exponent(names[k], _term(p, law.exponents[j]), of, low, high)


def _term(p: Problem, exponents: Array) -> str:
    """A dimensionless product as the user's: of -x where a mirrored state's power is not whole."""
    names, w = identifiers(p.data.states).values(), np.round(exponents, 2)
    below = (p.scale.state < 0.0) & (w != np.round(w))
    bases = [f"(-{name})" if minus else name for name, minus in zip(names, below, strict=True)]
    return "*".join(
        name if near == 1 else f"{name}^{power:.3g}"
        for name, near, power in zip(bases, w, exponents, strict=True)
        if power
    )
