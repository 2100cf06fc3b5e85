"""What the data leave open of a law, and to how many digits its constants are printed.

What a chosen law leaves open: exponents and combinations that the data hardly determine.

An exponent that was set to a simple value, because the data cannot tell the difference, may be one
that they hardly determine at all. Each is fitted again with everything else that is free; where its
interval holds several whole numbers, the reader is warned.

Printed numbers are the law: digits enough that a reader who copies them has the fitted solution.

Two digits of a standard error are enough for a constant alone. Constants that mean something together
only, such as those of two exponentials that nearly cancel, are known much better together than one by
one; printed to the place of their own errors they would be another law. With x as fitted, x' as printed
and residuals of standard deviation sigma,

    min over starts   sqrt(sum ((x' - x) / sigma)^2) <= 0.1 sqrt(k)    over all samples and states,

by integrating both, and by how x moves with its starts. The variance of a curve with k fitted constants, in units
of sigma^2, adds up to k over all samples: the printed curve is off by a tenth of its own standard error on the
average. Starts are fitted beside the constants: what another start takes back, as it does along long and sensitive
series, needs no digit. Residuals with memory say less, so sigma is larger by the factor of the standard errors.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from odediscovery.data.series import TimeSeries
from odediscovery.judge.doubt import autocorrelation_inflation, interval_squares
from odediscovery.judge.notes import Note, listed, not_determined, open_exponent, undetermined_constants
from odediscovery.laws.equations import Equations
from odediscovery.laws.expressions import identifiers
from odediscovery.laws.power_sum import Free, PowerSum, count, equations_with, filled, picked
from odediscovery.laws.printing import as_printed
from odediscovery.laws.records import interval, monomial_names
from odediscovery.problem.problem import Problem, fixed_mask
from odediscovery.runtime.arrays import Array, Mask
from odediscovery.runtime.monitor import TELLING, Monitor
from odediscovery.solve.sensitivities import residuals
from odediscovery.stages.polish.polish import EXACT_SQUARES
from odediscovery.stages.values import Polished, residual_freedom


class Refit(Protocol):
    """How a law is polished with some of its constants free."""

    def __call__(self, law: PowerSum, free: Free, most: int | None = None) -> Polished:
        """The law polished, with at most so many evaluations of the Jacobian (default: as many as usual)."""


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
    # Factor by which a power starts beside that of a known term in another equation; not 1: equal monomials are
    # merged
    w = np.vstack([law.exponents, np.where(real[rows], 1.001, 1.0) * law.exponents[rows]])
    fitted = np.vstack([free[1], real[rows] & fit])
    also = np.hstack([free[0] & ~common, common[:, rows]])
    return PowerSum(a, w, None, law.stoichiometry), (also, fitted, free[2], free[3])


def undetermined_exponents(p: Problem, found: Polished, refit: Refit) -> list[Note]:
    """Exponents whose 95 % interval holds two whole numbers or more, one sentence each.

        w +- t f standard error,  t the 97.5 % point of Student's t,

    with f from `autocorrelation_inflation`. All other exponents that the law holds stay
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
            # An exponent is told where its interval, all exponents free at once, is not longer
            told[j, k] = ends is not None and ends[1] - ends[0] <= 0.25
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
        # A constant is in a combination from this share of the largest part on [share of the relative change]
        named = [names[i] for i in np.flatnonzero(share > 0.1 * share.max(initial=0.0))]
        # Relative change of constants that intervals without noise tell; what it leaves is 1e-4, squared
        if named and not _is_told_by_intervals(p, found, direction * 0.01 / share.max()):
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
    return bool((interval_squares(moved, p)[~p.constant] > EXACT_SQUARES).any())


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


# How far the printed curve may be from the fitted one [standard errors of the curve]
PRINTED_AWAY = 0.1
# Most digits beyond the two of an error
PRINTED_MOST = 6


def with_enough_digits(
    equations: Equations, series: TimeSeries, initial: Array, sigma: Array, monitor: Monitor
) -> Equations:
    """The equations, to be printed with as many digits as they need; with a few more where time is short.

    Args:
        initial: start values [trajectories, states].
        sigma: standard deviation of the residuals [states], times the factor of errors where residuals have memory;
            nan where nothing was measured.
        monitor: knows how much time is left to find out what other starts would take back.
    """
    law, errors = equations.law, equations.standard_errors
    if law is None or errors is None:
        return equations
    fitted = _curves(equations, series, initial)
    scale = np.where(sigma > 0.0, sigma, np.nan)
    fitted_constants = max(sum(int((e > 0.0).sum()) for e in errors.constants), 1)
    moves = monitor.in_time(TELLING, lambda: _moves(equations, series, initial, scale), list[Array]())
    for spare in range(PRINTED_MOST + 1):
        # Digits of a constant whose error is unknown
        copied = as_printed(law, errors, 4, spare)
        printed = Equations.from_power_sum(
            equations.states, copied, time_name=equations.time_name, controls=equations.controls
        )
        away = (_curves(printed, series, initial) - fitted) / scale
        # Where the fitted law has no solution either, nothing can be compared.
        away = np.where(np.isfinite(fitted) & np.isfinite(scale), away, 0.0)
        if np.sqrt(np.sum(_beyond_starts(away, moves) ** 2)) <= PRINTED_AWAY * np.sqrt(fitted_constants):
            return dataclasses.replace(equations, spare=spare)
    return dataclasses.replace(equations, spare=PRINTED_MOST)


def _moves(equations: Equations, series: TimeSeries, initial: Array, scale: Array) -> list[Array]:
    """How curves move with their starts, in standard deviations [samples * states, starts] a trajectory."""
    found = []
    for x0, run in zip(initial, series.trajectories, strict=True):
        here = equations.simulate(x0, run.time, controls=run.controls)
        columns = []
        # Step of a derivative by a start [the start]
        for h in np.diag(1e-5 * np.maximum(np.abs(x0), np.nan_to_num(scale, nan=1.0))):
            moved = (equations.simulate(x0 + h, run.time, controls=run.controls) - here) / h.sum() / scale
            columns.append(np.nan_to_num(moved, posinf=0.0, neginf=0.0).ravel())
        found.append(np.stack(columns, axis=1))
    return found


def _beyond_starts(away: Array, moves: list[Array]) -> Array:
    """What other starts, which are fitted too, cannot take back of a distance [samples, states]; all without moves."""
    if not moves:
        return away.ravel()
    left, first = [], 0
    for block in moves:
        rows = len(block) // away.shape[1]
        own = away[first : first + rows].ravel()
        left.append(own - block @ np.linalg.lstsq(block, own, rcond=None)[0])
        first += rows
    joined: Array = np.concatenate(left)
    return joined


def _curves(equations: Equations, series: TimeSeries, initial: Array) -> Array:
    """Solutions at all samples of all trajectories, [samples, states]."""
    runs = zip(initial, series.trajectories, strict=True)
    return np.concatenate([equations.simulate(x0, run.time, controls=run.controls) for x0, run in runs])


def name_undetermined(equations: Equations) -> list[Note]:
    """A note that names the constants whose standard errors are as large as they are."""
    law, errors = equations.law, equations.standard_errors
    if law is None or errors is None:
        return []
    named = _undetermined(equations, law, errors)
    return [undetermined_constants(named)] if named else []


def _undetermined(equations: Equations, law: PowerSum, errors: PowerSum) -> list[str]:
    terms, found = monomial_names(equations), []
    for i, j in np.argwhere((law.coefficients != 0.0) & (errors.coefficients >= np.abs(law.coefficients))):
        if i < len(equations.states):
            term = "the constant term" if terms[j] == "1" else f"the coefficient of {terms[j]}"
            found.append(f"{term} in {equations.states[i]}'")
    names = [*equations.variables, *(["a function or sum"] * law.exponents.shape[1])]
    for j, k in np.argwhere((law.exponents != 0.0) & (errors.exponents >= np.abs(law.exponents))):
        found.append(f"the exponent of {names[k]} in {terms[j]}")
    for b, e in zip(law.constants[2].ravel(), errors.constants[2].ravel(), strict=True):
        if b and e >= abs(b):
            found.append(f"the constant {abs(b):.3g} of a sum")
    return found
