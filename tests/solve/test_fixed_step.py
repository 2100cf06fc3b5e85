"""Solving on chosen grids: accuracy, batches, sensitivities, the choice of the grid."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from problems import PREY, STARTS, field_of, numeric_jacobian, random_field, solved

from odediscovery.laws.power_sum import PowerSum
from odediscovery.solve import fixed_step
from odediscovery.solve.fixed_step import (
    DEFAULT_GRID,
    GRIDS,
    REFERENCE,
    STEPS,
    advance,
    advance_by_grid,
    advance_together,
    choose_grids,
    rk4_nodes,
    sensitivities,
)

# x' = sqrt(x): x(t) = (sqrt(x0) + t / 2)^2, singular at 0.
ROOT = PowerSum(np.array([[1.0]]), np.array([[0.5]]))


def tensor(values: object) -> torch.Tensor:
    return torch.as_tensor(np.array(values), dtype=torch.float64)


def root_error(grid: torch.Tensor, start: float) -> float:
    field = field_of(ROOT)
    end = advance(field.rhs(field.theta), tensor([[[start]]]), tensor([1.0]), grid)
    return abs(end.item() - (start**0.5 + 0.5) ** 2)


def test_grids_go_from_0_to_1_and_become_dearer() -> None:
    for grid in (*GRIDS, REFERENCE):
        assert grid[0] == 0.0 and grid[-1] == pytest.approx(1.0, abs=1e-15)
        assert bool((grid.diff() > 0).all())
    sizes = [len(grid) for grid in GRIDS]
    assert sizes == sorted(sizes) and len(REFERENCE) > sizes[-1]
    assert 0 <= DEFAULT_GRID < len(GRIDS)


def test_finer_uniform_grids_are_of_fourth_order() -> None:
    errors = [root_error(torch.linspace(0, 1, n + 1, dtype=torch.float64), 1.0) for n in (4, 8)]
    assert errors[0] / errors[1] == pytest.approx(16.0, rel=0.25)


def test_graded_grids_are_better_near_a_singular_start() -> None:
    graded, uniform = GRIDS[5], torch.linspace(0, 1, len(GRIDS[5]), dtype=torch.float64)
    assert root_error(graded, 1e-4) < 0.1 * root_error(uniform, 1e-4)
    assert root_error(REFERENCE, 1e-4) < 1e-5


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


def test_accurate_on_a_predator_and_its_prey() -> None:
    field, times = field_of(PREY), np.array([0.0, 1.5])
    end = advance(field.rhs(field.theta), tensor([STARTS]), tensor([1.5, 1.5]), GRIDS[-1])
    exact = [solved(PREY, start, times)[-1] for start in STARTS]
    np.testing.assert_allclose(end[0], exact, rtol=1e-7)


def test_sensitivities_are_the_derivatives_of_the_end() -> None:
    field, duration = random_field(), tensor([0.7, 1.2])
    start, index = tensor([STARTS, STARTS + 0.1]), torch.tensor([2, 4])
    end, s = sensitivities(field, field.theta, start, duration, index)
    rhs = field.rhs(field.theta)
    assert torch.allclose(end, advance_by_grid(rhs, start, duration, index), rtol=1e-13)
    assert s.shape == (2, 2, 2, 2 + field.theta.shape[1])

    def by_theta(theta: torch.Tensor) -> torch.Tensor:
        return advance_by_grid(field.rhs(theta), start, duration, index).flatten(1)

    numeric = numeric_jacobian(by_theta, field.theta, 1e-6).reshape(2, 2, 2, -1)
    np.testing.assert_allclose(s[..., 2:], numeric, rtol=1e-5, atol=1e-7)
    for k in range(2):
        shift = torch.zeros(2, dtype=torch.float64)
        shift[k] = 1e-6
        ends = [advance_by_grid(rhs, start + d, duration, index) for d in (shift, -shift)]
        np.testing.assert_allclose(s[..., k], (ends[0] - ends[1]) / 2e-6, rtol=1e-5, atol=1e-7)


def test_grids_are_as_fine_as_a_window_needs() -> None:
    field = field_of(ROOT, members=3)
    start = tensor([[[1.0], [1.0], [1e-4]]] * 3)
    duration = tensor([0.01, 2.0, 1.0])
    tolerance = tensor([1e-6])
    index = choose_grids(field, field.theta, start, duration, tolerance)
    assert index[0] == 0
    assert index[0] < index[1] < index[2]
    exact = [(x**0.5 + h / 2) ** 2 for x, h in zip((1.0, 1.0, 1e-4), (0.01, 2.0, 1.0), strict=True)]
    ends = advance_by_grid(field.rhs(field.theta), start, duration, index)
    assert bool(((ends[0, :2, 0] - tensor(exact[:2])).abs() <= 1.5e-6).all())
    coarse = choose_grids(field, field.theta, start, duration, 1e4 * tolerance)
    assert bool((coarse <= index).all()) and coarse[2] < index[2]


def test_members_without_a_solution_do_not_choose_the_grid() -> None:
    field = field_of(ROOT, members=3)
    theta = field.theta.clone()
    start, duration, tolerance = tensor([[[1.0]]] * 3), tensor([1.0]), tensor([1e-5])
    expected = choose_grids(field, theta, start, duration, tolerance)
    theta[1] = torch.nan
    assert torch.equal(choose_grids(field, theta, start, duration, tolerance), expected)
    theta[:] = torch.nan
    hopeless = choose_grids(field, theta, start, duration, tolerance)
    assert hopeless.tolist() == [len(GRIDS) - 1]


def test_steps_side_by_side_give_the_same_sensitivities(monkeypatch: pytest.MonkeyPatch) -> None:
    field, duration = random_field(), tensor([0.7, 1.2, 0.3])
    start, index = tensor([[*STARTS, STARTS[0]]] * 2), torch.tensor([5, 1, 7])
    columns = torch.tensor([[0, 4, 9], [1, 2, 13]])
    args = (field, field.theta, start, duration, index, columns)
    end, s = sensitivities(*args)
    monkeypatch.setattr(fixed_step, "STEPS", dataclasses.replace(STEPS, side_by_side=0))
    one_by_one, expected = sensitivities(*args)
    torch.testing.assert_close(end, one_by_one, rtol=1e-13, atol=0.0)
    torch.testing.assert_close(s, expected, rtol=1e-11, atol=1e-13)


def test_a_march_takes_the_steps_of_the_solver() -> None:
    field, duration = random_field(), tensor([0.7, 1.2])
    rhs, start = field.rhs(field.theta), tensor([STARTS, STARTS + 0.1])
    nodes = rk4_nodes(rhs, start, duration[:, None] * GRIDS[3].diff())
    assert nodes.shape == (2, 2, len(GRIDS[3]), 2)
    torch.testing.assert_close(nodes[:, :, 0], start)
    torch.testing.assert_close(nodes[:, :, -1], advance(rhs, start, duration, GRIDS[3]), rtol=1e-13, atol=0.0)
