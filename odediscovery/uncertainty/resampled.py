"""Data sets drawn from the residuals of a law, and the residuals of members fitted to one each.

Data enter residuals by a shift alone, (x - data*) w = (x - data) w - (data* - data) w, so that
members with resampled data share windows, step grids and Jacobians with all others.
"""

from __future__ import annotations

import dataclasses
import itertools
from dataclasses import dataclass

import numpy as np

from odediscovery.data.series import TimeSeries, Trajectory
from odediscovery.fitting.levenberg_marquardt import levenberg_marquardt
from odediscovery.fitting.windows import LongResiduals, Windows, cut
from odediscovery.laws.power_sum import PowerSum
from odediscovery.networks.translate import chain_of
from odediscovery.problem.problem import Problem
from odediscovery.runtime.arrays import Array, Mask
from odediscovery.runtime.monitor import Monitor
from odediscovery.stages.prune.paths import PRUNING_WINDOWS, window_length


@dataclass(frozen=True, eq=False)
class ResampledResiduals:
    """Residuals of members that have each a data set of its own.

    The last unknown of a member is the number of its data set.

    Args:
        problem: the residuals of the data as they are.
        shift: (data* - data) w of every data set, [draws, R].
        factor: root of how often each residual was drawn, [draws, R].
    """

    problem: LongResiduals
    shift: Array
    factor: Array

    def solve(self, unknowns: Array) -> Array:
        """States at the ends of all intervals, [members, windows, intervals, states]."""
        return self.problem.solve(unknowns[:, :-1])

    def residuals(self, unknowns: Array, solved: Array | None = None) -> Array:
        """Weighted residuals [members, R]."""
        own = unknowns[:, -1].astype(int)
        found = self.problem.residuals(unknowns[:, :-1], solved)
        left: Array = (found - self.shift[own]) * self.factor[own]
        return left

    def linearised(self, unknowns: Array, free: Mask, solved: Array | None = None) -> tuple[Array, Array]:
        """Residuals [members, R] and Jacobian [members, R, unknowns]."""
        own = unknowns[:, -1].astype(int)
        found, jacobian = self.problem.linearised(unknowns[:, :-1], free[:, :-1], solved)
        jacobian = np.pad(jacobian, ((0, 0), (0, 0), (0, 1))) * self.factor[own][..., None]
        return (found - self.shift[own]) * self.factor[own], jacobian


def fit_starts(p: Problem, law: PowerSum, steps: int, monitor: Monitor) -> tuple[Windows, list[Array]]:
    """Windows with starts fitted to a law, and its states at all samples of each trajectory [samples, states].

    Args:
        p: the data, dimensionless, with the noise that the law leaves.
        law: dimensionless.
        steps: at most, of the fit.
        monitor: can stop it.
    """
    chain = chain_of([law], p.nonnegative)
    weight = np.where(p.constant, 0.0, 1.0 / p.noise)
    windows = cut(p.data, p.smooth, weight, window_length(p), relative_sigma=p.relative_sigma)
    windows = windows.refined(chain, chain.theta, PRUNING_WINDOWS.accuracy)
    problem = LongResiduals(windows, chain, p.nonnegative)
    unknowns = problem.pack(chain.theta)
    starts = np.zeros(unknowns.shape, dtype=bool)
    starts[:, chain.theta.shape[1] :] = True
    fit = levenberg_marquardt(problem, unknowns, starts, steps, monitor=monitor)
    windows = dataclasses.replace(windows, start=problem.starts(fit.unknowns)[0])
    ends = windows.predict(chain, chain.theta)[0]
    paths, heads = [], [*windows.heads.tolist(), len(ends)]
    for first, stop in itertools.pairwise(heads):
        inside = windows.duration[first:stop] > 0
        paths.append(np.concatenate([windows.start[first, None], ends[first:stop][inside]]))
    return windows, paths


def resample_residuals(
    p: Problem, windows: Windows, paths: list[Array], freedom: int, draws: int, generator: np.random.Generator
) -> Array:
    """Data sets made of a solution and of its residuals, drawn anew in blocks of neighbours.

        data* = solution + residual*

    Args:
        p: the data, dimensionless, with the noise that the law leaves.
        windows: of the data, with starts that are fitted to the law.
        paths: the law's states at all samples, [samples, states] a trajectory.
        freedom: residual degrees of freedom.
        draws: number of data sets.
        generator: of the draws.

    Returns:
        (data* - data) w of every data set, [draws, R].
    """
    scaled = [(t.values - x) / s for t, x, s in zip(p.data.trajectories, paths, p.relative_sigma, strict=True)]
    together = np.concatenate(scaled)
    # Residuals are smaller than the noise, for the constants were fitted to them.
    larger = np.sqrt(p.samples / max(freedom, 1))
    left = [larger * (_without_gaps(e, together, generator) - np.nanmean(together, axis=0)) for e in scaled]
    length = windows.size[1]
    weight = np.where(p.constant, 0.0, 1.0 / p.noise)
    shifts = []
    for _ in range(draws):
        runs = tuple(
            Trajectory(t.time, np.where(np.isfinite(t.values), x + s * e, np.nan))
            for t, x, s, e in zip(p.data.trajectories, paths, p.relative_sigma, _blocks(left, generator), strict=True)
        )
        drawn = cut(TimeSeries(p.data.states, runs), p.smooth, weight, length, relative_sigma=p.relative_sigma)
        first = (drawn.first - windows.first) * windows.first_weight
        ends = (drawn.target - windows.target) * windows.weight
        shifts.append(np.concatenate([first.ravel(), ends.ravel()]))
    return np.stack(shifts)


def _without_gaps(left: Array, together: Array, generator: np.random.Generator) -> Array:
    """Residuals with others of the same state where a value was not measured."""
    filled = left.copy()
    for i, column in enumerate(filled.T):
        gaps = ~np.isfinite(column)
        seen = together[np.isfinite(together[:, i]), i]
        column[gaps] = generator.choice(seen, gaps.sum()) if len(seen) else 0.0
    return filled


def _blocks(left: list[Array], generator: np.random.Generator) -> list[Array]:
    """Residuals of each trajectory drawn anew, blocks of neighbours from any trajectory."""
    sizes = np.array([len(e) for e in left])
    drawn = []
    for samples in sizes:
        length = int(np.ceil(samples ** (1.0 / 3.0)))
        blocks, have = [], 0
        while have < samples:
            source = left[generator.choice(len(left), p=sizes / sizes.sum())]
            first = int(generator.integers(max(len(source) - length, 0) + 1))
            blocks.append(source[first : first + length])
            have += len(blocks[-1])
        drawn.append(np.concatenate(blocks)[:samples])
    return drawn


def resample_trajectories(windows: Windows, draws: int, generator: np.random.Generator) -> Array:
    """Data sets of trajectories drawn with replacement.

    Args:
        windows: of the data.
        draws: number of data sets.
        generator: of the draws.

    Returns:
        Root of how often the trajectory of each residual was drawn, [draws, R].
    """
    b, length, n = windows.size
    runs = len(windows.heads)
    counts = generator.multinomial(runs, np.full(runs, 1.0 / runs), size=draws)
    owner = np.searchsorted(windows.heads, np.arange(b), side="right") - 1
    root = np.sqrt(counts[:, owner].astype(np.float64))
    return np.hstack([root.repeat(n, axis=1), root.repeat(length * n, axis=1)])
