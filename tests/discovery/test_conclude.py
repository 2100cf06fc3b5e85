"""A verdict becomes a result: units, outcome, and what its reader should know."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from problems import LOGISTIC, growth

from odediscovery import Monitor, Settings, TimeSeries
from odediscovery.discovery.conclude import add_messages, conclude
from odediscovery.judge.criterion import judge
from odediscovery.judge.verdict import Verdict
from odediscovery.laws.cost import all_free
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.prepare import prepare
from odediscovery.result.discovery import Discovery
from odediscovery.search.refinement import refined, sigma_of
from odediscovery.stages.values import Origin

TIMES = np.linspace(0.0, 20.0, 80)


def concluded(series: TimeSeries, *laws: PowerSum, monitor: Monitor | None = None) -> Discovery:
    """The result of laws in the user's units, polished and judged."""
    p = prepare(series)
    rows = []
    for law in laws:
        law = law.rescaled(p.scale.state, p.scale.time)
        a, w, b, v = all_free(law)
        rows.append(judge(refined(p, law, (a, w & False, b, v), p.initial, sigma_of(p)), sigma_of(p), Origin(0)))
    return conclude(Verdict.of(p, rows), series, Settings(), monitor or Monitor())


def test_constants_errors_and_noise_come_back_in_the_users_units() -> None:
    series = growth(TIMES, 0.01)
    tall = dataclasses.replace(
        series, trajectories=(dataclasses.replace(series.trajectories[0], values=50.0 * series.trajectories[0].values),)
    )
    found = concluded(tall, PowerSum(np.array([[0.5, -0.01]]), np.array([[1.0], [2.0]])))
    assert found.outcome == "converged" and not found.messages
    law = found.equations.power_sum
    assert law is not None
    assert law.coefficients[0] == pytest.approx([0.5, -0.01], rel=0.05)
    assert found.initial_values == pytest.approx(np.array([[5.0]]), rel=0.1)
    assert found.noise == pytest.approx([0.5], rel=0.2)
    assert found.degrees_of_freedom == 80 - 3
    errors = found.equations.standard_errors
    assert errors is not None and (np.abs(law.coefficients[0] - [0.5, -0.01]) < 4.0 * errors.coefficients[0]).all()


def test_rivals_relations_and_idle_states_are_told() -> None:
    series = growth(TIMES, 0.01)
    x = series.trajectories[0].values[:, 0]
    values = np.column_stack([x, 3.0 - x, np.full(len(x), 7.0)])
    both = TimeSeries.from_arrays(TIMES, values, ["a", "b", "c"])
    law = PowerSum(np.array([[0.5, -0.5], [-0.5, 0.5], [0.0, 0.0]]), np.array([[1.0, 0, 0], [2.0, 0, 0]]))
    found = concluded(both, law)
    text = "\n".join(found.messages)
    assert "c never changes: its equation is zero" in text
    assert "a + b = 3 in all samples" in text
    assert found.equations.texts()["c"] == "0"


def test_a_stop_is_told_first_and_remarks_are_added_behind() -> None:
    monitor = Monitor()
    monitor.interrupt()
    found = concluded(growth(TIMES, 0.01), LOGISTIC, monitor=monitor)
    assert found.outcome == "stopped" and found.messages[0].startswith("stopped (interrupted) after")
    assert add_messages(found, "one", "two").messages[-2:] == ("one", "two")
