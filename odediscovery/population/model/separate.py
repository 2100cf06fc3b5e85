r"""Every group's own constants, all groups at once, held together loosely.

    minimise  \sum_j ((y_j - x(t_j; c)) / sigma)^2 + \sum_k ((c_k - centre_k) / width_k)^2   for each group

by Levenberg-Marquardt with a damping of each group's own. Not `fitting.levenberg_marquardt`: a `GroupModel` solves all
its groups or none, so that none leaves the batch; logarithms change by a factor of 4.5 at most; and curves come with
their slopes, so that a step costs one solution. Both end in the same minimum, but not in the same digits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from odediscovery.population.model.measured import GroupModel
from odediscovery.runtime.arrays import ABOVE_ZERO, Array
from odediscovery.runtime.thresholds import Thresholds, threshold


@dataclass(frozen=True)
class SeparateThresholds(Thresholds):
    """How groups are fitted side by side."""

    steps: int = threshold(25, "Levenberg-Marquardt steps, at most", origin="cost: bounds the time")
    damping: float = threshold(1e-2, "damping to begin from", unit="diagonal of the normal matrix")
    change: float = threshold(4.0, "change of the damping after a step", unit="ratio", origin="customary: 2 to 10")
    longest: float = threshold(1.5, "longest step of a logarithm", origin="a factor of 4.5")
    settled: float = threshold(1e-4, "change of the squares that ends a fit", unit="share")
    dampings: tuple[float, float] = threshold((1e-9, 1e9), "ends of the damping", unit="diagonal of the normal matrix")
    stuck: float = threshold(1e2, "damping beyond which a group that got no better has ended")
    least_size: float = threshold(1e-9, "least entry of that diagonal", unit="largest entry", origin="rounding")
    loosely: float = threshold(
        3.0, "how far unknowns are looked for from where they are expected", unit="logarithm", origin="a factor of 20"
    )
    held: float = threshold(1e-6, "the same of those that stay where they are")


SEPARATE = SeparateThresholds()


class SeparateFit(NamedTuple):
    """Unknowns of every group with what they leave.

    Args:
        unknowns: [unknowns, groups].
        squares: of the residuals, [states, groups], unweighted.
        objective: that was minimised [groups].
    """

    unknowns: Array
    squares: Array
    objective: Array


def fit_each(
    model: GroupModel,
    begin: Array,
    sigma: Array,
    centre: Array | None = None,
    width: Array | None = None,
    steps: int | None = None,
) -> SeparateFit:
    """The most likely unknowns of every group.

    Args:
        begin: [unknowns, groups].
        sigma: of the noise [states], or [states, groups].
        centre: [unknowns] or [unknowns, groups], where the unknowns are expected.
        width: [unknowns], how sure that is; inf for not at all.
    """
    objective = _Objective(
        1.0 / _of_groups(sigma, len(sigma), begin.shape[1]) ** 2,
        np.zeros(len(begin)) if width is None else 1.0 / width**2,
        np.zeros(begin.shape) if centre is None else _of_groups(centre, *begin.shape),
    )
    x = begin.copy()
    curves = model.curves(x)
    best = objective.value(curves.residual, x)
    damping = np.full(begin.shape[1], SEPARATE.damping)
    for _ in range(SEPARATE.steps if steps is None else steps):
        assert curves.slopes is not None
        tried = x + objective.step(curves.residual, curves.slopes, x, damping)
        trial = model.curves(tried)
        reached = objective.value(trial.residual, tried)
        better = reached < best
        gain = np.where(better, (best - reached) / np.maximum(best, ABOVE_ZERO), 0.0)
        assert trial.slopes is not None
        x = np.where(better, tried, x)
        curves = type(curves)(
            np.where(better, trial.residual, curves.residual), np.where(better, trial.slopes, curves.slopes)
        )
        best = np.where(better, reached, best)
        damping = np.clip(np.where(better, damping / SEPARATE.change, damping * SEPARATE.change), *SEPARATE.dampings)
        if np.all((better & (gain < SEPARATE.settled)) | (~better & (damping > SEPARATE.stuck))):
            break
    return SeparateFit(x, np.einsum("tig,tig->ig", curves.residual, curves.residual), best)


def _of_groups(values: Array, rows: int, groups: int) -> Array:
    """Values of every group [rows, groups], of those or of [rows] that all groups share."""
    return np.broadcast_to(values if values.ndim == 2 else values[:, None], (rows, groups))


@dataclass(frozen=True, eq=False)
class _Objective:
    r"""\sum_ti weight_i residual_ti^2 + \sum_k precision_k (x_k - centre_k)^2   for each group.

    Args:
        weight: 1 / sigma^2 [states, groups].
        precision: 1 / width^2 [unknowns], 0 for those that may be anything.
        centre: [unknowns, groups].
    """

    weight: Array
    precision: Array
    centre: Array

    def value(self, residual: Array, x: Array) -> Array:
        """Of residuals [samples, states, groups] at unknowns x [unknowns, groups], [groups]."""
        with np.errstate(over="ignore"):
            off = self.precision @ (x - self.centre) ** 2
            found: Array = np.einsum("tig,tig,ig->g", residual, residual, self.weight) + off
        return found

    def step(self, residual: Array, slopes: Array, x: Array, damping: Array) -> Array:
        """One damped step of all groups [unknowns, groups]."""
        precision = self.precision
        weighted = slopes * self.weight[None, :, None, :]
        normal = np.einsum("tipg,tiqg->gpq", weighted, slopes, optimize=True)
        gradient = np.einsum("tipg,tig->gp", weighted, residual) + (precision[:, None] * (self.centre - x)).T
        size = np.einsum("gpp->gp", normal) + precision
        size = np.maximum(size, SEPARATE.least_size * size.max(axis=1, keepdims=True).clip(ABOVE_ZERO))
        p = normal.shape[1]
        normal = normal + np.eye(p) * (precision + damping[:, None] * size)[:, None, :]
        step = np.linalg.solve(normal, gradient[:, :, None])[:, :, 0].T
        longest = np.abs(step).max(axis=0)
        cut: Array = step * np.minimum(1.0, SEPARATE.longest / np.maximum(longest, ABOVE_ZERO))
        return np.nan_to_num(cut)
