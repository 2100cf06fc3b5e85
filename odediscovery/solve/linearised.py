"""A trajectory of a law, and the response of its samples to small disturbances of its rates.

    dy/dt = (df/dx) y + g(x),    y_{j+1} = Phi_j y_j + sum_k G_{j,k} g_k

to first order along the trajectory x, with g at the nodes k of sample interval j. Phi and G depend only on the
trajectory, so that responses to any number of forces are products of matrices.

Source: variation of constants; the classical Runge-Kutta method, which is linear in g.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.linalg import block_diag

from odediscovery.data.series import Trajectory
from odediscovery.data.signals import Signal
from odediscovery.ivp.solvers import rk4_step
from odediscovery.laws.compiled import compiled_law
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.problem import Problem
from odediscovery.runtime.arrays import SQUARED, Array, Mask
from odediscovery.solve.sensitivities import integrate, linear_recurrence

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
