"""Pruning: gates to 0 or 1, then backward elimination with unpenalised refits, member by member.

L1 finds the support, but the constants it leaves are biased; so every step here refits without
penalty. From the trained network down to almost nothing, each step removes the parameter that
the data miss least: those with the smallest Wald statistics w_p are tried side by side, each
from the optimal-brain-surgeon estimate, and the removal whose refit is best is kept.

    C = (J^T J)^-1,    w_p = theta_p^2 / C_pp,    theta <- theta - C_:p theta_p / C_pp

While a network is large, a sixth of it may go at once if BIC approves; two monomials that
became the same are made one. All members and trials are one batch of Levenberg-Marquardt. What
comes back is the path: one smaller network a step, for the judge to choose from.

Source: Hassibi and Stork, Optimal Brain Surgeon (1993).
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from odediscovery.fitting.levenberg_marquardt import (
    LeastSquares,
    Residuals,
    compact,
    finite_squares,
    levenberg_marquardt,
    within,
)
from odediscovery.networks.chain import AnyChain
from odediscovery.runtime.arrays import ABOVE_ZERO, Array, Indices, Mask
from odediscovery.runtime.monitor import Monitor
from odediscovery.stages.prune.surgeon import estimate_without, inverse_of, is_without_influence
from odediscovery.stages.prune.twins import merge_twins


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


def _default(name: str) -> Any:
    """A field whose default is read from `ELIMINATION` when it is needed."""
    return field(default_factory=lambda: getattr(ELIMINATION, name))


@dataclass(frozen=True)
class Elimination:
    """How hard one elimination works; what is not given is that of `ELIMINATION`.

    Args:
        trials: parameters tried side by side at each step.
        first_steps: most Levenberg-Marquardt steps before the first removal.
        hopeless: members whose first refit is this many times worse than the best are dropped.
        worst: members whose first refit leaves a larger mean square are dropped, all of them if need be.
        steps: most Levenberg-Marquardt steps of a refit.
        glance: the same for a trial: the best one shows sooner.
        beyond: removals that are still made, for the front's simple rows, after BIC says that
            even a model without constants could not win back what this one has lost.
        bulk_above: larger networks may lose a sixth of their parameters in one step.
        tolerance: relative gain below which a refit counts as converged.
        near: two monomials whose exponents differ by less than this are tried as one.
        floor: sum of squares that integration and rounding errors alone explain.
        alone: every member goes its own way to the end, also one that became what another is.
        labels: how many unknowns at the end only number the members and are never changed.
        linear: residuals are nearly linear in the unknowns, so that all which elimination would
            take one after another may go in one step.
    """

    trials: int = _default("trials")
    first_steps: int = _default("first_steps")
    hopeless: float = math.inf
    worst: float = math.inf
    steps: int = _default("steps")
    glance: int = _default("glance")
    beyond: int = _default("beyond")
    bulk_above: int = _default("bulk_above")
    tolerance: float = _default("tolerance")
    near: float = _default("near")
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
    fit = levenberg_marquardt(problem, unknowns, free, how.first_steps, tolerance=how.tolerance, monitor=monitor)
    count = problem.residuals(fit.unknowns[:1]).shape[1]
    near = _is_hopeful(np.nan_to_num(fit.sum_of_squares, nan=np.inf), count, how)
    member, free, fit = member[near], free[near], _members(fit, near)
    path: list[Pruned] = []
    if not len(member):
        return path
    monitor.stage("prune", int(free[:, :p].sum(axis=1).max()))
    patience = _Patience(chain.members, how.beyond)

    def refit(start: Array, free: Mask) -> LeastSquares:
        return levenberg_marquardt(problem, start, free, how.steps, tolerance=how.tolerance, monitor=monitor)

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
        problem, both[chosen], trial_free, how.glance, tolerance=how.tolerance, monitor=monitor, solved=solved[chosen]
    )
    total = refit.sum_of_squares.reshape(members, -1)
    approved = _approved(fit.sum_of_squares, total[:, 0], bulk, count, how) & (bulk > 1)
    pick = np.where(approved, 0, 1 + total[:, 1:].argmin(axis=1))
    pick = np.arange(members) * (1 + how.trials) + pick
    fit = levenberg_marquardt(
        problem, refit.unknowns[pick], trial_free[pick], how.steps, tolerance=how.tolerance, monitor=monitor
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
    most = np.where(size > how.bulk_above, size // ELIMINATION.bulk_share, 1)
    together = rank < most[:, None]
    if how.linear:
        for m in range(len(free)):
            spare = _spare(values[m], inverse[m], removable[m], fit.sum_of_squares[m : m + 1], count, how)
            together[m] = spare if int(spare.sum()) > most[m] else together[m]
    turns = [np.minimum(size - 1, trial) for trial in range(how.trials)]
    removed = np.stack([together, *(rank == turn[:, None] for turn in turns)], axis=1)

    # Trials [members, 1 + trials, F] at their places among all unknowns.
    others = estimate_without(values, inverse, removed)
    gone, start = (np.repeat(whole[:, None], 1 + how.trials, axis=1) for whole in (np.zeros_like(free), fit.unknowns))
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
