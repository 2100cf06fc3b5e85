"""Training: first-order steps under a ramped L1 norm, gates drawn to 1, then LBFGS.

    loss = mean(weighted residuals^2) + l1 * ramp * sum w |theta|      (one number a member)

One-interval windows, and gates that are free at first and are then drawn to 1,
g <- g + s (1 - g) with s rising from 0 to 1, because a gate between 0 and 1 is no power product:
opened at once after training it would throw the fit away, opened slowly the exponents follow.
The weight w is 1, for the imaginary exponents of an NPU what the unit asks for. The paper's own
training is in `published`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from odediscovery.field import VectorField
from odediscovery.memory import keep_freed_memory
from odediscovery.monitor import Monitor
from odediscovery.optimise import FirstOrder, Loss, lbfgs
from odediscovery.windows import Windows

# Share of the gradient steps over which the L1 weight rises from 0 to its full value.
RAMP = 0.5
# Shares of the gradient steps between which the gates are drawn to 1.
OPENING = (0.4, 0.7)
# Integration error an LBFGS step may see, in units of a residual's standard deviation.
ACCURACY = 0.01


def gates(field: VectorField) -> Tensor:
    """Which entries of theta are gates, bool [P]."""
    mask = torch.zeros_like(field.free[0])
    for _, name, place, _ in field.slices():
        if name == "gate":
            mask[place] = True
    return mask


def penalties(field: VectorField) -> Tensor:
    """Relative weight of every parameter in the L1 norm, [P]."""
    weights = torch.ones_like(field.theta[0])
    for i, name, place, _ in field.slices():
        weights[place] = field.units[i].penalties()[name]
    return weights


def penalised(field: VectorField, windows: Windows, l1: float) -> Loss:
    """loss(theta, progress) [members] with ramped L1 and gates drawn to 1."""
    gate, weight = gates(field), penalties(field)

    def loss(theta: Tensor, progress: float) -> Tensor:
        share = min(max((progress - OPENING[0]) / (OPENING[1] - OPENING[0]), 0.0), 1.0)
        opened = torch.where(gate, theta + share * (1.0 - theta), theta)
        norm = (theta * weight * (field.free & ~gate)).abs().sum(dim=1)
        return windows.loss(field, opened) + l1 * min(progress / RAMP, 1.0) * norm

    return loss


def train(
    field: VectorField, windows: Windows, *, steps: int, rate: float, lbfgs_steps: int, l1: float,
    keep: int, monitor: Monitor,
) -> VectorField:  # fmt: skip
    """The best members after Adam (one-cycle rate), then LBFGS, on short windows; gates at 1.

    Args:
        windows: one-interval windows whose residuals have a spread of about 1.
        steps: Adam steps.
        rate: largest learning rate.
        lbfgs_steps: most LBFGS iterations.
        l1: final weight of the L1 norm.
        keep: how many members LBFGS goes on with, those with the smallest penalised loss.
    """
    keep_freed_memory()
    loss = penalised(field, windows, l1)
    monitor.stage("Adam", steps)
    theta = FirstOrder(steps, rate).run(loss, field.theta, field.free, monitor)
    gate = gates(field)
    field = field.replace(theta.masked_fill(gate, 1.0), field.free & ~gate)
    if keep < field.members:
        with torch.no_grad():
            final = loss(field.theta, 1.0).nan_to_num(torch.inf)
        field = field.select(torch.argsort(final)[:keep])
    if monitor.stopping():
        return field
    windows = windows.refined(field, field.theta, ACCURACY)
    monitor.stage("LBFGS", lbfgs_steps)
    loss = penalised(field, windows, l1)
    return field.replace(lbfgs(loss, field.theta, field.free, lbfgs_steps, monitor))
