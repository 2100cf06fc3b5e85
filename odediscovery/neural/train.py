"""Training a vector field: a Neural ODE whose layers are arithmetic units.

    loss = mean ((x(t_k + h; x(t_k)) - x_{k+1}) / spread)^2 + l1 |theta|_1        over windows of the data

torchdiffeq solves each window. The weight of the L1 penalty rises, while the gates of power units are drawn to 1, so
that the trained weights are readable. Restarts are members of one batch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from odediscovery.data.series import TimeSeries
from odediscovery.errors import InputError
from odediscovery.fitting.training import FirstOrder, Loss, TrainingWindows, lbfgs
from odediscovery.fitting.windows import short_windows
from odediscovery.laws.power_sum import PowerSum
from odediscovery.networks.vector_field import VectorField, trained_laws_of
from odediscovery.neural.field import Field, posed, restarts, scaled, units_of
from odediscovery.problem.problem import Problem, has_little_noise
from odediscovery.runtime.device import device_of, moved, use_threads
from odediscovery.runtime.monitor import Monitor, drawn, keep_freed_memory
from odediscovery.settings import Settings, settings_for
from odediscovery.units import NAU, NPU, RealNPU, glorot


def train(
    field: nn.Module,
    series: TimeSeries,
    *,
    members: int = 16,
    intervals: int | None = 1,
    generator: torch.Generator | None = None,
    max_seconds: float | None = None,
    monitor: Monitor | None = None,
    adam_steps: int = Settings.adam_steps,
    learning_rate: float = Settings.learning_rate,
    lbfgs_steps: int = Settings.lbfgs_steps,
    l1: float = Settings.l1,
    gradients: str = Settings.gradients,
    device: str = Settings.device,
    threads: int | None = None,
) -> Field:
    """Train a vector field inside an ODE solver until its solutions follow the measured series.

    Adam, then LBFGS, minimise the loss on windows of the series with an L1 penalty whose weight rises over the first
    half of the Adam steps; gates are drawn to 1. The given chain is not changed.

    Args:
        field: a chain of arithmetic units with one input and one output for each state.
        series: the measured series, in any units; the chain receives it dimensionless.
        members: restarts trained side by side, the first from the chain's own weights and the others from the
            initialisers of its units; a chain that already has members is trained with these instead.
        intervals: sample intervals of a window, each window an initial value problem; None for whole
            trajectories, the loss of the paper.
        generator: random generator for the restarts (default: torch's global generator).
        max_seconds: time limit, after which the best members so far are returned.
        monitor: receives the progress; without one a bar is drawn in notebooks and on terminals.
        adam_steps: gradient steps before LBFGS.
        learning_rate: largest rate of these steps.
        lbfgs_steps: most LBFGS iterations.
        l1: final weight of the L1 penalty, dimensionless.
        gradients: "odeint" through torchdiffeq's steps, "odeint-adjoint" by its continuous adjoint, or
            "closed-form" for RealNPU before NAU (for other chains the same as "odeint").
        device: cpu, or cuda for a GPU.
        threads: threads of the processor (default: 1, fastest for usual sizes).

    Returns:
        The best members, best first, along an axis in front of each parameter.

    Raises:
        InputError: not a chain of arithmetic units, a wrong width, or an option out of range.

    >>> from odediscovery import simulate_system
    >>> from odediscovery.units import NAU
    >>> trained = train(nn.Sequential(NAU(2, 2)), simulate_system("pendulum"), members=2, adam_steps=20, lbfgs_steps=2)
    >>> trained.members
    2
    """
    for name, count in (("members", members), ("intervals", 1 if intervals is None else intervals)):
        if not isinstance(count, int) or count < 1:
            raise InputError(f"{name} must be a whole number of at least 1, got {count!r}")
    settings = settings_for(
        "neural",
        members=members,
        adam_steps=adam_steps,
        learning_rate=learning_rate,
        lbfgs_steps=lbfgs_steps,
        l1=l1,
        gradients=gradients,
        device=device,
        threads=threads,
    )
    p = posed(field, series, "train")
    p = p.without_noise(None) if has_little_noise(p) else p
    with drawn(monitor, max_seconds) as hears:
        use_threads(settings.threads)
        start = restarts(units_of(field), members, generator)
        trained = train_members(p, start, settings, hears, intervals=intervals)
        with torch.no_grad():
            left = TrainingWindows.of(short_windows(p, intervals)).loss(trained, trained.theta).nan_to_num(torch.inf)
        return scaled(trained.select(left.argsort()), p.scale)


def trained_laws(p: Problem, settings: Settings, monitor: Monitor) -> list[PowerSum]:
    """Train random members and return their laws."""
    use_threads(settings.threads)
    field = random_members(p, [settings.hidden] * settings.members, settings.seed, settings.unit)
    if settings.unit == "NPU":
        field = _with_imaginary(field, settings.seed)
    return trained_laws_of(train_members(p, field, settings, monitor))


def random_members(p: Problem, widths: Sequence[int], seed: int, unit: str = "RealNPU") -> VectorField:
    """Draw one RealNPU -> NAU (or NPU -> NAU) member for each width, initialised as in the study.

    Widths differ by which parameters are free; equations of constant or tied states are zero.
    """
    n, width, flags = p.data.n_states, max(widths), p.nonnegative.tolist()
    begin = glorot(0.2)  # for both layers, as in the code of the fSIR study, Heim et al. (2020)
    # Imaginary exponents count ten times in the L1 norm, which drives them to 0, as the conclusion of Heim et al.
    # proposes.
    kind = NPU if unit == "NPU" else RealNPU
    power = kind(n, width, nonnegative=flags, init_re=begin, imaginary_l1=10.0)
    units = (power, NAU(width, n, init_weight=begin))
    field = VectorField.random(units, len(widths), torch.Generator().manual_seed(seed))
    tied = np.zeros(n, dtype=bool) if p.knowledge is None else p.knowledge.tied
    rows = torch.arange(width) < torch.tensor(widths)[:, None]
    monomials, equations = rows[:, :, None], rows[:, None] & ~torch.as_tensor(p.constant | tied)[:, None]
    theta, free = field.theta.clone(), field.free.clone()
    for values, may in zip(field.unpack(theta), field.unpack(free), strict=True):
        for name in values.keys() - {"gate"}:
            mask = equations if name == "weight" else monomials
            values[name].masked_fill_(~mask, 0.0)
            may[name] &= mask
    mix = torch.as_tensor(p.knowledge.stoichiometry) if p.knowledge is not None and tied.any() else None
    return dataclasses.replace(field, theta=theta, free=free, stoichiometry=mix)


def _with_imaginary(field: VectorField, seed: int) -> VectorField:
    """Draw random initial imaginary exponents: at 0, where the paper starts, they have no gradient for positive
    states."""
    place, theta = field.place(0, "imaginary"), field.theta.clone()
    draw = torch.rand(theta[:, place].shape, generator=torch.Generator().manual_seed(seed), dtype=theta.dtype)
    theta[:, place] = 0.1 * (2.0 * draw - 1.0) * field.free[:, place]
    return field.replace(theta)


def train_members(
    p: Problem, field: VectorField, settings: Settings, monitor: Monitor, keep: int = 12, *, intervals: int | None = 1
) -> VectorField:
    """Train members on the device of the settings; return the best `keep`, best first unless these are all, with gates
    fixed and small parameters removed."""
    device = device_of(settings.device)
    windows = TrainingWindows.of(short_windows(p, intervals), settings.gradients, device)
    there = descend(moved(field, device), windows, settings, keep=keep, monitor=monitor)
    return drop_small(binarise_gates(field.replace(there.theta.cpu(), there.free.cpu())))


def gates(field: VectorField) -> Tensor:
    """Mask the entries of theta that are relevance gates, bool [P]."""
    mask = torch.zeros_like(field.free[0])
    for i, name, place, _ in field.slices():
        mask[place] = name in field.units[i].gates
    return mask


def penalised_loss(field: VectorField, windows: TrainingWindows, l1: float) -> Loss:
    """The loss(theta, progress) with an L1 weight that rises over the first half of the gradient steps, and gates drawn
    to 1 between 40 and 70 % of them."""
    gate, weight = gates(field), torch.zeros_like(field.theta[0])
    for i, name, place, _ in field.slices():
        if name not in field.units[i].gates:
            weight[place] = field.units[i].penalties()[name]

    def loss(theta: Tensor, progress: float) -> Tensor:
        share = min(max((progress - 0.4) / (0.7 - 0.4), 0.0), 1.0)
        opened = torch.where(gate, theta + share * (1.0 - theta), theta)
        norm = (theta * weight * field.free).abs().sum(dim=1)
        return windows.loss(field, opened) + l1 * min(progress / 0.5, 1.0) * norm

    return loss


def descend(
    field: VectorField, windows: TrainingWindows, settings: Settings, *, keep: int, monitor: Monitor
) -> VectorField:
    """Train by Adam, then LBFGS with the `keep` members of smallest penalised loss, on windows whose residuals have a
    spread of about 1; gates end at 1."""
    keep_freed_memory()
    loss = penalised_loss(field, windows, settings.l1)
    monitor.stage("Adam", settings.adam_steps)
    theta = FirstOrder(settings.adam_steps, settings.learning_rate).run(loss, field.theta, field.free, monitor)
    gate = gates(field)
    field = field.replace(theta.masked_fill(gate, 1.0), field.free & ~gate)
    if keep < field.members:
        with torch.no_grad():
            final = loss(field.theta, 1.0).nan_to_num(torch.inf)
        field = field.select(torch.argsort(final)[:keep])
    if monitor.stopping():
        return field
    # A solver error of 0.01 of the spread is negligible.
    windows = windows.refined(field, field.theta, 0.01)
    monitor.stage("LBFGS", settings.lbfgs_steps)
    loss = penalised_loss(field, windows, settings.l1)
    return field.replace(lbfgs(loss, field.theta, field.free, settings.lbfgs_steps, monitor))


def binarise_gates(field: VectorField) -> VectorField:
    """Fix all gates at 1, and exponents behind nearly closed ones at 0, so that the field can be read exactly."""
    theta, free = field.theta.clone(), field.free.clone()
    for unit, values, may in zip(field.units, field.unpack(theta), field.unpack(free), strict=True):
        if "gate" not in unit.gates:
            continue
        closed = values["gate"][:, None] < 0.02
        for name in values.keys() & {"real", "imaginary"}:
            values[name].masked_fill_(closed, 0.0)
            may[name] &= ~closed
        values["gate"].fill_(1.0)
        may["gate"].fill_(False)
    return field.replace(theta, free)


def drop_small(field: VectorField) -> VectorField:
    """Remove free parameters below 0.02 in size: set them to 0 and fix them there."""
    small = field.free & (field.theta.abs() < 0.02)
    return field.replace(field.theta.masked_fill(small, 0.0), field.free & ~small)
