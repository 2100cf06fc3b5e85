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
