"""Trajectories that no law follows from one start are cut; others stay whole."""

from __future__ import annotations

import numpy as np
import pytest
from problems import LOGISTIC, growth

from odediscovery import Monitor, TimeSeries
from odediscovery.discovery.chaos import cannot_follow, cut_until_followed
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.prepare import prepare
from odediscovery.problem.problem import Problem
from odediscovery.stages.prune.paths import window_length
from odediscovery.stages.values import Candidate


def candidate(p: Problem, law: PowerSum) -> Candidate:
    return Candidate(law, p.initial, 1.0, 0, np.ones(law.n_states, dtype=bool))


@pytest.fixture(scope="module")
def waves() -> Problem:
    """Two hundred oscillations in noise."""
    t, random = np.linspace(0.0, 400.0 * np.pi, 1200), np.random.default_rng(0)
    values = np.column_stack([np.sin(t), np.cos(t)]) + 0.1 * random.standard_normal((len(t), 2))
    return prepare(TimeSeries.from_arrays(t, values, ["x", "y"]))


@pytest.mark.slow
def test_a_law_that_is_out_of_phase_cannot_follow_and_short_series_are_never_cut(waves: Problem) -> None:
    wrong = candidate(waves, PowerSum(np.array([[0.0, 0.3], [-0.3, 0.0]]), np.eye(2)))
    length = window_length(waves)
    lost, polished = cannot_follow(waves, [wrong], length)
    assert lost and list(polished) == [wrong]
    assert cannot_follow(waves, [wrong], 600) == (False, {})


@pytest.mark.slow
def test_pieces_are_tried_before_shorter_ones_and_a_stop_ends_it(waves: Problem) -> None:
    wrong = candidate(waves, PowerSum(np.array([[0.0, 0.3], [-0.3, 0.0]]), np.eye(2)))
    pieces, _ = cut_until_followed(waves, [wrong], Monitor())
    longest = max(len(t.time) for t in pieces.data.trajectories)
    assert pieces.heads == (0,) and longest <= 2 * window_length(waves)
    stopped = Monitor()
    stopped.interrupt()
    assert cut_until_followed(waves, [wrong], stopped) == (waves, {})


def test_a_law_that_follows_leaves_the_series_whole_and_is_polished_once() -> None:
    p = prepare(growth(np.linspace(0.0, 40.0, 300), 0.01))
    law = candidate(p, LOGISTIC.rescaled(p.scale.state, p.scale.time))
    whole, polished = cut_until_followed(p, [law], Monitor())
    assert whole is p and list(polished) == [law]
    assert polished[law].law.coefficients[0] == pytest.approx(law.law.coefficients[0], rel=0.05)
