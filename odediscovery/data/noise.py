"""Noise of measured series, estimated without a model, and smooth curves through them.

The noise of a state is estimated from the deviation of each sample from the polynomial through
its neighbours (pseudo-residuals of Gasser, Sroka and Jennen-Steinmetz, Biometrika 73, 1986, at
several degrees). The median over the samples is robust to a few steep places. Curvature of the
signal only increases the residuals, so the estimate is the smallest median over the degrees.
Curves are cubic smoothing splines by generalised cross-validation.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np
from scipy.interpolate import BSpline, make_interp_spline, make_smoothing_spline
from scipy.linalg import solveh_banded

from odediscovery.data.series import TimeSeries, Trajectory, pooled, usual_values
from odediscovery.runtime.arrays import ABOVE_ZERO, Array, Mask
from odediscovery.runtime.monitor import is_time_up

# Penalties lambda to compare, in units of the cube of the mean sample interval; the few for longer series.
PENALTIES = 10.0 ** np.arange(-4.0, 8.0, 0.125)
FEW_PENALTIES = PENALTIES[::8]
# Largest number of samples for which all penalties are compared at once.
MOST_FACTORED = 500
# Least number of samples for a spline.
LEAST_SAMPLES = 5
# Replaces zero degrees of freedom.
NO_FREEDOM = 1e-9
# Below this level of noise the samples are not smoothed [standard deviation of the state].
CLEAN_SHARE = 1e-4
# Above this level the pseudo-residuals show noise [standard deviation of the state].
NOISY_SHARE = 0.003
# Estimates that fall by less from one degree to the next show noise, not curvature [ratio].
FLAT = 1.5
# Largest number of samples of a run used to estimate its noise.
MOST_SAMPLES = 40_000
# Median of |e| for a standard normal e.
NORMAL_MEDIAN = 0.6744897501960817

# Times, values and relative sigma of a state in one trajectory.
Run = tuple[Array, Array, Array]


def of_higher_order(t: Array, spline: BSpline) -> BSpline:
    """The quintic spline through the values of a cubic one: their difference estimates the error of the cubic."""
    apart, near = t, np.ones(1, dtype=bool)
    while near.any():
        gaps = np.diff(apart)
        beside = np.maximum(np.append(gaps[1:], 0.0), np.append(0.0, gaps[:-1]))
        near = np.append(False, gaps < 1e-4 * beside)
        apart = apart[~near]
    try:
        return make_interp_spline(apart, spline(apart), k=5) if len(apart) > 5 else spline
    except np.linalg.LinAlgError:
        return spline


def smoothing_spline(t: Array, y: Array, weights: Array, inflation: float = 1.0) -> tuple[BSpline, float]:
    """The cubic smoothing spline f whose penalty generalised cross-validation chooses, and n - trace S(lambda).

        minimise  sum_i w_i (y_i - f(t_i))^2 + lambda * integral f''^2
        lambda:   argmin  n sum_i w_i (y_i - f(t_i))^2 / (n - trace S(lambda))^2,    S y = f(t)

    SciPy searches lambda between 0 and n only, which is too small for a slow curve sampled densely. `inflation`
    multiplies the trace.

    Source: Craven and Wahba, Numerische Mathematik 31 (1979); trace by random vectors: Girard,
    Numerische Mathematik 56 (1989).
    """

    def divisor(free: Array | float) -> Array:
        left = len(t) - inflation * (len(t) - np.asarray(free))
        # Keep residual degrees of freedom of at least 2 % of the samples.
        return np.where(left > 0.02 * len(t), left, NO_FREEDOM)

    key = t.tobytes(), weights.tobytes()
    if len(t) <= MOST_FACTORED:
        shares, free, modes = _modes(*key)
        best = int(np.argmin(shares @ (modes.T @ y) ** 2 / divisor(free) ** 2))
        (curve,) = _smoothed(t, y, weights, PENALTIES[best : best + 1])
    else:
        curves, free = _smoothed(t, y, weights, FEW_PENALTIES), _free(*key)
        left = np.array([float(weights @ (y - curve) ** 2) for curve in curves])
        best = int(np.argmin(left / divisor(free) ** 2))
        curve = curves[best]
    return make_interp_spline(t, curve, bc_type="natural"), float(free[best])


@functools.lru_cache(maxsize=32)
def _free(times: bytes, weighted: bytes) -> Array:
    """Estimate n - trace S(lambda) for the few penalties of longer series by random vectors; cached as `_modes`."""
    t, weights = np.frombuffer(times), np.frombuffer(weighted)
    # At most 12 vectors, one spline each, and 60000 numbers: half a per cent of error, which falls with their root.
    count = max(min(12, 60_000 // len(t)), 1)
    probes = np.random.default_rng(0).choice([-1.0, 1.0], size=(len(t), count))
    curves = _smoothed(t, probes, weights, FEW_PENALTIES)
    return np.array([float(np.mean(np.sum(probes * (probes - curve), axis=0))) for curve in curves])


def _smoothed(t: Array, y: Array, weights: Array, penalties: Array) -> list[Array]:
    """Values at t of the smoothing spline for each penalty; y is [n] or [n, columns].

        (R + lambda Q^T W^-1 Q) gamma = Q^T y,    f = y - lambda W^-1 Q gamma

    Q gives second differences and R integrates products of f'', both from neighbours, so the number of operations
    is linear in n.

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
        except np.linalg.LinAlgError:  # if times nearly coincide: slower, without products of second differences
            found.append(make_smoothing_spline(t, y, weights, lam=float(penalty))(t))
            continue
        off = np.zeros_like(columns)
        for k, part in enumerate(q):
            off[k : n + k] += part[:, None] * gamma
        found.append((columns - penalty * off / weights[:, None]).reshape(y.shape))
    return found


@functools.lru_cache(maxsize=32)
def _modes(times: bytes, weighted: bytes) -> tuple[Array, Array, Array]:
    """Demmler-Reinsch basis, S(lambda) = W^-1/2 U diag(1 / (1 + lambda d)) U^T W^1/2, cached by times and weights.

    Returns (1 - 1 / (1 + lambda d))^2 [penalties, n], the sum of its roots [penalties], and W^1/2 U [n, n].
    """
    t, weights = np.frombuffer(times), np.frombuffer(weighted)
    root = np.sqrt(weights)[:, None]
    smoother = root * _smoothed(t, np.eye(len(t)), weights, np.ones(1))[0] / root.T
    shares, modes = np.linalg.eigh((smoother + smoother.T) / 2.0)
    slopes = np.maximum(1.0 / np.clip(shares, 1e-12, 1.0) - 1.0, 0.0)
    slopes[np.argsort(slopes)[:2]] = 0.0  # straight lines are not penalised
    shrunk = 1.0 - 1.0 / (1.0 + PENALTIES[:, None] * slopes)
    return shrunk**2, shrunk.sum(axis=1), root * modes


def _smooth_state(t: Array, y: Array, noise: float, nonnegative: bool, relative_sigma: Array, usual: float) -> Array:
    seen = np.isfinite(y)
    if seen.sum() < LEAST_SAMPLES or noise <= 0.0 or is_time_up():
        return np.asarray(np.interp(t, t[seen], y[seen]) if seen.any() else np.full_like(t, usual))
    curve = fit_smoother(t[seen], y[seen], relative_sigma[seen])[0]
    smooth = curve(t)
    # One penalty for all times flattens steep beginnings: restore neighbouring samples that both deviate by more than
    # five standard deviations.
    off = np.abs(y[seen] - curve(t[seen])) > 5.0 * noise * relative_sigma[seen]
    beside = np.append(off[1:], False) | np.insert(off[:-1], 0, False)
    smooth[np.flatnonzero(seen)[off & beside]] = y[seen][off & beside]
    return np.maximum(smooth, 0.0) if nonnegative else smooth


def fit_smoother(
    t: Array, y: Array, relative_sigma: Array, inflation: float = 1.0
) -> tuple[Callable[[Array], Array], float]:
    """Spline through a state, or of its logarithm if that scores better, and its residual degrees of freedom."""
    weights = relative_sigma**-2.0
    spline, free = smoothing_spline(t, y, weights, inflation)
    if y.min() > 0.0:
        of_log, free_of_log = smoothing_spline(t, np.log(y), np.ones_like(t), inflation)
        plain = np.sum(weights * (y - spline(t)) ** 2) / max(free, NO_FREEDOM) ** 2
        if np.sum(weights * (y - np.exp(of_log(t))) ** 2) / max(free_of_log, NO_FREEDOM) ** 2 < plain:
            return lambda at: np.exp(of_log(at)), free_of_log
    return spline, free


def smooth(
    series: TimeSeries, noise: Array, nonnegative: Mask, relative_sigma: Sequence[Array] | None = None
) -> TimeSeries:
    """Smooth a series and fill its gaps by cubic splines with generalised cross-validation.

    A state without values in a trajectory takes its overall mean; states without noise keep their samples.
    """
    relative_sigma = relative_sigma or _alike(series)
    noise = np.where(noise > CLEAN_SHARE * np.nanstd(pooled(series), axis=0), noise, 0.0)
    usual = np.nan_to_num(usual_values(series))
    trajectories = []
    for t, s in zip(series.trajectories, relative_sigma, strict=True):
        columns = [
            _smooth_state(t.time, t.values[:, i], noise[i], bool(nonnegative[i]), s[:, i], float(usual[i]))
            for i in range(series.n_states)
        ]
        values = np.stack(columns, axis=1)
        trajectories.append(Trajectory(t.time, values, t.label, controls=t.controls))
    return TimeSeries(series.states, tuple(trajectories), series.time_name, series.units, controls=series.controls)


def _alike(series: TimeSeries) -> list[Array]:
    """Relative sigma of uniform noise, [samples, states] per trajectory."""
    return [np.ones_like(t.values) for t in series.trajectories]


def pseudo_residuals(t: Array, y: Array, degree: int) -> Array:
    """Contrasts c.y of degree + 2 neighbours that vanish on polynomials of this degree, with |c| = 1."""
    width = degree + 2
    windows = np.lib.stride_tricks.sliding_window_view(t, width)
    values = np.lib.stride_tricks.sliding_window_view(y, width)
    # Divided differences: c_i = 1 / prod_{j != i} (t_i - t_j), up to a factor.
    gaps = windows[:, :, None] - windows[:, None, :]
    gaps[:, np.arange(width), np.arange(width)] = 1.0
    c = 1.0 / gaps.prod(axis=2)
    c /= np.linalg.norm(c, axis=1, keepdims=True)
    return np.asarray((c * values).sum(axis=1))


def _local_size(y: Array) -> Array:
    """|y| without noise: the running median of five observed values, [samples]."""
    seen = np.flatnonzero(np.isfinite(y))
    if not len(seen):
        return np.zeros(len(y))
    padded = np.pad(y[seen], 2, mode="edge")
    medians = np.abs(np.median(np.lib.stride_tricks.sliding_window_view(padded, 5), axis=1))
    return np.asarray(np.interp(np.arange(len(y)), seen, medians))


def relative_noise(series: TimeSeries) -> tuple[Array, ...]:
    """Estimate the relative sigma of every sample, [samples, states] per trajectory.

        sigma(x)^2 = sigma^2 ((1 - q) + q x^2 / mean(x^2)),    0 <= q < 1

    q is 0 (uniform noise) unless pseudo-residuals are clearly larger where the state is larger:
    their logarithms are compared with those of sigma(x) by absolute deviations from the median,
    which is robust to a few steep places. Alternatively each trajectory may have its own level of
    noise. Trajectories in which the state is constant are ignored, and the zeros of an absent
    species have no noise.
    """
    whole = _alike(series)
    for i in range(series.n_states):
        changing = []
        for relative, t in zip(whole, series.trajectories, strict=True):
            if _changes(y := t.values[:, i]):
                changing.append((relative[:, i], y))
            else:
                relative[y == 0.0, i] = 0.0
        if not changing or is_time_up():
            continue
        runs, sizes = _runs(series, i), [_local_size(y) for _, y in changing]
        mean = float(np.mean(np.concatenate(sizes) ** 2))
        by_degree = _by_degree(runs)
        # If noise is small, curvature hides its shape at low degrees.
        usual = [d for d in by_degree if d >= 3 and by_degree[d] < FLAT * min(by_degree.values())]
        observed = [size[np.isfinite(y)] for size, (_, y) in zip(sizes, changing, strict=True)]
        logs, at = _log_squares(runs, observed, min(usual, default=3))
        # Fewer than 30 residuals show no shape.
        if not logs or mean == 0.0 or sum(map(len, logs)) < 30:
            continue
        log_e, square = np.concatenate(logs), np.concatenate(at) / mean
        # Accept another shape only with a likelihood ratio of 400, e^6.
        clearly = np.exp(-6.0 / len(log_e))
        best, least = 0.0, _spread(log_e, 0.0, square) * clearly
        for q in (0.5, 0.8, 0.9, 0.97, 0.99, 0.999, 0.9999, 0.999999):
            spread = _spread(log_e, q, square)
            best, least = (q, spread) if spread < least else (best, least)
        level = np.array([float(np.median(e)) for e in logs])
        own = np.concatenate([e - m for e, m in zip(logs, level, strict=True)])
        if len(logs) == len(changing) > 1 and np.mean(np.abs(own)) < least * clearly:
            # The variance of the median of log e^2 is 12 / n in simulations of normal noise.
            level = _shrunk(level, 12.0 / np.array([len(e) for e in logs]))
            counts = np.array([len(y) for _, y in changing])
            variances = np.exp(level) * counts.sum() / (counts * np.exp(level)).sum()
            for (relative, _), variance in zip(changing, variances, strict=True):
                relative[:] = np.sqrt(variance)
            continue
        for (relative, _), size in zip(changing, sizes, strict=True):
            relative[:] = np.sqrt((1.0 - best) + best * size**2 / mean)
    return tuple(whole)


def _runs(series: TimeSeries, state: int, relative_sigma: Sequence[Array] | None = None) -> list[Run]:
    """Times, observed values and relative sigma of a state in each trajectory in which it changes."""
    blocks = relative_sigma or _alike(series)
    return [
        (t.time[k], t.values[k, state], s[k, state])
        for t, s in zip(series.trajectories, blocks, strict=True)
        for k in [np.isfinite(t.values[:, state])]
        if _changes(t.values[:, state])
    ]


def _log_squares(runs: Sequence[Run], sizes: Sequence[Array], degree: int) -> tuple[list[Array], list[Array]]:
    """ln e^2 of the pseudo-residuals e of every trajectory with enough samples, and x^2 at their places."""
    logs, at = [], []
    for (t, y, _), size in zip(runs, sizes, strict=True):
        if len(y) >= LEAST_SAMPLES:
            e = pseudo_residuals(t, y, degree)
            first = degree // 2 + 1
            logs.append(np.log(np.maximum(e**2, ABOVE_ZERO)))
            at.append(size[first : first + len(e)] ** 2)
    return logs, at


def _shrunk(values: Array, variances: Array) -> Array:
    """Shrink estimates to their mean as far as chance explains their differences.

        v_k' = m + (v_k - m) t / (t + s_k),    t = max(0, var v - mean s)

    The smallest of many estimates is biased: a trajectory whose noise appears small by chance would
    have far too much weight.

    Source: Morris, Journal of the American Statistical Association 78 (1983).
    """
    mean = float(np.average(values, weights=1.0 / variances))
    between = max(float(np.var(values, ddof=1) - np.mean(variances)), 0.0)
    return np.asarray(mean + (values - mean) * between / (between + variances))


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
    """Estimate the standard deviation of the measurement noise of every state [states], in its own unit.

    The estimate from pseudo-residuals is, where these show noise, replaced by its median with those of
    two smoothing splines, sqrt(sum r^2 / (n - trace S)), one of which may smooth too little and the
    other too much. It is zero if there are too few samples.

    `relative_sigma` is that of `relative_noise`. States that are not `wanted` are nan; those with an `earlier`
    estimate for the same relative sigma keep it.
    """
    relative_sigma = relative_sigma or _alike(series)
    noise, values = np.zeros(series.n_states), pooled(series)
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
        noise[i] = min(_by_degree(runs).values(), default=0.0)
        # For long series, or when the time is up, pseudo-residuals suffice.
        worth = noise[i] > NOISY_SHARE * spread[i] and not is_time_up()
        if worth and all(LEAST_SAMPLES <= len(t) <= MOST_FACTORED for t, _, _ in runs):
            # An inflation of the trace of 1 smooths too little, 1.2 to 1.4 do not (Kim and Gu, J. R. Statist. Soc. B
            # 66, 2004); splines may raise the estimate by a factor of at most 1.8.
            others = [_spline_noise(runs, inflation) for inflation in (1.0, 1.2)]
            noise[i] = min(float(np.median([noise[i], *others])), 1.8 * noise[i])
    return noise


def _is_same(one: Sequence[Array], other: Sequence[Array], state: int) -> bool:
    return all(np.array_equal(a[:, state], b[:, state]) for a, b in zip(one, other, strict=True))


def shows_noise(series: TimeSeries) -> Mask:
    """Which states have pseudo-residuals due to noise, however small, not to curvature of the signal [states]."""
    shown = np.zeros(series.n_states, dtype=bool)
    for i in range(series.n_states):
        estimates = list(_by_degree(_runs(series, i)).values())[-2:]
        shown[i] = len(estimates) == 2 and 0.0 < estimates[0] < FLAT * estimates[1]
    return shown


def _by_degree(runs: Sequence[Run]) -> dict[int, float]:
    """Estimate noise from the median of the pseudo-residuals of each degree."""
    estimates = {}
    runs = [part for run in runs for part in _stretches(*run)]
    for degree in range(1, 7):
        residuals = [
            pseudo_residuals(t, y, degree) / s[degree // 2 + 1 : degree // 2 + len(t) - degree]
            for t, y, s in runs
            if len(t) >= degree + 2
        ]
        every = np.concatenate(residuals) if residuals else np.empty(0)
        if len(every) >= 6:
            estimates[degree] = float(np.median(np.abs(every))) / NORMAL_MEDIAN
    return estimates


def _stretches(t: Array, y: Array, s: Array) -> list[Run]:
    """Represent a long run by eight evenly spaced stretches: more samples add little information on the noise."""
    if len(t) <= MOST_SAMPLES:
        return [(t, y, s)]
    length = MOST_SAMPLES // 8
    parts = [slice(k, k + length) for k in np.linspace(0, len(t) - length, 8).astype(int)]
    return [(t[part], y[part], s[part]) for part in parts]


def _spline_noise(runs: Sequence[Run], inflation: float) -> float:
    residuals, free = [], 0.0
    for t, y, s in runs:
        spline, own = fit_smoother(t, y, s, inflation)
        residuals.append((y - spline(t)) / s)
        free += own
    size = np.abs(np.concatenate(residuals))
    # Outliers are not noise: they are limited to three standard deviations.
    usual = np.minimum(size, 3.0 * np.median(size) / NORMAL_MEDIAN)
    return float(np.sqrt(np.sum(usual**2) / max(free, 1.0)))
