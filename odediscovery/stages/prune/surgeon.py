"""What becomes of the other parameters when some are removed, to second order.

    C = (J^T J)^-1,    theta <- theta - C_:R (C_RR)^-1 theta_R

Source: Hassibi and Stork, Optimal Brain Surgeon (1993).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from odediscovery.runtime.arrays import ABOVE_ZERO, Array, Mask


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
