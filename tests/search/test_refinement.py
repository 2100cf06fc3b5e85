"""Laws that leave nothing of windows have to leave nothing of whole trajectories."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from problems import LOGISTIC, growth

from odediscovery import Equations, Monitor, Settings, TimeSeries, discover
from odediscovery.discovery.front import polish_candidate
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.prepare import prepare
from odediscovery.problem.problem import Problem
from odediscovery.search.refinement import follows_exactly
from odediscovery.stages.values import Candidate


def candidate(p: Problem, law: PowerSum) -> Candidate:
    return Candidate(law, p.initial, 1.0, 0, np.ones(law.n_states, dtype=bool))


def test_a_law_that_leaves_nothing_of_windows_has_to_leave_nothing_of_trajectories() -> None:
    p = prepare(growth(np.linspace(0.0, 40.0, 300), 0.0))
    law = LOGISTIC.rescaled(p.scale.state, p.scale.time)
    nothing = dataclasses.replace(candidate(p, law), mean_square=0.0)
    near = polish_candidate(p, nothing, law, nothing.free, 1)
    assert follows_exactly(p, near, nothing)
    off = dataclasses.replace(near, plain_squares=near.plain_squares + 1e-6 * 300)
    assert not follows_exactly(p, off, nothing)
    # Of a law that leaves something everywhere no more is asked.
    assert follows_exactly(p, off, candidate(p, law))


@pytest.mark.slow
def test_the_first_terms_of_a_sine_are_not_believed() -> None:
    law = Equations.parse(["x", "y"], {"x": "0.5*y", "y": "-0.14*y - 0.9*sin(x)"})
    time, starts = np.linspace(0.0, 24.0, 80), np.array([[0.9, 0.3], [-0.4, 0.7]])
    values = [law.simulate(start, time) for start in starts]
    series = TimeSeries.from_arrays([time, time], values, ["x", "y"])
    found = discover(series, Settings(seed=0, thorough=True), Monitor())
    assert "sin(x)" in str(found.equations.right_hand_sides[1])
