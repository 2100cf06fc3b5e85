"""One monomial for another: every simple one in every place, nothing twice."""

from __future__ import annotations

import dataclasses

import numpy as np

from odediscovery import simulate_system
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.prepare import prepare
from odediscovery.problem.problem import Problem
from odediscovery.search.candidates import as_grown
from odediscovery.search.swap_monomials import SWAPS, swap_monomials


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
