"""Rows of the front: negligible terms go, quiet data are seen, simple exponents are taken."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from problems import LOGISTIC, growth

from odediscovery import FitError, Monitor, simulate_system
from odediscovery.discovery.front import (
    FRONT,
    drop_negligible,
    judge_shortlist,
    lower_noise,
    polish_candidate,
    prefer_shared_monomials,
    simplify_exponents,
)
from odediscovery.judge.criterion import judge, judge_on
from odediscovery.judge.verdict import Verdict
from odediscovery.laws.cost import all_free
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.prepare import prepare
from odediscovery.problem.problem import Problem
from odediscovery.stages.values import Candidate, Origin


def posed(sigma: float, whole: bool = True) -> tuple[Problem, Candidate]:
    p = prepare(growth(np.linspace(0.0, 20.0, 80), sigma))
    law = LOGISTIC.rescaled(p.scale.state, p.scale.time)
    return p, Candidate(law, p.initial, 1.0, 0, np.array([whole]))


def test_terms_below_the_accuracy_of_the_solvers_are_dropped() -> None:
    x = np.linspace(0.5, 1.0, 10)[:, None]
    small = 0.1 * FRONT.negligible
    law = PowerSum(np.array([[1.0, small]]), np.array([[1.0], [2.0]]))
    kept, free = drop_negligible(law, all_free(law), x)
    assert kept.exponents.tolist() == [[1.0]] and free[0].tolist() == [[True]]
    law = PowerSum(np.array([[1.0, 100.0 * small]]), np.array([[1.0], [2.0]]))
    assert drop_negligible(law, all_free(law), x)[0] is law
    # A singular term is huge at one sample only: that says nothing of the others.
    law, near_zero = PowerSum(np.array([[1.0, 1e-12]]), np.array([[1.0], [-3.0]])), np.vstack([[[1e-9]], x])
    assert drop_negligible(law, all_free(law), near_zero)[0] is law
    # Where all others pass through nothing, a constant is not much more for that.
    law, crossing = PowerSum(np.array([[1.0, 1e-9]]), np.array([[1.0], [0.0]])), np.vstack([[[1e-7]], x])
    assert drop_negligible(law, all_free(law), crossing)[0].exponents.tolist() == [[1.0]]


def test_a_shortlist_of_laws_that_blow_up_is_no_verdict() -> None:
    p, right = posed(0.01)
    wild = dataclasses.replace(right, law=PowerSum(np.array([[1e6]]), np.array([[3.0]])))
    with pytest.raises(FitError, match="no equations could be integrated through the data"):
        judge_shortlist(p, [wild], {}, Monitor())
    verdict = judge_shortlist(p, [right], {}, Monitor())
    assert verdict.best.polished.law.coefficients[0] == pytest.approx(right.law.coefficients[0], rel=0.05)
    # What is polished already is not polished again.
    known = polish_candidate(p, right, right.law, right.free, 0)
    assert judge_shortlist(p, [right], {right: known}, Monitor()).best.polished is known


def test_noise_is_lowered_where_a_law_leaves_far_less() -> None:
    p, right = posed(0.01)
    found = polish_candidate(p, right, right.law, right.free, 25)
    loud = dataclasses.replace(p, noise=5.0 * p.noise)
    verdict = lower_noise(Verdict.of(loud, [judge(found, loud.noise, Origin(0))]))
    assert verdict.p.noise == pytest.approx(np.sqrt(found.squares / found.counts))
    assert verdict.best.criterion < judge(found, loud.noise, Origin(0)).criterion
    same = Verdict.of(p, [judge(found, p.noise, Origin(0))])
    assert lower_noise(same) is same


@pytest.mark.slow
def test_exponents_near_whole_numbers_become_whole() -> None:
    p, right = posed(0.01, whole=False)
    found = polish_candidate(p, right, right.law, right.free, 25)
    verdict = simplify_exponents(Verdict.of(p, [judge(found, p.noise, Origin(0))]), Monitor())
    assert sorted(verdict.best.polished.law.exponents.ravel()) == [1.0, 2.0]
    assert not verdict.best.polished.free[1].any()


@pytest.mark.slow
def test_an_equation_alone_gives_way_to_monomials_of_the_others() -> None:
    # S' = a R^0.5 - b S^0.477 I^0.5 meets a noisy fractional SIR model about as well; the flow from R is that of R'.
    p = prepare(simulate_system("fsir", noise=0.01, seed=6))
    a = np.array([[0.0966, -0.0716, 0.0, 0.0], [0.0, 0.0681, -0.0531, 0.0], [0.0, 0.0, 0.0502, -0.0101]])
    w = np.array([[0.0, 0.0, 0.5], [0.477, 0.5, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    law = PowerSum(a, w).rescaled(p.scale.state, p.scale.time)
    right = Candidate(law, p.initial, 1.0, 0, np.zeros(3, dtype=bool))
    alone = judge_on(p, polish_candidate(p, right, law, all_free(law), 25), Origin(0, "textbook"))
    verdict = Verdict.of(p, [alone])
    found = prefer_shared_monomials(verdict, Monitor())
    assert found.best.criterion < alone.criterion and found.rows[: len(verdict.rows)] == verdict.rows
    assert {tuple(row) for row in found.best.polished.law.exponents} == {
        (0.5, 0.5, 0.0),
        (0.0, 1.0, 0.0),
        (0.0, 0.0, 1.0),
    }
    assert found.best.origin.found_by == "regression"  # with other terms it has no name
    assert prefer_shared_monomials(found, Monitor()) is found
    assert prefer_shared_monomials(verdict, Monitor(max_seconds=0.0)) is verdict
    clean = dataclasses.replace(verdict, p=p.without_noise(None))
    assert prefer_shared_monomials(clean, Monitor()) is clean
