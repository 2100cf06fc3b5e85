"""Solving chains on chosen grids: accuracy, sensitivities, the choice of the grid."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from problems import PREY, STARTS, chain_of_law, field_of, numeric_jacobian, random_chain, solved

from odediscovery.laws.power_sum import PowerSum
from odediscovery.runtime.arrays import Array
from odediscovery.solve import fixed_step
from odediscovery.solve.grids import (
    DEFAULT_GRID,
    GRIDS,
    REFERENCE,
    advance,
    advance_by_grid,
    choose_grids,
    rk4_nodes,
    sensitivities,
)

# x' = sqrt(x): x(t) = (sqrt(x0) + t / 2)^2, singular at 0.
ROOT = PowerSum(np.array([[1.0]]), np.array([[0.5]]))


def root_error(grid: Array, start: float) -> float:
    chain = chain_of_law(ROOT)
    end = advance(chain.rhs(chain.theta), np.array([[[start]]]), np.array([1.0]), grid)
    return abs(end.item() - (start**0.5 + 0.5) ** 2)


def test_grids_go_from_0_to_1_and_become_dearer() -> None:
    for grid in (*GRIDS, REFERENCE):
        assert grid[0] == 0.0 and grid[-1] == pytest.approx(1.0, abs=1e-15)
        assert bool((np.diff(grid) > 0).all())
    sizes = [len(grid) for grid in GRIDS]
    assert sizes == sorted(sizes) and len(REFERENCE) > sizes[-1]
    assert 0 <= DEFAULT_GRID < len(GRIDS)


def test_finer_uniform_grids_are_of_fourth_order() -> None:
    errors = [root_error(np.linspace(0, 1, n + 1), 1.0) for n in (4, 8)]
    assert errors[0] / errors[1] == pytest.approx(16.0, rel=0.25)


def test_graded_grids_are_better_near_a_singular_start() -> None:
    graded, uniform = GRIDS[5], np.linspace(0, 1, len(GRIDS[5]))
    assert root_error(graded, 1e-4) < 0.1 * root_error(uniform, 1e-4)
    assert root_error(REFERENCE, 1e-4) < 1e-5


def test_sensitivities_are_the_derivatives_of_the_end() -> None:
    chain, duration = random_chain(), np.array([0.7, 1.2])
    start, index = np.array([STARTS, STARTS + 0.1]), np.array([2, 4])
    columns = np.tile(np.arange(chain.theta.shape[1]), (2, 1))
    end, s = sensitivities(chain, chain.theta, start, duration, index, columns)
    rhs = chain.rhs(chain.theta)
    np.testing.assert_allclose(end, advance_by_grid(rhs, start, duration, index), rtol=1e-13)
    assert s.shape == (2, 2, 2, 2 + chain.theta.shape[1])

    def by_theta(theta: Array) -> Array:
        return advance_by_grid(chain.rhs(theta), start, duration, index).reshape(2, -1)

    numeric = numeric_jacobian(by_theta, chain.theta, 1e-6).reshape(2, 2, 2, -1)
    np.testing.assert_allclose(s[..., 2:], numeric, rtol=1e-5, atol=1e-7)
    for k in range(2):
        shift = np.zeros(2)
        shift[k] = 1e-6
        ends = [advance_by_grid(rhs, start + d, duration, index) for d in (shift, -shift)]
        np.testing.assert_allclose(s[..., k], (ends[0] - ends[1]) / 2e-6, rtol=1e-5, atol=1e-7)


def test_grids_are_as_fine_as_a_window_needs() -> None:
    chain = chain_of_law(ROOT, members=3)
    start = np.array([[[1.0], [1.0], [1e-4]]] * 3)
    duration = np.array([0.01, 2.0, 1.0])
    tolerance = np.array([1e-6])
    index = choose_grids(chain.rhs(chain.theta), start, duration, tolerance)
    assert index[0] == 0
    assert index[0] < index[1] < index[2]
    exact = [(x**0.5 + h / 2) ** 2 for x, h in zip((1.0, 1.0, 1e-4), (0.01, 2.0, 1.0), strict=True)]
    ends = advance_by_grid(chain.rhs(chain.theta), start, duration, index)
    assert bool((np.abs(ends[0, :2, 0] - exact[:2]) <= 1.5e-6).all())
    coarse = choose_grids(chain.rhs(chain.theta), start, duration, 1e4 * tolerance)
    assert bool((coarse <= index).all()) and coarse[2] < index[2]


def test_members_without_a_solution_do_not_choose_the_grid() -> None:
    chain = chain_of_law(ROOT, members=3)
    theta = chain.theta.copy()
    start, duration, tolerance = np.array([[[1.0]]] * 3), np.array([1.0]), np.array([1e-5])
    expected = choose_grids(chain.rhs(theta), start, duration, tolerance)
    theta[1] = np.nan
    assert np.array_equal(choose_grids(chain.rhs(theta), start, duration, tolerance), expected)
    theta[:] = np.nan
    hopeless = choose_grids(chain.rhs(theta), start, duration, tolerance)
    assert hopeless.tolist() == [len(GRIDS) - 1]


def test_steps_side_by_side_give_the_same_sensitivities() -> None:
    chain, duration = random_chain(), np.array([0.7, 1.2, 0.3])
    start, index = np.array([[*STARTS, STARTS[0]]] * 2), np.array([5, 1, 7])
    columns = np.array([[0, 4, 9], [1, 2, 11]])
    end, s = sensitivities(chain, chain.theta, start, duration, index, columns)
    # Of so many windows steps are taken one after the other.
    many = np.tile(start, (1, 800, 1)), np.tile(duration, 800), np.tile(index, 800)
    one_by_one, expected = sensitivities(chain, chain.theta, *many, columns)
    np.testing.assert_allclose(end, one_by_one[:, :3], rtol=1e-13)
    np.testing.assert_allclose(s, expected[:, :3], rtol=1e-11, atol=1e-13)


def test_a_march_takes_the_steps_of_the_solver() -> None:
    chain, duration = random_chain(), np.array([0.7, 1.2])
    rhs, start = chain.rhs(chain.theta), np.array([STARTS, STARTS + 0.1])
    nodes = rk4_nodes(rhs, start, duration[:, None] * np.diff(GRIDS[3]))
    assert nodes.shape == (2, 2, len(GRIDS[3]), 2)
    np.testing.assert_array_equal(nodes[:, :, 0], start)
    np.testing.assert_allclose(nodes[:, :, -1], advance(rhs, start, duration, GRIDS[3]), rtol=1e-13)


def test_accurate_on_a_predator_and_its_prey_and_as_networks_solve_it() -> None:
    chain, field, times = chain_of_law(PREY), field_of(PREY), np.array([0.0, 1.5])
    start, duration = np.array([STARTS]), np.array([1.5, 1.5])
    end = advance(chain.rhs(chain.theta), start, duration, GRIDS[-1])
    np.testing.assert_allclose(end[0], [solved(PREY, start, times)[-1] for start in STARTS], rtol=1e-7)
    rhs, tensors = field.rhs(field.theta), (torch.as_tensor(part) for part in (start, duration))
    np.testing.assert_allclose(end, fixed_step.advance(rhs, *tensors, fixed_step.GRIDS[-1]), rtol=1e-12)
