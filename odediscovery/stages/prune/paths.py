"""Laws of any origin are pruned side by side and become candidates for the judge.

On clean data the residuals are those of one-interval windows, each from a measured state; in noise
they are those of long windows with fitted starts, where noise of a start cannot pass for physics.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from odediscovery.families import power_is_rate
from odediscovery.fitting.levenberg_marquardt import levenberg_marquardt
from odediscovery.fitting.windows import LongResiduals, ShortResiduals, cut, short_windows
from odediscovery.laws.power_sum import PowerSum
from odediscovery.networks.chain import AnyChain, Chain
from odediscovery.networks.translate import chain_of, laws_of
from odediscovery.problem.problem import Problem, apply_knowledge, fixed_mask, rounding_share
from odediscovery.runtime.arrays import Array, Mask
from odediscovery.runtime.monitor import Monitor
from odediscovery.runtime.resources import fitting_at_once, has_room
from odediscovery.stages.prune.eliminate import Elimination, Pruned, eliminate
from odediscovery.stages.values import STAGES, Candidate


@dataclass(frozen=True)
class PruningWindowThresholds:
    """On which windows laws are pruned, and how accurately these are integrated."""

    shortest: int = 10  # fewest intervals of a window whose start is fitted
    longest: int = 50  # most intervals of such a window; cost: memory grows with it
    extrema: float = 5.0  # clear extrema that such a window holds
    accuracy: float = 0.02  # integration error while pruning in noise [standard deviations of a residual]
    accuracy_clean: float = 1e-5  # the same on clean data [standard deviations of a residual]
    # Members whose integration has to be accurate leave up to this [mean square of the best one on short windows]
    leading: float = 10.0
    coarse_steps: int = 8  # Levenberg-Marquardt steps on short windows before the elimination, in noise
    coarse_steps_clean: int = 32  # the same on clean data; there the steps converge
    floor: float = 0.1  # sum of squares that integration alone explains on clean data, a sample [`STAGES.settled`]


PRUNING_WINDOWS = PruningWindowThresholds()


class NoRoomError(Exception):
    """There is no memory to prune even one law of so many states."""


def window_length(p: Problem, extrema: float | None = None) -> int:
    """Intervals of a window whose start is fitted: a few oscillations.

    Over many, a law that is nearly right is out of phase, and its residuals say nothing.

    Args:
        extrema: clear extrema in a window (default: `PRUNING_WINDOWS.extrema`).
    """
    own = PRUNING_WINDOWS
    extrema = own.extrema if extrema is None else extrema
    intervals = extrema / max(p.extrema_per_interval, sys.float_info.epsilon)
    longest = own.longest if p.longest_window is None else p.longest_window
    return int(np.clip(intervals, own.shortest * extrema / own.extrema, longest))


def prune_laws(
    p: Problem,
    laws: Sequence[PowerSum],
    how: Elimination,
    monitor: Monitor,
    *,
    whole: bool = False,
    long: bool | None = None,
    extrema: float | None = None,
    fitted: bool = False,
) -> list[Candidate]:
    """The laws on the elimination paths of all given ones, with their mean square residuals.

    Args:
        whole: exponents are whole numbers and stay.
        long: on windows of several intervals, else of one (default: in noise only).
        extrema: clear extrema in a long window, see `window_length`.
        fitted: whether the laws are nearly right already, so that short windows would not improve them.

    Returns:
        A candidate's `origin` is the index of the law it was pruned from. None where all laws blow up.

    Raises:
        NoRoomError: there is no memory for a single one.
    """
    if not laws:
        return []
    laws, whole = [apply_knowledge(p, law) for law in laws], whole or p.integer_exponents
    known = None if p.knowledge is None else [p.knowledge.fixed_mask(law) for law in laws]
    chain = chain_of(laws, p.nonnegative, whole=whole, held=known)
    long = not p.clean if long is None else long
    most = _members_that_fit(p, chain, how, window_length(p, extrema) if long else None)
    if most < chain.members:
        if not most:
            raise NoRoomError
        laws = laws[:most]
        return prune_laws(p, laws, how, monitor, whole=whole, long=long, extrema=extrema, fitted=fitted)
    path = prune_chain(p, chain, how, monitor, long=long, extrema=extrema, fitted=fitted)
    return [_candidate(chain, path, pruned, p, whole) for pruned in path.networks]


@dataclass(frozen=True, eq=False)
class EliminationPath:
    """Ever smaller networks, and the residuals that they were pruned on.

    Args:
        problem: residuals of the unknowns, parameters first.
        networks: from large to small, of all members.
    """

    problem: ShortResiduals | LongResiduals
    networks: list[Pruned]

    @property
    def samples(self) -> int:
        """Number of observed values."""
        return int((self.problem.windows.weight > 0).sum())


def prune_chain(
    p: Problem,
    chain: AnyChain,
    how: Elimination,
    monitor: Monitor,
    *,
    long: bool,
    extrema: float | None = None,
    fitted: bool = False,
) -> EliminationPath:
    """The elimination paths of all members of a chain; the options are those of `prune_laws`."""
    problem, unknowns = _problem(p, chain, monitor, long=long, extrema=extrema, fitted=fitted)
    path = EliminationPath(problem, [])
    if p.clean:
        how = dataclasses.replace(how, floor=PRUNING_WINDOWS.floor * STAGES.settled * path.samples, worst=math.inf)
    return dataclasses.replace(path, networks=eliminate(chain, problem, unknowns, monitor, how))


def _members_that_fit(p: Problem, chain: Chain, how: Elimination, length: int | None) -> int:
    """How many members there is memory for, 0 if none; all of small tables.

    Each trial of a removal has a normal matrix of all unknowns; a Jacobian is needed for one member at a time.

    Args:
        length: intervals of a window whose start is fitted; None where starts are given.
    """
    n, intervals = chain.n_states, sum(len(t.time) - 1 for t in p.data.trajectories)
    windows = 0 if length is None else sum(-(-(len(t.time) - 1) // length) for t in p.data.trajectories)
    size = chain.theta.shape[1] + windows * n
    if not has_room(64.0 * (intervals + windows) * n * size):
        return 0
    each = 16.0 * (1 + how.trials) * size**2
    return fitting_at_once(chain.members, each) if has_room(each) else 0


def _problem(
    p: Problem, chain: AnyChain, monitor: Monitor, *, long: bool, extrema: float | None, fitted: bool
) -> tuple[ShortResiduals | LongResiduals, Array]:
    """The residuals that elimination sees, and the unknowns to begin from."""
    own = PRUNING_WINDOWS
    # Unpenalised on short windows first: quick, and near enough to choose the step grids.
    coarse, theta = short_windows(p), chain.theta
    coarse = coarse.refined(chain, theta, own.accuracy)
    if not fitted:
        steps = own.coarse_steps_clean if p.clean else own.coarse_steps
        theta = levenberg_marquardt(ShortResiduals(coarse, chain), theta, chain.free, steps, monitor=monitor).unknowns
    # Laws that leave far more need no fine steps, and must not decide on those of the others.
    with np.errstate(over="ignore"):
        left = np.nan_to_num((ShortResiduals(coarse, chain).residuals(theta) ** 2).sum(axis=1), nan=np.inf)
        leading = theta[left <= own.leading * left.min()]
    if not long:
        accuracy = own.accuracy_clean if p.clean else own.accuracy
        return ShortResiduals(coarse.refined(chain, leading, accuracy), chain), theta
    weight = np.where(p.constant, 0.0, 1.0 / np.maximum(p.noise, p.floor))
    windows = cut(p.data, p.smooth, weight, window_length(p, extrema), relative_sigma=p.relative_sigma)
    windows = windows.refined(chain, leading, own.accuracy)
    problem = LongResiduals(windows, chain, p.nonnegative)
    return problem, problem.pack(theta)


def _candidate(chain: Chain, path: EliminationPath, pruned: Pruned, p: Problem, whole: bool) -> Candidate:
    theta = pruned.unknowns[None, : chain.theta.shape[1]]
    law = apply_knowledge(p, laws_of(chain.replace(theta, pruned.free[None]))[0])
    initial = p.initial
    if isinstance(path.problem, LongResiduals):
        starts = path.problem.starts(pruned.unknowns[None])[0]
        initial = starts[path.problem.windows.heads][:, ~p.data.is_control]
    mean_square = pruned.sum_of_squares / path.samples
    # Where curvature was taken for noise, a law leaves far less: what it leaves beyond rounding, not of rounding.
    mean_square = mean_square if p.clean else max(mean_square, rounding_share(p))
    return Candidate(law, initial, mean_square, pruned.member, whole_features(law, p, whole), fixed_mask(p, law))


def all_whole(exponents: Array) -> bool:
    """Whether all exponents are whole numbers."""
    return bool((exponents == np.round(exponents)).all())


def has_whole_powers(law: PowerSum) -> bool:
    """Whether all exponents of states are whole numbers, those inside sums included; rates may be any number."""
    n = law.n_states
    return all_whole(law.exponents[:, :n]) and all_whole(law.constants[3][:, :n])


def whole_features(law: PowerSum, p: Problem, whole: bool) -> Mask:
    """Inputs whose exponents are whole numbers and not fitted; of exponentials they are rates."""
    whole_states: Mask = ~p.nonnegative | whole | p.integer_exponents
    if law.features is None:
        return whole_states
    functions = [not power_is_rate(f) for f in law.features.functions]
    return np.concatenate([whole_states, np.array(functions + [whole] * len(law.features.sums), dtype=bool)])
