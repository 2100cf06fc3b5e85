"""From series to equations, through every stage, on systems small enough to be quick."""

from __future__ import annotations

import time

import numpy as np
import pytest

from odediscovery import Monitor, Settings, TimeSeries, discover, get_system, load_csv, settings_for, simulate_system
from odediscovery.bench.suites.scoring import same_terms
from odediscovery.discovery.chaos import cannot_follow
from odediscovery.discovery.front import polish_shortlist
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.pose import pose
from odediscovery.problem.prepare import prepare
from odediscovery.stages.prune.paths import window_length
from odediscovery.stages.values import Candidate

QUICK = Settings(members=3, hidden=4, adam_steps=200, lbfgs_steps=10)


def law_of(system: str) -> PowerSum:
    law = get_system(system).equations().power_sum
    assert law is not None
    return law


@pytest.mark.slow
@pytest.mark.parametrize(
    "system",
    [
        "fsir",
        "logistic",
        pytest.param("theta-logistic", marks=pytest.mark.long),
        pytest.param("von-bertalanffy", marks=pytest.mark.long),
        pytest.param("torricelli", marks=pytest.mark.long),
        pytest.param("fractional-drag", marks=pytest.mark.long),
        "van-der-pol",
        pytest.param("damped-oscillator", marks=pytest.mark.long),
    ],
)
def test_clean_systems_are_found_exactly(system: str) -> None:
    found = discover(simulate_system(system), QUICK)
    assert found.outcome == "converged"
    assert found.r2 > 1 - 1e-8
    assert found.equations.power_sum is not None
    assert same_terms(found.equations.power_sum, law_of(system), 0.005)


@pytest.mark.slow
def test_the_front_is_ordered_and_marks_one_row() -> None:
    front = discover(simulate_system("logistic"), QUICK).front
    sizes = [row.complexity for row in front]
    assert sizes == sorted(sizes)
    assert sum(row.selected for row in front) == 1


@pytest.mark.long
@pytest.mark.shapes
def test_random_members_alone_find_the_logistic_law_in_noise() -> None:
    series = simulate_system("logistic", noise=0.01, seed=3)
    found = discover(series, Settings(members=4, hidden=4, grow=False))
    assert found.equations.power_sum is not None
    assert same_terms(found.equations.power_sum, law_of("logistic"), 0.1)
    assert found.noise == pytest.approx(0.01 * series.trajectories[0].values.std(axis=0), rel=0.4)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_equations() -> None:
    series = simulate_system("logistic", noise=0.02, seed=1)
    first, second = (discover(series, QUICK).equations.texts() for _ in range(2))
    assert first == second


@pytest.mark.slow
def test_real_yeast_grows_logistically() -> None:
    found = discover(load_csv("data/yeast_carlson_1913.csv"))
    assert found.r2 > 0.999
    assert found.equations.power_sum is not None
    truth = PowerSum(np.array([[0.5, -0.001]]), np.array([[1.0], [2.0]]))
    assert same_terms(found.equations.power_sum, truth, 0.01)


@pytest.mark.slow
def test_a_state_that_never_changes_gets_a_zero_right_hand_side() -> None:
    series = simulate_system("logistic")
    (run,) = series.trajectories
    values = np.column_stack([run.values, np.full(len(run.time), 7.0)])
    found = discover(TimeSeries.from_arrays(run.time, values, ["N", "k"]), QUICK)
    assert found.equations.texts()["k"] == "0"
    assert any("k never changes" in message for message in found.messages)
    assert found.r2 > 1 - 1e-8


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
def test_awkward_column_names_are_printed_as_named() -> None:
    run = simulate_system("sir").trajectories[0]
    names = ["lambda", "x y", "β"]
    found = discover(TimeSeries.from_arrays(run.time, run.values, names), QUICK)
    for name in names:
        assert f"{name}' = " in found.equations_text()


@pytest.mark.slow
def test_a_stop_gives_the_best_so_far() -> None:
    monitor = Monitor()
    monitor.interrupt()
    found = discover(simulate_system("logistic"), QUICK, monitor)
    assert found.outcome == "stopped"
    assert any("stopped (interrupted)" in message for message in found.messages)
    assert found.front


def test_what_blows_up_gives_way_to_what_does_not() -> None:
    t = np.linspace(0.0, 4.0, 60)
    p = prepare(TimeSeries.from_arrays(t, 2.0 * np.exp(-t)[:, None], ["x"]))
    laws = [PowerSum(np.array([[a]]), np.array([[w]])) for a, w in ((9.0, 2.0), (-1.0, 1.0))]
    best, other = (
        Candidate(law, p.initial, square, 0, np.array([True])) for law, square in zip(laws, (0.1, 5.0), strict=True)
    )
    monitor = Monitor()
    monitor.interrupt()
    assert polish_shortlist(p, [best], {}, Monitor()) == []
    # A stop ends with a law: each state alone.
    (alone,) = polish_shortlist(p, [best], {}, monitor)
    assert set(alone.polished.law.exponents.ravel()) <= {0.0, 1.0}
    (row,) = polish_shortlist(p, [best, other], {}, monitor)
    assert row.polished.law.exponents.tolist() == [[1.0]]


def test_a_stop_ends_with_the_law_that_is_worth_its_constants() -> None:
    """Not with the one of many constants that leaves least of windows."""
    t = np.linspace(0.0, 4.0, 60)
    p = prepare(TimeSeries.from_arrays(t, 2.0 * np.exp(-t)[:, None], ["x"]))
    right = PowerSum(np.array([[-4.0]]), np.array([[1.0]]))
    long = PowerSum(np.array([[-4.0, 1e-3, 1e-3, 1e-3]]), np.array([[1.0], [2.0], [3.0], [4.0]]))
    candidates = [Candidate(law, p.initial, s, 0, np.array([True])) for law, s in ((long, 0.99), (right, 1.0))]
    late = Monitor(max_seconds=1e-3)
    time.sleep(0.01)
    (row,) = polish_shortlist(p, candidates, {}, late)
    assert row.polished.law.complexity == right.complexity


@pytest.mark.slow
def test_white_noise_is_no_law() -> None:
    rng = np.random.default_rng(0)
    series = TimeSeries.from_arrays(np.arange(40.0), 5 + rng.standard_normal((40, 1)), ["x"])
    found = discover(series, QUICK)
    assert found.outcome == "poor-fit"
    assert any("no law" in message for message in found.messages)


@pytest.mark.slow
def test_chaos_in_noise_is_lost_and_an_oscillation_is_not() -> None:
    """The true law leaves noise only on windows; from one start nobody follows it to the end."""
    told = {}
    for system, noise in (("lorenz", 0.05), ("lotka-volterra", 0.05)):
        series = simulate_system(system, noise=noise, seed=0)
        prepared = prepare(series)
        law = get_system(system).equations().power_sum
        assert law is not None
        scaled = law.rescaled(prepared.scale.state, prepared.scale.time)
        whole = np.ones(law.n_states, dtype=bool)
        one = [Candidate(scaled, prepared.initial, 1.0, 0, whole)]
        told[system], _ = cannot_follow(prepared, one, window_length(prepared))
    assert told == {"lorenz": True, "lotka-volterra": False}


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
