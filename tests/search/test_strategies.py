"""The strategies: chaos that is sampled coarsely, little noise, and what ends a search."""

from __future__ import annotations

import numpy as np
import pytest
from listening import Stages
from problems import series_of

from odediscovery.families import FAMILIES, POWERS
from odediscovery.judge.criterion import rank
from odediscovery.laws.power_sum import PowerSum
from odediscovery.laws.systems import simulate_system
from odediscovery.problem.prepare import prepare
from odediscovery.runtime.monitor import Monitor
from odediscovery.search.candidates import is_settled
from odediscovery.search.noiseless import is_growable
from odediscovery.search.rungs import Climb, climb
from odediscovery.search.strategies import CLOSING, STRATEGIES, search
from odediscovery.search.table import families_table, strategies_table
from odediscovery.settings import settings_for
from odediscovery.stages.prune.paths import window_length
from odediscovery.stages.values import Candidate

BRIEF = next(strategy for strategy in STRATEGIES if strategy.name == "brief")
LORENZ = {
    ((1, 0, 0), 0),
    ((0, 1, 0), 0),
    ((1, 0, 0), 1),
    ((0, 1, 0), 1),
    ((1, 0, 1), 1),
    ((1, 1, 0), 2),
    ((0, 0, 1), 2),
}


@pytest.mark.long
@pytest.mark.parametrize("seed", [0, 1])
def test_chaos_that_is_sampled_coarsely_is_found_in_noise(seed: int) -> None:
    problem = prepare(simulate_system("lorenz", samples=120, until=15.0, noise=0.02, seed=seed))
    at = Climb(problem, settings_for(), Monitor())
    assert BRIEF.when.holds(at)
    assert climb(BRIEF, at)
    law = rank(at.candidates, problem.samples)[0].law
    terms = {(tuple(int(w) for w in law.exponents[j]), int(i)) for i, j in np.argwhere(law.coefficients != 0)}
    assert terms == LORENZ


def test_slow_curves_are_smoothed() -> None:
    problem = prepare(simulate_system("fsir", noise=0.02))
    assert not BRIEF.when.holds(Climb(problem, settings_for(), Monitor()))


@pytest.mark.slow
def test_a_search_ends_where_a_law_leaves_nothing() -> None:
    stages, p = Stages(), prepare(simulate_system("logistic"))
    found = search(p, settings_for(), stages)
    assert is_settled(found) and "Adam" not in stages.names


def test_at_the_end_a_law_of_whole_powers_is_tried_with_real_ones() -> None:
    times = np.linspace(0.0, 6.0, 60)
    power = PowerSum(np.array([[-0.4]]), np.array([[0.75]]))
    p = prepare(series_of(power, np.array([[4.0], [2.5]]), [times, times], noise=0.02))
    # A constant and a linear term meet the power so well that what they leave is hardly more than noise.
    line = PowerSum(np.array([[-0.1, -0.3]]), np.array([[0.0], [1.0]]))
    at = Climb(
        p, settings_for(), Monitor(), candidates=[Candidate(line, p.initial, p.unexplained, 0, np.array([True]))]
    )
    climb(CLOSING, at)
    assert any(abs(w - 0.75) < 0.02 for c in at.candidates for w in c.law.exponents.ravel())


@pytest.mark.slow
def test_only_the_families_that_are_given_are_looked_through() -> None:
    stages = Stages()
    found = search(prepare(simulate_system("pendulum")), settings_for(members=0), stages, [POWERS])
    assert found and all(candidate.law.features is None for candidate in found)
    assert not any(name.startswith("grow ") for name in stages.names)


def test_windows_are_brief_where_turns_are_many() -> None:
    problem = prepare(simulate_system("lorenz", samples=120, until=15.0, noise=0.02))
    lengths = [window_length(problem, extrema) for extrema in (1.0, 2.0, 5.0)]
    assert lengths == sorted(lengths) and lengths[0] < lengths[-1]


@pytest.mark.long
def test_what_looks_like_little_noise_is_not_fitted_by_richer_families() -> None:
    problem = prepare(simulate_system("fsir", samples=120, noise=0.0005))
    assert not problem.clean and is_growable(problem)
    stages = Stages()
    found = search(problem, settings_for(hidden=3), stages)
    assert "grow" in stages.names and "grow functions" not in stages.names
    law = rank(found, problem.samples)[0].law
    assert (law.coefficients != 0).sum(axis=1).tolist() == [2, 2, 2]
    assert law.features is None


def test_the_tables_name_every_family_strategy_and_rung() -> None:
    assert all(f"| {family.name} | {family.says} |" in families_table() for family in FAMILIES)
    printed = strategies_table()
    for strategy in STRATEGIES:
        assert f"**{strategy.name}**" in printed
        assert all(f"| {rung.name} | {rung.when.says} | {rung.proposes.says} |" in printed for rung in strategy.rungs)
