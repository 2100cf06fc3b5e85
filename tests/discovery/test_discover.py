"""From series to equations, through every stage, on systems and tables small enough to be quick."""

import numpy as np
import pandas as pd
import pytest

from odediscovery import InputError, Monitor, Settings, TimeSeries, discover, get_system, settings_for, simulate_system
from odediscovery.bench.scores import same_terms
from odediscovery.discovery.conclude import conclude
from odediscovery.discovery.task import seconds_for
from odediscovery.ivp.solvers import solve_until_failure
from odediscovery.judge.criterion import Verdict, judge_on
from odediscovery.laws.equations import Equations
from odediscovery.laws.power_sum import all_free
from odediscovery.laws.records import Origin
from odediscovery.problem.problem import pose, prepare
from odediscovery.search.refinement import refined

QUICK = Settings(members=3, hidden=4, adam_steps=200, lbfgs_steps=10)


def law_of(system):
    return get_system(system).equations().power_sum


@pytest.mark.shapes
def test_two_runs_of_unequal_length_with_gaps_are_fitted_jointly():
    long = simulate_system("logistic", {"N": 2.0}).trajectories[0]
    short = simulate_system("logistic", {"N": 140.0}, samples=25, until=10).trajectories[0]
    holed = long.values.copy()
    holed[5:7] = np.nan
    series = TimeSeries.from_arrays([long.time, short.time], [holed, short.values], ["N"])
    found = discover(series, QUICK)
    assert found.initial_values.shape == (2, 1)
    assert found.initial_values[1, 0] == pytest.approx(140.0, rel=1e-3)
    assert same_terms(found.equations.power_sum, law_of("logistic"), 0.02)


def test_a_stop_gives_the_best_so_far():
    monitor = Monitor()
    monitor.interrupt()
    found = discover(simulate_system("logistic"), QUICK, monitor)
    assert found.outcome == "stopped"
    assert any("stopped (interrupted)" in message for message in found.messages)
    assert found.front


def test_a_state_that_hardly_changes_is_in_no_equation_unless_known_terms_need_it():
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


BRIEF = settings_for(members=0, max_seconds=3.0)


@pytest.mark.parametrize("value", [0.0, -2.0])
def test_states_that_never_change_have_no_right_hand_side(value):
    found = discover(TimeSeries.from_arrays(range(4), np.full((4, 2), value), ["x", "y"]), BRIEF)
    assert found.equations_text() == "x' = 0\ny' = 0"
    np.testing.assert_allclose(found.initial_values, value, atol=0.1)
    assert not any("far outside the data" in message for message in found.messages)


def test_an_absent_species_beside_a_decay_leaves_its_law_alone():
    t = np.arange(12.0)
    values = np.column_stack([5.0 * np.exp(-0.3 * t), np.zeros(12)])
    found = discover(TimeSeries.from_arrays(t, values, ["A", "B"]), BRIEF)
    assert found.equations.pretty(3).splitlines()[1] == "B' = 0"
    law = found.equations.power_sum
    assert law is not None and np.count_nonzero(law.coefficients) == 1
    assert law.coefficients[0].sum() == pytest.approx(-0.3, rel=1e-4)


@pytest.mark.long
def test_groups_of_two_samples_end_in_a_law():
    starts = np.linspace(1.0, 8.0, 20)
    times, values = [np.array([0.0, 1.0])] * 20, [np.array([[x], [x * np.exp(-0.3)]]) for x in starts]
    found = discover(TimeSeries.from_arrays(times, values, ["x"]), settings_for(members=2, max_seconds=5.0))
    assert found.outcome in ("converged", "stopped", "poor-fit")


def test_a_solution_over_times_whose_squares_are_no_numbers():
    for unit in (1e-250, 1e250):
        times = np.linspace(0.0, 2.0, 5) * unit
        states = solve_until_failure(lambda t, x: -x / unit, np.array([1.0]), times, 1e-9, 1e-12)  # noqa: B023
        np.testing.assert_allclose(states[:, 0], np.exp(-np.linspace(0.0, 2.0, 5)), rtol=1e-6)


def runs_of_predators(noise, *blank):
    """Three trajectories of Lotka and Volterra's equations, some of them without any value of a state."""
    law, t = Equations.parse(["x", "y"], {"x": "x - 0.5*x*y", "y": "0.25*x*y - 0.75*y"}), np.linspace(0.0, 12.0, 40)
    random = np.random.default_rng(0)
    runs = [law.simulate(np.array(start), t) for start in ([2.0, 1.0], [1.0, 2.0], [1.5, 0.5])]
    runs = [x * (1.0 + noise * random.standard_normal(x.shape)) for x in runs]
    for run, state in blank:
        runs[run][:, state] = np.nan
    return TimeSeries.from_arrays([t] * 3, runs, ["x", "y"])


@pytest.mark.long
def test_a_trajectory_without_a_state_is_fitted_with_the_law_of_the_others():
    found = discover(runs_of_predators(0.02, (1, 1)), settings_for(members=0, library=["powers"]))
    law = found.equations.power_sum
    assert law is not None and sorted(law.exponents.tolist()) == [[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]
    assert any(text.startswith("Trajectory '2' has no value of y: ") for text in found.messages)
    # Its start of that state is found from the other one.
    np.testing.assert_allclose(found.initial_values, [[2.0, 1.0], [1.0, 2.0], [1.5, 0.5]], rtol=0.06)


def left_by(found, row):
    """Mean square that a row of the front leaves of all samples, from the starts that it says."""
    equations, series = found.front[row].equations, found.series
    runs = zip(found.front[row].initial_values, series.trajectories, strict=True)
    return float(np.mean(np.concatenate([equations.simulate(x0, run.time) - run.values for x0, run in runs]) ** 2))


@pytest.mark.long
def test_all_rows_of_the_front_are_judged_on_all_samples():
    found = discover(simulate_system("logistic", samples=3000, noise=0.02), settings_for(max_seconds=60))
    assert any("laws were sought in 300 of the 3000 samples" in message for message in found.messages)
    scores = np.array([row.criterion for row in found.front])
    mse = np.array([row.mse for row in found.front])
    assert len(mse) > 1
    assert [left_by(found, i) for i in range(len(mse))] == pytest.approx(mse.tolist(), rel=1e-3)
    # The criterion is n ln(mse + variance of the noise) and the price of a few constants.
    behind = 3000 * np.log((mse + mse.min()) / (2.0 * mse.min()))
    np.testing.assert_allclose(scores - scores.min(), behind, rtol=0.02, atol=80.0)


@pytest.mark.parametrize("given", [pd.DataFrame({"t": [0, 1], "x": [1, 2]}), "table.csv"])
def test_what_is_no_series_is_refused_with_the_way_to_one(given):
    with pytest.raises(InputError, match=r"expects a TimeSeries, got a (DataFrame|str); load_csv reads a file"):
        discover(given)


def test_a_state_that_jumps_between_samples_is_named():
    """A relaxation oscillator: x jumps within 0.1, and is sampled every 1.6; a linear law does not follow it."""
    jumps = Equations.parse(["x", "y"], {"x": "20*(x - x**3/3 - y)", "y": "x/20"})
    law = Equations.parse(["x", "y"], {"x": "-0.1*x - y", "y": "0.05*x"}).power_sum
    notes = []
    for times in (np.linspace(0.0, 80.0, 50), np.linspace(0.0, 8.0, 100)):
        series = TimeSeries.from_arrays(times, jumps.simulate([2.0, 0.0], times), ["x", "y"])
        p = prepare(series)
        scaled = law.rescaled(p.scale.state, p.scale.time)
        row = judge_on(p, refined(p, scaled, all_free(scaled), p.initial, p.sigma), Origin(0))
        notes.append(" ".join(conclude(Verdict.of(p, [row]), series, Settings(), Monitor()).messages))
    assert "x moves by 80% of its range between two neighbouring samples" in notes[0]
    assert "neighbouring samples" not in notes[1]


@pytest.mark.long
def test_two_sums_that_stay_leave_the_shortest_law():
    """A + B -> C: with A - B and B + C constant, six terms in B alone would do as well."""
    law = Equations.parse(["A", "B", "C"], dict.fromkeys("AB", "-0.9*A*B") | {"C": "0.9*A*B"})
    times = np.linspace(0.0, 4.0, 41)
    # Five digits, as in a published table.
    values = np.array([[float(f"{x:.4e}") for x in row] for row in law.simulate([1.2, 0.8, 0.0], times)])
    found = discover(TimeSeries.from_arrays(times, values, ["A", "B", "C"]), settings_for(members=0))
    assert [len(side.args) for side in found.equations.right_hand_sides] == [3, 3, 3]
    assert {str(s) for s in found.equations.right_hand_sides[2].free_symbols} in ({"A", "B"},)
    assert sum("in all samples: equations that differ by this relation" in m for m in found.messages) == 2


def test_a_limit_of_the_clock_leaves_that_of_the_processor(leisure):
    usual = 30.0 * leisure
    for settings, most in ((Settings(), usual), (Settings(max_seconds=600.0), usual), (Settings(thorough=True), None)):
        assert seconds_for(settings) == most
