"""Long series with fewer samples, for the search: a law does not hide in the hundred thousandth.

Clean samples are picked where the states have moved on; noisy ones give way to the middle of a
parabola fitted to each k neighbours, which keeps what they know together (its variance is 9 / 4k
that of a sample). Where so few would not follow the turns of the states, runs of neighbours spread
over the series are taken. The chosen law is refined and judged on all samples afterwards.

Source of the local parabola: Savitzky and Golay, Analytical Chemistry 36 (1964).
"""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
from scipy.signal import find_peaks

from odediscovery.data.series import TimeSeries, Trajectory
from odediscovery.data.smoothing import estimate_noise
from odediscovery.problem.prepare import CLEAN, PROMINENT
from odediscovery.runtime.arrays import Array

# Samples that follow a clean and a noisy series well enough, and each of its extrema; a series with
# fewer than `WORTH` times as many is not thinned.
MOST_CLEAN, MOST_NOISY, FOR_A_TURN, WORTH = 1000, 300, 20, 2
# Samples in runs where there are too many turns to keep them all, and number of these runs.
IN_RUNS, RUNS = 1000, 8
# Prominence of an extremum in units of the noise.
CLEAR = 8.0
# Fewest samples that a parabola is fitted to.
FITTED = 5


def thinned(series: TimeSeries) -> TimeSeries:
    """The series with about a thousand samples (clean) or 300 (noisy); itself if it is short.

    Series with inputs stay as they are: between fewer samples inputs would be no straight lines.

    >>> t = np.linspace(0.0, 10.0, 20_001)
    >>> long = TimeSeries.from_arrays(t, np.exp(-t))
    >>> len(thinned(long).trajectories[0].time)
    1000
    """
    total = sum(len(t.time) for t in series.trajectories)
    if series.controls or total < WORTH * MOST_NOISY:
        return series
    values = np.concatenate([t.values for t in series.trajectories])
    spread, noise = np.nanstd(values, axis=0), estimate_noise(series)
    seen = np.isfinite(values).any(axis=0)
    clean = bool((noise <= CLEAN * spread)[seen].all() and np.isfinite(values[:, seen]).all())
    most = MOST_CLEAN if clean else MOST_NOISY
    if total < WORTH * most:
        return series
    prominence = np.maximum(PROMINENT * spread, CLEAR * noise)
    enough = FOR_A_TURN * sum(_turns(t, prominence) for t in series.trajectories)
    share = min(max(most, enough) / total, 1.0)
    fewer = [
        _picked(t, spread, share) if clean else _fitted(t, max(round(1.0 / share), 1)) for t in series.trajectories
    ]
    return dataclasses.replace(series, trajectories=tuple(_spread_out(fewer)))


def _turns(t: Trajectory, prominence: Array) -> int:
    """Clear extrema of the state that has most of them, and one for each end."""
    counts = [0]
    for y, least in zip(t.values.T, prominence, strict=True):
        y = y[np.isfinite(y)]
        if least > 0.0:
            counts.append(sum(len(find_peaks(side, prominence=least)[0]) for side in (y, -y)))
    return 2 + max(counts)


def _picked(t: Trajectory, spread: Array, share: float) -> Trajectory:
    """Samples at equal steps of time and path: where states move fast they stay close."""
    size = np.where(spread > 0.0, spread, np.inf)
    path = np.abs(np.diff(t.values, axis=0) / size).sum(axis=1)
    time = np.diff(t.time)
    way = time / time.sum() + np.nan_to_num(path) / max(np.nansum(path), 1e-300)
    way = np.concatenate([[0.0], np.cumsum(way)])
    count = min(max(round(share * len(t.time)), FITTED), len(t.time))
    places = np.unique(np.searchsorted(way, np.linspace(0.0, way[-1], count)))
    chosen = places.clip(0, len(t.time) - 1)
    sigma = None if t.sigma is None else t.sigma[chosen]
    return Trajectory(t.time[chosen], t.values[chosen], t.label, sigma)


def _fitted(t: Trajectory, k: int) -> Trajectory:
    """The values of parabolas through each k neighbours, at the middle one's time."""
    if k < FITTED:
        return t if k == 1 else t.part(slice(None, None, k))
    times, values, sigmas = [], [], []
    for first in range(0, len(t.time) - k // 2, k):
        part = t.part(slice(first, first + k))
        middle = part.time[len(part.time) // 2]
        fits = [_middle(part, i, middle) for i in range(t.values.shape[1])]
        times.append(middle)
        values.append([value for value, _ in fits])
        sigmas.append([sigma for _, sigma in fits])
    known = None if t.sigma is None else np.array(sigmas)
    return Trajectory(np.array(times), np.array(values), t.label, known)


def _middle(part: Trajectory, i: int, at: float) -> tuple[float, float]:
    """Value of the weighted parabola of one state at a time, and its standard deviation."""
    y = part.values[:, i]
    sigma = np.ones_like(y) if part.sigma is None else part.sigma[:, i]
    seen = np.isfinite(y) & np.isfinite(sigma)
    if seen.sum() < FITTED:
        return np.nan, np.nan
    tau = (part.time[seen] - at) / (part.time[-1] - part.time[0])
    weight = 1.0 / sigma[seen]
    design = np.stack([np.ones_like(tau), tau, tau**2], axis=1) * weight[:, None]
    inverse = np.linalg.pinv(design)
    return float(inverse[0] @ (weight * y[seen])), float(np.linalg.norm(inverse[0]))


def _spread_out(trajectories: list[Trajectory]) -> list[Trajectory]:
    """All of them, or runs of neighbours spread evenly where there are too many samples."""
    if sum(len(t.time) for t in trajectories) <= WORTH * IN_RUNS:
        return trajectories
    runs = []
    for t in trajectories:
        edges = np.linspace(0, len(t.time), max(len(t.time) * RUNS // IN_RUNS, 1) + 1).astype(int)
        runs += [t.part(slice(a, b)) for a, b in itertools.pairwise(edges)]
    average = sum(len(r.time) for r in runs) / len(runs)
    count = min(max(int(IN_RUNS / average), 1), len(runs))
    places = np.linspace(0, len(runs) - 1, count).round().astype(int)
    return [dataclasses.replace(runs[j], label=f"run {j + 1}") for j in places]
