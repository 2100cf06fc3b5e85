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
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from odediscovery.data.series import TimeSeries, Trajectory
from odediscovery.fitting.levenberg_marquardt import SMALLEST, compact
from odediscovery.networks.vector_field import VectorField
from odediscovery.problem.problem import Problem
from odediscovery.runtime.arrays import Array
from odediscovery.runtime.thresholds import Thresholds, threshold
from odediscovery.solve.adjoint import interval_ends
from odediscovery.solve.fixed_step import DEFAULT_GRID, GRIDS, LinearControls, choose_grids, rk4_nodes, sensitivities
from odediscovery.solve.shapes import Ends, Jacobian, Residual, States, Theta, Unknowns


@dataclass(frozen=True)
class WindowThresholds(Thresholds):
    """Where fitted starts begin."""

    waking_start: float = threshold(
        0.1,
        "least start that a fit of a nonnegative state begins from",
        unit="standard deviations of the noise",
        origin="the root of exactly 0 has no gradient: any small value will do",
    )
    least_spread: float = threshold(
        1e-12,
        "least increment that residuals are measured in",
        unit="rms of the state",
        origin="float64: keeps weights finite",
    )


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
        grid: index into `solve.GRIDS` for every interval, [B, L].
        first, first_weight: the measured states at the starts [B, n] and their weights, which
            count as residuals when starts are fitted.
        heads: index of each trajectory's first window, [trajectories].
        controls: in every interval [B, L, n], if there are any.
        gradients: how the loss is differentiated, see `solve.adjoint.interval_ends`.
    """

    start: Float[Tensor, "windows states"]
    duration: Float[Tensor, "windows intervals"]
    target: Float[Tensor, "windows intervals states"]
    weight: Float[Tensor, "windows intervals states"]
    grid: Int[Tensor, "windows intervals"]
    first: Float[Tensor, "windows states"]
    first_weight: Float[Tensor, "windows states"]
    heads: Int[Tensor, " trajectories"]
    controls: LinearControls | None = None
    gradients: str = "closed-form"

    @property
    def size(self) -> tuple[int, int, int]:
        """(windows, intervals, states)."""
        b, length, n = self.target.shape
        return b, length, n

    def predict(self, field: VectorField, theta: Theta) -> Ends:
        """States at the end of every interval, [members, B, L, n]."""
        x, found = self.start.expand(theta.shape[0], *self.start.shape), []
        for j in range(self.size[1]):
            own = self.controls and self.controls.at((slice(None), j))
            x = interval_ends(field, theta, x, self.duration[:, j], self.grid[:, j], own, self.gradients)
            found.append(x)
        return torch.stack(found, dim=2)

    def loss(self, field: VectorField, theta: Theta) -> Float[Tensor, " members"]:
        """Mean squared weighted residual of every member, [members]."""
        residual = (self.predict(field, theta) - self.target) * self.weight
        return residual.square().sum(dim=(1, 2, 3)) / (self.weight > 0).sum()

    def refined(self, field: VectorField, theta: Theta, accuracy: float) -> Windows:
        """The same windows with step grids fine enough for these members.

        Args:
            accuracy: allowed integration error of an interval in residual units, relative to
                the weight: 0.1 is a tenth of the standard deviation a residual is given.
        """
        b, length, n = self.size
        begin = torch.cat([self.start[:, None], self.target[:, :-1]], dim=1).reshape(b * length, n)
        usual = self.weight.reshape(-1, n)
        usual = usual.sum(dim=0) / (usual > 0).sum(dim=0).clamp_min(1)
        grid = choose_grids(
            field,
            theta,
            begin.expand(theta.shape[0], -1, -1),
            self.duration.reshape(-1),
            accuracy / usual.clamp_min(SMALLEST),
            self.controls and self.controls.flat(),
        )
        return dataclasses.replace(self, grid=grid.reshape(b, length))


@dataclass(frozen=True, eq=False)
class ShortResiduals:
    """Residuals of one-interval windows from given starts, and their Jacobian.

    The unknowns of a member are theta alone: `unknowns` is [members, P].
    """

    windows: Windows
    field: VectorField

    def solve(self, unknowns: Unknowns) -> Ends:
        """States at the ends of all intervals, [members, windows, intervals, states]."""
        with torch.no_grad():
            return self.windows.predict(self.field, unknowns)

    def residuals(self, unknowns: Unknowns, solved: Tensor | None = None) -> Residual:
        """Weighted residuals [members, R]."""
        ends = self.solve(unknowns) if solved is None else solved
        return ((ends - self.windows.target) * self.windows.weight).flatten(1)

    def linearised(
        self, unknowns: Unknowns, free: Bool[Tensor, "members unknowns"], solved: Tensor | None = None
    ) -> tuple[Residual, Jacobian]:
        """Residuals [members, R] and Jacobian [members, R, P], right in the free columns.

        The ends come with their sensitivities; what is `solved` already does not help.
        """
        w, n = self.windows, self.field.n_states
        start = w.start.expand(unknowns.shape[0], *w.start.shape)
        columns = compact(free)
        end, s = sensitivities(
            self.field, unknowns, start, w.duration[:, 0], w.grid[:, 0], columns, w.controls and w.controls.flat()
        )
        residual = (end - w.target[:, 0]) * w.weight[:, 0]
        jacobian = (s[..., n:] * w.weight[:, 0, :, None]).flatten(1, 2)
        return residual.flatten(1), spread(jacobian, columns, free.shape[1])


@dataclass(frozen=True, eq=False)
class LongResiduals:
    """Residuals of long windows whose start states are fitted too, and their Jacobian.

    The unknowns of a member are theta and, behind it, one number a window and state: the start
    itself, or its square root for nonnegative states (near zero the influence of a start under
    sqrt(I) is unbounded, that of its root is not). The Jacobian is parallel in time: after one
    sequential solve, the sensitivities of all intervals are one batch from the states found,
    and the chain rule multiplies them up.

        dx_{j+1} = Phi_j dx_j + Theta_j dtheta
    """

    windows: Windows
    field: VectorField
    nonnegative: Bool[Tensor, " states"]

    @property
    def n_starts(self) -> int:
        """How many unknowns stand behind theta."""
        b, _, n = self.windows.size
        return b * n

    def pack(self, theta: Theta) -> Unknowns:
        """Unknowns [members, P + starts] that begin at the windows' own starts."""
        s, noise = self.windows.start, 1.0 / self.windows.first_weight.amax(dim=0)
        # A root of exactly 0 has no gradient and would never leave.
        least = torch.where(noise.isfinite(), WINDOWS.waking_start * noise, 0.0)
        s = torch.where(self.nonnegative, s.clamp_min(0.0).maximum(least).sqrt(), s)
        return torch.cat([theta, s.reshape(1, -1).expand(theta.shape[0], -1)], dim=1)

    def starts(self, unknowns: Unknowns) -> States:
        """Start states [members, windows, states]."""
        b, _, n = self.windows.size
        q = unknowns[:, unknowns.shape[1] - b * n :].reshape(-1, b, n)
        return torch.where(self.nonnegative, q * q, q)

    def _residuals(self, start: Tensor, ends: Tensor) -> Tensor:
        w = self.windows
        first = (start - w.first) * w.first_weight
        return torch.cat([first.flatten(1), ((ends - w.target) * w.weight).flatten(1)], dim=1)

    def residuals(self, unknowns: Unknowns, solved: Tensor | None = None) -> Residual:
        """Weighted residuals [members, R], those of the starts first."""
        return self._residuals(self.starts(unknowns), self.solve(unknowns) if solved is None else solved)

    @cached_property
    def _steps(self) -> tuple[Tensor, Tensor, LinearControls | None]:
        """Lengths of all steps [windows, K], how many lead to the end of each interval [L], and
        their controls.

        An interval is stepped on the finest grid that any window chose for it.
        """
        w = self.windows
        grids = [GRIDS[g].diff().to(w.duration.device) for g in w.grid.amax(dim=0).tolist()]
        lengths = [w.duration[:, j, None] * grid for j, grid in enumerate(grids)]
        controls = None
        if w.controls is not None:
            parts = [w.controls.at((slice(None), j)).through(h) for j, h in enumerate(lengths)]
            controls = LinearControls(
                torch.cat([part.entry for part in parts], dim=1), torch.cat([part.slope for part in parts], dim=1)
            )
        last = torch.tensor([len(g) for g in grids]).cumsum(0).to(w.duration.device)
        return torch.cat(lengths, dim=1), last, controls

    def solve(self, unknowns: Unknowns) -> Ends:
        """States at the ends of all intervals, [members, windows, intervals, states]."""
        rhs = self.field.rhs(unknowns[:, : -self.n_starts])
        steps, last, controls = self._steps
        return rk4_nodes(rhs, self.starts(unknowns), steps, controls)[:, :, last]

    def linearised(
        self, unknowns: Unknowns, free: Bool[Tensor, "members unknowns"], solved: Tensor | None = None
    ) -> tuple[Residual, Jacobian]:
        """Residuals [members, R] and Jacobian [members, R, P + starts], right in free columns."""
        w, field = self.windows, self.field
        b, length, n = w.size
        theta, start = unknowns[:, : -self.n_starts], self.starts(unknowns)
        columns = compact(free[:, : -self.n_starts])
        members, p = columns.shape
        ends = self.solve(unknowns) if solved is None else solved
        begin = torch.cat([start[:, :, None], ends[:, :, :-1]], dim=2).reshape(members, -1, n)
        _, s = sensitivities(
            field, theta, begin, w.duration.reshape(-1), w.grid.reshape(-1), columns, w.controls and w.controls.flat()
        )
        s = s.reshape(members, b, length, n, n + p)
        # Columns of a window: parameters, then its own n start unknowns.
        q = unknowns[:, -self.n_starts :].reshape(members, b, n)
        d_start = torch.where(self.nonnegative, 2.0 * q, torch.ones_like(q))
        d = torch.cat([torch.zeros(members, b, n, p).to(s), torch.diag_embed(d_start)], dim=-1)
        blocks = [d]
        for j in range(length):
            d = s[:, :, j, :, :n] @ d
            d[..., :p] += s[:, :, j, :, n:]
            blocks.append(d)
        jac = torch.stack(blocks, dim=2)  # [members, b, 1 + length, n, p + n]
        weight = torch.cat([w.first_weight[:, None], w.weight], dim=1)
        jac = jac * weight[..., None]
        full = torch.zeros(members, b, length + 1, n, p + b * n).to(jac)
        full[..., :p] = jac[..., :p]
        for i in range(b):
            full[:, i, :, :, p + i * n : p + (i + 1) * n] = jac[:, i, :, :, p:]
        ordered = torch.cat([full[:, :, 0].flatten(1, 2), full[:, :, 1:].flatten(1, 3)], dim=1)
        of_theta = spread(ordered[..., :p], columns, theta.shape[1])
        return self._residuals(start, ends), torch.cat([of_theta, ordered[..., p:]], dim=2)


def spread(
    jacobian: Float[Tensor, "members residuals columns"], columns: Int[Tensor, "members columns"], count: int
) -> Float[Tensor, "members residuals parameters"]:
    """Columns [members, R, F] at their places among `count` parameters, 0 elsewhere."""
    full = jacobian.new_zeros(*jacobian.shape[:2], count)
    return full.scatter(2, columns[:, None].expand_as(jacobian), jacobian)


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
        for first in range(0, len(t.time) - 1, length):
            stop = min(first + length, len(t.time) - 1)
            short = length - (stop - first)
            end = t.values[first + 1 : stop + 1]
            target = np.pad(end, ((0, short), (0, 0)), constant_values=np.nan)
            duration = np.pad(np.diff(t.time[first : stop + 1]), (0, short))
            seen, here = np.isfinite(target), t.values[first]
            filled = np.pad(s.values[first + 1 : stop + 1], ((0, short), (0, 0)))
            noise = np.pad(of_noise[first + 1 : stop + 1], ((0, short), (0, 0)), constant_values=1)
            row = (
                s.values[first],
                duration,
                np.where(seen, target, filled),
                seen * weight / noise,
                np.nan_to_num(here),
                np.isfinite(here) * weight / of_noise[first],
                *_control_lines(t, slice(first, stop), short),
            )
            rows.append(row)
    columns = [torch.as_tensor(np.stack(column), dtype=torch.float64) for column in zip(*rows, strict=True)]
    start, lengths, targets, weights, measured, first_weight, *controls = columns
    return Windows(
        start,
        lengths,
        targets,
        weights,
        torch.full(lengths.shape, DEFAULT_GRID),
        measured,
        first_weight,
        torch.tensor(heads),
        LinearControls(*controls) if controls else None,
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


def short_windows(p: Problem) -> Windows:
    """One-interval windows from smoothed starts; residuals in units of each state's increments."""
    increments = np.concatenate([np.diff(t.values, axis=0) for t in p.smooth.trajectories])
    spread = np.sqrt(np.mean(increments**2, axis=0))
    weight = np.where(p.constant, 0.0, 1.0 / np.maximum(spread, WINDOWS.least_spread))
    return cut(p.data, p.smooth, weight, 1, relative_sigma=p.relative_sigma)
