"""What data are like: signs against noise, resolution, solvers' polynomials, and too many samples."""

import numpy as np
import pytest
from problems import LOGISTIC, growth, logistic
from scipy.integrate import solve_ivp

from odediscovery import InputError, TimeSeries, discover, settings_for
from odediscovery.data.series import pooled
from odediscovery.problem.problem import find_interpolation, prepare, redundant_states, thin_series

T = np.linspace(0.0, 10.0, 101)


def prepared(*columns, time=T):
    return prepare(TimeSeries.from_arrays(time, np.stack(columns, axis=1)))


def noise(sigma, seed=0):
    return sigma * np.random.default_rng(seed).standard_normal(len(T))


def test_noise_around_zero_is_no_sign():
    fades = 5.0 * np.exp(-T) + noise(0.1)
    assert fades.min() < 0
    p = prepared(fades, np.sin(T) + noise(0.1, 1), np.sin(T), np.exp(-T))
    assert p.nonnegative.tolist() == [True, False, False, True]


def test_states_below_zero_throughout_are_mirrored():
    p = prepared(-np.exp(-T), np.sin(T), np.full(len(T), -2.0), -5.0 * np.exp(-T) + noise(0.1))
    assert p.nonnegative.tolist() == [True, False, True, True]
    assert (p.scale.state < 0).tolist() == [True, False, True, True] and not p.messages
    assert np.min(pooled(p.smooth)[:, [0, 2, 3]]) >= 0.0


@pytest.mark.parametrize("value", [0.0, -2e5])
def test_states_that_never_change_are_found(value):
    p = prepared(np.full(len(T), value), np.exp(-T))
    assert p.constant.tolist() == [True, False]


def test_the_floor_is_rounding_or_integration():
    rounded = np.round(50.0 * np.exp(-0.3 * T), 1)
    p = prepared(rounded, np.exp(-0.3 * T))
    assert p.floor[0] == pytest.approx(0.1 / np.sqrt(12.0) / p.scale.state[0])
    assert p.floor[1] == 1e-8 * np.sqrt(len(T) / 40.0)
    assert prepared(np.exp(-0.3 * T[:30]), time=T[:30]).floor[0] == 1e-8


def test_noise_that_grows_with_a_state_is_seen_where_most_samples_are_near_zero():
    t = np.linspace(0.0, 10.0, 80)
    x = 7.0 * np.exp(-1.5 * t) + 1e-3
    noisy = x * (1.0 + 0.05 * np.random.default_rng(0).standard_normal(len(t)))
    prepared = prepare(TimeSeries.from_arrays(t, noisy[:, None]))
    relative = prepared.noise * prepared.relative_sigma[0][:, 0] * prepared.scale.state / x
    assert relative[:10] == pytest.approx(0.05, rel=0.6)
    assert prepared.unexplained < 2.0
    without = prepare(TimeSeries.from_arrays(t, x[:, None]))
    assert without.clean and (without.relative_sigma[0] == 1.0).all()


@pytest.mark.parametrize("size", [1e200, 1e-200])
def test_numbers_that_cannot_be_multiplied_are_refused(size):
    values = size * np.exp(-np.arange(8.0))[:, None]
    with pytest.raises(InputError, match="change its unit"):
        prepare(TimeSeries.from_arrays(np.arange(8.0), values, ["x"]))


def epidemic(population, sigma):
    """S, I and R of a wave that a thousand catch, S told by the others."""
    removed = 1000.0 / (1.0 + np.exp(5.0 - T)) + noise(sigma)
    ill = 300.0 / np.cosh(0.5 * (T - 5.0)) ** 2 + noise(sigma, 1)
    return [population - ill - removed, ill, removed]


@pytest.mark.parametrize(("population", "sigma", "spared"), [(1e6, 5.0, True), (2000.0, 5.0, False), (1e6, 0.0, False)])
def test_a_state_that_others_tell_and_that_hardly_changes_is_redundant_in_noise(population, sigma, spared):
    p = prepared(*epidemic(population, sigma))
    assert redundant_states(p).tolist() == [spared, False, False]


def test_noise_is_small_against_changes_not_against_size():
    changes = 100.0 * np.sin(T) + noise(10.0)
    small, large = prepared(changes), prepared(1e8 + changes)
    for p in (small, large):
        smooth = pooled(p.smooth)[:, 0] * p.scale.state[0]
        off = smooth - smooth.mean() - (100.0 * np.sin(T) - 100.0 * np.sin(T).mean())
        assert np.sqrt(np.mean(off**2)) < 5.0


LONG = np.linspace(0.0, 12.0, 20_000)


def only(series):
    (trajectory,) = series.trajectories
    return trajectory


def test_a_series_that_is_not_long_stays():
    series = growth(np.linspace(0.0, 12.0, 599), 0.02)
    assert thin_series(series) is series


def test_clean_samples_are_picked_where_states_move():
    kinked = np.where(LONG < 6.0, 0.0, np.sin(0.5 * (LONG - 6.0)))
    few = only(thin_series(TimeSeries.from_arrays(LONG, kinked)))
    assert len(few.time) == pytest.approx(1000, rel=0.01)
    assert few.time[0] == LONG[0] and few.time[-1] == LONG[-1]
    np.testing.assert_array_equal(few.values[:, 0], np.interp(few.time, LONG, kinked))
    moving = np.mean(few.time > 6.0)
    assert 0.7 < moving < 0.8  # half of the way is time, half is path


def test_noisy_neighbours_give_way_to_their_mean_moved_along_a_parabola():
    few = only(thin_series(growth(LONG, 0.1)))
    k = round(len(LONG) / 300)
    assert len(few.time) == pytest.approx(len(LONG) / k, abs=1)
    errors = few.values[:, 0] - logistic(few.time, 0.5, 0.5, 0.1)
    assert np.std(errors) == pytest.approx(0.1 / np.sqrt(k), rel=0.15)
    assert abs(np.mean(errors)) < 4.0 * np.std(errors) / np.sqrt(len(errors))


def test_what_bends_is_not_flattened_and_a_missing_sample_shifts_nothing():
    t = np.linspace(0.0, 60.0, 6000)
    values = np.sin(t) + 5e-3 * np.random.default_rng(0).standard_normal(len(t))
    values[100:103] = np.nan
    few = only(thin_series(TimeSeries.from_arrays(t, values)))
    k = round(len(t) / len(few.time))
    errors = few.values[:, 0] - np.sin(few.time)
    assert k > 10 and np.abs(errors).max() < 5.0 * 5e-3 / np.sqrt(k - 3)
    # Means of k neighbours alone would lose (0.01 k)^2 / 24 of the height.
    lost = np.mean(errors * np.sin(few.time)) / np.mean(np.sin(few.time) ** 2)
    assert abs(lost) < 0.4 * (0.01 * k) ** 2 / 24.0


def test_too_many_turns_are_kept_in_runs_of_neighbours():
    t = np.linspace(0.0, 3000.0, 40_000)
    few = thin_series(TimeSeries.from_arrays(t, np.sin(t)))
    total = sum(len(run.time) for run in few.trajectories)
    assert len(few.trajectories) > 1 and 500 < total < 1500
    assert few.trajectories[0].time[0] == 0.0 and few.trajectories[-1].time[-1] == t[-1]
    assert max(np.diff(run.time).max() for run in few.trajectories) < np.pi / 10.0


@pytest.mark.long
def test_constants_and_scores_are_those_of_all_samples():
    series = growth(LONG[::2], 0.05)
    found = discover(series, settings_for("default", members=4, adam_steps=50, lbfgs_steps=5))
    np.testing.assert_array_equal(only(found.series).values, only(series).values)
    assert found.outcome == "converged"
    assert any("of the 10000 samples" in note for note in found.messages)
    law = found.equations.power_sum
    np.testing.assert_array_equal(law.merged().exponents.ravel(), [1.0, 2.0])
    assert found.mse == pytest.approx(0.05**2, rel=0.05)
    np.testing.assert_allclose(law.coefficients, LOGISTIC.coefficients, rtol=0.02)


TIMES = np.linspace(0.0, 20.0, 80)
START = [40.0, 9.0]


def rates(t, x):
    return [0.5 * x[0] - 0.02 * x[0] * x[1], 0.01 * x[0] * x[1] - 0.4 * x[1]]


def solved(method, tolerance, samples=80):
    times = np.linspace(0.0, 20.0, samples)
    found = solve_ivp(rates, (0.0, 20.0), START, method, times, rtol=tolerance, atol=1e-3 * tolerance)
    return TimeSeries.from_arrays(times, found.y.T, ["prey", "hunters"])


@pytest.mark.parametrize(("method", "degree", "samples"), [("RK45", 4, 80), ("RK23", 3, 400)])
def test_values_of_a_rough_solver_lie_on_polynomials_and_are_off_by_about_what_it_says(method, degree, samples):
    series, exact = solved(method, 1e-3, samples), solved("DOP853", 1e-12, samples)
    sigma, found, *_ = find_interpolation(series)
    off = np.sqrt(np.mean((series.trajectories[0].values - exact.trajectories[0].values) ** 2, axis=0))
    assert found == degree
    assert (sigma > 0.1 * off).all() and (sigma < 20.0 * off).all()


@pytest.mark.parametrize("noise", [0.0, 1e-2])
def test_exact_and_noisy_values_do_not(noise):
    exact = solved("DOP853", 1e-12).trajectories[0].values
    values = exact * (1.0 + noise * np.random.default_rng(0).standard_normal(exact.shape))
    sigma, degree, *_ = find_interpolation(TimeSeries.from_arrays(TIMES, values))
    assert degree == 0 and not sigma.any()


def test_rounded_values_do_not_although_their_differences_are_often_nothing():
    values = np.round(solved("DOP853", 1e-12).trajectories[0].values, 4)
    assert find_interpolation(TimeSeries.from_arrays(TIMES, values)).degree == 0


def test_such_errors_count_as_noise_and_are_named():
    p = prepare(solved("RK45", 1e-3))
    assert not p.clean and (p.floor == p.noise).all()
    assert any("rtol" in message for message in p.messages)
    exact = prepare(solved("DOP853", 1e-12))
    assert (exact.floor < 1e-7).all() and not exact.messages
