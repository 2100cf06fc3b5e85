"""Terms that would explain the data better, sought along the trajectory of a law."""

from __future__ import annotations

import numpy as np
import pytest
from problems import PREY, STARTS, series_of

from odediscovery.families import POWERS
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.prepare import prepare
from odediscovery.problem.problem import Problem
from odediscovery.stages.grow.score_test import propose_terms


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
