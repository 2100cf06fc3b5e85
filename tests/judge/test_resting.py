"""Where solutions come to rest, with their errors."""

import numpy as np

from odediscovery.judge.resting import resting_note, resting_point
from odediscovery.laws.forms import read_form


def rest(text, constants, start, until, covariance):
    form = read_form(text, ["x"])
    times = np.linspace(0.0, until, 20)

    def solve(c, t):
        return form.with_constants(c.tolist()).simulate(start, t)

    x = solve(np.array(constants), times)
    return resting_point(solve, np.array(constants), np.array(covariance), (0.0, until), x.min(axis=0), x.max(axis=0))


def test_a_logistic_law_rests_at_its_capacity():
    value, error = rest("x' = r*x*(1 - x/K)", [0.5, 80.0], [2.0], 20.0, [[1e-4, 0.0], [0.0, 4.0]])
    np.testing.assert_allclose(value, [80.0], rtol=1e-6)
    np.testing.assert_allclose(error, [2.0], rtol=1e-3)


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
