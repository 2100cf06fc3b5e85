"""Values between the steps of a solver lie on polynomials: what that says of their error."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from odediscovery import TimeSeries
from odediscovery.problem.interpolants import find_interpolation
from odediscovery.problem.prepare import prepare
from odediscovery.runtime.arrays import Array

TIMES = np.linspace(0.0, 20.0, 80)
START = [40.0, 9.0]


def rates(t: float, x: Array) -> list[float]:
    return [0.5 * x[0] - 0.02 * x[0] * x[1], 0.01 * x[0] * x[1] - 0.4 * x[1]]


def solved(method: str, tolerance: float, samples: int = 80) -> TimeSeries:
    times = np.linspace(0.0, 20.0, samples)
    found = solve_ivp(rates, (0.0, 20.0), START, method, times, rtol=tolerance, atol=1e-3 * tolerance)
    return TimeSeries.from_arrays(times, found.y.T, ["prey", "hunters"])


@pytest.mark.parametrize(("method", "degree", "samples"), [("RK45", 4, 80), ("RK23", 3, 400)])
def test_values_of_a_rough_solver_lie_on_polynomials_and_are_off_by_about_what_it_says(
    method: str, degree: int, samples: int
) -> None:
    series, exact = solved(method, 1e-3, samples), solved("DOP853", 1e-12, samples)
    sigma, found, *_ = find_interpolation(series)
    off = np.sqrt(np.mean((series.trajectories[0].values - exact.trajectories[0].values) ** 2, axis=0))
    assert found == degree
    assert (sigma > 0.1 * off).all() and (sigma < 20.0 * off).all()


@pytest.mark.parametrize("noise", [0.0, 1e-2])
def test_exact_and_noisy_values_do_not(noise: float) -> None:
    exact = solved("DOP853", 1e-12).trajectories[0].values
    values = exact * (1.0 + noise * np.random.default_rng(0).standard_normal(exact.shape))
    sigma, degree, *_ = find_interpolation(TimeSeries.from_arrays(TIMES, values))
    assert degree == 0 and not sigma.any()


@pytest.mark.parametrize("digits", [4])
def test_rounded_values_do_not_although_their_differences_are_often_nothing(digits: int) -> None:
    values = np.round(solved("DOP853", 1e-12).trajectories[0].values, digits)
    assert find_interpolation(TimeSeries.from_arrays(TIMES, values)).degree == 0


def test_such_errors_count_as_noise_and_are_named() -> None:
    p = prepare(solved("RK45", 1e-3))
    assert not p.clean and (p.floor == p.noise).all()
    assert any("rtol" in message for message in p.messages)
    exact = prepare(solved("DOP853", 1e-12))
    assert (exact.floor < 1e-7).all() and not exact.messages
