"""Remarks on a chosen law: constants that the data leave open, digits to print, and the range of validity.

The data may hardly determine an exponent that was set to a simple value because the difference is not significant. Each
is fitted again with all other free constants; if its interval holds several whole numbers, the reader is warned.

The printed numbers must reproduce the fitted law. Two digits of a standard error are enough for a single constant.
Constants that are strongly correlated, such as those of two exponentials that nearly cancel, are known much better
jointly than one by one; rounded to their own errors they would be another law. With x as fitted, x' as printed and
residuals of standard deviation sigma,

    min over starts   sqrt(sum ((x' - x) / sigma)^2) <= 0.1 sqrt(k)    over all samples and states,

from integrating both, and from the derivative of x by its starts. The variance of a curve with k fitted constants, in
units of sigma^2, adds up to k over all samples: on average, the printed curve is off by a tenth of its own standard
error. Differences that another start compensates, as along long and sensitive series, need no digits. Autocorrelated
residuals carry less information, so sigma includes the factor of the standard errors.

Beyond the data a law that fits may blow up, be valid only on the orbit that was measured, or come to rest.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from odediscovery.data.series import TimeSeries, pooled
from odediscovery.judge.claim import autocorrelation_inflation, interval_squares, residuals_of
from odediscovery.judge.notes import (
    Note,
    blows_up,
    comes_to_rest,
    leaves_the_data,
    listed,
    not_determined,
    one_orbit,
    open_exponent,
    undetermined_constants,
)
from odediscovery.laws.equations import Equations
from odediscovery.laws.expressions import as_printed, constant, identifiers
from odediscovery.laws.power_sum import Free, PowerSum, count, equations_with, filled, picked
from odediscovery.laws.records import Polished, interval, monomial_names, residual_freedom
from odediscovery.problem.problem import Problem, fixed_mask
from odediscovery.runtime.arrays import ABOVE_ZERO, Array, Mask, column_norms
from odediscovery.runtime.monitor import TELLING, Monitor
from odediscovery.stages.polish import EXACT_SQUARES

# A function that polishes a law with some of its constants free: (law, free, most evaluations of the Jacobian, by
# default the usual number).
Refit: TypeAlias = Callable[..., Polished]


def split_known(p: Problem, law: PowerSum, free: Free, *, fit: bool) -> tuple[PowerSum, Free]:
    """Duplicate known monomials for the equations in which they are not known.

    With h' = v known, the power of v in h' is 1; in v' = g - c v it is unknown. `fit` says whether to fit exponents of
    the new monomials, where they may be real.
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
    # Factor of the initial power relative to that of a known term in another equation; not 1, because equal monomials
    # are merged
    w = np.vstack([law.exponents, np.where(real[rows], 1.001, 1.0) * law.exponents[rows]])
    fitted = np.vstack([free[1], real[rows] & fit])
    also = np.hstack([free[0] & ~common, common[:, rows]])
    return PowerSum(a, w, None, law.stoichiometry), (also, fitted, free[2], free[3])


def undetermined_exponents(p: Problem, found: Polished, refit: Refit) -> list[Note]:
    """Notes on exponents whose 95 % interval holds two whole numbers or more, one each.

    All other exponents that the law fixes stay fixed. Those that are well determined with all exponents free need no
    refit.
    """
    if found.law.features is not None:
        return []
    notes = []
    law, free = split_known(p, found.law, found.free, fit=False)
    known, names = fixed_mask(p, law), list(identifiers(p.data.states).values())
    one_value = np.array([len(np.unique(column[np.isfinite(column)])) < 2 for column in pooled(p.data).T])
    # Fixed neither by the sign of a state nor by the user, and of a state with more than one value.
    real: Mask = (law.exponents != 0) & p.nonnegative & ~one_value & (True if known is None else ~known[1])
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
            of = " and ".join(f"{names[i]}'" for i in np.flatnonzero(law.coefficients[:, j]))
            notes.append(open_exponent(names[k], _term(p, law.exponents[j]), of, *ends))
    return notes


def _interval(p: Problem, found: Polished, j: int, k: int) -> list[float] | None:
    """The 95 % interval of the exponent of state k in monomial j; None if it has none."""
    value, error = found.law.exponents[j, k], found.errors.exponents[j, k]
    error *= autocorrelation_inflation(residuals_of(p, found))
    return interval(float(value), float(error), residual_freedom(found))


def _are_told(p: Problem, free: Polished, law: PowerSum, asked: Mask) -> Mask:
    """Which exponents among those `asked` [monomials, states] have short intervals with all exponents free."""
    told = np.zeros_like(asked)
    if free.finite and free.law.exponents.shape == law.exponents.shape:
        for j, k in np.argwhere(asked):
            ends = _interval(p, free, int(j), int(k))
            # Longest interval of an exponent that is well determined
            told[j, k] = ends is not None and ends[1] - ends[0] <= 0.25
    return told


def unidentifiable_combinations(p: Problem, found: Polished) -> list[Note]:
    """Notes on constants that the data determine only in combination, one for each combination.

    These are the directions in which the likelihood does not change, C = (J^T J)^-1.
    """
    law, k = found.law, count(found.free)
    if law.features is not None or not k:
        return []
    names = _constants(p, law, found.free)
    values = picked(law, found.free)
    hidden, notes = np.isnan(found.joint.deviations()[:k]), []
    for direction in found.joint.unknown[:, :k]:
        share = np.where(hidden, np.abs(direction / np.where(values == 0.0, 1.0, values)), 0.0)
        # Least share of a constant in a combination [largest share of the relative change]
        named = [names[i] for i in np.flatnonzero(share > 0.1 * share.max(initial=0.0))]
        # Relative change of constants that intervals without noise reveal; its square is 1e-4
        if named and not _is_told_by_intervals(p, found, direction * 0.01 / share.max()):
            notes.append(not_determined(named))
    return notes


def _is_told_by_intervals(p: Problem, found: Polished, change: Array) -> bool:
    """Whether changed constants cause residuals on intervals of data without noise.

    On whole chaotic trajectories, the effect of one combination on their ends hides all others.
    """
    if not p.clean:
        return False
    law, free = found.law, found.free
    values = picked(law, free)
    moved = law.with_constants(*filled(law.constants, free, values + change))
    return bool((interval_squares(moved, p)[~p.constant] > EXACT_SQUARES).any())


def _constants(p: Problem, law: PowerSum, free: Free) -> list[str]:
    """Names of the free constants of a sum of powers, in order."""
    names = list(identifiers(p.data.states).values())
    terms = [_term(p, w) for w in law.exponents]
    called = [f"the coefficient of {term}" if term else "the constant term" for term in terms]
    sides = [(j, [f"{names[k]}'" for k in equations_with(law, i)]) for i, j in np.argwhere(free[0]).tolist()]
    coefficients = [f"{called[j]} in {listed(own)}" for j, own in sides]
    return coefficients + [f"the exponent of {names[k]} in {terms[j]}" for j, k in np.argwhere(free[1])]


def _term(p: Problem, exponents: Array) -> str:
    """A dimensionless product in the user's states, with -x where a mirrored state has a fractional power."""
    names, w = identifiers(p.data.states).values(), np.round(exponents, 2)
    below = (p.scale.state < 0.0) & (w != np.round(w))
    bases = [f"(-{name})" if minus else name for name, minus in zip(names, below, strict=True)]
    return "*".join(
        name if near == 1 else f"{name}^{power:.3g}"
        for name, near, power in zip(bases, w, exponents, strict=True)
        if power
    )


# Largest distance of the printed curve from the fitted one [standard errors of the curve]
PRINTED_AWAY = 0.1
# Most digits beyond the two of an error
PRINTED_MOST = 6


def with_enough_digits(
    equations: Equations, series: TimeSeries, initial: Array, sigma: Array, monitor: Monitor
) -> Equations:
    """The equations with the number of printed digits that they need, or a few more where time is short.

    They start at `initial` [trajectories, states]; sigma is the standard deviation of the residuals [states], times the
    factor of errors for autocorrelated residuals, nan where nothing was measured.
    """
    law, errors = equations.law, equations.standard_errors
    if law is None or errors is None:
        return equations
    fitted = _curves(equations, series, initial)
    scale = np.where(sigma > 0.0, sigma, np.nan)
    fitted_constants = max(sum(int((e > 0.0).sum()) for e in errors.constants), 1)
    moves = monitor.in_time(TELLING, lambda: _moves_with_starts(equations, series, initial, scale), list[Array]())
    for spare in range(PRINTED_MOST + 1):
        # Four digits for a constant whose error is unknown
        copied = as_printed(law, errors, 4, spare)
        printed = Equations.from_power_sum(
            equations.states, copied, time_name=equations.time_name, controls=equations.controls
        )
        away = (_curves(printed, series, initial) - fitted) / scale
        # Where the fitted law has no solution either, there is no comparison.
        away = np.where(np.isfinite(fitted) & np.isfinite(scale), away, 0.0)
        if np.sqrt(np.sum(_beyond_starts(away, moves) ** 2)) <= PRINTED_AWAY * np.sqrt(fitted_constants):
            return dataclasses.replace(equations, spare=spare)
    return dataclasses.replace(equations, spare=PRINTED_MOST)


def _moves_with_starts(equations: Equations, series: TimeSeries, initial: Array, scale: Array) -> list[Array]:
    """Derivatives of curves by their starts, in standard deviations [samples * states, starts] per trajectory."""
    found = []
    for x0, run in zip(initial, series.trajectories, strict=True):
        here = equations.simulate(x0, run.time, controls=run.controls)
        columns = []
        # Step of the derivative [the start]
        for h in np.diag(1e-5 * np.maximum(np.abs(x0), np.nan_to_num(scale, nan=1.0))):
            moved = (equations.simulate(x0 + h, run.time, controls=run.controls) - here) / h.sum() / scale
            columns.append(np.nan_to_num(moved, posinf=0.0, neginf=0.0).ravel())
        found.append(np.stack(columns, axis=1))
    return found


def _beyond_starts(away: Array, moves: list[Array]) -> Array:
    """The part of a distance [samples, states] that other fitted starts cannot compensate; all without moves."""
    if not moves:
        return away.ravel()
    left, first = [], 0
    for block in moves:
        rows = len(block) // away.shape[1]
        own = away[first : first + rows].ravel()
        left.append(own - block @ np.linalg.lstsq(block, own, rcond=None)[0])
        first += rows
    return np.concatenate(left)


def _curves(equations: Equations, series: TimeSeries, initial: Array) -> Array:
    """Solutions at all samples of all trajectories, [samples, states]."""
    runs = zip(initial, series.trajectories, strict=True)
    return np.concatenate([equations.simulate(x0, run.time, controls=run.controls) for x0, run in runs])


def name_undetermined(equations: Equations) -> list[Note]:
    """A note that names the constants whose standard errors are at least as large as their values."""
    law, errors = equations.law, equations.standard_errors
    if law is None or errors is None:
        return []
    pairs = zip(law.constants, errors.constants, strict=True)
    in_terms, in_powers, in_sums, _ = (np.argwhere((c != 0.0) & (e >= np.abs(c))).tolist() for c, e in pairs)
    terms, states = monomial_names(equations), equations.states
    called = ["the constant term" if term == "1" else f"the coefficient of {term}" for term in terms]
    names = [*equations.variables, *(["a function or sum"] * law.exponents.shape[1])]
    found = [f"{called[j]} in {states[i]}'" for i, j in in_terms if i < len(states)]
    found += [f"the exponent of {names[k]} in {terms[j]}" for j, k in in_powers]
    found += [f"the constant {abs(law.constants[2][u, j]):.3g} of a sum" for u, j in in_sums]
    return [undetermined_constants(listed(found, 3))] if found else []


# A solution this far from its start has left it and may return [range of the data]
EXTRAPOLATION_GONE = 0.3
# A solution that returns this near to its start is a closed orbit [range of the data]; chords of eighty per turn
# are off by at most a thousandth
RETURNED = 1e-3
# Points of a solution per interval, with straight lines between them; cost
POINTS = 20
# Intervals in which the first return is sought, doubled until it is found; cost
FIRST = 50


def _continued(equations: Equations, start: Array, times: Array) -> Array:
    """The states at given times [times, states]; nan from a singularity on, but not because of many turns."""
    x = equations.simulate(start, times)
    while True:
        lost = np.flatnonzero(~np.isfinite(x).all(axis=1))
        if not len(lost) or lost[0] == 0:
            return x
        # A new solve has its own budget of evaluations.
        more = equations.simulate(x[lost[0] - 1], times[lost[0] - 1 :])
        if not np.isfinite(more[1]).all():
            return x
        x[lost[0] - 1 :] = more


def check_extrapolation(equations: Equations, series: TimeSeries, initial: Array) -> list[Note]:
    """At most one warning against integrating the equations over twice the measured time.

    It reports the first blow-up, or else the state farthest outside the data, if that is far. The series are the fitted
    data, without controls, from starts [trajectories, states].

    >>> series = TimeSeries.from_arrays([0, 1, 2, 3], [0.2, 0.25, 0.333, 0.5])
    >>> grown = Equations.parse(["x0"], {"x0": "x0**2"})
    >>> print(*check_extrapolation(grown, series, np.array([[0.2]])))
    integrated for twice the measured time, the equations diverge at t = 5.02: use them within the measured time only
    """
    values = pooled(series)
    # A state that never changed has no range to leave.
    known = np.where(np.isfinite(values), values, -np.inf).max(axis=0)
    seen = known > np.where(np.isfinite(values), values, np.inf).min(axis=0)
    if not seen.any():
        return []
    low, high = (f(values[:, seen], axis=0) for f in (np.nanmin, np.nanmax))
    # A state this far beyond the data is reported [range of the data]
    farthest, notes = 2.0, list[Note]()
    # At most five trajectories are continued.
    for run, start in list(zip(series.trajectories, initial, strict=True))[:5]:
        first, last = run.time[0], run.time[-1]
        # Times of evaluation
        times = np.linspace(last, 2.0 * last - first, 50)
        x = _continued(equations, start, np.append(first, times))[1:]
        named = f" from trajectory {run.label!r}" if run.label and len(series.trajectories) > 1 else ""
        lost = np.asarray(~np.isfinite(x).all(axis=1))
        if lost[0]:
            continue
        if lost.any():
            return [blows_up(named, f"{series.time_name} = {times[np.argmax(lost)]:.3g}")]
        off = np.maximum(x[:, seen] - high, low - x[:, seen]) / np.maximum(high - low, ABOVE_ZERO)
        k, i = np.unravel_index(int(np.argmax(off)), off.shape)
        if off[k, i] > farthest:
            farthest, state = float(off[k, i]), np.array(series.states)[seen][i]
            notes = [leaves_the_data(named, state, x[:, seen][k, i], low[i], high[i])]
    return notes


def closed_orbit(equations: Equations, series: TimeSeries, initial: Array) -> list[Note]:
    """A note if the data are a single closed orbit according to the equations.

    On one orbit any function of the states that is constant there, such as an energy, may be added to an equation,
    and terms are functions of each other: v^2 = 2 (E - V(x)). The series has no controls.

    >>> circle = Equations.parse(["x", "v"], {"x": "v", "v": "-4*x"})
    >>> t = np.linspace(0.0, 5.0, 40)
    >>> series = TimeSeries.from_arrays(t, circle.simulate([1.0, 0.0], t), ["x", "v"])
    >>> closed_orbit(circle, series, np.array([[1.0, 0.0]]))[0][:61]
    'the only trajectory is one closed orbit of period 3.14: terms'
    """
    spread = np.nanmax(pooled(series), axis=0) - np.nanmin(pooled(series), axis=0)
    moving, time = spread > 0, series.trajectories[0].time
    if len(series.trajectories) != 1 or np.count_nonzero(moving) < 2:
        return []

    def course(times: Array) -> Array:
        return np.asarray((equations.simulate(initial[0], times) - initial[0])[:, moving] / spread[moving])

    intervals = FIRST
    while True:
        intervals = min(intervals, len(time) - 1)
        # Limits the number of points, with fewer per interval; cost: then a turn has many samples
        each = max(min(POINTS, 4000 // intervals), 1)
        times = np.unique(np.linspace(time[:intervals], time[1 : intervals + 1], each + 1))
        period = _first_return(times, course(times))
        if period is not None or intervals == len(time) - 1:
            break
        intervals *= 2
    if period is None:
        return []
    # A spiral returns less closely with every turn.
    turns = np.floor((time[-1] - time[0]) / period)
    last = time[0] + period * (turns + np.linspace(-0.5, 0.0, POINTS * FIRST))
    if turns > 1 and not _nearest(course(np.append(time[0], last))[1:])[0] < RETURNED:
        return []
    return [one_orbit(f"{period:.3g}")]


def _first_return(times: Array, x: Array) -> float | None:
    """Time after which a curve [points, states] that begins at 0 returns to it; None if it does not."""
    far = np.flatnonzero(column_norms(x, axis=1) > EXTRAPOLATION_GONE)
    if not len(far) or not np.isfinite(x).all():
        return None
    away = np.flatnonzero(column_norms(x[far[0] :], axis=1) < EXTRAPOLATION_GONE)
    if not len(away):
        return None
    # Only the first approach counts: later turns come as near.
    begin = far[0] + away[0] - 1
    gone = np.flatnonzero(column_norms(x[begin + 1 :], axis=1) > EXTRAPOLATION_GONE)
    end = begin + 2 + (gone[0] if len(gone) else len(x))
    distance, at = _nearest(x[begin:end])
    if not distance < RETURNED:
        return None
    return float(np.interp(begin + at, np.arange(len(times)), times) - times[0])


def _nearest(x: Array) -> tuple[float, float]:
    """Least distance of a curve [points, states] from 0, and its place in points."""
    first, chord = x[:-1], np.diff(x, axis=0)
    share = np.clip(-(first * chord).sum(axis=1) / (chord**2).sum(axis=1).clip(ABOVE_ZERO), 0.0, 1.0)
    distance = column_norms(first + share[:, None] * chord, axis=1)
    at = int(np.argmin(np.nan_to_num(distance, nan=np.inf)))
    return float(distance[at]), at + float(share[at])


# Change over the last half of that time below which a solution rests [range of the data]
STILL = 1e-5

# From constants and times to the states at these times [times, states], nan from where the solution ends.
Solve = Callable[[Array, Array], Array]
# From constants and states to the rates of change [states].
Rates = Callable[[Array, Array], Array]


def resting_point(
    solve: Solve, rates: Rates, constants: Array, covariance: Array, span: tuple[float, float], low: Array, high: Array
) -> tuple[Array, Array] | None:
    """The point at which the solution comes to rest, and its standard errors [states]; None if it does not.

        cov(x) = (dx/dc) cov(c) (dx/dc)^T,    df/dx dx/dc = -df/dc

    where the rates f have a regular Jacobian there; else dx/dc is that of solutions. The covariance is that of the
    constants [constants, constants]; errors are nan where it does not determine them. The span is the first and last
    measured time, low and high are the least and greatest measured values [states].

    >>> solve = lambda c, t: c[0] + np.exp(-np.asarray(t))[:, None]
    >>> rates = lambda c, x: c[0] - x
    >>> low, high = np.array([4.0]), np.array([5.0])
    >>> value, error = resting_point(solve, rates, low, np.array([[0.01]]), (0, 3), low, high)
    >>> value.round(6).tolist(), error.round(6).tolist()
    ([4.0], [0.1])
    """
    wide = np.maximum(high - low, ABOVE_ZERO)
    # Time over which a solution is followed [measured time]
    times = span[0] + (span[1] - span[0]) * np.array([0.0, 0.5, 1.0]) * 30.0

    def end(c: Array) -> Array | None:
        middle, last = solve(c, times)[1:]
        rests = np.isfinite(last).all() and (np.abs(last - middle) < STILL * wide).all()
        return last if rests else None

    here = end(constants)
    # Resting points farther beyond the data are not reported [range of the data]
    if here is None or (np.maximum(here - high, low - here) > 3.0 * wide).any():
        return None
    size = np.maximum(np.abs(low), np.abs(high))
    # A state that rests below this counts as 0 [largest value in the data]
    here = np.where(np.abs(here) < 1e-3 * size, 0.0, here)
    # Step of a derivative by a constant [its standard error]
    steps = 0.1 * np.sqrt(np.diag(covariance))
    if not here.any():
        return None
    if not len(steps):
        # All constants are fixed; a solution that does not move cannot come to rest.
        moves = (np.abs(here - solve(constants, times[:1])[0]) > STILL * wide).any()
        return (here, np.zeros_like(here)) if moves else None
    if not (np.isfinite(steps) & (steps > 0.0)).all():
        return here, np.full_like(here, np.nan)
    # Step of a derivative by a state [range of the data]
    gradient = _moves(rates, constants, steps, here, 1e-5 * wide)
    if gradient is None:
        slopes = []
        for row, step in zip(np.diag(steps), steps, strict=True):
            above, below = end(constants + row), end(constants - row)
            if above is None or below is None:
                return here, np.full_like(here, np.nan)
            slopes.append((above - below) / (2.0 * step))
        gradient = np.array(slopes).T
    errors: Array = np.sqrt(np.maximum(np.diag(gradient @ covariance @ gradient.T), 0.0))
    return here, np.where(here == 0.0, 0.0, errors)


def _moves(rates: Rates, constants: Array, steps: Array, at: Array, shifts: Array) -> Array | None:
    """Derivative of an attracting point by the constants [states, constants]; None if its Jacobian is not regular."""
    by_state = np.array([(rates(constants, at + e), rates(constants, at - e)) for e in np.diag(shifts)])
    by_constant = np.array([(rates(constants + e, at), rates(constants - e, at)) for e in np.diag(steps)])
    jacobian, slopes = (np.diff(ends[:, ::-1], axis=1)[:, 0].T / 2.0 for ends in (by_state, by_constant))
    slopes = slopes / steps
    # At the end of a root's domain there is no tangent.
    bent = np.abs(by_state.mean(axis=1).T - rates(constants, at)[:, None])
    # Largest curvature over that step with a tangent [its slope]
    smooth = bent.max() <= 1e-2 * np.abs(jacobian).max()
    if not (smooth and np.isfinite(jacobian).all() and np.isfinite(slopes).all()):
        return None
    # In units of the shifts, which do not change eigenvalues.
    attracts = (np.linalg.eigvals(jacobian / shifts).real < 0.0).all()
    # Largest condition of a regular Jacobian
    if not attracts or np.linalg.cond(jacobian / shifts[:, None]) > 1e6:
        return None
    return np.asarray(-shifts[:, None] * np.linalg.solve(jacobian, slopes))


def resting_note(states: Sequence[str], values: Array, errors: Array) -> Note:
    """The note on a resting point.

    >>> resting_note(["h"], np.array([4.18]), np.array([0.05])).split(":")[0]
    'equilibrium at h = 4.180(50)'
    """
    # A state that no constant moves, such as one without terms, stays at its start: its error is unknown here.
    known = np.where((errors == 0.0) & (values != 0.0), np.nan, errors)
    # Where constants are short decimals, the point is as exact as they are.
    digits = 3 if errors.any() else 6
    told = [f"{x} = {constant(float(v), float(e), digits)}" for x, v, e in zip(states, values, known, strict=True)]
    return comes_to_rest(", ".join(told), "; its error is propagated from their constants" if errors.any() else "")
