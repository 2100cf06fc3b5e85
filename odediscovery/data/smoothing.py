"""Cubic smoothing splines through measured series, by generalised cross-validation."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.interpolate import BSpline, make_interp_spline, make_smoothing_spline
from scipy.linalg import solveh_banded

from odediscovery.data.samples import usual_values
from odediscovery.data.series import TimeSeries, Trajectory
from odediscovery.runtime.arrays import Array, Mask
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
