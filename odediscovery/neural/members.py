"""The networks that a fit trains: a power unit and a sum, constrained by what is known about the states."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import torch

from odediscovery.laws.power_sum import PowerSum
from odediscovery.networks.vector_field import VectorField, trained_laws_of
from odediscovery.neural.train import train_members
from odediscovery.problem.problem import Problem
from odediscovery.runtime.device import use_threads
from odediscovery.runtime.monitor import Monitor
from odediscovery.settings import Settings
from odediscovery.units import NAU, NPU, RealNPU, glorot


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
    power = (
        # Imaginary exponents count ten times in the L1 norm, which drives them to 0, as the conclusion of Heim et al.
        # proposes.
        NPU(n, width, nonnegative=flags, init_re=begin, imaginary_l1=10.0)
        if unit == "NPU"
        else RealNPU(n, width, nonnegative=flags, init_re=begin)
    )
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
