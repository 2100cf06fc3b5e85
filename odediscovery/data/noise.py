"""The noise of measured series, and smooth curves through them.

Cubic smoothing splines through measured series, by generalised cross-validation.

Noise of measured series, before any model is known.

The noise of a state is estimated from how far each sample lies off the polynomial through its
neighbours (pseudo-residuals of Gasser, Sroka and Jennen-Steinmetz, Biometrika 73, 1986, at
several degrees): any curvature of the signal only adds to such a residual, so the smallest
over the degrees is taken, and its median over the samples survives a few steep places.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.interpolate import BSpline, make_interp_spline, make_smoothing_spline
from scipy.linalg import solveh_banded

from odediscovery.data.series import TimeSeries, Trajectory, usual_values
from odediscovery.runtime.arrays import ABOVE_ZERO, Array, Mask
from odediscovery.runtime.monitor import is_time_up

# Penalties lambda that are compared, in units of the cube of the mean sample interval.
PENALTIES = 10.0 ** np.arange(-4.0, 8.0, 0.125)
# Stands in for no degrees of freedom.
NO_FREEDOM = 1e-9


@dataclass(frozen=True)
class SmoothingThresholds:
    """What decides how series are smoothed."""

    # Noise below this needs no smoothing: the samples are used as they are [standard deviation of the state]
    clean: float = 1e-4
    least_free: float = 0.02  # least share of the samples that is left as degrees of freedom
    factored: int = 500  # samples up to which all penalties are compared at once
    probes: int = 12  # most random vectors by which the trace of longer series is estimated: a spline each
    probed: int = 60_000  # numbers in them that are enough: the error falls with the root, half a per cent
    coarse: int = 8  # every so many penalties are tried on longer series
    # A curve that is farther from two neighbouring samples has lost them [standard deviation of the noise]
    lost: float = 5.0
    coincide: float = 1e-4  # samples so near to each other count as one where a curve goes through all [the gap beside]
    least_samples: int = 5  # samples of a state that a spline needs
    least_share: float = 1e-12  # least eigenvalue of a smoother


SMOOTHING = SmoothingThresholds()


def smoothing_spline(t: Array, y: Array, weights: Array | None = None) -> BSpline:
    """The cubic smoothing spline f whose penalty generalised cross-validation chooses.

        minimise  sum_i w_i (y_i - f(t_i))^2 + lambda * integral f''^2
        lambda:   argmin  n sum_i w_i (y_i - f(t_i))^2 / (n - trace S(lambda))^2,    S y = f(t)

    SciPy searches lambda between 0 and n only, too little for a slow curve sampled densely.

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


def of_higher_order(t: Array, spline: BSpline) -> BSpline:
    """The quintic through what a cubic spline makes of samples: how far it is off tells the error of the cubic.

    The spline itself where there are too few samples. Of samples that nearly coincide one is taken.
    """
    apart, near = t, np.ones(1, dtype=bool)
    while near.any():
        gaps = np.diff(apart)
        beside = np.maximum(np.append(gaps[1:], 0.0), np.append(0.0, gaps[:-1]))
        near = np.append(False, gaps < SMOOTHING.coincide * beside)
        apart = apart[~near]
    try:
        return make_interp_spline(apart, spline(apart), k=5) if len(apart) > 5 else spline
    except np.linalg.LinAlgError:
        return spline


def _chosen(t: Array, y: Array, weights: Array, inflation: float = 1.0) -> tuple[BSpline, float]:
    """The spline above and n - trace S(lambda), its degrees of freedom for error."""

    def divisor(free: Array | float) -> Array:
        left = len(t) - inflation * (len(t) - np.asarray(free))
        return np.where(left > SMOOTHING.least_free * len(t), left, NO_FREEDOM)

    key = t.tobytes(), weights.tobytes()
    if len(t) <= SMOOTHING.factored:
        shares, free, modes = _modes(*key)
        best = int(np.argmin(shares @ (modes.T @ y) ** 2 / divisor(free) ** 2))
        (curve,) = _smoothed(t, y, weights, PENALTIES[best : best + 1])
    else:
        curves, free = _smoothed(t, y, weights, PENALTIES[:: SMOOTHING.coarse]), _free(*key)
        left = np.array([float(weights @ (y - curve) ** 2) for curve in curves])
        best = int(np.argmin(left / divisor(free) ** 2))
        curve = curves[best]
    return make_interp_spline(t, curve, bc_type="natural"), float(free[best])


@functools.lru_cache(maxsize=32)
def _free(times: bytes, weighted: bytes) -> Array:
    """n - trace S(lambda) of every penalty that is tried on a longer series, by random vectors; cached as `_modes`."""
    t, weights = np.frombuffer(times), np.frombuffer(weighted)
    count = max(min(SMOOTHING.probes, SMOOTHING.probed // len(t)), 1)
    probes = np.random.default_rng(0).choice([-1.0, 1.0], size=(len(t), count))
    curves = _smoothed(t, probes, weights, PENALTIES[:: SMOOTHING.coarse])
    return np.array([float(np.mean(np.sum(probes * (probes - curve), axis=0))) for curve in curves])


def _smoothed(t: Array, y: Array, weights: Array, penalties: Array) -> list[Array]:
    """Values at t of the smoothing spline of each penalty, one of `PENALTIES`; y is [n] or [n, columns].

        (R + lambda Q^T W^-1 Q) gamma = Q^T y,    f = y - lambda W^-1 Q gamma

    Q gives second differences and R integrates products of f'', both from neighbours; so long series take few
    operations a sample.

    Source: Reinsch, Numerische Mathematik 10 (1967).
    """
    h, n = np.diff(t), len(t) - 2
    q = np.stack([1.0 / h[:-1], -1.0 / h[:-1] - 1.0 / h[1:], 1.0 / h[1:]])
    roughness, inner = np.zeros_like(q), np.zeros_like(q)
    for row in range(len(q)):
        for apart in range(row + 1):
            other = q[row - apart, apart:]
            roughness[apart, : n - apart] += q[row, : n - apart] * other / weights[row : n + row - apart]
    inner[0], inner[1, :-1] = (h[:-1] + h[1:]) / 3.0, h[1:-1] / 6.0
    columns = y.reshape(len(t), -1)
    bent = np.sum([part[:, None] * columns[k : n + k] for k, part in enumerate(q)], axis=0)
    found = []
    for penalty in penalties * h.mean() ** 3:
        try:
            gamma = solveh_banded(inner + penalty * roughness, bent, lower=True, check_finite=False)
        except np.linalg.LinAlgError:  # times nearly coincide: slower, but without products of second differences
            found.append(make_smoothing_spline(t, y, weights, lam=float(penalty))(t))
            continue
        off = np.zeros_like(columns)
        for k, part in enumerate(q):
            off[k : n + k] += part[:, None] * gamma
        found.append((columns - penalty * off / weights[:, None]).reshape(y.shape))
    return found


@functools.lru_cache(maxsize=32)
def _modes(times: bytes, weighted: bytes) -> tuple[Array, Array, Array]:
    """Demmler and Reinsch's basis: S(lambda) = W^-1/2 U diag(1 / (1 + lambda d)) U^T W^1/2.

    Returns:
        (1 - 1 / (1 + lambda d))^2 [penalties, n] and the sum of its roots [penalties], for all `PENALTIES`, and
        W^1/2 U [n, n]. Cached: all states of a trajectory, and all their residuals, share their times.
    """
    t, weights = np.frombuffer(times), np.frombuffer(weighted)
    root = np.sqrt(weights)[:, None]
    smoother = root * _smoothed(t, np.eye(len(t)), weights, np.ones(1))[0] / root.T
    shares, modes = np.linalg.eigh((smoother + smoother.T) / 2.0)
    slopes = np.maximum(1.0 / np.clip(shares, SMOOTHING.least_share, 1.0) - 1.0, 0.0)
    slopes[np.argsort(slopes)[:2]] = 0.0  # straight lines are not penalised
    shrunk = 1.0 - 1.0 / (1.0 + PENALTIES[:, None] * slopes)
    return shrunk**2, shrunk.sum(axis=1), root * modes


def _smooth_state(t: Array, y: Array, noise: float, nonnegative: bool, relative_sigma: Array, usual: float) -> Array:
    seen = np.isfinite(y)
    if seen.sum() < SMOOTHING.least_samples or noise <= 0.0 or is_time_up():
        filled: Array = np.interp(t, t[seen], y[seen]) if seen.any() else np.full_like(t, usual)
        return filled
    curve = fit_smoother(t[seen], y[seen], relative_sigma[seen])[0]
    smooth = curve(t)
    # One penalty for all times flattens what is steep at first: samples say more there.
    off = np.abs(y[seen] - curve(t[seen])) > SMOOTHING.lost * noise * relative_sigma[seen]
    beside = np.append(off[1:], False) | np.insert(off[:-1], 0, False)
    smooth[np.flatnonzero(seen)[off & beside]] = y[seen][off & beside]
    return np.maximum(smooth, 0.0) if nonnegative else smooth


def fit_smoother(
    t: Array, y: Array, relative_sigma: Array, inflation: float = 1.0
) -> tuple[Callable[[Array], Array], float]:
    """The spline through a state, of its logarithm where that is likelier, and free degrees.

    Spikes of a positive state whose noise grows with it are no spikes on a logarithmic scale.
    """
    weights = relative_sigma**-2.0
    spline, free = _chosen(t, y, weights, inflation)
    if y.min() > 0.0:
        of_log, free_of_log = _chosen(t, np.log(y), np.ones_like(t), inflation)
        plain = np.sum(weights * (y - spline(t)) ** 2) / max(free, NO_FREEDOM) ** 2
        if np.sum(weights * (y - np.exp(of_log(t))) ** 2) / max(free_of_log, NO_FREEDOM) ** 2 < plain:
            return lambda at: np.exp(of_log(at)), free_of_log
    return spline, free


def smooth(
    series: TimeSeries, noise: Array, nonnegative: Mask, relative_sigma: Sequence[Array] | None = None
) -> TimeSeries:
    """The series without noise and gaps: cubic smoothing splines by generalised cross-validation.

    Where a trajectory has no value of a state, it is the mean of the others; 0 where none has one.

    Args:
        noise: from `estimate_noise`, [states]; states with noise below `SMOOTHING.clean` of their
            spread keep their samples, and only gaps are filled.
        nonnegative: bool [states]; these states are bounded at 0.
        relative_sigma: from `relative_noise`; noisier samples weigh less.
    """
    relative_sigma = relative_sigma or [np.ones_like(t.values) for t in series.trajectories]
    spread = np.nanstd(np.concatenate([t.values for t in series.trajectories]), axis=0)
    usual = np.nan_to_num(usual_values(series))
    trajectories = []
    for t, s in zip(series.trajectories, relative_sigma, strict=True):
        columns = [
            _smooth_state(
                t.time,
                t.values[:, i],
                noise[i] if noise[i] > SMOOTHING.clean * spread[i] else 0.0,
                bool(nonnegative[i]),
                s[:, i],
                float(usual[i]),
            )
            for i in range(series.n_states)
        ]
        values = np.stack(columns, axis=1)
        trajectories.append(Trajectory(t.time, values, t.label, controls=t.controls))
    return TimeSeries(series.states, tuple(trajectories), series.time_name, series.units, controls=series.controls)


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
