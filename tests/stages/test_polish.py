"""Polish: the constants at the maximum of the likelihood, how well they are known, and simpler forms."""

import numpy as np
import pytest
from problems import FSIR, LOGISTIC, PREY, STARTS, growth, logistic, series_of, solved
from scipy.optimize import curve_fit

from odediscovery import TimeSeries
from odediscovery.data.series import Scale
from odediscovery.families import Function
from odediscovery.judge.criterion import judge
from odediscovery.laws.power_sum import (
    SIMPLE,
    Features,
    PowerSum,
    Sums,
    all_free,
    constant_penalty,
    cost,
    count,
    none_free,
    snap_penalty,
)
from odediscovery.laws.records import Covariance, Origin, Polished
from odediscovery.problem.problem import prepare
from odediscovery.search.refinement import refined
from odediscovery.solve.sensitivities import Starts, TrajectoryResiduals, residual_squares
from odediscovery.stages.polish import (
    merge_monomials,
    nearest_decimal,
    polish,
    round_constants,
    shorten_quotients,
    snap,
    unscaled_errors,
)

T = np.linspace(0.0, 12.0, 40)


def fitted(law, series, start, sigma, floor=1e-10, **options):
    """The law of nonnegative states polished from a start, alike in all states."""
    n = law.n_states
    every = np.ones(n)
    return polish(law, series, start, sigma * every, floor=floor * every, nonnegative=every > 0, **options)


def polished(series, sigma, free=None):
    near = PowerSum(LOGISTIC.coefficients * 1.1, LOGISTIC.exponents)
    return fitted(near, series, np.array([[0.15]]), sigma, free=free, most=100)


# Only the coefficients: then the solution is known in closed form.
NONE = np.zeros((0, 0), dtype=bool)
COEFFICIENTS = (np.array([[True, True]]), np.array([[False], [False]]), NONE, NONE)


def test_constants_and_errors_are_those_of_curve_fit():
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


def test_no_error_is_smaller_than_rounding_allows():
    rough, fine = (
        fitted(LOGISTIC, growth(T, 0.0), np.array([[0.1]]), 1e-4, floor, free=COEFFICIENTS) for floor in (1e-3, 1e-5)
    )
    np.testing.assert_allclose(rough.errors.coefficients, 100.0 * fine.errors.coefficients, rtol=1e-3)


def test_several_trajectories_with_gaps_share_the_constants():
    series = series_of(PREY, STARTS, [np.linspace(0, 9, 20), np.sort(np.geomspace(0.1, 7, 15))])
    series.trajectories[0].values[3, 1] = np.nan
    series.trajectories[1].values[5:8, 0] = np.nan
    near = PowerSum(PREY.coefficients * 0.97, PREY.exponents * 1.02)
    found = fitted(near, series, 1.05 * STARTS, 1e-3, 1e-9)
    np.testing.assert_allclose(found.law.coefficients, PREY.coefficients, rtol=1e-4)
    np.testing.assert_allclose(found.law.exponents, PREY.exponents, rtol=1e-4)
    np.testing.assert_allclose(found.initial, STARTS, rtol=1e-4)
    assert found.counts.tolist() == [32.0, 34.0]


def test_only_what_is_free_moves_and_zeros_stay():
    series = series_of(PREY, STARTS[:1], [np.linspace(0, 9, 20)], noise=0.02)
    free_a, free_w, *inner = all_free(PREY)
    free_w[1, 0] = free_a[0, 0] = False
    found = fitted(PREY, series, STARTS[:1], 0.02, 1e-9, free=(free_a, free_w, *inner))
    np.testing.assert_array_equal(found.law.coefficients != PREY.coefficients, free_a)
    np.testing.assert_array_equal(found.law.exponents != PREY.exponents, free_w)
    np.testing.assert_array_equal(found.errors.coefficients > 0, free_a)
    np.testing.assert_array_equal(found.errors.exponents > 0, free_w)
    assert found.covariance.shape == (free_a.sum() + free_w.sum(),) * 2


def test_a_singular_start_is_no_obstacle():
    times = np.linspace(0.0, 200.0, 40)
    series = series_of(FSIR, np.array([[100.0, 0.01, 0.0]]), [times])
    scale = np.array([100.0, 10.0, 10.0])
    small = TimeSeries.from_arrays(times, series.trajectories[0].values / scale)
    truth = FSIR.rescaled(scale, 1.0)
    near = PowerSum(truth.coefficients * 1.01, truth.exponents * 0.995)
    found = fitted(near, small, np.array([[1.0, 0.0015, 0.001]]), 1e-5, 1e-9, most=40)
    np.testing.assert_allclose(found.law.exponents, truth.exponents, atol=1e-3)
    np.testing.assert_allclose(found.law.coefficients, truth.coefficients, rtol=3e-3, atol=1e-9)


def test_a_law_that_blows_up_is_said_to():
    explosive = PowerSum(np.array([[50.0]]), np.array([[3.0]]))
    found = fitted(explosive, growth(T, 0.01), np.array([[1.0]]), 0.01)
    assert not found.finite
    assert found.law.coefficients.tolist() == [[50.0]] and found.law.exponents.tolist() == [[3.0]]
    assert np.isnan(found.errors.coefficients).all() and np.isnan(found.covariance).all()
    assert found.squares.tolist() == [np.inf]


def test_residual_squares_are_those_of_the_integrated_law():
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


def slopes(model, u, columns, step):
    """The first columns of the Jacobian, and central differences with these steps."""
    value, numeric = model.evaluate(u), []
    for shift in np.diag(step)[:columns]:
        up, down = model.evaluate(u + shift), model.evaluate(u - shift)
        assert up is not None and down is not None
        numeric.append((up.residual - down.residual) / (2.0 * shift.sum()))
    return value.jacobian[:, :columns], np.array(numeric).T.reshape(-1, columns)


def test_sensitivities_of_what_has_died_out_do_not_grow():
    # Two steps over twelve hours are too long for y, which is dead by then and does not show it.
    t = np.array([0.0, 0.25, 0.5, 1.0, 2.0, 3.5, 5.0, 7.0, 9.0, 12.0, 24.4])
    series = TimeSeries.from_arrays(t, np.ones((len(t), 2)))
    law = PowerSum(np.array([[2.0, -0.08], [-2.0, 0.0]]), np.array([[1.0, 1.0], [1.0, 0.0]]))
    starts = Starts(np.array([False, False]))
    model = TrajectoryResiduals(law, series, np.ones(2), all_free(law), starts, [np.ones((len(t), 2))])
    u = model.pack(np.array([[0.05, 10.0]]))
    # Those of the coefficients.
    for ours, slope in zip(*(of.T for of in slopes(model, u, 3, 1e-4 * u)), strict=True):
        np.testing.assert_allclose(ours, slope, atol=0.01 * np.abs(slope).max())


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
def test_the_jacobian_is_that_of_differences(name):
    law, t = LAWS[name], np.linspace(0.0, 3.0, 40)
    series = TimeSeries.from_arrays([t, t[:7]], [np.ones((40, 2)), np.ones((7, 2))])
    starts, begun = Starts(np.array([True, False])), np.array([[0.8, 1.2], [1.5, 0.4]])
    shapes = [np.ones((40, 2)), np.ones((7, 2))]
    model = TrajectoryResiduals(law, series, np.full(2, 1e-3), all_free(law), starts, shapes)
    u = model.pack(begun)
    jacobian, numeric = slopes(model, u, len(u), np.full(len(u), 1e-4))
    assert jacobian.shape == (94, len(u))
    for ours, slope in zip(jacobian.T, numeric.T, strict=True):
        np.testing.assert_allclose(ours, slope, atol=1e-3 * np.abs(slope).max() + 1e-6)


DECAY = PowerSum(np.array([[-0.3]]), np.array([[1.2]]))


def measured(noise, seed=0):
    """x' = -0.3 x^1.2 from 5, in closed form, with additive noise."""
    t = np.linspace(0.0, 8.0, 60)
    x = (5.0**-0.2 + 0.06 * t) ** -5.0
    x = x + noise * np.random.default_rng(seed).standard_normal(len(t))
    return TimeSeries.from_arrays(t, x[:, None], ["x"])


def row_of(series, noise):
    sigma = np.array([max(noise, 1e-8)])

    def refit(law, free, initial):
        return judge(fitted(law, series, initial, sigma[0], sigma[0], free=free), sigma, Origin(0))

    return refit(DECAY, all_free(DECAY), np.array([[5.0]])), refit


def test_a_value_the_data_tell_apart_is_kept():
    row, refit = row_of(measured(1e-4), 1e-4)
    kept = snap(row, refit).polished.law.exponents[0, 0]
    assert kept == pytest.approx(1.2, abs=1e-3)
    assert kept not in SIMPLE


def test_a_value_the_data_cannot_tell_is_simple_and_not_free():
    row, refit = row_of(measured(1.0), 1.0)
    assert row.polished.errors.exponents[0, 0] > 0.1
    after = snap(row, refit)
    assert after.polished.law.exponents[0, 0] in SIMPLE
    assert not after.polished.free[1].any()
    assert after.criterion < row.criterion


# x' = 1 - 2 / (1 + b exp(-2 x)) = -tanh(x) for b = 1, in units in which x is twice as large.
GATE = Features(1, (Function("exp", 0, 2.0),), Sums(np.array([[1.0]]), np.array([[0.0, -1.0]])))


def gated(b, noise=1e-4):
    """The law after its gate's constant was found in noise, while its exponents are known."""
    law = PowerSum(np.array([[0.5, -1.0]]), np.array([[0.0, 0.0, 0.0], [0.0, 0.0, -1.0]]), GATE)
    law = law.with_constants(*law.constants[:2], np.array([[b]]), law.constants[3])
    t = np.linspace(0.0, 3.0, 100)
    values = solved(law, np.array([1.0]), t) + noise * np.random.default_rng(0).standard_normal((100, 1))
    series = TimeSeries.from_arrays(t, values, ["x"])
    sigma = np.array([noise])

    def refit(law, free, initial):
        return judge(fitted(law, series, initial, noise, free=free), sigma, Origin(0))

    free = (law.coefficients != 0.0, none_free(law)[1], np.array([[True]]), none_free(law)[3])
    return snap(refit(law, free, np.array([[1.0]])), refit, np.array([0.5])).polished


def test_a_gate_about_zero_is_a_tanh():
    found = gated(1.0)
    assert found.law.features.sums.weights.tolist() == [[1.0]]
    assert not found.free[2].any()


def test_a_gate_elsewhere_keeps_its_place():
    found = gated(1.5)
    assert found.free[2].all()
    assert found.law.features.sums.weights == pytest.approx(np.array([[1.5]]), rel=0.1)


def test_monomials_made_equal_are_one():
    law = PowerSum(np.array([[0.5, -0.2]]), np.array([[1.0], [1.0]]))
    free = (np.ones((1, 2), dtype=bool), np.zeros((2, 1), dtype=bool), NONE, NONE)
    merged, (free_a, free_w, *_) = merge_monomials(law, free)
    assert merged.coefficients.tolist() == [[0.3]]
    assert free_a.tolist() == [[True]] and free_w.tolist() == [[False]]


def test_held_exponents_cost_less_than_free_ones_and_exotic_values_most():
    law = PowerSum(np.array([[1.0]]), np.array([[1.0]]))
    held = (law.coefficients != 0, np.zeros((1, 1), dtype=bool), NONE, NONE)
    assert cost(law, held, 100) < cost(law, all_free(law), 100)
    assert cost(law, all_free(law), 100) == pytest.approx(2 * constant_penalty(1, 100))
    assert snap_penalty(1.0) < snap_penalty(2.0) < snap_penalty(3.0) < snap_penalty(1 / 3) == snap_penalty(0.123)


SCALE = Scale(np.array([3.7]), 0.29)


def known_within(coefficient, exponent, error):
    """x' = a x^w in units of a scale, a and w known within a relative error."""
    user = PowerSum(np.array([[coefficient]]), np.array([[exponent]]))
    law = user.rescaled(SCALE.state, SCALE.time)
    deviations = error * np.abs([law.coefficients[0, 0], law.exponents[0, 0], 1.0])
    errors = law.with_constants(deviations[:1, None], deviations[1:2, None], *law.constants[2:])
    joint, ones = Covariance.of(np.diag(1.0 / np.append(deviations[:2], 1e-8))), np.ones(1)
    return Polished(law, errors, np.ones((1, 1)), joint, all_free(law), ones, 40 * ones, True, ones)


@pytest.mark.parametrize(
    ("value", "error", "decimal"),
    [
        (-0.0376 * (1 + 3e-10), 4e-11, -0.0376),
        (6.022e23 * (1 + 3e-10), 6e14, 6.022e23),
        (np.pi, 1e-10, None),  # another number
        (2.6670001, 1e-9, None),  # near a decimal, but a hundred errors away
        (2.667, 1e-5, None),  # any number is so near to a decimal of four digits
        (1.0, np.nan, None),
    ],
)
def test_a_value_known_to_nine_digits_is_its_decimal(value, error, decimal):
    found = nearest_decimal(value, error)
    assert found is None if decimal is None else found is not None
    assert found is None or (found[0] == decimal and found[1] >= -2 * np.log(1e-4))


def test_constants_are_decimals_in_the_units_of_the_user():
    short, _ = round_constants(known_within(0.35, 0.93, 1e-9), SCALE)
    user = short.law.unscaled(SCALE.state, SCALE.time)
    assert user.coefficients[0, 0] == pytest.approx(0.35, rel=1e-15)
    assert user.exponents[0, 0] == 0.93
    assert count(short.free) == 0
    # The start is known as well as before.
    np.testing.assert_allclose(short.joint.deviations(), [1e-8])
    # One that is no decimal stays free.
    short, _ = round_constants(known_within(np.pi, 2.0, 1e-9), SCALE)
    assert short.free[0].all() and not short.free[1].any()


def test_errors_of_a_scaled_fit_are_those_of_a_fit_in_the_users_units():
    series = measured(0.02)
    p, law = prepare(series), PowerSum(np.array([[-0.3]]), np.array([[1.2]]))
    scaled = law.rescaled(p.scale.state, p.scale.time)
    errors = unscaled_errors(refined(p, scaled, all_free(scaled), p.initial, p.sigma), p.scale)
    sigma = p.sigma * p.scale.size
    own = polish(law, series, np.array([[5.0]]), sigma, floor=sigma * 1e-6, nonnegative=p.nonnegative)
    assert errors.coefficients == pytest.approx(own.errors.coefficients, rel=1e-3)
    assert errors.exponents == pytest.approx(own.errors.exponents, rel=1e-3)


def test_what_is_held_at_a_round_number_is_exact_and_at_another_unknown():
    t = np.linspace(0.0, 4.0, 30)
    p = prepare(TimeSeries.from_arrays(t, 2.0 * np.exp(-t) + 0.01 * np.cos(9.0 * t), ["x"]))
    for exponent, error in ((1.0, 0.0), (1.0123456789, np.nan)):
        law = PowerSum(np.array([[-1.0]]), np.array([[exponent]])).rescaled(p.scale.state, p.scale.time)
        a, w, b, v = all_free(law)
        found = refined(p, law, (a, w & False, b, v), p.initial, p.sigma)
        errors = unscaled_errors(found, p.scale)
        np.testing.assert_array_equal(errors.exponents, [[error]])
        assert errors.coefficients[0, 0] > 0.0


X = np.linspace(0.1, 5.0, 30)[:, None] * np.array([[1.0, 0.7]])
# u = 1 + 2 x
U = Features(2, (), Sums(np.array([[2.0]]), np.array([[1.0, 0.0]])))


def test_a_saturating_loss_written_as_a_difference_becomes_one_term():
    # x' = x - 3 y + 3 y/u = x - 6 x y/u,  y' = -y/u + 0.4 y = 0.4 y - y/u
    a = np.array([[1.0, -3.0, 3.0], [0.0, 0.4, -1.0]])
    w = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 1.0, -1.0]])
    law = PowerSum(a, w, U)
    short, (free_a, free_w, free_b, free_v) = shorten_quotients(law, X)[0]
    np.testing.assert_allclose(short.rhs(X), law.rhs(X), rtol=1e-12)
    assert np.count_nonzero(short.coefficients[0]) == 2 and np.count_nonzero(short.coefficients[1]) == 2
    assert free_a.sum() == 4 and not free_w.any() and free_b.sum() == 1 and not free_v.any()


def test_a_whole_part_that_hides_a_quotient_is_taken_apart():
    # x - 2 x^2/u = x/u
    law = PowerSum(np.array([[1.0, -2.0], [0.0, 0.0]]), np.array([[1.0, 0.0, 0.0], [2.0, 0.0, -1.0]]), U)
    found = shorten_quotients(law, X)[0]
    assert found[0].exponents.tolist() == [[1.0, 0.0, -1.0]]
    np.testing.assert_allclose(found[0].rhs(X), law.rhs(X), rtol=1e-9)


def test_a_constant_that_is_spread_over_a_sum_of_two_states_is_one_term_again():
    # 3 - 5 x/u = 3/u - 4 x/u + 6 y/u with u = 1 + x/3 + 2 y
    sums = Features(2, (), Sums(np.array([[1.0 / 3.0, 2.0]]), np.eye(2)))
    law = PowerSum(
        np.array([[3.0, -4.0, 6.0], [0.0, 0.0, 0.0]]),
        np.array([[0.0, 0.0, -1.0], [1.0, 0.0, -1.0], [0.0, 1.0, -1.0]]),
        sums,
    )
    short, _ = shorten_quotients(law, X)[0]
    assert short.coefficients[0] == pytest.approx([3.0, -5.0])
    assert short.exponents.tolist() == [[0.0, 0.0, 0.0], [1.0, 0.0, -1.0]]
    np.testing.assert_allclose(short.rhs(X), law.rhs(X), rtol=1e-9)
