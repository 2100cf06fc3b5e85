"""Changes to laws after the search: they are polished, judged, simplified and refined, and one of them is claimed.

Laws are found and judged on suitable data: thinned series, and pieces that they can follow.
Here their constants are fitted to longer pieces and all samples.

Trajectories that no law can follow from one start are cut into pieces.

The criterion measures how closely a law follows the samples it was fitted to. A law that merely follows these samples
fails on unseen ones, so blocks of time are held out in turn. The claimed law is fitted to all samples where it can
follow them. Textbook laws compete too; one wins if it is better, or about as good with no more constants.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from odediscovery.data.series import TimeSeries, complete, drop_appended_controls, pooled
from odediscovery.discovery.conclude import add_messages
from odediscovery.discovery.fit_constants import fit_form
from odediscovery.discovery.task import Task
from odediscovery.errors import FitError
from odediscovery.judge.claim import (
    autocorrelation_inflation,
    has_idle_terms,
    idle_constants,
    idle_terms,
    is_needed,
    is_walk_as_good,
    residuals_of,
    weak_terms,
)
from odediscovery.judge.criterion import (
    NO_EVIDENCE,
    Verdict,
    count_constants,
    find_ties,
    judge_on,
    penalty,
    price_of_nothing,
    price_of_powers,
    rank,
    score,
    shortlist,
)
from odediscovery.judge.notes import Note, held_and_fitted, simpler_and_nearer, thinned, walk_as_good
from odediscovery.judge.remarks import undetermined_exponents
from odediscovery.laws.power_sum import Free, PowerSum, but_whole_powers, constant_penalty, count, value_penalty
from odediscovery.laws.records import SETTLED, Candidate, FittedForm, Judged, Origin, Polished, interval
from odediscovery.problem.problem import Problem, linear_relations, prepare
from odediscovery.result.discovery import Discovery, rest
from odediscovery.result.front import FrontRow
from odediscovery.runtime.arrays import Array
from odediscovery.runtime.monitor import JUDGING, TELLING, Monitor
from odediscovery.search.moves import at_rest, each_alone
from odediscovery.search.refinement import (
    EVALUATIONS,
    follows_closely,
    follows_exactly,
    is_long,
    lengthened,
    on_all_samples,
    refined,
    residual_sigma,
    with_constants,
    without_excess,
)
from odediscovery.solve.sensitivities import residuals
from odediscovery.stages.polish import CONVERGED, as_it_is, merge_monomials, round_constants, shorten_quotients, snap
from odediscovery.stages.prune import EXTREMA, FEW_EXTREMA, window_length
from odediscovery.stages.regression import fewest_terms
from odediscovery.textbook.fit import (
    Fitter,
    as_judged,
    as_numbers,
    complexity_of,
    covariance_of,
    criterion_of,
    has_terms_of,
    merged,
    named_constants,
    price_of_name,
    recognise,
    row_of,
    weighted_squares,
)

# Largest change of rates when a law is written in other products [share of the rates]; constants are then fitted again.
SAME_RATES = 1e-3


def polish_candidate(p: Problem, c: Candidate, most: int) -> Polished:
    """A law refined on whole trajectories, or on the pieces of cut ones, with exponents within their bounds.

    Args:
        c: the candidate, dimensionless.
        most: most evaluations of the Jacobian.
    """
    initial = c.initial if p.heads is None else p.initial
    found = refined(p, c.law, c.free, initial, p.sigma, most, fully=False)
    if p.knowledge is not None and found.finite and not p.knowledge.allows(found.law):
        # Exponents that left their bounds are fixed there.
        found = refined(p, found.law, found.free, found.initial, p.sigma, most, fully=False)
    return found


def judge_shortlist(
    p: Problem, candidates: list[Candidate], known: Mapping[Candidate, Polished], monitor: Monitor
) -> Verdict:
    """Polish and judge the shortlist.

    Args:
        known: laws that are already polished.

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
    """Refine the shortlist's constants on whole trajectories (or pieces) and judge the laws, but those that blow up.

    Laws more complex than one without residuals are skipped: they could only fit rounding.

    Args:
        known: laws that are already polished.
    """
    floor = SETTLED if p.clean else 0.0
    # A stop takes effect soon: fewer laws, polished roughly.
    around = 1 if monitor.stopping() else None
    listed = shortlist(candidates, p.samples, floor, around=around)
    if around is not None:  # the likeliest laws come first, before the time is up
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
        # The laws that are best on windows may blow up beyond them if they could not be refined in time.
        return polish_shortlist(p, [c for c in candidates if c not in listed], known, monitor)
    if not rows:
        # There was no time to polish any law, or all of them blow up: a result is written in any case.
        return _first_that_lasts(p, [*rank(candidates, p.samples)[:3], each_alone(p)])
    return rows


def _judged(p: Problem, c: Candidate, known: Mapping[Candidate, Polished], most: int) -> Judged | None:
    """A candidate polished and judged; None if it cannot be integrated or printed."""
    polished = known.get(c) or polish_candidate(p, c, most)
    if not (polished.finite and _is_printable(p, polished.law)):
        return None
    return judge_on(p, polished, Origin(c.origin, c.found_by))


def _first_that_lasts(p: Problem, candidates: Sequence[Candidate]) -> list[Judged]:
    """The first candidate that can be integrated, unrefined; at worst states at rest."""
    for c in (*candidates, at_rest(p)):
        initial = c.initial if p.heads is None else p.initial
        found = as_it_is(c.law, p.data, initial, p.sigma, c.free, p.relative_sigma)
        if found.finite and _is_printable(p, found.law):
            return [judge_on(p, found, Origin(c.origin, c.found_by))]
    return []


def _steps(p: Problem, c: Candidate, least: float, monitor: Monitor) -> int:
    """Most evaluations for polishing a candidate."""
    if monitor.stopping():
        return 3
    # Candidates this many times worse than the best are polished roughly [ratio of mean squares]
    if c.mean_square > 10.0 * least:
        # On clean data such a law will not prove right.
        return 4 if p.clean else 8
    return EVALUATIONS


def _is_needless(p: Problem, c: Candidate, row: Judged) -> bool:
    """Whether a candidate cannot improve on a simpler row of clean data.

    Rounding and integration explain the row's residuals on whole trajectories.
    """
    best = row.polished
    if not p.clean or c.law.complexity <= best.law.complexity:
        return False
    starts = c.initial.size
    dearer = penalty(c.law, c.free, p.samples, starts) >= penalty(best.law, best.free, p.samples, starts)
    return dearer and bool((best.squares <= best.counts * p.sigma**2).all())


def lower_noise(verdict: Verdict) -> Verdict:
    """The laws judged again with less noise if the residuals of one are far below the estimate.

    Fast changes that are sampled coarsely look like noise until a law is known.
    """
    p, rows = verdict.p, verdict.rows
    left = np.stack([r.polished.squares / r.polished.counts.clip(1) for r in rows])
    share = (left / p.sigma**2).min(axis=0)
    # Residuals below this share of the noise's variance show that the noise is smaller [ratio of variances]
    quiet = share < 0.5
    if p.clean or not quiet.any():
        return verdict
    p = dataclasses.replace(p, noise=np.where(quiet, np.sqrt(share) * p.noise, p.noise))
    return verdict.with_rows([judge_on(p, r.polished, r.origin) for r in rows], p)


def _is_printable(p: Problem, law: PowerSum) -> bool:
    """Whether the coefficients in the user's units are finite."""
    return bool(np.isfinite(law.unscaled(p.scale.state, p.scale.time).coefficients).all())


def simplify_quotients(verdict: Verdict, monitor: Monitor) -> Verdict:
    """The laws that could still win, with fewer constants in terms over sums where these are as good."""
    p, best, rows = verdict.p, verdict.best.criterion, list[Judged]()
    if p.knowledge is not None:
        return verdict
    x = pooled(p.smooth)
    for row in verdict.rows:
        found = row.polished
        most = best + count(found.free) * constant_penalty(found.law.n_states, found.counts.sum())
        while row.criterion < most and not monitor.stopping():
            tried = [refit(p, *shorter, before=row) for shorter in shorten_quotients(row.polished.law, x)]
            better = min(tried, key=lambda one: one.criterion, default=row)
            if not better.criterion < row.criterion:
                break
            row = better
        best = min(best, row.criterion)
        rows.append(row)
    return verdict.with_rows(rows)


def simplify_exponents(verdict: Verdict, monitor: Monitor) -> Verdict:
    """The laws that could still win, with simple exponents and gates where the difference is not significant."""
    p, best = verdict.p, verdict.best.criterion
    monitor.stage("snap", len(verdict.rows))
    rows = []
    for i, row in enumerate(verdict.rows):
        law, free = row.polished.law, row.polished.free
        gain = int(free[1].sum() + free[2].sum()) * constant_penalty(law.n_states, row.polished.counts.sum())
        gain += price_of_powers(p, row.polished)
        if row.criterion - gain < best and not monitor.stopping():
            row = snap(row, partial(refit, p, before=row), p.scale.state)
            best = min(best, row.criterion)
        rows.append(row)
        monitor.step(i + 1)
    return verdict.with_rows(rows)


def refit(
    p: Problem, law: PowerSum, free: Free, initial: Array | None = None, *, before: Judged, fully: bool = False
) -> Judged:
    """Fit a changed law from the starts of a row, with weights from the row's residuals, and judge it; see `polish`.

    Args:
        initial: start values of the fit (default: those of the row).
    """
    found = before.polished
    start = found.initial if initial is None else initial
    after = refined(p, law, free, start, residual_sigma(p, found), fully=fully)
    return judge_on(p, after, before.origin)


def join_longer_pieces(whole: Problem, verdict: Verdict, monitor: Monitor) -> Verdict:
    """Refine the constants of the claimed law on longer pieces of the trajectories.

    Args:
        whole: the series in whole trajectories; if the verdict is on these, it is returned unchanged.
    """
    if verdict.p is whole or monitor.stopping():
        return verdict
    return verdict.with_best(lengthened(whole, verdict.p, verdict.best, monitor))


def refine_constants(verdict: Verdict, monitor: Monitor) -> Verdict:
    """Refine the constants of the claimed law to the maximum of the likelihood.

    Comparisons need less accuracy.
    """
    p, best = verdict.p, verdict.best
    if p.clean or monitor.stopping():
        return verdict
    found = best.polished
    after = refit(p, found.law, found.free, before=best, fully=True)
    if not after.polished.finite or after.criterion > best.criterion + CONVERGED:
        return verdict
    return verdict.with_best(dataclasses.replace(after, criterion=min(after.criterion, best.criterion)))


def drop_excess(verdict: Verdict) -> Verdict:
    """The laws without terms that a conserved sum makes superfluous."""
    rows = tuple(without_excess(verdict.p, row) for row in verdict.rows)
    return dataclasses.replace(verdict, rows=rows)


def spare_terms(verdict: Verdict, monitor: Monitor) -> Verdict:
    """The claimed law in the fewest products, if linear relations of the states leave a choice.

    With A - B = d, each of -k*A*B and -k*B^2 - k*d*B has the same rates; the shorter one is the likelier law.
    """
    p, row = verdict.p, verdict.best
    if p.heads is not None or row.origin.is_textbook or monitor.stopping() or not linear_relations(p):
        return verdict
    law = fewest_terms(row.polished.law, p, SAME_RATES)
    if law is None:
        return verdict
    after = refit(p, law, but_whole_powers(law), before=row)
    return verdict.with_best(after) if after.polished.finite and after.criterion < row.criterion else verdict


def write_short(verdict: Verdict, monitor: Monitor) -> Verdict:
    """The claimed law of noiseless data, with constants set to short decimals near them; see `round_constants`.

    Other constants are fitted again. If there are none, the starts keep their errors: the errors of exact data are
    those of solvers, which known constants do not reduce.
    """
    p, row = verdict.p, verdict.best
    found = row.polished
    if not p.clean or p.knowledge is not None or found.law.stoichiometry is not None or monitor.stopping():
        return verdict
    short = round_constants(found, p.scale)
    if short is None:
        return verdict
    rounded, saved = short
    law, free = rounded.law, rounded.free
    after = refit(p, law, free, before=row, fully=True) if count(free) else with_constants(p, row, rounded)
    if not after.polished.finite or after is row:
        return verdict
    ties = find_ties(found, p.scale.state).number - find_ties(after.polished, p.scale.state).number
    spared = constant_penalty(found.law.n_states, found.counts.sum()) * (count(found.free) - count(free))
    spared -= value_penalty(found.counts.sum()) * ties
    worse = after.criterion + spared - judge_on(p, found, row.origin).criterion
    # The law keeps its rank: short constants are no evidence for its terms.
    return verdict.with_best(dataclasses.replace(after, criterion=row.criterion)) if worse <= saved else verdict


def drop_idle_terms(verdict: Verdict, monitor: Monitor) -> Verdict:
    """The claimed law without terms that are not significant, if it is about as good."""
    p, row = verdict.p, verdict.best
    if p.clean or p.knowledge is not None or monitor.stopping():
        return verdict
    # Most terms that are removed
    for _ in range(6):
        shorter = _without_one(p, row)
        if shorter is None or monitor.stopping():
            break
        row = shorter
    return verdict if row is verdict.best else verdict.with_best(row)


def _without_one(p: Problem, row: Judged) -> Judged | None:
    """The row without one idle constant that it does not need, or without its weakest term if it is better so.

    The lower charge for a name is no evidence for a single term; but these terms were not chosen one by one, so
    they need only be significant.
    """
    found = row.polished
    inflation = autocorrelation_inflation(residuals_of(p, found))
    chosen = judge_on(p, found, row.origin).criterion
    idle = [] if row.origin.acts else idle_terms(found, inflation)
    origin = dataclasses.replace(row.origin, acts=False)
    weak = [] if row.origin.is_textbook else weak_terms(found)[:1]
    terms = (_without_term(found, i, j) for i, j in idle or weak)
    for law, left in (*_without_sums(found, inflation), *terms):
        if not law.n_monomials:
            continue
        shorter = refined(p, law, left, found.initial, residual_sigma(p, found), fully=False)
        if not shorter.finite or is_needed(found, shorter, p.sigma, inflation):
            continue
        after = judge_on(p, shorter, origin)
        if after.criterion < chosen + NO_EVIDENCE * bool(idle or idle_constants(found, inflation)):
            return dataclasses.replace(after, criterion=after.criterion + row.criterion - chosen)
    return None


def _without_term(found: Polished, i: int, j: int) -> tuple[PowerSum, Free]:
    """The law without a term of an equation, and its free constants."""
    a, free = found.law.coefficients.copy(), found.free[0].copy()
    a[i, j], free[i, j] = 0.0, False
    _, w, b, v = found.law.constants
    return merge_monomials(found.law.with_constants(a, w, b, v), (free, *found.free[1:]))


def _without_sums(found: Polished, inflation: float) -> Iterator[tuple[PowerSum, Free]]:
    """Laws without one of the insignificant constants inside sums; a sum of 1 alone is removed."""
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
    """Notes on exponents of the claimed law that the data leave open, one sentence each."""
    p, found = verdict.p, verdict.best.polished
    if p.clean or monitor.stopping():
        return []
    sigma = residual_sigma(p, found)
    return undetermined_exponents(
        p, found, lambda law, free, most=None: refined(p, law, free, found.initial, sigma, most)
    )


def judge_all_samples(task: Task, verdict: Verdict) -> tuple[Verdict, TimeSeries]:
    """The verdict on all samples if the claimed law follows them, and the series for it.

    The search uses fewer samples of a long series. If trajectories were cut, a state has another
    sign in all samples, or the time is up, the verdict remains on the few.
    """
    p, monitor = verdict.p, task.monitor
    if task.few is task.every:
        return verdict, task.series
    if p.heads is None and not monitor.stopping():
        moved = monitor.in_time(TELLING, lambda: _on_all(task, verdict), None)
        if moved is not None:
            # Refitting has changed the constants that a conserved sum had balanced.
            return drop_excess(moved), task.series
    return stay_with_few(task, verdict)


def _on_all(task: Task, verdict: Verdict) -> Verdict | None:
    """The verdict on all samples; None if the claimed law does not follow them."""
    p = verdict.p
    whole = prepare(task.every, smoothing=False)
    knowledge = p.given and p.given.rescaled(whole.scale.state, whole.scale.time)
    messages = (*p.messages, *_thinned(task, on_all=True))
    # A law showed on the few samples that there is no noise.
    exact = whole.without_noise(None) if p.clean else whole
    whole = dataclasses.replace(exact, smooth=whole.smooth, knowledge=knowledge, given=p.given, messages=messages)
    same_signs = (np.sign(whole.scale.state) == np.sign(p.scale.state)).all()
    return on_all_samples(whole, verdict, task.monitor) if same_signs else None


def stay_with_few(task: Task, verdict: Verdict) -> tuple[Verdict, TimeSeries]:
    """The verdict on the samples that the search saw, with a note on this, and the series of these."""
    if task.few is task.every:
        return verdict, task.series
    p = dataclasses.replace(verdict.p, messages=(*verdict.p.messages, *_thinned(task, on_all=False)))
    return dataclasses.replace(verdict, p=p), drop_appended_controls(task.few)


def _thinned(task: Task, *, on_all: bool) -> list[Note]:
    """A note that the search used fewer samples, if it did."""
    sought = complete(task.every) if on_all else task.every
    few, every = (sum(len(t.time) for t in series.trajectories) for series in (task.few, sought))
    runs = len(task.few.trajectories)
    in_runs = runs * (runs > len(sought.trajectories))
    return [thinned(every, few, on_all, in_runs)] if few < every else []


# Number of laws, best on windows, that are tried on whole trajectories; each is polished, and one alone may fail by
# chance
LAWS_IN_CHAOS = 3


def cut_until_followed(
    whole: Problem, candidates: list[Candidate], monitor: Monitor
) -> tuple[Problem, dict[Candidate, Polished]]:
    """The series, cut into pieces if the laws that are best on windows cannot follow it whole.

    No law can follow chaos, or a fast oscillation in noise, from one start to its end.

    Returns:
        The series, and the laws that were polished on it for the test.
    """
    p = whole
    for extrema in (EXTREMA, FEW_EXTREMA):
        length = window_length(whole, extrema)
        if monitor.stopping():  # no time to try
            lost = p is whole and p.longest_window is not None and is_long(p, length)
            return (p.pieces(length) if lost else p), {}
        lost, polished = cannot_follow(p, candidates, length)
        if not lost:
            return p, polished
        p = whole.pieces(length)
    return p, {}


def cannot_follow(p: Problem, candidates: list[Candidate], length: int) -> tuple[bool, dict[Candidate, Polished]]:
    """Whether no law follows trajectories much longer than `length` intervals to their ends.

    Each of the laws that are best on windows then explains too little of the trajectories, or
    much less than of the windows. A single law that followed chaos would do so by luck.

    Returns:
        The answer, and the laws that were polished for it.
    """
    polished: dict[Candidate, Polished] = {}
    if not is_long(p, length):
        return False, polished
    floor = SETTLED if p.clean else 0.0
    listed = shortlist(candidates, p.samples, floor, around=1)
    for c in sorted(listed, key=lambda c: score(c, p.samples, floor))[:LAWS_IN_CHAOS]:
        found = polished[c] = polish_candidate(p, c, EVALUATIONS)
        if follows_exactly(p, found, c) if p.clean else follows_closely(p, found, c):
            return False, polished
    return True, polished


# Number of blocks of time, each held out once
BLOCKS = 5
# A simpler law further behind is not a rival [criterion]
HOPEFUL = 30.0


def prefer_what_predicts(verdict: Verdict, monitor: Monitor) -> Verdict:
    """The verdict for a simpler law if it predicts held-out blocks of time clearly better."""
    p, best = verdict.p, verdict.best
    if p.clean or p.heads is not None or monitor.stopping() or not allows_blocks(p, best):
        return verdict
    size = count_constants(best.polished, p.scale.state)
    simpler = [
        i
        for i, row in enumerate(verdict.rows)
        if count_constants(row.polished, p.scale.state) < size and row.criterion < best.criterion + HOPEFUL
    ]
    simpler = sorted(simpler, key=lambda i: verdict.rows[i].criterion)[:3]
    if not simpler:
        return verdict
    monitor.stage("blocks", 1 + len(simpler))
    own, chosen = block_misfits(p, best), verdict.chosen
    least = float(own.sum()) - NO_EVIDENCE
    for k, i in enumerate(simpler):
        if monitor.stopping():
            return verdict
        each = block_misfits(p, verdict.rows[i])
        monitor.step(k + 2)
        if each.sum() < least and (each < own).sum() > len(own) / 2:
            least, chosen = float(each.sum()), i
    if chosen == verdict.chosen:
        return verdict
    monitor.note(event="blocks", complexity=verdict.rows[chosen].polished.law.complexity)
    return verdict.passed_over(chosen)


def allows_blocks(p: Problem, row: Judged) -> bool:
    """Whether there are enough samples to hold out a block."""
    fitted = count(row.polished.free) + row.polished.initial.size
    runs = [np.isfinite(t.values).any(axis=1).sum() for t in p.data.trajectories]
    return p.samples >= 4.0 * fitted and min(runs) >= 2 * BLOCKS


def block_misfits(p: Problem, row: Judged) -> Array:
    """Misfit of each held-out block, for a law fitted to all others [blocks]; inf if it blows up.

    It is logarithmic; residuals below noise, rounding and integration error hardly matter.
    """
    found, sigma = row.polished, p.sigma
    misfits = np.full(BLOCKS, np.inf)
    for b in range(BLOCKS):
        without, blocks = without_block(p.data, b)
        q = dataclasses.replace(p, data=without)
        fitted = refined(q, found.law, found.free, found.initial, residual_sigma(p, found), 6)
        if not fitted.finite:
            continue
        left = residuals(fitted.law, p.data, fitted.initial)
        squares = np.concatenate([r[block] ** 2 for r, block in zip(left, blocks, strict=True)])
        misfits[b] = misfit_of_block(squares, sigma)
    return misfits


def misfit_of_block(squares: Array, sigma: Array) -> float:
    """sum of n ln(mean square + sigma^2) over the states with samples in a block [samples, states]."""
    n, seen = np.isfinite(squares).sum(axis=0), np.isfinite(squares).any(axis=0)
    mean = np.nansum(squares, axis=0)[seen] / n[seen]
    return float((n[seen] * np.log(mean + sigma[seen] ** 2)).sum())


def without_block(series: TimeSeries, b: int) -> tuple[TimeSeries, list[slice]]:
    """The series without block b of each trajectory, and the place of the block."""
    runs, blocks = [], []
    for k, run in enumerate(series.trajectories):
        edges = np.linspace(0, len(run.time), BLOCKS + 1).round().astype(int)
        # Each trajectory loses another part, so that no time is missing everywhere.
        part = (b + k) % BLOCKS
        block = slice(int(edges[part]), int(edges[part + 1]))
        values = run.values.copy()
        values[block, ~series.is_control] = np.nan
        runs.append(dataclasses.replace(run, values=values))
        blocks.append(block)
    return dataclasses.replace(series, trajectories=tuple(runs)), blocks


def explain_dominated(found: Discovery) -> list[Note]:
    """A note on why a simpler row of the front that fits better than the chosen one was not chosen."""
    chosen = next(row for row in found.front if row.selected)
    rows = [row for row in found.front if row.complexity < chosen.complexity and row.mse < chosen.mse]
    if not rows:
        return []
    row = min(rows, key=lambda row: row.mse)
    return [simpler_and_nearer(row.complexity, _reason(row, chosen, found.series.states))]


def _told_apart(less: float, more: float) -> tuple[str, str]:
    """Two shares with enough digits to distinguish them.

    >>> _told_apart(0.21, 0.87), _told_apart(0.999971, 0.999976)
    (('0.2100', '0.8700'), ('0.99997', '0.99998'))
    """
    pairs = [(f"{less:.{digits}f}", f"{more:.{digits}f}") for digits in range(4, 13)]
    return next((pair for pair in pairs if pair[0] != pair[1]), pairs[-1])


def _reason(row: FrontRow, chosen: FrontRow, states: tuple[str, ...]) -> str:
    """The reason in words: a state that the row explains worse, or another disadvantage."""
    if row.state_r2 is not None and chosen.state_r2 is not None:
        with np.errstate(divide="ignore", invalid="ignore"):
            loss = np.nan_to_num(np.log((1.0 - row.state_r2) / (1.0 - chosen.state_r2)), nan=-np.inf)
        i = int(np.argmax(loss))
        if loss[i] > 0.0:
            less, more = _told_apart(float(row.state_r2[i]), float(chosen.state_r2[i]))
            return f"they explain less of {states[i]} (R2 = {less} instead of {more}), and every state counts alike"
    if chosen.name and not row.name:
        return f"they are hardly likelier than a law with a name ({chosen.name})"
    return (
        "more of their constants are fitted, or they hold for these samples only, which costs them more than they gain"
    )


# Decimals in the comparison of criteria
DIGITS = 2


def judge_textbook(p: Problem, fitted: Sequence[FittedForm]) -> Verdict:
    """The verdict on textbook laws alone.

    Raises:
        FitError: none is a sum of powers that can be integrated through the data.
    """
    rows = _judged_forms(p, fitted)
    if not rows:
        still = " and ".join([name for name, never in zip(p.data.states, p.constant, strict=True) if never])
        raise FitError(
            f"no law with a name has states that never change: leave {still} out with --states"
            if still
            else "no law could be integrated through the data; another --library may have one"
        )
    return dataclasses.replace(Verdict.of(p, rows), named=tuple(fitted))


def join_textbook(verdict: Verdict, monitor: Monitor) -> Verdict:
    """The verdict with named laws that are sums of powers and could win among its rows.

    If the time is up, only the best two compete: a hasty law must not win for lack of rivals.
    """
    p = verdict.p
    ranked = sorted(((criterion_of(p, one), i) for i, one in enumerate(verdict.named)), key=lambda pair: pair[0])
    hopeful = [verdict.named[i] for score, i in ranked if score < verdict.best.criterion + 50.0]
    # A stop must take effect soon.
    hopeful = hopeful[:2] if monitor.stopping() else hopeful
    return verdict.with_rows([*verdict.rows, *_judged_forms(p, hopeful)])


def _judged_forms(p: Problem, fitted: Sequence[FittedForm]) -> list[Judged]:
    """The forms that are sums of powers, judged by their terms or by their name, whichever is cheaper.

    A sum that blows up before the end of the data, as at a singular value, is discarded.
    """
    fitter, rows = Fitter.of(p), []
    for one in fitted:
        if (row := as_judged(p, one)) is not None:
            row = refit(p, row.polished.law, row.polished.free, before=row)
            if not row.polished.finite:
                continue
            origin = dataclasses.replace(row.origin, acts=_acts(fitter, p, one, row))
            of_name = criterion_of(p, one) + price_of_nothing(p, row.polished)
            rows.append(dataclasses.replace(row, criterion=min(row.criterion, of_name), origin=origin))
    return rows


def _acts(fitter: Fitter, p: Problem, fitted: FittedForm, row: Judged) -> bool:
    """Whether named constants are significant although coefficients are not; False for fitted powers."""
    if p.clean or row.polished.free[1].any() or not idle_terms(row.polished, 1.0):
        return False
    return not _has_idle_constants(fitter, p, fitted)


def prefer_named(verdict: Verdict) -> Verdict:
    """The verdict for a law with a name that has no more constants and is about as good as the best law, or better.

    Laws whose terms are all significant come first. A sine of small angles is linear: of two equally good laws, the
    one without functions is chosen.
    """
    p, best = verdict.p, verdict.best
    most = count_constants(best.polished, p.scale.state)
    rows = [
        (not p.clean and has_idle_terms(row), round(row.criterion, DIGITS), row.polished.law.features is not None, i)
        for i, row in enumerate(verdict.rows)
        if row.origin.is_textbook
        and row.criterion < best.criterion + NO_EVIDENCE
        and count_constants(row.polished, p.scale.state) <= most
    ]
    verdict = dataclasses.replace(verdict, chosen=min(rows)[-1]) if rows else verdict
    return dataclasses.replace(verdict, form=_preferred_form(verdict) if verdict.named else None)


def _preferred_form(verdict: Verdict) -> FittedForm | None:
    """The law with a name that is claimed in place of the best sum of powers; None if it is one, or there is none.

    Two tied coefficients of the best law count as one constant, as in the form.
    """
    p, best = verdict.p, verdict.best
    own = _meant(p, verdict.named)
    # Sums of powers are among the rows of the verdict.
    if as_numbers(own) is not None:
        return None
    shorter = len(own.constants) <= count_constants(best.polished, p.scale.state)
    behind = criterion_of(p, own) - best.criterion
    return own if behind < NO_EVIDENCE * shorter else None


def _meant(p: Problem, fitted: Sequence[FittedForm]) -> FittedForm:
    """The best of the forms, or the best about as good whose constants are all significant."""
    # Of equally good laws a sum of powers is preferred, as above.
    scores = [(round(criterion_of(p, one), DIGITS), as_numbers(one) is None) for one in fitted]
    order = sorted(range(len(fitted)), key=scores.__getitem__)
    least = scores[order[0]][0] + NO_EVIDENCE
    alike = [fitted[i] for i in order if scores[i][0] < least]
    fitter = Fitter.of(p)
    acting = (one for one in alike if p.clean or as_numbers(one) is not None or not _has_idle_constants(fitter, p, one))
    return next(acting, alike[0])


def _has_idle_constants(fitter: Fitter, p: Problem, fitted: FittedForm) -> bool:
    """Whether the 95 % interval of a constant of a form contains 0 or is unknown."""
    named, (_, counts) = named_constants(fitter, fitted), weighted_squares(p, fitted)
    freedom = max(float(counts.sum()) - len(fitted.constants) - fitted.starts.size, 1.0)
    ends = (interval(value, error, freedom) for value, error in zip(named.values, named.errors, strict=True))
    return any(each is None or each[0] <= 0.0 <= each[1] for each in ends)


def with_named(found: Discovery, verdict: Verdict, whole: Problem, task: Task) -> Discovery:
    """The result with laws with names on its front, and the name of the claimed law.

    Args:
        verdict: on the samples to which the named laws were fitted.
        whole: the problem of the result, perhaps with all samples where the search used fewer.
    """
    series, p, winner = found.series, verdict.p, verdict.form
    if series.controls or p.heads is not None or p.constant.all() or found.equations.states != series.states:
        return found
    fitter, moved = Fitter.of(p), whole.data is not p.data
    if winner is not None:
        found = _claiming(found, winner, fitter, whole, task)
    others = [one for one in verdict.named if one is not winner]
    if moved:
        others = _on_all_samples(whole, others, found.initial_values)
    found = dataclasses.replace(found, front=merged(found.front, [row_of(whole, one, series) for one in others]))
    if winner is not None:
        return found
    same = next((one for one in verdict.named if has_terms_of(one.equations, found.equations)), None)
    if same is None or moved:
        same = recognise(p, found.equations, verdict.best.polished.initial)
    if moved and same is not None:
        fitter, same = Fitter.of(whole), next(iter(_on_all_samples(whole, [same], found.initial_values)), None)
    if same is None:
        return found
    front = tuple(dataclasses.replace(row, name=same.says) if row.selected else row for row in found.front)
    found = dataclasses.replace(found, front=front, textbook=named_constants(fitter, fitter.settled(same)))
    numbers, held = as_numbers(same), verdict.best.polished.free[1]
    fits_more = not p.clean and numbers is not None and numbers[1][1].sum() > held.sum()
    return add_messages(found, held_and_fitted()) if fits_more else found


def _on_all_samples(whole: Problem, fitted: Sequence[FittedForm], starts: Array) -> list[FittedForm]:
    """Forms with their constants unchanged, from the starts of the claimed law [trajectories, states]."""
    fitter, initial = Fitter.of(whole), starts / whole.scale.state[: starts.shape[1]]
    moved = (fitter.taken(one.form, one.constants, initial, one.says) for one in fitted)
    return [one for one in moved if one is not None]


def _claiming(found: Discovery, winner: FittedForm, fitter: Fitter, whole: Problem, task: Task) -> Discovery:
    """The result with a textbook law as its answer, fitted to all samples."""
    form = dataclasses.replace(winner.form, starts=tuple(winner.constants.tolist()))
    fitted = len(winner.starts) == len(found.series.trajectories)
    try:
        own = fit_form(found.series, form, task.settings, task.monitor, winner.starts if fitted else None)
    except FitError:
        return found
    # The criterion of a form is in the user's units, that of other rows dimensionless.
    (*_, scored) = [winner, *_on_all_samples(whole, [winner], own.initial_values)]
    score = criterion_of(whole, scored)
    row = dataclasses.replace(own.front[0], name=winner.says, complexity=complexity_of(winner), criterion=score)
    others = [dataclasses.replace(one, selected=False) for one in found.front]
    own = dataclasses.replace(own, front=merged([row], others), log=found.log, found_by="textbook")
    if _is_walk_as_good(task.p, winner):
        own = add_messages(dataclasses.replace(own, outcome="poor-fit"), walk_as_good())
    told = [text for text in task.p.messages if text not in own.messages]
    return add_messages(own, *told, *rest(own, winner.form, covariance_of(fitter, winner)))


def _is_walk_as_good(p: Problem, fitted: FittedForm) -> bool:
    """Whether a random walk explains the data as well as a textbook law does."""
    squares, counts = weighted_squares(p, fitted)
    price = price_of_name(len(fitted.constants), float(counts.sum()), fitted.starts.size)
    return not p.clean and is_walk_as_good(p, squares, counts, price, fitted.starts.size)
