"""What a law does beyond the data: how far it goes, and where it comes to rest.

What equations do beyond the data: a law that fits may blow up after them, or hold on their one orbit only.

Where the solutions of a law come to rest, with error bars: what the measured system ends at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from odediscovery.data.series import TimeSeries, pooled
from odediscovery.judge.notes import Note, blows_up, comes_to_rest, leaves_the_data, one_orbit
from odediscovery.laws.equations import Equations
from odediscovery.laws.printing import constant
from odediscovery.runtime.arrays import ABOVE_ZERO, Array, column_norms

# A solution that was so far from its start may come back to it [range of the data]
EXTRAPOLATION_GONE = 0.3
# A solution that comes so near to its start again is a closed orbit [range of the data]; chords of eighty to a turn
# are a thousandth off at most
RETURNED = 1e-3
# Points of a solution in an interval, between which it is straight; cost
POINTS = 20
# Intervals in which the first return is sought, and then in twice as many; cost
FIRST = 50


@dataclass(frozen=True)
class Excursion:
    """Where equations go that leave the data when they are continued.

    Args:
        of: the trajectory, in words; "" where there is only one.
        off: how far from the data, in ranges of the data; inf where the equations blow up.
        when: the time of a blow-up, in words.
        state, value: which state is farthest, and where it is.
        low, high: range of its data.
    """

    of: str
    off: float
    when: str = ""
    state: str = ""
    value: float = np.nan
    low: float = np.nan
    high: float = np.nan


def excursion(equations: Equations, series: TimeSeries, initial: Array) -> Excursion | None:
    """The first blow-up, or else the farthest that the equations go from the data.

    They are integrated for as long again as each trajectory was measured. None where they never leave the data.

    Args:
        series: what was fitted, without controls.
        initial: start values [trajectories, states].
    """
    values = pooled(series)
    # A state that never changed has no range that it could leave.
    known = np.where(np.isfinite(values), values, -np.inf).max(axis=0)
    seen = known > np.where(np.isfinite(values), values, np.inf).min(axis=0)
    if not seen.any():
        return None
    low, high = (f(values[:, seen], axis=0) for f in (np.nanmin, np.nanmax))
    farthest: Excursion | None = None
    # Trajectories that are continued, for as long again as they were measured
    for run, start in list(zip(series.trajectories, initial, strict=True))[:5]:
        first, last = run.time[0], run.time[-1]
        # Times at which they are looked at
        times = np.linspace(last, 2.0 * last - first, 50)
        x = _continued(equations, start, np.append(first, times))[1:]
        named = f" from trajectory {run.label!r}" if run.label and len(series.trajectories) > 1 else ""
        lost = np.asarray(~np.isfinite(x).all(axis=1))
        if lost[0]:
            continue
        if lost.any():
            return Excursion(named, np.inf, f"{series.time_name} = {times[np.argmax(lost)]:.3g}")
        off = np.maximum(x[:, seen] - high, low - x[:, seen]) / np.maximum(high - low, ABOVE_ZERO)
        k, i = np.unravel_index(int(np.argmax(off)), off.shape)
        if off[k, i] > (0.0 if farthest is None else farthest.off):
            name, value = str(np.array(series.states)[seen][i]), float(x[:, seen][k, i])
            farthest = Excursion(named, float(off[k, i]), "", name, value, float(low[i]), float(high[i]))
    return farthest


def _continued(equations: Equations, start: Array, times: Array) -> Array:
    """The states at some times [times, states]; nan from a singularity on, and not because of many turns before."""
    x = equations.simulate(start, times)
    while True:
        lost = np.flatnonzero(~np.isfinite(x).all(axis=1))
        if not len(lost) or lost[0] == 0:
            return x
        # A solve has a budget of its own.
        more = equations.simulate(x[lost[0] - 1], times[lost[0] - 1 :])
        if not np.isfinite(more[1]).all():
            return x
        x[lost[0] - 1 :] = more


def check_extrapolation(equations: Equations, series: TimeSeries, initial: Array) -> list[Note]:
    """A warning, one at most, for a reader who continues the equations for as long again.

    Args:
        series: what was fitted, without controls.
        initial: start values [trajectories, states].

    >>> series = TimeSeries.from_arrays([0, 1, 2, 3], [0.2, 0.25, 0.333, 0.5])
    >>> grown = Equations.parse(["x0"], {"x0": "x0**2"})
    >>> check_extrapolation(grown, series, np.array([[0.2]]))
    ['continued for as long again the equations blow up, at t = 5.02: use them within the measured time only']
    """
    found = excursion(equations, series, initial)
    # A state that goes so far beyond the data is reported [range of the data]
    if found is None or found.off <= 2.0:
        return []
    if np.isinf(found.off):
        return [blows_up(found.of, found.when)]
    return [leaves_the_data(found.of, found.state, found.value, found.low, found.high)]


def closed_orbit(equations: Equations, series: TimeSeries, initial: Array) -> list[Note]:
    """That the data are a single closed orbit, if the equations say so.

    On one orbit any function of the states that is constant there, such as an energy, may be added to an equation,
    and terms are functions of each other: v^2 = 2 (E - V(x)).

    Args:
        series: what was fitted, without controls.
        initial: start values [trajectories, states].

    >>> circle = Equations.parse(["x", "v"], {"x": "v", "v": "-4*x"})
    >>> t = np.linspace(0.0, 5.0, 40)
    >>> series = TimeSeries.from_arrays(t, circle.simulate([1.0, 0.0], t), ["x", "v"])
    >>> closed_orbit(circle, series, np.array([[1.0, 0.0]]))[0][:63]
    'the only trajectory is one closed orbit, gone round in 3.14: te'
    """
    spread = np.nanmax(pooled(series), axis=0) - np.nanmin(pooled(series), axis=0)
    moving, time = spread > 0, series.trajectories[0].time
    if len(series.trajectories) != 1 or np.count_nonzero(moving) < 2:
        return []

    def course(times: Array) -> Array:
        off: Array = (equations.simulate(initial[0], times) - initial[0])[:, moving] / spread[moving]
        return off

    intervals = FIRST
    while True:
        intervals = min(intervals, len(time) - 1)
        # Most of these points, which are fewer in an interval then; cost: samples of a turn are many then
        each = max(min(POINTS, 4000 // intervals), 1)
        times = np.unique(np.linspace(time[:intervals], time[1 : intervals + 1], each + 1))
        period = _first_return(times, course(times))
        if period is not None or intervals == len(time) - 1:
            break
        intervals *= 2
    if period is None:
        return []
    # A spiral comes less near with every turn.
    turns = np.floor((time[-1] - time[0]) / period)
    last = time[0] + period * (turns + np.linspace(-0.5, 0.0, POINTS * FIRST))
    if turns > 1 and not _nearest(course(np.append(time[0], last))[1:])[0] < RETURNED:
        return []
    return [one_orbit(f"{period:.3g}")]


def _first_return(times: Array, x: Array) -> float | None:
    """After how long a curve that begins at 0 comes back to it [points, states]; None where it does not."""
    far = np.flatnonzero(column_norms(x, axis=1) > EXTRAPOLATION_GONE)
    if not len(far) or not np.isfinite(x).all():
        return None
    away = np.flatnonzero(column_norms(x[far[0] :], axis=1) < EXTRAPOLATION_GONE)
    if not len(away):
        return None
    # Only as long as it is near the first time: later turns come as near.
    begin = far[0] + away[0] - 1
    gone = np.flatnonzero(column_norms(x[begin + 1 :], axis=1) > EXTRAPOLATION_GONE)
    end = begin + 2 + (gone[0] if len(gone) else len(x))
    distance, at = _nearest(x[begin:end])
    if not distance < RETURNED:
        return None
    return float(np.interp(begin + at, np.arange(len(times)), times) - times[0])


def _nearest(x: Array) -> tuple[float, float]:
    """How near a curve comes to 0, and where, in points [points, states]."""
    first, chord = x[:-1], np.diff(x, axis=0)
    share = np.clip(-(first * chord).sum(axis=1) / (chord**2).sum(axis=1).clip(ABOVE_ZERO), 0.0, 1.0)
    distance = column_norms(first + share[:, None] * chord, axis=1)
    at = int(np.argmin(np.nan_to_num(distance, nan=np.inf)))
    return float(distance[at]), at + float(share[at])


# Change over the last half of that time below which it rests [range of the data]
STILL = 1e-5

# Constants and times to the states at these times [times, states], nan from where the solution ends.
Solve = Callable[[Array, Array], Array]
# Constants and states to the rates of change [states].
Rates = Callable[[Array, Array], Array]


def resting_point(
    solve: Solve, rates: Rates, constants: Array, covariance: Array, span: tuple[float, float], low: Array, high: Array
) -> tuple[Array, Array] | None:
    """The point at which the solution comes to rest, and its standard errors [states]; None where it does not.

        cov(x) = (dx/dc) cov(c) (dx/dc)^T,    df/dx dx/dc = -df/dc

    where the rates f have a regular Jacobian there; else dx/dc is that of solutions.

    Args:
        solve: the law's solution from its fitted start.
        rates: the law, f.
        constants: fitted [constants].
        covariance: of them [constants, constants], nan where the data do not tell.
        span: first and last measured time.
        low: least measured value of each state [states].
        high: greatest.

    >>> solve = lambda c, t: c[0] + np.exp(-np.asarray(t))[:, None]
    >>> rates = lambda c, x: c[0] - x
    >>> low, high = np.array([4.0]), np.array([5.0])
    >>> value, error = resting_point(solve, rates, low, np.array([[0.01]]), (0, 3), low, high)
    >>> value.round(6).tolist(), error.round(6).tolist()
    ([4.0], [0.1])
    """
    wide = np.maximum(high - low, ABOVE_ZERO)
    # A solution is followed for so much longer than it was measured [times]
    times = span[0] + (span[1] - span[0]) * np.array([0.0, 0.5, 1.0]) * 30.0

    def end(c: Array) -> Array | None:
        middle, last = solve(c, times)[1:]
        rests = np.isfinite(last).all() and (np.abs(last - middle) < STILL * wide).all()
        return last if rests else None

    here = end(constants)
    # Resting points farther beyond the data are not told [range of the data]
    if here is None or (np.maximum(here - high, low - here) > 3.0 * wide).any():
        return None
    size = np.maximum(np.abs(low), np.abs(high))
    # A state that rests below this rests at 0 [largest value in the data]
    here = np.where(np.abs(here) < 1e-3 * size, 0.0, here)
    # Step of a derivative by a constant [its standard error]
    steps = 0.1 * np.sqrt(np.diag(covariance))
    if not here.any():
        return None
    if not len(steps):
        # Constants are held, all of them; without any nothing moves, and so nothing comes to rest.
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
    """How an attracting point moves with the constants [states, constants]; None where its Jacobian does not tell."""
    by_state = np.array([(rates(constants, at + e), rates(constants, at - e)) for e in np.diag(shifts)])
    by_constant = np.array([(rates(constants + e, at), rates(constants - e, at)) for e in np.diag(steps)])
    jacobian, slopes = (np.diff(ends[:, ::-1], axis=1)[:, 0].T / 2.0 for ends in (by_state, by_constant))
    slopes = slopes / steps
    # At a root's end there is no tangent.
    bent = np.abs(by_state.mean(axis=1).T - rates(constants, at)[:, None])
    # Curvature over that step up to which there is a tangent [its slope]
    smooth = bent.max() <= 1e-2 * np.abs(jacobian).max()
    if not (smooth and np.isfinite(jacobian).all() and np.isfinite(slopes).all()):
        return None
    # In units of the shifts; eigenvalues are not changed by them.
    attracts = (np.linalg.eigvals(jacobian / shifts).real < 0.0).all()
    # Condition of the Jacobian up to which it tells how the point moves
    if not attracts or np.linalg.cond(jacobian / shifts[:, None]) > 1e6:
        return None
    moved: Array = -shifts[:, None] * np.linalg.solve(jacobian, slopes)
    return moved


def resting_note(states: Sequence[str], values: Array, errors: Array) -> Note:
    """The point in words.

    >>> resting_note(["h"], np.array([4.18]), np.array([0.05])).split(":")[0]
    'comes to rest at h = 4.180(50)'
    """
    # What no constant moves, such as a state without terms, stays where it starts: its error is not known here.
    known = np.where((errors == 0.0) & (values != 0.0), np.nan, errors)
    # Where constants are short decimals it is as exact as they are.
    digits = 3 if errors.any() else 6
    told = [f"{x} = {constant(float(v), float(e), digits)}" for x, v, e in zip(states, values, known, strict=True)]
    return comes_to_rest(", ".join(told), known=bool(errors.any()))
