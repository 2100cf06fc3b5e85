"""Trajectories that no law can follow from one start are cut into pieces that it can."""

from __future__ import annotations

import math
from dataclasses import dataclass

from odediscovery.discovery.front import polish_candidate
from odediscovery.judge.criterion import rank, score, shortlist
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.problem import Problem
from odediscovery.runtime.monitor import Monitor
from odediscovery.search.conditions import SEARCH
from odediscovery.search.refinement import REFINEMENT, follows, follows_closely, follows_exactly, sigma_of
from odediscovery.search.shorten_windows import SHORTENING, is_long
from odediscovery.solve.linearised import LinearisedTrajectory
from odediscovery.stages.prune.paths import window_length
from odediscovery.stages.values import STAGES, Candidate, Polished


@dataclass(frozen=True)
class ChaosThresholds:
    """How it is decided that trajectories cannot be followed."""

    # laws that are tried on whole trajectories, the best on windows; cost: each is polished; one alone may fail by
    # chance
    laws: int = 3
    # errors of the start at the end of a trajectory from which on it is not tried to follow it [rms of the state];
    # measured: chaos was followed up to 5, limit cycles and orbits up to 60
    grown: float = 1e4


CHAOS = ChaosThresholds()


def cut_until_followed(
    whole: Problem, candidates: list[Candidate], monitor: Monitor
) -> tuple[Problem, dict[Candidate, Polished]]:
    """The series, cut into pieces if the laws that are best on windows cannot follow it whole.

    Nobody can follow chaos, or a fast oscillation in noise, from one start to its end.

    Returns:
        The series, and those laws that were polished on it to find out.
    """
    p = whole
    for extrema in (None, SEARCH.brief_extrema):
        length = window_length(whole, extrema)
        if monitor.stopping():  # no time to try
            return (p.pieces(length) if p is whole and _seems_lost(p, candidates, length) else p), {}
        lost, polished = cannot_follow(p, candidates, length)
        if not lost:
            return p, polished
        p = whole.pieces(length)
    return p, {}


def cannot_follow(p: Problem, candidates: list[Candidate], length: int) -> tuple[bool, dict[Candidate, Polished]]:
    """Whether no law follows trajectories much longer than `length` intervals to their ends.

    None of the laws that are best on windows does: each explains too little of the trajectories, or
    much less than of the windows. A single law that follows chaos would do so by luck.

    Returns:
        The answer, and the laws that were polished for it.
    """
    polished: dict[Candidate, Polished] = {}
    if not is_long(p, length):
        return False, polished
    floor = STAGES.settled if p.clean else 0.0
    listed = shortlist(candidates, p.samples, floor, around=1)
    for c in sorted(listed, key=lambda c: score(c, p.samples, floor))[: CHAOS.laws]:
        if _outgrows(p, c.law):
            continue
        found = polished[c] = polish_candidate(p, c, c.law, c.free, REFINEMENT.evaluations)
        if follows(p, found) and (follows_exactly(p, found, c) if p.clean else follows_closely(p, found, c)):
            return False, polished
    return True, polished


def _seems_lost(p: Problem, candidates: list[Candidate], length: int) -> bool:
    """Whether none of the laws that are best on windows may be expected to follow trajectories that long."""
    if not is_long(p, length):
        return False
    best = rank(candidates, p.samples)[: CHAOS.laws]
    return p.longest_window is not None or all(_outgrows(p, c.law, blown_up=True) for c in best)


def _outgrows(p: Problem, law: PowerSum, *, blown_up: bool = False) -> bool:
    """Whether the law makes far more of errors of the start than any state is large: no start is known well enough.

    Where controls act that is not asked: a trajectory is linearised without them.

    Args:
        blown_up: the answer for a law that blows up as it is; refined it may not.
    """
    error = float(p.start_errors.max(initial=0.0))
    if not error > 0.0 or law.n_states < SHORTENING.states or p.data.controls:
        return False
    along = LinearisedTrajectory.of(p, law, p.initial, sigma_of(p))
    growth = math.nan if along is None else along.error_growth()
    return blown_up if math.isnan(growth) else growth + math.log(error) > math.log(CHAOS.grown)
