"""The search where smoothing fails: oscillations and chaos sampled a few times a turn."""

from __future__ import annotations

import numpy as np
import pytest
from listening import Stages

from odediscovery.families import POWERS
from odediscovery.judge.criterion import rank
from odediscovery.laws.systems import simulate_system
from odediscovery.problem.prepare import prepare
from odediscovery.runtime.monitor import Monitor
from odediscovery.search.candidates import is_settled
from odediscovery.search.proposals import is_growable
from odediscovery.search.rungs import Climb, climb
from odediscovery.search.strategies import STRATEGIES, search
from odediscovery.settings import settings_for
from odediscovery.stages.prune.paths import window_length

LORENZ = {
    ((1, 0, 0), 0),
    ((0, 1, 0), 0),
    ((1, 0, 0), 1),
    ((0, 1, 0), 1),
    ((1, 0, 1), 1),
    ((1, 1, 0), 2),
    ((0, 0, 1), 2),
}


BRIEF = next(strategy for strategy in STRATEGIES if strategy.name == "brief")


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_chaos_that_is_sampled_coarsely_is_found_in_noise(seed: int) -> None:
    prepared = prepare(simulate_system("lorenz", samples=120, until=15.0, noise=0.02, seed=seed))
    at = Climb(prepared, settings_for(), Monitor())
    assert BRIEF.when.holds(at)
    assert climb(BRIEF, at)
    law = rank(at.candidates, prepared.samples)[0].law
    terms = {(tuple(int(w) for w in law.exponents[j]), int(i)) for i, j in np.argwhere(law.coefficients != 0)}
    assert terms == LORENZ


def test_slow_curves_are_smoothed() -> None:
    prepared = prepare(simulate_system("fsir", noise=0.02))
    assert not BRIEF.when.holds(Climb(prepared, settings_for(), Monitor()))


def test_a_strategy_ends_where_a_law_leaves_nothing() -> None:
    stages = Stages()
    prepared = prepare(simulate_system("logistic"))
    found = search(prepared, settings_for(), stages)
    assert is_settled(found) and "Adam" not in stages.names


def test_the_search_looks_through_the_families_that_it_is_given() -> None:
    prepared = prepare(simulate_system("pendulum"))
    search(prepared, settings_for(members=0), stages, [POWERS])
    assert not any(name.startswith("grow ") for name in stages.names)


@pytest.mark.slow
def test_a_library_is_fitted_to_what_was_measured() -> None:
    prepared = prepare(simulate_system("lorenz", samples=200, until=10.0))
    law = library_fit(prepared, 2, Monitor())
    assert law is not None
    found = law.unscaled(prepared.scale.state, prepared.scale.time)
    place = found.exponents.tolist().index([1.0, 0.0, 1.0])
    assert found.coefficients[1, place] == pytest.approx(-1.0, abs=1e-3)


def test_windows_are_brief_where_turns_are_many() -> None:
    prepared = prepare(simulate_system("lorenz", samples=120, until=15.0, noise=0.02))
    lengths = [window_length(prepared, turns) for turns in (1.0, 2.0, 5.0)]
    assert lengths == sorted(lengths) and lengths[0] < lengths[-1]


@pytest.mark.slow
def test_what_looks_like_little_noise_is_not_fitted_by_richer_families() -> None:
    prepared = prepare(simulate_system("fsir", samples=120, noise=0.0005))
    assert not prepared.clean and is_growable(prepared)
    stages = Stages()
    found = search(prepared, settings_for(hidden=3), stages)
    assert "grow" in stages.names and "grow functions" not in stages.names
    law = rank(found, prepared.samples)[0].law
    assert (law.coefficients != 0).sum(axis=1).tolist() == [2, 2, 2]
    assert law.features is None
