"""The default search: which laws are worth judging?

Members come from two sides. Grown ones start from laws that were built monomial by monomial on
the integral form, exact on clean data; random ones are trained by Adam and LBFGS under L1,
robust in noise. Both are networks of one batch, pruned in the same way. On clean data the
residuals are those of one-interval windows, each from a measured state; in noise they are
those of whole trajectories with fitted starts, where noise of a start cannot pass for physics.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np
import torch

from odediscovery.extract import laws_of, members_of, power_units
from odediscovery.field import VectorField
from odediscovery.fit import train
from odediscovery.grow import QUICK, grow
from odediscovery.judge import Candidate, penalty
from odediscovery.ladder import SETTLED, climb, interval_squares
from odediscovery.monitor import Monitor
from odediscovery.optimise import levenberg_marquardt
from odediscovery.polynomials import polynomials
from odediscovery.powersum import Mask, PowerSum
from odediscovery.prepare import Prepared, pooled
from odediscovery.prune import Elimination, Pruned, binarised, eliminate, thresholded
from odediscovery.settings import Settings
from odediscovery.windows import LongResiduals, ShortResiduals, Windows, cut

# Trained members and grown laws that are pruned: the best of each.
KEPT, GROWN = 12, 8
# Relative mean square of one-interval windows below which a grown law is worth pruning.
NEAR = 1e-3
# Noise (share of a state's spread) above which growing on the integral form leads astray.
GROWABLE = 0.003
# Intervals of a window whose start is fitted; longer trajectories are cut.
LONGEST = 150
# Members whose first refit is this many times worse than the best one's are not pruned.
HOPELESS = 100.0
# Candidates whose monomials are exchanged, laws that come of it at most, and how many times the
# best one's sum of squares a law may have after a few steps to be pruned.
EXCHANGED, MOST_EXCHANGED, PROMISING = 4, 80, 1.3
# Share of a residual's standard deviation that integration may add while pruning, in noise and
# on clean data.
ACCURACY, EXACT = 0.02, 1e-5


def search(p: Prepared, settings: Settings, monitor: Monitor) -> list[Candidate]:
    """Candidate laws from every step of every member's pruning path."""
    candidates: list[Candidate] = []
    if settings.grow and p.complete and p.noisiness <= GROWABLE:
        # The estimate of small noise is no more than that: exact laws tell that there is none.
        candidates = clean_search(p, settings, monitor)
        if settled(candidates) or (p.clean and candidates and monitor.stopping()):
            return candidates
        candidates = candidates if p.clean else []
    grown = _grown(p, settings, monitor, settings.hidden)
    long = not p.clean and settings.prune_long
    if not p.clean and settings.grow:
        # Noise hides which power it was; a law of whole powers may be all that can be told.
        candidates += prune_laws(p, polynomials(p), Elimination(), monitor, whole=True, long=long)
    if grown and (p.clean or monitor.stopping()):
        candidates += prune_laws(p, grown, Elimination(), monitor, long=long)
        if settled(candidates) or monitor.stopping():
            return candidates
        grown = []
    if settings.members:
        field = random_members(p, [settings.hidden] * settings.members, settings.seed)
        grown = laws_of(trained(p, field, settings, monitor)) + grown
    how = Elimination(hopeless=HOPELESS)
    candidates += prune_laws(p, grown, how, monitor, long=long)
    if not p.clean and not monitor.stopping():
        how = Elimination(hopeless=PROMISING, first_steps=12)
        candidates += prune_laws(p, exchanged(p, candidates), how, monitor, long=long)
    return candidates


def exchanged(p: Prepared, candidates: Sequence[Candidate]) -> list[PowerSum]:
    """The best candidates with one monomial replaced by a simple one, in all its equations.

    Backward elimination never brings back what training or a removal lost: where 1 / sqrt(S)
    stands for R, removing it is always worse, only R in its place is better.
    """
    samples = int(np.isfinite(pooled(p.data)).sum())
    scores = [samples * np.log(c.mean_square) + penalty(c.law, c.free, samples, c.initial.size)
              for c in candidates]  # fmt: skip
    pool = [np.array(w) for w in itertools.product((0.0, 1.0), repeat=p.data.n_states)
            if sum(w) <= 2]  # fmt: skip
    laws: list[PowerSum] = []
    seen: set[bytes] = set()
    bases = 0
    for i in np.argsort(scores):
        law = candidates[i].law.merged()
        if _form(law) in seen:
            continue
        seen.add(_form(law))
        for j, w in itertools.product(range(law.n_monomials), pool):
            exponents = law.exponents.copy()
            exponents[j] = w
            new = PowerSum(law.coefficients, exponents)
            if _form(new) not in seen:
                seen.add(_form(new))
                laws.append(new)
        bases += 1
        if bases == EXCHANGED:
            break
    return laws[:MOST_EXCHANGED]


def _form(law: PowerSum) -> bytes:
    """Which states stand in which monomials of which equations, whatever the order."""
    rows = zip(law.exponents != 0, (law.coefficients != 0).T, strict=True)
    return b"".join(sorted(w.tobytes() + a.tobytes() for w, a in rows))


def clean_search(p: Prepared, settings: Settings, monitor: Monitor) -> list[Candidate]:
    """What is quickly found in clean data: a small sum of powers, else laws of richer families."""
    powers = _grown(p, settings, monitor, min(QUICK, settings.hidden))
    candidates: list[Candidate] = []
    if powers and interval_squares(powers[0], p).max() < NEAR:
        candidates = prune_laws(p, powers, Elimination(), monitor)
    for laws in climb(p, powers, monitor):
        candidates += [grown_candidate(law, p) for law in laws]
    return candidates


def grown_candidate(law: PowerSum, p: Prepared) -> Candidate:
    """A law of a rich family as it was grown; only rates of exponentials are no whole numbers."""
    whole = np.ones(law.exponents.shape[1], dtype=bool)
    for k, f in enumerate(law.inputs.functions if law.inputs else (), start=law.n_states):
        whole[k] = f.name != "exp"
    squares = interval_squares(law, p)[~p.constant]
    return Candidate(law, p.initial, float(squares.mean()), 0, whole)


def _grown(p: Prepared, settings: Settings, monitor: Monitor, most: int) -> list[PowerSum]:
    """Laws grown on the integral form, best first."""
    if not settings.grow or p.noisiness > GROWABLE:
        return []
    monitor.stage("grow", 1)
    laws = grow(p.data, p.noise, integer=~p.nonnegative, max_monomials=most,
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
    whole: bool = False, long: bool | None = None,
) -> list[Candidate]:  # fmt: skip
    """The laws on the elimination paths of all given ones, with their mean square residuals.

    Args:
        whole: exponents are whole numbers and stay.
        long: on whole trajectories, else on one-interval windows (default: in noise only).

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
    if p.clean if long is None else not long:
        accuracy = EXACT if p.clean else ACCURACY
        problem, unknowns = ShortResiduals(coarse.refined(field, theta, accuracy), field), theta
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
