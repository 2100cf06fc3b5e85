"""Laws that run away: from starts that the data allow, they leave everything measured behind.

A law may follow a trajectory along an edge from which it would fall: to one side of the fitted
start its solutions blow up. The measured system did not, and where it started is known to
within an error only, so such a law is doubted.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from odediscovery.data.series import TimeSeries
from odediscovery.laws.power_sum import PowerSum
from odediscovery.runtime.arrays import Array, Mask
from odediscovery.solve.trajectories import residuals


@dataclass(frozen=True)
class StabilityThresholds:
    """When a solution has left the data behind."""

    far: float = 10.0  # a solution so far from its fitted course has left the data behind [range of the data]
    tolerance: float = 1e-6  # relative tolerance of the integration


STABILITY = StabilityThresholds()


def runs_away(law: PowerSum, series: TimeSeries, initial: Array, error: Array, nonnegative: Mask) -> bool:
    """Whether a solution that starts within an error of the fitted start leaves the data behind.

    Each state's start is moved by its error to either side, the others stay.

    Args:
        initial: fitted start values [trajectories, states], without controls.
        error: how uncertain they are [trajectories, states], without controls.
        nonnegative: states that do not start below 0.
    """
    values = np.concatenate([t.values for t in series.trajectories])
    reach = STABILITY.far * (np.nanmax(values, axis=0) - np.nanmin(values, axis=0))
    nonnegative = nonnegative[~series.is_control]
    for i, side in itertools.product(range(initial.shape[1]), (-1.0, 1.0)):
        start = initial.copy()
        start[:, i] += side * error[:, i]
        start = np.where(nonnegative, np.maximum(start, 0.0), start)
        left = residuals(law, series, start, STABILITY.tolerance)
        if any(np.any(np.abs(np.nan_to_num(r, posinf=np.inf)) > reach) for r in left):
            return True
    return False
