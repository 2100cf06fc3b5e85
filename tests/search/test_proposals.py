"""Where laws come from: what few powers leave behind, and when nothing is proposed."""

from __future__ import annotations

import numpy as np

from odediscovery import get_system, simulate_system
from odediscovery.problem.prepare import prepare
from odediscovery.runtime.monitor import Monitor
from odediscovery.search.candidates import as_grown
from odediscovery.search.proposals import few_products, freed_powers, more_powers, richer_families, trained_and_grown
from odediscovery.search.rungs import Climb
from odediscovery.settings import settings_for


def climb_at_the_truth() -> Climb:
    """A climb on a clean logistic curve whose only candidate is the true law."""
    p = prepare(simulate_system("logistic"))
    law = get_system("logistic").equations().power_sum
    assert law is not None
    truth = law.rescaled(p.scale.state, p.scale.time)
    return Climb(p, settings_for(), Monitor(), candidates=[as_grown(p, truth)], reference=truth)


def test_no_richer_family_is_grown_beyond_doubt() -> None:
    assert list(richer_families(climb_at_the_truth())) == []


def test_the_powers_of_the_best_law_are_freed() -> None:
    at = climb_at_the_truth()
    (proposal,) = freed_powers(at)
    assert not proposal.whole
    np.testing.assert_array_equal(proposal.laws[0].exponents, at.candidates[0].law.exponents)


def test_nothing_is_grown_where_growing_is_switched_off() -> None:
    at = climb_at_the_truth()
    at.settings = settings_for(grow=False)
    (proposal,) = more_powers(at)
    assert list(proposal.laws) == []


def test_equations_are_made_of_the_same_few_products() -> None:
    p = prepare(simulate_system("lotka-volterra", noise=0.02))
    (proposal,) = few_products(Climb(p, settings_for(), Monitor()))
    assert proposal.whole and proposal.linear
    sets = [{tuple(row) for row in law.exponents.astype(int).tolist()} for law in proposal.laws]
    assert {(1, 0), (0, 1), (1, 1)} in sets
    assert all((law.coefficients != 0).all() for law in proposal.laws)


def test_nobody_trains_once_the_time_is_up_and_there_is_a_law() -> None:
    at = climb_at_the_truth()
    at.monitor = Monitor(max_seconds=1e-9)
    assert at.out_of_time
    (proposal,) = trained_and_grown(at)
    assert all(proposal.source(k) != "training" for k in range(len(proposal.laws)))
