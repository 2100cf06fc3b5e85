"""What the data are like, decided once before the search: scale, noise, sign, resolution.

A state counts as sign-changing only when its negative part is more than noise explains, and more
than a single stray sample; every other state is nonnegative with noise, or not positive, and then
its mirror image -x is fitted: its scale is negative. A state that never changes gets a zero
right-hand side.
Where the user knows standard deviations of a state they are taken, and nothing is estimated.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.signal import find_peaks

from odediscovery.data.samples import measured, pooled
from odediscovery.data.scale import Scale
from odediscovery.data.series import TimeSeries, Trajectory
from odediscovery.data.smoothing import NOISY, estimate_noise, relative_noise, smooth
from odediscovery.errors import InputError
from odediscovery.knowledge.constraints import Knowledge
from odediscovery.laws.power_sum import PowerSum
from odediscovery.runtime.arrays import Array, Mask

# Size of numbers that can still be multiplied a few times.
LARGEST = 1e60
# Below this share of a state's spread its noise is no concern of the search.
CLEAN = 1e-4
# Least noise of a sample, relative to the rms of all, by which it is weighed.
LEAST_SHAPE = 0.1
# Given standard deviations above this multiple of their median do not raise the state's noise, and
# the second number is the most by which a sample's may differ from it: beyond, splines break down.
UNUSUAL, MOST_SHAPE = 10.0, 1000.0
# Standard deviations of the noise up to which a sample may lie beyond 0, and up to which a single
# one of a trajectory may: of few samples the noise is easily estimated half as large as it is.
BEYOND, STRAY = 4.0, 6.0
# Ratio of the noise that is estimated to what is given from which on they contradict each other.
CONTRADICTED = 3.0
# Height of an extremum that counts, as a share of the state's standard deviation.
PROMINENT = 0.2
# Multiples of the noise by which samples spread along a linear relation at most, and across it at
# least.
ALONG, ACROSS = 1.2, 20.0
# Standard deviation of a state, as a share of its mean, up to which its powers are straight lines.
FLAT = 0.01
# Relative accuracy of the solvers that judge; nothing below it is evidence. Their errors are alike
# from sample to sample: more samples than these do not average them out.
INTEGRATION, INDEPENDENT = 1e-8, 40


@dataclass(frozen=True, eq=False)
class Prepared:
    """A dimensionless series and what is known of it.

    Args:
        data: states divided by their rms (those that are negative throughout by -rms), time by
            the median sample interval.
        smooth: the same without noise and gaps.
        scale: what undoes the division.
        noise: standard deviation of the noise [states], estimated or as given, dimensionless.
        floor: residuals below this are rounding or integration error [states].
        nonnegative: bool [states].
        constant: bool [states], states without an equation: inputs, and those that never change.
        shape: noise of every sample relative to `noise`, [samples, states] a trajectory.
        exact: a law that leaves nothing, if that is how it is known that there is no noise.
        heads: index of the first piece of each trajectory, if they were cut.
        knowledge: what the user knows of the law, dimensionless, if anything.
        given: the same in the user's units.
        messages: what the reader of a result should know of its noise, one each.
    """

    data: TimeSeries
    smooth: TimeSeries
    scale: Scale
    noise: Array
    floor: Array
    nonnegative: NDArray[np.bool_]
    constant: NDArray[np.bool_]
    shape: tuple[Array, ...]
    exact: PowerSum | None = None
    heads: tuple[int, ...] | None = None
    knowledge: Knowledge | None = None
    given: Knowledge | None = None
    messages: tuple[str, ...] = ()

    @property
    def initial(self) -> Array:
        """Smoothed first states [trajectories, states], without controls."""
        return np.stack([t.values[0] for t in self.smooth.trajectories])[:, ~self.data.is_control]

    @property
    def whole(self) -> bool:
        """Whether exponents are known to be whole numbers."""
        return self.knowledge is not None and self.knowledge.integer

    @property
    def start_errors(self) -> Array:
        """Standard deviation of the noise of the first samples [trajectories, states], without controls."""
        return np.stack([self.noise * s[0] for s in self.shape])[:, ~self.data.is_control]

    @property
    def measured(self) -> NDArray[np.bool_]:
        """States of which there are samples [states]."""
        return measured(self.data)

    @property
    def complete(self) -> bool:
        """Whether no value of a measured state is missing."""
        return bool(np.isfinite(pooled(self.data)[:, self.measured]).all())

    @property
    def noisiness(self) -> float:
        """Largest noise of a changing state as a share of that state's standard deviation."""
        moving = ~self.constant & self.measured
        spread = np.nanstd(pooled(self.data)[:, moving], axis=0)
        return float(np.max(self.noise[moving] / spread, initial=0.0))

    def without_noise(self, exact: PowerSum | None) -> Prepared:
        """The same series, taken as it is: coarse sampling looked like noise."""
        none = np.zeros_like(self.noise)
        return dataclasses.replace(
            self,
            smooth=self.data,
            noise=none,
            exact=exact,
            shape=tuple(np.ones_like(s) for s in self.shape),
            nonnegative=np.nanmin(pooled(self.data), axis=0) >= -self.floor,
        )

    @property
    def extrema_per_interval(self) -> float:
        """Clear extrema of the fastest state for each sample interval of the smoothed paths."""
        clear = PROMINENT * np.std(pooled(self.smooth), axis=0)
        count = np.zeros(len(clear))
        for t in self.smooth.trajectories:
            for i in np.flatnonzero(~self.constant):
                for side in (t.values[:, i], -t.values[:, i]):
                    count[i] += len(find_peaks(side, prominence=clear[i])[0])
        return float(count.max() / sum(len(t.time) - 1 for t in self.smooth.trajectories))

    def pieces(self, length: int) -> Prepared:
        """The same with every trajectory cut into runs of about `length` samples."""

        def cut(series: TimeSeries) -> TimeSeries:
            parts = [t.part(rows) for t in series.trajectories for rows in _runs(len(t.time), length)]
            return dataclasses.replace(series, trajectories=tuple(parts))

        shape = tuple(s[rows] for s in self.shape for rows in _runs(len(s), length))
        return dataclasses.replace(
            self,
            data=cut(self.data),
            smooth=cut(self.smooth),
            shape=shape,
            heads=tuple(np.cumsum([0, *(len(_runs(len(s), length)) for s in self.shape[:-1])])),
        )

    @property
    def samples(self) -> int:
        """Number of observed values of states with equations or constant ones."""
        return int(np.isfinite(pooled(self.data)[:, ~self.data.is_control]).sum())

    @property
    def unexplained(self) -> float:
        """Mean square of what smoothing leaves of the changing states, in units of the noise."""
        sigma = np.maximum(self.noise, self.floor) * np.concatenate(self.shape)
        residual = (pooled(self.data) - pooled(self.smooth)) / sigma
        return float(np.nanmean(residual[:, ~self.constant] ** 2))

    @property
    def clean(self) -> bool:
        """Whether measured states can serve as exact starts of windows."""
        return self.complete and self.noisiness <= CLEAN


def _runs(samples: int, length: int) -> list[slice]:
    """Slices of about `length` samples, one behind the other."""
    count = max(samples // length, 1)
    edges = np.linspace(0, samples, count + 1).astype(int)
    return [slice(int(a), int(b)) for a, b in itertools.pairwise(edges)]


def resolution(values: Array) -> float:
    """The last decimal place written, as a number: 0.01 for 3.25 and 4.1.

    >>> resolution(np.array([3.25, 4.1]))
    0.01
    """
    seen = values[np.isfinite(values)]
    largest = np.max(np.abs(seen), initial=0.0)
    for digits in range(-6, 16):
        if np.all(np.abs(np.round(seen, digits) - seen) <= 1e-14 * largest):
            return float(10.0**-digits)
    return 0.0


def given_noise(series: TimeSeries) -> tuple[Array, tuple[Array, ...]]:
    """The standard deviations that the user knows: of each state, and how its samples vary.

        noise = sqrt(mean(sigma^2)),    shape = sigma / noise

    over all observed samples, where sigma counts as ten times its median at most in the mean: a
    few samples that are hardly known at all do not make the others noisy.

    Returns:
        noise [states], nan where unknown, and shape, [samples, states] a trajectory, 1 where
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
            noise[i] = np.sqrt(np.mean(np.minimum(sigma, UNUSUAL * np.median(sigma)) ** 2))
    shape = tuple(np.clip(np.nan_to_num(s / noise, nan=1.0), 1.0 / MOST_SHAPE, MOST_SHAPE) for s in known)
    return noise, shape


def _contradictions(series: TimeSeries, given: Array, looks: Array) -> tuple[str, ...]:
    """What the data say against the noise that was given, one sentence a state.

    Args:
        given: standard deviation of the noise [states], nan where it was not given.
        looks: what is estimated; 0 where the samples are too few to tell.
    """
    messages = []
    for i in np.flatnonzero((given > 0) & (looks > 0)):
        ratio = float(looks[i] / given[i])
        off = max(ratio, 1.0 / ratio)
        if off > CONTRADICTED:
            times = f"{off:.0f}" if off < 1000 else "over 1000"
            # Changes between samples only add to the estimate: a smaller one is no effect of them.
            which, unless = ("larger", ", unless it changes too fast between samples to tell")
            if ratio < 1:
                which, unless = "smaller", ""
            messages.append(
                f"the noise of {series.states[i]} looks {times} times {which} than its standard deviations say{unless}"
            )
    return tuple(messages)


def strays(values: Sequence[Array], noise: Array) -> Mask:
    """States that are below 0 in one sample of a trajectory at most, and little, bool [states].

    A state that changes its sign stays below 0 for a while. A single sample there is noise, also
    where the noise, which then does not grow with the state, seemed to vanish near 0.

    Args:
        values: of each trajectory, [samples, states].
        noise: standard deviation of the noise [states], the same for all samples.

    >>> strays([np.array([[-0.3, -0.3], [1.2, -0.2], [2.1, 0.9]])], noise=np.array([0.1, 0.1]))
    array([ True, False])
    """
    alone = [(v < 0.0).sum(axis=0) <= 1 for v in values]
    found: Mask = np.all(alone, axis=0)
    found &= np.nanmin(np.concatenate(values), axis=0) >= -STRAY * noise
    return found


def prepare(series: TimeSeries, *, smoothing: bool = True) -> Prepared:
    """The series made dimensionless, with its noise, signs and resolution.

    Args:
        smoothing: else `smooth` is the data, straight lines over gaps: enough to judge a law.
    """
    _check_sizes(series)
    scale = Scale.of(series)
    data = scale.apply(series)
    values = pooled(data)
    # Where there is no noise, what is left of polynomials is curvature. Noise that grows with a
    # state that is near 0 in most samples is seen on the scale of its own shape only.
    spread, shape, even = np.nanstd(values, axis=0), relative_noise(data), estimate_noise(data)
    measurable = even > CLEAN * spread
    measurable |= estimate_noise(data, shape) > NOISY * spread
    given, own = given_noise(data)
    known = np.isfinite(given)
    shape = tuple(np.where(known, g, np.where(measurable, s, 1.0)) for g, s in zip(own, shape, strict=True))
    looks = estimate_noise(data, shape)
    # Inputs are taken as they are.
    noise = np.where(series.is_control, 0.0, np.where(known, given, looks))
    shape = tuple(np.where(series.is_control, 1.0, s) for s in shape)
    # No sample weighs so much that a solver's error would be evidence.
    shape = tuple(np.maximum(s, LEAST_SHAPE) for s in shape)
    rounding = np.array([resolution(column) for column in pooled(series).T]) / scale.size
    spread = np.nanmax(values, axis=0) - np.nanmin(values, axis=0)
    constant = series.is_control | (spread <= np.maximum(1e-12, rounding * 1e-6))
    floor = np.maximum(rounding / np.sqrt(12.0), INTEGRATION * np.sqrt(max(len(values) / INDEPENDENT, 1.0)))
    explained = np.maximum(BEYOND * noise * np.concatenate(shape), floor)
    nonnegative = np.nanmin(values + explained, axis=0) >= 0.0
    negative = np.nanmax(values - explained, axis=0) <= 0.0
    above, below = (strays([sign * t.values for t in data.trajectories], even) for sign in (1, -1))
    stray = (above | below) & ~(nonnegative | negative | known | series.is_control)
    noise = np.where(stray, even, noise)
    shape = tuple(np.where(stray, 1.0, s) for s in shape)
    nonnegative, negative = nonnegative | stray & above, negative | stray & below
    # What noise explains whole has the sign of its mean.
    negative &= ~nonnegative | (np.nanmean(values, axis=0) < 0.0)
    if negative.any():
        scale = Scale(np.where(negative, -scale.state, scale.state), scale.time)
        data, nonnegative = scale.apply(series), nonnegative | negative
    smoothed = smooth(data, noise, nonnegative, shape) if smoothing else _interpolated(data)
    return Prepared(
        data,
        smoothed,
        scale,
        noise,
        floor,
        nonnegative,
        constant,
        shape,
        messages=_contradictions(series, given, looks),
    )


def _interpolated(data: TimeSeries) -> TimeSeries:
    """Straight lines over missing values."""

    def whole(t: Trajectory) -> Trajectory:
        columns = []
        for y in t.values.T:
            seen = np.isfinite(y)
            columns.append(np.interp(t.time, t.time[seen], y[seen]) if seen.any() else y)
        return dataclasses.replace(t, values=np.stack(columns, axis=1))

    return dataclasses.replace(data, trajectories=tuple(map(whole, data.trajectories)))


def _check_sizes(series: TimeSeries) -> None:
    """No state so large or small that products of a few of them leave the range of numbers."""
    sizes = np.nanmax(np.abs(pooled(series)), axis=0)
    for state, size in zip(series.states, sizes, strict=True):
        if size > LARGEST or 0.0 < size < 1.0 / LARGEST:
            raise InputError(
                f"the values of {state!r} reach {size:.3g}: expected less than "
                f"{LARGEST:g} and more than {1 / LARGEST:g}; change its unit, or "
                "correct them"
            )


def linear_relation(p: Prepared) -> tuple[Array, float] | None:
    """c and d with sum_k c_k x_k = d in all samples, up to noise, in the user's units.

    The direction in which the samples spread least; None where they spread by more than noise
    and rounding, or do not clearly spread in all others.
    """
    x = pooled(p.data)
    x = x[np.isfinite(x).all(axis=1)]
    moving = np.flatnonzero(~p.constant)
    if len(moving) < 2 or len(x) <= len(moving) + 1:
        return None
    center = x[:, moving].mean(axis=0)
    _, spread, axes = np.linalg.svd(x[:, moving] - center, full_matrices=False)
    least, next_to = spread[-1] / np.sqrt(len(x)), spread[-2] / np.sqrt(len(x))
    sigma = np.sqrt(np.mean(np.concatenate(p.shape) ** 2, axis=0)) * p.noise
    noise = float(np.linalg.norm(axes[-1] * np.maximum(sigma, 10.0 * p.floor)[moving]))
    if least > ALONG * noise or next_to < ACROSS * noise:
        return None
    c = np.zeros(p.data.n_states)
    c[moving] = axes[-1] / p.scale.state[moving]
    d = float(axes[-1] @ center)
    largest = c[np.argmax(np.abs(c))]
    # What is smaller than this is noise of the direction itself.
    c = np.where(np.abs(c / largest) > 1e-3, c / largest, 0.0)
    return c, d / float(largest)


def redundant(p: Prepared) -> NDArray[np.bool_]:
    """A state that equations in noise do without, if there is one [states].

    It hardly changes, x = m (1 + d), so that every power of it is a straight line,
    x^w = m^w (1 + w d + O(d^2)), and the linear relation of all samples says which one: of the
    others. With it every law could be written in many ways, as differences of large terms.
    """
    found: NDArray[np.bool_] = np.zeros(p.data.n_states, dtype=bool)
    relation = None if p.clean else linear_relation(p)
    if relation is not None:
        values = pooled(p.data)
        share = np.nanstd(values, axis=0) / np.maximum(np.abs(np.nanmean(values, axis=0)), 1e-300)
        share[relation[0] == 0.0] = np.inf
        found[np.argmin(share)] = share.min() < FLAT
    return found
