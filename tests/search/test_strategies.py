"""The strategies: chaos that is sampled coarsely, little noise, and what ends a search."""

from __future__ import annotations

import numpy as np
import pytest
from listening import Stages
from problems import series_of

from odediscovery.laws.power_sum import PowerSum
from odediscovery.laws.systems import simulate_system
from odediscovery.problem.prepare import prepare
from odediscovery.runtime.monitor import Monitor
from odediscovery.search.candidates import is_settled
from odediscovery.search.rungs import Climb, climb
from odediscovery.search.strategies import CLOSING, search
from odediscovery.settings import settings_for
from odediscovery.stages.values import Candidate


@pytest.mark.slow
def test_a_search_ends_where_a_law_leaves_nothing() -> None:
    stages, p = Stages(), prepare(simulate_system("logistic"))
    found = search(p, settings_for(), stages)
    assert is_settled(found) and "Adam" not in stages.names


def test_at_the_end_a_law_of_whole_powers_is_tried_with_real_ones() -> None:
    times = np.linspace(0.0, 6.0, 60)
    power = PowerSum(np.array([[-0.4]]), np.array([[0.75]]))
    p = prepare(series_of(power, np.array([[4.0], [2.5]]), [times, times], noise=0.02))
    # A constant and a linear term meet the power so well that what they leave is hardly more than noise.
    line = PowerSum(np.array([[-0.1, -0.3]]), np.array([[0.0], [1.0]]))
    at = Climb(
        p, settings_for(), Monitor(), candidates=[Candidate(line, p.initial, p.unexplained, 0, np.array([True]))]
    )
    climb(CLOSING, at)
    assert any(abs(w - 0.75) < 0.02 for c in at.candidates for w in c.law.exponents.ravel())
