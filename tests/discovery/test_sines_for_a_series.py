"""First terms of a series meet exact data of one orbit: sines are tried, and what does not look like a law is named."""

from __future__ import annotations

import numpy as np
import pytest

from odediscovery import TimeSeries, settings_for, simulate_system
from odediscovery.discovery.conclude import conclude
from odediscovery.judge.criterion import judge_on
from odediscovery.judge.verdict import Verdict
from odediscovery.laws.cost import all_free
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.prepare import prepare
from odediscovery.runtime.monitor import Monitor
from odediscovery.search.convincing import begins_a_sine
from odediscovery.search.refinement import refined, sigma_of
from odediscovery.stages.values import FoundBy, Origin

# theta' = omega, omega' = -7.75 theta + 0.908 theta^3 - 0.0741 theta omega^2 - 0.0214 theta^5
SERIES = PowerSum(
    np.array([[1.0, 0.0, 0.0, 0.0, 0.0], [0.0, -7.7501, 0.90793, -0.074139, -0.021357]]),
    np.array([[0.0, 1.0], [1.0, 0.0], [3.0, 0.0], [1.0, 2.0], [5.0, 0.0]]),
)
MESSAGE = "does not look like a law"


def decay(power: float) -> TimeSeries:
    """x' = -0.3 x^w from 5, in closed form."""
    t = np.linspace(0.0, 8.0, 60)
    x = (5.0 ** (1.0 - power) + (power - 1.0) * 0.3 * t) ** (1.0 / (1.0 - power))
    return TimeSeries.from_arrays(t, x[:, None], ["x"])


def test_terms_that_begin_a_sine_are_seen_where_a_state_changes_its_sign() -> None:
    p = prepare(simulate_system("pendulum"))
    assert begins_a_sine(SERIES, p).tolist() == [False, True]
    linear = PowerSum(np.array([[0.0, 1.0], [-1.0, 0.0]]), np.eye(2))
    assert not begins_a_sine(linear, p).any()
    positive = prepare(TimeSeries.from_arrays(np.arange(9.0), np.full((9, 2), 2.0) + np.eye(9)[:, :2], ["x", "v"]))
    assert not begins_a_sine(SERIES, positive).any()


@pytest.mark.parametrize(
    ("power", "origin", "doubted"), [(1.01, "growing", 1), (1.01, "textbook", 0), (1.2, "growing", 0)]
)
def test_what_does_not_look_like_a_law_is_named_in_exact_data(power: float, origin: FoundBy, doubted: int) -> None:
    series = decay(power)
    p = prepare(series).without_noise(None)
    law = PowerSum(np.array([[-0.3]]), np.array([[power]])).rescaled(p.scale.state, p.scale.time)
    found = refined(p, law, all_free(law), p.initial, sigma_of(p))
    told = conclude(Verdict.of(p, [judge_on(p, found, Origin(0, origin))]), series, settings_for(), Monitor())
    assert [MESSAGE in message for message in told.messages].count(True) == doubted
