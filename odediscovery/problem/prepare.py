"""What the data are like, decided once before the search: scale, noise, sign, resolution.

A state counts as sign-changing only when its negative part is more than noise explains, and more
than a single stray sample. Every other state is nonnegative with noise, or not positive; then its
mirror image -x is fitted, and its scale is negative. A state that never changes gets a zero
right-hand side. Where the user gives standard deviations of a state, nothing is estimated.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from odediscovery.data.noise import NOISE, estimate_noise, relative_noise, shows_noise
from odediscovery.data.recorded.digits import lengths_of_runs, resolution, rounding_sigma
from odediscovery.data.samples import pooled, usual_values
from odediscovery.data.scale import Scale
from odediscovery.data.series import TimeSeries, Trajectory
from odediscovery.data.smoothing import SMOOTHING, smooth
from odediscovery.errors import InputError
from odediscovery.problem.interpolants import find_interpolation
from odediscovery.problem.problem import PROBLEMS, Problem
from odediscovery.runtime.arrays import Array, Mask


@dataclass(frozen=True)
class PreparationThresholds:
    """What decides about noise, signs and resolution before the search."""

    largest: float = 1e60  # largest value of a state, 1 over its smallest
    least_relative: float = 0.1  # least relative sigma by which a sample is weighted [noise of the state]
    unusual: float = 10.0  # given standard deviations count as this at most in the noise of the state [their median]
    # Most by which a sample's given standard deviation may differ from the state's, either way [noise of the state]
    most_relative: float = 1000.0
    # A sample may lie this far beyond 0 without a change of sign [standard deviation of the noise]
    beyond_zero: float = 4.0
    # A single sample of a trajectory may lie this far beyond 0 without a change of sign [standard deviation of the
    # noise]
    stray: float = 6.0
    # estimated and given noise contradict each other from this on, either way [ratio of standard deviations]
    contradiction: float = 3.0
    over_contradiction: float = 1000.0  # larger ratios are not printed as numbers [ratio]; chosen: wording only
    rounded: float = 1.5  # noise up to this is that of the digits [what rounding explains]
    integration_error: float = 1e-8  # residuals below this are no evidence [rms of the state]
    independent: float = 40.0  # samples over which a solver's errors average out [samples]
    # A state whose range is at most the first, or the second times its resolution, is constant [rms of the state;
    # resolution]
    unchanged: tuple[float, float] = (1e-12, 1e-6)


PREPARATION = PreparationThresholds()


class _Noise(NamedTuple):
    """Noise of a dimensionless series.

    Args:
        sigma: standard deviation [states].
        relative: of every sample over `sigma`, [samples, states] a trajectory.
        uniform: estimate as if it were the same for all samples [states].
        given: as the user knows it, nan elsewhere [states].
        estimated: as the samples show it [states].
    """

    sigma: Array
    relative: tuple[Array, ...]
    uniform: Array
    given: Array
    estimated: Array


def prepare(series: TimeSeries, *, smoothing: bool = True) -> Problem:
    """The series made dimensionless, with its noise, signs and resolution.

    Args:
        smoothing: else `smooth` is the data, straight lines over gaps: enough to judge a law.

    Raises:
        InputError: values so large or small that products of them leave the range of numbers.
    """
    _check_sizes(series)
    scale = Scale.of(series)
    data = scale.apply(series)
    rounding = np.array([resolution(column) for column in pooled(series).T]) / scale.size
    rounded = np.stack([rounding_sigma(column) for column in pooled(series).T], axis=1) / scale.size
    noise = _find_noise(_filled(data), rounded)
    floor = np.maximum(np.sqrt(np.mean(rounded**2, axis=0)), _integration_floor(len(pooled(data))))
    found = find_interpolation(_filled(series))
    off = found.sigma / scale.size
    floor = np.maximum(floor, off)
    noise = noise._replace(sigma=np.where(np.isfinite(noise.given), noise.sigma, np.maximum(noise.sigma, off)))
    noise, nonnegative, negative = _find_signs(data, noise, floor)
    if negative.any():
        scale = Scale(np.where(negative, -scale.state, scale.state), scale.time)
        data, nonnegative = scale.apply(series), nonnegative | negative
    return Problem(
        data,
        _with_doses(smooth(_filled(data), noise.sigma, nonnegative & ~_dosed(data), noise.relative), data)
        if smoothing
        else _interpolate_gaps(data),
        scale,
        noise.sigma,
        floor,
        nonnegative,
        _is_constant(data, rounding),
        noise.relative,
        samples_a_step=found.samples,
        messages=(*_contradictions(data, noise), *found.sentences),
    )


def _find_noise(data: TimeSeries, rounded: Array) -> _Noise:
    """The noise of a dimensionless series: given where it is known, that of its digits, or estimated.

    Args:
        rounded: standard deviation of what the digits of every sample left out, [samples, states].
    """
    spread, relative, uniform = np.nanstd(pooled(data), axis=0), relative_noise(data), estimate_noise(data)
    # Without noise the residuals of polynomials are curvature. Noise that grows with a state that is
    # near 0 in most samples shows only on the scale of its own relative sigma.
    measurable = (uniform > SMOOTHING.clean * spread) | ((uniform > PROBLEMS.clean * spread) & shows_noise(data))
    # Splines of hundreds of states take minutes: none is fitted twice, nor where nothing depends on it.
    earlier = [(tuple(np.ones_like(t.values) for t in data.trajectories), uniform)]
    earlier.append((relative, estimate_noise(data, relative, ~measurable, earlier)))
    measurable |= earlier[-1][1] > NOISE.noisy * spread
    given, own = given_noise(data)
    known = np.isfinite(given)
    relative = tuple(np.where(known, g, np.where(measurable, s, 1.0)) for g, s in zip(own, relative, strict=True))
    estimated = estimate_noise(data, relative, earlier=earlier)
    # Where digits alone explain what samples are off, they tell how far each one is.
    of_digits = np.sqrt(np.mean(rounded**2, axis=0))
    ends = np.cumsum([len(t.time) for t in data.trajectories])[:-1]
    shapes = np.split(rounded / np.where(of_digits > 0, of_digits, 1.0), ends)
    shapes = [np.maximum(s, PREPARATION.least_relative) for s in shapes]
    told = ~known & (of_digits > PROBLEMS.clean * spread)
    told &= estimate_noise(data, shapes, told, earlier) <= PREPARATION.rounded * of_digits
    # Neighbours that were written alike share what rounding left out.
    alike = [np.stack([lengths_of_runs(column) for column in t.values.T], axis=1) for t in data.trajectories]
    shapes = [s * np.where(spread > 0, np.sqrt(m), 1.0) for s, m in zip(shapes, alike, strict=True)]
    relative = tuple(np.where(told, own, s) for own, s in zip(shapes, relative, strict=True))
    estimated = np.where(told, of_digits, estimated)
    # Controls are taken as exact.
    sigma = np.where(data.is_control, 0.0, np.where(known, given, estimated))
    relative = tuple(np.maximum(np.where(data.is_control, 1.0, s), PREPARATION.least_relative) for s in relative)
    return _Noise(sigma, relative, uniform, given, estimated)


def _integration_floor(samples: int) -> float:
    return float(PREPARATION.integration_error * np.sqrt(max(samples / PREPARATION.independent, 1.0)))


def _is_constant(data: TimeSeries, rounding: Array) -> Mask:
    """States without an equation [states]: controls, and those that never change."""
    values = pooled(data)
    spread = np.nanmax(values, axis=0) - np.nanmin(values, axis=0)
    least, of_digit = PREPARATION.unchanged
    return np.asarray(data.is_control | (spread <= np.maximum(least, rounding * of_digit)))


def _find_signs(data: TimeSeries, noise: _Noise, floor: Array) -> tuple[_Noise, Mask, Mask]:
    """The states that are not negative, those that are not positive (no state is both), noise aside.

    Returns:
        The noise, now uniform for states with a stray sample beyond 0, and bool [states] twice.
    """
    values = pooled(data)
    explained = np.maximum(PREPARATION.beyond_zero * noise.sigma * np.concatenate(noise.relative), floor)
    nonnegative = np.nanmin(values + explained, axis=0) >= 0.0
    negative = np.nanmax(values - explained, axis=0) <= 0.0
    above, below = (find_strays([sign * t.values for t in data.trajectories], noise.uniform) for sign in (1, -1))
    known = np.isfinite(noise.given)
    stray = (above | below) & ~(nonnegative | negative | known | data.is_control)
    noise = noise._replace(
        sigma=np.where(stray, noise.uniform, noise.sigma),
        relative=tuple(np.where(stray, 1.0, s) for s in noise.relative),
    )
    nonnegative, negative = nonnegative | stray & above, negative | stray & below
    # A state that noise explains as a whole has the sign of its mean.
    negative &= ~nonnegative | (np.nanmean(values, axis=0) < 0.0)
    return noise, nonnegative, negative


def given_noise(series: TimeSeries) -> tuple[Array, tuple[Array, ...]]:
    """The standard deviations that the user knows: of each state, and relative ones of its samples.

        noise = sqrt(mean(sigma^2)),    relative = sigma / noise

    over all observed samples, where sigma counts as ten times its median at most in the mean: a
    few samples that are hardly known at all do not make the others noisy.

    Returns:
        noise [states], nan where unknown, and relative, [samples, states] a trajectory, 1 where
        unknown or missing.

    >>> series = TimeSeries.from_arrays([0, 1, 2, 3], [8.0, 4.0, 2.0, 1.0], noise={"x0": 0.5})
    >>> given_noise(series)[0].tolist()
    [0.5]
    """
    known = [np.full(t.values.shape, np.nan) if t.sigma is None else t.sigma for t in series.trajectories]
    noise = np.full(series.n_states, np.nan)
    for i, column in enumerate(np.concatenate(known).T):
        sigma = column[np.isfinite(column)]
        if len(sigma):
            noise[i] = np.sqrt(np.mean(np.minimum(sigma, PREPARATION.unusual * np.median(sigma)) ** 2))
    most = PREPARATION.most_relative
    relative = tuple(np.clip(np.nan_to_num(s / noise, nan=1.0), 1.0 / most, most) for s in known)
    return noise, relative


def _contradictions(data: TimeSeries, noise: _Noise) -> tuple[str, ...]:
    """Where the estimated noise contradicts the given one, one sentence a state."""
    messages = []
    for i in np.flatnonzero((noise.given > 0) & (noise.estimated > 0)):
        ratio = float(noise.estimated[i] / noise.given[i])
        off, most = max(ratio, 1.0 / ratio), PREPARATION.over_contradiction
        if off > PREPARATION.contradiction:
            times = f"{off:.0f}" if off < most else f"over {most:.0f}"
            # Changes between samples only add to the estimate: they cannot make it smaller.
            which, unless = ("larger", ", unless it changes too fast between samples to tell")
            if ratio < 1:
                which, unless = "smaller", ""
            messages.append(
                f"the noise of {data.states[i]} looks {times} times {which} than its standard deviations say{unless}"
            )
    return tuple(messages)


def find_strays(values: Sequence[Array], noise: Array) -> Mask:
    """States that are below 0 in one sample of a trajectory at most, and little, bool [states].

    A state that changes its sign stays below 0 for a while. A single sample there is noise, also
    where the noise, which then does not grow with the state, seemed to vanish near 0.

    Args:
        values: of each trajectory, [samples, states].
        noise: standard deviation of the noise [states], the same for all samples.

    >>> find_strays([np.array([[-0.3, -0.3], [1.2, -0.2], [2.1, 0.9]])], noise=np.array([0.1, 0.1]))
    array([ True, False])
    """
    alone = [(v < 0.0).sum(axis=0) <= 1 for v in values]
    found: Mask = np.all(alone, axis=0)
    found &= np.nanmin(np.concatenate(values), axis=0) >= -PREPARATION.stray * noise
    return found


def _interpolate_gaps(data: TimeSeries) -> TimeSeries:
    """The series with straight lines over missing values, as `smooth` fills them."""
    usual = usual_values(data)

    def whole(t: Trajectory) -> Trajectory:
        columns = []
        for y, mean in zip(t.values.T, usual, strict=True):
            seen = np.isfinite(y)
            columns.append(np.interp(t.time, t.time[seen], y[seen]) if seen.any() else np.full_like(y, mean))
        return dataclasses.replace(t, values=np.stack(columns, axis=1))

    return dataclasses.replace(data, trajectories=tuple(map(whole, data.trajectories)))


def _filled(data: TimeSeries) -> TimeSeries:
    """The series that is smoothed: a value where only a limit is known, without the jumps of doses."""
    runs = [dataclasses.replace(t, values=t.recorded.filled(t.values)) if t.recorded else t for t in data.trajectories]
    return dataclasses.replace(data, trajectories=tuple(runs))


def _dosed(data: TimeSeries) -> Mask:
    """States that doses were given to [states]."""
    given = [t.recorded.given for t in data.trajectories if t.recorded is not None and t.recorded.given is not None]
    return np.any([g.any(axis=0) for g in given], axis=0) if given else np.zeros(data.n_states, bool)


def _with_doses(smoothed: TimeSeries, data: TimeSeries) -> TimeSeries:
    """The smoothed series with the doses that `_filled` took away."""
    runs = []
    for run, t in zip(smoothed.trajectories, data.trajectories, strict=True):
        given = None if t.recorded is None else t.recorded.given
        runs.append(run if given is None else dataclasses.replace(run, values=run.values + given))
    return dataclasses.replace(smoothed, trajectories=tuple(runs))


def _check_sizes(series: TimeSeries) -> None:
    """No state so large or small that products of a few of them leave the range of numbers."""
    sizes, largest = np.nanmax(np.abs(pooled(series)), axis=0), PREPARATION.largest
    for state, size in zip(series.states, sizes, strict=True):
        if size > largest or 0.0 < size < 1.0 / largest:
            raise InputError(
                f"the values of {state!r} reach {size:.3g}: expected less than "
                f"{largest:g} and more than {1 / largest:g}; change its unit, or "
                "correct them"
            )
