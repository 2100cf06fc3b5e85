"""The constants of a law refined on whole trajectories, with standard errors.

    minimise  sum over trajectories, samples, states of ((x(t; theta, x0) - data) / sigma)^2

over coefficients, exponents and start values, with scipy's LSODA at tight tolerance: an
adaptive solver of another family than training used, so what training owed to its own solver
does not reach the printed constants. The Jacobian comes from the variational equations

    dS/dt = (df/dx) S + df/dtheta,

integrated over all sample intervals side by side from the accurate states, and the covariance
of the constants is (J^T J)^-1 at the minimum.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.integrate import odeint
from scipy.optimize import least_squares

from odediscovery.cost import Free, all_free, count
from odediscovery.powersum import TINY, Array, Mask, PowerSum, expanded, power_slopes, vector_field
from odediscovery.series import TimeSeries
from odediscovery.starts import Starts, Sums

# of clean data; in noise the share of its standard deviation that the solver may add.
RTOL, LOOSEST, OF_NOISE = 1e-9, 1e-6, 1e-5
# Relative tolerance over the absolute one (states have an rms of 1).
RELATIVE = 100.0
# What scipy's odeint says of a solve that went well.
DONE = "Integration successful."
# A solve that needs more evaluations than this has met a singularity or a stiff wall.
MOST_EVALUATIONS, EVALUATIONS_EACH = 5_000, 100
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
        initial: fitted start values [trajectories, states].
        covariance: of the free constants, in the order of `free` (no start values).
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
    covariance: Array
    free: Free
    squares: Array
    counts: Array
    finite: bool
    plain_squares: Array


class Model:
    """Residuals and Jacobian of one law; the unknowns are A, W, then the starts' roots."""

    def __init__(self, law: PowerSum, series: TimeSeries, sigma: Array, free: Free,
                 starts: Starts, shape: Sequence[Array]) -> None:  # fmt: skip
        self.law, self.series, self.shape = law, series, shape
        self.sigma, self.rtol = sigma, tolerance(sigma)
        self.free, self.starts = free, starts
        self.a_places, self.w_places = np.nonzero(free[0]), np.nonzero(free[1])
        self.n_constants = count(free)
        self.n = law.n_states

    def pack(self, initial: Array) -> Array:
        """Unknowns of the present law and start values."""
        # A root of exactly 0 has no gradient and would never leave.
        q = self.starts.roots(initial, 0.1 * self.sigma)
        constants = zip(self.law.constants, self.free, strict=True)
        return np.concatenate([*(values[free] for values, free in constants), q.ravel()])

    def unpack(self, u: Array) -> tuple[PowerSum, Array]:
        """Law and start values [trajectories, states] of the unknowns."""
        law = self.law.with_constants(*filled(self.law.constants, self.free, u[: self.n_constants]))
        return law, self.starts.values(u[self.n_constants :].reshape(-1, self.n))

    def evaluate(self, u: Array) -> tuple[Array, Array] | None:
        """Weighted residuals [R] and Jacobian [R, unknowns]; None if the law blows up."""
        law, initial = self.unpack(u)
        n, k = self.n, self.n_constants
        paths = []
        for start, t in zip(initial, self.series.trajectories, strict=True):
            x = _integrate(law, start, t.time, self.rtol)
            if x is None:
                return None
            paths.append(x)
        own = self._sensitivities(law, paths)
        residuals, jacobians = [], []
        for i, (t, x, steps) in enumerate(zip(self.series.trajectories, paths, own, strict=True)):
            place = slice(k + i * n, k + (i + 1) * n)
            chain = self.starts.slopes(u[place])
            blocks = self._chained(steps, np.hstack([np.zeros((n, k)), chain]))
            if blocks is None:
                return None
            seen = np.isfinite(t.values)
            sigma = self.sigma * self.shape[i]
            r = np.where(seen, (x - np.nan_to_num(t.values)) / sigma, 0.0)
            jac = np.zeros((len(t.time), n, len(u)))
            jac[..., :k], jac[..., place] = blocks[..., :k], blocks[..., k:]
            jac *= (seen / sigma)[..., None]
            residuals.append(r.ravel())
            jacobians.append(jac.reshape(-1, len(u)))
        return np.concatenate(residuals), np.concatenate(jacobians)

    def _chained(self, own: Array, first: Array) -> Array | None:
        """d x / d (constants, own start) at every sample, [samples, n, constants + n].

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
            end, s[todo] = self._runge_kutta(law, start[todo], duration[todo], steps, spread)
            off = (np.abs(end - target[todo]) / (scale[todo] + 1e-12)).max(axis=1)
            # Too long a step makes a fast decay grow: what has died out does not show it itself.
            grown = np.abs(s[todo][:, :, : self.n]).max(axis=(1, 2)) > GROWN
            todo = todo[~(off < accuracy) | grown]
            if not len(todo):
                break
        return np.split(s, np.cumsum([len(t) - 1 for t in times])[:-1])

    def _runge_kutta(
        self, law: PowerSum, x: Array, duration: Array, steps: int, spread: float
    ) -> tuple[Array, Array]:
        tau = np.linspace(0.0, 1.0, steps + 1)
        grid = tau if spread == 0.0 else np.expm1(spread * tau) / np.expm1(spread)
        s = np.zeros((len(x), self.n, self.n + self.n_constants))
        s[:, :, : self.n] = np.eye(self.n)
        with np.errstate(all="ignore"):
            for step in np.diff(grid):
                h = step * duration
                hx, hs = h[:, None], h[:, None, None]
                k1, l1 = self._variational(law, x, s)
                k2, l2 = self._variational(law, x + hx * k1 / 2, s + hs * l1 / 2)
                k3, l3 = self._variational(law, x + hx * k2 / 2, s + hs * l2 / 2)
                k4, l4 = self._variational(law, x + hx * k3, s + hs * l3)
                x = x + hx * (k1 + 2 * k2 + 2 * k3 + k4) / 6
                s = s + hs * (l1 + 2 * l2 + 2 * l3 + l4) / 6
        return x, s

    def _variational(self, law: PowerSum, x: Array, s: Array) -> tuple[Array, Array]:
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
        return m @ a.T, ds


def tolerance(sigma: Array) -> float:
    """Relative tolerance of solves that are compared with residuals of size sigma [states]."""
    return float(np.clip(OF_NOISE * np.min(sigma), RTOL, LOOSEST))


class _TooLong(Exception):
    """The solver was given up."""


def _integrate(law: PowerSum, start: Array, times: Array, rtol: float = RTOL) -> Array | None:
    """States at `times` [n, states], None where the law blows up or the solver is lost."""
    count, most, dx_dt = 0, MOST_EVALUATIONS + EVALUATIONS_EACH * len(times), vector_field(law)

    def rates(t: float, x: Array) -> Array:
        nonlocal count
        count += 1
        if count > most:
            raise _TooLong
        return dx_dt(t, x)

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # LSODA reports trouble by warnings; None says it better
        try:
            y, how = odeint(rates, start, times, tfirst=True, full_output=True, rtol=rtol,
                            atol=rtol / RELATIVE, mxstep=most)  # fmt: skip
        except (_TooLong, ValueError, FloatingPointError):
            return None
    found: Array = y
    return found if how["message"] == DONE and np.isfinite(found).all() else None


def residual_squares(
    law: PowerSum, series: TimeSeries, initial: Array, shape: Sequence[Array] | None = None,
    rtol: float = RTOL,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """Sums of squared residuals, weighted and plain, and number of values of every state.

    Args:
        shape: noise of each sample relative to the others (default: all alike).
        rtol: relative tolerance of the solver.
    """
    squares, plain, counts = (np.zeros(law.n_states) for _ in range(3))
    shape = shape or [np.ones_like(t.values) for t in series.trajectories]
    for r, t, s in zip(residuals(law, series, initial, rtol), series.trajectories, shape,
                       strict=True):  # fmt: skip
        counts += np.isfinite(t.values).sum(axis=0)
        of_noise = np.nansum((r / s) ** 2, axis=0)
        lost = np.isinf(r).any()
        squares += np.inf if lost else of_noise
        plain += np.inf if lost else np.nansum(r**2, axis=0)
    return squares, plain, counts


def solutions(law: PowerSum, series: TimeSeries, initial: Array, rtol: float = RTOL) -> list[Array]:
    """The law's states at all times [samples, states] a trajectory, inf where it blows up."""
    found = []
    for t, x0 in zip(series.trajectories, initial, strict=True):
        y = _integrate(law, x0, t.time, rtol)
        found.append(np.full_like(t.values, np.inf) if y is None else y)
    return found


def residuals(law: PowerSum, series: TimeSeries, initial: Array, rtol: float = RTOL) -> list[Array]:
    """Law minus data [samples, states] a trajectory: nan where missing, inf where it blows up."""
    found = solutions(law, series, initial, rtol)
    return [y - t.values for y, t in zip(found, series.trajectories, strict=True)]


def polish(
    law: PowerSum, series: TimeSeries, initial: Array, sigma: Array, *, floor: Array,
    nonnegative: Mask, free: Free | None = None, most: int = 25,
    shape: Sequence[Array] | None = None, sums: Sums = (),
) -> Polished:  # fmt: skip
    """The law's non-zero constants and start values at the maximum of the likelihood.

    Args:
        law: dimensionless, in the units of `series`.
        initial: start values to begin from [trajectories, states].
        sigma: standard deviation of the residuals of every state [states].
        floor: standard deviation that rounding and integration alone explain [states]; no
            standard error is computed from smaller residuals.
        nonnegative: states whose start value is fitted through its square root.
        free: which constants are fitted (default: all that are not zero).
        most: most evaluations of the Jacobian.
        shape: noise of each sample relative to the others, [samples, states] a trajectory
            (default: all alike).
        sums: conserved sums with their values, which the start values keep.

    Returns:
        The refined law; the given one with `finite=False` if it cannot be integrated.
    """
    free = free or all_free(law)
    shape = shape or [np.ones_like(t.values) for t in series.trajectories]
    model = Model(law, series, sigma, free, Starts(nonnegative, tuple(sums)), shape)
    u = model.pack(initial)
    now = model.evaluate(u)
    if now is not None and len(u):
        u, now = _least_squares(model, u, now, most)
    law, initial = model.unpack(u)
    squares, plain, counts = residual_squares(law, series, initial, shape, model.rtol)
    if now is None:
        nothing = law.with_constants(*(np.full_like(c, np.nan) for c in law.constants))
        size = model.n_constants
        return Polished(law, nothing, initial, np.full((size, size), np.nan), free, squares,
                        counts, finite=False, plain_squares=plain)  # fmt: skip
    covariance = _covariance(now[1], squares, counts, floor, model)
    errors = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    a, w, b, v = (np.zeros_like(c) for c in law.constants)
    of_law = law.with_constants(*filled((a, w, b, v), free, errors))
    return Polished(law, of_law, initial, covariance, free, squares, counts, finite=True,
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


def _covariance(jac: Array, squares: Array, counts: Array, floor: Array, model: Model) -> Array:
    """Covariance of the constants with each state's sigma re-estimated from its residuals."""
    dof = np.maximum(counts - jac.shape[1] / max(np.count_nonzero(counts), 1), 1.0)
    found = np.maximum(np.sqrt(squares / dof), floor)
    per_row = np.concatenate(
        [np.broadcast_to(model.sigma / found, t.values.shape).ravel()
         for t in model.series.trajectories]
    )  # fmt: skip
    jac = jac * per_row[:, None]
    norms = np.linalg.norm(jac, axis=0)
    norms[norms == 0] = 1.0
    jac = jac / norms
    inverse = np.linalg.pinv(jac.T @ jac, rcond=1e-13, hermitian=True)
    covariance: Array = inverse / norms[:, None] / norms[None, :]
    return covariance[: model.n_constants, : model.n_constants]
