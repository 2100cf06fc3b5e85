"""Long series: few samples for the search, all of them for constants and scores."""

from __future__ import annotations

import numpy as np
import pytest
from problems import LOGISTIC, growth, logistic

from odediscovery import discover, settings_for
from odediscovery.data.series import TimeSeries, Trajectory
from odediscovery.laws.cost import all_free
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.prepare import prepare
from odediscovery.problem.thinning import THINNING, thin_series
from odediscovery.search.refinement import follows, sigma_of
from odediscovery.stages.polish.polish import polish

LONG = np.linspace(0.0, 12.0, 20_000)


def only(series: TimeSeries) -> Trajectory:
    (trajectory,) = series.trajectories
    return trajectory


@pytest.mark.parametrize(
    ("samples", "sigma"),
    [(THINNING.worth * THINNING.most_clean - 1, 0.0), (THINNING.worth * THINNING.most_noisy - 1, 0.02)],
)
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


def test_known_deviations_and_gaps_go_along() -> None:
    values = growth(LONG, 0.1).trajectories[0].values.copy()
    k = round(len(LONG) / THINNING.most_noisy)
    values[:k] = np.nan
    series = TimeSeries.from_arrays(LONG, values, noise={"x0": 0.1})
    few = only(thin_series(series))
    assert few.sigma is not None
    assert np.isnan(few.values[0, 0]) and np.isfinite(few.values[1:]).all()
    np.testing.assert_allclose(few.sigma[1:], 0.1 / np.sqrt(k), rtol=0.05)


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


def test_many_short_trajectories_are_thinned_to_some_of_them() -> None:
    t = np.linspace(0.0, 5.0, 50)
    starts = np.linspace(0.1, 0.4, 200)
    runs = [logistic(t, 0.5, 0.5, start) for start in starts]
    few = thin_series(TimeSeries.from_arrays([t] * len(runs), runs))
    assert 1 < len(few.trajectories) <= len(runs)
    assert all(len(run.time) >= THINNING.fitted for run in few.trajectories)


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


def test_a_law_that_loses_the_trajectories_does_not_follow() -> None:
    p = prepare(growth(LONG[::500], 0.0), smoothing=False)
    for law, expected in ((LOGISTIC, True), (PowerSum(-LOGISTIC.coefficients[:, :1], LOGISTIC.exponents[:1]), False)):
        law = law.rescaled(p.scale.state, p.scale.time)
        found = polish(
            law, p.data, p.initial, sigma_of(p), floor=p.floor, most=0, nonnegative=p.nonnegative, free=all_free(law)
        )
        assert follows(p, found) is expected


def test_without_smoothing_gaps_are_bridged_by_straight_lines() -> None:
    values = np.array([0.0, 1.0, np.nan, 3.0, 4.0, 5.0, 6.0])
    p = prepare(TimeSeries.from_arrays(np.arange(7.0), values), smoothing=False)
    expected = np.arange(7.0) / p.scale.state
    np.testing.assert_allclose(only(p.smooth).values[:, 0], expected)


def test_clean_samples_are_picked_where_nothing_is_missing() -> None:
    t = np.linspace(0.0, 6.0, 6000)
    values = np.stack([np.sin(t), np.cos(t)], axis=1)
    values[np.random.default_rng(0).uniform(size=values.shape) < 0.1] = np.nan
    few = only(thin_series(TimeSeries.from_arrays(t, values)))
    assert np.isfinite(few.values).all() and 900 < len(few.time) <= 1000


@pytest.mark.parametrize("sigma", [0.0, 0.02])
def test_a_state_that_was_not_measured_hinders_no_thinning(sigma: float) -> None:
    series = growth(LONG, sigma)
    values = np.column_stack([only(series).values, np.full(len(LONG), np.nan)])
    few = only(thin_series(TimeSeries((*series.states, "hidden"), (Trajectory(LONG, values),))))
    alone = only(thin_series(series))
    np.testing.assert_array_equal(few.values[:, :-1], alone.values)
    assert np.isnan(few.values[:, -1]).all() and np.array_equal(few.time, alone.time)


def test_samples_between_spikes_are_not_averaged() -> None:
    t = np.linspace(0.0, 60.0, 6000)
    spikes = np.exp(4000.0 * (np.cos(t) - 1.0))
    noise = 1e-3 * np.random.default_rng(0).standard_normal((len(t), 1))
    smooth = TimeSeries.from_arrays(t, np.cos(t)[:, None] + noise, ["x"])
    few = thin_series(TimeSeries.from_arrays(t, spikes[:, None] + noise, ["x"]))
    steps = [np.diff(one.time).min() for one in (*thin_series(smooth).trajectories, *few.trajectories)]
    assert steps[0] > 2.0 * steps[-1]
    for run in few.trajectories:
        assert np.abs(run.values[:, 0] - np.exp(4000.0 * (np.cos(run.time) - 1.0))).max() < 0.01
