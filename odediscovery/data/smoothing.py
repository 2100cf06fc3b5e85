"""Noise and smoothing of measured series, before any model is known.

The noise of a state is estimated from how far each sample lies off the polynomial through its
neighbours (pseudo-residuals of Gasser, Sroka and Jennen-Steinmetz, Biometrika 73, 1986, at
several degrees): any curvature of the signal only adds to such a residual, so the smallest
over the degrees is taken, and its median over the samples survives a few steep places.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np
from scipy.interpolate import BSpline, make_smoothing_spline

from odediscovery.data.series import TimeSeries, Trajectory
from odediscovery.runtime.arrays import Array

# Median of |e| for a standard normal e.
NORMAL_MEDIAN = 0.6744897501960817
# Noise below this share of a state's spread is taken as none: the data are used as they are.
CLEAN = 1e-5
# Above this share of a state's spread there is noise; and inflations of its spline estimates.
NOISY, INFLATIONS = 0.003, (1.0, 1.2)
# Multiple of the pseudo-residuals' estimate, which outliers do not sway, that is believed.
MOST_OFF = 1.8
# Standard deviations from which on a residual is an outlier.
OUTLYING = 3.0
# Shares q of noise that grows with the state, how much likelier the residuals have to be with it
# (logarithm), and how many of them are needed to tell.
SHARES = (0.5, 0.8, 0.9, 0.97, 0.99, 0.999, 0.9999, 0.999999)
CLEARLY, FEW = 6.0, 30
# Variance of the median logarithm of squared pseudo-residuals, times their number (measured).
LEVEL_SPREAD = 12.0
# Penalties lambda that are compared, in units of the cube of the mean sample interval.
PENALTIES = 10.0 ** np.arange(-4.0, 8.0, 0.125)
# Least share of the samples that is left as degrees of freedom.
LEAST_FREE = 0.02
# Samples up to which all penalties are compared at once; beyond, a trace is estimated by random
# vectors for every eighth of them.
FACTORED, PROBES = 500, 12


def _pseudo_residuals(t: Array, y: Array, degree: int) -> Array:
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
    padded = np.pad(y[seen], 2, mode="edge")
    medians = np.abs(np.median(np.lib.stride_tricks.sliding_window_view(padded, 5), axis=1))
    size: Array = np.interp(np.arange(len(y)), seen, medians)
    return size


def relative_noise(series: TimeSeries) -> tuple[Array, ...]:
    """How the noise varies: its standard deviation over its rms, [samples, states] a trajectory.

        sigma(x)^2 = sigma^2 ((1 - q) + q x^2 / mean(x^2)),    0 <= q < 1

    q is 0 (the same noise everywhere) unless pseudo-residuals are clearly larger where the state
    is: their logarithms are compared with those of sigma(x), by absolute deviations from the
    median, which a few steep places cannot sway. In the same way each trajectory may have noise
    of its own size instead. One in which a state never changes says nothing about the others,
    and the 0 of a species that is absent has no noise.
    """
    whole = [np.ones_like(t.values) for t in series.trajectories]
    for i in range(series.n_states):
        changing = [k for k, t in enumerate(series.trajectories) if _changes(t.values[:, i])]
        for shape, t in zip(whole, series.trajectories, strict=True):
            shape[t.values[:, i] == 0.0, i] = float(_changes(t.values[:, i]))
        shapes = [whole[k] for k in changing]
        columns = [series.trajectories[k].values[:, i] for k in changing]
        if not columns:
            continue
        sizes = [local_size(y) for y in columns]
        mean = float(np.mean(np.concatenate(sizes) ** 2))
        logs, at = [], []
        for k, y, size in zip(changing, columns, sizes, strict=True):
            t, seen = series.trajectories[k], np.isfinite(y)
            if seen.sum() >= 5:
                e = _pseudo_residuals(t.time[seen], y[seen], 3)
                middle = size[seen][2 : 2 + len(e)]
                logs.append(np.log(np.maximum(e**2, 1e-300)))
                at.append(middle**2)
        if not logs or mean == 0.0 or sum(map(len, logs)) < FEW:
            continue
        log_e, square = np.concatenate(logs), np.concatenate(at) / mean
        clearly = np.exp(-CLEARLY / len(log_e))
        best, least = 0.0, _spread(log_e, 0.0, square) * clearly
        for q in SHARES:
            spread = _spread(log_e, q, square)
            best, least = (q, spread) if spread < least else (best, least)
        level = np.array([float(np.median(e)) for e in logs])
        own = np.concatenate([e - m for e, m in zip(logs, level, strict=True)])
        if len(logs) == len(shapes) > 1 and np.mean(np.abs(own)) < least * clearly:
            level = _shrunk(level, LEVEL_SPREAD / np.array([len(e) for e in logs]))
            weights = np.array([len(y) for y in columns]) * np.exp(level)
            relative = np.exp(level) * sum(map(len, columns)) / weights.sum()
            for shape, variance in zip(shapes, relative, strict=True):
                shape[:, i] = np.sqrt(variance)
            continue
        for shape, size in zip(shapes, sizes, strict=True):
            shape[:, i] = np.sqrt((1.0 - best) + best * size**2 / mean)
    return tuple(whole)


def _shrunk(values: Array, variances: Array) -> Array:
    """Estimates drawn to their mean as far as chance explains that they differ.

        v_k' = m + (v_k - m) t / (t + s_k),    t = max(0, var v - mean s)

    The best of many estimates is too good: a trajectory whose noise looks small by chance would
    count far too much.

    Args:
        values: estimates v_k.
        variances: of their errors, s_k.

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


def estimate_noise(series: TimeSeries, shape: Sequence[Array] | None = None) -> Array:
    """Standard deviation of the measurement noise of every state [states], in its own unit.

    The middle one of three estimates: the pseudo-residuals' and, where these tell that there is
    noise at all, those of two smoothing splines, sqrt(sum r^2 / (n - trace S)), one of which may
    smooth too little and the other one too much. Zero where the samples are too few to tell.

    Args:
        shape: what the noise of a sample is relative to that, from `relative_noise`.
    """
    shape = shape or [np.ones_like(t.values) for t in series.trajectories]
    noise = np.zeros(series.n_states)
    spread = np.nanstd(np.concatenate([t.values for t in series.trajectories]), axis=0)
    for i in range(series.n_states):
        runs = [
            (t.time[k], t.values[k, i], s[k, i])
            for t, s in zip(series.trajectories, shape, strict=True)
            for k in [np.isfinite(t.values[:, i])]
            if _changes(t.values[:, i])
        ]
        noise[i] = _pseudo_noise(runs)
        # Of many samples the pseudo-residuals tell enough.
        if noise[i] > NOISY * spread[i] and all(5 <= len(t) <= FACTORED for t, _, _ in runs):
            others = [_spline_noise(runs, inflation) for inflation in INFLATIONS]
            noise[i] = min(float(np.median([noise[i], *others])), MOST_OFF * noise[i])
    return noise


def _pseudo_noise(runs: Sequence[tuple[Array, Array, Array]]) -> float:
    """The least over several degrees of the median of pseudo-residuals.

    Args:
        runs: times, values and shape of the noise of each trajectory.
    """
    estimates = []
    for degree in (1, 2, 3, 4, 5, 6):
        residuals = [
            _pseudo_residuals(t, y, degree) / s[degree // 2 + 1 : degree // 2 + len(t) - degree]
            for t, y, s in runs
            if len(t) >= degree + 2
        ]
        pooled = np.concatenate(residuals) if residuals else np.empty(0)
        if len(pooled) >= 6:
            estimates.append(float(np.median(np.abs(pooled))) / NORMAL_MEDIAN)
    return min(estimates, default=0.0)


def _spline_noise(runs: Sequence[tuple[Array, Array, Array]], inflation: float) -> float:
    residuals, free = [], 0.0
    for t, y, s in runs:
        spline, own = _smoother(t, y, s, inflation)
        residuals.append((y - spline(t)) / s)
        free += own
    size = np.abs(np.concatenate(residuals))
    # Outliers are no noise: they count as much as the largest usual residual.
    usual = np.minimum(size, OUTLYING * np.median(size) / NORMAL_MEDIAN)
    return float(np.sqrt(np.sum(usual**2) / max(free, 1.0)))


def smoothing_spline(t: Array, y: Array, weights: Array | None = None) -> BSpline:
    """The cubic smoothing spline f whose penalty generalised cross-validation chooses.

        minimise  sum_i w_i (y_i - f(t_i))^2 + lambda * integral f''^2
        lambda:   argmin  n sum_i w_i (y_i - f(t_i))^2 / (n - trace S(lambda))^2,    S y = f(t)

    SciPy looks for lambda between 0 and n only, too little for a slow curve sampled densely.

    Args:
        t: increasing times, [n], n >= 5.
        y: observed values, [n].
        weights: w, [n] (default: all 1).

    Source: Craven and Wahba, Numerische Mathematik 31 (1979); trace by random vectors: Girard,
    Numerische Mathematik 56 (1989).

    >>> t = np.linspace(0.0, 1.0, 9)
    >>> smoothing_spline(t, 2 * t + 1)(np.array([0.5])).round(6).tolist()
    [2.0]
    """
    return _chosen(t, y, np.ones_like(t) if weights is None else weights)[0]


def _chosen(t: Array, y: Array, weights: Array, inflation: float = 1.0) -> tuple[BSpline, float]:
    """The spline above and n - trace S(lambda), its degrees of freedom for error.

    Args:
        inflation: factor of the trace in the criterion; above 1 it guards against too little
            smoothing (Kim and Gu, J. R. Statist. Soc. B 66, 2004).
    """

    def divisor(free: Array | float) -> Array:
        left = len(t) - inflation * (len(t) - np.asarray(free))
        return np.where(left > LEAST_FREE * len(t), left, 1e-9)

    unit = float((t[-1] - t[0]) / (len(t) - 1)) ** 3
    if len(t) <= FACTORED:
        slopes, modes = _modes(t.tobytes(), weights.tobytes())
        shrunk = 1.0 - 1.0 / (1.0 + PENALTIES[:, None] * slopes)
        free = shrunk.sum(axis=1)
        best = int(np.argmin(shrunk**2 @ (modes.T @ y) ** 2 / divisor(free) ** 2))
        spline = make_smoothing_spline(t, y, weights, lam=float(PENALTIES[best]) * unit)
        return spline, float(free[best])
    probes = np.random.default_rng(0).choice([-1.0, 1.0], size=(len(t), PROBES))
    columns = np.column_stack([y, probes])

    def tried(penalty: float) -> tuple[float, float, float]:
        left = columns - make_smoothing_spline(t, columns, weights, lam=penalty * unit)(t)
        free = float(np.mean(np.sum(probes * left[:, 1:], axis=0)))
        return float(weights @ left[:, 0] ** 2 / divisor(free) ** 2), penalty, free

    _, penalty, free_then = min(tried(float(penalty)) for penalty in PENALTIES[::8])
    return make_smoothing_spline(t, y, weights, lam=penalty * unit), free_then


@functools.lru_cache(maxsize=32)
def _modes(times: bytes, weighted: bytes) -> tuple[Array, Array]:
    """Demmler and Reinsch's basis: S(lambda) = W^-1/2 U diag(1 / (1 + lambda d)) U^T W^1/2.

    Returns:
        d for penalties in units of `PENALTIES` [n], and W^1/2 U [n, n]. Cached: all states of a
        trajectory, and all that laws leave of them, share their times.
    """
    t, weights = np.frombuffer(times), np.frombuffer(weighted)
    unit = float((t[-1] - t[0]) / (len(t) - 1)) ** 3
    root = np.sqrt(weights)[:, None]
    smoother = root * make_smoothing_spline(t, np.eye(len(t)), weights, lam=unit)(t) / root.T
    shares, modes = np.linalg.eigh((smoother + smoother.T) / 2.0)
    slopes = np.maximum(1.0 / np.clip(shares, 1e-12, 1.0) - 1.0, 0.0)
    slopes[np.argsort(slopes)[:2]] = 0.0  # straight lines are not penalised
    return slopes, root * modes


def _smooth_state(t: Array, y: Array, noise: float, nonnegative: bool, shape: Array) -> Array:
    seen = np.isfinite(y)
    if seen.sum() < 5 or noise <= 0.0:
        filled: Array = np.interp(t, t[seen], y[seen]) if seen.any() else np.zeros_like(t)
        return filled
    smooth = _smoother(t[seen], y[seen], shape[seen])[0](t)
    return np.maximum(smooth, 0.0) if nonnegative else smooth


def _smoother(t: Array, y: Array, shape: Array, inflation: float = 1.0) -> tuple[Callable[[Array], Array], float]:
    """The spline through a state, of its logarithm where that is likelier, and free degrees.

    Spikes of a positive state whose noise grows with it are no spikes on a logarithmic scale.
    """
    weights = shape**-2.0
    spline, free = _chosen(t, y, weights, inflation)
    if y.min() > 0.0:
        of_log, free_of_log = _chosen(t, np.log(y), np.ones_like(t), inflation)
        plain = np.sum(weights * (y - spline(t)) ** 2) / free**2
        if np.sum(weights * (y - np.exp(of_log(t))) ** 2) / free_of_log**2 < plain:
            return lambda at: np.exp(of_log(at)), free_of_log
    return spline, free


def smooth(series: TimeSeries, noise: Array, nonnegative: Array, shape: Sequence[Array] | None = None) -> TimeSeries:
    """The series without noise and gaps: cubic smoothing splines by generalised cross-validation.

    Args:
        noise: from `estimate_noise`, [states]; states with noise below `CLEAN` of their
            spread keep their samples, and only gaps are filled.
        nonnegative: bool [states]; these states are bounded at 0.
        shape: from `relative_noise`; noisier samples weigh less.
    """
    shape = shape or [np.ones_like(t.values) for t in series.trajectories]
    spread = np.nanstd(np.concatenate([t.values for t in series.trajectories]), axis=0)
    trajectories = []
    for t, s in zip(series.trajectories, shape, strict=True):
        columns = [
            _smooth_state(
                t.time, t.values[:, i], noise[i] if noise[i] > CLEAN * spread[i] else 0.0, bool(nonnegative[i]), s[:, i]
            )
            for i in range(series.n_states)
        ]
        values = np.stack(columns, axis=1)
        trajectories.append(Trajectory(t.time, values, t.label, controls=t.controls))
    return TimeSeries(series.states, tuple(trajectories), series.time_name, series.units, controls=series.controls)
