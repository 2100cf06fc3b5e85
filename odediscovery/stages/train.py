"""Random members trained on one-interval windows: a source of laws that growing does not find.

Adam, then LBFGS, under L1  ->  gates 0 or 1, small parameters removed  ->  laws to be pruned
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from odediscovery.fitting.optimise import FirstOrder, Loss, lbfgs
from odediscovery.fitting.training import TrainingWindows
from odediscovery.fitting.windows import short_windows
from odediscovery.laws.power_sum import PowerSum
from odediscovery.networks.power_units import power_units
from odediscovery.networks.translate import trained_laws_of
from odediscovery.networks.vector_field import VectorField
from odediscovery.problem.problem import Problem
from odediscovery.runtime.device import device_of, moved, use_threads
from odediscovery.runtime.monitor import Monitor
from odediscovery.runtime.resources import keep_freed_memory
from odediscovery.runtime.thresholds import Thresholds, threshold
from odediscovery.settings import Settings


@dataclass(frozen=True)
class TrainThresholds(Thresholds):
    """How members are trained, and what is left of them."""

    kept: int = threshold(
        12, "trained members that are pruned, the best ones", origin="cost: pruning is the longest part"
    )
    ramp: float = threshold(
        0.5, "part of the gradient steps over which the L1 weight rises from 0 to its full value", unit="share"
    )
    opening_begin: float = threshold(0.4, "part of the gradient steps after which gates are drawn to 1", unit="share")
    opening_end: float = threshold(0.7, "part of the gradient steps after which gates are at 1", unit="share")
    accuracy: float = threshold(
        0.01,
        "integration error that an LBFGS step may see",
        unit="standard deviations of a residual",
        origin="a hundredth of the noise is not seen in it",
    )
    imaginary: float = threshold(
        0.1,
        "imaginary exponents of an NPU begin between minus this and this",
        origin="at 0, where the paper begins, they have no gradient while states are positive",
    )
    closed_gate: float = threshold(0.02, "a gate nearer to 0 hides its input: the exponents behind it go with it")
    small: float = threshold(0.02, "trained parameters below this are removed before the first refit")


TRAINING = TrainThresholds()


def trained_laws(p: Problem, settings: Settings, monitor: Monitor) -> list[PowerSum]:
    """Laws of random members after training."""
    use_threads(settings.threads)
    field = random_members(p, [settings.hidden] * settings.members, settings.seed, settings.unit)
    if settings.unit == "NPU":
        field = with_imaginary(field, settings.seed)
    return trained_laws_of(train_and_threshold(p, field, settings, monitor))


def random_members(p: Problem, widths: Sequence[int], seed: int, unit: str = "RealNPU") -> VectorField:
    """One RealNPU -> NAU member for each width, from the study's random initialisation.

    Widths differ by what is free; the equation of a state that never changes is zero.
    """
    n, h = p.data.n_states, max(widths)
    generator = torch.Generator().manual_seed(seed)
    units = power_units(p.nonnegative.tolist(), h, unit)
    field = VectorField.random(units, len(widths), generator)
    rows = torch.arange(h) < torch.tensor(widths)[:, None]
    tied = np.zeros(n, dtype=bool) if p.knowledge is None else p.knowledge.tied
    follows = p.constant | tied
    used = (rows[:, None, :] & ~torch.as_tensor(follows)[None, :, None]).flatten(1)
    theta, free = field.theta.clone(), field.free.clone()
    powers = rows[:, :, None].expand(-1, -1, n).flatten(1)
    exponents = [name for name in units[0].shapes() if name != "gate"]
    for place, mask in (*((field.place(0, name), powers) for name in exponents), (field.place(1, "weight"), used)):
        theta[:, place] = theta[:, place].masked_fill(~mask, 0.0)
        free[:, place] &= mask
    mix = torch.as_tensor(p.knowledge.stoichiometry) if p.knowledge is not None and tied.any() else None
    return dataclasses.replace(field, theta=theta, free=free, stoichiometry=mix)


def with_imaginary(field: VectorField, seed: int) -> VectorField:
    """NPU members whose imaginary exponents, where they are free, begin at random and not at 0."""
    place, theta = field.place(0, "imaginary"), field.theta.clone()
    draw = torch.rand(theta[:, place].shape, generator=torch.Generator().manual_seed(seed), dtype=theta.dtype)
    theta[:, place] = TRAINING.imaginary * (2.0 * draw - 1.0) * field.free[:, place]
    return field.replace(theta)


def train_and_threshold(
    p: Problem, field: VectorField, settings: Settings, monitor: Monitor, keep: int | None = None
) -> VectorField:
    """The best `keep` members after training, gates at 0 or 1 and small parameters removed.

    They are trained on the device of the settings. The order of the members stays only if all are
    kept.
    """
    device = device_of(settings.device)
    there = train(
        moved(field, device),
        TrainingWindows.of(short_windows(p), settings.gradients, device),
        steps=settings.adam_steps,
        rate=settings.learning_rate,
        lbfgs_steps=settings.lbfgs_steps,
        l1=settings.l1,
        keep=TRAINING.kept if keep is None else keep,
        monitor=monitor,
    )
    return drop_small(binarise_gates(field.replace(there.theta.cpu(), there.free.cpu())))


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


def penalised_loss(field: VectorField, windows: TrainingWindows, l1: float) -> Loss:
    """loss(theta, progress) [members] with ramped L1 and gates drawn to 1."""
    gate, weight = gates(field), penalties(field)

    def loss(theta: Tensor, progress: float) -> Tensor:
        begin, end = TRAINING.opening_begin, TRAINING.opening_end
        share = min(max((progress - begin) / (end - begin), 0.0), 1.0)
        opened = torch.where(gate, theta + share * (1.0 - theta), theta)
        norm = (theta * weight * (field.free & ~gate)).abs().sum(dim=1)
        return windows.loss(field, opened) + l1 * min(progress / TRAINING.ramp, 1.0) * norm

    return loss


def train(
    field: VectorField,
    windows: TrainingWindows,
    *,
    steps: int,
    rate: float,
    lbfgs_steps: int,
    l1: float,
    keep: int,
    monitor: Monitor,
) -> VectorField:
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
    loss = penalised_loss(field, windows, l1)
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
    windows = windows.refined(field, field.theta, TRAINING.accuracy)
    monitor.stage("LBFGS", lbfgs_steps)
    loss = penalised_loss(field, windows, l1)
    return field.replace(lbfgs(loss, field.theta, field.free, lbfgs_steps, monitor))


def binarise_gates(field: VectorField) -> VectorField:
    """Gates fixed at 1, or at 0 with the exponents behind them, so that units are read exactly."""
    theta, free = field.theta.clone(), field.free.clone()
    for i, unit in enumerate(field.units):
        shapes = unit.shapes()
        if "gate" not in shapes:
            continue
        gate = field.place(i, "gate")
        closed = theta[:, gate] < TRAINING.closed_gate
        for name in ("real", "imaginary"):
            if name in shapes:
                place = field.place(i, name)
                behind = closed[:, None, :].expand(-1, *shapes[name]).flatten(1)
                theta[:, place] = theta[:, place].masked_fill(behind, 0.0)
                free[:, place] &= ~behind
        theta[:, gate], free[:, gate] = 1.0, False
    return field.replace(theta, free)


def drop_small(field: VectorField, least: float | None = None) -> VectorField:
    """Parameters below `least` (default: `TRAINING.small`) removed: set to 0 and no longer free."""
    small = field.free & (field.theta.abs() < (TRAINING.small if least is None else least))
    return field.replace(field.theta.masked_fill(small, 0.0), field.free & ~small)
