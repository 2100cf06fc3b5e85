"""Levenberg-Marquardt for all members at once: sums of squares, batched; it knows no equations.

Two more loops of this name stand elsewhere, because they minimise something else or a batch of
another kind: `stages/grow/side_by_side.py` (a likelihood without known variances, coefficients
eliminated) and `search/flows/rough_fits.py` (a fixed number of steps, members by the ten thousand).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from odediscovery.runtime.memory import fitting_at_once
from odediscovery.runtime.monitor import Monitor
from odediscovery.runtime.thresholds import Thresholds, threshold


@dataclass(frozen=True)
class MarquardtThresholds(Thresholds):
    """How steps are damped and when a member has converged or is stuck."""

    tolerance: float = threshold(1e-5, "relative gain of a step below which a member has converged")
    first_damping: float = threshold(
        1e-3, "damping of the first step", unit="diagonal of J^T J", origin="Nielsen (1999)"
    )
    least_damping: float = threshold(
        1e-12, "damping is never less", unit="diagonal of J^T J", origin="float64: keeps the damping from becoming 0"
    )
    stuck_damping: float = threshold(
        1e8,
        "a member whose step fails at this damping is stuck",
        unit="diagonal of J^T J",
        origin="float64: its step is below 1e-8 of a gradient step",
    )
    growth: float = threshold(
        2.0, "first factor of a failed step's damping, doubled each time", origin="Nielsen (1999)"
    )
    least_decrease: float = threshold(1 / 3, "least factor of a good step's damping", origin="Nielsen (1999)")
    largest_gain_ratio: float = threshold(
        1e3, "gain over predicted gain that still counts", origin="range of float64: its cube has to fit"
    )
    least_column: float = threshold(
        1e-12,
        "a smaller diagonal counts as this: no huge step along it",
        unit="largest diagonal of J^T J",
        origin="float64: four digits above its epsilon",
    )
    many: int = threshold(
        300, "unknowns from which on it is asked whether all members have room side by side", origin="cost: one solve"
    )
    ridge: float = threshold(
        1e-14, "added to the scaled diagonal, whatever the damping", origin="float64: 50 times its epsilon"
    )


MARQUARDT = MarquardtThresholds()

# Keeps quotients finite.
SMALLEST = 1e-300


@runtime_checkable
class Residuals(Protocol):
    """What Levenberg-Marquardt minimises: the sum of squares of residuals of each member.

    Members stand side by side and do not know of each other: any subset of them may be asked for.
    """

    def solve(self, unknowns: Tensor) -> Tensor:
        """What a model predicts at unknowns [members, unknowns], [members, ...]."""

    def residuals(self, unknowns: Tensor, solved: Tensor | None = None) -> Tensor:
        """Weighted residuals [members, R].

        Args:
            unknowns: [members, unknowns].
            solved: what `solve` gave for these members, if that is known already.
        """

    def linearised(self, unknowns: Tensor, free: Tensor, solved: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Residuals [members, R] and their Jacobian [members, R, unknowns].

        Columns of unknowns that are not `free` [members, unknowns] may hold any number.
        """


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """Where Levenberg-Marquardt ended: unknowns, sums of squares and J^T J."""

    unknowns: Float[Tensor, "members unknowns"]
    sum_of_squares: Float[Tensor, " members"]
    normal: Float[Tensor, "members unknowns unknowns"]


def levenberg_marquardt(
    problem: Residuals,
    unknowns: Float[Tensor, "members unknowns"],
    free: Bool[Tensor, "members unknowns"],
    steps: int,
    *,
    tolerance: float | None = None,
    monitor: Monitor | None = None,
    solved: Tensor | None = None,
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
    unknowns = unknowns.clone()
    total, normal, gradient = _normal_equations(problem, unknowns, free, solved)
    damping = torch.full_like(total, MARQUARDT.first_damping)
    growth = torch.full_like(total, MARQUARDT.growth)
    active = total.isfinite().nonzero()[:, 0]
    for _ in range(steps):
        if not len(active) or (monitor is not None and monitor.stopping() is not None):
            break
        h, g, lam = normal[active], gradient[active], damping[active]
        step = _damped_step(h, g, lam, free[active])
        trial = unknowns[active] + step
        ends = problem.solve(trial)
        value = problem.residuals(trial, ends).square().sum(dim=1).nan_to_num(torch.inf)
        model_gain = -(step * (2 * g + (h @ step[..., None])[..., 0])).sum(dim=1)
        gain = total[active] - value
        better = gain > 0
        if better.any():
            there = _normal_equations(problem, trial[better], free[active[better]], ends[better])
            # A place without a Jacobian is no place to go on from.
            finite = there[0].isfinite()
            better[better.clone()] = finite
            moved = active[better]
            unknowns[moved] = trial[better]
            total[moved], normal[moved], gradient[moved] = (part[finite] for part in there)
        bound = MARQUARDT.largest_gain_ratio
        ratio = (gain / model_gain.clamp_min(SMALLEST)).clamp(-bound, bound)
        less = lam * (1 - (2 * ratio - 1) ** 3).clamp(MARQUARDT.least_decrease, MARQUARDT.growth)
        damping[active] = torch.where(better, less, lam * growth[active]).clamp_min(MARQUARDT.least_damping)
        growth[active] = torch.where(better, torch.full_like(lam, MARQUARDT.growth), 2 * growth[active])
        small = better & (gain <= tolerance * (total[active] + gain))
        stuck = ~better & ((lam > MARQUARDT.stuck_damping) | (model_gain <= tolerance * total[active]))
        active = active[~(small | stuck)]
    return LeastSquares(unknowns, total, normal)


def _normal_equations(
    problem: Residuals, unknowns: Tensor, free: Tensor, solved: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
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
            return (
                torch.cat([f[0] for f in found]),
                torch.cat([f[1] for f in found]),
                torch.cat([f[2] for f in found]),
            )
    r, jac = problem.linearised(unknowns, free, solved)
    # Where most unknowns are held, products of their columns would be most of the work.
    columns = compact(free)
    kept = free.gather(1, columns)
    jac = jac.gather(2, columns[:, None].expand(-1, jac.shape[1], -1))
    jac = jac.masked_fill(~kept[:, None, :], 0.0)
    bad = ~(r.isfinite().all(dim=1) & jac.isfinite().all(dim=(1, 2)))
    r, jac = r.masked_fill(bad[:, None], 0.0), jac.masked_fill(bad[:, None, None], 0.0)
    total = r.square().sum(dim=1).masked_fill(bad, torch.inf)
    small = jac.transpose(1, 2) @ torch.cat([jac, r[..., None]], dim=2)
    normal, gradient = torch.diag_embed((~free).to(jac)), torch.zeros_like(unknowns)
    member = torch.arange(len(free), device=free.device)[:, None, None]
    normal[member, columns[:, :, None], columns[:, None, :]] += small[..., :-1]
    gradient[member[..., 0], columns] = small[..., -1]
    return total, normal, gradient


def compact(free: Bool[Tensor, "members unknowns"]) -> Int[Tensor, "members free"]:
    """Places of the free parameters of each member, [members, F]; F is the most of any."""
    most = max(int(free.sum(dim=1).max()), 1) if len(free) else 1
    return (~free).to(torch.uint8).argsort(dim=1, stable=True)[:, :most]


def within(
    matrix: Float[Tensor, "members unknowns unknowns"], columns: Int[Tensor, "members free"]
) -> Float[Tensor, "members free free"]:
    """Rows and columns of [members, U, U] at some places [members, F] of each: [members, F, F]."""
    member = torch.arange(len(columns), device=columns.device)[:, None, None]
    return matrix[member, columns[:, :, None], columns[:, None, :]]


def _damped_step(normal: Tensor, gradient: Tensor, damping: Tensor, free: Tensor) -> Tensor:
    columns = compact(free)
    h, g = within(normal, columns), gradient.gather(1, columns)
    diagonal = h.diagonal(dim1=1, dim2=2)
    # A column that is (nearly) zero must not turn a tiny gradient into a huge step.
    least = MARQUARDT.least_column * diagonal.amax(dim=1, keepdim=True)
    scale = torch.maximum(diagonal, least).rsqrt()
    h = h * scale[:, :, None] * scale[:, None, :]
    h = h + torch.diag_embed(damping[:, None] + MARQUARDT.ridge + torch.zeros_like(diagonal))
    factor, info = torch.linalg.cholesky_ex(h)
    step = -torch.cholesky_solve((g * scale)[..., None], factor)[..., 0] * scale
    step = torch.where((info == 0)[:, None], step, -g * scale * scale)
    return torch.zeros_like(gradient).scatter(1, columns, step).masked_fill(~free, 0.0)
