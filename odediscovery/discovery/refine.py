"""The claimed law refined on more than it was found with, and what stays open of it.

Laws are found and judged on what they can be judged on: thinned series, pieces that they can follow.
Here their constants see longer pieces and all samples.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np

from odediscovery.data.controls import drop_appended_controls
from odediscovery.data.samples import complete, pooled
from odediscovery.data.series import TimeSeries
from odediscovery.discovery.front import refit
from odediscovery.discovery.task import Task
from odediscovery.judge.criterion import CRITERION, judge_on, price_of_nothing, shares_of
from odediscovery.judge.identifiability import undetermined_exponents
from odediscovery.judge.notes.limits import thinned
from odediscovery.judge.notes.note import Note
from odediscovery.judge.residual_tests import autocorrelation_inflation, memory
from odediscovery.judge.significance import SIGNIFICANCE, idle_constants, idle_terms, is_needed, weak_terms
from odediscovery.judge.ties import find_ties
from odediscovery.judge.verdict import Verdict
from odediscovery.laws.cost import Free, constant_penalty, count, value_penalty
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.prepare import prepare
from odediscovery.problem.problem import Problem
from odediscovery.runtime.arrays import ABOVE_ZERO, Array
from odediscovery.runtime.monitor import TELLING, Monitor
from odediscovery.search.refinement import (
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
from odediscovery.solve.trajectories import residuals
from odediscovery.stages.polish.decimals import round_constants
from odediscovery.stages.polish.polish import POLISHING
from odediscovery.stages.polish.snap import merge_monomials, without_numbers
from odediscovery.stages.values import Judged, Polished


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
