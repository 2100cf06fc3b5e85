"""Coarse sampling looks like noise until a law leaves nothing."""

from __future__ import annotations

import numpy as np
import pytest

from odediscovery import simulate_system
from odediscovery.problem.prepare import prepare
from odediscovery.runtime.monitor import Monitor
from odediscovery.search.noiseless import detect_noiseless, fit_library


@pytest.mark.slow
def test_a_library_is_fitted_to_what_was_measured() -> None:
    p = prepare(simulate_system("lorenz", samples=200, until=10.0))
    law = fit_library(p, 2, Monitor())
    assert law is not None
    found = law.unscaled(p.scale.state, p.scale.time)
    place = found.exponents.tolist().index([1.0, 0.0, 1.0])
    assert found.coefficients[1, place] == pytest.approx(-1.0, abs=1e-3)


@pytest.mark.slow
def test_coarse_samples_of_an_exact_law_have_no_noise() -> None:
    p = prepare(simulate_system("lorenz", samples=200, until=10.0))
    found = detect_noiseless(p, Monitor())
    assert found.exact is not None and not found.noise.any() and found.clean


@pytest.mark.slow
def test_noise_stays_noise() -> None:
    p = prepare(simulate_system("lotka-volterra", noise=0.03))
    found = detect_noiseless(p, Monitor())
    assert found.exact is None
    np.testing.assert_array_equal(found.noise, p.noise)
