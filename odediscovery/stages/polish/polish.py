"""The constants of a law refined on whole trajectories, with standard errors.

    minimise  sum over trajectories, samples, states of ((x(t; theta, x0) - data) / sigma)^2

over coefficients, exponents and start values, with scipy's LSODA at tight tolerance: an
adaptive solver of another family than training used, so what training owed to its own solver
does not reach the printed constants. The Jacobian comes from the variational equations
(`solve/sensitivities.py`), and the covariance of constants and start values is (J^T J)^-1 at the minimum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import block_diag
from scipy.optimize import least_squares

from odediscovery.data.series import TimeSeries
from odediscovery.laws.cost import Free, count, filled
from odediscovery.laws.estimates import Covariance
from odediscovery.laws.power_sum import PowerSum
from odediscovery.runtime.arrays import Array, Mask
from odediscovery.solve.initial_values import Starts, Sums, known_starts
from odediscovery.solve.sensitivities import Evaluation, TrajectoryResiduals
from odediscovery.solve.trajectories import residual_squares, tolerance
from odediscovery.stages.values import Law, Polished, PolishedLaw


@dataclass(frozen=True)
class PolishThresholds:
    """When the constants are at the maximum of the likelihood."""

    steps: int = 25  # most evaluations of the Jacobian
    wall: float = 1e8  # residuals of a law that blows up [largest residual at the start]
    xtol: float = 1e-10  # change of the unknowns below which they have converged [relative]
    ftol: float = 1e-9  # change of the sum of squares below which it has converged [relative]
    # gain of a step below which a law in noise that is compared with others has converged [of the criterion]; a
    # hundredth of what counts as evidence; along a curved valley such steps go on for hundreds
    gain: float = 0.05


POLISHING = PolishThresholds()


def polish(
    law: Law,
    series: TimeSeries,
    initial: Array,
    sigma: Array,
    *,
    floor: Array,
    nonnegative: Mask,
    free: Free | None = None,
    most: int | None = None,
    relative_sigma: Sequence[Array] | None = None,
    sums: Sums = (),
    fully: bool = True,
    ftol: float | None = None,
) -> PolishedLaw[Law]:
    """The law's non-zero constants and start values at the maximum of the likelihood.

    Args:
        law: dimensionless, in the units of `series`.
        initial: start values to begin from [trajectories, states], without controls.
        sigma: standard deviation of the residuals of every state [states].
        floor: standard deviation that rounding and integration alone explain [states]; no
            standard error is computed from smaller residuals.
        nonnegative: states whose start value is fitted through its square root.
        free: which constants are fitted (default: all that are not zero).
        most: most evaluations of the Jacobian (default: `POLISHING.steps`); 0 takes constants and starts as they are.
        relative_sigma: noise of each sample relative to the others, [samples, states] a trajectory
            (default: all alike).
        sums: conserved sums with their values, which the start values keep.
        fully: whether constants are wanted as near to the maximum as can be, not only the likelihood.
        ftol: relative change of the squares that ends the fit (default: `POLISHING.ftol`, or by `fully`).

    Returns:
        The refined law; the given one with `finite=False` if it cannot be integrated.
    """
    most = POLISHING.steps if most is None else most
    a, w, b, v = law.constants
    free = free or (a != 0, w != 0, b != 0, v != 0)
    relative_sigma = relative_sigma or [np.ones_like(t.values) for t in series.trajectories]
    starts = Starts(nonnegative[~series.is_control], tuple(sums), known_starts(series))
    model = TrajectoryResiduals(law, series, sigma, free, starts, relative_sigma)
    u = model.pack(initial)
    now = model.evaluate(u)
    if now is not None and len(u) and most:
        if ftol is None:
            roughly = not fully and bool((sigma > floor).any())
            ftol = max(POLISHING.gain / len(now.residual) if roughly else 0.0, POLISHING.ftol)
        u, now = minimise(model, u, now, most, ftol)
    refined, initial = model.unpack(u)
    law = law.with_constants(*refined.constants)
    squares, plain, counts = model.squares(None if now is None else now.residual)
    unknown = np.nan if now is None else 0.0
    nothing = law.with_constants(*(np.full_like(c, unknown) for c in law.constants))
    if now is None:
        unknown_joint = Covariance.nothing_known(len(u))
        return PolishedLaw(
            law, nothing, initial, unknown_joint, free, squares, counts, finite=False, plain_squares=plain
        )
    fitted = len(u) / max(int(np.count_nonzero(counts)), 1)
    left = np.sqrt(squares / np.maximum(counts - fitted, 1.0))
    # Each state's sigma anew from its residuals, and starts from their roots.
    own = sigma / np.maximum(left, floor)
    joint = _covariance(model, series, own, starts, u[model.n_constants :].reshape(initial.shape), now)
    errors = np.sqrt(np.maximum(np.diag(joint.matrix)[: model.n_constants], 0.0))
    of_law = law.with_constants(*filled(nothing.constants, free, errors))
    return PolishedLaw(law, of_law, initial, joint, free, squares, counts, finite=True, plain_squares=plain)


def as_it_is(
    law: PowerSum, series: TimeSeries, initial: Array, sigma: Array, free: Free, relative_sigma: Sequence[Array]
) -> Polished:
    """The law and its starts, integrated once and not refined: nothing is known of errors.

    For when there is no time left; the arguments are those of `polish`.
    """
    squares, plain, counts = residual_squares(law, series, initial, relative_sigma, tolerance(sigma))
    unknown = law.with_constants(*(np.full_like(c, np.nan) for c in law.constants))
    joint = Covariance.nothing_known(count(free) + initial.size)
    finite = bool(np.isfinite(squares).all())
    return Polished(law, unknown, initial, joint, free, squares, counts, finite=finite, plain_squares=plain)


def _covariance(
    model: TrajectoryResiduals, series: TimeSeries, factor: Array, starts: Starts, roots: Array, now: Evaluation
) -> Covariance:
    """(J^T J)^-1 of constants and start values, the rows of each state times a factor [states]."""
    rows = [np.broadcast_to(factor, t.values.shape).ravel() for t in series.trajectories]
    slopes = block_diag(np.eye(model.n_constants), *(starts.slopes(q, j) for j, q in enumerate(roots)))
    return Covariance.of(now.jacobian * np.concatenate(rows)[:, None]).transformed(slopes)


class _Remembered:
    """The law at the point that was asked for last: scipy asks for residuals and Jacobian one after the other."""

    def __init__(self, model: TrajectoryResiduals, u: Array, now: Evaluation) -> None:
        self.model, self.effort = model, now.effort
        self.latest: tuple[bytes, Evaluation | None] = u.tobytes(), now

    def __call__(self, v: Array) -> Evaluation | None:
        if self.latest[0] != v.tobytes():
            # Steps of constants that have run far away leave the range of numbers.
            value = self.model.evaluate(v, self.effort) if np.isfinite(v).all() else None
            self.latest = v.tobytes(), value
        return self.latest[1]


def minimise(model: TrajectoryResiduals, u: Array, now: Evaluation, most: int, ftol: float) -> tuple[Array, Evaluation]:
    """Unknowns at the minimum and what is known there; scipy's trust-region reflective method.

    Args:
        model: the residuals of a law.
        u: unknowns to begin from.
        now: what is known of the law there.
        most: evaluations of the Jacobian.
        ftol: relative change of the squares that ends it.
    """
    at = _Remembered(model, u, now)
    # A law that blows up is worse than any other, also than where a poor one begins.
    wall = np.full_like(now.residual, POLISHING.wall * max(1.0, float(np.abs(now.residual).max())))

    def residual(v: Array) -> Array:
        value = at(v)
        return wall if value is None else value.residual

    def jacobian(v: Array) -> Array:
        value = at(v)
        assert value is not None  # scipy asks for the Jacobian of accepted points only
        # What a step that went too far needed says nothing of those that follow.
        at.effort = value.effort
        return value.jacobian

    with np.errstate(all="ignore"):
        found = least_squares(
            residual, u, jacobian, method="trf", x_scale="jac", max_nfev=most, xtol=POLISHING.xtol, ftol=ftol, gtol=None
        )
    best = at(found.x)
    if best is None or np.sum(best.residual**2) > np.sum(now.residual**2):
        return u, now
    return found.x, best
