"""Candidates that need no search."""

from __future__ import annotations

import dataclasses

import numpy as np
from problems import series_of

from odediscovery.laws.equations import Equations
from odediscovery.laws.power_sum import PowerSum
from odediscovery.laws.systems import simulate_system
from odediscovery.problem.prepare import prepare
from odediscovery.problem.problem import rounding_share
from odediscovery.search.candidates import as_grown, each_alone, leaves_only_rounding


def test_states_that_know_nothing_of_each_other_are_found_at_once() -> None:
    law = Equations.parse(["x", "y"], {"x": "1 - 0.5*x", "y": "-0.25*y"}).power_sum
    assert law is not None
    p = prepare(series_of(law, np.array([[4.0, 3.0]]), [np.linspace(0.0, 8.0, 81)]))
    found = each_alone(p)
    user = found.law.unscaled(p.scale.state, p.scale.time)
    rates = user.rhs(np.array([[2.0, 1.0], [0.0, 2.0]]))
    np.testing.assert_allclose(rates, [[0.0, -0.25], [1.0, -0.5]], atol=2e-3)
    assert found.mean_square < 1e-4


def test_curvature_that_was_taken_for_noise_is_told_by_a_law_that_leaves_rounding_only() -> None:
    p = prepare(simulate_system("logistic", noise=0.001))
    law = as_grown(p, PowerSum(np.array([[1.0, -1.0]]), np.array([[1.0], [2.0]])))
    assert rounding_share(p) < 1e-6 and not p.clean
    right, poor = (dataclasses.replace(law, mean_square=square) for square in (rounding_share(p), 1.0))
    assert leaves_only_rounding([poor, right], p) and not leaves_only_rounding([poor], p)
    assert not leaves_only_rounding([], p)
    # Where rounding is all the noise there is, nothing was taken for it.
    rough = dataclasses.replace(p, noise=p.floor)
    assert rounding_share(rough) == 1.0 and not leaves_only_rounding([right], rough)
