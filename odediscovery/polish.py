"""The constants of a law refined on whole trajectories, with standard errors.

    minimise  sum over trajectories, samples, states of ((x(t; theta, x0) - data) / sigma)^2

over coefficients, exponents and start values, with scipy's LSODA at tight tolerance: an
adaptive solver of another family than training used, so what training owed to its own solver
does not reach the printed constants. The Jacobian comes from the variational equations

    dS/dt = (df/dx) S + df/dtheta,

integrated over all sample intervals side by side from the accurate states, and the covariance
of constants and start values is (J^T J)^-1 at the minimum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import block_diag
from scipy.optimize import least_squares

from odediscovery.cost import Free, all_free, count
from odediscovery.covariance import Covariance
from odediscovery.powersum import (
    TINY,
    Array,
    Mask,
    PowerSum,
    expanded,
    power_slopes,
    vector_field,
)
from odediscovery.series import TimeSeries, Trajectory
from odediscovery.signals import drifts
from odediscovery.solutions import RTOL, integrate, residual_squares, tolerance
from odediscovery.starts import Starts, Sums

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


@dataclass(frozen=True, eq=False)
class Polished:
    """A law with refined constants.

    Args:
        law: the refined constants, in the units of the data given.
        errors: standard errors in the same places; 0 for what was held fixed.
        initial: fitted start values [trajectories, states], without inputs.
        joint: how well the free constants, in the order of `free`, and behind them the start
            values, trajectory by trajectory, are known together.
        free: what was fitted.
        squares: sum of squared residuals of every state [states], in the data's units; noisier
            samples weigh less.
        plain_squares: the same with all samples alike.
        counts: observed values of every state [states].
        finite: whether the law could be integrated through all trajectories.
    """

    law: PowerSum
    errors: PowerSum
    initial: Array
    joint: Covariance
    free: Free
    squares: Array
    counts: Array
    finite: bool
    plain_squares: Array

    @property
    def covariance(self) -> Array:
        """Of the free constants, [constants, constants]; huge where the data do not tell."""
        k = count(self.free)
        return self.joint.matrix[:k, :k]

    def widened(self, factor: float) -> Polished:
        """The same with standard errors that are larger by a factor."""
        errors = self.law.with_constants(*(factor * e for e in self.errors.constants))
        return replace(self, errors=errors, joint=self.joint.widened(factor))


class Model:
    """Residuals and Jacobian of one law; the unknowns are A, W, then the starts' roots."""

    def __init__(self, law: PowerSum, series: TimeSeries, sigma: Array, free: Free,
                 starts: Starts, shape: Sequence[Array]) -> None:  # fmt: skip
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
        """Weighted residuals [R] and Jacobian [R, unknowns]; None if the law blows up."""
        law, initial = self.unpack(u)
        n, k, starts = self.n, self.n_constants, int(self.own.sum())
        paths = []
        for start, t in zip(initial, self.series.trajectories, strict=True):
            x = integrate(law, start, t, self.rtol)
            if x is None:
                return None
            paths.append(x)
        own = self._sensitivities(law, paths)
        residuals, jacobians = [], []
        for i, (t, x, steps) in enumerate(zip(self.series.trajectories, paths, own, strict=True)):
            place = slice(k + i * starts, k + (i + 1) * starts)
            chain = np.eye(n)[:, self.own] @ self.starts.slopes(u[place])
            blocks = self._chained(steps, np.hstack([np.zeros((n, k)), chain]))
            if blocks is None:
                return None
            seen = np.isfinite(t.values) & self.own
            sigma = self.sigma * self.shape[i]
            r = np.where(seen, (x - np.nan_to_num(t.values)) / sigma, 0.0)
            jac = np.zeros((len(t.time), n, len(u)))
            jac[..., :k], jac[..., place] = blocks[..., :k], blocks[..., k:]
            jac *= (seen / sigma)[..., None]
            residuals.append(r.ravel())
            jacobians.append(jac.reshape(-1, len(u)))
        return np.concatenate(residuals), np.concatenate(jacobians)

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
            end, s[todo] = self._runge_kutta(law, start[todo], duration[todo], self.drift[todo],
                                             steps, spread)  # fmt: skip
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

    def _variational(self, law: PowerSum, x: Array, s: Array,
                     drift: Array) -> tuple[Array, Array]:  # fmt: skip
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


def sensitivities(
    law: PowerSum, free: Free, start: Array, run: Trajectory
) -> tuple[Array, Array] | None:
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


def polish(
    law: PowerSum, series: TimeSeries, initial: Array, sigma: Array, *, floor: Array,
    nonnegative: Mask, free: Free | None = None, most: int = 25,
    shape: Sequence[Array] | None = None, sums: Sums = (),
) -> Polished:  # fmt: skip
    """The law's non-zero constants and start values at the maximum of the likelihood.

    Args:
        law: dimensionless, in the units of `series`.
        initial: start values to begin from [trajectories, states], without inputs.
        sigma: standard deviation of the residuals of every state [states].
        floor: standard deviation that rounding and integration alone explain [states]; no
            standard error is computed from smaller residuals.
        nonnegative: states whose start value is fitted through its square root.
        free: which constants are fitted (default: all that are not zero).
        most: most evaluations of the Jacobian; 0 takes constants and starts as they are.
        shape: noise of each sample relative to the others, [samples, states] a trajectory
            (default: all alike).
        sums: conserved sums with their values, which the start values keep.

    Returns:
        The refined law; the given one with `finite=False` if it cannot be integrated.
    """
    free = free or all_free(law)
    shape = shape or [np.ones_like(t.values) for t in series.trajectories]
    starts = Starts(nonnegative[~series.driven], tuple(sums))
    model = Model(law, series, sigma, free, starts, shape)
    u = model.pack(initial)
    now = model.evaluate(u)
    if now is not None and len(u) and most:
        u, now = _least_squares(model, u, now, most)
    law, initial = model.unpack(u)
    squares, plain, counts = residual_squares(law, series, initial, shape, model.rtol)
    unknown = np.nan if now is None else 0.0
    nothing = law.with_constants(*(np.full_like(c, unknown) for c in law.constants))
    if now is None:
        return Polished(law, nothing, initial, Covariance.nothing_known(len(u)), free, squares,
                        counts, finite=False, plain_squares=plain)  # fmt: skip
    # Each state's sigma anew from its residuals, and starts from their roots.
    fitted = len(u) / max(int(np.count_nonzero(counts)), 1)
    left = np.sqrt(squares / np.maximum(counts - fitted, 1.0))
    own = sigma / np.maximum(left, floor)
    rows = [np.broadcast_to(own, t.values.shape).ravel() for t in series.trajectories]
    roots = u[model.n_constants :].reshape(initial.shape)
    slopes = block_diag(np.eye(model.n_constants), *map(starts.slopes, roots))
    joint = Covariance.of(now[1] * np.concatenate(rows)[:, None]).transformed(slopes)
    errors = np.sqrt(np.maximum(np.diag(joint.matrix)[: model.n_constants], 0.0))
    of_law = law.with_constants(*filled(nothing.constants, free, errors))
    return Polished(law, of_law, initial, joint, free, squares, counts, finite=True,
                    plain_squares=plain)  # fmt: skip


def filled(
    constants: tuple[Array, Array, Array, Array], free: Free, values: Array
) -> tuple[Array, Array, Array, Array]:
    """The constants with the free ones replaced by `values`, in order."""
    a, w, b, v = (c.copy() for c in constants)
    parts = np.split(values, np.cumsum([mask.sum() for mask in free])[:-1])
    for changed, mask, part in zip((a, w, b, v), free, parts, strict=True):
        changed[mask] = part
    return a, w, b, v


def _least_squares(
    model: Model, u: Array, now: tuple[Array, Array], most: int
) -> tuple[Array, tuple[Array, Array]]:
    cache: dict[bytes, tuple[Array, Array] | None] = {u.tobytes(): now}

    def at(v: Array) -> tuple[Array, Array] | None:
        key = v.tobytes()
        if key not in cache:
            cache.clear()
            cache[key] = model.evaluate(v)
        return cache[key]

    # A law that blows up is worse than any other, also than where a poor one begins.
    wall = np.full_like(now[0], 1e8 * max(1.0, float(np.abs(now[0]).max())))

    def residual(v: Array) -> Array:
        value = at(v)
        return wall if value is None else value[0]

    def jacobian(v: Array) -> Array:
        value = at(v)
        assert value is not None  # scipy asks for the Jacobian of accepted points only
        return value[1]

    found = least_squares(residual, u, jacobian, method="trf", x_scale="jac", max_nfev=most,
                          xtol=1e-10, ftol=1e-9, gtol=1e-12)  # fmt: skip
    best = model.evaluate(found.x)
    if best is None or np.sum(best[0] ** 2) > np.sum(now[0] ** 2):
        return u, now
    return found.x, best
