"""Candidates of a search: laws taken as they were grown, and which one of clean data is simplest."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from odediscovery.judge.criterion import score
from odediscovery.judge.doubt import interval_squares
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.impose import apply_knowledge, fixed_mask
from odediscovery.problem.problem import Problem
from odediscovery.stages.prune.paths import whole_features
from odediscovery.stages.values import STAGES, Candidate


def at_rest(p: Problem) -> Candidate:
    """The law of states that never change: x' = 0, but for what is known."""
    n = p.data.n_states
    law = apply_knowledge(p, PowerSum(np.zeros((n, 1)), np.zeros((1, n))))
    return Candidate(law, p.initial, 0.0, 0, whole_features(law, p, True), fixed_mask(p, law))


def as_grown(p: Problem, law: PowerSum) -> Candidate:
    """A law of a rich family as it was grown; only rates of exponentials are no whole numbers."""
    law = apply_knowledge(p, law)
    squares = interval_squares(law, p)[~p.constant]
    return Candidate(law, p.initial, float(squares.mean()), 0, whole_features(law, p, True), fixed_mask(p, law))


def simplest(candidates: Sequence[Candidate], p: Problem) -> Candidate:
    """The best of clean data, where what is left is the error of integration."""
    return min(candidates, key=lambda c: score(c, p.samples, STAGES.settled))


def is_settled(candidates: Sequence[Candidate]) -> bool:
    """Whether some law already explains clean data down to integration error."""
    return min((c.mean_square for c in candidates), default=np.inf) < STAGES.settled
