"""Measured series beside named models: what is read, fitted and scored."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from odediscovery import Equations, TimeSeries, load_csv
from odediscovery.bench import series, series_cases
from odediscovery.bench.rows import filled
from odediscovery.bench.series import COLUMNS, LAST, has_terms_of, methods, numbers_of, verdict
from odediscovery.bench.series_cases import CASES, HELD, Case, NamedLaw, least_squares_fit
from odediscovery.bench.textbook import TextbookDraws
from odediscovery.command.cli import main

DATA = Path(__file__).parents[2] / "data"
T = np.linspace(0.0, 10.0, 41)
DECAY = NamedLaw("x' = -a*x", {"a": (0.01, 10.0)})


def _decaying(_folder):
    noise = 0.02 * np.random.default_rng(0).standard_normal(len(T))
    return TimeSeries.from_arrays(T, 5.0 * np.exp(-0.3 * T) + noise, ["x"])


@pytest.fixture
def quick(here, monkeypatch):
    """One quick case, fitted in this process; which tasks there were."""
    case = Case(_decaying, {"decay": DECAY}, {"holdout": HELD, "members": 0})
    monkeypatch.setattr(series, "CASES", {"decay": case})
    return here


def test_an_absent_species_is_zero_and_no_missing_value():
    series = CASES["gause"].load(DATA)
    alone, other, mixed = series.trajectories
    assert series.states == ("aurelia", "caudatum")
    assert (alone.values[:, 1] == 0).all() and (other.values[:, 0] == 0).all()
    assert alone.values[:3, 0].tolist() == [2.0, 14.0, 34.0]
    assert mixed.values[2].tolist() == [21.0, 11.0]
    # Nobody counted on the first day.
    assert all(t.time.tolist() == [0.0, *range(2, 26)] for t in series.trajectories)


def test_least_squares_finds_constants_and_starts_and_leaves_the_absent_absent(monkeypatch):
    monkeypatch.setattr(series_cases, "STARTS", 4)
    competition = CASES["gause"].models["Lotka-Volterra competition"]
    truth = np.array([0.8, 0.6, 500.0, 200.0, 2.0, 0.5])
    starts = np.array([[3.0, 0.0], [2.0, 4.0]])
    values = [competition.simulate(truth, start, T) for start in starts]
    values[1][7, 0] = np.nan
    series = TimeSeries.from_arrays([T, T], list(values), ["P", "Q"])
    constants, found, ended = least_squares_fit(competition, series, seed=0)
    np.testing.assert_allclose(constants, truth, rtol=1e-3)
    np.testing.assert_allclose(found, starts, rtol=1e-2)
    assert found[0, 1] == 0.0 and 1 <= ended <= 4


def test_the_command_scores_what_was_kept_back_and_goes_on(quick, tmp_path, capsys):
    out = tmp_path / "study"
    command = ["bench", "series", "--data", str(DATA), "--out", str(out), "--quiet"]
    assert main(command) == 0
    shown = capsys.readouterr().out
    assert (out / "summary.md").read_text(encoding="utf-8") in shown
    assert "| decay | ours | 1 |" in shown and "x' = -a*x with a = 0.3" in shown
    kept = [json.loads(line) for line in (out / "rows.jsonl").read_text().splitlines()]
    assert [tuple(row) for row in kept] == [COLUMNS] * 3
    assert load_csv(out / "decay.csv").n_samples == len(T)
    assert main(command) == 0 and len(quick) == 3
    rows = {row["method"]: row for row in kept}
    assert list(rows) == ["ours", "decay", LAST]
    assert [row["failed"] for row in rows.values()] == [None] * 3
    assert rows["ours"]["constants"] == rows["decay"]["constants"] == 1
    assert rows["ours"]["r2"] > 0.999 and rows["decay"]["r2"] > 0.999
    # The last value stays: its R2 and its error, by hand.
    x = _decaying(DATA).trajectories[0].values[:, 0]
    before, after = x[:33], x[33:]
    squares = np.sum((after - before[-1]) ** 2)
    expected = 1.0 - squares / np.sum((after - after.mean()) ** 2)
    assert rows[LAST]["r2_heldout"] == pytest.approx(expected)
    assert rows[LAST]["each"] == {"x": pytest.approx(expected)}
    assert rows[LAST]["off"] == pytest.approx(np.sqrt(squares / 8 / before.var()))
    assert rows["ours"]["r2_heldout"] > expected
    told = [note for note in rows["ours"]["notes"] if "held out" in note]
    assert f"R2 = {rows['ours']['r2_heldout']:.3f}" in told[0]


@pytest.mark.parametrize(
    ("texts", "count"),
    [
        ({"S": "-0.3*S*I", "I": "0.3*S*I - 0.1*I", "R": "0.1*I"}, 2),
        ({"S": "-0.3*S**0.5*I", "I": "0.3*S**0.5*I - 0.1*I", "R": "0.1*I"}, 3),
        ({"x": "0.5*x - 0.1*x**2"}, 2),
        ({"P": "P - P*Q", "Q": "2*P*Q - Q"}, 4),
        ({"x": "sin(x)/(1 + x)"}, None),
    ],
)
def test_constants_that_follow_from_others_are_not_counted(texts, count):
    assert numbers_of(Equations.parse([*texts], texts)) == count


def test_mistakes_end_in_one_line(tmp_path, capsys):
    out = ["--out", str(tmp_path / "study")]
    assert main(["bench", "series", "--ids", "gauze", *out]) == 2
    assert "gause" in capsys.readouterr().err
    assert main(["bench", "series", "--data", str(tmp_path), *out]) == 2
    assert "gause_paramecium_1934.csv" in capsys.readouterr().err
    assert not (tmp_path / "study").exists()


def scored(each, misfit, constants, outcome="converged"):
    """What the rule asks of a law on twenty samples."""
    about = {"fitted_each": each, "misfit": misfit if np.isfinite(misfit) else None, "samples": 20}
    return about | {"constants": constants, "outcome": outcome, "failed": None}


EXPERT = scored({"x": 0.99}, -100.0, 2, "12 of 12 starts")


@pytest.mark.parametrize(
    ("ours", "same", "word"),
    [
        (scored({"x": 0.99}, -100.0, 2), True, "right"),
        (scored({"x": 0.99}, -100.0, 3), False, "as good"),
        (scored({"x": 0.999}, -140.0, 9), False, "too complex"),
        (scored({"x": 0.90}, -60.0, 2), False, "wrong but confident"),
        (scored({"x": 0.90}, -60.0, 2, "stopped"), False, "wrong, stopped"),
        (scored({"x": 0.90}, -60.0, 2, "poor-fit"), False, "refused, the experts' law fits"),
        (scored({"x": None}, np.inf, 2), False, "wrong but confident"),
        ({"failed": "FitError"}, False, "failed"),
    ],
)
def test_the_rule_gives_each_of_its_verdicts(ours, same, word):
    assert verdict(ours, EXPERT, same) == word


def test_a_refusal_is_honest_where_the_law_of_experts_is_poor_too():
    poor = scored({"x": 0.99, "y": 0.6}, -100.0, 2)
    assert verdict(scored({"x": 0.9}, -60.0, 2, "poor-fit"), poor, False) == "honest refusal"


@pytest.mark.parametrize(
    ("texts", "same"),
    [
        ({"P": "P - 0.2*P*Q", "Q": "0.1*P*Q - Q"}, True),
        ({"P": "P - 0.2*P*Q", "Q": "0.1*P*Q + Q"}, False),
        ({"P": "P - 0.2*P*Q", "Q": "0.1*P**1.2*Q - Q"}, False),
        ({"P": "P - 0.2*P*Q - P**2", "Q": "0.1*P*Q - Q"}, False),
        ({"P": "sin(P)", "Q": "Q"}, False),
    ],
)
def test_terms_are_the_same_whatever_their_constants(texts, same):
    written = NamedLaw("P' = a*P - b*P*Q, Q' = c*P*Q - d*Q", dict.fromkeys("abcd", (0.1, 1.0)))
    assert has_terms_of(written, Equations.parse(["P", "Q"], texts)) is same


def test_there_are_25_series_each_with_the_law_of_experts():
    assert len(CASES) >= 25
    for id, case in CASES.items():
        series = case.load(DATA)
        hidden = next(iter(case.models.values())).hidden
        for model in case.models.values():
            assert [*model.sides] == [*series.states, *hidden], id
            assert np.isfinite(model.rates(*np.ones(len(model.ranges)), *np.ones(len(model.sides)))).all()
        assert "ours" in methods(case)


def test_hidden_states_and_signed_ones_have_fitted_starts():
    falls = CASES["fall-golf-ball"].models["gravity and drag"]
    start = np.array([40.0, -1.0])
    series = TimeSeries.from_arrays(T / 5, falls.simulate(np.array([0.01, 9.8]), start, T / 5), ["height", "velocity"])
    constants, found, _ = least_squares_fit(falls, series, seed=0)
    np.testing.assert_allclose(constants, [0.01, 9.8], rtol=1e-3)
    np.testing.assert_allclose(found[0], start, rtol=1e-3)
    dose = CASES["theoph-1"].models["absorption and elimination"]
    curve = dose.simulate(np.array([1.5, 0.1]), np.array([0.5, 10.0]), T)
    constants, found, _ = least_squares_fit(dose, TimeSeries.from_arrays(T, curve[:, :1], ["conc"]), seed=0)
    np.testing.assert_allclose([*constants, found[0, 1]], [1.5, 0.1, 10.0], rtol=1e-2)


# Made-up series

DRAWS = TextbookDraws()


def textbook_row(draw):
    study = replace(DRAWS, seed=draw).study(1)
    return filled(study.tasks[0], study.columns)


@pytest.mark.long
def test_a_draw_has_a_verdict_and_its_constants_are_counted():
    row = textbook_row(2)
    assert (row["law"], row["fault"], row["failed"]) == ("logistic", "counts", None)
    assert row["verdict"] == "right" and row["within"][1] == 2
    epidemic = textbook_row(8 + 12)  # its constants are shared by equations, so they are named
    assert epidemic["verdict"] == "right" and epidemic["within"][0] > 0
    table = DRAWS.markdown([row, epidemic])
    assert "| logistic | 1 | 1 |" in table and "| all | 2 | 2 |" in table
