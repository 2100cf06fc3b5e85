"""One monomial for another: every simple one in every place, nothing twice."""

from __future__ import annotations

import dataclasses

import numpy as np
from problems import growth

from odediscovery import simulate_system
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.prepare import prepare
from odediscovery.problem.problem import Problem
from odediscovery.search.candidates import as_grown
from odediscovery.search.swap_monomials import SWAPS, merge_powers, swap_monomials


def problem() -> Problem:
    return prepare(simulate_system("lotka-volterra"))


def test_each_monomial_gives_way_to_each_simple_one() -> None:
    p = problem()
    law = PowerSum(np.array([[1.0, 0.0], [0.0, -1.0]]), np.array([[0.5, 0.0], [0.0, 1.0]]))
    candidate = dataclasses.replace(as_grown(p, law), found_by="training")
    swapped = swap_monomials(p, [candidate])
    assert {source for _, source in swapped} == {"training"}
    found = {tuple(map(tuple, law.exponents)) for law, _ in swapped}
    simple = {(0.0, 0.0), (0.0, 1.0), (1.0, 1.0)}
    # x in place of x^0.5, and y in place of itself, are the same form as before.
    assert {(w, (0.0, 1.0)) for w in simple} <= found
    assert {((0.5, 0.0), w) for w in ((0.0, 0.0), (1.0, 0.0), (1.0, 1.0))} <= found
    assert len(found) == 6


def test_few_candidates_are_taken_and_few_laws_come() -> None:
    p, generator = problem(), np.random.default_rng(0)
    laws = [PowerSum(generator.normal(size=(2, 9)), generator.uniform(0.1, 2.0, (9, 2))) for _ in range(9)]
    assert len(swap_monomials(p, [as_grown(p, law) for law in laws])) <= SWAPS.max_laws


def test_a_real_power_stands_for_a_sum_of_whole_ones() -> None:
    p = prepare(growth(np.linspace(0.0, 14.0, 60), 0.001))
    x = np.concatenate([t.values for t in p.smooth.trajectories])[:, 0]
    fitted = np.polynomial.Polynomial.fit(x, 2.0 * x**1.5, 3).convert().coef
    law = PowerSum(fitted[None], np.arange(4.0)[:, None])
    with_x, whole = merge_powers(p, law)
    # Without the constant, and with it.
    assert with_x.exponents[:, 0].tolist() == [0.0, 1.5] and whole.exponents.tolist() == [[1.5]]
    np.testing.assert_allclose(whole.coefficients, [[2.0]], rtol=0.02)


def test_products_of_other_states_stay_beside_a_merged_power() -> None:
    p = prepare(simulate_system("lotka-volterra", noise=0.001))
    law = PowerSum(np.array([[1.0, -1.0, 0.5], [0.0, 1.0, 0.0]]), np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]))
    for merged in (found := merge_powers(p, law)):
        assert (merged.coefficients != 0).sum(axis=1).max() < 3
        assert (merged.exponents[:, 0] == 1.0).all() and (merged.coefficients[1] != 0).sum() == 1
    assert len(found) == 2


def test_a_law_without_such_a_sum_has_nothing_to_merge() -> None:
    p = prepare(growth(np.linspace(0.0, 14.0, 60), 0.001))
    assert merge_powers(p, PowerSum(np.array([[1.0]]), np.array([[2.0]]))) == []
