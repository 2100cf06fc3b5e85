"""Noise of measured series, before any model is known.

The noise of a state is estimated from how far each sample lies off the polynomial through its
neighbours (pseudo-residuals of Gasser, Sroka and Jennen-Steinmetz, Biometrika 73, 1986, at
several degrees): any curvature of the signal only adds to such a residual, so the smallest
over the degrees is taken, and its median over the samples survives a few steep places.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from odediscovery.data.series import TimeSeries
from odediscovery.data.smoothing import SMOOTHING, fit_smoother
from odediscovery.runtime.arrays import ABOVE_ZERO, Array, Mask
from odediscovery.runtime.monitor import is_time_up

# Times, values and relative sigma of a state in one trajectory.
Run = tuple[Array, Array, Array]
# Median of |e| for a standard normal e.
NORMAL_MEDIAN = 0.6744897501960817


@dataclass(frozen=True)
class NoiseThresholds:
    """What decides how noise is estimated."""

    noisy: float = 0.003  # above this the pseudo-residuals show that there is noise [standard deviation of the state]
    # Inflations of the trace, one a spline estimate of the noise; Kim and Gu, J. R. Statist. Soc. B 66 (2004): 1.0
    # smooths too little, 1.2 to 1.4 not
    inflations: tuple[float, ...] = (1.0, 1.2)
    most_over_pseudo: float = 1.8  # most by which splines may raise the estimate of the pseudo-residuals [ratio]
    outlier: float = 3.0  # residuals above this are outliers: 0.3 % of normal deviates [standard deviation]
    # Shares q of noise that grows with the state, which are compared
    shares: tuple[float, ...] = (0.5, 0.8, 0.9, 0.97, 0.99, 0.999, 0.9999, 0.999999)
    # How much likelier residuals have to be if noise grows with the state, or differs between trajectories: odds of
    # 400, see docs/thresholds [logarithm of the ratio]
    log_likelier: float = 6.0
    least_residuals: int = 30  # pseudo-residuals needed to compare shapes of noise
    # Variance of the median logarithm of squared pseudo-residuals, times their number, measured on normal noise
    level_variance: float = 12.0
    degrees: tuple[int, ...] = (1, 2, 3, 4, 5, 6)  # of the polynomials of the pseudo-residuals
    shape_degree: int = 3  # degree whose pseudo-residuals show how noise varies
    flat: float = 1.5  # estimates that fall by less from one degree to the next one are noise, no curvature [ratio]
    least_pooled: int = 6  # pseudo-residuals needed for an estimate
    most_samples: int = 40_000  # samples of a run that its noise is estimated by
    stretches: int = 8  # stretches of neighbours that they are taken from, where there are more
    neighbours: int = 5  # observed neighbours whose median is the size of a state without noise [samples]


NOISE = NoiseThresholds()


def pseudo_residuals(t: Array, y: Array, degree: int) -> Array:
    """Contrasts c.y of degree + 2 neighbours that vanish on polynomials, with |c| = 1."""
    width = degree + 2
    windows = np.lib.stride_tricks.sliding_window_view(t, width)
    values = np.lib.stride_tricks.sliding_window_view(y, width)
    # Divided differences: c_i = 1 / prod_{j != i} (t_i - t_j), up to a factor.
    gaps = windows[:, :, None] - windows[:, None, :]
    gaps[:, np.arange(width), np.arange(width)] = 1.0
    c = 1.0 / gaps.prod(axis=2)
    c /= np.linalg.norm(c, axis=1, keepdims=True)
    result: Array = (c * values).sum(axis=1)
    return result


def local_size(y: Array) -> Array:
    """|y| without noise: the median of five neighbours that are observed, [samples]."""
    seen = np.flatnonzero(np.isfinite(y))
    if not len(seen):
        return np.zeros(len(y))
    padded = np.pad(y[seen], (NOISE.neighbours // 2, (NOISE.neighbours - 1) // 2), mode="edge")
    medians = np.abs(np.median(np.lib.stride_tricks.sliding_window_view(padded, NOISE.neighbours), axis=1))
    size: Array = np.interp(np.arange(len(y)), seen, medians)
    return size


def relative_noise(series: TimeSeries) -> tuple[Array, ...]:
    """Relative sigma of every sample, [samples, states] a trajectory: how the noise varies.

        sigma(x)^2 = sigma^2 ((1 - q) + q x^2 / mean(x^2)),    0 <= q < 1

    q is 0 (the same noise everywhere) unless pseudo-residuals are clearly larger where the state
    is: their logarithms are compared with those of sigma(x), by absolute deviations from the
    median, which a few steep places cannot sway. In the same way each trajectory may have noise
    of its own size instead. One in which a state never changes says nothing about the others,
    and the 0 of a species that is absent has no noise.
    """
    whole = [np.ones_like(t.values) for t in series.trajectories]
    for i in range(series.n_states):
        columns = [t.values[:, i] for t in series.trajectories]
        for relative, y in zip(whole, columns, strict=True):
            relative[y == 0.0, i] = float(_changes(y))
        own_runs = [relative for relative, y in zip(whole, columns, strict=True) if _changes(y)]
        columns, runs = [y for y in columns if _changes(y)], _runs(series, i)
        if not columns or is_time_up():
            continue
        sizes = [local_size(y) for y in columns]
        mean = float(np.mean(np.concatenate(sizes) ** 2))
        by_degree = _by_degree(runs)
        # Of little noise curvature hides the shape at low degrees.
        usual = [
            d for d in by_degree if d >= NOISE.shape_degree and by_degree[d] < NOISE.flat * min(by_degree.values())
        ]
        observed = [size[np.isfinite(y)] for size, y in zip(sizes, columns, strict=True)]
        logs, at = _log_squares(runs, observed, min(usual, default=NOISE.shape_degree))
        if not logs or mean == 0.0 or sum(map(len, logs)) < NOISE.least_residuals:
            continue
        log_e, square = np.concatenate(logs), np.concatenate(at) / mean
        clearly = np.exp(-NOISE.log_likelier / len(log_e))
        best, least = 0.0, _spread(log_e, 0.0, square) * clearly
        for q in NOISE.shares:
            spread = _spread(log_e, q, square)
            best, least = (q, spread) if spread < least else (best, least)
        level = np.array([float(np.median(e)) for e in logs])
        own = np.concatenate([e - m for e, m in zip(logs, level, strict=True)])
        if len(logs) == len(own_runs) > 1 and np.mean(np.abs(own)) < least * clearly:
            level = _shrunk(level, NOISE.level_variance / np.array([len(e) for e in logs]))
            weights = np.array([len(y) for y in columns]) * np.exp(level)
            variances = np.exp(level) * sum(map(len, columns)) / weights.sum()
            for relative, variance in zip(own_runs, variances, strict=True):
                relative[:, i] = np.sqrt(variance)
            continue
        for relative, size in zip(own_runs, sizes, strict=True):
            relative[:, i] = np.sqrt((1.0 - best) + best * size**2 / mean)
    return tuple(whole)


def _runs(series: TimeSeries, state: int, relative_sigma: Sequence[Array] | None = None) -> list[Run]:
    """What was observed of a state, where it changes: times, values and relative sigma of each trajectory."""
    blocks = relative_sigma or [np.ones_like(t.values) for t in series.trajectories]
    return [
        (t.time[k], t.values[k, state], s[k, state])
        for t, s in zip(series.trajectories, blocks, strict=True)
        for k in [np.isfinite(t.values[:, state])]
        if _changes(t.values[:, state])
    ]


def _log_squares(runs: Sequence[Run], sizes: Sequence[Array], degree: int) -> tuple[list[Array], list[Array]]:
    """ln e^2 of the pseudo-residuals e of every trajectory with enough samples, and x^2 where they are."""
    logs, at = [], []
    for (t, y, _), size in zip(runs, sizes, strict=True):
        if len(y) >= SMOOTHING.least_samples:
            e = pseudo_residuals(t, y, degree)
            first = degree // 2 + 1
            logs.append(np.log(np.maximum(e**2, ABOVE_ZERO)))
            at.append(size[first : first + len(e)] ** 2)
    return logs, at


def _shrunk(values: Array, variances: Array) -> Array:
    """Estimates drawn to their mean as far as chance explains that they differ.

        v_k' = m + (v_k - m) t / (t + s_k),    t = max(0, var v - mean s)

    The best of many estimates is too good: a trajectory whose noise looks small by chance would
    count far too much.

    Source: Morris, Journal of the American Statistical Association 78 (1983).
    """
    mean = float(np.average(values, weights=1.0 / variances))
    between = max(float(np.var(values, ddof=1) - np.mean(variances)), 0.0)
    shrunk: Array = mean + (values - mean) * between / (between + variances)
    return shrunk


def _changes(y: Array) -> bool:
    seen = y[np.isfinite(y)]
    return bool(len(seen) and np.any(seen != seen[0]))


def _spread(log_squares: Array, q: float, square: Array) -> float:
    off = log_squares - np.log((1.0 - q) + q * square)
    return float(np.mean(np.abs(off - np.median(off))))


def estimate_noise(
    series: TimeSeries,
    relative_sigma: Sequence[Array] | None = None,
    wanted: Mask | None = None,
    earlier: Sequence[tuple[Sequence[Array], Array]] = (),
) -> Array:
    """Standard deviation of the measurement noise of every state [states], in its own unit.

    The median of three estimates: that of the pseudo-residuals and, where these show that there is
    noise at all, those of two smoothing splines, sqrt(sum r^2 / (n - trace S)), one of which may
    smooth too little and the other too much. Zero where there are too few samples.

    Args:
        relative_sigma: noise of each sample over that of its state, from `relative_noise`.
        wanted: states that are estimated, [states]; the others are nan.
        earlier: relative sigma and what was estimated with it; a state with the same sigma is not estimated again.
    """
    relative_sigma = relative_sigma or [np.ones_like(t.values) for t in series.trajectories]
    noise = np.zeros(series.n_states)
    values = np.concatenate([t.values for t in series.trajectories])
    spread = np.nanstd(np.where(np.isfinite(values).any(axis=0), values, 0.0), axis=0)
    for i in range(series.n_states):
        if wanted is not None and not wanted[i]:
            noise[i] = np.nan
            continue
        same = [e[i] for sigma, e in earlier if np.isfinite(e[i]) and _is_same(sigma, relative_sigma, i)]
        if same:
            noise[i] = same[0]
            continue
        runs = _runs(series, i, relative_sigma)
        # The least over several degrees.
        noise[i] = min(_by_degree(runs).values(), default=0.0)
        # For many samples, or without time, the pseudo-residuals are enough.
        least, most = SMOOTHING.least_samples, SMOOTHING.factored
        worth = noise[i] > NOISE.noisy * spread[i] and not is_time_up()
        if worth and all(least <= len(t) <= most for t, _, _ in runs):
            others = [_spline_noise(runs, inflation) for inflation in NOISE.inflations]
            noise[i] = min(float(np.median([noise[i], *others])), NOISE.most_over_pseudo * noise[i])
    return noise


def _is_same(one: Sequence[Array], other: Sequence[Array], state: int) -> bool:
    return all(np.array_equal(a[:, state], b[:, state]) for a, b in zip(one, other, strict=True))


def shows_noise(series: TimeSeries) -> Mask:
    """States whose pseudo-residuals are noise, however small, and no curvature of the signal [states].

    Each further degree takes curvature away, and leaves noise as it is.
    """
    shown = np.zeros(series.n_states, dtype=bool)
    for i in range(series.n_states):
        estimates = list(_by_degree(_runs(series, i)).values())[-2:]
        shown[i] = len(estimates) == 2 and 0.0 < estimates[0] < NOISE.flat * estimates[1]
    return shown


def _by_degree(runs: Sequence[Run]) -> dict[int, float]:
    """Noise by the median of the pseudo-residuals of each degree."""
    estimates = {}
    runs = [part for run in runs for part in _stretches(*run)]
    for degree in NOISE.degrees:
        residuals = [
            pseudo_residuals(t, y, degree) / s[degree // 2 + 1 : degree // 2 + len(t) - degree]
            for t, y, s in runs
            if len(t) >= degree + 2
        ]
        pooled = np.concatenate(residuals) if residuals else np.empty(0)
        if len(pooled) >= NOISE.least_pooled:
            estimates[degree] = float(np.median(np.abs(pooled))) / NORMAL_MEDIAN
    return estimates


def _stretches(t: Array, y: Array, s: Array) -> Iterator[Run]:
    """A long run as a few stretches of neighbours, spread evenly: the millionth tells nothing new of the noise."""
    count, length = NOISE.stretches, NOISE.most_samples // NOISE.stretches
    if len(t) <= NOISE.most_samples:
        yield t, y, s
        return
    for first in np.linspace(0, len(t) - length, count).astype(int):
        part = slice(first, first + length)
        yield t[part], y[part], s[part]


def _spline_noise(runs: Sequence[Run], inflation: float) -> float:
    residuals, free = [], 0.0
    for t, y, s in runs:
        spline, own = fit_smoother(t, y, s, inflation)
        residuals.append((y - spline(t)) / s)
        free += own
    size = np.abs(np.concatenate(residuals))
    # Outliers are no noise: they count as much as the largest usual residual.
    usual = np.minimum(size, NOISE.outlier * np.median(size) / NORMAL_MEDIAN)
    return float(np.sqrt(np.sum(usual**2) / max(free, 1.0)))
