"""What equations do beyond the data: a law that fits may blow up after them, or hold on their one orbit only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from odediscovery.data.samples import pooled
from odediscovery.data.series import TimeSeries
from odediscovery.judge.notes.law import blows_up, leaves_the_data
from odediscovery.judge.notes.limits import one_orbit
from odediscovery.judge.notes.note import Note
from odediscovery.laws.equations import Equations
from odediscovery.runtime.arrays import ABOVE_ZERO, Array, column_norms


@dataclass(frozen=True)
class ExtrapolationThresholds:
    """How far equations are continued, and what is far from the data."""

    trajectories: int = 5  # trajectories that are continued, for as long again as they were measured
    times: int = 50  # times at which they are looked at
    absurd: float = 10.0  # a state that goes so far beyond the data counts against its law [range of the data]
    far: float = 2.0  # a state that goes so far beyond the data is reported [range of the data]
    gone: float = 0.3  # a solution that was so far from its start may come back to it [range of the data]
    # a solution that comes so near to its start again is a closed orbit [range of the data]; chords of eighty to a
    # turn are a thousandth off at most
    returned: float = 1e-3
    points: int = 20  # points of a solution in an interval, between which it is straight; cost
    first: int = 50  # intervals in which the first return is sought, and then in twice as many; cost
    most: int = 4000  # most of these points, which are fewer in an interval then; cost: samples of a turn are many then


EXTRAPOLATION = ExtrapolationThresholds()


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
    for run, start in list(zip(series.trajectories, initial, strict=True))[: EXTRAPOLATION.trajectories]:
        first, last = run.time[0], run.time[-1]
        times = np.linspace(last, 2.0 * last - first, EXTRAPOLATION.times)
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
    if found is None or found.off <= EXTRAPOLATION.far:
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

    intervals = EXTRAPOLATION.first
    while True:
        intervals = min(intervals, len(time) - 1)
        each = max(min(EXTRAPOLATION.points, EXTRAPOLATION.most // intervals), 1)
        times = np.unique(np.linspace(time[:intervals], time[1 : intervals + 1], each + 1))
        period = _first_return(times, course(times))
        if period is not None or intervals == len(time) - 1:
            break
        intervals *= 2
    if period is None:
        return []
    # A spiral comes less near with every turn.
    turns = np.floor((time[-1] - time[0]) / period)
    last = time[0] + period * (turns + np.linspace(-0.5, 0.0, EXTRAPOLATION.points * EXTRAPOLATION.first))
    if turns > 1 and not _nearest(course(np.append(time[0], last))[1:])[0] < EXTRAPOLATION.returned:
        return []
    return [one_orbit(f"{period:.3g}")]


def _first_return(times: Array, x: Array) -> float | None:
    """After how long a curve that begins at 0 comes back to it [points, states]; None where it does not."""
    far = np.flatnonzero(column_norms(x, axis=1) > EXTRAPOLATION.gone)
    if not len(far) or not np.isfinite(x).all():
        return None
    away = np.flatnonzero(column_norms(x[far[0] :], axis=1) < EXTRAPOLATION.gone)
    if not len(away):
        return None
    # Only as long as it is near the first time: later turns come as near.
    begin = far[0] + away[0] - 1
    gone = np.flatnonzero(column_norms(x[begin + 1 :], axis=1) > EXTRAPOLATION.gone)
    end = begin + 2 + (gone[0] if len(gone) else len(x))
    distance, at = _nearest(x[begin:end])
    if not distance < EXTRAPOLATION.returned:
        return None
    return float(np.interp(begin + at, np.arange(len(times)), times) - times[0])


def _nearest(x: Array) -> tuple[float, float]:
    """How near a curve comes to 0, and where, in points [points, states]."""
    first, chord = x[:-1], np.diff(x, axis=0)
    share = np.clip(-(first * chord).sum(axis=1) / (chord**2).sum(axis=1).clip(ABOVE_ZERO), 0.0, 1.0)
    distance = column_norms(first + share[:, None] * chord, axis=1)
    at = int(np.argmin(np.nan_to_num(distance, nan=np.inf)))
    return float(distance[at]), at + float(share[at])
