"""A law is judged by the state that it explains least."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from odediscovery import Monitor, TimeSeries
from odediscovery.judge.claim import CLAIM, Claim, least_shares, shares_explained, turning_state
from odediscovery.judge.residual_tests import ResidualTests
from odediscovery.laws.cost import all_free
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.prepare import prepare
from odediscovery.search.refinement import refined, sigma_of

TIMES = np.linspace(0.0, 10.0, 60)


def two_states(noise: float = 0.01) -> TimeSeries:
    """A large state that decays, and a small one that follows a wave of its own."""
    random = np.random.default_rng(0)
    large, small = 100.0 * np.exp(-0.3 * TIMES), 2.0 + np.sin(TIMES)
    values = np.stack([large, small], axis=1)
    return TimeSeries.from_arrays(TIMES, values + noise * random.standard_normal(values.shape), ["large", "small"])


def test_a_state_that_is_not_explained_is_no_law_however_small_it_is() -> None:
    series = two_states()
    p = prepare(series)
    law = PowerSum(np.array([[-0.3], [0.0]]), np.array([[1.0, 0.0]])).rescaled(p.scale.state, p.scale.time)
    found = refined(p, law, all_free(law), p.initial, sigma_of(p))
    each = shares_explained(series, found.plain_squares * p.scale.state**2)
    assert each[0] > 0.999 and each[1] < 0.1
    least = least_shares(p, series, ResidualTests())
    assert least == pytest.approx([CLAIM.explained] * 2, rel=0.01)
    outcome, notes = Claim(0.9999, CLAIM.explained, each, least).outcome(Monitor(), series.states)
    assert outcome == "poor-fit" and notes[0].startswith("small is not explained (R2 = 0.0")


def test_a_state_of_noise_alone_has_nothing_to_explain() -> None:
    series = two_states()
    run = series.trajectories[0]
    values = run.values.copy()
    values[:, 1] = 2.0 + 0.1 * np.random.default_rng(1).standard_normal(len(TIMES))
    series = dataclasses.replace(series, trajectories=(dataclasses.replace(run, values=values),))
    least = least_shares(prepare(series), series, ResidualTests())
    assert least[0] > 0.49 and least[1] == -np.inf


def test_a_law_that_explains_too_little_is_none_also_where_the_time_was_up() -> None:
    monitor = Monitor()
    monitor.interrupt()
    outcome, notes = Claim(0.12).outcome(monitor, ["x"])
    assert outcome == "poor-fit"
    assert [note.split()[0] for note in notes] == ["stopped", "the"]
    assert Claim(0.8).outcome(monitor, ["x"])[0] == "stopped" and Claim(0.8).outcome(Monitor(), ["x"])[0] == "converged"
    assert Claim(np.nan).outcome(Monitor(), ["x"])[0] == "poor-fit"
    assert Claim(0.9, walk=True).outcome(Monitor(), ["x"])[0] == "poor-fit"


def test_the_share_of_a_state_that_never_moves_is_unknown() -> None:
    values = np.column_stack([TIMES, np.full(60, 7.0), np.where(TIMES > 5.0, np.nan, TIMES)])
    series = TimeSeries.from_arrays(TIMES, values, ["a", "b", "c"])
    each = shares_explained(series, np.array([0.0, 0.0, 0.0]))
    assert each[0] == each[2] == 1.0 and np.isnan(each[1])


def test_one_state_that_turns_back_needs_something_else() -> None:
    rises = np.exp(-0.2 * TIMES) - np.exp(-1.5 * TIMES)
    noise = 0.01 * np.random.default_rng(0).standard_normal(60)
    (note,) = turning_state(prepare(TimeSeries.from_arrays(TIMES, rises + noise, ["conc"])))
    assert note.startswith("conc both rises and falls")
    for x in (np.exp(-0.2 * TIMES) + noise, noise):
        assert turning_state(prepare(TimeSeries.from_arrays(TIMES, x, ["conc"]))) == []
    assert turning_state(prepare(two_states())) == []
