"""A dimensionless series and what is known of it, the value that every stage takes.

A stage may change a law as it likes. Before the next one sees it, forbidden terms are taken out, known ones put in,
and known constants marked as not free.
"""

from __future__ import annotations

import dataclasses
import itertools
from dataclasses import dataclass

import numpy as np

from odediscovery.data.series import Scale, TimeSeries, measured, pooled
from odediscovery.knowledge.constraints import Knowledge
from odediscovery.laws.power_sum import Free, PowerSum
from odediscovery.runtime.arrays import ABOVE_ZERO, Array, Mask

CLEAN_NOISE = 1e-7  # less cannot be told from the error of a solver [standard deviation of the state]
PROMINENCE = 0.2  # least prominence of an extremum that counts [standard deviation of the state]


@dataclass(frozen=True, eq=False)
class Problem:
    """A dimensionless series and what is known of it."""

    # States divided by their rms (those that are negative throughout by -rms), time by the median sample interval.
    data: TimeSeries
    smooth: TimeSeries  # the same series without noise and gaps
    scale: Scale  # what undoes the division
    noise: Array  # standard deviation of the noise [states], estimated or as given, dimensionless
    floor: Array  # residuals below this are rounding or integration error [states]
    nonnegative: Mask  # bool [states]
    constant: Mask  # bool [states], states without an equation: controls, and those that never change
    # Standard deviation of the noise of every sample over `noise`, [samples, states] a trajectory.
    relative_sigma: tuple[Array, ...]
    exact: PowerSum | None = None  # a law without residuals, if one proved that there is no noise
    heads: tuple[int, ...] | None = None  # index of the first piece of each trajectory, if they were cut
    knowledge: Knowledge | None = None  # what the user knows of the law, dimensionless, if anything
    given: Knowledge | None = None  # the same knowledge in the user's units
    samples_a_step: float = 0.0  # samples a step of the solver that interpolated them, 0 where none did
    messages: tuple[str, ...] = ()  # notes on the noise for the reader of a result
    # Share of the samples of every state that count as independent [states], where a law told that what is left is no
    # noise; None: all of them.
    independent: Array | None = None
    # Most intervals of a window whose start is fitted, where errors of starts grow fast; None: as many as anywhere.
    longest_window: int | None = None

    @property
    def initial(self) -> Array:
        """Smoothed first states [trajectories, states], without controls."""
        return np.stack([t.values[0] for t in self.smooth.trajectories])[:, ~self.data.is_control]

    @property
    def integer_exponents(self) -> bool:
        """Whether exponents are known to be whole numbers."""
        return self.knowledge is not None and self.knowledge.integer

    @property
    def start_errors(self) -> Array:
        """Standard deviation of the noise of the first samples [trajectories, states], without controls."""
        return np.stack([self.noise * s[0] for s in self.relative_sigma])[:, ~self.data.is_control]

    @property
    def measured(self) -> Mask:
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

    def without_noise(self, exact: PowerSum | None) -> Problem:
        """The problem with its samples taken as exact: coarse sampling looked like noise."""
        return dataclasses.replace(
            self,
            smooth=self.data,
            noise=np.zeros_like(self.noise),
            exact=exact,
            relative_sigma=tuple(np.ones_like(s) for s in self.relative_sigma),
            nonnegative=np.nanmin(pooled(self.data), axis=0) >= -self.floor,
        )

    @property
    def extrema_per_interval(self) -> float:
        """Clear extrema of the fastest state for each sample interval of the smoothed paths."""
        clear = PROMINENCE * np.std(pooled(self.smooth), axis=0)
        count = np.zeros(len(clear))
        for t in self.smooth.trajectories:
            for i in np.flatnonzero(~self.constant):
                for side in (t.values[:, i], -t.values[:, i]):
                    count[i] += count_peaks(side, clear[i])
        return float(count.max() / sum(len(t.time) - 1 for t in self.smooth.trajectories))

    def pieces(self, length: int) -> Problem:
        """The problem with every trajectory cut into runs of about `length` samples."""

        def cut(series: TimeSeries) -> TimeSeries:
            parts = [t.part(rows) for t in series.trajectories for rows in _runs(len(t.time), length)]
            return dataclasses.replace(series, trajectories=tuple(parts))

        counts = [len(_runs(len(s), length)) for s in self.relative_sigma]
        return dataclasses.replace(
            self,
            data=cut(self.data),
            smooth=cut(self.smooth),
            relative_sigma=tuple(s[rows] for s in self.relative_sigma for rows in _runs(len(s), length)),
            heads=tuple(np.cumsum([0, *counts[:-1]])),
        )

    @property
    def samples(self) -> int:
        """Number of observed values, those of controls left out."""
        return int(np.isfinite(pooled(self.data)[:, ~self.data.is_control]).sum())

    @property
    def unexplained(self) -> float:
        """Mean square of the residuals of smoothing, over changing states, in units of the noise."""
        sigma = np.maximum(self.noise, self.floor) * np.concatenate(self.relative_sigma)
        residual = (pooled(self.data) - pooled(self.smooth)) / sigma
        return float(np.nanmean(residual[:, ~self.constant] ** 2))

    @property
    def clean(self) -> bool:
        """Whether measured states can serve as exact starts of windows."""
        return self.complete and self.noisiness <= CLEAN_NOISE


def _runs(samples: int, length: int) -> list[slice]:
    """Slices of about `length` samples, one after the other."""
    count = max(samples // length, 1)
    edges = np.linspace(0, samples, count + 1).astype(int)
    return [slice(int(a), int(b)) for a, b in itertools.pairwise(edges)]


def has_little_noise(p: Problem) -> bool:
    """Whether there is so little noise that it hides no term of a series."""
    return bool(p.noisiness <= 0.003)


def rounding_share(p: Problem) -> float:
    """Mean square that rounding and integration leave of any law, over changing states, in units of the noise."""
    share = p.floor / np.maximum(p.noise, p.floor)
    return 1.0 if p.constant.all() else float(np.mean(share[~p.constant] ** 2))


def increment_squares(p: Problem) -> Array:
    """Mean squared increment of every state between samples, 1 where it has no equation [states]."""
    increments = np.concatenate([np.diff(t.values, axis=0) for t in p.smooth.trajectories])
    squares: Array = np.where(p.constant, 1.0, np.mean(increments**2, axis=0))
    return squares


def count_peaks(values: Array, prominence: float) -> int:
    """How many local maxima stand out by at least `prominence`; a plateau is one, an end is none.

    A maximum stands out from the higher one of its two bases: the lowest values on either side, each before
    anything is higher than the maximum. So scipy.signal has it, which takes long to load.

    >>> count_peaks(np.array([0.0, 3.0, 2.5, 2.6, 0.0, 1.0, 1.0, 0.5]), 0.5)
    2
    """
    if not len(values):
        return 0
    z = values[np.append(True, values[1:] != values[:-1])]
    peaks = np.flatnonzero((z[1:-1] > z[:-2]) & (z[1:-1] > z[2:])) + 1
    if not len(peaks):
        return 0
    # Before, between and behind maxima there is a single valley.
    tops, lows = z[peaks].tolist(), np.minimum.reduceat(z, np.append(0, peaks)).tolist()
    left, right = _bases(tops, lows[:-1]), _bases(tops[::-1], lows[:0:-1])[::-1]
    return sum(top - max(bases) >= prominence for top, *bases in zip(tops, left, right, strict=True))


def _bases(tops: list[float], lows: list[float]) -> list[float]:
    """The lowest value before each maximum, back to one that is higher; lows[i] is that just before tops[i]."""
    bases, higher = [], list[tuple[float, float]]()
    for top, low in zip(tops, lows, strict=True):
        while higher and higher[-1][0] <= top:
            low = min(low, higher.pop()[1])
        higher.append((top, low))
        bases.append(low)
    return bases


def linear_relation(p: Problem) -> tuple[Array, float] | None:
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
    sigma = np.sqrt(np.mean(np.concatenate(p.relative_sigma) ** 2, axis=0)) * p.noise
    noise = float(np.linalg.norm(axes[-1] * np.maximum(sigma, 10.0 * p.floor)[moving]))
    if least > 1.2 * noise or next_to < 20.0 * noise:
        return None
    c = np.zeros(p.data.n_states)
    c[moving] = axes[-1] / p.scale.state[moving]
    d = float(axes[-1] @ center)
    largest = c[np.argmax(np.abs(c))]
    # Smaller weights are noise of the direction.
    c = np.where(np.abs(c / largest) > 1e-3, c / largest, 0.0)
    return c, d / float(largest)


def redundant_states(p: Problem) -> Mask:
    """The state that equations in noise do without, if there is one, bool [states].

    It hardly changes, x = m (1 + d), so that every power of it is a straight line,
    x^w = m^w (1 + w d + O(d^2)), and by the linear relation of all samples a combination of the
    others. With it every law could be written in many ways, as differences of large terms.
    """
    found: Mask = np.zeros(p.data.n_states, dtype=bool)
    relation = None if p.clean else linear_relation(p)
    if relation is not None:
        values = pooled(p.data)
        share = np.nanstd(values, axis=0) / np.maximum(np.abs(np.nanmean(values, axis=0)), ABOVE_ZERO)
        share[relation[0] == 0.0] = np.inf
        # The curvature of its powers, w^2 / 2 of 1e-4, is below the noise.
        found[np.argmin(share)] = share.min() < 0.01
    return found


def apply_knowledge(p: Problem, law: PowerSum) -> PowerSum:
    """The dimensionless law nearest to a given one that agrees with what is known."""
    return law if p.knowledge is None else p.knowledge.impose(law)


def in_user_units(p: Problem, law: PowerSum) -> PowerSum:
    """The dimensionless law in the user's units, known constants exactly as given."""
    user = law.unscaled(p.scale.state, p.scale.time)
    if p.given is None:
        return user
    exact = p.given.impose(user)
    # Rounding may bring two monomials so near that they merge: errors would then have no place.
    return exact if exact.coefficients.shape == user.coefficients.shape else user


def fixed_mask(p: Problem, law: PowerSum) -> tuple[Mask, Mask] | None:
    """Known coefficients [states, monomials] and exponents [monomials, features], or None."""
    return None if p.knowledge is None else p.knowledge.fixed_mask(law)


def apply_knowledge_to_fit(p: Problem, law: PowerSum, free: Free) -> tuple[PowerSum, Free]:
    """`apply_knowledge`, and the constants that are free in the new law: no others than in the old one."""
    known = p.knowledge
    if known is None:
        return law, free
    new = known.impose(law)
    coefficients, exponents = known.fixed_mask(new)
    fitted = np.zeros(new.exponents.shape, dtype=bool)
    low, high = known.bounds
    for j, w in enumerate(new.exponents):
        same = np.flatnonzero((law.exponents == w).all(axis=1))
        # An exponent that was moved to a bound stays there.
        fitted[j] = free[1][same[0]] if len(same) else (w != 0) & (w > low) & (w < high)
    return new, ((new.coefficients != 0) & ~coefficients, fitted & ~exponents, *free[2:])
