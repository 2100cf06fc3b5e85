"""Two monomials that became the same are made one.

Elimination alone cannot see that two rows of a power unit became the same monomial: each alone is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from odediscovery.fitting.levenberg_marquardt import LeastSquares
from odediscovery.networks.vector_field import VectorField
from odediscovery.runtime.thresholds import Thresholds, threshold
from odediscovery.stages.prune.surgeon import inverse_of, wald_statistic

Rows: TypeAlias = Callable[[Tensor], Tensor]
Refit: TypeAlias = Callable[[Tensor, Tensor], LeastSquares]
Approval: TypeAlias = Callable[[Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class TwinThresholds(Thresholds):
    """Which rows are refitted as one."""

    linear: float = threshold(
        100.0,
        "rows are not refitted as one where the linear estimate of what that costs, divided by this, is too dear",
        origin="chosen: the estimate is of the first order, for exponents up to a half apart",
    )


TWINS = TwinThresholds()


def merge_twins(
    field: VectorField, fit: LeastSquares, free: Tensor, near: float, refit: Refit, approves: Approval
) -> tuple[LeastSquares, Tensor]:
    """The two most alike rows of a power unit as one, in the members where that is approved.

    Args:
        field: whose chain ends in a power unit and a sum; with any other nothing happens.
        fit: unknowns [members, U], parameters first.
        free: which of them are left, bool [members, U].
        near: rows whose exponents differ by less are tried.
        refit: unknowns and which of them are free -> the least squares there.
        approves: sums of squares before and after, and how many parameters that saves -> which are approved.
    """
    twins = _closest_rows(field, fit.unknowns, free)
    if twins is None:
        return fit, free
    real, weight, keep, drop, gap = twins
    index = (gap < near).nonzero()[:, 0]
    index = index[_may_be_one(fit, free, real, (keep, drop), index, approves)]
    if not len(index):
        return fit, free
    start, trial_free = fit.unknowns[index].clone(), free[index].clone()
    members = torch.arange(len(index))
    w, a = real(start), weight(start)
    w_free, a_free = real(trial_free), weight(trial_free)
    keep, drop = keep[index], drop[index]
    share = a[members, :, keep].abs().sum(dim=1), a[members, :, drop].abs().sum(dim=1)
    mix = (share[1] / (share[0] + share[1]).clamp_min(1e-300))[:, None]
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
    saved = free[index].sum(dim=1) - trial_free.sum(dim=1)
    good = approves(fit.sum_of_squares[index], merged_fit.sum_of_squares, saved)
    chosen = index[good]
    merged = LeastSquares(fit.unknowns.clone(), fit.sum_of_squares.clone(), fit.normal.clone())
    merged.unknowns[chosen] = merged_fit.unknowns[good]
    merged.sum_of_squares[chosen] = merged_fit.sum_of_squares[good]
    merged.normal[chosen] = merged_fit.normal[good]
    free = free.clone()
    free[chosen] = trial_free[good]
    return merged, free


def _may_be_one(
    fit: LeastSquares, free: Tensor, real: Rows, rows: tuple[Tensor, Tensor], index: Tensor, approves: Approval
) -> Tensor:
    """Which members `index` might be allowed one row in place of two, by the Wald statistic of equal exponents.

    d = w_keep - w_drop,    d^T (A C A^T)^-1 d,    A the rows of +1 and -1 that give d
    """
    places = real(torch.arange(free.shape[1]).expand_as(free))
    hopeful = torch.ones(len(index), dtype=torch.bool)
    for i, m in enumerate(index.tolist()):
        keep, drop = (places[m, row[m]] for row in rows)
        moves = free[m, keep] | free[m, drop]
        columns = free[m].nonzero()[:, 0]
        contrast = torch.zeros(int(moves.sum()), free.shape[1], dtype=fit.unknowns.dtype)
        each = torch.arange(len(contrast))
        contrast[each, keep[moves]], contrast[each, drop[moves]] = 1.0, -1.0
        inverse = inverse_of(fit.normal[m][columns][:, columns][None])[0]
        wald = wald_statistic(contrast[:, columns], fit.unknowns[m, columns], inverse)
        squares = fit.sum_of_squares[m]
        after = squares + wald / TWINS.linear
        # One row saves the exponents of the other, and a coefficient of each equation that has both.
        hopeful[i] = approves(squares, after, torch.tensor(2 * len(moves)))
    return hopeful


def _closest_rows(
    field: VectorField, unknowns: Tensor, free: Tensor
) -> tuple[Rows, Rows, Tensor, Tensor, Tensor] | None:
    """Views of the exponents and of the sum layer behind them, and each member's nearest rows.

    None when the chain does not end in a power unit and a sum.
    """
    last, power = len(field.units) - 1, len(field.units) - 2
    shapes = field.units[power].shapes()
    if power < 0 or "real" not in shapes or "weight" not in field.units[last].shapes():
        return None
    h, n = shapes["real"]

    def real(v: Tensor) -> Tensor:
        return v[:, field.place(power, "real")].view(len(v), h, n)

    def weight(v: Tensor) -> Tensor:
        return v[:, field.place(last, "weight")].view(len(v), -1, h)

    alive = weight(free).any(dim=1)
    w = real(unknowns)
    gap = (w[:, :, None] - w[:, None, :]).abs().amax(dim=-1)
    apart = ~(alive[:, :, None] & alive[:, None, :]) | torch.eye(h, dtype=torch.bool)
    gap = gap.masked_fill(apart, torch.inf)
    least, flat = gap.flatten(1).min(dim=1)
    return real, weight, flat // h, flat % h, least
