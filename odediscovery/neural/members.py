"""The networks that a fit trains: a power unit and a sum, with what the user knows of the states."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import torch

from odediscovery.laws.power_sum import PowerSum
from odediscovery.networks.chain import trained_laws_of
from odediscovery.networks.vector_field import VectorField, power_units
from odediscovery.neural.train import TRAINING, train_members
from odediscovery.problem.problem import Problem
from odediscovery.runtime.device import use_threads
from odediscovery.runtime.monitor import Monitor
from odediscovery.settings import Settings


def trained_laws(p: Problem, settings: Settings, monitor: Monitor) -> list[PowerSum]:
    """Laws of random members after training."""
    use_threads(settings.threads)
    field = random_members(p, [settings.hidden] * settings.members, settings.seed, settings.unit)
    if settings.unit == "NPU":
        field = with_imaginary(field, settings.seed)
    return trained_laws_of(train_members(p, field, settings, monitor))


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
