"""Solutions of laws over whole trajectories, and their derivatives with respect to constants and start values.

Solutions use scipy's LSODA at tight tolerance: no judged or printed number depends on the step grids of training.

Start values are fitted without bounds through numbers q,

    x_i = q_i^2 where x_i cannot be negative, else x_i = q_i;    then, for a sum with its value,
    x_i <- x_i V / (c . x)   for all its states, so that  c . x = V

Thus a start value of 0 is not a barrier, and start values satisfy conserved sums for any q. Derivatives are

    dS/dt = (df/dx) S + df/dtheta,

integrated over all sample intervals in parallel from the accurate states of an adaptive solver, then chained.
They also show how fast solutions diverge, and so which tolerance the solver needs.

To first order, a small disturbance g of the rates changes a trajectory by y,

    dy/dt = (df/dx) y + g(x),    y_{j+1} = Phi_j y_j + sum_k G_{j,k} g_k

with g at the nodes k of sample interval j. Phi and G depend only on the trajectory, so that responses to any number of
forces are products of matrices (`LinearisedTrajectory`).

Source: variation of constants; the classical Runge-Kutta method, which is linear in g.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline
from scipy.linalg import block_diag
from scipy.linalg.lapack import dtbtrs

from odediscovery.data.series import TimeSeries, Trajectory
from odediscovery.data.signals import Signal, control_slopes
from odediscovery.ivp.solvers import rk4_step, solve_whole
from odediscovery.laws.compiled import FilledForm, compiled_law, point_field, vector_field
from odediscovery.laws.power_sum import Free, PowerSum, count, filled
from odediscovery.problem.problem import Problem
from odediscovery.runtime.arrays import SQUARED, Array, Mask
from odediscovery.runtime.monitor import check_time, fitting_at_once

# A sum of powers, or a form with named constants.
Law: TypeAlias = PowerSum | FilledForm
Initial: TypeAlias = Float[Array, "trajectories own"]  # start values, without controls
Paths: TypeAlias = list[Float[Array, "_ states"]]  # of each trajectory, at all samples
# Sums of squared residuals, weighted and plain, and number of observed values of every state.
Squares: TypeAlias = tuple[Float[Array, " states"], Float[Array, " states"], Float[Array, " states"]]

FINEST_RTOL = 1e-9  # relative tolerance for data without noise
RTOL_OVER_ATOL = 100.0  # ratio of relative to absolute tolerance, for states with an rms of 1


def tolerance(sigma: Float[Array, " states"]) -> float:
    """Relative tolerance of solutions whose residuals have standard deviations sigma."""
    return float(np.clip(1e-5 * np.min(sigma), FINEST_RTOL, 1e-6))


def integrate(
    law: Law, start: Float[Array, " own"], run: Trajectory, rtol: float
) -> Float[Array, "samples states"] | None:
    """States at the run's times; None if the law blows up or the solver fails.

    The solver restarts at the end of each linear piece of the controls.
    """
    rhs, u, slopes = point_field(law), run.controls, control_slopes([run])
    # States of 1e10 are far from any data.
    solve = partial(solve_whole, rtol=rtol, atol=rtol / RTOL_OVER_ATOL, largest=1e10)
    if u is None:
        return solve(rhs, start, run.time)
    found = np.hstack([np.tile(start, (len(run.time), 1)), u.values])
    for first, last in u.straight_pieces():

        def driven(t: float, x: Array, slope: Array = slopes[first]) -> Array:
            total: Array = np.asarray(rhs(t, x)) + slope
            return total

        part = solve(driven, found[first], run.time[first : last + 1])
        if part is None:
            return None
        found[first : last + 1, : len(start)] = part[:, : len(start)]
    return found


def residual_squares(
    law: Law,
    series: TimeSeries,
    initial: Initial,
    relative_sigma: Sequence[Array] | None = None,
    rtol: float = FINEST_RTOL,
) -> Squares:
    """The squares of a law from given start values."""
    squares, plain, counts = (np.zeros(law.n_states) for _ in range(3))
    relative_sigma = relative_sigma or [np.ones_like(t.values) for t in series.trajectories]
    for r, t, s in zip(residuals(law, series, initial, rtol), series.trajectories, relative_sigma, strict=True):
        r[:, series.is_control] = np.nan
        counts += t.told.sum(axis=0) * ~series.is_control
        of_noise = np.nansum((r / s) ** 2, axis=0)
        lost = np.isinf(r).any()
        squares += np.inf if lost else of_noise
        plain += np.inf if lost else np.nansum(t.plain(r) ** 2, axis=0)
    return squares, plain, counts


def solutions(law: Law, series: TimeSeries, initial: Initial, rtol: float = FINEST_RTOL) -> Paths:
    """The law's states at all times, [samples, states] per trajectory; inf throughout if it blows up."""
    found = []
    for t, x0 in zip(series.trajectories, initial, strict=True):
        y = integrate(law, x0, t, rtol)
        found.append(np.full_like(t.values, np.inf) if y is None else y)
    return found


def residuals(law: Law, series: TimeSeries, initial: Initial, rtol: float = FINEST_RTOL) -> Paths:
    """Law minus data, [samples, states] per trajectory: nan where missing, inf if the law blows up."""
    return [t.left(y) for y, t in zip(solutions(law, series, initial, rtol), series.trajectories, strict=True)]


# Smallest start value of a nonnegative state [rms of the state]: at exactly 0, sqrt(x) has no unique solution.
LEAST_START = 1e-8

StartValues: TypeAlias = Float[Array, "*rest states"]
# Weights c [states] and value V of sums without common states; all weights are positive and all their states
# nonnegative.
ConservedSums: TypeAlias = tuple[tuple[Array, float], ...]


@dataclass(frozen=True, eq=False)
class Starts:
    """Start values by numbers q, with their bounds and the conserved sums that they satisfy."""

    nonnegative: Mask  # states that do not start below 0 [states]
    sums: ConservedSums = ()  # conserved sums with their values
    known: Array | None = None  # known first values [trajectories, states], nan elsewhere; None if there are none

    def roots(self, initial: StartValues, awake: Float[Array, " states"]) -> StartValues:
        """q of start values, with nonnegative states at least `awake`."""
        least = np.maximum(initial, np.maximum(awake, LEAST_START))
        return np.where(self.nonnegative, np.sqrt(least), initial)

    def values(self, q: StartValues) -> StartValues:
        """Start values that belong to q."""
        x = self._unbound(q)
        for c, value in self.sums:
            x = np.where(c != 0, x * (value / (x @ c))[..., None], x)
        return x if self.known is None else np.where(np.isfinite(self.known), self.known, x)

    def slopes(self, q: Float[Array, " states"], trajectory: int = 0) -> Float[Array, "states states"]:
        """dx/dq at the q of one trajectory."""
        x = self._unbound(q)
        slopes: Array = np.diag(np.where(self.nonnegative, 2.0 * q, 1.0))
        for c, value in self.sums:
            whole = c @ x
            scaled = value / whole * (slopes - np.outer(x, c @ slopes) / whole)
            slopes = np.where((c != 0)[:, None], scaled, slopes)
        if self.known is not None:
            slopes = np.where(np.isfinite(self.known[trajectory])[:, None], 0.0, slopes)
        return slopes

    def _unbound(self, q: Array) -> Array:
        """Start values before the conserved sums are imposed."""
        return np.where(self.nonnegative, np.maximum(q * q, LEAST_START), q)


def known_starts(series: TimeSeries) -> Array | None:
    """Known first values of the states without controls, [trajectories, states]; None if there are none."""
    if all(run.recorded is None for run in series.trajectories):
        return None
    found: Array = np.stack([run.known_start for run in series.trajectories])[:, ~series.is_control]
    return found if np.isfinite(found).any() else None


# Number of steps over one interval and their grading, from cheap to expensive: an interval uses the first that is
# accurate enough.
STEPS_AND_GRADING = ((2, 0.0), (8, 0.0), (32, 4.0), (64, 4.0), (128, 6.0))
# Marks intervals for which none is accurate enough, as for a stiff law.
BY_LSODA = len(STEPS_AND_GRADING)
LARGEST = 1e100  # beyond this, sensitivities are useless for a step of the fit


class Effort(NamedTuple):
    """Accuracy with which a law must be integrated."""

    rtol: float  # relative tolerance of its solutions
    # Index in `STEPS_AND_GRADING`, or `BY_LSODA`, for the sensitivities of every interval [intervals].
    steps: NDArray[np.int64]

    @classmethod
    def least(cls, series: TimeSeries, rtol: float) -> Effort:
        """The fewest steps at a tolerance, for a first evaluation."""
        return cls(rtol, np.zeros(sum(len(t.time) - 1 for t in series.trajectories), np.int64))


class Evaluation(NamedTuple):
    """Residuals of a law and their derivatives at given constants and start values."""

    residual: Float[Array, " residuals"]  # weighted
    jacobian: Float[Array, "residuals unknowns"]
    effort: Effort  # what these solutions needed


class TrajectoryResiduals:
    """Residuals and Jacobian of a dimensionless law; the unknowns are its free constants, then q of the start values.

    `sigma` [states] is the standard deviation of the residuals of every state, `relative_sigma` that of each sample
    relative to the others, [samples, states] per trajectory.
    """

    def __init__(
        self, law: Law, series: TimeSeries, sigma: Array, free: Free, starts: Starts, relative_sigma: Sequence[Array]
    ) -> None:
        self.law, self.series, self.relative_sigma, self.sigma = law, series, relative_sigma, sigma
        self.free, self.starts = free, starts
        self.n_constants, self.n = count(free), law.n_states
        self.own, self.drift = ~series.is_control, control_slopes(series.trajectories)

    def pack(self, initial: Initial) -> Float[Array, " unknowns"]:
        """Unknowns of the current law and given start values."""
        # At q = 0 the gradient vanishes and q would never change.
        q = self.starts.roots(initial, 0.1 * self.sigma[self.own])
        constants = zip(self.law.constants, self.free, strict=True)
        return np.concatenate([*(values[free] for values, free in constants), q.ravel()])

    def unpack(self, u: Float[Array, " unknowns"]) -> tuple[Law, Initial]:
        """Law and start values of the unknowns."""
        law = self.law.with_constants(*filled(self.law.constants, self.free, u[: self.n_constants]))
        return law, self.starts.values(u[self.n_constants :].reshape(-1, self.own.sum()))

    def evaluate(self, u: Float[Array, " unknowns"], effort: Effort | None = None) -> Evaluation | None:
        """Residuals and Jacobian; None if the law blows up. Later evaluations should start from the `effort` returned.

        Where solutions diverge, the solver's errors grow with them: if these become comparable to the residuals, the
        solve is repeated at a finer tolerance.
        """
        rtol, steps = effort or Effort.least(self.series, tolerance(self.sigma[self.own]))
        law, initial = self.unpack(u)
        paths = self._paths(law, initial, rtol)
        if paths is None:
            return None
        own, steps = self.of_intervals(law, paths, Effort(rtol, steps))
        jacobian = self._jacobian(own, paths, u)
        if jacobian is None:
            return None
        residual, growth = self._residual(paths), max(jacobian[1], 1.0)
        # Before the minimum, the solver's error may be a hundredth of the residuals.
        size = max(float(np.sqrt(np.mean(residual**2))) * 0.01, 1.0) * self.sigma[self.own].min()
        needed = max(10.0 * size / growth, 1e-13)
        if needed < rtol / 2.0:
            rtol = needed
            finer = self._paths(law, initial, rtol)
            residual = residual if finer is None else self._residual(finer)
        return Evaluation(residual, jacobian[0], Effort(rtol, steps))

    def _paths(self, law: Law, initial: Array, rtol: float) -> list[Array] | None:
        """States at all samples, None if the law blows up."""
        paths = []
        for start, t in zip(initial, self.series.trajectories, strict=True):
            x = integrate(law, start, t, rtol)
            if x is None:
                return None
            paths.append(x)
        return paths

    def _weights(self) -> list[Array]:
        """1 / standard deviation of every value; 0 for missing values and controls."""
        return [
            np.where(np.isfinite(t.values) & self.own, 1.0 / (self.sigma * relative_sigma), 0.0)
            for t, relative_sigma in zip(self.series.trajectories, self.relative_sigma, strict=True)
        ]

    def _residual(self, paths: Sequence[Array]) -> Array:
        each = zip(paths, self.series.trajectories, self._weights(), strict=True)
        return np.concatenate([(np.nan_to_num(t.left(x)) * w).ravel() for x, t, w in each])

    def squares(self, residual: Float[Array, " residuals"] | None) -> Squares:
        """The squares of residuals; None counts as infinite."""
        relative_sigma, weights = np.concatenate(self.relative_sigma), np.concatenate(self._weights())
        told = np.concatenate([t.told for t in self.series.trajectories])
        counts = ((weights > 0) & told).sum(axis=0, dtype=np.float64)
        if residual is None:
            return np.full(self.n, np.inf), np.full(self.n, np.inf), counts
        r, runs = residual.reshape(-1, self.n) * self.sigma, self.series.trajectories
        blocks = np.split(r * relative_sigma, np.cumsum([len(t.time) for t in runs])[:-1])
        plain = np.concatenate([t.plain(left) for t, left in zip(runs, blocks, strict=True)])
        return (r**2).sum(axis=0), (plain**2).sum(axis=0), counts

    def _jacobian(self, own: Sequence[Array], paths: Sequence[Array], u: Array) -> tuple[Array, float] | None:
        """d residuals / d unknowns from the sensitivities of the intervals, and their largest growth."""
        n, k, starts = self.n, self.n_constants, int(self.own.sum())
        found, growth = [], 0.0
        for i, (steps, weight) in enumerate(zip(own, self._weights(), strict=True)):
            place = slice(k + i * starts, k + (i + 1) * starts)
            chain = np.eye(n)[:, self.own] @ self.starts.slopes(u[place], i)
            blocks = self.chained(steps, np.hstack([np.zeros((n, k)), chain]))
            if blocks is None:
                return None
            jac = np.zeros((*weight.shape, len(u)))
            jac[..., :k], jac[..., place] = blocks[..., :k], blocks[..., k:]
            recorded = self.series.trajectories[i].recorded
            jac = jac if recorded is None else recorded.linearised(jac, paths[i])
            growth = max(growth, float(np.abs(blocks[..., k:]).max()))
            found.append((jac * weight[..., None]).reshape(-1, len(u)))
        return np.concatenate(found), growth

    def chained(
        self, own: Float[Array, "intervals states inputs"], first: Float[Array, "states columns"]
    ) -> Float[Array, "intervals+1 states columns"] | None:
        """d x / d (constants, own start) at every sample, chained from the sensitivities of the intervals:
        D_{j+1} = Phi_j D_j + [Theta_j, 0]. None if they exceed `LARGEST`."""
        added = np.zeros((len(own), *first.shape))
        added[:, :, : self.n_constants] = own[:, :, self.n :]
        with np.errstate(all="ignore"):
            stacked = linear_recurrence(own[:, :, : self.n], added, first)
        return stacked if np.abs(stacked).max() < LARGEST else None

    def of_intervals(self, law: Law, paths: Sequence[Array], effort: Effort) -> tuple[list[Array], NDArray[np.int64]]:
        """[Phi, Theta] of every interval, [intervals, n, n + constants] per trajectory, and the steps used for each.

        Runge-Kutta 4 on graded steps, with more steps where its end state is inaccurate; LSODA where
        even the finest steps are, as for a stiff law.
        """
        times = [t.time for t in self.series.trajectories]
        duration = np.concatenate([np.diff(t) for t in times])
        start = np.concatenate([x[:-1] for x in paths])
        target = np.concatenate([x[1:] for x in paths])
        s = np.zeros((len(duration), self.n, self.n + self.n_constants))
        done, taken = np.zeros(len(duration), bool), effort.steps.copy()
        scale = np.concatenate([np.tile(np.abs(x).max(axis=0), (len(x) - 1, 1)) for x in paths])
        # Relative to the largest value of a state; accurate enough for a step of the fit.
        accuracy = max(1e-6, effort.rtol * 100.0)
        for level, (steps, spread) in enumerate(STEPS_AND_GRADING):
            todo = np.flatnonzero(~done & (taken <= level))
            if not len(todo):
                continue
            taken[todo] = level
            end, s[todo] = self._runge_kutta(law, start[todo], duration[todo], self.drift[todo], steps, spread)
            # Far too long a step overflows, which counts as inaccurate, too.
            with np.errstate(all="ignore"):
                off = (np.abs(end - target[todo]) / (scale[todo] + 1e-12))[:, self.own].max(axis=1)
            # Too long a step makes a fast decay grow, which states that have already decayed do not show.
            grown = np.abs(s[todo][:, :, : self.n]).max(axis=(1, 2)) > 10.0
            done[todo] = (off < accuracy) & ~grown
            if level == len(STEPS_AND_GRADING) - 1:
                taken[todo[~(off < accuracy)]] = BY_LSODA
        for j in np.flatnonzero(taken == BY_LSODA):
            s[j] = self._stiff(law, start[j], float(duration[j]), self.drift[j], effort.rtol)
        return np.split(s, np.cumsum([len(t) - 1 for t in times])[:-1]), taken

    def _runge_kutta(
        self, law: Law, x: Array, duration: Array, drift: Array, steps: int, spread: float
    ) -> tuple[Array, Array]:
        """States [B, n] and [Phi, Theta] [B, n, n + constants] at the ends of intervals from x: states step by step,
        then from them the sensitivities of many steps in parallel."""
        tau = np.linspace(0.0, 1.0, steps + 1)
        grid = tau if spread == 0.0 else np.expm1(spread * tau) / np.expm1(spread)
        lengths = np.diff(grid)[:, None] * duration
        field, path = vector_field(law), np.empty((steps + 1, *x.shape))
        path[0] = x
        s = self._unmoved(len(x))

        def rhs(t: float, x: Array) -> Array:
            return field(t, x) + drift

        with np.errstate(all="ignore"):
            for j, h in enumerate(lengths[:, :, None]):
                path[j + 1] = rk4_step(rhs, path[j], h)
            # A Runge-Kutta step holds eight copies of [x, Phi, Theta], eight bytes per number.
            each = 64.0 * self.n * (1 + self.n + self.n_constants)
            most = max(fitting_at_once(2000, each) // len(x), 1)
            for first in range(0, steps, most):
                check_time()
                own = self._steps(law, path[first:-1][:most], lengths[first:][:most], drift)
                for step in np.moveaxis(own, 2, 0):
                    s = _products(step[:, : self.n], s)
                    s[:, self.n :] += step[:, self.n :]
        return path[-1], np.ascontiguousarray(np.moveaxis(s, -1, 0))

    def _unmoved(self, points: int) -> Array:
        """[Phi, Theta] of an interval of length 0, [n, n + constants, B]."""
        s = np.zeros((self.n, self.n + self.n_constants, points))
        s[np.arange(self.n), np.arange(self.n)] = self.own[:, None]
        return s

    def _steps(self, law: Law, x: Array, h: Array, drift: Array) -> Array:
        """[Phi, Theta] of single Runge-Kutta steps, [n, n + constants, steps, B]."""
        shape, h = x.shape, h.ravel()
        drift = np.broadcast_to(drift, shape).reshape(-1, self.n).T
        y = np.concatenate([x.reshape(-1, self.n).T[:, None], self._unmoved(len(h))], axis=1)
        form, constants = compiled_law(law, self.free)

        def rates(_: float, y: Array) -> Array:
            """d[x, Phi, Theta]/dt of [x, Phi, Theta], both [n, 1 + n + constants, B]: points are columns in memory."""
            change = np.empty_like(y)
            values, slopes = form.linearised(y[:, 0], constants)
            change[:, 0] = values + drift
            change[:, 1:] = _products(slopes[:, : self.n], y[:, 1:])
            change[:, 1 + self.n :] += slopes[:, self.n :]
            return change

        ends: Array = rk4_step(rates, y, h)
        return ends[:, 1:].reshape(self.n, -1, *shape[:2])

    def _stiff(self, law: Law, x: Array, duration: float, drift: Array, rtol: float) -> Array:
        """[Phi, Theta] [n, n + constants] of one interval from x, by LSODA; nan if that fails, too."""
        form, constants = compiled_law(law, self.free)
        s = self._unmoved(1)[..., 0]
        rates, own = point_field(FilledForm(form.varied, np.array(constants))), np.append(drift, np.zeros(s.size))
        ends, atol = np.array([0.0, duration]), rtol / RTOL_OVER_ATOL
        found = solve_whole(lambda t, y: np.asarray(rates(t, y)) + own, np.append(x, s), ends, rtol, atol, LARGEST)
        return np.full_like(s, np.nan) if found is None else found[-1, self.n :].reshape(s.shape)


def _products(a: Array, b: Array) -> Array:
    """Products of small matrices [i, k, B] and [k, j, B], one per point."""
    found: Array = a[:, 0, None] * b[0]
    for k in range(1, len(b)):
        found += a[:, k, None] * b[k]
    return found


def sensitivities(
    law: Law, free: Free, start: Float[Array, " own"], run: Trajectory
) -> tuple[Float[Array, "times states"], Float[Array, "times states columns"]] | None:
    """x(t) and d x / d (free constants, start); None if the law blows up. The values of the run are ignored."""
    n, own = law.n_states, len(start)
    names = tuple(map(str, range(n)))
    one = TimeSeries(names, (run,), controls=names[own:])
    model = TrajectoryResiduals(law, one, np.ones(n), free, Starts(np.zeros(own, dtype=bool)), ())
    x = integrate(law, start, run, FINEST_RTOL)
    if x is None:
        return None
    first = np.hstack([np.zeros((n, model.n_constants)), np.eye(n)[:, :own]])
    (own_steps,), _ = model.of_intervals(law, [x], Effort.least(one, FINEST_RTOL))
    blocks = model.chained(own_steps, first)
    return None if blocks is None else (x, blocks)


def linear_recurrence(
    a: Float[np.ndarray, "steps n n"], b: Float[np.ndarray, "steps n columns"], first: Float[np.ndarray, "n columns"]
) -> Float[np.ndarray, "1+steps n columns"]:
    """All z_j of z_0 = first, z_{j+1} = A_j z_j + b_j."""
    check_time()
    steps, n, columns = b.shape
    if not columns:
        return np.zeros((1 + steps, n, 0))
    # Band storage of a lower triangular matrix: row d has the elements d below the diagonal.
    band = np.zeros((2 * n, (1 + steps) * n))
    for i in range(n):
        for k in range(n):
            band[n + i - k, k : steps * n : n] = -a[:, i, k]
    right = np.concatenate([first, b.reshape(-1, columns)])
    found: Array = dtbtrs(band, right, uplo="L", diag="U")[0].reshape(1 + steps, n, columns)
    return found


STEPS = 2  # over one sample interval


@dataclass(frozen=True, eq=False)
class LinearisedTrajectory:
    """A law's trajectory and its linear response to disturbances of its rates."""

    own: Mask  # states that are no inputs
    # States at the ends and in the middle of every step, [nodes, states] per trajectory; steps share their ends.
    x: tuple[Array, ...]
    # Phi: propagator from the beginning of an interval to its end, [intervals, states, states].
    carried: tuple[Array, ...]
    # G: response at the end of an interval to a force at each node, [intervals, states, equations, nodes].
    pushed: tuple[Array, ...]
    left: tuple[Array, ...]  # data minus x in units of the noise, 0 where missing, [samples, states]
    weight: tuple[Array, ...]  # 1 / noise of every sample, 0 where missing, [samples, states]

    @classmethod
    def of(cls, p: Problem, law: PowerSum, initial: Array, sigma: Array) -> LinearisedTrajectory | None:
        """The linearised trajectories of a law; None if it or its response blows up, as in steps too long for it."""
        found: list[tuple[Array, ...]] = []
        for t, start, relative_sigma in zip(p.data.trajectories, initial, p.relative_sigma, strict=True):
            x = _trajectory(law, start, t, p.data.is_control)
            if x is None:
                return None
            seen = np.isfinite(t.values) & ~p.constant
            weight = seen / (sigma * relative_sigma)
            left = np.where(seen, t.values - x[:: 2 * STEPS], 0.0) * weight
            with np.errstate(all="ignore"):
                found.append((x, *_propagators(_slopes(law, x), np.diff(_nodes(t)[::2])), left, weight))
        along = cls(~p.data.is_control, *(tuple(parts) for parts in zip(*found, strict=True)))
        with np.errstate(all="ignore"):
            parts = (*along.carried, *along.pushed, along.starts())
            return along if all((np.abs(part) < SQUARED).all() for part in parts) else None

    def responses(self, equation: int, forces: Sequence[Array]) -> Array:
        """Responses of samples, in units of the noise, to forces on one equation, [nodes, columns] per trajectory."""
        rows, nodes = [], np.arange(2 * STEPS + 1)
        for k, force in enumerate(forces):
            first = 2 * STEPS * np.arange(len(self.carried[k]))[:, None]
            added = self.pushed[k][:, :, equation] @ force[first + nodes]
            rows.append(self._carried(k, np.zeros(added.shape[1:]), added))
        return np.concatenate(rows)

    def adjoint(self, rows: Array) -> Array:
        """Values [equations, columns, nodes of all trajectories] with which forces on each equation are weighted in
        `rows.T @ responses`, for rows [rows, columns]."""
        found, ends = [], np.cumsum([len(self._averaged(k, left[..., None])) for k, left in enumerate(self.left)])
        for k, part in enumerate(np.split(rows, ends[:-1])):
            u = self._spread(k, part) * self.weight[k][..., None]
            back = linear_recurrence(self.carried[k].swapaxes(1, 2)[::-1], u[-2::-1], u[-1])[::-1]
            each = np.einsum("jsiq,jsr->irqj", self.pushed[k], back[1:], optimize=True)
            kernel = np.zeros((*each.shape[:2], len(self.x[k])))
            for q in range(2 * STEPS + 1):
                kernel[..., q : q + 2 * STEPS * each.shape[-1] : 2 * STEPS] += each[:, :, q]
            found.append(kernel)
        return np.concatenate(found, axis=-1)

    def starts(self) -> Array:
        """Responses to a change of each start value, [rows, trajectories * states without inputs]."""
        first = np.eye(len(self.own))[:, self.own]
        zeros = (np.zeros((len(carried), *first.shape)) for carried in self.carried)
        return np.asarray(block_diag(*(self._carried(k, first, zero) for k, zero in enumerate(zeros))))

    @cached_property
    def residual(self) -> Array:
        """Data minus the law in units of the noise, [rows]."""
        return np.concatenate([self._averaged(k, left[..., None])[:, 0] for k, left in enumerate(self.left)])

    @property
    def within(self) -> float:
        """Sum of squared residuals within the averages of samples, which no term explains."""
        whole = sum(float(np.sum(left**2)) for left in self.left)
        return max(whole - float(self.residual @ self.residual), 0.0)

    @property
    def samples(self) -> int:
        """Number of observed values."""
        return int(sum((w > 0).sum() for w in self.weight))

    def _carried(self, k: int, first: Array, added: Array) -> Array:
        """Weighted responses [rows, columns] to a first disturbance and those added in every interval."""
        return self._averaged(k, linear_recurrence(self.carried[k], added, first) * self.weight[k][..., None])

    def _averaged(self, k: int, values: Array) -> Array:
        """Values [samples, states, columns] as rows; of many samples, sum / sqrt(m) over the m known among neighbours.

        This keeps the noise white and of the same size; responses of neighbouring samples are similar.
        """
        if self._each > 1:
            first = np.arange(0, len(values), self._each)
            values = np.add.reduceat(values, first, axis=0) / self._sizes(k)[..., None]
        return values.reshape(values.shape[0] * values.shape[1], values.shape[2])

    def _spread(self, k: int, rows: Array) -> Array:
        """The adjoint of `_averaged`: [samples, states, columns] from rows."""
        samples, n = self.weight[k].shape
        values = rows.reshape(-1, n, rows.shape[1])
        if self._each == 1:
            return values
        return np.repeat(values / self._sizes(k)[..., None], self._each, axis=0)[:samples]

    @property
    def _each(self) -> int:
        """Number of neighbouring samples that are averaged."""
        return min(max(sum(left.size for left in self.left) // 1000, 1), 4)

    def _sizes(self, k: int) -> Array:
        """sqrt(m) of the m known among neighbours, [averages, states]."""
        known = (self.weight[k] > 0.0).astype(float)
        return np.sqrt(np.maximum(np.add.reduceat(known, np.arange(0, len(known), self._each), axis=0), 1.0))


def carried_along(law: PowerSum, t: Trajectory) -> Array:
    """Propagators [intervals, states, states] as `LinearisedTrajectory` has them, but along a smooth path through the
    data."""
    times = _nodes(t)
    x = CubicSpline(t.time, t.values)(times)
    return _propagators(_slopes(law, x), np.diff(times[::2]))[0]


def _trajectory(law: PowerSum, start: Array, t: Trajectory, is_control: Mask) -> Array | None:
    """States of a law at the nodes of a trajectory, with its inputs; None if it blows up."""
    times, u = _nodes(t), t.controls
    inputs = None if u is None else Signal(times, u.at(times), u.held)
    x = integrate(law, start, Trajectory(times, np.zeros((len(times), law.n_states)), controls=inputs), rtol=1e-7)
    if x is not None and u is not None:
        # Two steps share a node: an input that jumps there counts half before the jump and half after it.
        before = np.append(times[0], times[1:] - 1e-9 * np.diff(times))
        x[:, is_control] = (u.at(times) + u.at(before)) / 2.0
    return x


def _nodes(t: Trajectory) -> Array:
    """Times at the ends and in the middle of every step, in order."""
    ends = np.linspace(t.time[:-1], t.time[1:], 2 * STEPS, endpoint=False, axis=1)
    return np.append(ends.ravel(), t.time[-1])


def _propagators(slopes: Array, length: Array) -> tuple[Array, Array]:
    """`carried` and `pushed` of every interval, by Runge-Kutta, which is linear in disturbances and forces.

    dy/dt = (df/dx) y + force
    """
    n = slopes.shape[1]
    at = slopes[:-1:2], slopes[1::2], slopes[2::2]
    # Columns: a disturbance of each state, then a force on each equation at the beginning, middle and end of a step.
    forces = np.zeros((3, n, 4 * n))
    for node in range(3):
        forces[node, :, (1 + node) * n : (2 + node) * n] = np.eye(n)
    y = np.broadcast_to(np.eye(n, 4 * n), (len(length), n, 4 * n))
    y = rk4_step(lambda share, y: at[int(2 * share)] @ y + forces[int(2 * share)], y, length[:, None, None])
    steps = y.reshape(-1, STEPS, n, 4 * n)
    carried, pushed = steps[:, 0, :, :n], np.zeros((len(steps), n, n, 2 * STEPS + 1))
    for s in range(STEPS):
        phi, own = steps[:, s, :, :n], steps[:, s, :, n:].reshape(-1, n, 3, n).swapaxes(2, 3)
        if s:
            carried = phi @ carried
            pushed = (phi @ pushed.reshape(len(steps), n, -1)).reshape(pushed.shape)
        pushed[..., 2 * s : 2 * s + 3] += own
    return carried, pushed


def _slopes(law: PowerSum, x: Array) -> Array:
    """df/dx at points x [..., states], [..., states, states]."""
    with np.errstate(all="ignore"):
        form, constants = compiled_law(law)
        _, slopes = form.seeking(()).linearised(np.moveaxis(x, -1, 0), constants)
    return np.nan_to_num(np.moveaxis(slopes, (0, 1), (-2, -1)))
