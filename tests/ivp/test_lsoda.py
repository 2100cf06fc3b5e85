"""The door to LSODA: known solutions, and what happens where there is none."""

from __future__ import annotations

import numpy as np
import pytest

from odediscovery.ivp.solvers import solve_until_failure, solve_whole
from odediscovery.runtime.arrays import Array

T = np.linspace(0.0, 2.0, 9)


def circle(t: float, x: Array) -> list[float]:
    """Turns at speed 1."""
    return [-x[1], x[0]]


def explosion(t: float, x: Array) -> Array:
    """1 / (1 - t) from 1."""
    return x**2


def test_both_find_the_known_solution() -> None:
    start, exact = np.array([1.0, 0.0]), np.stack([np.cos(T), np.sin(T)], axis=1)
    whole = solve_whole(circle, start, T, 1e-10, 1e-12, np.inf)
    assert whole is not None
    np.testing.assert_allclose(whole, exact, atol=1e-8)
    np.testing.assert_allclose(solve_until_failure(circle, start, T, 1e-10, 1e-12), exact, atol=1e-8)


def test_a_stiff_equation_stays_within_the_budget_of_a_trial() -> None:
    found = solve_whole(lambda t, x: -1e6 * (x - np.cos(t)), np.array([0.0]), T, 1e-8, 1e-10, np.inf)
    assert found is not None
    np.testing.assert_allclose(found[1:, 0], np.cos(T[1:]), atol=1e-5)


@pytest.mark.slow
def test_behind_a_pole_nothing_is_said() -> None:
    start = np.array([1.0])
    assert solve_whole(explosion, start, T, 1e-9, 1e-9, 1e10) is None
    found = solve_until_failure(explosion, start, T, 1e-9, 1e-9)[:, 0]
    np.testing.assert_allclose(found[T < 1.0], 1.0 / (1.0 - T[T < 1.0]), rtol=1e-6)
    assert np.isnan(found[T > 1.0]).all()


def test_a_state_beyond_all_bounds_is_given_up() -> None:
    def growth(t: float, x: Array) -> Array:
        return 10.0 * x

    start, late = np.array([1.0]), np.linspace(0.0, 20.0, 50)
    assert solve_whole(growth, start, late, 1e-9, 1e-11, 1e10) is None
    assert solve_whole(growth, start, late, 1e-9, 1e-11, np.inf) is not None


def test_the_budget_ends_a_solve() -> None:
    start, calls = np.array([1.0, 0.0]), 0

    def counted(t: float, x: Array) -> list[float]:
        nonlocal calls
        calls += 1
        return [1e5 * rate for rate in circle(t, x)]

    found = solve_until_failure(counted, start, T, 1e-10, 1e-12, max_evaluations=30)
    assert calls == 30 and np.isnan(found[-1]).all() and found[0].tolist() == [1.0, 0.0]
    calls = 0
    assert solve_whole(counted, start, T, 1e-10, 1e-12, np.inf) is None
    assert calls == 5000 + 100 * len(T)


@pytest.mark.parametrize("start, times", [([np.nan], [0.0, 1.0]), ([1.0], [0.0, np.inf]), ([1.0], [])])
def test_what_is_no_problem_has_no_solution(start: list[float], times: list[float]) -> None:
    found = solve_until_failure(explosion, np.array(start), np.array(times), 1e-9, 1e-9)
    assert found.shape == (len(times), 1) and np.isnan(found).all()
