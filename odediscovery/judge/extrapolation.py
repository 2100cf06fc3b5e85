"""What printed equations do behind the data: a law that fits may blow up right after them."""

from __future__ import annotations

import numpy as np

from odediscovery.data.samples import pooled
from odediscovery.data.series import TimeSeries
from odediscovery.laws.equations import Equations
from odediscovery.runtime.arrays import Array

# Trajectories that are continued, for as long again as they were measured, and times looked at.
FIRST, TIMES = 5, 50
# Multiple of the data's spread, lowest to highest, that a state may go beyond it.
FAR = 2.0


def check_extrapolation(equations: Equations, series: TimeSeries, initial: Array) -> list[str]:
    """What a reader who continues the equations should know, one sentence at most.

    Args:
        series: what was fitted, without controls.
        initial: start values [trajectories, states].

    >>> series = TimeSeries.from_arrays([0, 1, 2, 3], [0.2, 0.25, 0.333, 0.5])
    >>> grown = Equations.parse(["x0"], {"x0": "x0**2"})
    >>> check_extrapolation(grown, series, np.array([[0.2]]))
    ['continued for as long again the equations blow up, at t = 5.02']
    """
    values = pooled(series)
    seen = np.isfinite(values).any(axis=0)
    low, high = (f(values[:, seen], axis=0) for f in (np.nanmin, np.nanmax))
    for run, start in list(zip(series.trajectories, initial, strict=True))[:FIRST]:
        first, last = run.time[0], run.time[-1]
        times = np.linspace(last, 2.0 * last - first, TIMES)
        x = equations.simulate(start, np.append(first, times))[1:]
        named = f" of {run.label}" if run.label and len(series.trajectories) > 1 else ""
        lost = np.asarray(~np.isfinite(x).all(axis=1))
        if lost[0]:
            continue
        if lost.any():
            when = f"{series.time_name} = {times[np.argmax(lost)]:.3g}"
            return [f"continued for as long again{named} the equations blow up, at {when}"]
        off = np.maximum(x[:, seen] - high, low - x[:, seen]) / np.maximum(high - low, 1e-300)
        k, i = np.unravel_index(int(np.argmax(off)), off.shape)
        if off[k, i] > FAR:
            name, value = np.array(series.states)[seen][i], x[:, seen][k, i]
            return [
                f"continued for as long again{named} {name} reaches {value:.3g}, far from the "
                f"data, {low[i]:.3g} to {high[i]:.3g}"
            ]
    return []
