"""The constants of a law refined on whole trajectories, with standard errors.

    minimise  sum over trajectories, samples, states of ((x(t; theta, x0) - data) / sigma)^2

over coefficients, exponents and start values, with scipy's LSODA at tight tolerance: an
adaptive solver of another family than training used, so what training owed to its own solver
does not reach the printed constants. The Jacobian comes from the variational equations

    dS/dt = (df/dx) S + df/dtheta,

and the covariance of the constants is (J^T J)^-1 at the minimum.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import solve_ivp
from scipy.optimize import least_squares

from odediscovery.cost import all_free
from odediscovery.powersum import TINY, Array, PowerSum
from odediscovery.series import TimeSeries

RTOL, ATOL = 1e-9, 1e-11
# A solve that needs more evaluations than this has met a singularity or a stiff wall.
MOST_EVALUATIONS = 10_000
# Least start of a nonnegative state, in units of its rms: from exactly 0 a law with sqrt(x) may
# leave or stay, and its sensitivity is infinite.
LEAST_START = 1e-8


@dataclass(frozen=True, eq=False)
class Polished:
    """A law with refined constants.

    Args:
        law: the refined constants, in the units of the data given.
        errors: standard errors in the same places; 0 for what was held fixed.
        initial: fitted start values [trajectories, states].
        covariance: of the free constants, in the order of `free` (no start values).
        free: (bool like coefficients, bool like exponents), what was fitted.
        squares: sum of squared residuals of every state [states], in the data's units.
        counts: observed values of every state [states].
        finite: whether the law could be integrated through all trajectories.
    """

    law: PowerSum
    errors: PowerSum
    initial: Array
    covariance: Array
    free: tuple[NDArray[np.bool_], NDArray[np.bool_]]
    squares: Array
    counts: Array
    finite: bool


class _Model:
    """Residuals and Jacobian of one law; the unknowns are A, W, then the starts' roots."""

    def __init__(self, law: PowerSum, series: TimeSeries, sigma: Array,
                 free: tuple[NDArray[np.bool_], NDArray[np.bool_]],
                 nonnegative: NDArray[np.bool_]) -> None:  # fmt: skip
        self.law, self.series, self.sigma = law, series, sigma
        self.free, self.nonnegative = free, nonnegative
        self.a_places = np.argwhere(free[0])
        self.w_places = np.argwhere(free[1])
        self.n_constants = len(self.a_places) + len(self.w_places)
        self.n = law.n_states
        # A root of exactly 0 has no gradient and would never leave.
        self.awake = np.maximum(0.1 * sigma, LEAST_START)

    def pack(self, initial: Array) -> Array:
        """Unknowns of the present law and start values."""
        least = np.maximum(initial, self.awake)
        q = np.where(self.nonnegative, np.sqrt(least), initial)
        return np.concatenate(
            [self.law.coefficients[self.free[0]], self.law.exponents[self.free[1]], q.ravel()]
        )

    def unpack(self, u: Array) -> tuple[PowerSum, Array]:
        """Law and start values [trajectories, states] of the unknowns."""
        a, w = self.law.coefficients.copy(), self.law.exponents.copy()
        n_a = len(self.a_places)
        a[self.free[0]], w[self.free[1]] = u[:n_a], u[n_a : self.n_constants]
        q = u[self.n_constants :].reshape(-1, self.n)
        return PowerSum(a, w), np.where(self.nonnegative, np.maximum(q * q, LEAST_START), q)

    def _variational(self, law: PowerSum, width: int) -> Callable[[float, Array], Array]:
        """d/dt of (x, S) flattened, S [n, n + constants]."""
        a, w, n = law.coefficients, law.exponents, self.n
        whole = w == np.round(w)
        ai, aj = self.a_places.T if len(self.a_places) else np.zeros((2, 0), dtype=int)
        wj, wk = self.w_places.T if len(self.w_places) else np.zeros((2, 0), dtype=int)
        a_col = n + np.arange(len(ai))
        w_col = slice(n + len(ai), n + self.n_constants)
        eye = np.eye(n, dtype=bool)[None]
        count = 0

        def rates(t: float, y: Array) -> Array:
            nonlocal count
            count += 1
            if count > MOST_EVALUATIONS:
                raise _TooLong
            x, s = y[:n], y[n:].reshape(n, width)
            base = np.where(whole, x, np.maximum(x, TINY))
            powers = base**w
            slopes = w * base ** (w - 1.0)
            slopes[w == 0] = 0.0
            m = powers.prod(axis=1)
            dm = np.where(eye, slopes[:, :, None], powers[:, None, :]).prod(axis=2)
            out = np.empty_like(y)
            out[:n] = a @ m
            ds = (a @ dm) @ s
            ds[ai, a_col] += m[aj]
            log_x = np.log(np.maximum(np.abs(x), TINY))
            ds[:, w_col] += a[:, wj] * (m[wj] * log_x[wk])
            out[n:] = ds.ravel()
            return out

        return rates

    def evaluate(self, u: Array) -> tuple[Array, Array] | None:
        """Weighted residuals [R] and Jacobian [R, unknowns]; None if the law blows up."""
        law, initial = self.unpack(u)
        n, n_traj = self.n, len(initial)
        width = n + self.n_constants
        residuals, jacobians = [], []
        for i, t in enumerate(self.series.trajectories):
            y0 = np.concatenate([initial[i], np.eye(n, width).ravel()])
            solution = _integrate(self._variational(law, width), y0, t.time)
            if solution is None:
                return None
            x, s = solution[:, :n], solution[:, n:].reshape(-1, n, width)
            seen = np.isfinite(t.values)
            r = np.where(seen, (x - np.nan_to_num(t.values)) / self.sigma, 0.0)
            jac = np.zeros((len(t.time), n, self.n_constants + n_traj * n))
            jac[..., : self.n_constants] = s[..., n:]
            q = u[self.n_constants + i * n : self.n_constants + (i + 1) * n]
            chain = np.where(self.nonnegative, 2.0 * q, 1.0)
            jac[..., self.n_constants + i * n : self.n_constants + (i + 1) * n] = s[..., :n] * chain
            jac *= (seen / self.sigma)[..., None]
            residuals.append(r.ravel())
            jacobians.append(jac.reshape(-1, jac.shape[-1]))
        return np.concatenate(residuals), np.concatenate(jacobians)


class _TooLong(Exception):
    """The solver was given up."""


def _integrate(rates: Callable[[float, Array], Array], y0: Array, times: Array) -> Array | None:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # LSODA reports trouble by warnings; None says it better
        try:
            solution = solve_ivp(rates, (times[0], times[-1]), y0, method="LSODA", t_eval=times,
                                 rtol=RTOL, atol=ATOL)  # fmt: skip
        except (_TooLong, ValueError, FloatingPointError):
            return None
    y: Array = solution.y.T
    return y if solution.success and len(y) == len(times) and np.isfinite(y).all() else None


def residual_squares(
    law: PowerSum, series: TimeSeries, initial: Array
) -> tuple[Array, Array, bool]:
    """Sum of squared residuals and number of observed values of every state, and finiteness."""
    squares, counts = np.zeros(law.n_states), np.zeros(law.n_states)
    finite = True
    for t, x0 in zip(series.trajectories, initial, strict=True):
        y = _integrate(lambda _, x: law.rates(x), x0, t.time)
        seen = np.isfinite(t.values)
        counts += seen.sum(axis=0)
        if y is None:
            finite = False
            squares += np.inf
            continue
        squares += np.where(seen, (y - np.nan_to_num(t.values)) ** 2, 0.0).sum(axis=0)
    return squares, counts, finite


def polish(
    law: PowerSum, series: TimeSeries, initial: Array, sigma: Array, *, floor: Array,
    nonnegative: NDArray[np.bool_], free: tuple[NDArray[np.bool_], NDArray[np.bool_]] | None = None,
    most: int = 20,
) -> Polished:  # fmt: skip
    """The law's non-zero constants and start values at the maximum of the likelihood.

    Args:
        law: dimensionless, in the units of `series`.
        initial: start values to begin from [trajectories, states].
        sigma: standard deviation of the residuals of every state [states].
        floor: standard deviation that rounding and integration alone explain [states]; no
            standard error is computed from smaller residuals.
        nonnegative: states whose start value is fitted through its square root.
        free: which coefficients and exponents are fitted (default: all that are not zero).
        most: most evaluations of the Jacobian.

    Returns:
        The refined law; the given one with `finite=False` if it cannot be integrated.
    """
    free = free or all_free(law)
    model = _Model(law, series, sigma, free, nonnegative)
    u = model.pack(initial)
    now = model.evaluate(u)
    if now is not None and len(u):
        u, now = _least_squares(model, u, now, most)
    law, initial = model.unpack(u)
    squares, counts, _ = residual_squares(law, series, initial)
    if now is None:
        nothing = PowerSum(np.full_like(law.coefficients, np.nan),
                           np.full_like(law.exponents, np.nan))  # fmt: skip
        size = model.n_constants
        return Polished(law, nothing, initial, np.full((size, size), np.nan), free, squares,
                        counts, finite=False)  # fmt: skip
    covariance = _covariance(now[1], squares, counts, floor, model)
    errors = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    a, w = np.zeros_like(law.coefficients), np.zeros_like(law.exponents)
    a[free[0]], w[free[1]] = errors[: len(model.a_places)], errors[len(model.a_places) :]
    return Polished(law, PowerSum(a, w), initial, covariance, free, squares, counts, finite=True)


def _least_squares(
    model: _Model, u: Array, now: tuple[Array, Array], most: int
) -> tuple[Array, tuple[Array, Array]]:
    cache: dict[bytes, tuple[Array, Array] | None] = {u.tobytes(): now}

    def at(v: Array) -> tuple[Array, Array] | None:
        key = v.tobytes()
        if key not in cache:
            cache.clear()
            cache[key] = model.evaluate(v)
        return cache[key]

    wall = np.full_like(now[0], 1e8)  # a law that blows up is worse than any other

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


def _covariance(jac: Array, squares: Array, counts: Array, floor: Array, model: _Model) -> Array:
    """Covariance of the constants with each state's sigma re-estimated from its residuals."""
    dof = np.maximum(counts - jac.shape[1] / len(counts), 1.0)
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
