"""Two monomials that became the same are made one.

Elimination alone cannot see that two rows of a power unit became the same monomial: each alone is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from odediscovery.fitting.levenberg_marquardt import LeastSquares
from odediscovery.networks.chain import AnyChain
from odediscovery.runtime.arrays import ABOVE_ZERO, Array, Indices, Mask
from odediscovery.stages.prune.surgeon import inverse_of, wald_statistic

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
