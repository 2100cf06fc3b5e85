"""What a fit knows of its numbers together, and what it cannot know."""

import numpy as np
import pytest
from problems import LOGISTIC, PREY, STARTS, TWINS, growth, logistic, series_of, solved
from scipy.optimize import curve_fit

from odediscovery import InputError, TimeSeries, Trajectory
from odediscovery.data.series import Scale
from odediscovery.discovery.conclude import estimates
from odediscovery.laws.power_sum import PowerSum, all_free, none_free
from odediscovery.laws.records import Covariance, Estimates
from odediscovery.problem.problem import prepare
from odediscovery.solve.sensitivities import sensitivities
from odediscovery.stages.polish import polish, polish_on, unscaled_errors

T = np.linspace(0.0, 12.0, 40)
ONE = Scale(np.ones(1), 1.0)


def coefficients_only(law):
    free, nothing = all_free(law), none_free(law)
    return free[0], *nothing[1:]


def fitted(law, series, initial, free, *, positive=True):
    n, signs = law.n_states, np.full(law.n_states, positive)
    noise, least = np.full(n, 0.02), np.full(n, 1e-10)
    return polish(law, series, initial, noise, floor=least, free=free, nonnegative=signs, most=100)


@pytest.mark.parametrize("positive", [True, False])
def test_starts_and_constants_have_the_covariance_of_curve_fit(positive):
    series = growth(T, 0.02)
    values = series.trajectories[0].values[:, 0]
    _, expected = curve_fit(logistic, T, values, (0.5, 0.5, 0.1))
    found = fitted(LOGISTIC, series, np.array([[0.1]]), coefficients_only(LOGISTIC), positive=positive)
    sign = np.array([1.0, -1.0, 1.0])
    spread = np.sqrt(np.diag(expected))
    np.testing.assert_allclose(found.joint.deviations(), spread, rtol=0.01)
    np.testing.assert_allclose(
        found.joint.matrix / np.outer(spread, spread),
        expected * np.outer(sign, sign) / np.outer(spread, spread),
        atol=0.01,
    )


def test_constants_that_only_their_sum_is_seen_of_are_unknown():
    free = coefficients_only(TWINS)
    found = fitted(TWINS, growth(T, 0.02), np.array([[0.1]]), free)
    alone = fitted(LOGISTIC, growth(T, 0.02), np.array([[0.1]]), coefficients_only(LOGISTIC))
    # Where the search compares them with simple values they are far less than certain.
    assert (found.errors.coefficients[0, :2] > 100.0).all()
    told = unscaled_errors(found, ONE).coefficients[0]
    assert np.isnan(told[:2]).all()
    # What is told, the third constant, the start and the sum, is known as well as ever.
    expected = alone.joint.deviations()
    assert told[2] == pytest.approx(expected[1], rel=0.03)
    assert found.joint.deviations()[3] == pytest.approx(expected[2], rel=0.03)
    total = found.joint.transformed(np.array([[1.0, 1.0, 0.0, 0.0]])).deviations()
    assert total[0] == pytest.approx(expected[0], rel=0.03)


def test_exponents_that_act_as_one_are_unknown():
    # y follows x at all times, so only the sum of the exponents of x y is seen.
    law = PowerSum(-0.3 * np.ones((2, 1)), np.array([[0.5, 0.5]]))
    series = series_of(law, np.array([[1.0, 1.0]]), [T], noise=0.01)
    free = all_free(law)
    found = fitted(law, series, np.ones((1, 2)), (~free[0], *free[1:]))
    assert np.isnan(found.joint.deviations()[:2]).all() or (found.errors.exponents > 0.3).all()


def test_more_numbers_than_values_leave_none_known():
    short = Covariance.of(np.array([[1.0, 2.0, 0.5]]))
    assert np.isnan(short.deviations()).all()
    assert Covariance.of(np.zeros((4, 0))).matrix.shape == (0, 0)
    nothing = Covariance.of(np.array([[0.0, 2.0], [0.0, 2.0]])).deviations()
    assert np.isnan(nothing[0]) and nothing[1] == pytest.approx(8.0**-0.5)


def test_a_constraint_takes_away_what_it_tells():
    joint = Covariance.of(np.array([[1.0, 0.5], [0.2, 2.0], [0.7, 0.1]]))
    g, c = np.array([1.0, -3.0]), joint.matrix
    held = joint.given(g)
    np.testing.assert_allclose(held.matrix, c - np.outer(c @ g, c @ g) / (g @ c @ g), atol=1e-12)
    confused = Covariance.of(np.ones((3, 2))).given(np.array([1.0, 0.0]))
    assert confused.matrix[0, 0] < 1e-9
    assert confused.deviations()[1] == pytest.approx(3.0**-0.5, rel=1e-6)


def test_constants_known_from_elsewhere_make_starts_better_known():
    joint = Covariance.of(np.random.default_rng(0).normal(size=(9, 4)))
    same = joint.with_first(joint.part(slice(2)))
    np.testing.assert_allclose(same.matrix, joint.matrix)
    exact = joint.with_first(Covariance(np.zeros((2, 2)), np.zeros((0, 2))))
    fixed = np.linalg.inv(np.linalg.inv(joint.matrix)[2:, 2:])
    np.testing.assert_allclose(exact.matrix[2:, 2:], fixed)


def test_a_start_on_its_bound_has_no_error():
    # x' = -0.5 x, y' = 0.5 x: y begins at 0, and the noise of its first samples is negative.
    law = PowerSum(np.array([[-0.5], [0.5]]), np.array([[1.0, 0.0]]))
    starts = np.array([[1.0, 0.0]])
    values = solved(law, starts[0], T)
    values += 0.02 * np.random.default_rng(2).standard_normal(values.shape)
    values[:4, 1] -= 0.03
    p = prepare(TimeSeries.from_arrays(T, values))
    scaled = law.rescaled(p.scale.state, p.scale.time)
    rest = {"most": 60, "nonnegative": np.array([True, True]), "free": coefficients_only(scaled)}
    found = polish(scaled, p.data, p.initial, p.noise, floor=p.floor, **rest)
    errors = estimates(p, found).start_errors()[0]
    assert 0.001 < errors[0] < 0.03
    assert np.isnan(errors[1]) and found.initial[0, 1] < 0.01


def test_only_the_starts_of_trajectories_are_kept_not_those_of_pieces():
    whole = prepare(series_of(PREY, STARTS, [np.linspace(0.0, 20.0, 41)] * 2, noise=0.02))
    p = whole.pieces(10)
    law = PREY.rescaled(p.scale.state, p.scale.time)
    found = polish_on(p, law, all_free(law), p.initial, p.noise)
    kept = estimates(p, found)
    assert len(found.initial) == 8 and kept.initial.shape == (2, 2)
    np.testing.assert_array_equal(kept.initial, found.initial[[0, 4]])
    k = len(found.covariance)
    expected = found.joint.deviations()[[k, k + 1, k + 8, k + 9]].reshape(2, 2) * p.scale.state
    np.testing.assert_allclose(kept.start_errors(), expected)


def test_sensitivities_are_those_of_finite_differences():
    free, times = all_free(PREY), np.linspace(0.0, 9.0, 13)
    found = sensitivities(PREY, free, STARTS[0], Trajectory(times, np.zeros((len(times), 2))))
    x, slopes = found
    np.testing.assert_allclose(x, solved(PREY, STARTS[0], times), rtol=1e-6)
    step = 1e-5
    for number, (row, column) in enumerate(np.argwhere(free[0])):
        change = np.zeros_like(PREY.coefficients)
        change[row, column] = step
        up, down = (solved(PowerSum(PREY.coefficients + s * change, PREY.exponents), STARTS[0], times) for s in (1, -1))
        np.testing.assert_allclose(slopes[:, :, number], (up - down) / (2 * step), rtol=1e-4, atol=1e-4)
    shift = np.array([0.0, step])
    up, down = (solved(PREY, STARTS[0] + s * shift, times) for s in (1, -1))
    np.testing.assert_allclose(slopes[:, :, -1], (up - down) / (2 * step), rtol=1e-4, atol=1e-4)


def test_sensitivities_of_a_stiff_law_are_those_of_its_formula():
    """x' = k (y - x), y' = -y: of x = y k / (k - 1) nothing is left of its start after the first interval."""
    k, times = 3000.0, np.linspace(0.0, 5.0, 6)
    law = PowerSum(np.array([[-k, k], [0.0, -1.0]]), np.eye(2))
    found = sensitivities(law, all_free(law), np.array([1.0, 1.0]), Trajectory(times, np.zeros((6, 2))))
    x, slopes = found
    y = np.exp(-times[1:])
    np.testing.assert_allclose(x[1:], np.stack([y * k / (k - 1.0), y], axis=1), rtol=1e-6)
    np.testing.assert_allclose(slopes[1:, 0, -1], y * k / (k - 1.0), rtol=1e-4)
    np.testing.assert_allclose(slopes[1:, 0, -2], 0.0, atol=1e-6)
    # by the rate of y, of which x is a copy
    np.testing.assert_allclose(slopes[1:, 1, 2], times[1:] * y, rtol=1e-4)


def test_estimates_come_back_from_their_file(tmp_path):
    p = prepare(series_of(PREY, STARTS, [np.linspace(0.0, 20.0, 41)] * 2, noise=0.02))
    law = PREY.rescaled(p.scale.state, p.scale.time)
    found = polish(law, p.data, p.initial, p.noise, floor=p.floor, nonnegative=p.nonnegative)
    before, path = estimates(p, found), tmp_path / "covariance.npz"
    path.write_bytes(Estimates.to_bytes(before))
    after = Estimates.from_bytes(path.read_bytes(), path)
    assert after is not None and Estimates.to_bytes(after) == Estimates.to_bytes(before)
    np.testing.assert_array_equal(after.start_errors(), before.start_errors())
    path.write_bytes(Estimates.to_bytes(None))
    assert Estimates.from_bytes(path.read_bytes(), path) is None
    np.savez(path, head=np.array([{"evil": 1}], dtype=object))
    with pytest.raises(InputError, match="damaged"):
        Estimates.from_bytes(path.read_bytes(), path)


def test_what_is_hardly_known_at_all_is_no_overflow():
    hardly = Covariance.of(np.diag([1e-150, 1.0]))
    assert np.isfinite(hardly.matrix).all() and hardly.matrix[0, 0] > 1e100
    assert hardly.deviations()[1] == pytest.approx(1.0)
    blind = Covariance(np.eye(2), np.array([[1e200, 0.0], [0.0, 1e-3]]))
    assert np.isinf(blind.matrix[0, 0]) and np.isnan(blind.deviations()[0])
