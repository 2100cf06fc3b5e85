"""Laws grown by regression on the integral form, beside least squares with known answers."""

import numpy as np
import pytest
from problems import growth
from scipy.integrate import solve_ivp

from odediscovery import Monitor, TimeSeries, get_system, simulate_system
from odediscovery.bench.scores import same_terms
from odediscovery.judge.claim import interval_squares
from odediscovery.laws.power_sum import NO_SUMS, Features
from odediscovery.laws.records import SETTLED
from odediscovery.problem.problem import prepare
from odediscovery.stages.grow import best_of_each, best_subsets, descents, grow, optimise_all, settled, simpler, wald
from odediscovery.stages.integral_form import Draft, Fit, Integral, solve
from odediscovery.stages.regression import library_law


def test_least_squares_are_those_of_numpy_and_unused_columns_stay_out():
    random = np.random.default_rng(0)
    columns, target = random.standard_normal((2, 30, 3)), random.standard_normal((2, 30))
    used = np.array([[True, True, True], [True, False, True]])
    linear = solve(columns, target, used)
    for i in range(2):
        expected = np.linalg.lstsq(columns[i][:, used[i]], target[i], rcond=None)[0]
        np.testing.assert_allclose(linear.coefficients[i, used[i]], expected, rtol=1e-8)
    assert linear.coefficients[1, 1] == 0.0
    for left in (linear.residual[:, :, None], linear.projected(random.standard_normal((2, 30, 4)))):
        np.testing.assert_allclose(np.einsum("itm,itc->imc", columns, left)[used], 0.0, atol=1e-8)


def library(samples, columns, seed=0):
    """Random columns of norm 1."""
    found = np.random.default_rng(seed).standard_normal((samples, columns))
    return found / np.linalg.norm(found, axis=0)


def test_the_columns_behind_the_data_are_found_among_many():
    columns = library(60, 300)
    y = 2.0 * columns[:, 7] - 1.0 * columns[:, 120] + 0.5 * columns[:, 251]
    levels = best_subsets(columns, y, 4, 3)
    assert [len(level[0]) for level in levels] == [1, 2, 3, 4]
    assert [level[0] for level in levels[:3]] == [(7,), (7, 120), (7, 120, 251)]
    assert all(len(level) <= 3 for level in levels)
    assert best_subsets(np.empty((5, 0)), np.ones(5), 3, 5) == [[]]


def test_a_pair_that_explains_nothing_alone_is_found_when_pairs_are_asked_for():
    columns = library(40, 200, seed=1)
    # Both columns are almost orthogonal to their difference.
    columns[:, 151] = columns[:, 150] + 0.05 * columns[:, 0]
    columns[:, 151] /= np.linalg.norm(columns[:, 151])
    y = columns[:, 151] - columns[:, 150]
    columns[:, 0] = library(40, 1, seed=2)[:, 0]
    found = best_subsets(columns, y, 2, 1, pairs=True)
    assert found[1][0] == (150, 151)


def test_each_given_column_is_in_subsets_of_its_own():
    columns = library(60, 300, seed=3)
    y = 2.0 * columns[:, 7] - 1.0 * columns[:, 120] + 0.5 * columns[:, 251]
    levels = best_subsets(columns, y, 3, 1, own=np.array([251, 290]), others=np.arange(300) < 251)
    assert levels[2][0] == (7, 120, 251) and set(levels[2][1]) == {7, 120, 290}
    assert all(sum(c >= 251 for c in subset) == 1 for level in levels for subset in level)


# N' = 0.5 N - 0.5 N^2 without noise.
SERIES = growth(np.linspace(0.0, 14.0, 60), 0.0)


def test_of_a_large_library_each_equation_keeps_what_it_needs():
    """Aizawa's attractor, a law of degree four in three states, densely sampled."""

    def rhs(_, s):
        x, y, z = s
        radial = (x**2 + y**2) * (1.0 + 0.25 * z)
        return [(z - 0.7) * x - 3.5 * y, 3.5 * x + (z - 0.7) * y, 0.6 + 0.95 * z - z**3 / 3 - radial + 0.1 * z * x**3]

    t = np.linspace(0.0, 12.0, 800)
    x = solve_ivp(rhs, (0.0, 12.0), [0.1, 0.4, 0.1], t_eval=t, rtol=1e-10, atol=1e-12).y.T
    swirl = prepare(TimeSeries.from_arrays(t, x, ["x", "y", "z"]))
    law = library_law(swirl, 4)

    assert interval_squares(law, swirl).max() < SETTLED
    # The whole library has 35 products; the true equations 3, 3 and 8.
    assert ((law.coefficients != 0).sum(axis=1) < 20).all()
    needed = {(3.0, 0.0, 1.0), (0.0, 0.0, 3.0), (2.0, 0.0, 1.0)}
    assert needed <= {tuple(row) for row, used in zip(law.exponents, law.coefficients[2] != 0, strict=True) if used}


@pytest.fixture(scope="module")
def fit():
    problem = Integral.of(SERIES, np.zeros(1), np.array([False]), Features(1))
    return Fit(problem, np.array([0]), problem.counts, np.array([1e-14]))


def model(fit, *exponents):
    """One equation of these powers with the best coefficients."""
    w = np.array(exponents)[:, None]
    return fit.model(Draft(w, np.ones((1, len(w)), dtype=bool), w != 0, NO_SUMS, fit.problem.interpolated()))


def constants(found):
    """Exponents and coefficients, by rising exponent."""
    order = np.argsort(found.exponents[:, 0])
    return np.concatenate([found.exponents[order, 0], found.coefficients[0, order]])


def test_exponents_that_are_off_come_to_the_true_ones(fit):
    start = model(fit, 0.8, 2.3)
    assert optimise_all(fit, [start])[0].score < start.score
    found = settled(fit, start)
    np.testing.assert_allclose(constants(found), [1.0, 2.0, 0.5, -0.5], atol=1e-4)
    assert found.size == 4 and fit.exact(found)
    np.testing.assert_allclose(fit.law(found).rhs(np.array([[0.3]])), [[0.5 * 0.3 - 0.5 * 0.3**2]], rtol=1e-5)


def test_the_term_that_nothing_needs_is_the_least_certain_and_goes(fit):
    crowded = model(fit, 1.0, 2.0, 3.0)
    of_coefficients, _, _ = wald(fit, crowded)
    assert np.argmin(of_coefficients[0]) == 2 and of_coefficients[0, 2] < 1.0 < 1e4 < of_coefficients[0, :2].min()
    less = min(optimise_all(fit, simpler(fit, crowded)), key=fit.criterion)
    assert less.size == crowded.size - 1
    assert fit.criterion(less) < fit.criterion(crowded)


def test_the_way_down_from_too_many_terms_passes_the_true_law(fit):
    path = descents(fit, [model(fit, 0.9, 1.1, 2.1)], Monitor(), settle=True)
    sizes = [m.size for m in path]
    assert sizes == sorted(set(sizes), reverse=True) and sizes[-1] == 1
    best = best_of_each(fit, path)[0]
    np.testing.assert_allclose(constants(best), [1.0, 2.0, 0.5, -0.5], atol=1e-3)
    assert [m.structure for m in best_of_each(fit, [*path, *path])] == [m.structure for m in best_of_each(fit, path)]


def grown(system, noise=0.0):
    """Laws in the user's units, best first, and the truth."""
    p = prepare(simulate_system(system, noise=noise))
    laws = grow(p)
    truth = get_system(system).equations().power_sum
    return [law.unscaled(p.scale.state, p.scale.time) for law in laws], truth


@pytest.mark.parametrize("system", ["theta-logistic", "lotka-volterra"])
def test_the_best_law_of_clean_data_is_the_truth(system):
    laws, truth = grown(system)
    assert same_terms(laws[0], truth, 0.005)


def test_states_that_change_sign_have_whole_powers():
    laws, truth = grown("van-der-pol")
    assert same_terms(laws[0], truth, 0.0)
    for law in laws:
        assert np.array_equal(law.exponents, np.round(law.exponents))
