"""Terms that would explain the data better, sought along the trajectory of a law."""

from __future__ import annotations

import numpy as np
import pytest
from problems import PREY, STARTS, series_of

from odediscovery.data.series import TimeSeries
from odediscovery.families import POWERS, SUMS, Terms
from odediscovery.laws.cost import all_free
from odediscovery.laws.equations import Equations
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.prepare import prepare
from odediscovery.problem.problem import Problem
from odediscovery.stages.grow.score_test import _beside, propose_terms
from odediscovery.stages.polish.polish import polish


def problem() -> Problem:
    """Predator and prey with a little noise."""
    return prepare(series_of(PREY, STARTS, [np.linspace(0.0, 8.0, 30)] * 2, 0.02))


@pytest.mark.slow
def test_the_term_that_a_law_lacks_is_proposed() -> None:
    p = problem()
    truth = PREY.rescaled(p.scale.state, p.scale.time)
    # The predators eat a little less than they do.
    lacks = PowerSum(truth.coefficients * np.array([[1.0, 0.97, 1.0], [1.0, 1.0, 1.0]]), truth.exponents)
    proposed = propose_terms(p, lacks, p.initial, np.maximum(p.noise, p.floor), POWERS)
    assert any((law.exponents == [1.0, 1.0]).all(axis=1).any() for law in proposed)
    assert all(law.n_states == 2 and np.isfinite(law.coefficients).all() for law in proposed)


def test_a_monomial_of_another_equation_takes_the_place_of_one_that_does_the_same() -> None:
    both = (PREY.exponents == 1.0).all(axis=1)[:, None]
    truth = PowerSum(PREY.coefficients, np.where(both, [1.23, 0.71], PREY.exponents))
    p = prepare(series_of(truth, STARTS, [np.linspace(0.0, 8.0, 30)] * 2, 0.02))
    a, w = (part.copy() for part in truth.rescaled(p.scale.state, p.scale.time).constants[:2])
    eaten = int(np.flatnonzero((w == [1.23, 0.71]).all(axis=1))[0])
    # What the predators gain has powers of its own.
    gained = np.where(np.arange(2) == 1, a[:, eaten], 0.0)
    a[1, eaten] = 0.0
    law = PowerSum(np.column_stack([a, gained]), np.vstack([w, [1.27, 0.66]]))
    proposed = propose_terms(p, law, p.initial, np.maximum(p.noise, p.floor), POWERS)
    assert proposed[0].coefficients[1, (proposed[0].exponents == w[eaten]).all(axis=1)].any()


def test_a_flux_through_two_states_is_paid_once_and_its_constant_may_lie_between_those_of_the_library() -> None:
    eaten = "0.8*x/(3.1 + x)"
    truth = Equations.parse(["x", "y"], {"x": f"-{eaten}", "y": f"{eaten} - 0.4*y"})
    t = np.linspace(0.0, 20.0, 100)
    clean = truth.simulate([6.0, 0.2], t)
    seen = clean + 0.01 * clean.std(axis=0) * np.random.default_rng(0).standard_normal(clean.shape)
    p = prepare(TimeSeries.from_arrays(t, seen, ["x", "y"]))
    # Real powers meet that flux nearly as well.
    powers = PowerSum(np.array([[-0.2, 0.0], [0.2, -0.4]]), np.array([[0.7, 0.0], [0.0, 1.0]]))
    law, sigma = powers.rescaled(p.scale.state, p.scale.time), np.maximum(p.noise, p.floor)
    found = polish(law, p.data, p.initial, sigma, floor=p.floor, nonnegative=p.nonnegative, free=all_free(law))
    proposed = propose_terms(p, found.law, found.initial, sigma, SUMS)
    shared = [
        (law.coefficients[:, (law.exponents[:, 2:] == -1.0).any(axis=1)] != 0).all(axis=0).any() for law in proposed
    ]
    assert any(shared)


def test_neighbours_of_a_sum_have_the_next_smaller_and_the_next_larger_constant() -> None:
    # x / (1 + b x) with three constants, y / (1 + 1 y), and x.
    rows = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 0.0]])
    inner = np.where(np.array([1, 1, 1, 1, 0])[:, None] != 0, rows, 0.0)
    constant, power = np.array([4.0, 1.0, 1.0, 2.0, 0.0]), np.array([-1.0, -1.0, -1.0, -1.0, 0.0])
    found = _beside(Terms(rows, constant, inner, power))
    assert found.tolist() == [[3, 0], [1, 3], [2, 2], [1, 0], [4, 4]]
