"""Terms that would explain the data better, sought along the trajectory of a law."""

from __future__ import annotations

import numpy as np
import pytest
from problems import PREY, STARTS, series_of

from odediscovery.families import POWERS
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.prepare import prepare
from odediscovery.problem.problem import Problem
from odediscovery.stages.grow.score_test import LinearisedTrajectory, propose_terms


def problem() -> Problem:
    """Predator and prey with a little noise."""
    return prepare(series_of(PREY, STARTS, [np.linspace(0.0, 8.0, 30)] * 2, 0.02))


@pytest.mark.slow
def test_responses_are_what_small_forces_do() -> None:
    p = problem()
    law = PowerSum(np.array([[-0.02, 0.03], [0.04, -0.02]]), np.eye(2))
    sigma = np.maximum(p.noise, p.floor)
    along = LinearisedTrajectory.of(p, law, p.initial, sigma)
    assert along is not None
    size = 1e-5
    more = np.array([[0.0, 0.0], [size, 0.0]])
    pushed = PowerSum(law.coefficients + more, law.exponents)
    other = LinearisedTrajectory.of(p, pushed, p.initial, sigma)
    assert other is not None
    found = along.responses(1, [law.monomials(x)[..., :1] for x in along.x])[:, 0]
    expected = (along.residual - other.residual) / size
    assert found == pytest.approx(expected, rel=1e-2, abs=1e-3 * float(np.abs(expected).max()))


@pytest.mark.slow
def test_the_term_that_a_law_lacks_is_proposed() -> None:
    p = problem()
    truth = PREY.rescaled(p.scale.state, p.scale.time)
    # The predators eat a little less than they do.
    lacks = PowerSum(truth.coefficients * np.array([[1.0, 0.97, 1.0], [1.0, 1.0, 1.0]]), truth.exponents)
    proposed = propose_terms(p, lacks, p.initial, np.maximum(p.noise, p.floor), POWERS)
    assert any((law.exponents == [1.0, 1.0]).all(axis=1).any() for law in proposed)
    assert all(law.n_states == 2 and np.isfinite(law.coefficients).all() for law in proposed)
