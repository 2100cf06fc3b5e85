"""Monomials removed one by one from the laws of a batch, and the windows on which that is done.

What becomes of the other parameters when some are removed, to second order.

    C = (J^T J)^-1,    theta <- theta - C_:R (C_RR)^-1 theta_R

Source: Hassibi and Stork, Optimal Brain Surgeon (1993).

Two monomials that became the same are made one.

Elimination alone cannot see that two rows of a power unit became the same monomial: each alone is needed.

Pruning: gates to 0 or 1, then backward elimination with unpenalised refits, member by member.

L1 finds the support, but the constants it leaves are biased; so every step here refits without
penalty. From the trained network down to almost nothing, each step removes the parameter that
the data miss least: those with the smallest Wald statistics w_p are tried side by side, each
from the optimal-brain-surgeon estimate, and the removal whose refit is best is kept.

    C = (J^T J)^-1,    w_p = theta_p^2 / C_pp,    theta <- theta - C_:p theta_p / C_pp

While a network is large, a sixth of it may go at once if BIC approves; two monomials that
became the same are made one. All members and trials are one batch of Levenberg-Marquardt. What
comes back is the path: one smaller network a step, for the judge to choose from.

Source: Hassibi and Stork, Optimal Brain Surgeon (1993).

Laws of any origin are pruned side by side and become candidates for the judge.

On clean data the residuals are those of one-interval windows, each from a measured state; in noise
they are those of long windows with fitted starts, where noise of a start cannot pass for physics.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from odediscovery.families import power_is_rate
from odediscovery.fitting.windows import (
    LeastSquares,
    LongResiduals,
    Residuals,
    ShortResiduals,
    compact,
    cut,
    finite_squares,
    levenberg_marquardt,
    short_windows,
    within,
)
from odediscovery.laws.power_sum import PowerSum
from odediscovery.networks.chain import AnyChain, Chain, chain_of, laws_of
from odediscovery.problem.problem import Problem, apply_knowledge, fixed_mask, rounding_share
from odediscovery.runtime.arrays import ABOVE_ZERO, Array, Indices, Mask
from odediscovery.runtime.monitor import Monitor
from odediscovery.runtime.resources import fitting_at_once, has_room
from odediscovery.stages.values import SETTLED, Candidate


@dataclass(frozen=True)
class SurgeonThresholds:
    """What keeps the linear algebra within the precision of float64."""

    influence: float = 1e-18  # a parameter with less of the largest diagonal entry of J^T J has no influence
    ridge: float = 1e-11  # added to the scaled J^T J before it is inverted
    ridge_removed: float = 1e-12  # the same for the block of removed parameters


SURGEON = SurgeonThresholds()


def is_without_influence(normal: Array, unknowns: Array, free: Mask, parameters: int) -> Mask:
    """Free parameters whose column of the Jacobian is zero: rows that nothing reads.

    Measured by a step of 1 and by the parameter's own size: before a negative power of a state near 0 a step of 1
    is so large that it would leave all others without influence.
    """
    diagonal = normal.diagonal(axis1=1, axis2=2)[:, :parameters]
    dead = free[:, :parameters].copy()
    for size in (diagonal, unknowns[:, :parameters] ** 2 * diagonal):
        dead &= size <= SURGEON.influence * size.max(axis=1, keepdims=True)
    return dead


def inverse_of(normal: Array) -> Array:
    """C = (J^T J)^-1 of every member, scaled before it is inverted.

    Args:
        normal: J^T J [members, U, U].
    """
    # Where products of slopes leave the range of numbers nothing is known of a member; LAPACK would end all of them.
    finite: Mask = np.asarray(np.isfinite(normal).all(axis=(1, 2)))
    if not finite.all():
        normal = normal.copy()
        normal[~finite] = np.eye(normal.shape[-1])
    scale = _scale_of(normal)
    h = normal * scale[:, :, None] * scale[:, None, :]
    h = h + SURGEON.ridge * np.eye(h.shape[-1])
    inverse = np.linalg.pinv(h, rcond=h.shape[-1] * np.finfo(float).eps, hermitian=True)
    found: Array = inverse * scale[:, :, None] * scale[:, None, :]
    return found


def wald_statistic(contrast: Array, values: Array, inverse: Array) -> float:
    """What it costs, linearly, that combinations of unknowns become 0: d^T (A C A^T)^-1 d with d = A theta.

    Args:
        contrast: A [combinations, F].
        values: theta [F].
        inverse: C [F, F].

    >>> round(wald_statistic(np.array([[1.0, -1.0]]), np.array([3.0, 1.0]), np.eye(2)), 9)
    2.0
    """
    gap, spread = contrast @ values, contrast @ inverse @ contrast.T
    scale = _scale_of(spread)
    h = spread * scale[:, None] * scale + SURGEON.ridge_removed * np.eye(len(gap))
    found = float((gap * scale) @ _solved(h, gap * scale))
    return 0.0 if math.isnan(found) else max(found, 0.0)


def estimate_without(unknowns: Array, inverse: Array, removed: Mask) -> Array:
    """Linear estimate of the others when the `removed` unknowns [members, trials, F] become 0.

    theta - C_:R (C_RR)^-1 theta_R, written for all sets R at once by unit rows outside R.
    """
    mask = removed.astype(float)
    inside = inverse[:, None] * mask[..., None] * mask[:, :, None, :]
    inside = inside + (1.0 - mask)[..., None] * np.eye(mask.shape[-1])
    scale = _scale_of(inside)
    inside = inside * scale[..., None] * scale[..., None, :]
    inside = inside + SURGEON.ridge_removed * np.eye(inside.shape[-1])
    target = unknowns[:, None] * mask * scale
    solved = _solved(inside, target) * scale * mask
    return np.where(removed, 0.0, unknowns[:, None] - solved @ inverse)


def _solved(matrices: Array, targets: Array) -> Array:
    """matrices^-1 targets; nan where a matrix has entries beyond all numbers."""
    finite = np.asarray(np.isfinite(matrices).all(axis=(-2, -1)))
    usable = np.where(finite[..., None, None], matrices, np.eye(matrices.shape[-1]))
    return np.where(finite[..., None], np.linalg.solve(usable, targets[..., None])[..., 0], np.nan)


def _scale_of(matrix: Array) -> Array:
    """1 / root of the diagonal of each of some matrices."""
    scale: Array = 1.0 / np.sqrt(np.maximum(matrix.diagonal(axis1=-2, axis2=-1), ABOVE_ZERO))
    return scale


Scalar = TypeVar("Scalar", bound=np.generic)
Refit: TypeAlias = Callable[[Array, Mask], LeastSquares]
Approval: TypeAlias = Callable[[Array, Array, Indices], Mask]


@runtime_checkable
class Rows(Protocol):
    """Entries [members, rows, columns] of a layer among all unknowns, and of masks and places like them (views)."""

    def __call__(self, v: NDArray[Scalar]) -> NDArray[Scalar]:
        """Those of `v` [members, U]."""


@dataclass(frozen=True)
class TwinThresholds:
    """Which rows are refitted as one."""

    # Rows are not refitted as one where the linear estimate of what that costs, divided by this, is too dear
    linear: float = 100.0


TWINS = TwinThresholds()


def merge_twins(
    chain: AnyChain, fit: LeastSquares, free: Mask, near: float, refit: Refit, approves: Approval
) -> tuple[LeastSquares, Mask]:
    """The two most alike rows of a power unit as one, in the members where that is approved.

    Args:
        chain: whose unknowns these are.
        fit: unknowns [members, U], parameters first.
        free: which of them are left, bool [members, U].
        near: rows whose exponents differ by less are tried.
        refit: unknowns and which of them are free -> the least squares there.
        approves: sums of squares before and after, and how many parameters that saves -> which are approved.
    """
    if not chain.pairs:
        return fit, free
    real, weight, keep, drop, gap = _closest_rows(chain, fit.unknowns, free)
    index = np.flatnonzero(gap < near)
    index = index[_may_be_one(fit, free, real, (keep, drop), index, approves)]
    if not len(index):
        return fit, free
    start, trial_free = fit.unknowns[index], free[index]
    members = np.arange(len(index))
    w, a = real(start), weight(start)
    w_free, a_free = real(trial_free), weight(trial_free)
    keep, drop = keep[index], drop[index]
    share = np.abs(a[members, :, keep]).sum(axis=1), np.abs(a[members, :, drop]).sum(axis=1)
    mix = (share[1] / np.maximum(share[0] + share[1], ABOVE_ZERO))[:, None]
    joint = w_free[members, keep] | w_free[members, drop]
    w[members, keep] = (1 - mix) * w[members, keep] + mix * w[members, drop]
    w_free[members, keep] = joint
    a[members, :, keep] += a[members, :, drop]
    a_free[members, :, keep] |= a_free[members, :, drop]
    for values in (w, w_free):
        values[members, drop] = 0
    for values in (a, a_free):
        values[members, :, drop] = 0
    merged_fit = refit(start, trial_free)
    saved = free[index].sum(axis=1) - trial_free.sum(axis=1)
    good = approves(fit.sum_of_squares[index], merged_fit.sum_of_squares, saved)
    chosen = index[good]
    merged = LeastSquares(fit.unknowns.copy(), fit.sum_of_squares.copy(), fit.normal.copy())
    merged.unknowns[chosen] = merged_fit.unknowns[good]
    merged.sum_of_squares[chosen] = merged_fit.sum_of_squares[good]
    merged.normal[chosen] = merged_fit.normal[good]
    free = free.copy()
    free[chosen] = trial_free[good]
    return merged, free


def _may_be_one(
    fit: LeastSquares, free: Mask, real: Rows, rows: tuple[Indices, Indices], index: Indices, approves: Approval
) -> Mask:
    """Which members `index` might be allowed one row in place of two, by the Wald statistic of equal exponents.

    d = w_keep - w_drop,    d^T (A C A^T)^-1 d,    A the rows of +1 and -1 that give d
    """
    places = real(np.broadcast_to(np.arange(free.shape[1]), free.shape))
    hopeful = np.ones(len(index), dtype=bool)
    for i, m in enumerate(index.tolist()):
        keep, drop = (places[m, row[m]] for row in rows)
        moves = free[m, keep] | free[m, drop]
        columns = np.flatnonzero(free[m])
        contrast = np.zeros((int(moves.sum()), free.shape[1]))
        each = np.arange(len(contrast))
        contrast[each, keep[moves]], contrast[each, drop[moves]] = 1.0, -1.0
        inverse = inverse_of(fit.normal[m][columns][:, columns][None])[0]
        wald = wald_statistic(contrast[:, columns], fit.unknowns[m, columns], inverse)
        squares = fit.sum_of_squares[m : m + 1]
        after = squares + wald / TWINS.linear
        # One row saves the exponents of the other, and a coefficient of each equation that has both.
        hopeful[i] = approves(squares, after, np.array([2 * len(moves)]))[0]
    return hopeful


def _closest_rows(chain: AnyChain, unknowns: Array, free: Mask) -> tuple[Rows, Rows, Indices, Indices, Array]:
    """Views of the exponents and of the weights of the last pair, and each member's nearest rows."""
    (h, n), (of_real, of_weight) = chain.pairs[-1].real, chain.places()[-1]

    def real(v: NDArray[Scalar]) -> NDArray[Scalar]:
        return v[:, of_real].reshape(len(v), h, n)

    def weight(v: NDArray[Scalar]) -> NDArray[Scalar]:
        return v[:, of_weight].reshape(len(v), -1, h)

    alive = np.asarray(weight(free).any(axis=1))
    w = real(unknowns)
    gap = np.abs(w[:, :, None] - w[:, None, :]).max(axis=-1)
    apart = ~(alive[:, :, None] & alive[:, None, :]) | np.eye(h, dtype=bool)
    gap = np.where(apart, np.inf, gap).reshape(len(gap), -1)
    flat = gap.argmin(axis=1)
    return real, weight, flat // h, flat % h, gap.min(axis=1)


@dataclass(frozen=True)
class EliminationThresholds:
    """How hard backward elimination works, and what it takes for the same."""

    # parameters tried side by side at each step; cost: each is refitted; the best is nearly always among them
    trials: int = 3
    first_steps: int = 80  # most Levenberg-Marquardt steps before the first removal
    steps: int = 12  # most Levenberg-Marquardt steps of a refit
    glance: int = 3  # the same for a trial
    beyond: int = 3  # removals after which BIC says that nothing can win back what was lost
    bulk_above: int = 16  # larger networks may lose many parameters in one step
    bulk_share: int = 6  # parts of a large network of which one may go in one step
    tolerance: float = 1e-4  # gain below which a refit has converged [relative]
    near: float = 0.5  # two monomials whose exponents differ by less are tried as one; half a whole power
    same: float = 1e-4  # members whose sums of squares differ by less are the same law [relative]


ELIMINATION = EliminationThresholds()


@dataclass(frozen=True, eq=False)
class Pruned:
    """One network on the way down: unknowns (theta first) and what is still free.

    Args:
        member: index of the member it comes from.
        unknowns: parameters, then fitted start values if the problem has any.
        free: which parameters are left, bool [P].
        sum_of_squares: of the weighted residuals after the refit.
    """

    member: int
    unknowns: Array
    free: Mask
    sum_of_squares: float

    @property
    def size(self) -> int:
        """Number of parameters left."""
        return int(self.free.sum())


@dataclass(frozen=True)
class Elimination:
    """How hard one elimination works; what is not given is that of `ELIMINATION`.

    Args:
        first_steps: most Levenberg-Marquardt steps before the first removal.
        hopeless: members whose first refit is this many times worse than the best are dropped.
        worst: members whose first refit leaves a larger mean square are dropped, all of them if need be.
        beyond: removals that are still made, for the front's simple rows, after BIC says that
            even a model without constants could not win back what this one has lost.
        near: two monomials whose exponents differ by less than this are tried as one.
        floor: sum of squares that integration and rounding errors alone explain.
        alone: every member goes its own way to the end, also one that became what another is.
        labels: how many unknowns at the end only number the members and are never changed.
        linear: residuals are nearly linear in the unknowns, so that all which elimination would
            take one after another may go in one step.
    """

    first_steps: int = ELIMINATION.first_steps
    hopeless: float = math.inf
    worst: float = math.inf
    beyond: int = ELIMINATION.beyond
    near: float = ELIMINATION.near
    floor: float = 0.0
    alone: bool = False
    labels: int = 0
    linear: bool = False


@np.errstate(all="ignore")  # of what runs away no more is said
def eliminate(
    chain: AnyChain, problem: Residuals, unknowns: Array, monitor: Monitor, how: Elimination | None = None
) -> list[Pruned]:
    """The path of every member, from the first refit to (almost) nothing.

    Args:
        problem: residuals over unknowns [members, P + others], theta first; the others
            (fitted start states) are never removed.
        unknowns: where to begin.
    """
    how = how or Elimination()
    p = chain.theta.shape[1]
    others = np.ones((chain.members, unknowns.shape[1] - p), dtype=bool)
    free = np.concatenate([chain.free, others], axis=1)
    free[:, unknowns.shape[1] - how.labels :] = False
    member = np.arange(chain.members)
    fit = levenberg_marquardt(
        problem, unknowns, free, how.first_steps, tolerance=ELIMINATION.tolerance, monitor=monitor
    )
    count = problem.residuals(fit.unknowns[:1]).shape[1]
    near = _is_hopeful(np.nan_to_num(fit.sum_of_squares, nan=np.inf), count, how)
    member, free, fit = member[near], free[near], _members(fit, near)
    path: list[Pruned] = []
    if not len(member):
        return path
    monitor.stage("prune", int(free[:, :p].sum(axis=1).max()))
    patience = _Patience(chain.members, how.beyond)

    def refit(start: Array, free: Mask) -> LeastSquares:
        return levenberg_marquardt(
            problem, start, free, ELIMINATION.steps, tolerance=ELIMINATION.tolerance, monitor=monitor
        )

    def approves(old: Array, new: Array, saved: Indices) -> Mask:
        return _approved(old, new, saved, count, how)

    for step in itertools.count(1):
        fit, free = merge_twins(chain, fit, free, how.near, refit, approves)
        fit, free = _without_idle(fit, free, p, zero=bool(chain.pairs))
        path += _integrated(fit, free[:, :p], member)
        misfit = count * np.log(fit.sum_of_squares + how.floor)
        left = free[:, :p].sum(axis=1)
        alive = patience.remains(member, misfit, left * math.log(count)) & (left > 1) & np.isfinite(misfit)
        if not how.alone:
            alive &= ~_repeated(left, fit.sum_of_squares + how.floor)
        monitor.step(step, float(fit.sum_of_squares.min()))
        if not alive.any() or monitor.stopping():
            break
        member, free, fit = member[alive], free[alive], _members(fit, alive)
        fit, free = _remove(problem, fit, free, p, count, how, monitor)
    return path


class _Patience:
    """Removals that each member may still make after BIC has said that nothing can win back what it has lost."""

    def __init__(self, members: int, beyond: int) -> None:
        self.best, self.left = np.full(members, np.inf), np.full(members, beyond)

    def remains(self, member: Indices, misfit: Array, price: Array) -> Mask:
        """Which of these members may go on, after they have reached a misfit with parameters of that price."""
        self.best[member] = np.minimum(self.best[member], misfit + price)
        self.left[member] -= misfit > self.best[member]
        return np.asarray(self.left[member] > 0)


def _without_idle(fit: LeastSquares, free: Mask, p: int, *, zero: bool) -> tuple[LeastSquares, Mask]:
    """Members whose parameters without influence are no longer free.

    Args:
        zero: whether they become 0, as what nothing reads may; where units clip their weights, one beyond the edge
            has no influence either, but is none that may go.
    """
    idle = is_without_influence(fit.normal, fit.unknowns, free, p)
    kept = np.where(idle & zero, 0.0, fit.unknowns[:, :p])
    unknowns = np.concatenate([kept, fit.unknowns[:, p:]], axis=1)
    return dataclasses.replace(fit, unknowns=unknowns), np.concatenate([free[:, :p] & ~idle, free[:, p:]], axis=1)


def _integrated(fit: LeastSquares, free: Mask, member: Indices) -> list[Pruned]:
    """The networks of this step that can be integrated through the data."""
    return [
        Pruned(int(member[m]), fit.unknowns[m].copy(), free[m].copy(), float(fit.sum_of_squares[m]))
        for m in range(len(member))
        if np.isfinite(fit.sum_of_squares[m])
    ]


def _is_hopeful(misfits: Array, count: int, how: Elimination) -> Mask:
    # The best stays, also where its misfit is 0, of which no multiple says anything.
    near = (misfits <= how.hopeless * misfits.min() + how.floor) | (misfits <= misfits.min())
    hopeful: Mask = near & (misfits <= how.worst * count)
    return hopeful


def _repeated(left: Indices, squares: Array) -> Mask:
    """Members that became what one before them is: as many parameters, the same misfit."""
    same = (left[:, None] == left) & (np.abs(np.log(squares[:, None] / squares)) < ELIMINATION.same)
    repeated: Mask = np.tril(same, -1).any(axis=1)
    return repeated


def _members(fit: LeastSquares, index: Indices | Mask) -> LeastSquares:
    return LeastSquares(fit.unknowns[index], fit.sum_of_squares[index], fit.normal[index])


def _remove(
    problem: Residuals, fit: LeastSquares, free: Mask, p: int, count: int, how: Elimination, monitor: Monitor
) -> tuple[LeastSquares, Mask]:
    """Each member without one more parameter, or without many at once where BIC approves."""
    members, size = free.shape
    removed, start, bulk = _trials(fit, free, p, count, how)
    # Where the linear estimate overshoots, begin at the old values instead.
    plain = np.where(removed, 0.0, fit.unknowns[:, None]).reshape(-1, size)
    start = start.reshape(-1, size)
    both = np.concatenate([plain, start])
    solved = problem.solve(both)
    of_plain, of_start = np.split(finite_squares(problem.residuals(both, solved)), 2)
    chosen = np.arange(len(start)) + len(start) * ~(of_plain < of_start)
    trial_free = (free[:, None] & ~removed).reshape(-1, size)
    refit = levenberg_marquardt(
        problem,
        both[chosen],
        trial_free,
        ELIMINATION.glance,
        tolerance=ELIMINATION.tolerance,
        monitor=monitor,
        solved=solved[chosen],
    )
    total = refit.sum_of_squares.reshape(members, -1)
    approved = _approved(fit.sum_of_squares, total[:, 0], bulk, count, how) & (bulk > 1)
    pick = np.where(approved, 0, 1 + total[:, 1:].argmin(axis=1))
    pick = np.arange(members) * (1 + ELIMINATION.trials) + pick
    fit = levenberg_marquardt(
        problem,
        refit.unknowns[pick],
        trial_free[pick],
        ELIMINATION.steps,
        tolerance=ELIMINATION.tolerance,
        monitor=monitor,
    )
    return fit, trial_free[pick]


def _trials(fit: LeastSquares, free: Mask, p: int, count: int, how: Elimination) -> tuple[Mask, Array, Indices]:
    """What each trial removes and where it begins, both [members, 1 + trials, U], and `bulk`.

    Trial 0 removes the `bulk` [members] parameters with the smallest Wald statistics together, the
    others one parameter each.
    """
    columns = compact(free)
    inverse, values = inverse_of(within(fit.normal, columns)), np.take_along_axis(fit.unknowns, columns, axis=1)
    variance = np.maximum(inverse.diagonal(axis1=1, axis2=2), ABOVE_ZERO)
    loose = np.take_along_axis(free, columns, axis=1)
    removable = loose & (columns < p)
    wald = np.where(removable, np.square(values) / variance, np.inf)
    rank = wald.argsort(axis=1, kind="stable").argsort(axis=1)
    size = free[:, :p].sum(axis=1)
    most = np.where(size > ELIMINATION.bulk_above, size // ELIMINATION.bulk_share, 1)
    together = rank < most[:, None]
    if how.linear:
        for m in range(len(free)):
            spare = _spare(values[m], inverse[m], removable[m], fit.sum_of_squares[m : m + 1], count, how)
            together[m] = spare if int(spare.sum()) > most[m] else together[m]
    turns = [np.minimum(size - 1, trial) for trial in range(ELIMINATION.trials)]
    removed = np.stack([together, *(rank == turn[:, None] for turn in turns)], axis=1)

    # Trials [members, 1 + trials, F] at their places among all unknowns.
    others = estimate_without(values, inverse, removed)
    gone, start = (
        np.repeat(whole[:, None], 1 + ELIMINATION.trials, axis=1) for whole in (np.zeros_like(free), fit.unknowns)
    )
    np.put_along_axis(gone, columns[:, None], removed, axis=2)
    np.put_along_axis(start, columns[:, None], np.where(loose[:, None], others, values[:, None]), axis=2)
    return gone, start, together.sum(axis=1)


def _spare(values: Array, inverse: Array, removable: Mask, squares: Array, count: int, how: Elimination) -> Mask:
    """Unknowns of one member, whose sum of squares is [1], that linear backward elimination takes, bool [F].

    theta <- theta - C_:k theta_k / C_kk,    C <- C - C_:k C_k: / C_kk,    squares += w_k
    """
    gone = np.zeros_like(removable)
    after = squares
    while int(gone.sum()) + 1 < int(removable.sum()):
        variance = np.maximum(inverse.diagonal(), ABOVE_ZERO)
        wald = np.where(gone | ~removable, np.inf, np.square(values) / variance)
        k = int(wald.argmin())
        after = after + wald[k]
        if not _approved(squares, after, np.array([gone.sum() + 1]), count, how)[0]:
            break
        column = inverse[:, k] / variance[k]
        values, inverse = values - column * values[k], inverse - np.outer(column, inverse[k])
        gone[k] = True
    return gone


def _approved(old: Array, new: Array, saved: Indices, count: int, how: Elimination) -> Mask:
    """Whether BIC prefers the smaller network: count ln(new / old) < saved ln(count)."""
    gain = count * np.log((new + how.floor) / (old + how.floor))
    approved: Mask = gain < saved * math.log(count)
    return approved


@dataclass(frozen=True)
class PruningWindowThresholds:
    """On which windows laws are pruned, and how accurately these are integrated."""

    shortest: int = 10  # fewest intervals of a window whose start is fitted
    longest: int = 50  # most intervals of such a window; cost: memory grows with it
    extrema: float = 5.0  # clear extrema that such a window holds
    accuracy: float = 0.02  # integration error while pruning in noise [standard deviations of a residual]
    accuracy_clean: float = 1e-5  # the same on clean data [standard deviations of a residual]
    # Members whose integration has to be accurate leave up to this [mean square of the best one on short windows]
    leading: float = 10.0
    coarse_steps: int = 8  # Levenberg-Marquardt steps on short windows before the elimination, in noise
    coarse_steps_clean: int = 32  # the same on clean data; there the steps converge
    floor: float = 0.1  # sum of squares that integration alone explains on clean data, a sample [`SETTLED`]


PRUNING_WINDOWS = PruningWindowThresholds()


class NoRoomError(Exception):
    """There is no memory to prune even one law of so many states."""


def window_length(p: Problem, extrema: float | None = None) -> int:
    """Intervals of a window whose start is fitted: a few oscillations.

    Over many, a law that is nearly right is out of phase, and its residuals say nothing.

    Args:
        extrema: clear extrema in a window (default: `PRUNING_WINDOWS.extrema`).
    """
    own = PRUNING_WINDOWS
    extrema = own.extrema if extrema is None else extrema
    intervals = extrema / max(p.extrema_per_interval, sys.float_info.epsilon)
    longest = own.longest if p.longest_window is None else p.longest_window
    return int(np.clip(intervals, own.shortest * extrema / own.extrema, longest))


def prune_laws(
    p: Problem,
    laws: Sequence[PowerSum],
    how: Elimination,
    monitor: Monitor,
    *,
    whole: bool = False,
    long: bool | None = None,
    fitted: bool = False,
) -> list[Candidate]:
    """The laws on the elimination paths of all given ones, with their mean square residuals.

    Args:
        whole: exponents are whole numbers and stay.
        long: on windows of several intervals, else of one (default: in noise only).
        fitted: whether the laws are nearly right already, so that short windows would not improve them.

    Returns:
        A candidate's `origin` is the index of the law it was pruned from. None where all laws blow up.

    Raises:
        NoRoomError: there is no memory for a single one.
    """
    if not laws:
        return []
    laws, whole = [apply_knowledge(p, law) for law in laws], whole or p.integer_exponents
    known = None if p.knowledge is None else [p.knowledge.fixed_mask(law) for law in laws]
    chain = chain_of(laws, p.nonnegative, whole=whole, held=known)
    long = not p.clean if long is None else long
    most = _members_that_fit(p, chain, how, window_length(p) if long else None)
    if most < chain.members:
        if not most:
            raise NoRoomError
        laws = laws[:most]
        return prune_laws(p, laws, how, monitor, whole=whole, long=long, fitted=fitted)
    path = prune_chain(p, chain, how, monitor, long=long, fitted=fitted)
    return [_candidate(chain, path, pruned, p, whole) for pruned in path.networks]


@dataclass(frozen=True, eq=False)
class EliminationPath:
    """Ever smaller networks, and the residuals that they were pruned on.

    Args:
        problem: residuals of the unknowns, parameters first.
        networks: from large to small, of all members.
    """

    problem: ShortResiduals | LongResiduals
    networks: list[Pruned]

    @property
    def samples(self) -> int:
        """Number of observed values."""
        return int((self.problem.windows.weight > 0).sum())


def prune_chain(
    p: Problem, chain: AnyChain, how: Elimination, monitor: Monitor, *, long: bool, fitted: bool = False
) -> EliminationPath:
    """The elimination paths of all members of a chain; the options are those of `prune_laws`."""
    problem, unknowns = _problem(p, chain, monitor, long=long, fitted=fitted)
    path = EliminationPath(problem, [])
    if p.clean:
        how = dataclasses.replace(how, floor=PRUNING_WINDOWS.floor * SETTLED * path.samples, worst=math.inf)
    return dataclasses.replace(path, networks=eliminate(chain, problem, unknowns, monitor, how))


def _members_that_fit(p: Problem, chain: Chain, how: Elimination, length: int | None) -> int:
    """How many members there is memory for, 0 if none; all of small tables.

    Each trial of a removal has a normal matrix of all unknowns; a Jacobian is needed for one member at a time.

    Args:
        length: intervals of a window whose start is fitted; None where starts are given.
    """
    n, intervals = chain.n_states, sum(len(t.time) - 1 for t in p.data.trajectories)
    windows = 0 if length is None else sum(-(-(len(t.time) - 1) // length) for t in p.data.trajectories)
    size = chain.theta.shape[1] + windows * n
    if not has_room(64.0 * (intervals + windows) * n * size):
        return 0
    each = 16.0 * (1 + ELIMINATION.trials) * size**2
    return fitting_at_once(chain.members, each) if has_room(each) else 0


def _problem(
    p: Problem, chain: AnyChain, monitor: Monitor, *, long: bool, fitted: bool
) -> tuple[ShortResiduals | LongResiduals, Array]:
    """The residuals that elimination sees, and the unknowns to begin from."""
    own = PRUNING_WINDOWS
    # Unpenalised on short windows first: quick, and near enough to choose the step grids.
    coarse, theta = short_windows(p), chain.theta
    coarse = coarse.refined(chain, theta, own.accuracy)
    if not fitted:
        steps = own.coarse_steps_clean if p.clean else own.coarse_steps
        theta = levenberg_marquardt(ShortResiduals(coarse, chain), theta, chain.free, steps, monitor=monitor).unknowns
    # Laws that leave far more need no fine steps, and must not decide on those of the others.
    with np.errstate(over="ignore"):
        left = np.nan_to_num((ShortResiduals(coarse, chain).residuals(theta) ** 2).sum(axis=1), nan=np.inf)
        leading = theta[left <= own.leading * left.min()]
    if not long:
        accuracy = own.accuracy_clean if p.clean else own.accuracy
        return ShortResiduals(coarse.refined(chain, leading, accuracy), chain), theta
    weight = np.where(p.constant, 0.0, 1.0 / np.maximum(p.noise, p.floor))
    windows = cut(p.data, p.smooth, weight, window_length(p), relative_sigma=p.relative_sigma)
    windows = windows.refined(chain, leading, own.accuracy)
    problem = LongResiduals(windows, chain, p.nonnegative)
    return problem, problem.pack(theta)


def _candidate(chain: Chain, path: EliminationPath, pruned: Pruned, p: Problem, whole: bool) -> Candidate:
    theta = pruned.unknowns[None, : chain.theta.shape[1]]
    law = apply_knowledge(p, laws_of(chain.replace(theta, pruned.free[None]))[0])
    initial = p.initial
    if isinstance(path.problem, LongResiduals):
        starts = path.problem.starts(pruned.unknowns[None])[0]
        initial = starts[path.problem.windows.heads][:, ~p.data.is_control]
    mean_square = pruned.sum_of_squares / path.samples
    # Where curvature was taken for noise, a law leaves far less: what it leaves beyond rounding, not of rounding.
    mean_square = mean_square if p.clean else max(mean_square, rounding_share(p))
    return Candidate(law, initial, mean_square, pruned.member, whole_features(law, p, whole), fixed_mask(p, law))


def all_whole(exponents: Array) -> bool:
    """Whether all exponents are whole numbers."""
    return bool((exponents == np.round(exponents)).all())


def has_whole_powers(law: PowerSum) -> bool:
    """Whether all exponents of states are whole numbers, those inside sums included; rates may be any number."""
    n = law.n_states
    return all_whole(law.exponents[:, :n]) and all_whole(law.constants[3][:, :n])


def whole_features(law: PowerSum, p: Problem, whole: bool) -> Mask:
    """Inputs whose exponents are whole numbers and not fitted; of exponentials they are rates."""
    whole_states: Mask = ~p.nonnegative | whole | p.integer_exponents
    if law.features is None:
        return whole_states
    functions = [not power_is_rate(f) for f in law.features.functions]
    return np.concatenate([whole_states, np.array(functions + [whole] * len(law.features.sums), dtype=bool)])
