"""Terms sought along the trajectory of a law that follows the data, where smoothing misleads."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from odediscovery.data.series import TimeSeries
from odediscovery.families import FAMILIES
from odediscovery.judge.criterion import rank
from odediscovery.laws.cost import all_free
from odediscovery.laws.equations import Equations
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.prepare import prepare
from odediscovery.problem.problem import Problem
from odediscovery.runtime.monitor import Monitor
from odediscovery.search.refinement import follow_closely, refined, sigma_of
from odediscovery.search.rungs import Climb, climb
from odediscovery.search.strategies import CLOSING, STRATEGIES
from odediscovery.settings import settings_for
from odediscovery.stages.grow.polynomials import polynomials
from odediscovery.stages.grow.score_test import propose_terms
from odediscovery.stages.prune.eliminate import Elimination
from odediscovery.stages.prune.paths import prune_laws

TRUTH = Equations.parse(["x", "y"], {"x": "0.9*cos(y) - 0.3*x", "y": "0.8*sin(x) - 0.2*y"})
TERMS = [{"cos(y)", "x"}, {"sin(x)", "y"}]


def noisy(seed: int) -> Problem:
    t = np.linspace(0.0, 12.0, 120)
    clean = TRUTH.simulate([2.5, -1.5], t)
    noise = np.random.default_rng(seed).standard_normal(clean.shape)
    seen = clean + 0.03 * clean.std(axis=0) * noise
    return prepare(TimeSeries.from_arrays(t, seen, ["x", "y"]))


def terms(p: Problem, law: PowerSum) -> list[set[str]]:
    user = law.unscaled(p.scale.state, p.scale.time)
    found = Equations.from_power_sum(["x", "y"], user)
    return [{str(m.as_coeff_Mul()[1]) for m in side.as_ordered_terms()} for side in found.right_hand_sides]


@pytest.mark.long
@pytest.mark.parametrize("seed", [0, 1])
def test_a_law_of_powers_that_follows_noisy_data_leads_to_the_functions_behind_it(seed: int) -> None:
    p = noisy(seed)
    assert not p.clean
    first = prune_laws(p, polynomials(p), Elimination(), Monitor(), whole=True, long=True)
    assert terms(p, rank(first, p.samples)[0].law) != TERMS
    noisy_strategy = STRATEGIES[-1]
    last = dataclasses.replace(noisy_strategy, rungs=noisy_strategy.rungs[-1:])
    at = Climb(p, settings_for(), Monitor(), candidates=list(first))
    climb(last, at)
    found = at.candidates[len(first) :]
    assert terms(p, rank(found, p.samples)[0].law) == TERMS


def _powers_of_y(law: PowerSum) -> list[float]:
    return sorted(law.exponents[law.coefficients[1] != 0, 1].round(1).tolist())


@pytest.mark.slow
def test_a_short_law_that_ended_the_search_gives_way_to_powers_that_do_better() -> None:
    """In noise y - y^2 hardly differs from y^(3/2) - y^2; only a law that is proposed can be preferred."""
    truth = Equations.parse(["x", "y"], {"x": "0.8*y**2", "y": "0.5*y**1.5 - 0.8*y**2"})
    t = np.linspace(0.0, 20.0, 100)
    clean = [truth.simulate(start, t) for start in ([1.0, 4.0], [0.3, 0.02])]
    random = np.random.default_rng(0)
    seen = [x + 0.01 * x.std(axis=0) * random.standard_normal(x.shape) for x in clean]
    p = prepare(TimeSeries.from_arrays([t, t], seen, ["x", "y"]))
    rival = Equations.parse(["x", "y"], {"x": "0.8*y**2", "y": "0.26*y - 0.61*y**2"}).power_sum
    assert rival is not None
    scaled = rival.rescaled(p.scale.state, p.scale.time)
    first = prune_laws(p, [scaled], Elimination(), Monitor(), whole=True, long=True)
    at = Climb(p, settings_for(), Monitor(), candidates=list(first))
    assert CLOSING.when.holds(at)
    climb(CLOSING, at)
    assert _powers_of_y(rank(first, p.samples)[0].law) == [1.0, 2.0]
    assert _powers_of_y(rank(at.candidates, p.samples)[0].law) == [1.5, 2.0]


@pytest.mark.slow
def test_a_law_that_explains_the_data_is_followed_and_another_is_not() -> None:
    p = noisy(0)
    first = rank(prune_laws(p, polynomials(p), Elimination(), Monitor(), whole=True, long=True), p.samples)
    near = follow_closely(p, first[0])
    assert near is not None and near[1].finite
    growth = dataclasses.replace(first[0], law=PowerSum(np.eye(2), np.eye(2)), mean_square=1e-6)
    assert follow_closely(p, growth) is None


@pytest.mark.slow
def test_a_law_that_is_right_is_left_alone() -> None:
    t = np.linspace(0.0, 10.0, 80)
    truth = Equations.parse(["x"], {"x": "1.0 - 0.5*x"})
    clean = truth.simulate([4.0], t)
    seen = clean + 0.02 * np.random.default_rng(3).standard_normal(clean.shape)
    p = prepare(TimeSeries.from_arrays(t, seen, ["x"]))
    assert truth.power_sum is not None
    law = truth.power_sum.rescaled(p.scale.state, p.scale.time)
    a, w, b, v = all_free(law)
    best = refined(p, law, (a, w & False, b, v), p.initial, sigma_of(p))
    assert propose_terms(p, best.law, best.initial, sigma_of(p), FAMILIES[1]) == []
