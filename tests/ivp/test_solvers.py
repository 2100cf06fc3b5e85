"""Initial value problems: Runge-Kutta's steps, LSODA, and text that is compiled, against known solutions."""

import numpy as np
import pytest

from odediscovery.ivp.solvers import compiled, march, rk4_step, solve_until_failure, solve_whole


def solved(steps):
    """x' = -2 t x on [0, 2] from 1 in equal steps: its solution is exp(-t^2)."""
    x, h = np.array([1.0]), 2.0 / steps
    for k in range(steps):
        x = rk4_step(lambda share, x, t=k * h: -2.0 * (t + share * h) * x, x, h)
    return x


def test_halving_the_step_makes_the_error_sixteen_times_smaller():
    errors = [abs(solved(steps)[0] - np.exp(-4.0)) for steps in (40, 80, 160)]
    orders = np.log2(np.divide(errors[:-1], errors[1:]))
    assert orders == pytest.approx([4.0, 4.0], abs=0.2)


def test_polynomials_of_degree_four_in_time_are_exact():
    x = rk4_step(lambda share, x: np.full_like(x, 4.0 * (2.0 * share) ** 3), np.zeros(2), 2.0)
    np.testing.assert_allclose(x, 16.0, rtol=1e-15)


def test_every_row_has_a_step_of_its_own():
    x, h = np.ones((3, 2)), np.array([[0.0], [0.1], [0.2]])
    together = rk4_step(lambda _, x: -x, x, h)
    alone = np.stack([rk4_step(lambda _, x: -x, row, float(length[0])) for row, length in zip(x, h, strict=True)])
    np.testing.assert_array_equal(together, alone)
    assert (together[0] == 1.0).all()


T = np.linspace(0.0, 2.0, 9)


def circle(t, x):
    """Turns at speed 1."""
    return [-x[1], x[0]]


def explosion(t, x):
    """1 / (1 - t) from 1."""
    return x**2


def test_both_find_the_known_solution():
    start, exact = np.array([1.0, 0.0]), np.stack([np.cos(T), np.sin(T)], axis=1)
    whole = solve_whole(circle, start, T, 1e-10, 1e-12, np.inf)
    np.testing.assert_allclose(whole, exact, atol=1e-8)
    np.testing.assert_allclose(solve_until_failure(circle, start, T, 1e-10, 1e-12), exact, atol=1e-8)


def test_a_stiff_equation_stays_within_the_budget_of_a_trial():
    found = solve_whole(lambda t, x: -1e6 * (x - np.cos(t)), np.array([0.0]), T, 1e-8, 1e-10, np.inf)
    np.testing.assert_allclose(found[1:, 0], np.cos(T[1:]), atol=1e-5)


def test_behind_a_pole_nothing_is_said():
    start = np.array([1.0])
    assert solve_whole(explosion, start, T, 1e-9, 1e-9, 1e10) is None
    found = solve_until_failure(explosion, start, T, 1e-9, 1e-9)[:, 0]
    np.testing.assert_allclose(found[T < 1.0], 1.0 / (1.0 - T[T < 1.0]), rtol=1e-6)
    assert np.isnan(found[T > 1.0]).all()


def test_a_state_beyond_all_bounds_is_given_up():
    def growth(t, x):
        return 10.0 * x

    start, late = np.array([1.0]), np.linspace(0.0, 20.0, 50)
    assert solve_whole(growth, start, late, 1e-9, 1e-11, 1e10) is None
    assert solve_whole(growth, start, late, 1e-9, 1e-11, np.inf) is not None


def test_the_budget_ends_a_solve():
    start, calls = np.array([1.0, 0.0]), 0

    def counted(t, x):
        nonlocal calls
        calls += 1
        return [1e5 * rate for rate in circle(t, x)]

    found = solve_until_failure(counted, start, T, 1e-10, 1e-12, max_evaluations=30)
    assert calls == 30 and np.isnan(found[-1]).all() and found[0].tolist() == [1.0, 0.0]
    calls = 0
    assert solve_whole(counted, start, T, 1e-10, 1e-12, np.inf) is None
    assert calls == 5000 + 100 * len(T)


@pytest.mark.parametrize("start, times", [([np.nan], [0.0, 1.0]), ([1.0], [0.0, np.inf]), ([1.0], [])])
def test_what_is_no_problem_has_no_solution(start, times):
    found = solve_until_failure(explosion, np.array(start), np.array(times), 1e-9, 1e-9)
    assert found.shape == (len(times), 1) and np.isnan(found).all()


def test_what_was_reached_before_a_number_became_too_large_stays():
    reached = []
    with pytest.raises(OverflowError):
        for x in march(1)(lambda x: (x**9,), [1.5], [0.5] * 9):
            reached.append(x)
    assert reached[0] == (1.5,) and 1 <= len(reached) < 9


TWICE = "def twice(x):\n    return x + x\n"


@pytest.mark.parametrize("body", ["x.__class__", "'text'", "[x for x in x]", "lambda: x", "x[0]", "None"])
def test_what_is_no_arithmetic_is_refused(body):
    with pytest.raises(ValueError, match="expected arithmetic"):
        compiled(f"def of(x):\n    return {body}\n")


@pytest.mark.parametrize("text", ["x = 1.0\n", TWICE + TWICE, "@twice\n" + TWICE, "def of(x=1.0):\n    return x\n"])
def test_what_is_not_one_plain_function_is_refused(text):
    with pytest.raises(ValueError, match="expected"):
        compiled(text)


def test_it_sees_no_built_in_names():
    with pytest.raises(NameError):
        compiled("def of(x):\n    return open(x)\n")("file")
