"""What the data are like, decided once before the search: scale, noise, sign, resolution.

A state counts as sign-changing only when its negative part is more than noise explains; every
other state is nonnegative with noise. A state that never changes gets a zero right-hand side.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from odediscovery.powersum import Array
from odediscovery.series import Scale, TimeSeries
from odediscovery.smoothing import estimate_noise, smooth

# Below this share of a state's spread its noise is no concern of the search.
CLEAN = 1e-4
# Relative accuracy of the solvers that judge; nothing below it is evidence.
INTEGRATION = 1e-8


@dataclass(frozen=True, eq=False)
class Prepared:
    """A dimensionless series and what is known of it.

    Args:
        data: states divided by their rms, time by the median sample interval.
        smooth: the same without noise and gaps.
        scale: what undoes the division.
        noise: estimated standard deviation of the noise [states], dimensionless.
        floor: residuals below this are rounding or integration error [states].
        nonnegative: bool [states].
        constant: bool [states], states that never change.
    """

    data: TimeSeries
    smooth: TimeSeries
    scale: Scale
    noise: Array
    floor: Array
    nonnegative: NDArray[np.bool_]
    constant: NDArray[np.bool_]

    @property
    def initial(self) -> Array:
        """Smoothed first states [trajectories, states]."""
        return np.stack([t.values[0] for t in self.smooth.trajectories])

    @property
    def complete(self) -> bool:
        """Whether no value is missing."""
        return all(bool(np.isfinite(t.values).all()) for t in self.data.trajectories)

    @property
    def noisiness(self) -> float:
        """Largest noise of a changing state as a share of that state's standard deviation."""
        spread = np.nanstd(pooled(self.data), axis=0)
        moving = ~self.constant
        return float(np.max(self.noise[moving] / spread[moving], initial=0.0))

    @property
    def clean(self) -> bool:
        """Whether measured states can serve as exact starts of windows."""
        return self.complete and self.noisiness <= CLEAN


def pooled(series: TimeSeries) -> Array:
    """All samples of all trajectories, [samples, states]."""
    return np.concatenate([t.values for t in series.trajectories])


def resolution(values: Array) -> float:
    """The last decimal place written, as a number: 0.01 for 3.25 and 4.1.

    >>> resolution(np.array([3.25, 4.1]))
    0.01
    """
    seen = values[np.isfinite(values)]
    largest = np.max(np.abs(seen), initial=0.0)
    for digits in range(-6, 16):
        if np.all(np.abs(np.round(seen, digits) - seen) <= 1e-14 * largest):
            return float(10.0**-digits)
    return 0.0


def prepare(series: TimeSeries) -> Prepared:
    """The series made dimensionless, with its noise, signs and resolution."""
    scale = Scale.of(series)
    data = scale.apply(series)
    noise = estimate_noise(data)
    values = pooled(data)
    rounding = np.array([resolution(column) for column in pooled(series).T]) / scale.state
    spread = np.nanmax(values, axis=0) - np.nanmin(values, axis=0)
    constant = spread <= np.maximum(1e-12, rounding * 1e-6)
    floor = np.maximum(rounding / np.sqrt(12.0), INTEGRATION)
    nonnegative = np.nanmin(values, axis=0) >= -np.maximum(4.0 * noise, floor)
    return Prepared(
        data, smooth(data, noise, nonnegative), scale, noise, floor, nonnegative, constant
    )
