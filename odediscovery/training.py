"""Random members trained on one-interval windows: where laws come from that nothing else found.

Adam, then LBFGS, under L1  ->  gates 0 or 1, small parameters removed  ->  laws to be pruned
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import torch

from odediscovery.device import device_of, moved
from odediscovery.extract import laws_of, power_units
from odediscovery.field import VectorField
from odediscovery.fit import train
from odediscovery.monitor import Monitor
from odediscovery.powersum import PowerSum
from odediscovery.prepare import Prepared
from odediscovery.prune import binarised, thresholded
from odediscovery.settings import Settings
from odediscovery.windows import Windows, cut

# Trained members that are pruned: the best.
KEPT = 12


def trained_laws(p: Prepared, settings: Settings, monitor: Monitor) -> list[PowerSum]:
    """Laws of random members after training."""
    field = random_members(p, [settings.hidden] * settings.members, settings.seed)
    return laws_of(trained(p, field, settings, monitor))


def random_members(
    p: Prepared, hidden: Sequence[int], seed: int, unit: str = "RealNPU"
) -> VectorField:
    """One RealNPU -> NAU member for each hidden size, from the study's random initialisation.

    Sizes differ by what is free; the equation of a state that never changes is zero.
    """
    n, h = p.data.n_states, max(hidden)
    generator = torch.Generator().manual_seed(seed)
    units = power_units(p.nonnegative.tolist(), h, unit)
    field = VectorField.random(units, len(hidden), generator)
    rows = torch.arange(h) < torch.tensor(hidden)[:, None]
    tied = np.zeros(n, dtype=bool) if p.knowledge is None else p.knowledge.tied
    follows = p.constant | tied
    used = (rows[:, None, :] & ~torch.as_tensor(follows)[None, :, None]).flatten(1)
    theta, free = field.theta.clone(), field.free.clone()
    powers = rows[:, :, None].expand(-1, -1, n).flatten(1)
    exponents = [name for name in units[0].shapes() if name != "gate"]
    for place, mask in (
        *((field.place(0, name), powers) for name in exponents),
        (field.place(1, "weight"), used),
    ):
        theta[:, place] = theta[:, place].masked_fill(~mask, 0.0)
        free[:, place] &= mask
    mix = torch.as_tensor(p.knowledge.mix) if p.knowledge is not None and tied.any() else None
    return dataclasses.replace(field, theta=theta, free=free, mix=mix)


def short_windows(p: Prepared) -> Windows:
    """One-interval windows from smoothed starts; residuals in units of each state's increments."""
    increments = np.concatenate([np.diff(t.values, axis=0) for t in p.smooth.trajectories])
    spread = np.sqrt(np.mean(increments**2, axis=0))
    weight = np.where(p.constant, 0.0, 1.0 / np.maximum(spread, 1e-12))
    return cut(p.data, p.smooth, weight, 1, shape=p.shape)


def trained(
    p: Prepared, field: VectorField, settings: Settings, monitor: Monitor, keep: int = KEPT
) -> VectorField:
    """The best `keep` members after training, gates at 0 or 1 and small parameters removed.

    They are trained on the device of the settings. The order of the members stays only if all are
    kept.
    """
    device = device_of(settings.device)
    there = train(
        moved(field, device), moved(short_windows(p), device), steps=settings.adam_steps,
        rate=settings.learning_rate, lbfgs_steps=settings.lbfgs_steps, l1=settings.l1, keep=keep,
        monitor=monitor,
    )  # fmt: skip
    return thresholded(binarised(field.replace(there.theta.cpu(), there.free.cpu())))
