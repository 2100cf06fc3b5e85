"""The search where smoothing fails: oscillations and chaos sampled a few times a turn."""

from __future__ import annotations

import numpy as np
import pytest
from listening import Stages

from odediscovery.judge.criterion import rank
from odediscovery.judge.doubt import is_convincing
from odediscovery.laws.systems import simulate_system
from odediscovery.problem.prepare import prepare
from odediscovery.runtime.monitor import Monitor
from odediscovery.search.strategies import COARSE, GROWABLE, coarse_laws, library_fit, search
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


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_chaos_that_is_sampled_coarsely_is_found_in_noise(seed: int) -> None:
    prepared = prepare(simulate_system("lorenz", samples=120, until=15.0, noise=0.02, seed=seed))
    assert prepared.extrema_per_interval > COARSE and not prepared.clean
    found = coarse_laws(prepared, Monitor(), long=True)
    assert is_convincing(prepared, found)
    law = rank(found, prepared.samples)[0].law
    terms = {(tuple(int(w) for w in law.exponents[j]), int(i)) for i, j in np.argwhere(law.coefficients != 0)}
    assert terms == LORENZ


def test_slow_curves_are_smoothed() -> None:
    prepared = prepare(simulate_system("fsir", noise=0.02))
    assert prepared.extrema_per_interval < COARSE
    assert coarse_laws(prepared, Monitor(), long=True) == []


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
    assert not prepared.clean and prepared.noisiness <= GROWABLE
    stages = Stages()
    found = search(prepared, settings_for(hidden=3), stages)
    assert "grow" in stages.names and "grow functions" not in stages.names
    law = rank(found, prepared.samples)[0].law
    assert (law.coefficients != 0).sum(axis=1).tolist() == [2, 2, 2]
    assert law.features is None
