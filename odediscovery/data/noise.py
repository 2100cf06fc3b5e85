"""The noise of measured series, before any model is known, and smooth curves through them.

The noise of a state is estimated from how far each sample lies off the polynomial through its
neighbours (pseudo-residuals of Gasser, Sroka and Jennen-Steinmetz, Biometrika 73, 1986, at
several degrees): any curvature of the signal only adds to such a residual, so the smallest
over the degrees is taken, and its median over the samples survives a few steep places.
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

# Penalties lambda that are compared, in units of the cube of the mean sample interval; the few on longer series.
PENALTIES = 10.0 ** np.arange(-4.0, 8.0, 0.125)
FEW_PENALTIES = PENALTIES[::8]
# Samples up to which all of them are compared at once.
MOST_FACTORED = 500
# Samples of a state that a spline needs.
LEAST_SAMPLES = 5
# Stands in for no degrees of freedom.
NO_FREEDOM = 1e-9
# Noise below this needs no smoothing: the samples are used as they are [standard deviation of the state].
CLEAN_SHARE = 1e-4
# Noise above this is seen in the pseudo-residuals [standard deviation of the state].
NOISY_SHARE = 0.003
# Estimates that fall by less from one degree to the next one are noise, no curvature [ratio].
FLAT = 1.5
# Samples of a run that its noise is estimated by.
MOST_SAMPLES = 40_000
# Median of |e| for a standard normal e.
NORMAL_MEDIAN = 0.6744897501960817

# Times, values and relative sigma of a state in one trajectory.
Run = tuple[Array, Array, Array]


def smoothing_spline(t: Array, y: Array, weights: Array | None = None) -> BSpline:
    """The cubic smoothing spline f whose penalty generalised cross-validation chooses.

        minimise  sum_i w_i (y_i - f(t_i))^2 + lambda * integral f''^2
        lambda:   argmin  n sum_i w_i (y_i - f(t_i))^2 / (n - trace S(lambda))^2,    S y = f(t)

    SciPy searches lambda between 0 and n only, too little for a slow curve sampled densely.

    Source: Craven and Wahba, Numerische Mathematik 31 (1979); trace by random vectors: Girard,
    Numerische Mathematik 56 (1989).
    """
    return _chosen(t, y, np.ones_like(t) if weights is None else weights)[0]


def of_higher_order(t: Array, spline: BSpline) -> BSpline:
    """The quintic through what a cubic spline makes of samples: how far it is off tells the error of the cubic."""
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


def _chosen(t: Array, y: Array, weights: Array, inflation: float = 1.0) -> tuple[BSpline, float]:
    """The spline above and n - trace S(lambda), its degrees of freedom for error."""

    def divisor(free: Array | float) -> Array:
        left = len(t) - inflation * (len(t) - np.asarray(free))
        # At least 2 % of the samples are left as degrees of freedom.
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
    """n - trace S(lambda) of every penalty that is tried on a longer series, by random vectors; cached as `_modes`."""
    t, weights = np.frombuffer(times), np.frombuffer(weighted)
    # At most 12 vectors, a spline each, and 60000 numbers: the error falls with the root, half a per cent.
    count = max(min(12, 60_000 // len(t)), 1)
    probes = np.random.default_rng(0).choice([-1.0, 1.0], size=(len(t), count))
    curves = _smoothed(t, probes, weights, FEW_PENALTIES)
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
    """Demmler and Reinsch's basis, S(lambda) = W^-1/2 U diag(1 / (1 + lambda d)) U^T W^1/2, cached by times.

    Of all `PENALTIES` (1 - 1 / (1 + lambda d))^2 [penalties, n], the sum of its roots [penalties], W^1/2 U [n, n].
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
    # One penalty for all times flattens what is steep at first: a curve that is five deviations off two neighbouring
    # samples has lost them.
    off = np.abs(y[seen] - curve(t[seen])) > 5.0 * noise * relative_sigma[seen]
    beside = np.append(off[1:], False) | np.insert(off[:-1], 0, False)
    smooth[np.flatnonzero(seen)[off & beside]] = y[seen][off & beside]
    return np.maximum(smooth, 0.0) if nonnegative else smooth


def fit_smoother(
    t: Array, y: Array, relative_sigma: Array, inflation: float = 1.0
) -> tuple[Callable[[Array], Array], float]:
    """The spline through a state, of its logarithm where that is likelier, and free degrees."""
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

    A state without values in a trajectory is the mean of the others; states without noise keep their samples.
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
    """The relative sigma of noise that is the same everywhere, [samples, states] a trajectory."""
    return [np.ones_like(t.values) for t in series.trajectories]


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
    return np.asarray((c * values).sum(axis=1))


def _local_size(y: Array) -> Array:
    """|y| without noise: the median of five neighbours that are observed, [samples]."""
    seen = np.flatnonzero(np.isfinite(y))
    if not len(seen):
        return np.zeros(len(y))
    padded = np.pad(y[seen], 2, mode="edge")
    medians = np.abs(np.median(np.lib.stride_tricks.sliding_window_view(padded, 5), axis=1))
    return np.asarray(np.interp(np.arange(len(y)), seen, medians))


def relative_noise(series: TimeSeries) -> tuple[Array, ...]:
    """Relative sigma of every sample, [samples, states] a trajectory: how the noise varies.

        sigma(x)^2 = sigma^2 ((1 - q) + q x^2 / mean(x^2)),    0 <= q < 1

    q is 0 (the same noise everywhere) unless pseudo-residuals are clearly larger where the state
    is: their logarithms are compared with those of sigma(x), by absolute deviations from the
    median, which a few steep places cannot sway. In the same way each trajectory may have noise
    of its own size instead. One in which a state never changes says nothing about the others,
    and the 0 of a species that is absent has no noise.
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
        # Of little noise curvature hides the shape at low degrees.
        usual = [d for d in by_degree if d >= 3 and by_degree[d] < FLAT * min(by_degree.values())]
        observed = [size[np.isfinite(y)] for size, (_, y) in zip(sizes, changing, strict=True)]
        logs, at = _log_squares(runs, observed, min(usual, default=3))
        # Fewer than 30 residuals show no shape.
        if not logs or mean == 0.0 or sum(map(len, logs)) < 30:
            continue
        log_e, square = np.concatenate(logs), np.concatenate(at) / mean
        # Another shape has to be likelier by odds of 400, e^6.
        clearly = np.exp(-6.0 / len(log_e))
        best, least = 0.0, _spread(log_e, 0.0, square) * clearly
        for q in (0.5, 0.8, 0.9, 0.97, 0.99, 0.999, 0.9999, 0.999999):
            spread = _spread(log_e, q, square)
            best, least = (q, spread) if spread < least else (best, least)
        level = np.array([float(np.median(e)) for e in logs])
        own = np.concatenate([e - m for e, m in zip(logs, level, strict=True)])
        if len(logs) == len(changing) > 1 and np.mean(np.abs(own)) < least * clearly:
            # The variance of the median of log e^2 is 12 / n, measured on normal noise.
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
    """What was observed of a state, where it changes: times, values and relative sigma of each trajectory."""
    blocks = relative_sigma or _alike(series)
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
        if len(y) >= LEAST_SAMPLES:
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
    """Standard deviation of the measurement noise of every state [states], in its own unit.

    The median of three estimates: that of the pseudo-residuals and, where these show that there is
    noise at all, those of two smoothing splines, sqrt(sum r^2 / (n - trace S)), one of which may
    smooth too little and the other too much. Zero where there are too few samples.

    `relative_sigma` is that of `relative_noise`; states that are not `wanted` are nan, and those of which an
    `earlier` estimate had the same relative sigma keep it.
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
        # The least over several degrees.
        noise[i] = min(_by_degree(runs).values(), default=0.0)
        # For many samples, or without time, the pseudo-residuals are enough.
        worth = noise[i] > NOISY_SHARE * spread[i] and not is_time_up()
        if worth and all(LEAST_SAMPLES <= len(t) <= MOST_FACTORED for t, _, _ in runs):
            # An inflation of the trace of 1 smooths too little, 1.2 to 1.4 do not (Kim and Gu, J. R. Statist. Soc. B
            # 66, 2004); splines raise the estimate by a factor of 1.8 at most.
            others = [_spline_noise(runs, inflation) for inflation in (1.0, 1.2)]
            noise[i] = min(float(np.median([noise[i], *others])), 1.8 * noise[i])
    return noise


def _is_same(one: Sequence[Array], other: Sequence[Array], state: int) -> bool:
    return all(np.array_equal(a[:, state], b[:, state]) for a, b in zip(one, other, strict=True))


def shows_noise(series: TimeSeries) -> Mask:
    """States whose pseudo-residuals are noise, however small, and no curvature of the signal [states]."""
    shown = np.zeros(series.n_states, dtype=bool)
    for i in range(series.n_states):
        estimates = list(_by_degree(_runs(series, i)).values())[-2:]
        shown[i] = len(estimates) == 2 and 0.0 < estimates[0] < FLAT * estimates[1]
    return shown


def _by_degree(runs: Sequence[Run]) -> dict[int, float]:
    """Noise by the median of the pseudo-residuals of each degree."""
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
    """A long run as eight stretches of neighbours, spread evenly: the millionth tells nothing new of the noise."""
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
    # Outliers, beyond three deviations, are no noise: they count as much as the largest usual residual.
    usual = np.minimum(size, 3.0 * np.median(size) / NORMAL_MEDIAN)
    return float(np.sqrt(np.sum(usual**2) / max(free, 1.0)))
