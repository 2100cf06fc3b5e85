"""Batched least squares of many networks on windows of the data: residuals and Levenberg-Marquardt.

A window is a run of consecutive sample intervals that starts at a (smoothed) measured state; all windows of all
trajectories are one batch. On one-interval windows with given starts, the loss is cheap, smooth and unaffected by
chaos; one window over the whole trajectory, with a fitted start, gives the maximum likelihood. A window of several
intervals is integrated interval by interval, so that no Runge-Kutta stage reads the next interval's duration.

The optimisers do not depend on the equations. `levenberg_marquardt` can evaluate any subset of its members; `descend`
evaluates all together, where members have their own data: groups, and flows by the ten thousand.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Int

from odediscovery.data.series import TimeSeries, Trajectory
from odediscovery.networks.chain import Chain, Rhs
from odediscovery.problem.problem import Problem, increment_squares
from odediscovery.runtime.arrays import ABOVE_ZERO, Array, Indices, Mask
from odediscovery.runtime.monitor import Monitor, fitting_at_once
from odediscovery.solve.grids import (
    DEFAULT_GRID,
    GRIDS,
    Ends,
    Jacobian,
    LinearControls,
    Residual,
    States,
    Theta,
    Unknowns,
    advance_by_grid,
    choose_grids,
    plain_nodes,
    rk4_nodes,
    sensitivities,
)

GROWTH = 2.0  # factor on the damping after a failed step, doubled at each further failure
# A square root of exactly 0 has no gradient and would stay 0, so starts are fitted from at least this
# [standard deviations of the noise].
AWAKE = 0.1


@runtime_checkable
class Residuals(Protocol):
    """Residuals of independent members, whose sums of squares Levenberg-Marquardt minimises.

    Any subset of the members may be evaluated.
    """

    def solve(self, unknowns: Array) -> Array:
        """Compute predictions of the model [members, ...] at unknowns [members, unknowns]."""

    def residuals(self, unknowns: Array, solved: Array | None = None) -> Array:
        """Weighted residuals [members, R]."""

    def linearised(self, unknowns: Array, free: Mask, solved: Array | None = None) -> tuple[Array, Array]:
        """Residuals [members, R] and their Jacobian [members, R, unknowns].

        Columns of unknowns that are not `free` [members, unknowns] may hold any number.
        """


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """The result of Levenberg-Marquardt: unknowns, sums of squares and J^T J."""

    unknowns: Float[np.ndarray, "members unknowns"]
    sum_of_squares: Float[np.ndarray, " members"]
    normal: Float[np.ndarray, "members unknowns unknowns"]


@np.errstate(all="ignore")  # a law that diverges is only a bad fit, not worth a warning
def levenberg_marquardt(
    problem: Residuals,
    unknowns: Float[np.ndarray, "members unknowns"],
    free: Bool[np.ndarray, "members unknowns"],
    steps: int,
    *,
    tolerance: float = 1e-5,
    monitor: Monitor | None = None,
    solved: Array | None = None,
) -> LeastSquares:
    """Minimise every member's sum of squares, each with its own damping:

        (J^T J + damping diag(J^T J)) step = -J^T r

    Members that have converged or are stuck leave the batch, so late iterations evaluate only the
    others. A member has converged when the relative gain of a step is below `tolerance`; `solved` is the output of the
    problem's `solve` at the first unknowns, if already known.

    Source: Marquardt (1963), damping scaled by the diagonal of J^T J; Nielsen, Damping parameter in
    Marquardt's method (1999), update of the damping by the gain.
    """
    unknowns = unknowns.copy()
    total, normal, gradient = _normal_equations(problem, unknowns, free, solved)
    damping = np.full_like(total, 1e-3)
    growth = np.full_like(total, GROWTH)
    active = np.flatnonzero(np.isfinite(total))
    for _ in range(steps):
        if not len(active) or (monitor is not None and monitor.stopping() is not None):
            break
        h, g, lam = normal[active], gradient[active], damping[active]
        step = _damped_step(h, g, lam, free[active])
        trial = unknowns[active] + step
        ends = problem.solve(trial)
        value = finite_squares(problem.residuals(trial, ends))
        model_gain = -(step * (2 * g + (h @ step[..., None])[..., 0])).sum(axis=1)
        gain = total[active] - value
        better = gain > 0
        if better.any():
            there = _normal_equations(problem, trial[better], free[active[better]], ends[better])
            # Without a finite Jacobian there, the step is rejected.
            finite = np.isfinite(there[0])
            better[better.copy()] = finite
            moved = active[better]
            unknowns[moved] = trial[better]
            total[moved], normal[moved], gradient[moved] = (part[finite] for part in there)
        damping[active], growth[active] = _damped_anew(lam, growth[active], better, gain, model_gain)
        small = better & (gain <= tolerance * (total[active] + gain))
        stuck = ~better & ((lam > 1e8) | (model_gain <= tolerance * total[active]))
        active = active[~(small | stuck)]
    return LeastSquares(unknowns, total, normal)


def _damped_anew(damping: Array, growth: Array, better: Mask, gain: Array, model_gain: Array) -> tuple[Array, Array]:
    """Update the damping and its next growth by Nielsen's rule, after a good and after a failed step:

    damping * max(1/3, 1 - (2 gain / predicted gain - 1)^3),    damping * growth,  growth * 2
    """
    ratio = np.clip(gain / np.maximum(model_gain, ABOVE_ZERO), -1e3, 1e3)
    less = damping * np.clip(1 - (2 * ratio - 1) ** 3, 1 / 3, GROWTH)
    anew = np.maximum(np.where(better, less, damping * growth), 1e-12)
    return anew, np.where(better, GROWTH, 2 * growth)


def finite_squares(residuals: Array) -> Array:
    """Sum the squares of residuals [members, R]; inf where they are nan."""
    squares: Array = np.nan_to_num(np.square(residuals).sum(axis=1), nan=np.inf)
    return squares


def _normal_equations(
    problem: Residuals, unknowns: Array, free: Mask, solved: Array | None
) -> tuple[Array, Array, Array]:
    """Compute sum of squares, J^T J and J^T r over free unknowns (unit rows for others), in batches if needed."""
    members, size = unknowns.shape
    if members > 1 and size > 300:  # all members together may not fit in memory
        # Sensitivities and their stages: about eight arrays of the size of the Jacobian.
        first = problem.residuals(unknowns[:1], None if solved is None else solved[:1])
        most = fitting_at_once(members, 64.0 * first.shape[1] * size)
        if most < members:
            parts = [slice(k, k + most) for k in range(0, members, most)]
            found = [
                _normal_equations(problem, unknowns[k], free[k], None if solved is None else solved[k]) for k in parts
            ]
            totals, normals, gradients = zip(*found, strict=True)
            return np.concatenate(totals), np.concatenate(normals), np.concatenate(gradients)
    r, jac, columns = _in_blocks(problem, unknowns, free, solved)
    member = np.arange(members)[:, None, None]
    jac = np.where(free[member, columns][:, :, None], jac, 0.0)
    bad: Mask = np.asarray(~(np.isfinite(r).all(axis=(1, 2)) & np.isfinite(jac).all(axis=(1, 2, 3))))
    if bad.any():
        r, jac = np.where(bad[:, None, None], 0.0, r), np.where(bad[:, None, None, None], 0.0, jac)
    total = np.where(bad, np.inf, np.square(r).sum(axis=(1, 2)))
    small = jac.swapaxes(2, 3) @ np.concatenate([jac, r[..., None]], axis=3)
    place = size * member + columns
    gradient = _added_at(place, small[..., -1], members * size).reshape(members, size)
    across = size * place[..., None] + columns[:, :, None, :]
    normal = _added_at(across, small[..., :-1], members * size**2).reshape(members, size, size)
    return total, normal + (~free).astype(float)[:, :, None] * np.eye(size), gradient


def _added_at(places: Indices, parts: Array, count: int) -> Array:
    """Sum the parts that share a place, [count]."""
    found: Array = np.bincount(places.ravel(), weights=parts.ravel(), minlength=count).astype(float, copy=False)
    return found


def _in_blocks(problem: Residuals, unknowns: Array, free: Mask, solved: Array | None) -> tuple[Array, Array, Indices]:
    """Compute residuals and Jacobian by `LongResiduals.blocks`, or else as one block of the free columns.

    Where most unknowns are fixed, products of their columns would dominate the cost.
    """
    if isinstance(problem, LongResiduals):
        return problem.blocks(unknowns, free, solved)
    r, jac = problem.linearised(unknowns, free, solved)
    columns = compact(free)
    return r[:, None], np.take_along_axis(jac, columns[:, None], axis=2)[:, None], columns[:, None]


def compact(free: Bool[np.ndarray, "members unknowns"]) -> Int[np.ndarray, "members free"]:
    """Return the places of each member's free parameters, [members, F], F the largest number in any member."""
    most = max(int(free.sum(axis=1).max(initial=0)), 1)
    places: Indices = np.argsort(~free, axis=1, kind="stable")[:, :most]
    return places


def within(
    matrix: Float[np.ndarray, "members unknowns unknowns"], columns: Int[np.ndarray, "members free"]
) -> Float[np.ndarray, "members free free"]:
    """Select submatrices [members, F, F] of [members, U, U], with rows and columns at places [members, F]."""
    member = np.arange(len(columns))[:, None, None]
    block: Array = matrix[member, columns[:, :, None], columns[:, None, :]]
    return block


@np.errstate(all="ignore")  # a member that diverges is only a bad fit, not worth a warning
def descend(
    equations: Callable[[Array], tuple[Array, Array, Array]],
    unknowns: Float[np.ndarray, "members unknowns"],
    steps: int,
    longest: float | Float[np.ndarray, " unknowns"],
    damping: Float[np.ndarray, " members"],
    ridge: float = 0.0,
    monitor: Monitor | None = None,
) -> tuple[Float[np.ndarray, "members unknowns"], Float[np.ndarray, " members"], Float[np.ndarray, " members"]]:
    """Minimise sums of squares of all members together, all unknowns free; return unknowns, sums and damping.

        (J^T J + damping diag(J^T J) + ridge max diag(J^T J) I) step = -J^T r

    Each unknown moves by at most `longest`, with damping / 4 after a good step and damping * 4 after a failed one; each
    costs one evaluation of all members by `equations`: unknowns [members, unknowns] -> sum of squares [members],
    J^T r [members, unknowns] and J^T J.
    """
    here: Sequence[Array] = equations(unknowns)
    for done in range(steps):
        if monitor is not None and monitor.stopping():
            break
        value, gradient, normal = here
        diagonal = np.diagonal(normal, axis1=1, axis2=2)
        # Finite even for a matrix of zeros.
        added = damping[:, None] * diagonal + ridge * diagonal.max(axis=1, keepdims=True) + ABOVE_ZERO
        step = -np.linalg.solve(normal + added[:, :, None] * np.eye(normal.shape[1]), gradient[:, :, None])[:, :, 0]
        tried = unknowns + np.nan_to_num(step.clip(-longest, longest))
        there = equations(tried)
        better = there[0] < value
        unknowns = np.where(better[:, None], tried, unknowns)
        pairs = zip(there, here, strict=True)
        here = [np.where(better.reshape(-1, *[1] * (old.ndim - 1)), new, old) for new, old in pairs]
        damping = np.clip(np.where(better, damping / 4.0, damping * 4.0), 1e-9, 1e9)
        if monitor is not None:
            monitor.step(done + 1)
        # All have converged, or no small step improves them.
        if np.all(np.where(better, value - there[0] < 1e-4 * value, damping > 1e2)):
            break
    return unknowns, here[0], damping


def _damped_step(normal: Array, gradient: Array, damping: Array, free: Mask) -> Array:
    columns = compact(free)
    h, g = within(normal, columns), np.take_along_axis(gradient, columns, axis=1)
    diagonal = h.diagonal(axis1=1, axis2=2)
    # A column that is (nearly) zero must not turn a tiny gradient into a huge step.
    least = 1e-12 * diagonal.max(axis=1, keepdims=True)
    scale = 1.0 / np.sqrt(np.maximum(diagonal, least))
    h = h * scale[:, :, None] * scale[:, None, :]
    h = h + (damping + 1e-14)[:, None, None] * np.eye(h.shape[-1])
    definite = is_definite(h)
    # Where the matrix is not positive definite, step down the gradient.
    h[~definite] = np.eye(h.shape[-1])
    step = np.zeros_like(gradient)
    np.put_along_axis(step, columns, -np.linalg.solve(h, (g * scale)[..., None])[..., 0] * scale, axis=1)
    return np.where(free, step, 0.0)


def is_definite(matrices: Float[np.ndarray, "members free free"]) -> Bool[np.ndarray, " members"]:
    """Mask the symmetric matrices that are finite and positive definite."""
    # LAPACK accepts nan, which products of huge slopes cause.
    finite: Mask = np.asarray(np.isfinite(matrices).all(axis=(1, 2)))
    if not finite.all():
        found: Mask = finite & is_definite(np.where(finite[:, None, None], matrices, np.eye(matrices.shape[-1])))
        return found
    try:
        np.linalg.cholesky(matrices)
    except np.linalg.LinAlgError:
        if len(matrices) == 1:
            return np.zeros(1, dtype=bool)
        return np.concatenate([is_definite(one[None]) for one in matrices])
    return np.ones(len(matrices), dtype=bool)


@dataclass(frozen=True, eq=False)
class Windows:
    """B windows of L intervals of n states."""

    start: Float[np.ndarray, "windows states"]  # state at the beginning of every window, [B, n]
    # Length of every interval, [B, L]; 0 beyond the end of a trajectory.
    duration: Float[np.ndarray, "windows intervals"]
    # Measured state at the end of every interval, [B, L, n]; the smoothed one where it is missing (with weight 0), 0
    # beyond the end of a trajectory.
    target: Float[np.ndarray, "windows intervals states"]
    # 1 / standard deviation of the residual, [B, L, n]; 0 where missing.
    weight: Float[np.ndarray, "windows intervals states"]
    grid: Int[np.ndarray, "windows intervals"]  # index into `grids.GRIDS` for every interval, [B, L]
    # The measured states at the starts [B, n] and their weights, which count as residuals when starts are fitted.
    first: Float[np.ndarray, "windows states"]
    first_weight: Float[np.ndarray, "windows states"]
    heads: Int[np.ndarray, " trajectories"]  # index of each trajectory's first window, [trajectories]
    controls: LinearControls | None = None  # in every interval [B, L, n], if there are any

    @property
    def size(self) -> tuple[int, int, int]:
        """(windows, intervals, states)."""
        b, length, n = self.target.shape
        return b, length, n

    def predict(self, chain: Chain, theta: Theta) -> Ends:
        """Integrate to the end of every interval, [members, B, L, n]."""
        rhs, found = chain.rhs(theta), []
        x = np.broadcast_to(self.start, (len(theta), *self.start.shape))
        with np.errstate(all="ignore"):
            for j in range(self.size[1]):
                own = self.controls and self.controls.at((slice(None), j))
                x = advance_by_grid(rhs, x, self.duration[:, j], self.grid[:, j], own)
                found.append(x)
        return np.stack(found, axis=2)

    def refined(self, chain: Chain, theta: Theta, accuracy: float) -> Windows:
        """Refine the step grids until they are fine enough for these members.

        The error over an interval is at most `accuracy` times the standard deviation of its residual.
        """
        return self.refined_for(chain.rhs(theta), len(theta), accuracy)

    def refined_for(self, rhs: Rhs, members: int, accuracy: float) -> Windows:
        """Refine the step grids for `members` members with any function `rhs` as dx/dt."""
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
    """Cut a series into consecutive windows of `length` intervals; None for whole trajectories.

    They begin at `starts`, the same series without gaps and noise; `weight` is 1 / the standard deviation of the
    residuals of each state [states].
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
    """Cut one window of trajectory t, with smooth values s, as a row of each array of `Windows`, controls last.

    Intervals beyond the end of the trajectory have zero duration and weight.
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
    """Return initial values (nan for other states) and slopes of controls in some intervals; empty without controls."""
    if t.controls is None:
        return ()
    entry, slope = t.controls.values[intervals], t.controls.slopes[intervals]
    width = ((0, short), (t.values.shape[1] - entry.shape[1], 0))
    of_states = np.pad(entry, width, constant_values=np.nan)
    # Controls stay constant beyond the end of a trajectory, where residuals have no weight.
    of_states[len(entry) :, width[1][0] :] = entry[-1]
    return of_states, np.pad(slope, width)


def short_windows(p: Problem, length: int | None = 1) -> Windows:
    """Cut windows of `length` intervals (None: all) from smoothed starts, with residuals in units of increments."""
    weight = np.where(p.constant, 0.0, 1.0 / np.maximum(np.sqrt(increment_squares(p)), 1e-12))
    return cut(p.data, p.smooth, weight, length, relative_sigma=p.relative_sigma)


# A law that diverges is only a bad fit, not worth a warning.
_QUIET = np.errstate(all="ignore")


@dataclass(frozen=True, eq=False)
class ShortResiduals:
    """Residuals of one-interval windows from given starts, and their Jacobian.

    The unknowns of a member are theta alone: `unknowns` is [members, P].
    """

    windows: Windows
    chain: Chain

    @_QUIET
    def solve(self, unknowns: Unknowns) -> Ends:
        """States at the ends of all intervals, [members, windows, intervals, states]."""
        return self.windows.predict(self.chain, unknowns)

    @_QUIET
    def residuals(self, unknowns: Unknowns, solved: Array | None = None) -> Residual:
        """Weighted residuals [members, R]."""
        ends = self.solve(unknowns) if solved is None else solved
        left: Array = (ends - self.windows.target) * self.windows.weight
        return left.reshape(len(ends), -1)

    @_QUIET
    def linearised(
        self, unknowns: Unknowns, free: Bool[np.ndarray, "members unknowns"], solved: Array | None = None
    ) -> tuple[Residual, Jacobian]:
        """Residuals [members, R] and Jacobian [members, R, P], valid in the free columns.

        `solved` is not used: the ends are integrated again with their sensitivities.
        """
        w, n, members = self.windows, self.chain.n_states, len(unknowns)
        start = np.broadcast_to(w.start, (members, *w.start.shape))
        columns = compact(free)
        end, s = sensitivities(
            self.chain, unknowns, start, w.duration[:, 0], w.grid[:, 0], columns, w.controls and w.controls.flat()
        )
        residual = (end - w.target[:, 0]) * w.weight[:, 0]
        jacobian = (s[..., n:] * w.weight[:, 0, :, None]).reshape(members, residual[0].size, -1)
        full = np.zeros((*jacobian.shape[:2], free.shape[1]))
        np.put_along_axis(full, columns[:, None], jacobian, axis=2)
        return residual.reshape(members, -1), full


@dataclass(frozen=True, eq=False)
class LongResiduals:
    """Residuals of long windows with fitted start states, and their Jacobian.

    The unknowns of a member are theta followed by one number per window and state: the start
    itself, or its square root for nonnegative states (near zero the influence of a start under
    sqrt(I) is unbounded, that of its root is not). The Jacobian is parallel in time: after one
    sequential solve, the sensitivities of all intervals are computed as one batch and combined by
    the chain rule.

        dx_{j+1} = Phi_j dx_j + Theta_j dtheta
    """

    windows: Windows
    chain: Chain
    nonnegative: Bool[np.ndarray, " states"]

    @property
    def n_starts(self) -> int:
        """Number of unknowns after theta."""
        b, _, n = self.windows.size
        return b * n

    def pack(self, theta: Theta) -> Unknowns:
        """Build unknowns [members, P + starts] with the windows' own starts as initial guess."""
        s, weight = self.windows.start, self.windows.first_weight.max(axis=0)
        least = AWAKE * np.divide(1.0, weight, out=np.zeros_like(weight), where=weight > 0.0)
        s = np.where(self.nonnegative, np.sqrt(np.maximum(s, least).clip(0.0)), s)
        return np.concatenate([theta, np.tile(s.reshape(1, -1), (len(theta), 1))], axis=1)

    def starts(self, unknowns: Unknowns) -> States:
        """Return start states [members, windows, states]."""
        b, _, n = self.windows.size
        q = unknowns[:, unknowns.shape[1] - b * n :].reshape(-1, b, n)
        return np.where(self.nonnegative, q * q, q)

    def _rows(self, start: Array, ends: Array) -> Array:
        """Arrange weighted residuals by window, those of its start first [members, windows, rows]."""
        w = self.windows
        first, later = (start - w.first) * w.first_weight, (ends - w.target) * w.weight
        return np.concatenate([first[:, :, None], later], axis=2).reshape(*start.shape[:2], -1)

    @cached_property
    def _starts_first(self) -> Indices:
        """Order of all rows that puts the starts of all windows first."""
        b, length, n = self.windows.size
        return np.argsort(np.tile(np.arange((1 + length) * n) >= n, b), kind="stable")

    @_QUIET
    def residuals(self, unknowns: Unknowns, solved: Array | None = None) -> Residual:
        """Weighted residuals [members, R], those of the starts first."""
        rows = self._rows(self.starts(unknowns), self.solve(unknowns) if solved is None else solved)
        return rows.reshape(len(rows), -1)[:, self._starts_first]

    @cached_property
    def _steps(self) -> tuple[Array, Indices, LinearControls | None]:
        """Lengths of all steps [windows, K], their number until the end of each interval [windows, L], and controls.

        Every window uses the grids of its own intervals; windows that finish early get steps of length 0.
        """
        w = self.windows
        b, length, _ = w.size
        last = np.cumsum(np.array([len(grid) - 1 for grid in GRIDS])[w.grid], axis=1)
        interval = np.full((b, last[:, -1].max()), length - 1)
        begin, step = np.ones(interval.shape), np.zeros(interval.shape)
        for i, (grids, upto) in enumerate(zip(w.grid, last, strict=True)):
            interval[i, : upto[-1]] = np.repeat(np.arange(length), np.diff(upto, prepend=0))
            begin[i, : upto[-1]] = np.concatenate([GRIDS[g][:-1] for g in grids])
            step[i, : upto[-1]] = np.concatenate([np.diff(GRIDS[g]) for g in grids])
        duration, controls = np.take_along_axis(w.duration, interval, axis=1), None
        if w.controls is not None:
            own = w.controls.at((np.arange(b)[:, None], interval))
            controls = LinearControls(own.entry + (begin * duration)[..., None] * own.slope, own.slope)
        return step * duration, last, controls

    @_QUIET
    def solve(self, unknowns: Unknowns) -> Ends:
        """States at the ends of all intervals, [members, windows, intervals, states]."""
        theta, start, (steps, last, controls) = unknowns[:, : -self.n_starts], self.starts(unknowns), self._steps
        nodes = plain_nodes(self.chain, theta, start, steps) if controls is None else None
        if nodes is None:
            nodes = rk4_nodes(self.chain.rhs(theta), start, steps, controls)
        return nodes[:, np.arange(len(last))[:, None], last]

    @_QUIET
    def blocks(
        self, unknowns: Unknowns, free: Bool[np.ndarray, "members unknowns"], solved: Array | None = None
    ) -> tuple[
        Float[np.ndarray, "members windows rows"],
        Float[np.ndarray, "members windows rows columns"],
        Int[np.ndarray, "members windows columns"],
    ]:
        """Compute residuals and Jacobian by window, with columns for the free parameters and the window's own start."""
        w = self.windows
        b, length, n = w.size
        theta, start = unknowns[:, : -self.n_starts], self.starts(unknowns)
        columns = compact(free[:, : -self.n_starts])
        members, p = columns.shape
        ends = self.solve(unknowns) if solved is None else solved
        begin = np.concatenate([start[:, :, None], ends[:, :, :-1]], axis=2).reshape(members, -1, n)
        duration, grid, controls = w.duration.reshape(-1), w.grid.reshape(-1), w.controls and w.controls.flat()
        _, s = sensitivities(self.chain, theta, begin, duration, grid, columns, controls)
        s = s.reshape(members, b, length, n, n + p)
        q = unknowns[:, -self.n_starts :].reshape(members, b, n)
        jacobian = np.zeros((members, b, 1 + length, n, p + n))
        jacobian[:, :, 0, :, p:] = np.where(self.nonnegative, 2.0 * q, 1.0)[..., None] * np.eye(n)
        for j in range(length):
            np.matmul(s[:, :, j, :, :n], jacobian[:, :, j], out=jacobian[:, :, j + 1])
            jacobian[:, :, j + 1, :, :p] += s[:, :, j, :, n:]
        jacobian *= np.concatenate([w.first_weight[:, None], w.weight], axis=1)[..., None]
        of_theta = np.broadcast_to(columns[:, None], (members, b, p))
        of_starts = theta.shape[1] + np.arange(b * n).reshape(b, n)
        places = np.concatenate([of_theta, np.broadcast_to(of_starts, (members, b, n))], axis=2)
        return self._rows(start, ends), jacobian.reshape(members, b, -1, p + n), places

    @_QUIET
    def linearised(
        self, unknowns: Unknowns, free: Bool[np.ndarray, "members unknowns"], solved: Array | None = None
    ) -> tuple[Residual, Jacobian]:
        """Residuals [members, R] and Jacobian [members, R, P + starts], valid in the free columns."""
        (b, length, n), (members, size) = self.windows.size, unknowns.shape
        residual, jacobian, places = self.blocks(unknowns, free, solved)
        full = np.zeros((members, b, (1 + length) * n, size))
        np.put_along_axis(full, places[:, :, None], jacobian, axis=3)
        order = self._starts_first
        return residual.reshape(members, -1)[:, order], full.reshape(members, -1, size)[:, order]
