"""Pruning: the path from too many terms down to the true ones, and the surgeon that estimates it."""

import dataclasses

import numpy as np
import pytest
from problems import LOGISTIC, PREY, STARTS, series_of

from odediscovery import Monitor
from odediscovery.bench.scores import distance, same_terms
from odediscovery.fitting.windows import ShortResiduals, cut
from odediscovery.laws.power_sum import PowerSum, all_free, count
from odediscovery.networks.chain import chain_of, laws_of
from odediscovery.problem.problem import prepare
from odediscovery.stages.prune import Elimination, eliminate, estimate_without, inverse_of, is_without_influence
from odediscovery.stages.regression import library_law

GROWTH = series_of(LOGISTIC, np.array([[0.05]]), [np.linspace(0.0, 14.0, 25)])
CYCLES = series_of(PREY, STARTS, [np.linspace(0.0, 8.0, 17)] * 2)
# The truth and terms that data do not need, with constants that are off.
TOO_MUCH = PowerSum(np.array([[0.3, -0.3, -0.1, 0.05]]), np.array([[0.9], [1.7], [2.6], [0.4]]))
# Two equations share a monomial.
CROWD = PowerSum(
    np.hstack([PREY.coefficients * 0.9 + 0.05, [[0.02], [-0.03]]]),
    np.vstack([PREY.exponents * 0.95 + 0.04, [[2.0, 0.3]]]),
)
# Floor of the sum of squares: steps of the solver explain this much.
HOW = Elimination(floor=1e-12)


def problem_of(chain, series):
    windows = cut(series, series, np.ones(series.n_states), 1)
    # Eight steps an interval, accurate enough for all that is asked here.
    return ShortResiduals(dataclasses.replace(windows, grid=np.full_like(windows.grid, 4)), chain)


def paths(chain, series, how=HOW, monitor=None):
    return eliminate(chain, problem_of(chain, series), chain.theta, monitor or Monitor(), how)


def law_of(chain, pruned):
    return laws_of(chain.replace(pruned.unknowns[None, : chain.theta.shape[1]]))[0]


@pytest.mark.parametrize(("crowd", "truth", "series"), [(TOO_MUCH, LOGISTIC, GROWTH), (CROWD, PREY, CYCLES)])
def test_the_true_law_is_on_the_path_from_too_many_terms(crowd, truth, series):
    chain = chain_of([crowd], np.ones(truth.n_states, dtype=bool))
    path = paths(chain, series)
    hits = [p for p in path if same_terms(law_of(chain, p), truth, 1e-3)]
    assert hits and hits[0].size == count(all_free(truth))
    apart = distance(law_of(chain, hits[0]), truth)
    assert max(apart.inner, apart.outer) < 1e-4
    assert hits[0].sum_of_squares < 1e-10
    simpler = [p for p in path if p.size < hits[0].size]
    assert simpler and all(p.sum_of_squares > 1e-6 for p in simpler)


def test_a_stopped_elimination_returns_what_it_has():
    monitor = Monitor()
    monitor.interrupt()
    assert len(paths(chain_of([TOO_MUCH], np.array([True])), GROWTH, monitor=monitor)) == 1


def test_what_linear_elimination_takes_goes_in_one_step():
    p = prepare(CYCLES)
    library = library_law(p, 2)
    chain = chain_of([library], np.ones(2, dtype=bool), whole=True)
    one, many = (paths(chain, p.data, how) for how in (HOW, dataclasses.replace(HOW, linear=True)))
    assert [path.size for path in one][:3] == [12, 11, 10]
    assert [path.size for path in many][:3] == [12, 4, 3]
    law, again = (law_of(chain, next(s for s in path if s.size == 4)) for path in (one, many))
    np.testing.assert_array_equal(law.coefficients != 0, again.coefficients != 0)
    np.testing.assert_allclose(law.coefficients, again.coefficients, rtol=1e-9, atol=1e-12)


def test_of_linear_least_squares_the_estimate_is_the_refit():
    generator = np.random.default_rng(0)
    design = generator.standard_normal((20, 4)) * np.array([1.0, 1e3, 1e-3, 1.0])
    target = generator.standard_normal(20)
    normal = (design.T @ design)[None]
    theta = np.linalg.lstsq(design, target)[0][None]
    removed = np.array([[[True, False, False, False], [False, True, True, False]]])
    found = estimate_without(theta, inverse_of(normal), removed)[0]
    for estimate, gone in zip(found, removed[0], strict=True):
        kept = np.linalg.lstsq(design[:, ~gone], target)[0]
        np.testing.assert_allclose(estimate[~gone], kept, rtol=1e-6)
        assert not estimate[gone].any()


def test_a_parameter_that_no_residual_sees_has_no_influence():
    normal = np.diag([4.0, 0.0, 1.0])[None]
    free = np.array([[True, True, False]])
    values = np.ones((1, 3))
    assert is_without_influence(normal, values, free, 3).tolist() == [[False, True, False]]
    assert is_without_influence(normal, values, free, 1).tolist() == [[False]]


def test_a_member_beyond_all_numbers_does_not_end_the_others():
    normal = np.stack([np.diag([4.0, 1.0]), np.full((2, 2), np.inf)])
    inverse = inverse_of(normal)
    assert inverse[0] == pytest.approx(np.diag([0.25, 1.0]), rel=1e-6)
