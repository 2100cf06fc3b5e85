"""How long windows may be: as long as errors of their starts stay small.

    y_{j+1} = Phi_j y_j,    y_0 ~ N(0, sigma^2),    mean over windows, samples and states of (y / sigma)^2

with Phi of a law that meets every interval, along the smoothed data. In chaos and through spikes errors grow a
thousandfold over a window; from there no fit finds back, not even that of the true law.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from odediscovery.judge.doubt import is_explained
from odediscovery.problem.problem import Problem
from odediscovery.runtime.arrays import Array
from odediscovery.search.refinement import sigma_of
from odediscovery.solve.linearised import carried_along
from odediscovery.stages.grow.polynomials import polynomials
from odediscovery.stages.prune.paths import PRUNING_WINDOWS, window_length


@dataclass(frozen=True)
class ShorteningThresholds:
    """When windows are shortened."""

    # what errors of the start come to over windows that are too long [variance of the noise, mean]; thirty standard
    # deviations; measured: the same laws of chaotic systems at half and at twice of it
    grown: float = 1000.0
    # only trajectories so many times longer than a window are cut, or have shorter windows [windows]; shorter ones
    # would give one piece
    long: float = 2.0
    states: int = 3  # states without which there is no chaos; Poincare and Bendixson: curves in a plane do not cross
    # changing states above which windows stay as they are; cost: intervals are met state by state
    many_states: int = 10


SHORTENING = ShorteningThresholds()


def shorten_windows(p: Problem) -> Problem:
    """The problem with windows halved until errors of their starts stay small, by laws of whole powers.

    As they are where fewer than three states change, or very many; where a value is missing, and so the start or
    the end of an interval; and where no such law leaves noise alone of the intervals.
    """
    length, changing = window_length(p), int((~p.constant).sum())
    if not SHORTENING.states <= changing <= SHORTENING.many_states:
        return p
    if p.clean or not p.complete or not is_long(p, length):
        return p
    law = next((law for law in polynomials(p) if is_explained(law, p)[~p.constant].all()), None)
    if law is None:
        return p
    # One law tells as well as another: all are alike where the data are.
    carried = [carried_along(law, t) for t in p.smooth.trajectories]
    while length > PRUNING_WINDOWS.shortest and not _growth(p, carried, length) <= SHORTENING.grown:
        length = max(length // 2, PRUNING_WINDOWS.shortest)
    return p if length == window_length(p) else dataclasses.replace(p, longest_window=length)


def is_long(p: Problem, length: int) -> bool:
    """Whether a trajectory has many more samples than a window of that length."""
    return max(len(t.time) for t in p.data.trajectories) > SHORTENING.long * length


@np.errstate(over="ignore", invalid="ignore")
def _growth(p: Problem, carried: Sequence[Array], length: int) -> float:
    """Squares of errors of the starts of windows, mean over their samples and states, in units of the noise.

    Args:
        carried: what a disturbance at the beginning of an interval is at its end, [intervals, states, states] a
            trajectory.
        length: of a window.
    """
    moving = ~p.constant
    sigma = sigma_of(p)[moving]
    squares, count = 0.0, 0
    for phi in (of_trajectory[:, moving][:, :, moving] for of_trajectory in carried):
        first = np.arange(0, len(phi) - length + 1, length)
        y = np.broadcast_to(np.diag(sigma), (len(first), len(sigma), len(sigma)))
        for j in range(length if len(first) else 0):
            y = phi[first + j] @ y
            squares += float(np.sum((y / sigma[:, None]) ** 2))
        count += len(first) * length * len(sigma)
    return squares / max(count, 1)
