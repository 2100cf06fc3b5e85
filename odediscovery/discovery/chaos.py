"""Trajectories that no law can follow from one start are cut into pieces that it can."""

from __future__ import annotations

from odediscovery.discovery.front import polish_candidate
from odediscovery.judge.criterion import score, shortlist
from odediscovery.problem.prepare import Prepared
from odediscovery.runtime.monitor import Monitor
from odediscovery.search.refinement import MOST, follows, sigma_of
from odediscovery.search.strategies import BRIEF
from odediscovery.stages.prune.paths import TURNS, window_length
from odediscovery.stages.values import SETTLED, Candidate, Polished

# Multiple of what a law leaves of the windows that it may leave of trajectories it follows.
FOLLOWED = 2.0
# Laws that are looked at for that.
LOOKED = 3


def cut_until_followed(
    whole: Prepared, candidates: list[Candidate], monitor: Monitor
) -> tuple[Prepared, dict[Candidate, Polished]]:
    """The series in pieces that the laws which are best on windows can follow; some polished there.

    From one start nobody can follow chaos, or a fast oscillation in noise, to its end.
    """
    p = whole
    for turns in (TURNS, BRIEF):
        length, polished = window_length(whole, turns), dict[Candidate, Polished]()
        if monitor.stopping() or not cannot_follow(p, candidates, length, polished):
            return p, polished
        p = whole.pieces(length)
    return p, {}


def cannot_follow(p: Prepared, candidates: list[Candidate], length: int, polished: dict[Candidate, Polished]) -> bool:
    """Whether trajectories much longer than `length` intervals cannot be followed to the end.

    None of the laws that are best on windows follows them: it explains too little of them, or in
    noise much less than of the windows. Which law happens to follow chaos would be luck.

    Args:
        polished: is given the laws that were looked at.
    """
    longest = max(len(t.time) for t in p.data.trajectories)
    if longest <= 2 * length:
        return False
    floor, moving = SETTLED if p.clean else 0.0, ~p.constant
    listed = shortlist(candidates, p.samples, floor, around=1)
    for c in sorted(listed, key=lambda c: score(c, p.samples, floor))[:LOOKED]:
        found = polished[c] = polish_candidate(p, c, c.law, c.free, MOST)
        left = float((found.squares / sigma_of(p) ** 2)[moving].sum() / found.counts[moving].sum())
        if follows(p, found) and (p.clean or left <= FOLLOWED * c.mean_square):
            return False
    return True
