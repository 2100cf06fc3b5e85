"""The default search: which laws are worth judging?

Members come from two sides. Grown ones start from laws that were built monomial by monomial on
the integral form, exact on clean data; random ones are trained by Adam and LBFGS under L1,
robust in noise. Both are networks of one batch, pruned in the same way. On clean data the
residuals are those of one-interval windows, each from a measured state; in noise they are
those of whole trajectories with fitted starts, where noise of a start cannot pass for physics.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import torch

from odediscovery.cost import Mask
from odediscovery.extract import laws_of, members_of, power_units
from odediscovery.field import VectorField
from odediscovery.fit import train
from odediscovery.grow import grow
from odediscovery.judge import Candidate
from odediscovery.monitor import Monitor
from odediscovery.optimise import levenberg_marquardt
from odediscovery.polynomials import polynomials
from odediscovery.powersum import PowerSum
from odediscovery.prepare import Prepared
from odediscovery.prune import Elimination, Pruned, binarised, eliminate, thresholded
from odediscovery.settings import Settings
from odediscovery.windows import LongResiduals, ShortResiduals, Windows, cut

# Trained members and grown laws that are pruned: the best of each.
KEPT, GROWN = 12, 8
# Noise (share of a state's spread) above which growing on the integral form leads astray.
GROWABLE = 0.003
# Intervals of a window whose start is fitted; longer trajectories are cut.
LONGEST = 150
# Members whose first refit is this many times worse than the best one's are not pruned.
HOPELESS = 100.0
# Relative mean square below which a law explains clean data as well as any law can.
SETTLED = 1e-8
# Share of a residual's standard deviation that integration may add while pruning, in noise and
# on clean data.
ACCURACY, EXACT = 0.02, 1e-5


def search(p: Prepared, settings: Settings, monitor: Monitor) -> list[Candidate]:
    """Candidate laws from every step of every member's pruning path."""
    grown = _grown(p, settings, monitor)
    candidates: list[Candidate] = []
    if not p.clean:
        # Noise hides which power it was; a law of whole powers may be all that can be told.
        candidates += prune_laws(p, polynomials(p), Elimination(), monitor, whole=True)
    if grown and (p.clean or monitor.stopping()):
        candidates += prune_laws(p, grown, Elimination(), monitor)
        if settled(candidates) or monitor.stopping():
            return candidates
        grown = []
    field = random_members(p, [settings.hidden] * settings.members, settings.seed)
    laws = laws_of(trained(p, field, settings, monitor)) + grown
    return candidates + prune_laws(p, laws, Elimination(hopeless=HOPELESS), monitor)


def _grown(p: Prepared, settings: Settings, monitor: Monitor) -> list[PowerSum]:
    """Laws grown on the integral form, best first."""
    if not settings.grow or p.noisiness > GROWABLE:
        return []
    monitor.stage("grow", 1)
    laws = grow(p.data, p.noise, integer=~p.nonnegative, max_monomials=settings.hidden,
                monitor=monitor)  # fmt: skip
    return [law for law in laws if law.n_monomials][:GROWN]


def settled(candidates: Sequence[Candidate]) -> bool:
    """Whether some law already explains clean data down to integration error."""
    return min((c.mean_square for c in candidates), default=np.inf) < SETTLED


def random_members(
    p: Prepared, hidden: Sequence[int], seed: int, unit: str = "RealNPU"
) -> VectorField:
    """One RealNPU -> NAU member for each hidden size, from the study's random initialisation.

    Sizes differ by what is free; the equation of a state that never changes is zero.
    """
    n, h = p.data.n_states, max(hidden)
    generator = torch.Generator().manual_seed(seed)
    units = power_units(p.nonnegative.tolist(), h, unit)
    field = VectorField.random(units, len(hidden), generator)
    rows = torch.arange(h) < torch.tensor(hidden)[:, None]
    used = (rows[:, None, :] & ~torch.as_tensor(p.constant)[None, :, None]).flatten(1)
    theta, free = field.theta.clone(), field.free.clone()
    powers = rows[:, :, None].expand(-1, -1, n).flatten(1)
    exponents = [name for name in units[0].shapes() if name != "gate"]
    for place, mask in (
        *((field.place(0, name), powers) for name in exponents),
        (field.place(1, "weight"), used),
    ):
        theta[:, place] = theta[:, place].masked_fill(~mask, 0.0)
        free[:, place] &= mask
    return field.replace(theta, free)


def short_windows(p: Prepared) -> Windows:
    """One-interval windows from smoothed starts; residuals in units of each state's increments."""
    increments = np.concatenate([np.diff(t.values, axis=0) for t in p.smooth.trajectories])
    spread = np.sqrt(np.mean(increments**2, axis=0))
    weight = np.where(p.constant, 0.0, 1.0 / np.maximum(spread, 1e-12))
    return cut(p.data, p.smooth, weight, 1)


def trained(
    p: Prepared, field: VectorField, settings: Settings, monitor: Monitor, keep: int = KEPT
) -> VectorField:
    """The best `keep` members after training, gates at 0 or 1 and small parameters removed.

    The order of the members stays only if all are kept.
    """
    field = train(
        field, short_windows(p), steps=settings.adam_steps, rate=settings.learning_rate,
        lbfgs_steps=settings.lbfgs_steps, l1=settings.l1, keep=keep, monitor=monitor,
    )  # fmt: skip
    return thresholded(binarised(field))


def prune_laws(
    p: Prepared, laws: Sequence[PowerSum], how: Elimination, monitor: Monitor, *,
    whole: bool = False,
) -> list[Candidate]:  # fmt: skip
    """The laws on the elimination paths of all given ones, with their mean square residuals.

    Args:
        whole: exponents are whole numbers and stay.

    Returns:
        A candidate's `origin` is the index of the law it was pruned from.
    """
    if not laws:
        return []
    field = members_of(laws, p.nonnegative, whole=whole)
    # Unpenalised on short windows first: quick, and near enough to choose the step grids.
    coarse = short_windows(p).refined(field, field.theta, ACCURACY)
    first = ShortResiduals(coarse, field)
    steps = 32 if p.clean else 8
    theta = levenberg_marquardt(first, field.theta, field.free, steps, monitor=monitor).unknowns
    problem: ShortResiduals | LongResiduals
    if p.clean:
        problem, unknowns = ShortResiduals(coarse.refined(field, theta, EXACT), field), theta
    else:
        weight = np.where(p.constant, 0.0, 1.0 / np.maximum(p.noise, p.floor))
        windows = cut(p.data, p.smooth, weight, LONGEST).refined(field, theta, ACCURACY)
        problem = LongResiduals(windows, field, torch.as_tensor(p.nonnegative))
        unknowns = problem.pack(theta)
    samples = int((problem.windows.weight > 0).sum())
    if p.clean:
        how = dataclasses.replace(how, floor=0.1 * SETTLED * samples)
    path = eliminate(field, problem, unknowns, monitor, how)
    held = ~p.nonnegative | whole
    return [_candidate(field, problem, pruned, p, samples, held) for pruned in path]


def _candidate(
    field: VectorField, problem: ShortResiduals | LongResiduals, pruned: Pruned, p: Prepared,
    samples: int, held: Mask,
) -> Candidate:  # fmt: skip
    theta = pruned.unknowns[None, : field.theta.shape[1]]
    (law,) = laws_of(field.replace(theta, pruned.free[None]))
    initial = p.initial
    if isinstance(problem, LongResiduals):
        starts = problem.starts(pruned.unknowns[None])[0]
        initial = starts[problem.windows.heads].numpy()
    mean_square = pruned.sum_of_squares / samples
    return Candidate(law, initial, mean_square, pruned.member, held)
