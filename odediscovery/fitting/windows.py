"""The objective: measured series cut into windows, each an initial value problem.

A window is a run of consecutive sample intervals that starts at a (smoothed) measured state;
all windows of all trajectories are one batch. With one-interval windows the loss is cheap,
smooth and far from chaos; one window over the whole trajectory is the paper's loss and the
maximum likelihood; growing the length goes from one to the other. A window of several
intervals is integrated interval by interval, so that no Runge-Kutta stage reads the next
interval's duration, and missing values weigh nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from odediscovery.data.series import TimeSeries, Trajectory
from odediscovery.networks.chain import AnyChain, Rhs
from odediscovery.problem.problem import Problem
from odediscovery.runtime.arrays import ABOVE_ZERO, Array
from odediscovery.solve.array_shapes import Ends, Theta
from odediscovery.solve.grids import DEFAULT_GRID, LinearControls, advance_by_grid, choose_grids


@dataclass(frozen=True)
class WindowThresholds:
    """Where fitted starts begin."""

    # Least start that a fit of a nonnegative state begins from [standard deviations of the noise]
    waking_start: float = 0.1
    least_spread: float = 1e-12  # least increment that residuals are measured in [rms of the state]


WINDOWS = WindowThresholds()


@dataclass(frozen=True, eq=False)
class Windows:
    """B windows of L intervals of n states.

    Args:
        start: state at the beginning of every window, [B, n].
        duration: length of every interval, [B, L]; 0 beyond the end of a trajectory.
        target: measured state at the end of every interval, [B, L, n]; the smoothed one where
            it is missing (it weighs nothing), 0 beyond the end of a trajectory.
        weight: 1 / standard deviation of the residual, [B, L, n]; 0 where missing.
        grid: index into `grids.GRIDS` for every interval, [B, L].
        first, first_weight: the measured states at the starts [B, n] and their weights, which
            count as residuals when starts are fitted.
        heads: index of each trajectory's first window, [trajectories].
        controls: in every interval [B, L, n], if there are any.
    """

    start: Float[np.ndarray, "windows states"]
    duration: Float[np.ndarray, "windows intervals"]
    target: Float[np.ndarray, "windows intervals states"]
    weight: Float[np.ndarray, "windows intervals states"]
    grid: Int[np.ndarray, "windows intervals"]
    first: Float[np.ndarray, "windows states"]
    first_weight: Float[np.ndarray, "windows states"]
    heads: Int[np.ndarray, " trajectories"]
    controls: LinearControls | None = None

    @property
    def size(self) -> tuple[int, int, int]:
        """(windows, intervals, states)."""
        b, length, n = self.target.shape
        return b, length, n

    def predict(self, chain: AnyChain, theta: Theta) -> Ends:
        """States at the end of every interval, [members, B, L, n]."""
        rhs, found = chain.rhs(theta), []
        x = np.broadcast_to(self.start, (len(theta), *self.start.shape))
        with np.errstate(all="ignore"):
            for j in range(self.size[1]):
                own = self.controls and self.controls.at((slice(None), j))
                x = advance_by_grid(rhs, x, self.duration[:, j], self.grid[:, j], own)
                found.append(x)
        return np.stack(found, axis=2)

    def refined(self, chain: AnyChain, theta: Theta, accuracy: float) -> Windows:
        """The same windows with step grids fine enough for these members.

        Args:
            accuracy: allowed integration error of an interval in residual units, relative to
                the weight: 0.1 is a tenth of the standard deviation a residual is given.
        """
        return self.refined_for(chain.rhs(theta), len(theta), accuracy)

    def refined_for(self, rhs: Rhs, members: int, accuracy: float) -> Windows:
        """The same for so many members whose dx/dt is any function."""
        b, length, n = self.size
        begin = np.concatenate([self.start[:, None], self.target[:, :-1]], axis=1).reshape(b * length, n)
        usual = self.weight.reshape(-1, n)
        usual = usual.sum(axis=0) / (usual > 0).sum(axis=0).clip(1)
        grid = choose_grids(
            rhs,
            np.repeat(begin[None], members, axis=0),
            self.duration.reshape(-1),
            accuracy / np.maximum(usual, ABOVE_ZERO),
            self.controls and self.controls.flat(),
        )
        return dataclasses.replace(self, grid=grid.reshape(b, length))


def cut(
    series: TimeSeries,
    starts: TimeSeries,
    weight: Array,
    length: int | None,
    relative_sigma: Sequence[Array] | None = None,
) -> Windows:
    """Windows of `length` intervals, one behind the other; None for whole trajectories.

    Args:
        series: measured, dimensionless; nan where missing.
        starts: the same times without gaps and noise, from `smoothing.smooth`.
        weight: 1 / standard deviation a residual of each state is given, [states].
        relative_sigma: noise of each sample relative to that, [samples, states] a trajectory.
    """
    relative_sigma = relative_sigma or [np.ones_like(t.values) for t in series.trajectories]
    longest = max(len(t.time) for t in series.trajectories) - 1
    length = longest if length is None else min(length, longest)
    rows: list[tuple[Array, ...]] = []
    heads = []
    for t, s, of_noise in zip(series.trajectories, starts.trajectories, relative_sigma, strict=True):
        heads.append(len(rows))
        rows += [_window(t, s, of_noise, weight, range(k, k + length)) for k in range(0, len(t.time) - 1, length)]
    columns = [np.stack(column).astype(float) for column in zip(*rows, strict=True)]
    start, lengths, targets, weights, measured, first_weight, *controls = columns
    return Windows(
        start,
        lengths,
        targets,
        weights,
        np.full(lengths.shape, DEFAULT_GRID),
        measured,
        first_weight,
        np.array(heads),
        LinearControls(*controls) if controls else None,
    )


def _window(t: Trajectory, s: Trajectory, of_noise: Array, weight: Array, intervals: range) -> tuple[Array, ...]:
    """One window of trajectory t, with smooth values s, as a row of each array of `Windows`, controls behind.

    Intervals beyond the end of the trajectory have no duration and no weight.
    """
    first, stop = intervals.start, min(intervals.stop, len(t.time) - 1)
    short = intervals.stop - stop
    below = ((0, short), (0, 0))
    target = np.pad(t.values[first + 1 : stop + 1], below, constant_values=np.nan)
    duration = np.pad(np.diff(t.time[first : stop + 1]), (0, short))
    seen, here = np.isfinite(target), t.values[first]
    filled = np.pad(s.values[first + 1 : stop + 1], below)
    noise = np.pad(of_noise[first + 1 : stop + 1], below, constant_values=1)
    return (
        s.values[first],
        duration,
        np.where(seen, target, filled),
        seen * weight / noise,
        np.nan_to_num(here),
        np.isfinite(here) * weight / of_noise[first],
        *_control_lines(t, slice(first, stop), short),
    )


def _control_lines(t: Trajectory, intervals: slice, short: int) -> tuple[Array, ...]:
    """Entry values and slopes of all states in some intervals; nothing where there are no controls."""
    if t.controls is None:
        return ()
    entry, slope = t.controls.values[intervals], t.controls.slopes[intervals]
    width = ((0, short), (t.values.shape[1] - entry.shape[1], 0))
    of_states = np.pad(entry, width, constant_values=np.nan)
    # Beyond the end of a trajectory controls stay: nothing is known of them, and nothing asked.
    of_states[len(entry) :, width[1][0] :] = entry[-1]
    return of_states, np.pad(slope, width)


def short_windows(p: Problem, length: int | None = 1) -> Windows:
    """Windows from smoothed starts, of one interval each, or of `length` or all (None); residuals in units of each
    state's increments."""
    increments = np.concatenate([np.diff(t.values, axis=0) for t in p.smooth.trajectories])
    spread = np.sqrt(np.mean(increments**2, axis=0))
    weight = np.where(p.constant, 0.0, 1.0 / np.maximum(spread, WINDOWS.least_spread))
    return cut(p.data, p.smooth, weight, length, relative_sigma=p.relative_sigma)
