"""Levenberg-Marquardt for all members at once: sums of squares, batched; it knows no equations.

Three more loops of this name stand elsewhere, each with its reason at its head, because they minimise
something else or a batch of another kind: `stages/grow/side_by_side.py` (a likelihood without known
variances, coefficients eliminated), `search/flows/rough_fits.py` (a fixed number of steps, members by the
ten thousand) and `population/groups.py` (groups that are solved together or not at all).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Int

from odediscovery.runtime.arrays import ABOVE_ZERO, Array, Indices, Mask
from odediscovery.runtime.monitor import Monitor
from odediscovery.runtime.resources import fitting_at_once


@dataclass(frozen=True)
class MarquardtThresholds:
    """How steps are damped and when a member has converged or is stuck."""

    tolerance: float = 1e-5  # relative gain of a step below which a member has converged
    first_damping: float = 1e-3  # damping of the first step [diagonal of J^T J]; Nielsen (1999)
    least_damping: float = 1e-12  # damping is never less [diagonal of J^T J]
    stuck_damping: float = 1e8  # a member whose step fails at this damping is stuck [diagonal of J^T J]
    growth: float = 2.0  # first factor of a failed step's damping, doubled each time
    least_decrease: float = 1 / 3  # least factor of a good step's damping
    largest_gain_ratio: float = 1e3  # gain over predicted gain that still counts
    least_column: float = 1e-12  # a smaller diagonal counts as this: no huge step along it [largest diagonal of J^T J]
    many: int = 300  # unknowns from which on it is asked whether all members have room side by side
    ridge: float = 1e-14  # added to the scaled diagonal, whatever the damping


MARQUARDT = MarquardtThresholds()


@runtime_checkable
class Residuals(Protocol):
    """What Levenberg-Marquardt minimises: the sum of squares of residuals of each member.

    Members stand side by side and do not know of each other: any subset of them may be asked for.
    """

    def solve(self, unknowns: Array) -> Array:
        """What a model predicts at unknowns [members, unknowns], [members, ...]."""

    def residuals(self, unknowns: Array, solved: Array | None = None) -> Array:
        """Weighted residuals [members, R].

        Args:
            unknowns: [members, unknowns].
            solved: what `solve` gave for these members, if that is known already.
        """

    def linearised(self, unknowns: Array, free: Mask, solved: Array | None = None) -> tuple[Array, Array]:
        """Residuals [members, R] and their Jacobian [members, R, unknowns].

        Columns of unknowns that are not `free` [members, unknowns] may hold any number.
        """


@runtime_checkable
class BlockResiduals(Residuals, Protocol):
    """Residuals that stand in blocks, each of which few of the unknowns change."""

    def blocks(self, unknowns: Array, free: Mask, solved: Array | None = None) -> tuple[Array, Array, Indices]:
        """Residuals [members, blocks, R], their Jacobian [members, blocks, R, F], and of which unknowns.

        Those are [members, blocks, F], no unknown twice in a block; all others change nothing in it. Columns of
        unknowns that are not `free` may hold any number.
        """


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """Where Levenberg-Marquardt ended: unknowns, sums of squares and J^T J."""

    unknowns: Float[np.ndarray, "members unknowns"]
    sum_of_squares: Float[np.ndarray, " members"]
    normal: Float[np.ndarray, "members unknowns unknowns"]


@np.errstate(all="ignore")  # a law that runs away is worse than any other, and nothing to warn of
def levenberg_marquardt(
    problem: Residuals,
    unknowns: Float[np.ndarray, "members unknowns"],
    free: Bool[np.ndarray, "members unknowns"],
    steps: int,
    *,
    tolerance: float | None = None,
    monitor: Monitor | None = None,
    solved: Array | None = None,
) -> LeastSquares:
    """Minimises every member's sum of squares with a damping of its own:

        (J^T J + damping diag(J^T J)) step = -J^T r

    Members that have converged or found no step leave the batch, so the last iterations cost only
    those that still move.

    Args:
        problem: the residuals.
        unknowns: where to begin, [members, unknowns].
        free: which of them may change, [members, unknowns].
        steps: most steps of a member.
        tolerance: relative gain of a step below which a member has converged (default:
            `MARQUARDT.tolerance`).
        monitor: ends the iteration where it is, if it asks to stop.
        solved: what the problem's `solve` gave for the first unknowns, if that is known already.

    Source: Marquardt (1963), damping scaled by the diagonal of J^T J; Nielsen, Damping parameter in
    Marquardt's method (1999), how damping follows the gain.
    """
    tolerance = MARQUARDT.tolerance if tolerance is None else tolerance
    unknowns = unknowns.copy()
    total, normal, gradient = _normal_equations(problem, unknowns, free, solved)
    damping = np.full_like(total, MARQUARDT.first_damping)
    growth = np.full_like(total, MARQUARDT.growth)
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
            # A place without a Jacobian is no place to go on from.
            finite = np.isfinite(there[0])
            better[better.copy()] = finite
            moved = active[better]
            unknowns[moved] = trial[better]
            total[moved], normal[moved], gradient[moved] = (part[finite] for part in there)
        damping[active], growth[active] = _damped_anew(lam, growth[active], better, gain, model_gain)
        small = better & (gain <= tolerance * (total[active] + gain))
        stuck = ~better & ((lam > MARQUARDT.stuck_damping) | (model_gain <= tolerance * total[active]))
        active = active[~(small | stuck)]
    return LeastSquares(unknowns, total, normal)


def _damped_anew(damping: Array, growth: Array, better: Mask, gain: Array, model_gain: Array) -> tuple[Array, Array]:
    """Damping and its next growth, by Nielsen's rule: what follows a good step, and a failed one,

    damping * max(1/3, 1 - (2 gain / predicted gain - 1)^3),    damping * growth,  growth * 2
    """
    bound = MARQUARDT.largest_gain_ratio
    ratio = np.clip(gain / np.maximum(model_gain, ABOVE_ZERO), -bound, bound)
    less = damping * np.clip(1 - (2 * ratio - 1) ** 3, MARQUARDT.least_decrease, MARQUARDT.growth)
    anew = np.maximum(np.where(better, less, damping * growth), MARQUARDT.least_damping)
    return anew, np.where(better, MARQUARDT.growth, 2 * growth)


def finite_squares(residuals: Array) -> Array:
    """Sums of squares of residuals [members, R]; inf where they are no numbers."""
    squares: Array = np.nan_to_num(np.square(residuals).sum(axis=1), nan=np.inf)
    return squares


def _normal_equations(
    problem: Residuals, unknowns: Array, free: Mask, solved: Array | None
) -> tuple[Array, Array, Array]:
    """Sum of squares, J^T J and J^T r over the free unknowns (unit rows for the others), in parts that fit."""
    members, size = unknowns.shape
    if members > 1 and size > MARQUARDT.many:
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
    """Sums of the parts that have the same place, [count]."""
    found: Array = np.bincount(places.ravel(), weights=parts.ravel(), minlength=count).astype(float, copy=False)
    return found


def _in_blocks(problem: Residuals, unknowns: Array, free: Mask, solved: Array | None) -> tuple[Array, Array, Indices]:
    """Residuals and Jacobian as `BlockResiduals.blocks` has them; else one block of the free columns.

    Where most unknowns are held, products of their columns would be most of the work.
    """
    if isinstance(problem, BlockResiduals):
        return problem.blocks(unknowns, free, solved)
    r, jac = problem.linearised(unknowns, free, solved)
    columns = compact(free)
    return r[:, None], np.take_along_axis(jac, columns[:, None], axis=2)[:, None], columns[:, None]


def compact(free: Bool[np.ndarray, "members unknowns"]) -> Int[np.ndarray, "members free"]:
    """Places of the free parameters of each member, [members, F]; F is the most of any."""
    most = max(int(free.sum(axis=1).max(initial=0)), 1)
    places: Indices = np.argsort(~free, axis=1, kind="stable")[:, :most]
    return places


def within(
    matrix: Float[np.ndarray, "members unknowns unknowns"], columns: Int[np.ndarray, "members free"]
) -> Float[np.ndarray, "members free free"]:
    """Rows and columns of [members, U, U] at some places [members, F] of each: [members, F, F]."""
    member = np.arange(len(columns))[:, None, None]
    block: Array = matrix[member, columns[:, :, None], columns[:, None, :]]
    return block


def damped_steps(
    normal: Float[np.ndarray, "members unknowns unknowns"],
    gradient: Float[np.ndarray, "members unknowns"],
    damping: Float[np.ndarray, " members"],
    ridge: float,
    least: float,
) -> Float[np.ndarray, "members unknowns"]:
    """Steps of members all of whose unknowns are free, where even a matrix of zeros has one:

        (J^T J + damping diag(J^T J) + (ridge max diag(J^T J) + least) I) step = -J^T r

    Args:
        normal: J^T J.
        gradient: J^T r.
        damping: of each member.
        ridge: on the whole diagonal, as a share of its largest element.
        least: the same where all elements are 0.

    >>> damped_steps(np.array([[[4.0]]]), np.array([[6.0]]), np.array([0.5]), 0.0, 0.0).round(6).tolist()
    [[-1.0]]
    """
    diagonal = np.diagonal(normal, axis1=1, axis2=2)
    added = damping[:, None] * diagonal + ridge * diagonal.max(axis=1, keepdims=True) + least
    step: Array = np.linalg.solve(normal + added[:, :, None] * np.eye(normal.shape[1]), gradient[:, :, None])
    return -step[:, :, 0]


def _damped_step(normal: Array, gradient: Array, damping: Array, free: Mask) -> Array:
    columns = compact(free)
    h, g = within(normal, columns), np.take_along_axis(gradient, columns, axis=1)
    diagonal = h.diagonal(axis1=1, axis2=2)
    # A column that is (nearly) zero must not turn a tiny gradient into a huge step.
    least = MARQUARDT.least_column * diagonal.max(axis=1, keepdims=True)
    scale = 1.0 / np.sqrt(np.maximum(diagonal, least))
    h = h * scale[:, :, None] * scale[:, None, :]
    h = h + (damping + MARQUARDT.ridge)[:, None, None] * np.eye(h.shape[-1])
    definite = is_definite(h)
    # Where there is no minimum along the steps, down the gradient.
    h[~definite] = np.eye(h.shape[-1])
    step = np.zeros_like(gradient)
    np.put_along_axis(step, columns, -np.linalg.solve(h, (g * scale)[..., None])[..., 0] * scale, axis=1)
    return np.where(free, step, 0.0)


def is_definite(matrices: Float[np.ndarray, "members free free"]) -> Bool[np.ndarray, " members"]:
    """Which symmetric matrices are positive definite; none that holds what is no number.

    >>> is_definite(np.array([[[2.0]], [[-1.0]], [[np.nan]]])).tolist()
    [True, False, False]
    """
    # LAPACK finds no fault with nan, which products of slopes of 1e200 end in.
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
