"""Where solutions come to rest, with their errors."""

import numpy as np
import pytest

from odediscovery.judge.resting import resting_note, resting_point
from odediscovery.laws.equations import Equations
from odediscovery.laws.forms import read_form


def rest(text, constants, start, until, covariance):
    form = read_form(text, [f"x{i}" for i in range(len(start))] if len(start) > 1 else ["x"])
    times = np.linspace(0.0, until, 20)

    def solve(c, t):
        return form.with_constants(c.tolist()).simulate(start, t)

    def rates(c, x):
        return form.with_constants(c.tolist()).rhs(x)

    c = np.array(constants)
    x = solve(c, times)
    return resting_point(solve, rates, c, np.array(covariance), (0.0, until), x.min(axis=0), x.max(axis=0))


def test_a_logistic_law_rests_at_its_capacity():
    value, error = rest("x' = r*x*(1 - x/K)", [0.5, 80.0], [2.0], 20.0, [[1e-4, 0.0], [0.0, 4.0]])
    np.testing.assert_allclose(value, [80.0], rtol=1e-6)
    np.testing.assert_allclose(error, [2.0], rtol=1e-3)


@pytest.mark.slow
def test_an_outflow_rests_at_its_offset_which_it_reaches():
    value, error = rest("x' = -k*(x - x0)**0.5", [0.5, 4.0], [20.0], 12.0, [[1e-4, 0.0], [0.0, 0.01]])
    np.testing.assert_allclose(value, [4.0], atol=1e-3)
    np.testing.assert_allclose(error, [0.1], rtol=1e-2)


def test_what_grows_forever_vanishes_or_turns_rests_nowhere_worth_telling():
    assert rest("x' = r*x", [0.5], [2.0], 4.0, [[1e-4]]) is None
    assert rest("x' = -r*x", [0.5], [2.0], 4.0, [[1e-4]]) is None


def test_unknown_errors_are_left_out():
    value, error = rest("x' = r*x*(1 - x/K)", [0.5, 80.0], [2.0], 20.0, [[np.nan, 0.0], [0.0, 4.0]])
    assert np.isnan(error).all() and resting_note(["x"], value, error).startswith("comes to rest at x = 80:")


def test_a_state_that_stays_where_it_starts_has_no_error_and_no_more_digits_than_others():
    note = resting_note(["x", "beds", "I"], np.array([80.0, 5.13397262295, 0.0]), np.array([2.0, 0.0, 0.0]))
    assert note.startswith("comes to rest at x = 80.0(20), beds = 5.13, I = 0:")


def test_a_conserved_sum_holds_the_point_that_solutions_tell():
    """x0 + x1 stays 3: the Jacobian is singular, and the point moves with the constants all the same."""
    value, error = rest("x0' = -a*x0 + b*x1\nx1' = a*x0 - b*x1", [1.0, 0.5], [2.0, 1.0], 20.0, np.diag([1e-4, 1e-4]))
    np.testing.assert_allclose(value, [1.0, 2.0], rtol=1e-5)
    # x0 = 3 b / (a + b)
    np.testing.assert_allclose(error, [0.01 * np.hypot(1.5, 3.0) / 2.25] * 2, rtol=1e-2)


def test_an_isolated_point_moves_as_solutions_say():
    """x0 = b / (a c), x1 = b / c."""
    value, error = rest("x0' = x1 - a*x0\nx1' = b - c*x1", [2.0, 3.0, 0.5], [1.0, 5.0], 20.0, np.diag([1e-4] * 3))
    np.testing.assert_allclose(value, [3.0, 6.0], rtol=1e-5)
    np.testing.assert_allclose(error, [0.01 * np.sqrt(1.5**2 + 1.0 + 6.0**2), 0.01 * np.hypot(2.0, 12.0)], rtol=1e-3)


@pytest.mark.parametrize(("right", "point"), [("0.5*x*(1 - x/80)", 80.0), ("0", None)])
def test_a_law_whose_constants_are_all_held_rests_as_exactly_as_they_are(right, point):
    law, none = Equations.parse(["x"], {"x": right}), np.zeros(0)
    low, high = np.array([2.0]), np.array([79.0])
    found = resting_point(
        lambda _, t: law.simulate([2.0], t), lambda _, x: law.rhs(x), none, np.zeros((0, 0)), (0.0, 20.0), low, high
    )
    if point is None:
        assert found is None
    else:
        value, error = found
        np.testing.assert_allclose(value, [point], rtol=1e-6)
        assert not error.any()
        assert resting_note(["x"], value, error).endswith("x = 80: continued for long, the equations stay there")
