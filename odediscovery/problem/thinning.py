"""Long series with fewer samples, for the search: the hundred thousandth adds nothing to a law.

Clean samples are picked where the states have moved on; noisy ones give way to the mean of each k
neighbours, which keeps their joint information, moved to their middle along the local parabola.
Where so few would not follow the extrema of the states, runs of neighbours spread over the series
are taken. The chosen law is refined and judged on all samples afterwards.

Source of the local parabola: Savitzky and Golay, Analytical Chemistry 36 (1964).
"""

from __future__ import annotations

import dataclasses
import itertools
from dataclasses import dataclass

import numpy as np

from odediscovery.data.noise import estimate_noise
from odediscovery.data.series import TimeSeries, Trajectory
from odediscovery.data.smoothing import SMOOTHING
from odediscovery.problem.peaks import count_peaks
from odediscovery.problem.problem import PROBLEMS
from odediscovery.runtime.arrays import Array, Mask


@dataclass(frozen=True)
class ThinningThresholds:
    """When a series is thinned, and to how many samples."""

    most_clean: int = 1000  # samples that follow a clean series well enough; cost; sensitivity in docs/thresholds
    most_noisy: int = 300  # samples that follow a noisy series well enough
    for_extremum: int = 20  # samples that follow one extremum
    worth: int = 2  # a series with fewer than so many times the samples it needs is not thinned
    followed: int = 100_000  # samples in which extrema are counted, means of neighbours in longer series; cost
    in_runs: int = 1000  # samples in runs where all extrema need too many; cost; sensitivity in docs/thresholds
    runs: int = 8  # number of these runs
    prominence: float = 8.0  # least prominence of an extremum in noise [standard deviation of the noise]
    wide: int = 3  # times as many neighbours as are averaged lie on one parabola; as it is fitted
    # neighbours of which parabolas leave more are not averaged [variance of the noise, the mean over the series];
    # measured: up to it means are as near to 40 chaotic systems as samples are; 2000 misled
    bent: float = 30.0
    fewer: float = 0.75  # of so many neighbours fewer are tried next [neighbours before]; cost: a dozen tries at most
    fitted: int = 5  # fewest neighbours that a parabola is fitted to; two more than it has constants
    seen: int = 4  # fewest of them that were measured; one more than it has constants
    least_path: float = 1e-300  # least length of a path, where no state moves; range of float64


THINNING = ThinningThresholds()


def thin_series(series: TimeSeries) -> TimeSeries:
    """The series with about a thousand samples (clean) or 300 (noisy); itself if it is short.

    Series with controls, counts or limits stay as they are: between fewer samples controls would be no straight lines.

    >>> t = np.linspace(0.0, 10.0, 20_001)
    >>> long = TimeSeries.from_arrays(t, np.exp(-t))
    >>> len(thin_series(long).trajectories[0].time)
    1000
    """
    total = sum(len(t.time) for t in series.trajectories)
    if series.controls or any(t.recorded for t in series.trajectories) or total < THINNING.worth * THINNING.most_noisy:
        return series
    values = np.concatenate([t.values for t in series.trajectories])
    seen = np.isfinite(values).any(axis=0)
    spread = np.nanstd(np.where(seen, values, 0.0), axis=0)
    noise = estimate_noise(series)
    clean = bool((noise <= SMOOTHING.clean * spread)[seen].all())
    most = THINNING.most_clean if clean else THINNING.most_noisy
    if total < THINNING.worth * most:
        return series
    prominence = np.maximum(PROBLEMS.prominence * spread, THINNING.prominence * noise)
    enough = THINNING.for_extremum * sum(_count_extrema(t, prominence) for t in series.trajectories)
    share = min(max(most, enough) / total, 1.0)
    if clean:
        fewer = [_pick(_complete(t, seen, share), spread, share * len(t.time)) for t in series.trajectories]
    else:
        k = _most_neighbours(series, max(round(1.0 / share), 1), noise)
        fewer = [_average(t, k) for t in series.trajectories]
    return dataclasses.replace(series, trajectories=tuple(_pick_runs(fewer)))


def _count_extrema(t: Trajectory, prominence: Array) -> int:
    """Clear extrema of the state that has most of them, and one for each end."""
    counts = [0]
    for y, least in zip(t.values.T, prominence, strict=True):
        y = y[np.isfinite(y)]
        each = len(y) // THINNING.followed
        if each > 1:
            # The mean of neighbours: extrema between them are faster than any thinned series could follow.
            y = y[: len(y) // each * each].reshape(-1, each).mean(axis=1)
        if least > 0.0:
            counts.append(sum(count_peaks(side, least) for side in (y, -y)))
    return 2 + max(counts)


def _complete(t: Trajectory, seen: Mask, share: float) -> Trajectory:
    """The samples in which nothing is missing, if there are enough of them to pick from."""
    whole = np.isfinite(t.values[:, seen]).all(axis=1)
    if whole.all() or whole.mean() < THINNING.worth * share:
        return t
    return Trajectory(t.time[whole], t.values[whole], t.label, None if t.sigma is None else t.sigma[whole])


def _pick(t: Trajectory, spread: Array, wanted: float) -> Trajectory:
    """Samples at equal steps of time and path: where states move fast they stay close."""
    size = np.where(spread > 0.0, spread, np.inf)
    path = np.nan_to_num(np.abs(np.diff(t.values, axis=0) / size)).sum(axis=1)
    time = np.diff(t.time)
    way = time / time.sum() + path / max(path.sum(), THINNING.least_path)
    way = np.concatenate([[0.0], np.cumsum(way)])
    count = min(max(round(wanted), THINNING.fitted), len(t.time))
    places = np.unique(np.searchsorted(way, np.linspace(0.0, way[-1], count)))
    chosen = places.clip(0, len(t.time) - 1)
    sigma = None if t.sigma is None else t.sigma[chosen]
    return Trajectory(t.time[chosen], t.values[chosen], t.label, sigma)


def _most_neighbours(series: TimeSeries, most: int, noise: Array) -> int:
    """About the most neighbours, up to `most`, that are parabolas and noise: across spikes means would say nothing."""
    k = most
    while k > 1:
        left = np.concatenate([_left_of_parabolas(t.values, THINNING.wide * k) for t in series.trajectories])
        whole = np.isfinite(left)
        if (np.where(whole, left, 0.0).sum(axis=0) <= THINNING.bent * noise**2 * whole.sum(axis=0))[noise > 0.0].all():
            break
        k = int(THINNING.fewer * k)
    return k


def _left_of_parabolas(values: Array, length: int) -> Array:
    """Variances that parabolas leave of runs of samples [runs, states]; nan where a value is missing."""
    count = len(values) // length
    if not count:
        return np.full((1, values.shape[1]), np.nan)
    runs = values[: count * length].reshape(count, length, -1)
    basis = np.linalg.qr(np.vander(np.linspace(-1.0, 1.0, length), 3))[0]
    left = runs - basis @ (basis.T @ runs)
    return np.asarray((left**2).sum(axis=1) / (length - 3))


def _average(t: Trajectory, k: int) -> Trajectory:
    r"""The mean of each k neighbours, moved to their middle along the parabola p through them and those beside them.

        x(m) = mean(y) + p(m) - mean(p(t)),    variance  \sigma^2 / k

    where m is the mean of their times: what bends is not flattened.
    """
    if k == 1 or len(t.time) < THINNING.fitted:
        return t
    count = len(t.time) // k
    edges = np.linspace(0, len(t.time), count + 1).round().astype(int)
    beside = max(k, THINNING.fitted // 2)
    times, values, sigmas = [], [], []
    for first, stop in itertools.pairwise(edges):
        before = max(first - beside, 0)
        wide = t.part(slice(before, stop + beside))
        inside = np.zeros(len(wide.time), bool)
        inside[first - before : stop - before] = True
        middle = float(wide.time[inside].mean())
        found = [_middle_value(wide, i, inside, middle) for i in range(t.values.shape[1])]
        times.append(middle)
        values.append([value for value, _ in found])
        sigmas.append([sigma for _, sigma in found])
    known = None if t.sigma is None else np.array(sigmas)
    return Trajectory(np.array(times), np.array(values), t.label, known)


def _middle_value(wide: Trajectory, i: int, inside: Mask, at: float) -> tuple[float, float]:
    """Value of one state at a time by the samples inside, and its standard deviation.

    Args:
        wide: the samples and their neighbours, which tell the parabola.
    """
    y = wide.values[:, i]
    sigma = np.ones_like(y) if wide.sigma is None else wide.sigma[:, i]
    seen = np.isfinite(y) & np.isfinite(sigma)
    inside = inside & seen
    if seen.sum() < THINNING.seen or not inside.any():
        return np.nan, np.nan
    tau = (wide.time - at) / (wide.time[-1] - wide.time[0])
    design, weight = np.stack([tau, tau**2], axis=1), 1.0 / sigma
    root = np.column_stack([np.ones_like(tau), design])[seen] * weight[seen, None]
    # Normal equations: three columns of about one size.
    bend = np.linalg.lstsq(root.T @ root, root.T @ (weight[seen] * y[seen]), rcond=None)[0][1:]
    share = weight[inside] ** 2
    value = np.average(y[inside] - design[inside] @ bend, weights=share)
    return float(value), float(share.sum() ** -0.5)


def _pick_runs(trajectories: list[Trajectory]) -> list[Trajectory]:
    """All of them, or runs of neighbours spread evenly where there are too many samples."""
    if sum(len(t.time) for t in trajectories) <= THINNING.in_runs:
        return trajectories
    runs = []
    for t in trajectories:
        edges = np.linspace(0, len(t.time), max(len(t.time) * THINNING.runs // THINNING.in_runs, 1) + 1).astype(int)
        runs += [t.part(slice(a, b)) for a, b in itertools.pairwise(edges)]
    average = sum(len(r.time) for r in runs) / len(runs)
    count = min(max(int(THINNING.in_runs / average), 1), len(runs))
    places = np.linspace(0, len(runs) - 1, count).round().astype(int)
    return [dataclasses.replace(runs[j], label=f"run {j + 1}") for j in places]
