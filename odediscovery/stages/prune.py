"""Pruning of laws of any origin, side by side and constant by constant, to candidates for the judge.

A penalty biases constants, so every step refits without one. From a rich law down to a single
parameter, or until no further removal can make up for the misfit by BIC, each step removes the
parameter whose loss worsens the fit least: those with the smallest Wald statistics w_p are tried
side by side, each from the optimal-brain-surgeon estimate or the plain values, and the removal
with the best refit is kept.

    C = (J^T J)^-1,    w_p = theta_p^2 / C_pp,    theta <- theta - C_:R (C_RR)^-1 theta_R for parameters R together

Up to a sixth of a large network is removed at once if BIC approves, and two monomials that became
nearly equal are merged. All members and trials form one batch of Levenberg-Marquardt. The result is
the path, with one smaller network per step, for the judge to choose from.

On clean data the residuals are those of one-interval windows, each from a measured state; in noise
they are those of long windows with fitted starts, where noise of a start cannot pass for dynamics.

Source: Hassibi and Stork, Optimal Brain Surgeon (1993).
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

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
from odediscovery.laws.records import SETTLED, Candidate
from odediscovery.networks.chain import Chain, chain_of, laws_of
from odediscovery.problem.problem import Problem, apply_knowledge, fixed_mask, rounding_share
from odediscovery.runtime.arrays import ABOVE_ZERO, Array, Indices, Mask
from odediscovery.runtime.monitor import Monitor, fitting_at_once, has_room

# Fewest intervals of a window whose start is fitted; how many clear extrema it holds, and how few in chaos.
SHORTEST, EXTREMA, FEW_EXTREMA = 10, 5.0, 2.0
# Integration error while pruning in noise, and on clean data [standard deviations of a residual].
ACCURACY, ACCURACY_CLEAN = 0.02, 1e-5
# Parameters tried side by side at each step. Each is refitted, and the best is nearly always among them.
TRIALS = 3
# Most Levenberg-Marquardt steps of a refit.
STEPS = 12

# Unknowns, mask of the free ones, most steps -> their least squares fit.
Refit: TypeAlias = Callable[..., LeastSquares]
# Sums of squares before and after, number of parameters saved -> mask of the approved changes.
Approval: TypeAlias = Callable[[Array, Array, Indices], Mask]


# Estimates of the other parameters when some are removed, from the quadratic approximation.


def is_without_influence(normal: Array, unknowns: Array, free: Mask, parameters: int) -> Mask:
    """Find free parameters whose column of the Jacobian is zero, such as those of unused rows.

    Influence is measured by a step of 1 and by a step of the parameter's own size: with a negative power of a state
    near 0, a step of 1 is so large that all other parameters would seem to have no influence.
    """
    diagonal = normal.diagonal(axis1=1, axis2=2)[:, :parameters]
    dead = free[:, :parameters].copy()
    for size in (diagonal, unknowns[:, :parameters] ** 2 * diagonal):
        dead &= size <= 1e-18 * size.max(axis=1, keepdims=True)
    return dead


def inverse_of(normal: Array) -> Array:
    """Compute C = (J^T J)^-1 of every member from J^T J [members, U, U], scaled before inversion."""
    # A single member with overflow would make LAPACK fail for all.
    finite: Mask = np.asarray(np.isfinite(normal).all(axis=(1, 2)))
    if not finite.all():
        normal = normal.copy()
        normal[~finite] = np.eye(normal.shape[-1])
    h, scale = _scaled(normal, 1e-11)
    inverse = np.linalg.pinv(h, rcond=h.shape[-1] * np.finfo(float).eps, hermitian=True)
    found: Array = inverse * scale[:, :, None] * scale[:, None, :]
    return found


def wald_statistic(contrast: Array, values: Array, inverse: Array) -> float:
    """Estimate linearly the misfit added if combinations become 0: d^T (A C A^T)^-1 d with d = A theta.

    Takes A [combinations, F], theta [F] and C [F, F].

    >>> round(wald_statistic(np.array([[1.0, -1.0]]), np.array([3.0, 1.0]), np.eye(2)), 9)
    2.0
    """
    gap, spread = contrast @ values, contrast @ inverse @ contrast.T
    h, scale = _scaled(spread)
    found = float((gap * scale) @ _solved(h, gap * scale))
    return 0.0 if math.isnan(found) else max(found, 0.0)


def estimate_without(unknowns: Array, inverse: Array, removed: Mask) -> Array:
    """Estimate linearly the other unknowns when the `removed` ones [members, trials, F] become 0.

    theta - C_:R (C_RR)^-1 theta_R, computed for all sets R at once with unit rows outside R.
    """
    mask = removed.astype(float)
    inside = inverse[:, None] * mask[..., None] * mask[:, :, None, :]
    inside = inside + (1.0 - mask)[..., None] * np.eye(mask.shape[-1])
    inside, scale = _scaled(inside)
    target = unknowns[:, None] * mask * scale
    solved = _solved(inside, target) * scale * mask
    return np.where(removed, 0.0, unknowns[:, None] - solved @ inverse)


def _solved(matrices: Array, targets: Array) -> Array:
    """Solve matrices^-1 targets; nan for a matrix with entries that are not finite."""
    finite = np.asarray(np.isfinite(matrices).all(axis=(-2, -1)))
    usable = np.where(finite[..., None, None], matrices, np.eye(matrices.shape[-1]))
    return np.where(finite[..., None], np.linalg.solve(usable, targets[..., None])[..., 0], np.nan)


def _scaled(matrices: Array, ridge: float = 1e-12) -> tuple[Array, Array]:
    """Scale matrices to a diagonal of 1, and add a ridge; return them and 1 / square root of their old diagonals."""
    scale: Array = 1.0 / np.sqrt(np.maximum(matrices.diagonal(axis1=-2, axis2=-1), ABOVE_ZERO))
    return matrices * scale[..., None] * scale[..., None, :] + ridge * np.eye(matrices.shape[-1]), scale


# Merging of two monomials that became nearly equal.


def merge_twins(
    chain: Chain, fit: LeastSquares, free: Mask, near: float, refit: Refit, approves: Approval
) -> tuple[LeastSquares, Mask]:
    """Merge the two most similar rows of the last power unit, if closer than `near` and approved, in each member.

    Elimination cannot remove one of two rows that became the same monomial, as each alone is needed.
    """
    if not chain.pairs:
        return fit, free
    of_real, of_weight = chain.places()[-1]
    h, n = chain.pairs[-1].real
    # Places among the unknowns of the exponents and of the weights of each row.
    exponents, weights = (np.arange(free.shape[1])[of] for of in (of_real, of_weight))
    exponents, weights = exponents.reshape(h, n), weights.reshape(-1, h).T
    alive = np.asarray(free[:, weights].any(axis=2))
    w = fit.unknowns[:, exponents]
    gap = np.abs(w[:, :, None] - w[:, None, :]).max(axis=-1)
    apart = ~(alive[:, :, None] & alive[:, None, :]) | np.eye(h, dtype=bool)
    gap = np.where(apart, np.inf, gap).reshape(len(gap), -1)
    index, twins = np.flatnonzero(gap.min(axis=1) < near), gap.argmin(axis=1)
    hopeful = [_may_be_one(fit, free, m, exponents[[twins[m] // h, twins[m] % h]], approves) for m in index.tolist()]
    index = index[np.array(hopeful, dtype=bool)]
    if not len(index):
        return fit, free
    start, trial_free, m = fit.unknowns[index], free[index], np.arange(len(index))[:, None]
    keep, drop = twins[index] // h, twins[index] % h
    share = [np.abs(start[m, weights[row]]).sum(axis=1) for row in (keep, drop)]
    mix = (share[1] / np.maximum(share[0] + share[1], ABOVE_ZERO))[:, None]
    start[m, exponents[keep]] = (1 - mix) * start[m, exponents[keep]] + mix * start[m, exponents[drop]]
    start[m, weights[keep]] += start[m, weights[drop]]
    for places in (exponents, weights):
        trial_free[m, places[keep]] |= trial_free[m, places[drop]]
        start[m, places[drop]], trial_free[m, places[drop]] = 0.0, False
    tried = refit(start, trial_free, STEPS)
    saved = free[index].sum(axis=1) - trial_free.sum(axis=1)
    good = approves(fit.sum_of_squares[index], tried.sum_of_squares, saved)
    merged, free = LeastSquares(fit.unknowns.copy(), fit.sum_of_squares.copy(), fit.normal.copy()), free.copy()
    chosen = index[good]
    merged.unknowns[chosen] = tried.unknowns[good]
    merged.sum_of_squares[chosen] = tried.sum_of_squares[good]
    merged.normal[chosen] = tried.normal[good]
    free[chosen] = trial_free[good]
    return merged, free


def _may_be_one(fit: LeastSquares, free: Mask, m: int, rows: Indices, approves: Approval) -> bool:
    """Whether merging two rows of member m may be approved, by the Wald statistic of equal exponents.

    d = w_keep - w_drop,    d^T (A C A^T)^-1 d,    A the rows of +1 and -1 that give d
    """
    keep, drop = rows
    moves = free[m, keep] | free[m, drop]
    columns = np.flatnonzero(free[m])
    contrast = np.zeros((int(moves.sum()), free.shape[1]))
    each = np.arange(len(contrast))
    contrast[each, keep[moves]], contrast[each, drop[moves]] = 1.0, -1.0
    inverse = inverse_of(fit.normal[m][columns][:, columns][None])[0]
    wald = wald_statistic(contrast[:, columns], fit.unknowns[m, columns], inverse)
    squares = fit.sum_of_squares[m : m + 1]
    # The linear estimate may be a hundred times too high. Merging saves the exponents of one row, and a coefficient of
    # each equation that has both.
    return bool(approves(squares, squares + wald / 100.0, np.array([2 * len(moves)]))[0])


# Backward elimination with unpenalised refits, member by member.


@dataclass(frozen=True, eq=False)
class Pruned:
    """One law on the elimination path."""

    member: int  # index of the member it comes from
    unknowns: Array  # parameters, then fitted start values if the problem has any
    free: Mask  # which parameters remain, [P]
    sum_of_squares: float  # of the weighted residuals after the refit

    @property
    def size(self) -> int:
        """Number of remaining parameters."""
        return int(self.free.sum())


@dataclass(frozen=True)
class Elimination:
    """Options of an elimination."""

    first_steps: int = 80  # most Levenberg-Marquardt steps before the first removal
    hopeless: float = math.inf  # members whose first refit is this many times worse than the best are dropped
    worst: float = math.inf  # members whose first refit has a larger mean square are dropped, possibly all
    # The removal after which elimination ends, counted from the one whose misfit not even a model without constants
    # could make up for by BIC: those before it are simple rows of the front.
    beyond: int = 3
    near: float = 0.5  # two monomials whose exponents differ by less may be merged; half a whole power
    floor: float = 0.0  # sum of squares due to integration and rounding errors alone
    alone: bool = False  # whether members stay on the path even if they have become equal to another
    labels: int = 0  # number of unknowns at the end that only number the members and are never changed
    # Whether residuals are nearly linear in the unknowns, so that several removals may be made in one step.
    linear: bool = False


@np.errstate(all="ignore")  # members that diverge are dropped
def eliminate(chain: Chain, problem: Residuals, unknowns: Array, monitor: Monitor, how: Elimination) -> list[Pruned]:
    """Eliminate parameters of every member one after another, from the first refit down to a single one.

    Unknowns [members, P + others] are theta, followed by others (fitted start states) that are never removed.
    """
    p = chain.theta.shape[1]
    others = np.ones((chain.members, unknowns.shape[1] - p), dtype=bool)
    free = np.concatenate([chain.free, others], axis=1)
    free[:, unknowns.shape[1] - how.labels :] = False
    member = np.arange(chain.members)
    refit: Refit = functools.partial(levenberg_marquardt, problem, tolerance=1e-4, monitor=monitor)
    fit = refit(unknowns, free, how.first_steps)
    count = problem.residuals(fit.unknowns[:1]).shape[1]

    def approves(old: Array, new: Array, saved: Indices) -> Mask:
        """Whether BIC prefers the smaller network: count ln(new / old) < saved ln(count)."""
        gain = count * np.log((new + how.floor) / (old + how.floor))
        approved: Mask = gain < saved * math.log(count)
        return approved

    squares = np.nan_to_num(fit.sum_of_squares, nan=np.inf)
    # The best member always stays, even with a misfit of 0, which has no multiples.
    hopeful = (squares <= how.hopeless * squares.min() + how.floor) | (squares <= squares.min())
    hopeful &= squares <= how.worst * count
    member, free, fit = member[hopeful], free[hopeful], _members(fit, hopeful)
    path: list[Pruned] = []
    if not len(member):
        return path
    monitor.stage("prune", int(free[:, :p].sum(axis=1).max()))
    best, patience = np.full(chain.members, np.inf), np.full(chain.members, how.beyond)
    for step in itertools.count(1):
        fit, free = merge_twins(chain, fit, free, how.near, refit, approves)
        fit, free = _without_idle(fit, free, p, zero=bool(chain.pairs))
        path += [
            Pruned(int(member[m]), fit.unknowns[m].copy(), free[m, :p].copy(), float(fit.sum_of_squares[m]))
            for m in np.flatnonzero(np.isfinite(fit.sum_of_squares))
        ]
        misfit = count * np.log(fit.sum_of_squares + how.floor)
        left = free[:, :p].sum(axis=1)
        best[member] = np.minimum(best[member], misfit + left * math.log(count))
        # By BIC, no further removal can make up for the misfit.
        patience[member] -= misfit > best[member]
        alive = (patience[member] > 0) & (left > 1) & np.isfinite(misfit)
        if not how.alone:  # nor does one that repeats an earlier one: as many parameters, and the same misfit
            squares = fit.sum_of_squares + how.floor
            same = (left[:, None] == left) & (np.abs(np.log(squares[:, None] / squares)) < 1e-4)
            alive &= ~np.tril(same, -1).any(axis=1)
        monitor.step(step, float(fit.sum_of_squares.min()))
        if not alive.any() or monitor.stopping():
            break
        member, free, fit = member[alive], free[alive], _members(fit, alive)
        fit, free = _remove(problem, fit, free, p, how.linear, refit, approves)
    return path


def _without_idle(fit: LeastSquares, free: Mask, p: int, *, zero: bool) -> tuple[LeastSquares, Mask]:
    """Fix parameters without influence in all members, at 0 if `zero`.

    Weights beyond a unit's clip have no influence either, but must not become 0.
    """
    idle = is_without_influence(fit.normal, fit.unknowns, free, p)
    unknowns, free = fit.unknowns.copy(), free.copy()
    unknowns[:, :p][idle & zero], free[:, :p][idle] = 0.0, False
    return dataclasses.replace(fit, unknowns=unknowns), free


def _members(fit: LeastSquares, which: Mask) -> LeastSquares:
    return LeastSquares(fit.unknowns[which], fit.sum_of_squares[which], fit.normal[which])


def _remove(
    problem: Residuals, fit: LeastSquares, free: Mask, p: int, linear: bool, refit: Refit, approves: Approval
) -> tuple[LeastSquares, Mask]:
    """Remove one more parameter of each member, or several at once where BIC approves."""
    members, size = free.shape
    removed, start, bulk = _trials(fit, free, p, linear, approves)
    # Where the linear estimate overshoots, start from the old values instead.
    plain = np.where(removed, 0.0, fit.unknowns[:, None]).reshape(-1, size)
    start = start.reshape(-1, size)
    both = np.concatenate([plain, start])
    solved = problem.solve(both)
    of_plain, of_start = np.split(finite_squares(problem.residuals(both, solved)), 2)
    chosen = np.arange(len(start)) + len(start) * ~(of_plain < of_start)
    trial_free = (free[:, None] & ~removed).reshape(-1, size)
    # A few steps suffice to choose the best trial.
    tried = refit(both[chosen], trial_free, 3, solved=solved[chosen])
    total = tried.sum_of_squares.reshape(members, -1)
    approved = approves(fit.sum_of_squares, total[:, 0], bulk) & (bulk > 1)
    pick = np.where(approved, 0, 1 + total[:, 1:].argmin(axis=1))
    pick = np.arange(members) * (1 + TRIALS) + pick
    return refit(tried.unknowns[pick], trial_free[pick], STEPS), trial_free[pick]


def _trials(fit: LeastSquares, free: Mask, p: int, linear: bool, approves: Approval) -> tuple[Mask, Array, Indices]:
    """Return the removals and initial guesses of each trial, both [members, 1 + trials, U], and `bulk`.

    Trial 0 removes `bulk` [members] parameters together, usually those with the smallest Wald statistics;
    the others remove one parameter each.
    """
    columns = compact(free)
    inverse, values = inverse_of(within(fit.normal, columns)), np.take_along_axis(fit.unknowns, columns, axis=1)
    variance = np.maximum(inverse.diagonal(axis1=1, axis2=2), ABOVE_ZERO)
    loose = np.take_along_axis(free, columns, axis=1)
    removable = loose & (columns < p)
    wald = np.where(removable, np.square(values) / variance, np.inf)
    rank = wald.argsort(axis=1, kind="stable").argsort(axis=1)
    size = free[:, :p].sum(axis=1)
    # A sixth of a large network may be removed in one step.
    most = np.where(size > 16, size // 6, 1)
    together = rank < most[:, None]
    if linear:
        for m in range(len(free)):
            spare = _spare(values[m], inverse[m], removable[m], fit.sum_of_squares[m : m + 1], approves)
            together[m] = spare if int(spare.sum()) > most[m] else together[m]
    turns = [np.minimum(size - 1, trial) for trial in range(TRIALS)]
    removed = np.stack([together, *(rank == turn[:, None] for turn in turns)], axis=1)

    # Expand trials [members, 1 + trials, F] to all unknowns.
    others = estimate_without(values, inverse, removed)
    gone, start = (np.repeat(whole[:, None], 1 + TRIALS, axis=1) for whole in (np.zeros_like(free), fit.unknowns))
    np.put_along_axis(gone, columns[:, None], removed, axis=2)
    np.put_along_axis(start, columns[:, None], np.where(loose[:, None], others, values[:, None]), axis=2)
    return gone, start, together.sum(axis=1)


def _spare(values: Array, inverse: Array, removable: Mask, squares: Array, approves: Approval) -> Mask:
    """Find unknowns of one member that linear backward elimination removes, bool [F], from its sum of squares [1].

    theta <- theta - C_:k theta_k / C_kk,    C <- C - C_:k C_k: / C_kk,    squares += w_k
    """
    gone = np.zeros_like(removable)
    after = squares
    while int(gone.sum()) + 1 < int(removable.sum()):
        variance = np.maximum(inverse.diagonal(), ABOVE_ZERO)
        wald = np.where(gone | ~removable, np.inf, np.square(values) / variance)
        k = int(wald.argmin())
        after = after + wald[k]
        if not approves(squares, after, np.array([gone.sum() + 1]))[0]:
            break
        column = inverse[:, k] / variance[k]
        values, inverse = values - column * values[k], inverse - np.outer(column, inverse[k])
        gone[k] = True
    return gone


# Laws as chains on windows of the data.


class NoRoomError(Exception):
    """Memory does not suffice to prune even one law."""


def window_length(p: Problem, extrema: float = EXTREMA) -> int:
    """Return the number of intervals of a window with a fitted start, long enough for `extrema` clear extrema.

    Over longer windows, a law that is nearly right is out of phase, and its residuals are uninformative.
    """
    intervals = extrema / max(p.extrema_per_interval, sys.float_info.epsilon)
    # Memory grows with the length.
    longest = 50 if p.longest_window is None else p.longest_window
    return int(np.clip(intervals, SHORTEST * extrema / EXTREMA, longest))


def prune_laws(
    p: Problem,
    laws: Sequence[PowerSum],
    how: Elimination,
    monitor: Monitor,
    *,
    whole: bool = False,
    long: bool = True,
    fitted: bool = False,
) -> list[Candidate]:
    """Prune the laws that fit in memory; return the candidates on their paths, none if all diverge.

    Args:
        whole: whether exponents are whole numbers and stay fixed.
        long: whether windows have several intervals in noise; those of clean data have one.
        fitted: whether the laws are nearly right already, so that short windows would not improve them.

    Raises:
        NoRoomError: memory does not suffice for a single law.
    """
    if not laws:
        return []
    laws, whole = [apply_knowledge(p, law) for law in laws], whole or p.integer_exponents
    known = None if p.knowledge is None else [p.knowledge.fixed_mask(law) for law in laws]
    chain = chain_of(laws, p.nonnegative, whole=whole, held=known)
    most = _members_that_fit(p, chain, window_length(p) if long and not p.clean else None)
    if not most:
        raise NoRoomError
    if most < chain.members:
        return prune_laws(p, laws[:most], how, monitor, whole=whole, long=long, fitted=fitted)
    path = prune_chain(p, chain, how, monitor, long=long, fitted=fitted)
    return [_candidate(chain, path, pruned, p, whole) for pruned in path.networks]


@dataclass(frozen=True, eq=False)
class EliminationPath:
    """Ever smaller laws of all members, with the residuals on which they were pruned."""

    problem: ShortResiduals | LongResiduals
    samples: int  # observed values
    networks: list[Pruned]


def prune_chain(
    p: Problem, chain: Chain, how: Elimination, monitor: Monitor, *, long: bool = True, fitted: bool = False
) -> EliminationPath:
    """Compute the elimination paths of all members of a chain; the options are those of `prune_laws`."""
    problem, unknowns = _problem(p, chain, monitor, long=long, fitted=fitted)
    samples = int((problem.windows.weight > 0).sum())
    if p.clean:
        # Integration errors alone explain a tenth of SETTLED.
        how = dataclasses.replace(how, floor=0.1 * SETTLED * samples, worst=math.inf)
    return EliminationPath(problem, samples, eliminate(chain, problem, unknowns, monitor, how))


def _members_that_fit(p: Problem, chain: Chain, length: int | None) -> int:
    """Return the number of members that fit in memory.

    Each trial of a removal has a normal matrix of all unknowns; a Jacobian is needed for one member at a time.
    `length` is that of windows with fitted starts.
    """
    n, intervals = chain.n_states, sum(len(t.time) - 1 for t in p.data.trajectories)
    windows = 0 if length is None else sum(-(-(len(t.time) - 1) // length) for t in p.data.trajectories)
    size = chain.theta.shape[1] + windows * n
    if not has_room(64.0 * (intervals + windows) * n * size):
        return 0
    each = 16.0 * (1 + TRIALS) * size**2
    return fitting_at_once(chain.members, each) if has_room(each) else 0


def _problem(
    p: Problem, chain: Chain, monitor: Monitor, *, long: bool, fitted: bool
) -> tuple[ShortResiduals | LongResiduals, Array]:
    """Build the residuals for elimination, and initial guesses for the unknowns."""
    # A first fit on short windows is quick, and close enough to choose the step grids.
    theta = chain.theta
    coarse = short_windows(p).refined(chain, theta, ACCURACY)
    if not fitted:
        steps = 32 if p.clean else 8  # on clean data they converge
        theta = levenberg_marquardt(ShortResiduals(coarse, chain), theta, chain.free, steps, monitor=monitor).unknowns
    # Laws with far larger residuals need no fine steps and must not determine those of the others.
    with np.errstate(over="ignore"):
        left = np.nan_to_num((ShortResiduals(coarse, chain).residuals(theta) ** 2).sum(axis=1), nan=np.inf)
        leading = theta[left <= 10.0 * left.min()]
    if p.clean or not long:
        return ShortResiduals(coarse.refined(chain, leading, ACCURACY_CLEAN if p.clean else ACCURACY), chain), theta
    weight = np.where(p.constant, 0.0, 1.0 / p.sigma)
    windows = cut(p.data, p.smooth, weight, window_length(p), relative_sigma=p.relative_sigma)
    windows = windows.refined(chain, leading, ACCURACY)
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
    # Where curvature was mistaken for noise, residuals can be far smaller, but fits below rounding error gain nothing.
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
    """Mask the inputs whose exponents are whole and not fitted; those of exponentials are rates and are fitted."""
    whole_states: Mask = ~p.nonnegative | whole | p.integer_exponents
    if law.features is None:
        return whole_states
    functions = [not f.kind.power_is_rate for f in law.features.functions]
    return np.concatenate([whole_states, np.array(functions + [whole] * len(law.features.sums), dtype=bool)])
