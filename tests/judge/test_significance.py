"""Terms that the data do not tell from nothing are taken out, or no law is claimed."""

from __future__ import annotations

import dataclasses

import numpy as np
from problems import growth

from odediscovery import Monitor, TimeSeries
from odediscovery.discovery.refine import drop_idle_terms
from odediscovery.judge.criterion import judge
from odediscovery.judge.significance import idle_terms, is_needed
from odediscovery.judge.verdict import Verdict
from odediscovery.laws.cost import all_free
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.prepare import prepare
from odediscovery.search.refinement import refined, sigma_of
from odediscovery.stages.values import Origin

TIMES = np.linspace(0.0, 20.0, 80)


def verdict_on(law: PowerSum, noise: float, *, powers: bool = False) -> tuple[Verdict, TimeSeries]:
    series = growth(TIMES, noise)
    p = prepare(series)
    law = law.rescaled(p.scale.state, p.scale.time)
    a, w, b, v = all_free(law)
    found = refined(p, law, (a, w & powers, b, v), p.initial, sigma_of(p))
    return Verdict.of(p, [judge(found, sigma_of(p), Origin(0))]), series


def test_a_term_beside_the_right_ones_is_taken_out() -> None:
    wide = PowerSum(np.array([[0.5, -0.01, 1e-3]]), np.array([[1.0], [2.0], [0.0]]))
    before, _ = verdict_on(wide, 0.05)
    assert (0, 2) in idle_terms(before.best.polished, 1.0)
    after = drop_idle_terms(before, Monitor())
    assert after.best.polished.law.n_monomials == 2
    assert idle_terms(after.best.polished, 1.0) == []


def test_the_terms_of_the_right_law_all_act_until_errors_are_wide() -> None:
    right, _ = verdict_on(PowerSum(np.array([[0.5, -0.01]]), np.array([[1.0], [2.0]])), 0.05)
    assert idle_terms(right.best.polished, 1.0) == []
    assert drop_idle_terms(right, Monitor()) is right
    assert len(idle_terms(right.best.polished, 1e4)) == 2


def test_a_constant_is_needed_where_a_fit_without_it_is_clearly_worse() -> None:
    right = verdict_on(PowerSum(np.array([[0.5, -0.01]]), np.array([[1.0], [2.0]])), 0.05)[0].best.polished
    floor, n = np.zeros(1), right.counts
    by_chance = dataclasses.replace(right, squares=right.squares * (1.0 + 3.0 / n))
    clearly = dataclasses.replace(right, squares=right.squares * (1.0 + 12.0 / n))
    assert not is_needed(right, by_chance, floor, 1.0) and is_needed(right, clearly, floor, 1.0)
    # Residuals with a memory say less.
    assert not is_needed(right, clearly, floor, 2.0)
