"""Candidates that need no search."""

from __future__ import annotations

import numpy as np
from problems import series_of

from odediscovery.laws.equations import Equations
from odediscovery.problem.prepare import prepare
from odediscovery.search.candidates import at_rest, each_alone


def test_states_that_know_nothing_of_each_other_are_found_at_once() -> None:
    law = Equations.parse(["x", "y"], {"x": "1 - 0.5*x", "y": "-0.25*y"}).power_sum
    assert law is not None
    p = prepare(series_of(law, np.array([[4.0, 3.0]]), [np.linspace(0.0, 8.0, 81)]))
    found = each_alone(p)
    user = found.law.unscaled(p.scale.state, p.scale.time)
    rates = user.rhs(np.array([[2.0, 1.0], [0.0, 2.0]]))
    np.testing.assert_allclose(rates, [[0.0, -0.25], [1.0, -0.5]], atol=2e-3)
    assert found.mean_square < 1e-4


def test_a_state_that_rests_stays_at_rest() -> None:
    law = Equations.parse(["x", "y"], {"x": "-0.5*x", "y": "0*y"}).power_sum
    assert law is not None
    p = prepare(series_of(law, np.array([[4.0, 3.0]]), [np.linspace(0.0, 8.0, 81)]))
    assert (each_alone(p).law.coefficients[1] == 0.0).all()
    assert (at_rest(p).law.coefficients == 0.0).all()
