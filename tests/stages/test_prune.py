"""Pruning: the path from too many terms down to the true ones."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from problems import LOGISTIC, PREY, STARTS, series_of

from odediscovery.bench.suites.scoring import same_terms, worst_errors
from odediscovery.fitting.residuals import LongResiduals, ShortResiduals
from odediscovery.fitting.windows import Windows, cut
from odediscovery.laws.power_sum import PowerSum
from odediscovery.networks.chain import Chain
from odediscovery.networks.translate import chain_of, laws_of
from odediscovery.problem.prepare import prepare
from odediscovery.runtime.monitor import Monitor
from odediscovery.stages.grow.polynomials import library_law
from odediscovery.stages.prune.eliminate import Elimination, Pruned, eliminate

GROWTH = series_of(LOGISTIC, np.array([[0.05]]), [np.linspace(0.0, 14.0, 25)])
CYCLES = series_of(PREY, STARTS, [np.linspace(0.0, 8.0, 17)] * 2)
# The truth and terms that data do not need, with constants that are off.
TOO_MUCH = PowerSum(np.array([[0.3, -0.3, -0.1, 0.05]]), np.array([[0.9], [1.7], [2.6], [0.4]]))
# Eight steps an interval, accurate enough for all that is asked here.
FINE = 4
# Floor of the sum of squares: steps of the solver explain this much.
HOW = Elimination(floor=1e-12)


def windows_of(series, length: int | None = 1) -> Windows:
    windows = cut(series, series, np.ones(series.n_states), length)
    return dataclasses.replace(windows, grid=np.full_like(windows.grid, FINE))


def paths(chain: Chain, series, how: Elimination = HOW) -> list[Pruned]:
    problem = ShortResiduals(windows_of(series), chain)
    return eliminate(chain, problem, chain.theta, Monitor(), how)


def law_of(chain: Chain, pruned: Pruned) -> PowerSum:
    return laws_of(chain.replace(pruned.unknowns[None, : chain.theta.shape[1]]))[0]


@pytest.mark.slow
def test_the_true_law_is_on_the_path_from_too_many_terms() -> None:
    chain = chain_of([TOO_MUCH], np.array([True]))
    path = paths(chain, GROWTH)
    hits = [p for p in path if same_terms(law_of(chain, p), LOGISTIC, 1e-3)]
    assert hits and hits[0].size == 4
    exponent, coefficient = worst_errors(law_of(chain, hits[0]), LOGISTIC)
    assert exponent < 1e-4 and coefficient < 1e-4
    assert hits[0].sum_of_squares < 1e-10
    simpler = [p for p in path if p.size < 4]
    assert simpler and all(p.sum_of_squares > 1e-6 for p in simpler)


@pytest.mark.slow
def test_two_equations_that_share_a_monomial() -> None:
    crowd = PowerSum(
        np.hstack([PREY.coefficients * 0.9 + 0.05, [[0.02], [-0.03]]]),
        np.vstack([PREY.exponents * 0.95 + 0.04, [[2.0, 0.3]]]),
    )
    chain = chain_of([crowd], np.array([True, True]))
    path = paths(chain, CYCLES)
    hits = [p for p in path if same_terms(law_of(chain, p), PREY, 1e-3)]
    assert hits
    assert max(worst_errors(law_of(chain, hits[0]), PREY)) < 1e-4


@pytest.mark.slow
def test_each_step_has_less_and_what_is_removed_is_zero() -> None:
    chain = chain_of([TOO_MUCH, LOGISTIC], np.array([True]))
    path = paths(chain, GROWTH)
    for member in (0, 1):
        own = [p for p in path if p.member == member]
        sizes = [p.size for p in own]
        assert sizes == sorted(set(sizes), reverse=True)
        fixed = ~chain.free[member]
        for p in own:
            removed = ~p.free & chain.free[member]
            assert bool((p.unknowns[removed] == 0).all())
            assert np.array_equal(p.unknowns[fixed], chain.theta[member][fixed])
            assert not bool((p.free & fixed).any())


@pytest.mark.slow
def test_twins_become_one() -> None:
    twins = PowerSum(np.array([[0.2, 0.3, -0.5]]), np.array([[0.95], [1.03], [2.0]]))
    chain = chain_of([twins], np.array([True]))
    path = paths(chain, GROWTH)
    first = law_of(chain, path[0])
    assert same_terms(first, LOGISTIC, 1e-3)
    assert path[0].size == 4


@pytest.mark.slow
def test_monomials_that_are_apart_stay_two() -> None:
    chain = chain_of([LOGISTIC], np.array([True]))
    path = paths(chain, GROWTH, dataclasses.replace(HOW, near=1.5))
    assert path[0].size == 4 and same_terms(law_of(chain, path[0]), LOGISTIC, 1e-3)


@pytest.mark.slow
def test_rows_that_nothing_reads_go_at_once() -> None:
    """An exponent whose coefficient is zero has no influence on any residual."""
    chain = chain_of([TOO_MUCH], np.array([True]))
    theta, free = chain.theta.copy(), chain.free.copy()
    _, weight = chain.places()[0]
    theta[0, weight][2:] = 0.0
    free[0, weight][2:] = False
    chain = chain.replace(theta, free)
    path = paths(chain, GROWTH)
    assert path[0].size == 4
    assert np.count_nonzero(path[0].unknowns[:4]) == 2


@pytest.mark.slow
def test_hopeless_members_are_dropped() -> None:
    off = PowerSum(np.array([[0.001]]), np.array([[0.5]]))
    chain = chain_of([LOGISTIC, off], np.array([True]))
    assert {p.member for p in paths(chain, GROWTH)} == {0, 1}
    strict = dataclasses.replace(HOW, hopeless=100.0)
    assert {p.member for p in paths(chain, GROWTH, strict)} == {0}


@pytest.mark.slow
def test_members_that_became_what_another_one_is_leave_or_go_on_alone() -> None:
    chain = chain_of([TOO_MUCH, TOO_MUCH], np.array([True]))
    together = paths(chain, GROWTH)
    alone = paths(chain, GROWTH, dataclasses.replace(HOW, alone=True))
    sizes = {m: [p.size for p in alone if p.member == m] for m in (0, 1)}
    assert sizes[0] == sizes[1] == [p.size for p in together if p.member == 0]
    assert len([p for p in together if p.member == 1]) < len(sizes[1])


@pytest.mark.slow
def test_members_that_blow_up_leave_no_trace() -> None:
    wild = PowerSum(np.array([[1e6, -0.5]]), np.array([[9.0], [2.0]]))
    chain = chain_of([LOGISTIC, wild], np.array([True]))
    path = paths(chain, GROWTH)
    assert all(np.isfinite(p.sum_of_squares) for p in path)
    alone = paths(chain_of([LOGISTIC], np.array([True])), GROWTH)
    own = [p for p in path if p.member == 0]
    assert [p.size for p in own] == [p.size for p in alone]


@pytest.mark.slow
def test_fitted_starts_are_never_removed() -> None:
    three = PowerSum(TOO_MUCH.coefficients[:, :3], TOO_MUCH.exponents[:3])
    chain = chain_of([three], np.array([True]))
    few = series_of(LOGISTIC, np.array([[0.05]]), [np.linspace(0.0, 14.0, 15)])
    problem = LongResiduals(windows_of(few, None), chain, np.array([True]))
    path = eliminate(chain, problem, problem.pack(chain.theta), Monitor(), HOW)
    parameters = chain.theta.shape[1]
    assert all(len(p.free) == parameters and len(p.unknowns) == parameters + 1 for p in path)
    assert all(p.unknowns[-1] != 0 for p in path)
    hits = [p for p in path if same_terms(law_of(chain, p), LOGISTIC, 1e-2)]
    assert hits
    assert hits[0].unknowns[-1] ** 2 == pytest.approx(0.05, rel=1e-3)


def test_a_stopped_elimination_returns_what_it_has() -> None:
    chain = chain_of([TOO_MUCH], np.array([True]))
    monitor = Monitor()
    monitor.interrupt()
    problem = ShortResiduals(windows_of(GROWTH), chain)
    assert len(eliminate(chain, problem, chain.theta, monitor, HOW)) == 1


@pytest.mark.slow
def test_what_linear_elimination_takes_goes_in_one_step() -> None:
    p = prepare(CYCLES)
    library = library_law(p, 2)
    assert library is not None
    chain = chain_of([library], np.ones(2, dtype=bool), whole=True)
    problem = ShortResiduals(windows_of(p.data), chain)
    one, many = (
        eliminate(chain, problem, chain.theta, Monitor(), how) for how in (HOW, dataclasses.replace(HOW, linear=True))
    )
    assert [path.size for path in one][:3] == [12, 11, 10]
    assert [path.size for path in many][:3] == [12, 4, 3]
    law, again = (law_of(chain, next(s for s in path if s.size == 4)) for path in (one, many))
    np.testing.assert_array_equal(law.coefficients != 0, again.coefficients != 0)
    np.testing.assert_allclose(law.coefficients, again.coefficients, rtol=1e-9, atol=1e-12)
