"""Laws pruned side by side: from laws of any origin to candidates for the judge.

On clean data the residuals are those of one-interval windows, each from a measured state; in noise
they are those of long windows with fitted starts, where noise of a start cannot pass for physics.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import torch

from odediscovery.families import power_is_rate
from odediscovery.fitting.optimise import levenberg_marquardt
from odediscovery.fitting.windows import LongResiduals, ShortResiduals, cut, short_windows
from odediscovery.laws.power_sum import PowerSum
from odediscovery.networks.translate import laws_of, members_of
from odediscovery.networks.vector_field import VectorField
from odediscovery.problem.impose import agreed, held
from odediscovery.problem.prepare import Prepared
from odediscovery.runtime.arrays import Array, Mask
from odediscovery.runtime.monitor import Monitor
from odediscovery.stages.prune.eliminate import Elimination, Pruned, eliminate
from odediscovery.stages.values import SETTLED, Candidate

# Intervals of a window whose start is fitted, and extrema that it may hold; longer trajectories
# are cut.
SHORTEST, LONGEST, TURNS = 10, 50, 5.0
# Share of a residual's standard deviation that integration may add while pruning, in noise and
# on clean data.
ACCURACY, EXACT = 0.02, 1e-5


def window_length(p: Prepared, turns: float = TURNS) -> int:
    """Intervals of a window whose start is fitted: a few oscillations.

    Over many, a law that is nearly right is out of phase, and its residuals say nothing.
    """
    return int(np.clip(turns / max(p.extrema_per_interval, 1e-9), SHORTEST * turns / TURNS, LONGEST))


def prune_laws(
    p: Prepared,
    laws: Sequence[PowerSum],
    how: Elimination,
    monitor: Monitor,
    *,
    whole: bool = False,
    long: bool | None = None,
    turns: float = TURNS,
    fitted: bool = False,
) -> list[Candidate]:
    """The laws on the elimination paths of all given ones, with their mean square residuals.

    Args:
        whole: exponents are whole numbers and stay.
        long: on windows of several intervals, else of one (default: in noise only).
        turns: clear extrema in a long window.
        fitted: whether the laws are nearly right already, better than short windows could tell.

    Returns:
        A candidate's `origin` is the index of the law it was pruned from.
    """
    if not laws:
        return []
    laws, whole = [agreed(p, law) for law in laws], whole or p.whole
    known = None if p.knowledge is None else [p.knowledge.held(law) for law in laws]
    field = members_of(laws, p.nonnegative, whole=whole, held=known)
    # Unpenalised on short windows first: quick, and near enough to choose the step grids.
    coarse, theta = short_windows(p), field.theta
    if not fitted:
        coarse = coarse.refined(field, theta, ACCURACY)
        steps = 32 if p.clean else 8
        theta = levenberg_marquardt(ShortResiduals(coarse, field), theta, field.free, steps, monitor=monitor).unknowns
    problem: ShortResiduals | LongResiduals
    if p.clean if long is None else not long:
        accuracy = EXACT if p.clean else ACCURACY
        problem, unknowns = ShortResiduals(coarse.refined(field, theta, accuracy), field), theta
    else:
        weight = np.where(p.constant, 0.0, 1.0 / np.maximum(p.noise, p.floor))
        windows = cut(p.data, p.smooth, weight, window_length(p, turns), shape=p.shape)
        windows = windows.refined(field, theta, ACCURACY)
        problem = LongResiduals(windows, field, torch.as_tensor(p.nonnegative))
        unknowns = problem.pack(theta)
    samples = int((problem.windows.weight > 0).sum())
    if p.clean:
        how = dataclasses.replace(how, floor=0.1 * SETTLED * samples)
    path = eliminate(field, problem, unknowns, monitor, how)
    return [_candidate(field, problem, pruned, p, samples, whole) for pruned in path]


def _candidate(
    field: VectorField, problem: ShortResiduals | LongResiduals, pruned: Pruned, p: Prepared, samples: int, whole: bool
) -> Candidate:
    theta = pruned.unknowns[None, : field.theta.shape[1]]
    law = agreed(p, laws_of(field.replace(theta, pruned.free[None]))[0])
    initial = p.initial
    if isinstance(problem, LongResiduals):
        starts = problem.starts(pruned.unknowns[None])[0]
        initial = starts[problem.windows.heads].numpy()[:, ~p.data.is_control]
    mean_square = pruned.sum_of_squares / samples
    return Candidate(law, initial, mean_square, pruned.member, whole_inputs(law, p, whole), held(p, law))


def all_whole(exponents: Array) -> bool:
    """Whether all exponents are whole numbers."""
    return bool((exponents == np.round(exponents)).all())


def whole_inputs(law: PowerSum, p: Prepared, whole: bool) -> Mask:
    """Inputs whose exponents are whole numbers and not fitted; of exponentials they are rates."""
    whole_states: Mask = ~p.nonnegative | whole | p.whole
    if law.features is None:
        return whole_states
    functions = [not power_is_rate(f) for f in law.features.functions]
    return np.concatenate([whole_states, np.array(functions + [whole] * len(law.features.sums), dtype=bool)])
