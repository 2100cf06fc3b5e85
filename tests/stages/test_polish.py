"""Polish: the constants at the maximum of the likelihood, and how well they are known."""

from __future__ import annotations

import numpy as np
import pytest
from problems import FSIR, LOGISTIC, PREY, STARTS, growth, logistic, series_of, solved
from scipy.optimize import curve_fit

from odediscovery.data.series import TimeSeries
from odediscovery.families import Function
from odediscovery.laws.cost import Free, all_free
from odediscovery.laws.power_sum import Features, PowerSum, Sums
from odediscovery.solve.initial_values import Starts
from odediscovery.solve.sensitivities import TrajectoryResiduals
from odediscovery.solve.trajectories import residual_squares
from odediscovery.stages.polish.polish import polish
from odediscovery.stages.values import Polished

T = np.linspace(0.0, 12.0, 40)
POSITIVE = np.array([True])
NO_FLOOR = np.array([1e-10])


def polished(series: TimeSeries, sigma: float, free: Free | None = None) -> Polished:
    near = PowerSum(LOGISTIC.coefficients * 1.1, LOGISTIC.exponents)
    return polish(
        near, series, np.array([[0.15]]), np.array([sigma]), floor=NO_FLOOR, nonnegative=POSITIVE, free=free, most=100
    )


# Only the coefficients: then the solution is known in closed form.
NONE = np.zeros((0, 0), dtype=bool)
COEFFICIENTS = (np.array([[True, True]]), np.array([[False], [False]]), NONE, NONE)


def test_constants_and_errors_are_those_of_curve_fit() -> None:
    series = growth(T, 0.02)
    best, covariance = curve_fit(logistic, T, series.trajectories[0].values[:, 0], (0.5, 0.5, 0.1))
    found = polished(series, 0.02, COEFFICIENTS)
    np.testing.assert_allclose(found.law.coefficients[0], [best[0], -best[1]], rtol=1e-4)
    np.testing.assert_allclose(found.initial[0, 0], best[2], rtol=1e-3)
    errors = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(found.errors.coefficients[0], errors[:2], rtol=0.01)
    ours = found.covariance[0, 1] / np.sqrt(found.covariance[0, 0] * found.covariance[1, 1])
    assert ours == pytest.approx(-covariance[0, 1] / (errors[0] * errors[1]), abs=0.01)
    np.testing.assert_array_equal(found.law.exponents, LOGISTIC.exponents)
    np.testing.assert_array_equal(found.errors.exponents, 0.0)


@pytest.mark.slow
def test_standard_errors_are_the_scatter_of_repeated_measurements() -> None:
    sigma = 5e-4
    runs = [polished(growth(T, sigma, seed), sigma) for seed in range(30)]
    values = np.array([[*run.law.coefficients[0], *run.law.exponents[:, 0]] for run in runs])
    errors = np.array([[*run.errors.coefficients[0], *run.errors.exponents[:, 0]] for run in runs])
    # Thirty draws know a standard deviation to about an eighth.
    np.testing.assert_allclose(values.std(axis=0, ddof=1), np.median(errors, axis=0), rtol=0.4)
    inside = np.abs(values - [0.5, -0.5, 1.0, 2.0]) < 2.0 * errors
    assert inside.mean() > 0.75  # the four rise and fall together, so it is thirty draws, not 120


def test_no_error_is_smaller_than_rounding_allows() -> None:
    law, series = LOGISTIC, growth(T, 0.0)
    options = {"nonnegative": POSITIVE, "free": COEFFICIENTS}
    rough = polish(law, series, np.array([[0.1]]), np.array([1e-4]), floor=np.array([1e-3]), **options)
    fine = polish(law, series, np.array([[0.1]]), np.array([1e-4]), floor=np.array([1e-5]), **options)
    np.testing.assert_allclose(rough.errors.coefficients, 100.0 * fine.errors.coefficients, rtol=1e-3)


def test_several_trajectories_with_gaps_share_the_constants() -> None:
    series = series_of(PREY, STARTS, [np.linspace(0, 9, 20), np.sort(np.geomspace(0.1, 7, 15))])
    series.trajectories[0].values[3, 1] = np.nan
    series.trajectories[1].values[5:8, 0] = np.nan
    near = PowerSum(PREY.coefficients * 0.97, PREY.exponents * 1.02)
    found = polish(
        near, series, 1.05 * STARTS, np.full(2, 1e-3), floor=np.full(2, 1e-9), nonnegative=np.array([True, True])
    )
    np.testing.assert_allclose(found.law.coefficients, PREY.coefficients, rtol=1e-4)
    np.testing.assert_allclose(found.law.exponents, PREY.exponents, rtol=1e-4)
    np.testing.assert_allclose(found.initial, STARTS, rtol=1e-4)
    assert found.counts.tolist() == [32.0, 34.0]


def test_only_what_is_free_moves_and_zeros_stay() -> None:
    series = series_of(PREY, STARTS[:1], [np.linspace(0, 9, 20)], noise=0.02)
    free_a, free_w, *inner = all_free(PREY)
    free_w[1, 0] = free_a[0, 0] = False
    found = polish(
        PREY,
        series,
        STARTS[:1],
        np.full(2, 0.02),
        floor=np.full(2, 1e-9),
        nonnegative=np.array([True, True]),
        free=(free_a, free_w, *inner),
    )
    moved = found.law.coefficients != PREY.coefficients, found.law.exponents != PREY.exponents
    np.testing.assert_array_equal(moved[0], free_a)
    np.testing.assert_array_equal(moved[1], free_w)
    np.testing.assert_array_equal(found.errors.coefficients > 0, free_a)
    np.testing.assert_array_equal(found.errors.exponents > 0, free_w)
    assert found.covariance.shape == (free_a.sum() + free_w.sum(),) * 2


@pytest.mark.slow
def test_a_singular_start_is_no_obstacle() -> None:
    times = np.linspace(0.0, 200.0, 40)
    series = series_of(FSIR, np.array([[100.0, 0.01, 0.0]]), [times])
    scale = np.array([100.0, 10.0, 10.0])
    small = TimeSeries.from_arrays(times, series.trajectories[0].values / scale)
    truth = FSIR.rescaled(scale, 1.0)
    near = PowerSum(truth.coefficients * 1.01, truth.exponents * 0.995)
    initial = np.array([[1.0, 0.0015, 0.001]])
    found = polish(
        near, small, initial, np.full(3, 1e-5), floor=np.full(3, 1e-9), nonnegative=np.ones(3, dtype=bool), most=40
    )
    np.testing.assert_allclose(found.law.exponents, truth.exponents, atol=1e-3)
    np.testing.assert_allclose(found.law.coefficients, truth.coefficients, rtol=3e-3, atol=1e-9)


def test_a_law_that_blows_up_is_said_to() -> None:
    explosive = PowerSum(np.array([[50.0]]), np.array([[3.0]]))
    found = polish(
        explosive, growth(T, 0.01), np.array([[1.0]]), np.array([0.01]), floor=NO_FLOOR, nonnegative=POSITIVE
    )
    assert not found.finite
    assert found.law.coefficients.tolist() == [[50.0]] and found.law.exponents.tolist() == [[3.0]]
    assert np.isnan(found.errors.coefficients).all() and np.isnan(found.covariance).all()
    assert found.squares.tolist() == [np.inf]


def test_residual_squares_are_those_of_the_integrated_law() -> None:
    times = np.linspace(0.0, 9.0, 20)
    series = series_of(PREY, STARTS, [times, times], noise=0.1)
    series.trajectories[0].values[4, 0] = np.nan
    squares, plain, counts = residual_squares(PREY, series, STARTS)
    expected = sum(
        np.nansum((solved(PREY, start, times) - run.values) ** 2, axis=0)
        for start, run in zip(STARTS, series.trajectories, strict=True)
    )
    np.testing.assert_allclose(squares, expected, rtol=1e-6)
    assert counts.tolist() == [39.0, 40.0] and plain.tolist() == squares.tolist()
    twice = [np.full((20, 2), 2.0)] * 2
    weighted, again, _ = residual_squares(PREY, series, STARTS, twice)
    np.testing.assert_allclose(weighted, squares / 4.0)
    np.testing.assert_allclose(again, squares)


def test_sensitivities_of_what_has_died_out_do_not_grow() -> None:
    # Two steps over twelve hours are too long for y, which is dead by then and does not show it.
    t = np.array([0.0, 0.25, 0.5, 1.0, 2.0, 3.5, 5.0, 7.0, 9.0, 12.0, 24.4])
    series = TimeSeries.from_arrays(t, np.ones((len(t), 2)))
    law = PowerSum(np.array([[2.0, -0.08], [-2.0, 0.0]]), np.array([[1.0, 1.0], [1.0, 0.0]]))
    starts, start = Starts(np.array([False, False])), np.array([[0.05, 10.0]])
    model = TrajectoryResiduals(law, series, np.ones(2), all_free(law), starts, [np.ones((len(t), 2))])
    u = model.pack(start)
    value = model.evaluate(u)
    assert value is not None
    for k in range(3):  # the coefficients
        step = 1e-4 * u[k] * np.eye(len(u))[k]
        ends = [model.evaluate(v) for v in (u + step, u - step)]
        assert ends[0] is not None and ends[1] is not None
        slope = (ends[0].residual - ends[1].residual) / (2.0 * step[k])
        np.testing.assert_allclose(value.jacobian[:, k], slope, atol=0.01 * np.abs(slope).max())


RATIONAL = Features(2, (Function("exp", 1, -0.3),), Sums(np.array([[0.25]]), np.array([[2.0, 0.0, 0.0]])))
LAWS = {
    "powers": PowerSum(np.array([[0.7, -0.5], [-0.3, 0.0]]), np.array([[0.5, 0.0], [1.5, 0.8]])),
    "functions and sums": PowerSum(
        np.array([[0.5, -0.2, 0.0], [0.0, 0.0, -0.4]]),
        np.array([[0.0, 0.0, 1.0, 0.0], [1.0, 1.0, 0.0, -1.0], [0.0, 1.0, 0.0, 0.0]]),
        RATIONAL,
    ),
    "shared terms": PowerSum(
        np.array([[-0.6, 0.0], [0.0, -0.2]]),
        np.array([[1.0, 1.0], [0.0, 1.0]]),
        stoichiometry=np.array([[1.0, 0.0], [-1.0, 1.0]]),
    ),
    "nothing": PowerSum(np.zeros((2, 0)), np.zeros((0, 2))),
}


@pytest.mark.parametrize("name", LAWS)
def test_the_jacobian_is_that_of_differences(name: str) -> None:
    law, t = LAWS[name], np.linspace(0.0, 3.0, 40)
    series = TimeSeries.from_arrays([t, t[:7]], [np.ones((40, 2)), np.ones((7, 2))])
    starts, begun = Starts(np.array([True, False])), np.array([[0.8, 1.2], [1.5, 0.4]])
    shapes = [np.ones((40, 2)), np.ones((7, 2))]
    model = TrajectoryResiduals(law, series, np.full(2, 1e-3), all_free(law), starts, shapes)
    u = model.pack(begun)
    value = model.evaluate(u)
    assert value is not None and value.jacobian.shape == (94, len(u))
    for k, step in enumerate(1e-4 * np.eye(len(u))):
        up, down = model.evaluate(u + step), model.evaluate(u - step)
        assert up is not None and down is not None
        slope = (up.residual - down.residual) / 2e-4
        np.testing.assert_allclose(value.jacobian[:, k], slope, atol=1e-3 * np.abs(slope).max() + 1e-6)
