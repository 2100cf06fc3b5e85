"""Candidates of a search: laws taken as they were grown or found before, and which one of clean data is simplest."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import numpy as np

from odediscovery.judge.criterion import score
from odediscovery.judge.doubt import DOUBT, interval_squares
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.impose import apply_knowledge, fixed_mask
from odediscovery.problem.problem import Problem, rounding_share
from odediscovery.runtime.monitor import Monitor
from odediscovery.stages.prune.eliminate import Elimination
from odediscovery.stages.prune.paths import NoRoomError, all_whole, prune_laws, whole_features
from odediscovery.stages.values import STAGES, Candidate


def at_rest(p: Problem) -> Candidate:
    """The law of states that never change: x' = 0, but for what is known."""
    n = p.data.n_states
    law = apply_knowledge(p, PowerSum(np.zeros((n, 1)), np.zeros((1, n))))
    return Candidate(law, p.initial, 0.0, 0, whole_features(law, p, True), fixed_mask(p, law))


def each_alone(p: Problem) -> Candidate:
    """The law of states that know nothing of each other, by regression on the integral form.

        x_i' = a_i + b_i x_i

    It is found at once, however many states there are.
    """
    n, runs = p.data.n_states, p.smooth.trajectories
    length = np.concatenate([np.diff(run.time) for run in runs])[:, None]
    mean = np.concatenate([(run.values[1:] + run.values[:-1]) / 2 for run in runs])
    rise = np.concatenate([np.diff(run.values, axis=0) for run in runs])
    # Rates about their mean over time: one regression for each state.
    rate, centre = rise.sum(axis=0) / length.sum(), (length * mean).sum(axis=0) / length.sum()
    off = length * (mean - centre)
    squares = (off**2).sum(axis=0)
    own = np.where(squares > 0, (off * (rise - length * rate)).sum(axis=0) / np.where(squares > 0, squares, 1.0), 0.0)
    sources = rate - own * centre
    moving = ~p.constant
    a = np.column_stack([np.where(moving, sources, 0.0), np.diag(np.where(moving, own, 0.0))])
    return as_grown(p, PowerSum(a, np.vstack([np.zeros((1, n)), np.eye(n)])))


def as_grown(p: Problem, law: PowerSum) -> Candidate:
    """A law of a rich family as it was grown; only rates of exponentials are no whole numbers."""
    law = apply_knowledge(p, law)
    squares = interval_squares(law, p)[~p.constant]
    return Candidate(law, p.initial, float(squares.mean()), 0, whole_features(law, p, True), fixed_mask(p, law))


def warm_start(p: Problem, laws: Sequence[PowerSum], monitor: Monitor) -> list[Candidate]:
    """What becomes of laws that were found before, in the user's units."""
    scaled = [law.rescaled(p.scale.state, p.scale.time) for law in laws if law.n_monomials]
    # Real powers of what is negative here are none.
    scaled = [law for law in scaled if not law.mirrored]
    found: list[Candidate] = []
    if p.clean:
        # As they were grown: on clean data pruning has nothing to take from them.
        rich = [law for law in scaled if law.features is not None]
        scaled = [law for law in scaled if law.features is None]
        found = [as_grown(p, law) for law in rich]
    for whole in (True, False):
        alike = [law for law in scaled if all_whole(law.exponents) is whole]
        with contextlib.suppress(NoRoomError):
            found += prune_laws(p, alike, Elimination(), monitor, whole=whole)
    return found


def simplest(candidates: Sequence[Candidate], p: Problem) -> Candidate:
    """The best of clean data, where what is left is the error of integration."""
    return min(candidates, key=lambda c: score(c, p.samples, STAGES.settled))


def leaves_only_rounding(candidates: Sequence[Candidate], p: Problem) -> bool:
    """Whether some law leaves hardly more than rounding of data whose noise was taken to be far more."""
    least = min((c.mean_square for c in candidates), default=np.inf)
    return rounding_share(p) < STAGES.rounding and least <= DOUBT.underestimated * rounding_share(p)


def is_settled(candidates: Sequence[Candidate]) -> bool:
    """Whether some law already explains clean data down to integration error."""
    return min((c.mean_square for c in candidates), default=np.inf) < STAGES.settled
