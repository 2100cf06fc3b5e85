"""Multiple shooting: constants of a law whose trajectories cannot be followed from one start.

Chaos forgets its start, so a law is fitted to short pieces with starts of their own. Pieces determine
the constants poorly; but once the law fits them, two neighbours can be joined, since the first one
ends nearly where the second one begins. So the fit proceeds to longer trajectories, over which small
errors of the constants would grow, until joining fails.

Source: Bock, Randwertproblemmethoden zur Parameteridentifizierung (1987).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from odediscovery.problem.problem import Problem
from odediscovery.solve.trajectories import solutions
from odediscovery.stages.values import Polished


@dataclass(frozen=True)
class JoiningThresholds:
    """How far pieces are joined."""

    # joining has failed where the mean squared residual grows by this factor [ratio of mean squares]
    worse: float = 1.2
    joins: int = 8  # joins at most; each doubles the pieces: 256 samples become one


JOINING = JoiningThresholds()

# (series and what is known of it, law with the starts to begin from) -> refined constants.
Refit = Callable[[Problem, Polished], Polished]


def join_pieces(whole: Problem, pieces: Problem, found: Polished, refit: Refit) -> Polished:
    """The law with constants refined on ever longer pieces, as far as they can be followed.

    Args:
        whole: the series with its whole trajectories.
        pieces: the same cut into pieces, as `found` was fitted to.
        found: a law that fits the pieces.
        refit: fits constants and starts.

    Returns:
        What was fitted to the longest pieces; `found` itself where not even two can be joined.
    """
    now, best = pieces, found
    for _ in range(JOINING.joins):
        count = len(now.data.trajectories)
        if count == len(whole.data.trajectories):
            break
        samples = sum(len(t.time) for t in whole.data.trajectories)
        longer = whole.pieces(int(np.ceil(2.0 * samples / count)))
        if len(longer.data.trajectories) >= count:
            longer = whole
        start = np.concatenate(solutions(best.law, now.data, best.initial))[_heads(longer)]
        start = start[:, ~longer.data.is_control]
        tried = refit(longer, dataclasses.replace(best, initial=start))
        if not tried.finite or _mean_square(tried) > JOINING.worse * _mean_square(best):
            break
        now, best = longer, tried
    return best


def _mean_square(found: Polished) -> float:
    # Every start that is fitted takes away residual.
    return float(found.squares.sum() / max(found.counts.sum() - found.initial.size, 1.0))


def _heads(p: Problem) -> NDArray[np.int64]:
    """Index of each piece's first sample among all of them."""
    counts = [len(t.time) for t in p.data.trajectories]
    return np.cumsum([0, *counts[:-1]])
