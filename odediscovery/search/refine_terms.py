"""From one law to a better one: terms sought along its trajectory, fitted, and sought again.

Where the best law so far follows the data, `linearised` tells which few terms should stand in an
equation instead; families are tried in turn, and a better law is where the next terms are sought.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from odediscovery.families import FAMILIES
from odediscovery.judge.criterion import rank, score
from odediscovery.problem.problem import Problem
from odediscovery.runtime.monitor import Monitor
from odediscovery.search.ladder import MOST_STATES
from odediscovery.search.refinement import follows_closely, refined, sigma_of
from odediscovery.stages.grow.score_test import regressed
from odediscovery.stages.prune.eliminate import Elimination
from odediscovery.stages.prune.paths import all_whole, prune_laws, window_length
from odediscovery.stages.values import Candidate, Polished

# Families whose terms are sought, in turn.
SOUGHT = tuple(f for f in FAMILIES if f.in_noise)
# Times that terms are sought along a law, and gain in score from which on it is done again along
# the new one; most Jacobians that bring a law near.
TRIED, BETTER, CLOSELY = 10, 1.0, 10


def along_the_best(p: Problem, candidates: Sequence[Candidate], monitor: Monitor, *, long: bool) -> list[Candidate]:
    """What regression along the trajectory of the best law proposes, fitted on long windows.

    Again along the trajectory of a better law, as long as there is one. Nothing where inputs act or
    something is known of the law: terms are sought as if all were free.

    Args:
        candidates: found so far.
        long: fitted on windows of several intervals.
    """
    known = p.data.controls or p.knowledge is not None
    if known or not candidates or (~p.constant).sum() > MOST_STATES:
        return []
    found: list[Candidate] = []
    # Subsets of all sizes are proposed: there is nothing to eliminate.
    how = Elimination(first_steps=20, beyond=0)
    families, idle = itertools.cycle(SOUGHT), 0
    base, near, family = None, None, next(families)
    for _ in range(TRIED):
        best = rank([*candidates, *found], p.samples)[0]
        if best is not base:
            base, near = best, followed_closely(p, best) or near
        if near is None or idle == len(SOUGHT) or monitor.stopping():
            break
        monitor.stage(f"terms along a law: {family.name}", 1)
        q, law = near
        laws = regressed(q, law.law, law.initial, sigma_of(q), family)
        # Real powers that other equations have stay real.
        whole = not family.real_exponents and all_whole(law.law.exponents[:, : p.data.n_states])
        new = prune_laws(p, laws, how, monitor, whole=whole, long=long, fitted=True)
        found += new
        least = min((score(c, p.samples) for c in new), default=np.inf)
        idle = 0 if least < score(best, p.samples) - BETTER else idle + 1
        family = next(families) if idle else family
    return found


def followed_closely(p: Problem, c: Candidate) -> tuple[Problem, Polished] | None:
    """The candidate refined on whole trajectories, or on pieces that it can follow."""
    for q in (p, p.pieces(window_length(p))):
        initial = c.initial if q is p else q.initial
        found = refined(q, c.law, c.free, initial, sigma_of(q), CLOSELY)
        if follows_closely(q, found, c):
            return q, found
    return None
