"""Long series: few samples for the search, all of them for constants and scores."""

from __future__ import annotations

import numpy as np
import pytest
from problems import LOGISTIC, growth, logistic

from odediscovery import discover, settings_for
from odediscovery.data.series import TimeSeries, Trajectory
from odediscovery.problem.thinning import THINNING, thin_series

LONG = np.linspace(0.0, 12.0, 20_000)


def only(series: TimeSeries) -> Trajectory:
    (trajectory,) = series.trajectories
    return trajectory


@pytest.mark.parametrize(("samples", "sigma"), [(THINNING.worth * THINNING.most_noisy - 1, 0.02)])
def test_a_series_that_is_not_long_stays(samples: int, sigma: float) -> None:
    series = growth(np.linspace(0.0, 12.0, samples), sigma)
    assert thin_series(series) is series


def test_clean_samples_are_picked_where_states_move() -> None:
    kinked = np.where(LONG < 6.0, 0.0, np.sin(0.5 * (LONG - 6.0)))
    few = only(thin_series(TimeSeries.from_arrays(LONG, kinked)))
    assert len(few.time) == pytest.approx(THINNING.most_clean, rel=0.01)
    assert few.time[0] == LONG[0] and few.time[-1] == LONG[-1]
    np.testing.assert_array_equal(few.values[:, 0], np.interp(few.time, LONG, kinked))
    moving = np.mean(few.time > 6.0)
    assert 0.7 < moving < 0.8  # half of the way is time, half is path


def test_noisy_neighbours_give_way_to_their_mean_moved_along_a_parabola() -> None:
    few = only(thin_series(growth(LONG, 0.1)))
    k = round(len(LONG) / THINNING.most_noisy)
    assert len(few.time) == pytest.approx(len(LONG) / k, abs=1)
    errors = few.values[:, 0] - logistic(few.time, 0.5, 0.5, 0.1)
    assert np.std(errors) == pytest.approx(0.1 / np.sqrt(k), rel=0.15)
    assert abs(np.mean(errors)) < 4.0 * np.std(errors) / np.sqrt(len(errors))


def test_what_bends_is_not_flattened_and_a_missing_sample_shifts_nothing() -> None:
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


def test_too_many_turns_are_kept_in_runs_of_neighbours() -> None:
    t = np.linspace(0.0, 3000.0, 40_000)
    few = thin_series(TimeSeries.from_arrays(t, np.sin(t)))
    total = sum(len(run.time) for run in few.trajectories)
    assert len(few.trajectories) > 1 and 0.5 * THINNING.in_runs < total < 1.5 * THINNING.in_runs
    assert few.trajectories[0].time[0] == 0.0 and few.trajectories[-1].time[-1] == t[-1]
    assert max(np.diff(run.time).max() for run in few.trajectories) < np.pi / 10.0


@pytest.mark.slow
def test_constants_and_scores_are_those_of_all_samples() -> None:
    series = growth(LONG[::2], 0.05)
    found = discover(series, settings_for("default", members=4, adam_steps=50, lbfgs_steps=5))
    np.testing.assert_array_equal(only(found.series).values, only(series).values)
    assert found.outcome == "converged"
    assert any("of the 10000 samples" in note for note in found.messages)
    law = found.equations.power_sum
    assert law is not None
    np.testing.assert_array_equal(law.merged().exponents.ravel(), [1.0, 2.0])
    assert found.mse == pytest.approx(0.05**2, rel=0.05)
    np.testing.assert_allclose(law.coefficients, LOGISTIC.coefficients, rtol=0.02)
