"""The shortlist polished, judged and simplified: rows of the Pareto front."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from odediscovery.data.samples import pooled
from odediscovery.errors import FitError
from odediscovery.judge.criterion import (
    CRITERION,
    judge_on,
    penalty,
    price_of_powers,
    rank,
    score,
    shares_of,
    shortlist,
    sizes_beside_the_largest,
)
from odediscovery.judge.verdict import Verdict
from odediscovery.laws.cost import Free, constant_penalty, count
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.problem import Problem
from odediscovery.runtime.arrays import Array
from odediscovery.runtime.monitor import JUDGING, Monitor
from odediscovery.search.candidates import at_rest, each_alone
from odediscovery.search.refinement import REFINEMENT, refined, residual_sigma, sigma_of
from odediscovery.stages.polish.one_state import shorten_functions
from odediscovery.stages.polish.polish import as_it_is
from odediscovery.stages.polish.quotients import shorten_quotients
from odediscovery.stages.polish.sharing import share_monomials
from odediscovery.stages.polish.snap import merge_monomials, snap, without_numbers
from odediscovery.stages.prune.paths import has_whole_powers
from odediscovery.stages.values import STAGES, Candidate, Judged, Origin, Polished


@dataclass(frozen=True)
class FrontThresholds:
    """What decides how carefully a law is polished, and what is left out of it."""

    # A candidate this many times worse than the best is polished only roughly [ratio of mean squares]
    far: float = 10.0
    rough_steps: int = 8  # most evaluations of a rough polish in noise
    rough_steps_clean: int = 4  # the same on clean data, where such a law will not turn out to be right
    last_steps: int = 3  # the same once the time is up; cost: a stop should take effect soon
    last_around: int = 1  # complexities on either side of the best that are judged once the time is up; cost: as before
    last: int = 3  # candidates that are taken as they are where there is no time to polish one; cost: as before
    # a law that leaves less than this share of the noise's variance shows that the noise is smaller [ratio of
    # variances]
    quiet: float = 0.5
    # A term smaller than this share of its equation's largest one is no evidence [rms over the samples]
    negligible: float = 1e-6


FRONT = FrontThresholds()


def polish_candidate(p: Problem, c: Candidate, law: PowerSum, free: Free, most: int) -> Polished:
    """A law refined on whole trajectories, its exponents within their bounds.

    Args:
        c: the candidate that it is or comes from, for its start values.
        law: dimensionless.
        free: which of its constants are fitted.
        most: most evaluations of the Jacobian.
    """
    initial = c.initial if p.heads is None else p.initial
    found = refined(p, law, free, initial, sigma_of(p), most, fully=False)
    if p.knowledge is not None and found.finite and not p.knowledge.allows(found.law):
        # Exponents have left their bounds: they are held there.
        found = refined(p, found.law, found.free, found.initial, sigma_of(p), most, fully=False)
    return found


def judge_shortlist(
    p: Problem, candidates: list[Candidate], known: Mapping[Candidate, Polished], monitor: Monitor
) -> Verdict:
    """The shortlist polished and judged.

    Args:
        known: laws that are polished already.

    Raises:
        FitError: none of the laws could be integrated through the data.
    """
    rows = polish_shortlist(p, candidates, known, monitor)
    if not rows:
        raise FitError(
            "no equations could be integrated through the data; more samples, or fewer states (--states), may help"
        )
    return Verdict.of(p, rows)


def polish_shortlist(
    p: Problem, candidates: list[Candidate], known: Mapping[Candidate, Polished], monitor: Monitor
) -> list[Judged]:
    """The shortlist with constants refined on whole trajectories; laws that blow up are left out.

    So is what is more complex than a law that leaves nothing: it could only fit rounding.

    Args:
        known: laws that are polished already.
    """
    floor = STAGES.settled if p.clean else 0.0
    around = FRONT.last_around if monitor.stopping() else None
    listed = shortlist(candidates, p.samples, floor, around=around)
    if around is not None:  # what there is no time for should not be the likeliest
        listed.sort(key=lambda c: score(c, p.samples, floor))
    least = min((c.mean_square for c in listed), default=0.0) + floor
    monitor.stage("polish", len(listed))
    rows: list[Judged] = []
    for i, c in enumerate(listed):
        if any(_is_needless(p, c, row) for row in rows):
            continue
        most = _steps(p, c, least, monitor)
        if monitor.is_overdue(JUDGING):
            break
        row = monitor.in_time(JUDGING, partial(_judged, p, c, known, most), None)
        rows += [] if row is None else [row]
        monitor.step(i + 1)
        monitor.note(
            event="candidate",
            origin=c.origin,
            complexity=c.law.complexity,
            mean_square=c.mean_square,
            finite=row is not None,
            criterion=None if row is None else row.criterion,
        )
    if not rows and len(listed) < len(candidates) and not monitor.is_overdue(JUDGING):
        # What is best on windows may blow up beyond them if there was no time to refine it.
        return polish_shortlist(p, [c for c in candidates if c not in listed], known, monitor)
    if not rows and monitor.stopping():
        return _first_that_lasts(p, [*rank(candidates, p.samples)[: FRONT.last], each_alone(p)])
    return rows


def _judged(p: Problem, c: Candidate, known: Mapping[Candidate, Polished], most: int) -> Judged | None:
    """A candidate polished and judged; None where it cannot be integrated, or printed."""
    polished = _polish(p, c, known, most)
    if not (polished.finite and _is_printable(p, polished.law)):
        return None
    return judge_on(p, polished, Origin(c.origin, c.found_by))


def _first_that_lasts(p: Problem, candidates: Sequence[Candidate]) -> list[Judged]:
    """The first candidate that can be integrated, as it is; at worst states at rest."""
    for c in (*candidates, at_rest(p)):
        initial = c.initial if p.heads is None else p.initial
        found = as_it_is(c.law, p.data, initial, sigma_of(p), c.free, p.relative_sigma)
        if found.finite and _is_printable(p, found.law):
            return [judge_on(p, found, Origin(c.origin, c.found_by))]
    return []


def _steps(p: Problem, c: Candidate, least: float, monitor: Monitor) -> int:
    """Most evaluations that a candidate is worth."""
    if monitor.stopping():
        return FRONT.last_steps
    if c.mean_square > FRONT.far * least:
        return FRONT.rough_steps_clean if p.clean else FRONT.rough_steps
    return REFINEMENT.evaluations


def _polish(p: Problem, c: Candidate, known: Mapping[Candidate, Polished], most: int) -> Polished:
    """A candidate polished, and once more where it has negligible terms."""
    polished = known.get(c) or polish_candidate(p, c, c.law, c.free, most)
    law, free = drop_negligible(polished.law, polished.free, pooled(p.smooth))
    if law is not polished.law and polished.finite:
        polished = polish_candidate(p, c, law, free, most)
    return polished


def _is_needless(p: Problem, c: Candidate, row: Judged) -> bool:
    """Whether clean data leave a candidate nothing to win from a row that is simpler.

    What the row leaves of whole trajectories is explained by rounding and integration.
    """
    best = row.polished
    if not p.clean or c.law.complexity <= best.law.complexity:
        return False
    starts = c.initial.size
    dearer = penalty(c.law, c.free, p.samples, starts) >= penalty(best.law, best.free, p.samples, starts)
    return dearer and bool((best.squares <= best.counts * sigma_of(p) ** 2).all())


def lower_noise(verdict: Verdict) -> Verdict:
    """The laws judged anew where one leaves far less than what was taken for noise.

    Fast changes that are sampled coarsely look like noise until a law is known.
    """
    p, rows = verdict.p, verdict.rows
    left = np.stack([r.polished.squares / r.polished.counts.clip(1) for r in rows])
    share = (left / sigma_of(p) ** 2).min(axis=0)
    quiet = share < FRONT.quiet
    if p.clean or not quiet.any():
        return verdict
    p = dataclasses.replace(p, noise=np.where(quiet, np.sqrt(share) * p.noise, p.noise))
    return Verdict.of(p, [judge_on(p, r.polished, r.origin, fragile=r.fragile) for r in rows])


def _is_printable(p: Problem, law: PowerSum) -> bool:
    """Whether the coefficients in the user's units are within the range of numbers."""
    return bool(np.isfinite(law.unscaled(p.scale.state, p.scale.time).coefficients).all())


def drop_negligible(law: PowerSum, free: Free, x: Array) -> tuple[PowerSum, Free]:
    """The law without terms smaller than what the solvers that judge leave uncertain.

    Over a long or chaotic trajectory such a term can fit the error of the integration.

    Args:
        x: states at which terms are compared, [samples, states].
    """
    small = (law.coefficients != 0) & (sizes_beside_the_largest(law, x) < FRONT.negligible)
    if not small.any():
        return law, free
    _, w, b, v = law.constants
    kept = law.with_constants(np.where(small, 0.0, law.coefficients), w, b, v)
    return merge_monomials(kept, free)


def simplify_quotients(verdict: Verdict, monitor: Monitor) -> Verdict:
    """The laws that could still win with fewer constants in their terms over sums, where that is as good.

    Those about as good as the best may have met several terms in one state where one is meant.
    """
    p, best, rows = verdict.p, verdict.best.criterion, list[Judged]()
    if p.knowledge is not None:
        return verdict
    x = pooled(p.smooth)
    for row in verdict.rows:
        found = row.polished
        most = best + count(found.free) * constant_penalty(found.law.n_states, found.counts.sum())
        if row.criterion < most:
            row = _shortened(p, row, partial(shorten_quotients, x=x), monitor)
        if not p.clean and row.criterion < best + CRITERION.close:
            short = _shortened(p, row, partial(shorten_functions, x=x), monitor)
            row = row if short is row else _shortened(p, short, partial(shorten_quotients, x=x), monitor)
        best = min(best, row.criterion)
        rows.append(row)
    return Verdict.of(p, rows)


def _shortened(
    p: Problem, row: Judged, shorten: Callable[[PowerSum], list[tuple[PowerSum, Free]]], monitor: Monitor
) -> Judged:
    """The row with a shorter law, as long as that makes it better."""
    while not monitor.stopping():
        tried = [_without_nothing(p, refit(p, *shorter, before=row)) for shorter in shorten(row.polished.law)]
        better = [one for one in tried if one.criterion < row.criterion]
        if not better:
            break
        row = min(better, key=lambda one: one.criterion)
    return row


def _without_nothing(p: Problem, row: Judged) -> Judged:
    """The row without terms that are next to nothing, if it is better: a shorter form may come with such a term."""
    terms, powers, _ = shares_of(row.polished.law, row.polished.free, pooled(p.smooth))
    if not (terms < CRITERION.nothing).any():
        return row
    after = refit(p, *without_numbers(row.polished, terms < CRITERION.nothing, powers < 0.0), before=row)
    return min(row, after, key=lambda one: one.criterion)


def simplify_exponents(verdict: Verdict, monitor: Monitor) -> Verdict:
    """The laws that could still win, with simple exponents where the data cannot tell."""
    p, best = verdict.p, verdict.best.criterion
    monitor.stage("snap", len(verdict.rows))
    rows = []
    for i, row in enumerate(verdict.rows):
        law, free = row.polished.law, row.polished.free
        gain = int(free[1].sum()) * constant_penalty(law.n_states, row.polished.counts.sum())
        gain += price_of_powers(p, row.polished)
        if row.criterion - gain < best and not monitor.stopping():
            row = snap(row, partial(refit, p, before=row))
            best = min(best, row.criterion)
        rows.append(row)
        monitor.step(i + 1)
    return Verdict.of(p, rows)


def prefer_shared_monomials(verdict: Verdict, monitor: Monitor) -> Verdict:
    """The verdict for a law with an equation made of monomials that others have, if one is better.

    Such a law may lie beyond what a step from the present one reaches, and a start that went to 0 is slow to leave
    it, so that each is refitted from the measured starts as well.
    """
    p, row = verdict.p, verdict.best
    if p.clean or p.knowledge is not None or row.polished.law.stoichiometry is not None:
        return verdict
    while not monitor.stopping():
        better = monitor.in_time(JUDGING, partial(_likeliest_sharing, p, row, monitor), row)
        if not better.criterion < row.criterion:
            break
        row = better
    if row is verdict.best:
        return verdict
    return dataclasses.replace(verdict, rows=(*verdict.rows, row), chosen=len(verdict.rows))


def _likeliest_sharing(p: Problem, row: Judged, monitor: Monitor) -> Judged:
    """The best law in which one equation of the row is made of what others have, or the row if it is better."""
    found, best = row.polished, row
    if has_whole_powers(found.law):
        return row
    # With other terms it has no name.
    origin = Origin(row.origin.law, "regression") if row.origin.is_textbook else row.origin
    before = dataclasses.replace(row, origin=origin)
    shared = share_monomials(found.law, found.free, pooled(p.smooth))
    for (law, free), start in itertools.product(shared, (found.initial, p.initial)):
        if monitor.stopping():
            break
        after = _without_nothing(p, refit(p, law, free, start, before=before))
        if after.polished.finite:
            best = min(best, snap(after, partial(refit, p, before=after)), key=lambda one: one.criterion)
    return best


def refit(
    p: Problem, law: PowerSum, free: Free, initial: Array | None = None, *, before: Judged, fully: bool = False
) -> Judged:
    """A changed law fitted from where a row stands, each state weighed by what the row leaves; see `polish`.

    Args:
        initial: start values to begin from (default: those of the row).
    """
    found = before.polished
    start = found.initial if initial is None else initial
    after = refined(p, law, free, start, residual_sigma(p, found), fully=fully)
    return judge_on(p, after, before.origin, fragile=before.fragile)
