"""The value that every stage takes: a dimensionless series and what is known of it."""

from __future__ import annotations

import dataclasses
import itertools
from dataclasses import dataclass

import numpy as np

from odediscovery.data.samples import measured, pooled
from odediscovery.data.scale import Scale
from odediscovery.data.series import TimeSeries
from odediscovery.knowledge.constraints import Knowledge
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.peaks import count_peaks
from odediscovery.runtime.arrays import Array, Mask


@dataclass(frozen=True)
class ProblemThresholds:
    """What counts as clean, and as an extremum."""

    clean: float = 1e-7  # noise below this cannot be told from the error of a solver [standard deviation of the state]
    # up to it long laws and richer families are told from others [standard deviation of a state]
    little_noise: float = 0.003
    prominence: float = 0.2  # least prominence of an extremum that counts [standard deviation of the state]


PROBLEMS = ProblemThresholds()


@dataclass(frozen=True, eq=False)
class Problem:
    """A dimensionless series and what is known of it.

    Args:
        data: states divided by their rms (those that are negative throughout by -rms), time by
            the median sample interval.
        smooth: the same series without noise and gaps.
        scale: what undoes the division.
        noise: standard deviation of the noise [states], estimated or as given, dimensionless.
        floor: residuals below this are rounding or integration error [states].
        nonnegative: bool [states].
        constant: bool [states], states without an equation: controls, and those that never change.
        relative_sigma: standard deviation of the noise of every sample over `noise`,
            [samples, states] a trajectory.
        exact: a law without residuals, if one proved that there is no noise.
        heads: index of the first piece of each trajectory, if they were cut.
        knowledge: what the user knows of the law, dimensionless, if anything.
        given: the same knowledge in the user's units.
        samples_a_step: samples a step of the solver that interpolated them, 0 where none did.
        messages: notes on the noise for the reader of a result.
        independent: share of the samples of every state that count as independent [states], where a law told
            that what is left is no noise; None: all of them.
        longest_window: most intervals of a window whose start is fitted, where errors of starts grow fast; None:
            as many as anywhere.
    """

    data: TimeSeries
    smooth: TimeSeries
    scale: Scale
    noise: Array
    floor: Array
    nonnegative: Mask
    constant: Mask
    relative_sigma: tuple[Array, ...]
    exact: PowerSum | None = None
    heads: tuple[int, ...] | None = None
    knowledge: Knowledge | None = None
    given: Knowledge | None = None
    samples_a_step: float = 0.0
    messages: tuple[str, ...] = ()
    independent: Array | None = None
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
        clear = PROBLEMS.prominence * np.std(pooled(self.smooth), axis=0)
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
        return self.complete and self.noisiness <= PROBLEMS.clean


def _runs(samples: int, length: int) -> list[slice]:
    """Slices of about `length` samples, one after the other."""
    count = max(samples // length, 1)
    edges = np.linspace(0, samples, count + 1).astype(int)
    return [slice(int(a), int(b)) for a, b in itertools.pairwise(edges)]


def has_little_noise(p: Problem) -> bool:
    """Whether there is so little noise that it hides no term of a series."""
    return bool(p.noisiness <= PROBLEMS.little_noise)


def rounding_share(p: Problem) -> float:
    """Mean square that rounding and integration leave of any law, over changing states, in units of the noise."""
    share = p.floor / np.maximum(p.noise, p.floor)
    return 1.0 if p.constant.all() else float(np.mean(share[~p.constant] ** 2))


def increment_squares(p: Problem) -> Array:
    """Mean squared increment of every state between samples, 1 where it has no equation [states]."""
    increments = np.concatenate([np.diff(t.values, axis=0) for t in p.smooth.trajectories])
    squares: Array = np.where(p.constant, 1.0, np.mean(increments**2, axis=0))
    return squares
