"""Where solutions come to rest, with their errors."""

import numpy as np
import pytest

from odediscovery.judge.resting import resting_point
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


def test_a_conserved_sum_holds_the_point_that_solutions_tell():
    """x0 + x1 stays 3: the Jacobian is singular, and the point moves with the constants all the same."""
    value, error = rest("x0' = -a*x0 + b*x1\nx1' = a*x0 - b*x1", [1.0, 0.5], [2.0, 1.0], 20.0, np.diag([1e-4, 1e-4]))
    np.testing.assert_allclose(value, [1.0, 2.0], rtol=1e-5)
    # x0 = 3 b / (a + b)
    np.testing.assert_allclose(error, [0.01 * np.hypot(1.5, 3.0) / 2.25] * 2, rtol=1e-2)
