"""A candidate followed closely, so that terms can be sought along its trajectory."""

from __future__ import annotations

from dataclasses import dataclass

from odediscovery.problem.problem import Problem
from odediscovery.runtime.thresholds import Thresholds, threshold
from odediscovery.search.refinement import follows_closely, refined, sigma_of
from odediscovery.stages.prune.paths import window_length
from odediscovery.stages.values import Candidate, Polished


@dataclass(frozen=True)
class FollowThresholds(Thresholds):
    """When a law counts as following the data."""

    evaluations: int = threshold(10, "most Jacobians that bring a law near the data", origin="cost")


FOLLOWING = FollowThresholds()


def follow_closely(p: Problem, c: Candidate) -> tuple[Problem, Polished] | None:
    """The candidate refined on whole trajectories, or on pieces that it can follow; None if on neither."""
    for q in (p, p.pieces(window_length(p))):
        initial = c.initial if q is p else q.initial
        found = refined(q, c.law, c.free, initial, sigma_of(q), FOLLOWING.evaluations)
        if follows_closely(q, found, c):
            return q, found
    return None
