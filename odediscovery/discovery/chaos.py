"""Trajectories that no law can follow from one start are cut into pieces that it can."""

from __future__ import annotations

from odediscovery.discovery.front import polish_candidate
from odediscovery.judge.criterion import score, shortlist
from odediscovery.problem.prepare import Prepared
from odediscovery.runtime.monitor import Monitor
from odediscovery.search.refinement import MOST, follows, follows_closely
from odediscovery.search.strategies import BRIEF
from odediscovery.stages.prune.paths import TURNS, window_length
from odediscovery.stages.values import SETTLED, Candidate, Polished

# Laws that are looked at for that.
LOOKED = 3


def cut_until_followed(
    whole: Prepared, candidates: list[Candidate], monitor: Monitor
) -> tuple[Prepared, dict[Candidate, Polished]]:
    """The series, cut into pieces if the laws that are best on windows cannot follow it whole.

    Nobody can follow chaos, or a fast oscillation in noise, from one start to its end.

    Returns:
        The series, and those laws that were polished on it to find out.
    """
    p = whole
    for turns in (TURNS, BRIEF):
        length = window_length(whole, turns)
        if monitor.stopping():
            return p, {}
        lost, polished = cannot_follow(p, candidates, length)
        if not lost:
            return p, polished
        p = whole.pieces(length)
    return p, {}


def cannot_follow(p: Prepared, candidates: list[Candidate], length: int) -> tuple[bool, dict[Candidate, Polished]]:
    """Whether no law follows trajectories much longer than `length` intervals to their ends.

    None of the laws that are best on windows does: each explains too little of the trajectories, or in
    noise much less than of the windows. A single law that follows chaos would do so by luck.

    Returns:
        The answer, and the laws that were polished for it.
    """
    polished: dict[Candidate, Polished] = {}
    if max(len(t.time) for t in p.data.trajectories) <= 2 * length:
        return False, polished
    floor = SETTLED if p.clean else 0.0
    listed = shortlist(candidates, p.samples, floor, around=1)
    for c in sorted(listed, key=lambda c: score(c, p.samples, floor))[:LOOKED]:
        found = polished[c] = polish_candidate(p, c, c.law, c.free, MOST)
        if follows(p, found) and (p.clean or follows_closely(p, found, c)):
            return False, polished
    return True, polished
