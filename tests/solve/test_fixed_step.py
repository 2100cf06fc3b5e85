"""Solving networks on chosen grids: accuracy, and batches."""

from __future__ import annotations

import numpy as np
import torch
from problems import STARTS, field_of, random_field

from odediscovery.laws.power_sum import PowerSum
from odediscovery.solve.fixed_step import GRIDS, advance, advance_by_grid, advance_together


def tensor(values: object) -> torch.Tensor:
    return torch.as_tensor(np.array(values), dtype=torch.float64)


def test_every_window_has_its_own_duration_and_every_member_its_own_law() -> None:
    laws = [PowerSum(np.array([[a]]), np.array([[1.0]])) for a in (-0.7, 0.4)]
    fields = [field_of(law) for law in laws]
    theta = torch.cat([f.theta for f in fields])
    start, duration = tensor([[[1.0], [2.0], [3.0]]] * 2), tensor([0.5, 1.0, 0.25])
    end = advance(fields[0].rhs(theta), start, duration, GRIDS[4])
    exact = [[[x * np.exp(a * h)] for x, h in zip((1, 2, 3), (0.5, 1, 0.25), strict=True)] for a in (-0.7, 0.4)]
    np.testing.assert_allclose(end, exact, rtol=1e-6)


def test_together_is_interval_by_interval() -> None:
    field, times = random_field(), tensor([0.0, 0.4, 1.0, 1.3])
    grids = [GRIDS[1], GRIDS[3], GRIDS[2]]
    steps = [times[j] + grids[j][:-1] * times.diff()[j] for j in range(3)]
    start = tensor([STARTS, STARTS])
    rhs = field.rhs(field.theta)
    together = advance_together(rhs, start, times, torch.cat([*steps, times[-1:]]))
    assert together.shape == (2, 2, 3, 2)
    x = start
    for j in range(3):
        x = advance(rhs, x, times.diff()[j].expand(2), grids[j])
        np.testing.assert_allclose(together[:, :, j], x, rtol=1e-12)


def test_windows_on_different_grids_come_back_in_their_order() -> None:
    field = random_field()
    start, duration = tensor([[[1.0, 0.5], [0.2, 0.9], [1.5, 1.5]]] * 2), tensor([0.5, 2.0, 1.0])
    index = torch.tensor([5, 1, 5])
    rhs = field.rhs(field.theta)
    mixed = advance_by_grid(rhs, start, duration, index)
    for window, g in enumerate(index.tolist()):
        alone = advance(rhs, start[:, window : window + 1], duration[window : window + 1], GRIDS[g])
        np.testing.assert_allclose(mixed[:, window], alone[:, 0], rtol=1e-13)
