"""From series to equations, through every stage, on systems small enough to be quick."""

from __future__ import annotations

import numpy as np
import pytest

from odediscovery import Monitor, Settings, TimeSeries, discover, get_system, settings_for, simulate_system
from odediscovery.bench.suites.scoring import same_terms
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.pose import pose

QUICK = Settings(members=3, hidden=4, adam_steps=200, lbfgs_steps=10)


def law_of(system: str) -> PowerSum:
    law = get_system(system).equations().power_sum
    assert law is not None
    return law


@pytest.mark.slow
@pytest.mark.parametrize("system", ["fsir"])
def test_clean_systems_are_found_exactly(system: str) -> None:
    found = discover(simulate_system(system), QUICK)
    assert found.outcome == "converged"
    assert found.r2 > 1 - 1e-8
    assert found.equations.power_sum is not None
    assert same_terms(found.equations.power_sum, law_of(system), 0.005)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_equations() -> None:
    series = simulate_system("logistic", noise=0.02, seed=1)
    first, second = (discover(series, QUICK).equations.texts() for _ in range(2))
    assert first == second


@pytest.mark.slow
@pytest.mark.shapes
def test_two_runs_of_unequal_length_with_gaps_are_fitted_jointly() -> None:
    long = simulate_system("logistic", {"N": 2.0}).trajectories[0]
    short = simulate_system("logistic", {"N": 140.0}, samples=25, until=10).trajectories[0]
    holed = long.values.copy()
    holed[5:7] = np.nan
    series = TimeSeries.from_arrays([long.time, short.time], [holed, short.values], ["N"])
    found = discover(series, QUICK)
    assert found.initial_values.shape == (2, 1)
    assert found.initial_values[1, 0] == pytest.approx(140.0, rel=1e-3)
    assert found.equations.power_sum is not None
    assert same_terms(found.equations.power_sum, law_of("logistic"), 0.02)


@pytest.mark.slow
def test_a_stop_gives_the_best_so_far() -> None:
    monitor = Monitor()
    monitor.interrupt()
    found = discover(simulate_system("logistic"), QUICK, monitor)
    assert found.outcome == "stopped"
    assert any("stopped (interrupted)" in message for message in found.messages)
    assert found.front


def test_a_state_that_hardly_changes_is_in_no_equation_unless_known_terms_need_it() -> None:
    t, random = np.arange(60.0), np.random.default_rng(0)
    ill = 300.0 / np.cosh(0.1 * (t - 30.0)) ** 2 + random.normal(0.0, 3.0, 60)
    removed = 1000.0 / (1.0 + np.exp(5.0 - 0.2 * t)) + random.normal(0.0, 3.0, 60)
    values = np.column_stack([1e6 - ill - removed, ill, removed])
    series = TimeSeries.from_arrays(t, values, ["S", "I", "R"])
    _, p, known = pose(series, settings_for(conserve=["S + I + R"]))
    assert p.knowledge is not None and p.knowledge.forbidden[:, 0].all()
    assert not p.knowledge.forbidden[:, 1:].any()
    assert "S hardly changes and follows from the other states" in p.messages[0]
    assert known.sentences() == ["S + I + R is kept exactly"]  # what the user said, no more
    _, p, _ = pose(series, settings_for(known=["S' = -1e-6*S*I + ?"]))
    assert p.knowledge is not None and not p.knowledge.forbidden.any() and not p.messages
    _, p, _ = pose(series, settings_for("paper"))
    assert p.knowledge is None and not p.messages
