"""Noise and smoothing of measured series, before any model is known.

The noise of a state is estimated from how far each sample lies off the polynomial through its
neighbours (pseudo-residuals of Gasser, Sroka and Jennen-Steinmetz, Biometrika 73, 1986, at
several degrees): any curvature of the signal only adds to such a residual, so the smallest
over the degrees is taken, and its median over the samples survives a few steep places.
"""

from __future__ import annotations

import numpy as np
from scipy.interpolate import make_smoothing_spline

from odediscovery.powersum import Array
from odediscovery.series import TimeSeries, Trajectory

# Median of |e| for a standard normal e.
NORMAL_MEDIAN = 0.6744897501960817
# Noise below this share of a state's rms is taken as none: the data are used as they are.
CLEAN = 1e-5


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


def estimate_noise(series: TimeSeries) -> Array:
    """Standard deviation of the measurement noise of every state [states], in its own unit.

    Zero where the samples are too few to tell.
    """
    noise = np.zeros(series.n_states)
    for i in range(series.n_states):
        estimates = []
        for degree in (1, 2, 3, 4, 5, 6):
            residuals = [
                _pseudo_residuals(t.time[seen], t.values[seen, i], degree)
                for t in series.trajectories
                if (seen := np.isfinite(t.values[:, i])).sum() >= degree + 2
            ]
            pooled = np.concatenate(residuals) if residuals else np.empty(0)
            if len(pooled) >= 6:
                estimates.append(float(np.median(np.abs(pooled))) / NORMAL_MEDIAN)
        noise[i] = min(estimates, default=0.0)
    return noise


def _smooth_state(t: Array, y: Array, noise: float, nonnegative: bool) -> Array:
    seen = np.isfinite(y)
    if seen.sum() < 5 or noise <= 0.0:
        filled: Array = np.interp(t, t[seen], y[seen]) if seen.any() else np.zeros_like(t)
        return filled
    smooth: Array = make_smoothing_spline(t[seen], y[seen])(t)
    return np.maximum(smooth, 0.0) if nonnegative else smooth


def smooth(series: TimeSeries, noise: Array, nonnegative: Array) -> TimeSeries:
    """The series without noise and gaps: cubic smoothing splines by generalised cross-validation.

    Args:
        noise: from `estimate_noise`, [states]; states with noise below `CLEAN` of their rms
            keep their samples, and only gaps are filled.
        nonnegative: bool [states]; these states are bounded at 0.
    """
    values = np.concatenate([t.values for t in series.trajectories])
    rms = np.sqrt(np.nanmean(values**2, axis=0))
    trajectories = []
    for t in series.trajectories:
        columns = [
            _smooth_state(
                t.time, t.values[:, i], noise[i] if noise[i] > CLEAN * rms[i] else 0.0,
                bool(nonnegative[i]),
            )
            for i in range(series.n_states)
        ]  # fmt: skip
        trajectories.append(Trajectory(t.time, np.stack(columns, axis=1), t.label))
    return TimeSeries(series.states, tuple(trajectories), series.time_name, series.units)
