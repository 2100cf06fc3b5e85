"""The judged laws simplified and refined, and followed where they are chaotic.

The shortlist polished, judged and simplified: rows of the Pareto front.

The claimed law refined on more than it was found with, and what stays open of it.

Laws are found and judged on what they can be judged on: thinned series, pieces that they can follow.
Here their constants see longer pieces and all samples.

Trajectories that no law can follow from one start are cut into pieces that it can.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from odediscovery.data.controls import drop_appended_controls
from odediscovery.data.series import TimeSeries, complete, pooled
from odediscovery.discovery.task import Task
from odediscovery.errors import FitError
from odediscovery.judge.claim import SIGNIFICANCE, idle_constants, idle_terms, is_needed, weak_terms
from odediscovery.judge.criterion import (
    CRITERION,
    Verdict,
    find_ties,
    judge_on,
    penalty,
    price_of_nothing,
    price_of_powers,
    rank,
    score,
    shares_of,
    shortlist,
    sizes_beside_the_largest,
)
from odediscovery.judge.doubt import autocorrelation_inflation, memory
from odediscovery.judge.identifiability import undetermined_exponents
from odediscovery.judge.notes import Note, thinned
from odediscovery.laws.power_sum import Free, PowerSum, constant_penalty, count, value_penalty
from odediscovery.problem.prepare import prepare
from odediscovery.problem.problem import Problem
from odediscovery.runtime.arrays import ABOVE_ZERO, Array
from odediscovery.runtime.monitor import JUDGING, TELLING, Monitor
from odediscovery.search.moves import at_rest, each_alone
from odediscovery.search.refinement import (
    CHAOTIC_STATES,
    EVALUATIONS,
    follows,
    follows_closely,
    follows_exactly,
    is_long,
    lengthened,
    on_all_samples,
    refined,
    residual_sigma,
    sigma_of,
    with_constants,
    with_independent,
    without_excess,
    without_memory,
)
from odediscovery.solve.linearised import LinearisedTrajectory
from odediscovery.solve.sensitivities import residuals
from odediscovery.stages.polish.polish import POLISHING, as_it_is
from odediscovery.stages.polish.shorten import (
    merge_monomials,
    round_constants,
    share_monomials,
    shorten_functions,
    shorten_quotients,
    snap,
    without_numbers,
)
from odediscovery.stages.prune.prune import has_whole_powers, window_length
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
    return EVALUATIONS


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


def join_longer_pieces(whole: Problem, verdict: Verdict, monitor: Monitor) -> Verdict:
    """The claimed law with constants from longer pieces of the trajectories.

    Args:
        whole: the series in whole trajectories; nothing is done where the verdict is on these.
    """
    if verdict.p is whole or monitor.stopping():
        return verdict
    return verdict.with_best(lengthened(whole, verdict.p, verdict.best, monitor))


def refine_constants(verdict: Verdict, monitor: Monitor) -> Verdict:
    """The claimed law with constants as near to the maximum of the likelihood as can be.

    Laws that were only compared are not that near.
    """
    p, best = verdict.p, verdict.best
    if p.clean or monitor.stopping():
        return verdict
    found = best.polished
    after = refit(p, found.law, found.free, before=best, fully=True)
    if not after.polished.finite or after.criterion > best.criterion + POLISHING.gain:
        return verdict
    return verdict.with_best(dataclasses.replace(after, criterion=min(after.criterion, best.criterion)))


def drop_excess(verdict: Verdict) -> Verdict:
    """The laws without terms that a conserved sum does not need."""
    rows = tuple(without_excess(verdict.p, row) for row in verdict.rows)
    return dataclasses.replace(verdict, rows=rows)


def write_short(verdict: Verdict, monitor: Monitor) -> Verdict:
    """The claimed law of data without noise with short decimals for constants that are some; see `decimals`.

    What is left of them is fitted again. Where nothing is, starts keep their errors: exact data leave the error of
    solvers, and knowing the constants makes that no smaller.
    """
    p, row = verdict.p, verdict.best
    found = row.polished
    if not p.clean or p.knowledge is not None or found.law.stoichiometry is not None or monitor.stopping():
        return verdict
    short = round_constants(found, p.scale)
    if short is None:
        return verdict
    law, free = short.polished.law, short.polished.free
    after = refit(p, law, free, before=row, fully=True) if count(free) else with_constants(p, row, short.polished)
    if not after.polished.finite or after is row:
        return verdict
    ties = find_ties(found, p.scale.state).number - find_ties(after.polished, p.scale.state).number
    spared = constant_penalty(found.law.n_states, found.counts.sum()) * (count(found.free) - count(free))
    spared -= value_penalty(found.counts.sum()) * ties
    worse = after.criterion + spared - judge_on(p, found, row.origin, fragile=row.fragile).criterion
    # Among the others the law keeps its place: how it is written is no evidence for its terms.
    return verdict.with_best(dataclasses.replace(after, criterion=row.criterion)) if worse <= short.saved else verdict


def drop_idle_terms(verdict: Verdict, monitor: Monitor) -> Verdict:
    """The claimed law without terms that the data do not tell from nothing, where it is about as good."""
    p, row = verdict.p, verdict.best
    if p.clean or p.knowledge is not None or monitor.stopping():
        return verdict
    for _ in range(SIGNIFICANCE.rounds):
        shorter = _without_one(p, row, verdict.rows)
        if shorter is None or monitor.stopping():
            break
        row = shorter
    return verdict if row is verdict.best else verdict.with_best(row)


def drop_artefacts(verdict: Verdict, monitor: Monitor) -> Verdict:
    """The verdict with laws that lack numbers that are next to nothing beside those with them, if one of them is best.

    Such a number may be what a solver's error looks like. Steps damp and shift what they follow, as a small term
    would, or a power that is a little off: but for errors of second order, values of Euler's method obey

        x' = f(x) - h/2 (df/dx) f(x)

    Where a law leaves no more than a solver may without such numbers, what it leaves has the memory of the states
    and says little, so that they are believed only beyond doubt (`criterion`).

    Source: Hairer, Lubich and Wanner, Geometric Numerical Integration (2006), chapter IX.
    """
    p = verdict.p
    if p.knowledge is not None or p.heads is not None:
        return verdict
    plainer = [after for row in verdict.rows if (after := _plainer(p, row, verdict.best.criterion, monitor))]
    if not plainer:
        return verdict
    r = np.max([_memory(p, row) for row in plainer], axis=0)
    if not p.clean:  # what has no memory of noisy data is their noise, and no solver's error
        r = np.where(_memory(p, verdict.best) > 0.0, r, 0.0)
    share = without_memory(r) if p.independent is None else np.minimum(without_memory(r), p.independent)
    judged = Verdict.of(p, [*verdict.rows, *plainer])
    judged = with_independent(judged, share) if (r > 0).any() else judged
    # Likelier laws than the claimed one were passed over for a reason.
    passed_over = [row.criterion < verdict.best.criterion for row in verdict.rows] + [False] * len(plainer)
    left = [i for i, over in enumerate(passed_over) if not over]
    chosen = min(left, key=lambda i: judged.rows[i].criterion)
    return verdict if chosen == verdict.chosen else dataclasses.replace(judged, chosen=chosen, reasons=verdict.reasons)


def _memory(p: Problem, row: Judged) -> Array:
    return memory(residuals(row.polished.law, p.data, row.polished.initial))


def _plainer(p: Problem, row: Judged, best: float, monitor: Monitor) -> Judged | None:
    """The row without numbers that are next to nothing; None without such, or where it leaves more than a solver."""
    found = row.polished
    most = min(CRITERION.nothing, _largest_artefact(p, found))
    terms, powers, _ = (share < most for share in shares_of(found.law, found.free, pooled(p.smooth)))
    tiny = np.count_nonzero(terms) + np.count_nonzero(powers)
    spared = price_of_nothing(p, found) + tiny * constant_penalty(found.law.n_states, found.counts.sum())
    if not tiny or row.criterion - spared > best or monitor.stopping():
        return None
    after = refit(p, *without_numbers(found, terms, powers), before=row, fully=True)
    allowed = found.counts * (CRITERION.solver * np.nanstd(pooled(p.data), axis=0)) ** 2
    within = (after.polished.squares <= allowed)[~p.constant].all()
    return after if after.polished.finite and within else None


def _largest_artefact(p: Problem, found: Polished) -> float:
    """The largest share that a number may have which is but a solver's error, by what the law with it leaves.

    Such numbers stand for the first order of an error, s, and leave its second, s^2, or more: what leaves far less
    is no error.
    """
    spread = np.nanstd(pooled(p.data), axis=0)[~p.constant]
    left = np.sqrt(found.squares / found.counts.clip(1))[~p.constant] / np.maximum(spread, ABOVE_ZERO)
    return float(np.sqrt(CRITERION.remainder * max(left.max(initial=0.0), ABOVE_ZERO)))


def _without_one(p: Problem, row: Judged, rows: Sequence[Judged]) -> Judged | None:
    """The row without one of its idle constants that it can do without, or its weakest term if that is better.

    What a name saves a law is no evidence for a single one of its terms; but nobody looked for these one by one, and
    they need no more than to be told from nothing. A likelier law among the rows was passed over for a reason.
    """
    found = row.polished
    inflation = autocorrelation_inflation(residuals(found.law, p.data, found.initial))
    chosen = judge_on(p, found, row.origin).criterion
    idle = [] if row.origin.acts else idle_terms(found, inflation)
    origin = dataclasses.replace(row.origin, acts=False)
    weak = [] if row.origin.is_textbook else weak_terms(found)[:1]
    terms = (_without_term(found, i, j) for i, j in idle or weak)
    for law, left in (*_without_sums(found, inflation), *terms):
        passed_over = (one for one in rows if one.criterion < row.criterion)
        if not law.n_monomials or any(_has_terms_of(one.polished.law, law) for one in passed_over):
            continue
        shorter = refined(p, law, left, found.initial, residual_sigma(p, found), fully=False)
        if not shorter.finite or is_needed(found, shorter, sigma_of(p), inflation):
            continue
        after = judge_on(p, shorter, origin, fragile=row.fragile)
        if after.criterion < chosen + CRITERION.no_evidence * bool(idle or idle_constants(found, inflation)):
            return dataclasses.replace(after, criterion=after.criterion + row.criterion - chosen)
    return None


def _has_terms_of(one: PowerSum, other: PowerSum) -> bool:
    """Whether two laws without functions have the same terms, in any order."""
    if one.features is not None or other.features is not None or one.stoichiometry is not None:
        return False
    terms = [
        {(i, *np.round(law.exponents[j], 6)) for i, j in np.argwhere(law.coefficients != 0).tolist()}
        for law in (one, other)
    ]
    return terms[0] == terms[1]


def _without_term(found: Polished, i: int, j: int) -> tuple[PowerSum, Free]:
    """The law without a term of an equation, and what of it is fitted."""
    a, free = found.law.coefficients.copy(), found.free[0].copy()
    a[i, j], free[i, j] = 0.0, False
    _, w, b, v = found.law.constants
    return merge_monomials(found.law.with_constants(a, w, b, v), (free, *found.free[1:]))


def _without_sums(found: Polished, inflation: float) -> Iterator[tuple[PowerSum, Free]]:
    """Laws without one of the constants inside sums that could be nothing; a sum of 1 alone is none."""
    for m, k in idle_constants(found, inflation):
        law, free = found.law, [mask.copy() for mask in found.free]
        a, w, b, v = (c.copy() for c in law.constants)
        b[m, k], free[2][m, k] = 0.0, False
        simple = w.shape[1] - len(b)
        if not b[m].any():
            w[:, simple + m], free[1][:, simple + m] = 0.0, False
        unused = ~b.any(axis=0)
        v[unused], free[3][unused] = 0.0, False
        law = law.with_constants(a, w, b, v)
        if not w[:, law.n_states :].any():
            law = law.compact()
            free = [free[0], free[1][:, : law.n_states], *(c != 0 for c in law.constants[2:])]
        yield merge_monomials(law, (free[0], free[1], free[2], free[3]))


def explain_open_exponents(verdict: Verdict, monitor: Monitor) -> list[Note]:
    """Exponents of the claimed law that the data leave open, one sentence each."""
    p, found = verdict.p, verdict.best.polished
    if p.clean or monitor.stopping():
        return []
    sigma = residual_sigma(p, found)
    return undetermined_exponents(
        p, found, lambda law, free, most=None: refined(p, law, free, found.initial, sigma, most)
    )


def judge_all_samples(task: Task, verdict: Verdict) -> tuple[Verdict, TimeSeries]:
    """The verdict on all samples if the claimed law follows them, and the series it is on.

    Laws are sought in fewer samples of a long series. Where trajectories were cut, where a state has
    another sign among all samples, or where the time is up, the verdict stays with the few.
    """
    p, monitor = verdict.p, task.monitor
    if task.few is task.every:
        return verdict, task.series
    if p.heads is None and not monitor.stopping():
        moved = monitor.in_time(TELLING, lambda: _on_all(task, verdict), None)
        if moved is not None:
            # More samples moved the constants that a conserved sum had balanced.
            return drop_excess(moved), task.series
    return stay_with_few(task, verdict)


def _on_all(task: Task, verdict: Verdict) -> Verdict | None:
    """The verdict on all samples; None where the claimed law does not follow them."""
    p = verdict.p
    whole = prepare(task.every, smoothing=False)
    knowledge = p.given and p.given.rescaled(whole.scale.state, whole.scale.time)
    messages = (*p.messages, *_thinned(task, on_all=True))
    # What is without noise was found out with a law, by the few samples.
    exact = whole.without_noise(None) if p.clean else whole
    whole = dataclasses.replace(exact, smooth=whole.smooth, knowledge=knowledge, given=p.given, messages=messages)
    same_signs = (np.sign(whole.scale.state) == np.sign(p.scale.state)).all()
    return on_all_samples(whole, verdict, task.monitor) if same_signs else None


def stay_with_few(task: Task, verdict: Verdict) -> tuple[Verdict, TimeSeries]:
    """The verdict on the samples that the search saw, which says so, and the series of these."""
    if task.few is task.every:
        return verdict, task.series
    p = dataclasses.replace(verdict.p, messages=(*verdict.p.messages, *_thinned(task, on_all=False)))
    return dataclasses.replace(verdict, p=p), drop_appended_controls(task.few)


def _thinned(task: Task, *, on_all: bool) -> list[Note]:
    """That laws were sought in fewer samples, where they were."""
    sought = complete(task.every) if on_all else task.every
    few, every = (sum(len(t.time) for t in series.trajectories) for series in (task.few, sought))
    runs = len(task.few.trajectories)
    in_runs = runs * (runs > len(sought.trajectories))
    return [thinned(every, few, on_all, in_runs)] if few < every else []


@dataclass(frozen=True)
class ChaosThresholds:
    """How it is decided that trajectories cannot be followed."""

    # laws that are tried on whole trajectories, the best on windows; cost: each is polished; one alone may fail by
    # chance
    laws: int = 3
    # errors of the start at the end of a trajectory from which on it is not tried to follow it [rms of the state];
    # measured: chaos was followed up to 5, limit cycles and orbits up to 60
    grown: float = 1e4


CHAOS = ChaosThresholds()


def cut_until_followed(
    whole: Problem, candidates: list[Candidate], monitor: Monitor
) -> tuple[Problem, dict[Candidate, Polished]]:
    """The series, cut into pieces if the laws that are best on windows cannot follow it whole.

    Nobody can follow chaos, or a fast oscillation in noise, from one start to its end.

    Returns:
        The series, and those laws that were polished on it to find out.
    """
    p = whole
    for extrema in (None, 2.0):
        length = window_length(whole, extrema)
        if monitor.stopping():  # no time to try
            return (p.pieces(length) if p is whole and _seems_lost(p, candidates, length) else p), {}
        lost, polished = cannot_follow(p, candidates, length)
        if not lost:
            return p, polished
        p = whole.pieces(length)
    return p, {}


def cannot_follow(p: Problem, candidates: list[Candidate], length: int) -> tuple[bool, dict[Candidate, Polished]]:
    """Whether no law follows trajectories much longer than `length` intervals to their ends.

    None of the laws that are best on windows does: each explains too little of the trajectories, or
    much less than of the windows. A single law that follows chaos would do so by luck.

    Returns:
        The answer, and the laws that were polished for it.
    """
    polished: dict[Candidate, Polished] = {}
    if not is_long(p, length):
        return False, polished
    floor = STAGES.settled if p.clean else 0.0
    listed = shortlist(candidates, p.samples, floor, around=1)
    for c in sorted(listed, key=lambda c: score(c, p.samples, floor))[: CHAOS.laws]:
        if _outgrows(p, c.law):
            continue
        found = polished[c] = polish_candidate(p, c, c.law, c.free, EVALUATIONS)
        if follows(p, found) and (follows_exactly(p, found, c) if p.clean else follows_closely(p, found, c)):
            return False, polished
    return True, polished


def _seems_lost(p: Problem, candidates: list[Candidate], length: int) -> bool:
    """Whether none of the laws that are best on windows may be expected to follow trajectories that long."""
    if not is_long(p, length):
        return False
    best = rank(candidates, p.samples)[: CHAOS.laws]
    return p.longest_window is not None or all(_outgrows(p, c.law, blown_up=True) for c in best)


def _outgrows(p: Problem, law: PowerSum, *, blown_up: bool = False) -> bool:
    """Whether the law makes far more of errors of the start than any state is large: no start is known well enough.

    Where controls act that is not asked: a trajectory is linearised without them.

    Args:
        blown_up: the answer for a law that blows up as it is; refined it may not.
    """
    error = float(p.start_errors.max(initial=0.0))
    if not error > 0.0 or law.n_states < CHAOTIC_STATES or p.data.controls:
        return False
    along = LinearisedTrajectory.of(p, law, p.initial, sigma_of(p))
    growth = math.nan if along is None else along.error_growth()
    return blown_up if math.isnan(growth) else growth + math.log(error) > math.log(CHAOS.grown)
