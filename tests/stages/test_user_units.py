"""Standard errors in the user's units, by the delta method."""

from __future__ import annotations

import numpy as np
import pytest

from odediscovery import TimeSeries
from odediscovery.laws.cost import all_free
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.prepare import prepare
from odediscovery.search.refinement import refined, sigma_of
from odediscovery.stages.polish.polish import polish
from odediscovery.stages.polish.user_units import unscaled_errors


def test_errors_of_a_scaled_fit_are_those_of_a_fit_in_the_users_units() -> None:
    """x' = -0.3 x^1.2 from 5, in closed form: fitted with and without scales."""
    t = np.linspace(0.0, 8.0, 60)
    x = (5.0**-0.2 + 0.06 * t) ** -5.0 + 0.02 * np.random.default_rng(0).standard_normal(60)
    series = TimeSeries.from_arrays(t, x, ["x"])
    p = prepare(series)
    law = PowerSum(np.array([[-0.3]]), np.array([[1.2]]))
    scaled = law.rescaled(p.scale.state, p.scale.time)
    errors = unscaled_errors(refined(p, scaled, all_free(scaled), p.initial, sigma_of(p)), p.scale)
    sigma = sigma_of(p) * p.scale.size
    own = polish(law, series, np.array([[5.0]]), sigma, floor=sigma * 1e-6, nonnegative=p.nonnegative)
    assert errors.coefficients == pytest.approx(own.errors.coefficients, rel=1e-3)
    assert errors.exponents == pytest.approx(own.errors.exponents, rel=1e-3)


def test_what_is_held_at_a_round_number_is_exact_and_at_another_unknown() -> None:
    t = np.linspace(0.0, 4.0, 30)
    p = prepare(TimeSeries.from_arrays(t, 2.0 * np.exp(-t) + 0.01 * np.cos(9.0 * t), ["x"]))
    for exponent, error in ((1.0, 0.0), (1.0123456789, np.nan)):
        law = PowerSum(np.array([[-1.0]]), np.array([[exponent]])).rescaled(p.scale.state, p.scale.time)
        a, w, b, v = all_free(law)
        found = refined(p, law, (a, w & False, b, v), p.initial, sigma_of(p))
        errors = unscaled_errors(found, p.scale)
        np.testing.assert_array_equal(errors.exponents, [[error]])
        assert errors.coefficients[0, 0] > 0.0
