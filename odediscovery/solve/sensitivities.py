"""Residuals of a law on whole trajectories, and their derivatives by constants and start values.

    dS/dt = (df/dx) S + df/dtheta,

integrated over all sample intervals side by side from the accurate states of an adaptive solver,
then multiplied up. What these derivatives say of how fast solutions drift apart sets the solver's
tolerance.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from odediscovery.data.series import TimeSeries, Trajectory
from odediscovery.data.signals import drifts
from odediscovery.laws.cost import Free, count, filled
from odediscovery.laws.power_sum import TINY, PowerSum, expanded, power_slopes, vector_field
from odediscovery.runtime.arrays import Array
from odediscovery.solve.initial_values import Starts
from odediscovery.solve.trajectories import RTOL, integrate, tolerance

# Steps of all intervals whose sensitivities are computed side by side.
TOGETHER = 2000
# Beyond this a sensitivity cannot be squared any more, and no step follows from it.
WILD = 1e100
# Relative error of an interval's end up to which its sensitivities are good enough to step by.
ACCURACY = 1e-6
# The same as a multiple of the solver's tolerance, where that is loose.
LOOSER = 100.0
# Sensitivity of an interval's end to its start that finer steps have to confirm.
GROWN = 10.0
# The solver's relative tolerance where trajectories that differ are drawn apart, as a multiple of
# what may come of it (its errors are drawn apart less, being later); the finest tolerance; and the
# share of residuals that it may add on the way to the minimum.
DRAWN_APART, FINEST, SHARE = 10.0, 1e-13, 0.01


class Model:
    """Residuals and Jacobian of one law; the unknowns are A, W, then the starts' roots."""

    def __init__(
        self, law: PowerSum, series: TimeSeries, sigma: Array, free: Free, starts: Starts, shape: Sequence[Array]
    ) -> None:
        self.law, self.series, self.shape = law, series, shape
        self.sigma, self.rtol = sigma, tolerance(sigma[~series.driven])
        self.free, self.starts = free, starts
        self.a_places, self.w_places = np.nonzero(free[0]), np.nonzero(free[1])
        self.n_constants = count(free)
        self.n = law.n_states
        self.own, self.drift = ~series.driven, drifts(series.trajectories)

    def pack(self, initial: Array) -> Array:
        """Unknowns of the present law and start values."""
        # A root of exactly 0 has no gradient and would never leave.
        q = self.starts.roots(initial, 0.1 * self.sigma[self.own])
        constants = zip(self.law.constants, self.free, strict=True)
        return np.concatenate([*(values[free] for values, free in constants), q.ravel()])

    def unpack(self, u: Array) -> tuple[PowerSum, Array]:
        """Law and start values [trajectories, states] of the unknowns."""
        law = self.law.with_constants(*filled(self.law.constants, self.free, u[: self.n_constants]))
        return law, self.starts.values(u[self.n_constants :].reshape(-1, self.own.sum()))

    def evaluate(self, u: Array) -> tuple[Array, Array] | None:
        """Weighted residuals [R] and Jacobian [R, unknowns]; None if the law blows up.

        Where trajectories drift apart, so does what the solver adds: its tolerance is tightened,
        here and from then on, as residuals come near to that.
        """
        law, initial = self.unpack(u)
        paths = self._paths(law, initial)
        jacobian = None if paths is None else self._jacobian(law, paths, u)
        if paths is None or jacobian is None:
            return None
        residual = self._residual(paths)
        size = max(float(np.sqrt(np.mean(residual**2))) * SHARE, 1.0) * self.sigma[self.own].min()
        finest = max(DRAWN_APART * size / max(jacobian[1], 1.0), FINEST)
        if finest < self.rtol / 2.0:
            self.rtol = finest
            finer = self._paths(law, initial)
            residual = residual if finer is None else self._residual(finer)
        return residual, jacobian[0]

    def _paths(self, law: PowerSum, initial: Array) -> list[Array] | None:
        """States at all samples, None if the law blows up."""
        paths = []
        for start, t in zip(initial, self.series.trajectories, strict=True):
            x = integrate(law, start, t, self.rtol)
            if x is None:
                return None
            paths.append(x)
        return paths

    def _weights(self) -> list[Array]:
        """1 / standard deviation of every value, 0 of what is missing or an input."""
        return [
            np.where(np.isfinite(t.values) & self.own, 1.0 / (self.sigma * shape), 0.0)
            for t, shape in zip(self.series.trajectories, self.shape, strict=True)
        ]

    def _residual(self, paths: Sequence[Array]) -> Array:
        """Weighted residuals [R]."""
        each = zip(paths, self.series.trajectories, self._weights(), strict=True)
        return np.concatenate([((x - np.nan_to_num(t.values)) * w).ravel() for x, t, w in each])

    def squares(self, residual: Array | None) -> tuple[Array, Array, Array]:
        """Sums of squared residuals, weighted and plain, and number of values of every state.

        Args:
            residual: weighted [R]; None where the law blows up.
        """
        shape, weights = np.concatenate(self.shape), np.concatenate(self._weights())
        counts = (weights > 0).sum(axis=0)
        if residual is None:
            return np.full(self.n, np.inf), np.full(self.n, np.inf), counts
        r = residual.reshape(-1, self.n) * self.sigma
        return (r**2).sum(axis=0), ((r * shape) ** 2).sum(axis=0), counts

    def _jacobian(self, law: PowerSum, paths: Sequence[Array], u: Array) -> tuple[Array, float] | None:
        """d residuals / d unknowns [R, unknowns]; how far starts that differ are drawn apart."""
        n, k, starts = self.n, self.n_constants, int(self.own.sum())
        found, apart = [], 0.0
        own = self._sensitivities(law, paths)
        for i, (steps, weight) in enumerate(zip(own, self._weights(), strict=True)):
            place = slice(k + i * starts, k + (i + 1) * starts)
            chain = np.eye(n)[:, self.own] @ self.starts.slopes(u[place])
            blocks = self._chained(steps, np.hstack([np.zeros((n, k)), chain]))
            if blocks is None:
                return None
            jac = np.zeros((*weight.shape, len(u)))
            jac[..., :k], jac[..., place] = blocks[..., :k], blocks[..., k:]
            apart = max(apart, float(np.abs(blocks[..., k:]).max()))
            found.append((jac * weight[..., None]).reshape(-1, len(u)))
        return np.concatenate(found), apart

    def _chained(self, own: Array, first: Array) -> Array | None:
        """d x / d (constants, own start) at every sample, [samples, n, constants + starts].

        The sensitivities of all intervals, integrated side by side from the accurate states, are
        multiplied up: D_{j+1} = Phi_j D_j + [Theta_j, 0].
        """
        k = self.n_constants
        blocks = [first]
        with np.errstate(all="ignore"):
            for s in own:
                d = s[:, : self.n] @ blocks[-1]
                d[:, :k] += s[:, self.n :]
                blocks.append(d)
        stacked = np.stack(blocks)
        return stacked if np.abs(stacked).max() < WILD else None

    def _sensitivities(self, law: PowerSum, paths: Sequence[Array]) -> list[Array]:
        """[Phi, Theta] of every interval, [intervals, n, n + constants] a trajectory.

        Runge-Kutta 4 on graded steps, more of them where its own end state is off.
        """
        times = [t.time for t in self.series.trajectories]
        duration = np.concatenate([np.diff(t) for t in times])
        start = np.concatenate([x[:-1] for x in paths])
        target = np.concatenate([x[1:] for x in paths])
        s = np.zeros((len(duration), self.n, self.n + self.n_constants))
        todo = np.arange(len(duration))
        scale = np.concatenate([np.tile(np.abs(x).max(axis=0), (len(x) - 1, 1)) for x in paths])
        accuracy = max(ACCURACY, self.rtol * LOOSER)
        for steps, spread in ((2, 0.0), (8, 0.0), (32, 4.0), (128, 6.0)):
            end, s[todo] = self._runge_kutta(law, start[todo], duration[todo], self.drift[todo], steps, spread)
            off = (np.abs(end - target[todo]) / (scale[todo] + 1e-12))[:, self.own].max(axis=1)
            # Too long a step makes a fast decay grow: what has died out does not show it itself.
            grown = np.abs(s[todo][:, :, : self.n]).max(axis=(1, 2)) > GROWN
            todo = todo[~(off < accuracy) | grown]
            if not len(todo):
                break
        return np.split(s, np.cumsum([len(t) - 1 for t in times])[:-1])

    def _runge_kutta(
        self, law: PowerSum, x: Array, duration: Array, drift: Array, steps: int, spread: float
    ) -> tuple[Array, Array]:
        """States [B, n] and [Phi, Theta] [B, n, n + constants] at the ends of intervals from x.

        The states step by step, then the sensitivities of many steps side by side from them.
        """
        tau = np.linspace(0.0, 1.0, steps + 1)
        grid = tau if spread == 0.0 else np.expm1(spread * tau) / np.expm1(spread)
        lengths = np.diff(grid)[:, None] * duration
        rates, path = vector_field(law), np.empty((steps + 1, *x.shape))
        path[0] = x
        s = np.zeros((len(x), self.n, self.n + self.n_constants))
        s[:, :, : self.n] = np.diag(self.own)
        with np.errstate(all="ignore"):
            for j, h in enumerate(lengths[:, :, None]):
                x = path[j]
                k1 = rates(0.0, x) + drift
                k2 = rates(0.0, x + h * k1 / 2) + drift
                k3 = rates(0.0, x + h * k2 / 2) + drift
                k4 = rates(0.0, x + h * k3) + drift
                path[j + 1] = x + h * (k1 + 2 * k2 + 2 * k3 + k4) / 6
            most = max(TOGETHER // len(x), 1)
            for first in range(0, steps, most):
                for own in self._steps(law, path[first:-1][:most], lengths[first:][:most], drift):
                    carried = own[:, :, : self.n] @ s
                    carried[:, :, self.n :] += own[:, :, self.n :]
                    s = carried
        return path[-1], s

    def _steps(self, law: PowerSum, x: Array, h: Array, drift: Array) -> Array:
        """[Phi, Theta] of single Runge-Kutta steps, [steps, B, n, n + constants]."""
        shape, x, h = x.shape, x.reshape(-1, self.n), h.ravel()
        drift = np.broadcast_to(drift, shape).reshape(x.shape)
        s = np.zeros((len(x), self.n, self.n + self.n_constants))
        s[:, :, : self.n] = np.diag(self.own)
        hx, hs = h[:, None], h[:, None, None]
        k1, l1 = self._variational(law, x, s, drift)
        k2, l2 = self._variational(law, x + hx * k1 / 2, s + hs * l1 / 2, drift)
        k3, l3 = self._variational(law, x + hx * k2 / 2, s + hs * l2 / 2, drift)
        _, l4 = self._variational(law, x + hx * k3, s + hs * l3, drift)
        s = s + hs * (l1 + 2 * l2 + 2 * l3 + l4) / 6
        return s.reshape(*shape[:2], *s.shape[1:])

    def _variational(self, law: PowerSum, x: Array, s: Array, drift: Array) -> tuple[Array, Array]:
        """dx/dt [B, n] and d[Phi, Theta]/dt [B, n, n + constants] for x [B, n]."""
        a, w, n = expanded(law).coefficients, law.exponents, self.n
        (ai, aj), (wj, wk) = self.a_places, self.w_places
        y, last = x, n + len(ai) + len(wj)
        if law.inputs is not None:
            y, slopes, inner = law.inputs.linearised(x, self.free[2:])
        m, dm = power_slopes(y, w)
        to_input = a @ dm
        ds = (to_input if law.inputs is None else to_input @ slopes) @ s
        if law.mix is None:
            ds[:, ai, n + np.arange(len(ai))] += m[:, aj]
        else:
            ds[:, :, n : n + len(ai)] += law.mix[:, ai] * m[:, None, aj]
        log_y = np.log(np.maximum(np.abs(y), TINY))
        ds[:, :, n + len(ai) : last] += a[:, wj] * (m[:, wj] * log_y[:, wk])[:, None, :]
        if law.inputs is not None:
            ds[:, :, last:] += to_input @ inner
        return m @ a.T + drift, ds


def sensitivities(law: PowerSum, free: Free, start: Array, run: Trajectory) -> tuple[Array, Array] | None:
    """x(t) [times, states] and d x / d (free constants, start) [times, states, constants + states].

    Args:
        start: the states at the first time, dimensionless as the law, without inputs.
        run: times, and the inputs there; its values do not count.

    Returns:
        None where the law blows up.
    """
    n, own = law.n_states, len(start)
    names = tuple(map(str, range(n)))
    one = TimeSeries(names, (run,), inputs=names[own:])
    model = Model(law, one, np.ones(n), free, Starts(np.zeros(own, dtype=bool)), ())
    x = integrate(law, start, run, RTOL)
    if x is None:
        return None
    model.rtol = RTOL
    first = np.hstack([np.zeros((n, model.n_constants)), np.eye(n)[:, :own]])
    blocks = model._chained(model._sensitivities(law, [x])[0], first)
    return None if blocks is None else (x, blocks)
