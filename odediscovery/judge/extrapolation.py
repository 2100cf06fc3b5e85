"""What printed equations do beyond the data: a law that fits may blow up right after them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from odediscovery.data.samples import pooled
from odediscovery.data.series import TimeSeries
from odediscovery.judge.notes import Note, blows_up, leaves_the_data
from odediscovery.laws.equations import Equations
from odediscovery.runtime.arrays import Array
from odediscovery.runtime.thresholds import Thresholds, threshold


@dataclass(frozen=True)
class ExtrapolationThresholds(Thresholds):
    """How far equations are continued, and what is far from the data."""

    trajectories: int = threshold(
        5, "trajectories that are continued, for as long again as they were measured", origin="cost: each is integrated"
    )
    times: int = threshold(50, "times at which they are looked at", origin="cost; a blow-up shows at every later time")
    far: float = threshold(2.0, "a state that goes so far beyond the data is reported", unit="range of the data")


EXTRAPOLATION = ExtrapolationThresholds()


def check_extrapolation(equations: Equations, series: TimeSeries, initial: Array) -> list[Note]:
    """A warning, one sentence at most, for a reader who continues the equations.

    The equations are integrated for as long again as each trajectory was measured.

    Args:
        series: what was fitted, without controls.
        initial: start values [trajectories, states].

    >>> series = TimeSeries.from_arrays([0, 1, 2, 3], [0.2, 0.25, 0.333, 0.5])
    >>> grown = Equations.parse(["x0"], {"x0": "x0**2"})
    >>> check_extrapolation(grown, series, np.array([[0.2]]))
    ['continued for as long again the equations blow up, at t = 5.02: use them within the measured time only']
    """
    values = pooled(series)
    # A state that never changed has no range that it could leave.
    known = np.where(np.isfinite(values), values, -np.inf).max(axis=0)
    seen = known > np.where(np.isfinite(values), values, np.inf).min(axis=0)
    if not seen.any():
        return []
    low, high = (f(values[:, seen], axis=0) for f in (np.nanmin, np.nanmax))
    for run, start in list(zip(series.trajectories, initial, strict=True))[: EXTRAPOLATION.trajectories]:
        first, last = run.time[0], run.time[-1]
        times = np.linspace(last, 2.0 * last - first, EXTRAPOLATION.times)
        x = equations.simulate(start, np.append(first, times))[1:]
        named = f" from trajectory {run.label!r}" if run.label and len(series.trajectories) > 1 else ""
        lost = np.asarray(~np.isfinite(x).all(axis=1))
        if lost[0]:
            continue
        if lost.any():
            when = f"{series.time_name} = {times[np.argmax(lost)]:.3g}"
            return [blows_up(named, when)]
        off = np.maximum(x[:, seen] - high, low - x[:, seen]) / np.maximum(high - low, 1e-300)
        k, i = np.unravel_index(int(np.argmax(off)), off.shape)
        if off[k, i] > EXTRAPOLATION.far:
            name, value = np.array(series.states)[seen][i], x[:, seen][k, i]
            return [leaves_the_data(named, name, value, low[i], high[i])]
    return []
