"""What becomes of the other parameters when some are removed, to second order.

    C = (J^T J)^-1,    theta <- theta - C_:R (C_RR)^-1 theta_R

Source: Hassibi and Stork, Optimal Brain Surgeon (1993).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from odediscovery.runtime.thresholds import Thresholds, threshold


@dataclass(frozen=True)
class SurgeonThresholds(Thresholds):
    """What keeps the linear algebra within the precision of float64."""

    influence: float = threshold(
        1e-18,
        "a parameter with less of the largest diagonal entry of J^T J has no influence",
        origin="below the squared precision of float64, 5e-32, with room for cancellation",
    )
    ridge: float = threshold(
        1e-11,
        "added to the scaled J^T J before it is inverted",
        origin="precision of float64 times the size of the matrix and its condition",
    )
    ridge_removed: float = threshold(
        1e-12, "the same for the block of removed parameters", origin="as `ridge`, for smaller blocks"
    )


SURGEON = SurgeonThresholds()


def is_without_influence(normal: Tensor, unknowns: Tensor, free: Tensor, parameters: int) -> Tensor:
    """Free parameters whose column of the Jacobian is zero: rows that nothing reads.

    Measured by a step of 1 and by the parameter's own size: before a negative power of a state near 0 a step of 1
    is so large that it would leave all others without influence.
    """
    diagonal = normal.diagonal(dim1=1, dim2=2)[:, :parameters]
    dead = free[:, :parameters].clone()
    for size in (diagonal, unknowns[:, :parameters] ** 2 * diagonal):
        dead &= size <= SURGEON.influence * size.amax(dim=1, keepdim=True)
    return dead


def inverse_of(normal: Tensor) -> Tensor:
    """C = (J^T J)^-1 of every member, scaled before it is inverted.

    Args:
        normal: J^T J [members, U, U].
    """
    scale = normal.diagonal(dim1=1, dim2=2).clamp_min(1e-300).rsqrt()
    h = normal * scale[:, :, None] * scale[:, None, :]
    h = h + SURGEON.ridge * torch.eye(h.shape[-1], dtype=h.dtype)
    inverse: Tensor = torch.linalg.pinv(h, hermitian=True)
    return inverse * scale[:, :, None] * scale[:, None, :]


def wald_statistic(contrast: Tensor, values: Tensor, inverse: Tensor) -> Tensor:
    """What it costs, linearly, that combinations of unknowns become 0: d^T (A C A^T)^-1 d with d = A theta.

    Args:
        contrast: A [combinations, F].
        values: theta [F].
        inverse: C [F, F].

    >>> wald_statistic(torch.tensor([[1.0, -1.0]]), torch.tensor([3.0, 1.0]), torch.eye(2)).item()
    2.0
    """
    gap, spread = contrast @ values, contrast @ inverse @ contrast.T
    scale = spread.diagonal().clamp_min(1e-300).rsqrt()
    h = spread * scale[:, None] * scale + SURGEON.ridge_removed * torch.eye(len(gap), dtype=gap.dtype)
    found: Tensor = (gap * scale) @ torch.linalg.solve_ex(h, gap * scale)[0]
    return found.nan_to_num(0.0).clamp_min(0.0)


def estimate_without(unknowns: Tensor, inverse: Tensor, removed: Tensor) -> Tensor:
    """Linear estimate of the others when the `removed` unknowns [members, trials, F] become 0.

    theta - C_:R (C_RR)^-1 theta_R, written for all sets R at once by unit rows outside R.
    """
    mask = removed.to(inverse)
    inside = inverse[:, None] * mask[..., None] * mask[:, :, None, :]
    inside = inside + torch.diag_embed(1.0 - mask)
    scale = inside.diagonal(dim1=-2, dim2=-1).clamp_min(1e-300).rsqrt()
    inside = inside * scale[..., None] * scale[..., None, :]
    inside = inside + SURGEON.ridge_removed * torch.eye(inside.shape[-1], dtype=inside.dtype)
    target = (unknowns[:, None] * mask * scale)[..., None]
    solved = torch.linalg.solve(inside, target)[..., 0] * scale * mask
    found: Tensor = unknowns[:, None] - solved @ inverse
    return found.masked_fill(removed, 0.0)
