"""Values between the steps of a solver lie on polynomials: what that says of their error."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from odediscovery import Settings, TimeSeries, fit_constants
from odediscovery.discovery.discover import discover
from odediscovery.problem.interpolants import find_interpolation
from odediscovery.problem.prepare import prepare
from odediscovery.runtime.arrays import Array
from odediscovery.runtime.monitor import Monitor

TIMES = np.linspace(0.0, 20.0, 80)
START = [40.0, 9.0]


def rates(t: float, x: Array) -> list[float]:
    return [0.5 * x[0] - 0.02 * x[0] * x[1], 0.01 * x[0] * x[1] - 0.4 * x[1]]


def solved(method: str, tolerance: float, samples: int = 80) -> TimeSeries:
    times = np.linspace(0.0, 20.0, samples)
    found = solve_ivp(rates, (0.0, 20.0), START, method, times, rtol=tolerance, atol=1e-3 * tolerance)
    return TimeSeries.from_arrays(times, found.y.T, ["prey", "hunters"])


@pytest.mark.parametrize(("method", "degree", "samples"), [("RK45", 4, 80), ("Radau", 3, 80), ("RK23", 3, 400)])
def test_values_of_a_rough_solver_lie_on_polynomials_and_are_off_by_about_what_it_says(
    method: str, degree: int, samples: int
) -> None:
    series, exact = solved(method, 1e-3, samples), solved("DOP853", 1e-12, samples)
    sigma, found, *_ = find_interpolation(series)
    off = np.sqrt(np.mean((series.trajectories[0].values - exact.trajectories[0].values) ** 2, axis=0))
    assert found == degree
    assert (sigma > 0.1 * off).all() and (sigma < 20.0 * off).all()


@pytest.mark.parametrize("noise", [0.0, 1e-6, 1e-2])
def test_exact_and_noisy_values_do_not(noise: float) -> None:
    exact = solved("DOP853", 1e-12).trajectories[0].values
    values = exact * (1.0 + noise * np.random.default_rng(0).standard_normal(exact.shape))
    sigma, degree, *_ = find_interpolation(TimeSeries.from_arrays(TIMES, values))
    assert degree == 0 and not sigma.any()


@pytest.mark.parametrize("digits", [2, 4, 6, 9])
def test_rounded_values_do_not_although_their_differences_are_often_nothing(digits: int) -> None:
    values = np.round(solved("DOP853", 1e-12).trajectories[0].values, digits)
    assert find_interpolation(TimeSeries.from_arrays(TIMES, values)).degree == 0


@pytest.mark.parametrize("power", [1, 2, 3, 4])
def test_a_polynomial_of_time_is_none_of_pieces(power: int) -> None:
    assert find_interpolation(TimeSeries.from_arrays(TIMES, TIMES**power)).degree == 0


def test_few_samples_say_nothing() -> None:
    assert find_interpolation(TimeSeries.from_arrays([0.0, 1.0, 2.0, 3.0], [1.0, 2.0, 4.0, 7.0])).degree == 0


def test_rows_with_gaps_are_left_out() -> None:
    values = solved("RK45", 1e-3).trajectories[0].values.copy()
    values[10, 0] = np.nan
    assert find_interpolation(TimeSeries.from_arrays(TIMES, values)).degree == 4


def test_what_is_applied_may_be_interpolated() -> None:
    run = solved("RK45", 1e-3).trajectories[0]
    exact = solved("DOP853", 1e-12).trajectories[0].values
    values = np.column_stack([exact, run.values[:, 0]])
    series = TimeSeries.from_arrays(TIMES, values, ["prey", "hunters", "u"])
    assert find_interpolation(series).degree == 4
    assert find_interpolation(dataclasses.replace(series, controls=("u",))).degree == 0


def test_what_is_applied_is_exact_beside_interpolated_states() -> None:
    run = solved("RK45", 1e-3).trajectories[0]
    values = np.column_stack([run.values, np.sin(TIMES)])
    series = TimeSeries.from_arrays(TIMES, values, ["prey", "hunters", "u"])
    sigma, degree, *_ = find_interpolation(dataclasses.replace(series, controls=("u",)))
    assert degree == 4 and (sigma[:2] > 0.0).all() and sigma[2] == 0.0


def test_such_errors_count_as_noise_and_are_named() -> None:
    p = prepare(solved("RK45", 1e-3))
    assert not p.clean and (p.floor == p.noise).all()
    assert any("rtol" in message for message in p.messages)
    exact = prepare(solved("DOP853", 1e-12))
    assert (exact.floor < 1e-7).all() and not exact.messages


def test_a_named_law_says_so_too_and_not_that_it_misses_something() -> None:
    law = ["prey' = a*prey - b*prey*hunters", "hunters' = c*prey*hunters - d*hunters"]
    found = fit_constants(solved("RK45", 1e-3), law)
    assert any("rtol" in message for message in found.messages)
    assert not any("something slow" in message for message in found.messages)


@pytest.mark.slow
def test_the_law_behind_a_rough_solver_is_found_and_no_slow_part_is_missed() -> None:
    found = discover(solved("RK45", 1e-3), Settings(seed=0, members=0), Monitor())
    law = found.equations.power_sum
    assert law is not None and (law.coefficients != 0.0).sum() == 4
    assert not any("something slow" in message for message in found.messages)
