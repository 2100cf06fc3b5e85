"""Units in which a series is dimensionless."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from odediscovery.data.series import TimeSeries, Trajectory
from odediscovery.runtime.arrays import Array


@dataclass(frozen=True, eq=False)
class Scale:
    """Units in which every state and the sample interval are about 1.

    x' = x / state,  t' = t / time.

    Args:
        state: one number a state [states], in its unit; negative for a mirrored one (`mirror`).
        time: in the unit of the time.

    >>> series = TimeSeries.from_arrays([0, 2, 4, 6], [3.0, 3.0, 3.0, 3.0])
    >>> scale = Scale.of(series)
    >>> scale.state.tolist(), scale.time
    ([3.0], 2.0)
    """

    state: Array
    time: float

    @property
    def size(self) -> Array:
        """|state|, the unit of standard deviations [states]."""
        return np.abs(self.state)

    @classmethod
    def of(cls, series: TimeSeries) -> Scale:
        """Root mean square of the observed values of each state (1 if all are zero), and the
        median sample interval."""
        values = np.concatenate([t.values for t in series.trajectories])
        # Divided by the largest first: squares of very large or small numbers leave the range.
        largest = np.nanmax(np.abs(values), axis=0)
        largest = np.where(largest > 0, largest, 1.0)
        rms = largest * np.sqrt(np.nanmean((values / largest) ** 2, axis=0))
        steps = np.concatenate([np.diff(t.time) for t in series.trajectories])
        return cls(np.where(rms > 0, rms, 1.0), float(np.median(steps)))

    @classmethod
    def from_arrays(cls, state: Any, time: Any) -> Scale:
        """The units that were kept in a file."""
        states, step = np.asarray(state, dtype=np.float64), float(time)
        if states.ndim != 1 or not np.isfinite(states).all() or not states.all() or not 0.0 < step < np.inf:
            raise ValueError("units that are zero or not finite")
        return cls(states, step)

    def apply(self, series: TimeSeries) -> TimeSeries:
        """The dimensionless series."""
        trajectories = tuple(
            Trajectory(
                t.time / self.time,
                t.values / self.state,
                t.label,
                None if t.sigma is None else t.sigma / self.size,
                t.controls and t.controls.scaled(self.state[series.is_control], self.time),
                t.recorded and t.recorded.scaled(self.state),
            )
            for t in series.trajectories
        )
        return replace(series, trajectories=trajectories, units={})
