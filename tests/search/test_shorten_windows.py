"""Windows are halved where nobody can follow a law over them, and only there."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from odediscovery import Monitor, discover, settings_for
from odediscovery.bench.chaos.attractors import choose, measured
from odediscovery.discovery.chaos import cut_until_followed
from odediscovery.discovery.task import pose_task
from odediscovery.judge.doubt import escapes
from odediscovery.problem.problem import Problem
from odediscovery.search import shorten_windows as shortening
from odediscovery.search.shorten_windows import shorten_windows
from odediscovery.stages.prune.paths import PRUNING_WINDOWS, window_length
from odediscovery.stages.values import Candidate

SPIKES, SMOOTH = "SprottTorus", "Lorenz"


def posed(name: str, sigma: float) -> Problem:
    series, _ = measured(choose([name])[0], sigma, 0)
    return pose_task(series, settings_for(seed=0), Monitor()).p


def truth(name: str, p: Problem) -> Candidate:
    law = choose([name])[0].equations.power_sum
    assert law is not None
    law = law.rescaled(p.scale.state, p.scale.time)
    return Candidate(law, p.initial, 1.0, 0, np.ones(law.n_states, dtype=bool))


@pytest.fixture(scope="module")
def spikes() -> Problem:
    return posed(SPIKES, 0.001)


def test_windows_are_halved_where_spikes_magnify_errors_of_the_start(spikes: Problem) -> None:
    shorter = shorten_windows(spikes)
    assert window_length(spikes) == PRUNING_WINDOWS.longest
    assert window_length(shorter) < PRUNING_WINDOWS.longest and shorter.data is spikes.data


def test_smooth_chaos_stays_as_it_is() -> None:
    smooth = posed(SMOOTH, 0.001)
    assert shorten_windows(smooth) is smooth


def test_only_a_law_that_meets_intervals_with_noise_shortens(spikes: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    clean = posed(SPIKES, 0.0).without_noise(None)
    for p, factor, shortens in ((spikes, 1.0, True), (spikes, 1.2, False), (clean, 1.0, False)):
        law = truth(SPIKES, p).law
        proposed = [law.with_constants(factor * law.coefficients, *law.constants[1:])]
        monkeypatch.setattr(shortening, "polynomials", lambda p, proposed=proposed: proposed)
        assert (shorten_windows(p) is not p) == shortens


def test_a_stop_leaves_pieces_that_a_law_can_follow(spikes: Problem) -> None:
    stopped = Monitor()
    stopped.interrupt()
    p, polished = cut_until_followed(shorten_windows(spikes), [truth(SPIKES, spikes)], stopped)
    assert p.heads is not None and len(p.data.trajectories) > len(p.heads) and polished == {}


def test_whether_a_law_runs_away_is_asked_over_windows() -> None:
    p = posed("SprottL", 0.01)
    law, shorter = truth("SprottL", p), shorten_windows(p)
    assert escapes(dataclasses.replace(shorter, longest_window=None), law)
    assert not escapes(shorter, law)


@pytest.mark.slow
def test_the_law_of_spikes_is_found() -> None:
    series, _ = measured(choose([SPIKES])[0], 0.001, 0)
    law, true = discover(series, settings_for(seed=0)).equations.power_sum, choose([SPIKES])[0].equations.power_sum
    assert law is not None and true is not None and law.structure() == true.structure()
