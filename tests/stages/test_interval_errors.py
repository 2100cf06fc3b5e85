"""Constants by what a law leaves between samples, and whether it holds outside of those it was fitted to."""

from __future__ import annotations

import numpy as np
import pytest
from problems import LOGISTIC, growth, series_of

from odediscovery import Equations
from odediscovery.laws.cost import all_free
from odediscovery.problem.prepare import prepare
from odediscovery.search.refinement import refined, sigma_of
from odediscovery.stages.polish.intervals import sharpened

LORENZ = {"x": "10*y - 10*x", "y": "28*x - x*z - y", "z": "x*y - 8/3*z"}


@pytest.mark.slow
def test_without_noise_intervals_tell_the_constants_of_chaos() -> None:
    """On trajectories that magnify errors a million times the least misfit is elsewhere."""
    truth = Equations.parse(["x", "y", "z"], LORENZ).power_sum
    assert truth is not None
    p = prepare(series_of(truth, np.array([[1.0, 2.0, 20.0]]), [np.linspace(0.0, 15.0, 1500)]))
    law = truth.rescaled(p.scale.state, p.scale.time)
    free = all_free(law)
    near = law.with_constants(law.coefficients * (1.0 + 1e-6 * np.arange(law.n_monomials)), *law.constants[1:])
    held = (free[0], free[1] & False, *free[2:])
    found = sharpened(p, near, held)
    assert found is not None
    np.testing.assert_allclose(found.coefficients, law.coefficients, rtol=1e-8)
    again = refined(p, near, held, p.initial, sigma_of(p)).law
    np.testing.assert_allclose(again.coefficients, law.coefficients, rtol=1e-8)
    # A law that leaves something, and one of noisy data, are not for intervals to tell.
    assert sharpened(p, near.with_constants(1.1 * near.coefficients, *near.constants[1:]), held) is None
    noisy = prepare(growth(np.linspace(0.0, 40.0, 300), 0.01))
    own = LOGISTIC.rescaled(noisy.scale.state, noisy.scale.time)
    assert sharpened(noisy, own, all_free(own)) is None
