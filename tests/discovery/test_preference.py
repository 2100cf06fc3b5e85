"""Laws that fit about as well: what they do with what they did not see decides."""

from __future__ import annotations

import dataclasses
from functools import cache

import numpy as np
import pytest
from problems import growth

from odediscovery import Equations, Monitor, TimeSeries
from odediscovery.discovery import preference
from odediscovery.discovery.preference import (
    PREFERENCE,
    charge_fragile,
    explain_dominated,
    prefer_explained,
    prefer_undominated,
    prefer_what_predicts,
    prefer_what_stays,
)
from odediscovery.discovery.refine import drop_idle_terms
from odediscovery.discovery.simple_first import judge_textbook
from odediscovery.judge.criterion import CRITERION, judge
from odediscovery.judge.verdict import Verdict
from odediscovery.laws.cost import all_free
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.prepare import prepare
from odediscovery.result.front import FrontRow
from odediscovery.search.refinement import refined, sigma_of
from odediscovery.stages.values import Judged, Origin
from odediscovery.textbook.fit import fit_textbook

TIMES = np.linspace(0.0, 10.0, 60)
LOGISTIC = PowerSum(np.array([[0.5, -0.01]]), np.array([[1.0], [2.0]]))
# The same and two powers that growth does not need.
LONG = PowerSum(np.array([[0.5, -0.01, 1e-7, -1e-9]]), np.array([[1.0], [2.0], [3.0], [4.0]]))


@cache
def verdict(noise: float, *names: str) -> tuple[Verdict, TimeSeries]:
    """The verdict on laws of growth in noise, the first one claimed."""
    series = growth(TIMES, noise)
    p = prepare(series)
    rows: list[Judged] = []
    for name in names:
        law = {"logistic": LOGISTIC, "long": LONG}[name].rescaled(p.scale.state, p.scale.time)
        a, w, b, v = all_free(law)
        found = refined(p, law, (a, w & False, b, v), p.initial, sigma_of(p))
        rows.append(judge(found, sigma_of(p), Origin(0)))
    return Verdict(p, tuple(rows), 0), series


def test_a_longer_law_that_predicts_left_out_blocks_worse_is_passed_over() -> None:
    before, _ = verdict(0.05, "long", "logistic")
    # As if the search had found the longer law closer to all samples.
    rows = (dataclasses.replace(before.rows[0], criterion=before.rows[1].criterion - 10.0), before.rows[1])
    after = prefer_what_predicts(dataclasses.replace(before, rows=rows), Monitor())
    assert after.chosen == 1
    assert "predicted blocks of time that were left out worse" in after.reasons[0]


def test_the_right_law_stays_and_few_samples_leave_nothing_out(monkeypatch: pytest.MonkeyPatch) -> None:
    before, _ = verdict(0.05, "logistic", "long")
    assert prefer_what_predicts(before, Monitor()) is before
    long, _ = verdict(0.05, "long", "logistic")
    monkeypatch.setattr("odediscovery.discovery.preference.PREFERENCE", dataclasses.replace(PREFERENCE, samples=100.0))
    assert prefer_what_predicts(long, Monitor()) is long


def test_only_laws_that_may_be_claimed_are_asked_whether_they_run_away(monkeypatch: pytest.MonkeyPatch) -> None:
    found, _ = verdict(0.05, "logistic", "long")
    far = dataclasses.replace(found.rows[1], criterion=found.best.criterion + 10.0 * PREFERENCE.hopeful)
    asked: list[PowerSum] = []

    def runs_away(law: PowerSum, *_: object) -> bool:
        asked.append(law)
        return True

    monkeypatch.setattr(preference, "runs_away", runs_away)
    charged = charge_fragile(dataclasses.replace(found, rows=(far, found.rows[0])), Monitor())
    assert asked == [found.rows[0].polished.law]
    assert charged.rows[1].fragile and not charged.rows[0].fragile
    assert charged.rows[1].criterion > found.rows[0].criterion and charged.rows[0] is far
    monkeypatch.setattr(preference, "runs_away", lambda *_: False)
    assert charge_fragile(found, Monitor()).rows == found.rows


@pytest.mark.slow
def test_a_law_that_runs_away_is_passed_over_for_one_about_as_good() -> None:
    """Twice the fourth power of growth beside the logistic law: alike within the data, a blow-up beyond them."""
    before, _ = verdict(0.05, "long", "logistic")
    p, row = before.p, before.rows[0]
    wild = PowerSum(np.array([[0.5, -0.01, 1e-7, 1e-5]]), np.array([[1.0], [2.0], [3.0], [4.0]]))
    law = wild.rescaled(p.scale.state, p.scale.time)
    first = dataclasses.replace(row, polished=dataclasses.replace(row.polished, law=law), criterion=0.0)
    rows = (first, dataclasses.replace(before.rows[1], criterion=1.0))
    after = prefer_what_stays(dataclasses.replace(before, rows=rows), Monitor())
    assert after.chosen == 1 and "run far away from everything measured" in after.reasons[0]
    far = (first, dataclasses.replace(before.rows[1], criterion=100.0))
    assert prefer_what_stays(dataclasses.replace(before, rows=far), Monitor()).chosen == 0


def test_a_simpler_row_that_is_nearer_to_every_state_is_taken() -> None:
    before, series = verdict(0.05, "long", "logistic")
    p, (long, short) = before.p, before.rows
    worse = dataclasses.replace(long, polished=dataclasses.replace(long.polished, squares=2.0 * short.polished.squares))
    after = prefer_undominated(dataclasses.replace(before, rows=(worse, short)), series)
    assert after.chosen == 1
    assert prefer_undominated(before, series).chosen == 0 and p.samples == 60


def test_a_clearly_better_law_is_not_passed_over_for_a_simpler_one() -> None:
    before, series = verdict(0.05, "long", "logistic")
    long, short = before.rows
    worse = dataclasses.replace(long, polished=dataclasses.replace(long.polished, squares=2.0 * short.polished.squares))
    likelier = dataclasses.replace(worse, criterion=short.criterion - CRITERION.no_evidence)
    assert prefer_undominated(dataclasses.replace(before, rows=(likelier, short)), series).chosen == 0


def test_the_reason_for_a_dominated_row_names_the_state_that_it_explains_worse() -> None:
    equations = Equations.parse(["a", "b"], {"a": "-a", "b": "-b"})

    def row(complexity: int, mse: float, *each: float, selected: bool = False) -> FrontRow:
        return FrontRow(equations, complexity, mse, 0.9, 0.0, selected, state_r2=np.array(each))

    class Found:
        series = TimeSeries.from_arrays(TIMES, np.stack([TIMES, TIMES], axis=1), ["a", "b"])
        front = (row(3, 1.0, 0.99, 0.21), row(8, 2.0, 0.95, 0.87, selected=True))

    (note,) = explain_dominated(Found())  # type: ignore[arg-type]
    assert "complexity 3" in note and "less of b (R2 = 0.2100 instead of 0.8700)" in note
    Found.front = (row(3, 1.0, 0.99, 0.91), row(8, 2.0, 0.95, 0.87, selected=True))
    assert "more of their constants" in explain_dominated(Found())[0]  # type: ignore[arg-type]
    Found.front = (row(3, 3.0, 0.9, 0.9), row(8, 2.0, 0.95, 0.87, selected=True))
    assert explain_dominated(Found()) == []  # type: ignore[arg-type]


def short_table() -> TimeSeries:
    """Eight samples of logistic growth in noise of a fifth: by the criterion exponential growth is as good."""
    t, random = np.array([0.0, 8.0, 15.0, 22.0, 28.0, 36.0, 49.0, 64.0]), np.random.default_rng(33)
    x = 20.0 / (1.0 + (20.0 / 0.3 - 1.0) * np.exp(-0.1 * t))
    return TimeSeries.from_arrays(t, np.round(x * np.exp(0.2 * random.standard_normal(8)), 3))


@pytest.mark.slow
def test_in_a_short_table_noise_decides_between_laws_about_as_good() -> None:
    series = short_table()
    p = prepare(series)
    fitted = fit_textbook(p, Monitor())
    before = judge_textbook(p, fitted)
    assert before.best.polished.law.n_monomials == 1
    after = prefer_explained(before, fitted, series)
    assert sorted(after.best.polished.law.exponents.ravel().tolist()) == [1.0, 2.0]
    # What is claimed already and leaves only noise stays.
    assert prefer_explained(after, fitted, series) is after


@pytest.mark.long
def test_a_term_that_a_name_brings_need_not_pay_for_a_search() -> None:
    p = prepare(short_table())
    verdict = judge_textbook(p, fit_textbook(p, Monitor()))
    (logistic,) = (
        i for i, row in enumerate(verdict.rows) if sorted(row.polished.law.exponents.ravel().tolist()) == [1.0, 2.0]
    )
    named = dataclasses.replace(verdict, chosen=0, rows=(verdict.rows[logistic],))
    assert drop_idle_terms(named, Monitor()) is named
    searched = dataclasses.replace(named.best, origin=Origin(0, "regression"))
    shorter = drop_idle_terms(dataclasses.replace(named, rows=(searched,)), Monitor())
    assert shorter.best.polished.law.n_monomials == 1
