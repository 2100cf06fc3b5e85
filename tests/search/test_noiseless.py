"""Coarse sampling looks like noise until a law leaves nothing."""

from __future__ import annotations

import numpy as np
import pytest
from problems import growth, series_of
from scipy.integrate import solve_ivp

from odediscovery import TimeSeries, simulate_system
from odediscovery.fitting.windows import Windows
from odediscovery.judge.doubt import interval_squares
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.prepare import prepare
from odediscovery.runtime.monitor import Monitor
from odediscovery.search import noiseless
from odediscovery.search.noiseless import detect_noiseless, fit_library
from odediscovery.stages.grow.polynomials import library_law
from odediscovery.stages.values import STAGES


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


def test_no_library_is_fitted_where_samples_show_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise AssertionError("nothing says that there is no noise")

    monkeypatch.setattr(noiseless, "fit_library", fail)
    p = prepare(growth(np.linspace(0.0, 20.0, 80), 0.03))
    assert detect_noiseless(p, Monitor()) is p


def test_sines_that_are_sampled_coarsely_have_no_noise() -> None:
    p = prepare(simulate_system("pendulum", samples=60))
    assert not p.clean
    found = detect_noiseless(p, Monitor())
    assert found.clean and not found.noise.any()


def test_a_polynomial_of_the_fifth_degree_is_recognised() -> None:
    t = np.linspace(0.0, 4.0, 60)
    runs = [
        solve_ivp(lambda _, x: 0.5 - x + 0.3 * x**2 - 0.2 * x**5, (0.0, 4.0), [x0], t_eval=t, rtol=1e-11, atol=1e-13)
        for x0 in (-1.2, 1.5)
    ]
    p = prepare(TimeSeries.from_arrays([t, t], [run.y.T for run in runs]))
    found = detect_noiseless(p, Monitor())
    assert found.exact is not None and found.exact.exponents.max() == 5.0


@pytest.mark.slow
def test_a_library_is_fitted_on_steps_that_are_fine_enough_for_what_comes_of_it() -> None:
    # Predators that follow six times as fast, sampled coarsely: regression gives a slow law, whose steps do not do.
    times = np.arange(0.0, 30.0, 0.3)
    fierce = PowerSum(np.array([[1.0, 0.0, -1.0], [0.0, -6.0, 6.0]]), np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]))
    p = prepare(series_of(fierce, np.array([[6.0, 1.0], [0.5, 0.2]]), [times, times]))
    law = fit_library(p, 2, Monitor())
    assert law is not None and interval_squares(law, p.without_noise(None)).max() < STAGES.settled
    assert detect_noiseless(p, Monitor()).clean


def test_a_library_is_fitted_although_the_usual_steps_are_fine_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Windows, "refined", lambda windows, *_: windows)
    p = prepare(growth(np.linspace(0.0, 20.0, 80), 0.01))
    rough = fit_library(p, 2, Monitor())
    grown = library_law(p.without_noise(None), 2)
    # Regression on smoothed samples is near; the fit to samples leaves less.
    assert rough is not None and grown is not None
    taken = p.without_noise(None)
    assert interval_squares(rough, taken)[0] < interval_squares(grown, taken)[0]
