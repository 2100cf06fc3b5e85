"""Terms that act: a coefficient whose 95 % interval contains 0, or an exponent known to no whole number, does not.

    a +- t f standard error,    t the 97.5 % point of Student's t

with the factor f of residuals that have a memory (`residual_tests.autocorrelation_inflation`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import fdtri

from odediscovery.laws.records import interval
from odediscovery.runtime.arrays import Array, Mask
from odediscovery.stages.values import Judged, Polished, residual_freedom


@dataclass(frozen=True)
class SignificanceThresholds:
    """When a term acts."""

    open_exponent: float = 1.0  # an exponent with a larger standard error says nothing of its term
    needed: float = 0.99  # confidence of a test of two fits from which on what one lacks is needed [probability]
    rounds: int = 6  # most terms that are taken out


SIGNIFICANCE = SignificanceThresholds()


def idle_terms(found: Polished, inflation: float) -> list[tuple[int, int]]:
    """Equation and monomial of fitted terms that the data do not tell from nothing, the weakest first.

    Args:
        inflation: factor by which memory in the residuals widens standard errors.
    """
    law, errors, freedom = found.law, found.errors, residual_freedom(found)
    if law.stoichiometry is not None:
        return []
    open_rows: Mask = np.any((inflation * errors.exponents > SIGNIFICANCE.open_exponent) & found.free[1], axis=1)
    weak = []
    for i, j in weak_terms(found):
        value, error = float(law.coefficients[i, j]), inflation * float(errors.coefficients[i, j])
        ends = interval(value, error, freedom)
        if open_rows[j] or (ends is not None and ends[0] <= 0.0 <= ends[1]):
            weak.append((i, j))
    return weak


def has_idle_terms(row: Judged) -> bool:
    """Whether the data do not tell a term of a law from nothing, nor the constants of its name, if it has one."""
    return not row.origin.acts and bool(idle_terms(row.polished, 1.0))


def idle_constants(found: Polished, inflation: float) -> list[tuple[int, int]]:
    """Sum and monomial of fitted constants inside sums that the data do not tell from nothing, the weakest first.

    Args:
        inflation: factor by which memory in the residuals widens standard errors.
    """
    value, error, freedom = found.law.constants[2], inflation * found.errors.constants[2], residual_freedom(found)
    places = [(int(m), int(k)) for m, k in np.argwhere(found.free[2])]
    ends = {place: interval(float(value[place]), float(error[place]), freedom) for place in places}
    weak = [place for place, e in ends.items() if e is not None and e[0] <= 0.0 <= e[1]]
    return sorted(weak, key=lambda place: float(abs(value[place]) / error[place]))


def is_needed(found: Polished, without: Polished, floor: Array, inflation: float) -> bool:
    """Whether the data are clearly worse explained without a constant, although its own interval may contain 0.

        sum_i n_i ln(S_i' / S_i) > N ln(1 + F / nu),    F of 1 and nu degrees of freedom

    Intervals are those of a law that is linear in its constants; a fit without the constant says more.

    Args:
        found: with it, nu degrees of freedom left.
        without: the fit without it.
        floor: standard deviation that noise, rounding and integration explain [states].
        inflation: factor by which memory in the residuals widens standard errors.
    """
    n, freedom = found.counts, max(residual_freedom(found), 1)
    seen = n > 0
    ratio = (without.squares[seen] / n[seen] + floor[seen] ** 2) / (found.squares[seen] / n[seen] + floor[seen] ** 2)
    rise = float(n[seen] @ np.log(ratio)) / inflation**2
    return bool(rise > n.sum() * np.log1p(fdtri(1, freedom, SIGNIFICANCE.needed) / freedom))


def weak_terms(found: Polished) -> list[tuple[int, int]]:
    """Equation and monomial of all fitted terms, those whose coefficients are least certain first."""
    if found.law.stoichiometry is not None:
        return []
    value, error = np.abs(found.law.coefficients), found.errors.coefficients
    certain = np.divide(value, error, out=np.full(value.shape, np.inf), where=error > 0.0)
    places = [(int(i), int(j)) for i, j in np.argwhere(found.free[0])]
    return sorted(places, key=lambda place: float(certain[place]))
