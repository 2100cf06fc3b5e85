"""Which of the laws that fit about as well is claimed, and textbook laws beside the others.

The criterion asks how closely a law follows the samples it was fitted to. A law that follows them by constants that
mean nothing shows itself on samples that it did not see: blocks of time that are left out, one after the other. The
claimed law is fitted to all samples. Textbook laws are fitted first, stand on every front, and are hard to beat.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from functools import partial

import numpy as np
import sympy

from odediscovery.data.series import TimeSeries
from odediscovery.discovery.conclude import add_messages
from odediscovery.discovery.fit_constants import fit_form
from odediscovery.discovery.refine import refit
from odediscovery.discovery.task import Task
from odediscovery.errors import FitError
from odediscovery.judge.claim import has_idle_terms, idle_terms
from odediscovery.judge.criterion import NO_EVIDENCE, Verdict, count_constants, judge_on, price_of_nothing
from odediscovery.judge.doubt import is_walk_as_good, runs_away
from odediscovery.judge.notes import Note, held_and_fitted, simpler_and_nearer, walk_as_good, weaker_between
from odediscovery.laws.power_sum import count
from odediscovery.laws.records import interval
from odediscovery.problem.problem import Problem
from odediscovery.result.discovery import Discovery
from odediscovery.result.front import FrontRow
from odediscovery.result.remarks import rest
from odediscovery.runtime.arrays import Array
from odediscovery.runtime.monitor import JUDGING, Monitor
from odediscovery.search.refinement import detect_noiseless, refined, residual_sigma, sigma_of
from odediscovery.search.search import Vocabulary
from odediscovery.solve.sensitivities import residuals
from odediscovery.stages.values import Judged
from odediscovery.textbook.fit import FittedForm, Fitter, fit_textbook
from odediscovery.textbook.judged import (
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

# Blocks of time, each left out once
BLOCKS = 5
# A simpler law whose criterion is farther behind is no rival [criterion]
HOPEFUL = 30.0


def charge_fragile(verdict: Verdict, monitor: Monitor) -> Verdict:
    """The verdict once laws pay for running away from starts that the data allow.

    Only those that may be claimed are asked, the likeliest first: running away makes no law likelier.
    """
    p, rows = verdict.p, list(verdict.rows)
    if p.clean:
        return verdict
    least = math.inf
    for i in sorted(range(len(rows)), key=lambda i: rows[i].criterion):
        found, before = rows[i].polished, rows[i].criterion
        if before > least + HOPEFUL:
            break
        ask = partial(runs_away, found.law, p.data, found.initial, p.start_errors, p.nonnegative)
        if monitor.in_time(JUDGING, ask, False):
            rows[i] = judge_on(p, found, rows[i].origin, fragile=True)
        least = min(least, rows[i].criterion)
    return Verdict.of(p, rows)


def prefer_what_predicts(verdict: Verdict, monitor: Monitor) -> Verdict:
    """The verdict for a simpler law where that clearly predicts left-out blocks of time better."""
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
    return verdict.passed_over(chosen, weaker_between)


def allows_blocks(p: Problem, row: Judged) -> bool:
    """Whether there are enough samples to leave a block of them out."""
    fitted = count(row.polished.free) + row.polished.initial.size
    runs = [np.isfinite(t.values).any(axis=1).sum() for t in p.data.trajectories]
    return p.samples >= 4.0 * fitted and min(runs) >= 2 * BLOCKS


def block_misfits(p: Problem, row: Judged) -> Array:
    """Misfit of each left-out block, of a law that was fitted to all others [blocks]; inf where it is lost.

    Residuals count in units of what noise, rounding and integration explain, at most with their logarithm.
    """
    found, sigma = row.polished, sigma_of(p)
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
    """sum of n ln(mean square + sigma^2) over the states that have samples in a block [samples, states]."""
    n, seen = np.isfinite(squares).sum(axis=0), np.isfinite(squares).any(axis=0)
    mean = np.nansum(squares, axis=0)[seen] / n[seen]
    return float((n[seen] * np.log(mean + sigma[seen] ** 2)).sum())


def without_block(series: TimeSeries, b: int) -> tuple[TimeSeries, list[slice]]:
    """The series without block b of each trajectory, and where that is."""
    runs, blocks = [], []
    for k, run in enumerate(series.trajectories):
        edges = np.linspace(0, len(run.time), BLOCKS + 1).round().astype(int)
        # Other trajectories lose other parts, so that no time is left out everywhere.
        part = (b + k) % BLOCKS
        block = slice(int(edges[part]), int(edges[part + 1]))
        values = run.values.copy()
        values[block, ~series.is_control] = np.nan
        runs.append(dataclasses.replace(run, values=values))
        blocks.append(block)
    return dataclasses.replace(series, trajectories=tuple(runs)), blocks


def explain_dominated(found: Discovery) -> list[Note]:
    """Why a row of the front that is simpler and nearer to the data than the chosen one was passed over."""
    chosen = next(row for row in found.front if row.selected)
    rows = [row for row in found.front if row.complexity < chosen.complexity and row.mse < chosen.mse]
    if not rows:
        return []
    row = min(rows, key=lambda row: row.mse)
    return [simpler_and_nearer(row.complexity, _reason(row, chosen, found.series.states))]


def _told_apart(less: float, more: float) -> tuple[str, str]:
    """Two shares with as many digits as tell them apart.

    >>> _told_apart(0.21, 0.87), _told_apart(0.999971, 0.999976)
    (('0.2100', '0.8700'), ('0.99997', '0.99998'))
    """
    pairs = [(f"{less:.{digits}f}", f"{more:.{digits}f}") for digits in range(4, 13)]
    return next((pair for pair in pairs if pair[0] != pair[1]), pairs[-1])


def _reason(row: FrontRow, chosen: FrontRow, states: tuple[str, ...]) -> str:
    """In words: a state that the row explains worse, or what else counts against it."""
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


# Seconds of the processor that a fit takes at most, of a small table and of any other. In 10 s no more of 126 thinned
# random tables were right than in 7; with pictures it is 8 s.
SMALL_SECONDS, SECONDS = 6.6, 30.0
# Share of the time of a fit for the search, the rest for judging what it found
SEARCH_SHARE = 0.6
# To how many digits criteria are compared [digits behind the point]
DIGITS = 2


def textbook_laws(task: Task, p: Problem, words: Vocabulary) -> list[FittedForm]:
    """The textbook laws of a problem, fitted; none where controls act on the states, or nothing changes."""
    if task.series.controls or p.constant.all() or not task.settings.grow or not words.textbook:
        return []
    # Where nothing else is tried the best of them is the answer, however far it is.
    found = fit_textbook(p, task.monitor, most_left=None if words.families else np.inf)
    return [one for one in found if _is_allowed(p, one) and (not words.families or _is_in(words, one))]


def _is_allowed(p: Problem, fitted: FittedForm) -> bool:
    """Whether a law agrees with what the user knows."""
    if p.given is None:
        return True
    numbers = as_numbers(fitted)
    return numbers is not None and p.given.allows(numbers[0])


def _is_in(words: Vocabulary, fitted: FittedForm) -> bool:
    """Whether a law is written with functions and sums that are tried."""
    opened = fitted.form.open()
    functions = {part.func.__name__ for side in opened.right_hand_sides for part in side.atoms(sympy.Function)}
    return functions <= words.functions and (
        words.has_sums or bool(functions) or fitted.equations.power_sum is not None
    )


def judge_textbook(p: Problem, fitted: Sequence[FittedForm]) -> Verdict:
    """The verdict on textbook laws alone.

    Raises:
        FitError: none of them is a sum of powers that can be integrated through the data.
    """
    rows = _judged(p, fitted)
    if not rows:
        raise FitError("no law could be integrated through the data; another --library may have one")
    return Verdict.of(p, rows)


def noiseless(p: Problem, words: Vocabulary, monitor: Monitor) -> Problem:
    """The series without noise if some law that may be tried leaves nothing between samples."""
    if not words.families:
        return p
    found = detect_noiseless(p, monitor)
    features = None if found.exact is None else found.exact.features
    strange = features is not None and any(f.name not in words.functions for f in features.functions)
    return p if strange else found


def seconds_for(task: Task) -> float | None:
    """Seconds of the processor that a fit takes at most; None where somebody says --thorough or sets a limit."""
    if task.settings.thorough or task.settings.max_seconds is not None or task.monitor.max_seconds is not None:
        return None
    rows = sum(len(run.time) for run in task.every.trajectories)
    small = rows < 50 and task.series.n_states <= 3
    return SMALL_SECONDS if small else SECONDS


def join_textbook(verdict: Verdict, fitted: Sequence[FittedForm], monitor: Monitor) -> Verdict:
    """The verdict with textbook laws that could win among its rows; on pieces of trajectories none.

    Where the time is up the best ones alone: what was found in haste must not win because nobody looked.
    """
    p = verdict.p
    if p.heads is not None:
        return verdict
    ranked = sorted(((criterion_of(p, one), i) for i, one in enumerate(fitted)), key=lambda pair: pair[0])
    hopeful = [fitted[i] for score, i in ranked if score < verdict.best.criterion + 50.0]
    # A stop ends soon.
    hopeful = hopeful[:2] if monitor.stopping() else hopeful
    return Verdict.of(p, [*verdict.rows, *_judged(p, hopeful)])


def _judged(p: Problem, fitted: Sequence[FittedForm]) -> list[Judged]:
    """Those that are sums of powers; what they cost is the choice among names, where that is less.

    As a sum a form may not go as far as the data, where it ends at a singular value.
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
    """Whether the constants of a name act where the coefficients of its law may not; fitted powers are no names."""
    if p.clean or row.polished.free[1].any() or not idle_terms(row.polished, 1.0):
        return False
    return not _has_idle_constants(fitter, p, fitted)


def prefer_textbook(verdict: Verdict) -> Verdict:
    """The verdict for a textbook law with no more constants that is about as good as the best law.

    One all of whose terms act stands before one with a term that the data do not tell from nothing. A sine of small
    angles is a line: of two that are as good the one without functions is meant.
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
    return dataclasses.replace(verdict, chosen=min(rows)[-1]) if rows else verdict


def named_winner(verdict: Verdict, fitted: Sequence[FittedForm]) -> FittedForm | None:
    """The textbook law that is no sum of powers and is claimed, if one is.

    It explains the data better, or about as well with no more constants. A coefficient that the best law has twice is
    one constant, as it is in the form; and a form with a constant that is not significant is claimed only where nothing
    else explains as much.
    """
    p, best = verdict.p, verdict.best
    if p.heads is not None or not fitted:
        return None
    own, is_idle = _meant(p, fitted)
    # A sum of powers stands among the rows of the verdict.
    if as_numbers(own) is not None:
        return None
    shorter = len(own.constants) <= count_constants(best.polished, p.scale.state)
    behind = criterion_of(p, own) - best.criterion
    if is_idle and not has_idle_terms(best):
        return own if behind < -NO_EVIDENCE else None
    return own if behind < NO_EVIDENCE * shorter else None


def _meant(p: Problem, fitted: Sequence[FittedForm]) -> tuple[FittedForm, bool]:
    """The best of some forms, or one about as good all of whose constants act; whether there is none such."""
    # Of laws that are as good a sum of powers is meant, as above.
    scores = [(round(criterion_of(p, one), DIGITS), as_numbers(one) is None) for one in fitted]
    order = sorted(range(len(fitted)), key=scores.__getitem__)
    least = scores[order[0]][0] + NO_EVIDENCE
    alike = [fitted[i] for i in order if scores[i][0] < least]
    fitter = Fitter.of(p)
    acting = (one for one in alike if p.clean or as_numbers(one) is not None or not _has_idle_constants(fitter, p, one))
    found = next(acting, None)
    return found or alike[0], found is None


def _has_idle_constants(fitter: Fitter, p: Problem, fitted: FittedForm) -> bool:
    """Whether the 95 % interval of a constant of a form contains 0, or nothing is known of it."""
    named, (_, counts) = named_constants(fitter, fitted), weighted_squares(p, fitted)
    freedom = max(float(counts.sum()) - len(fitted.constants) - fitted.starts.size, 1.0)
    ends = (interval(value, error, freedom) for value, error in zip(named.values, named.errors, strict=True))
    return any(each is None or each[0] <= 0.0 <= each[1] for each in ends)


def stand_beside(
    found: Discovery,
    verdict: Verdict,
    whole: Problem,
    fitted: Sequence[FittedForm],
    winner: FittedForm | None,
    task: Task,
) -> Discovery:
    """The result with textbook laws on its front, and the name of the chosen one.

    Args:
        verdict: on the samples that the textbook laws were fitted to.
        whole: the problem of the result: where laws were sought in fewer samples, perhaps of all of them.
    """
    series, p = found.series, verdict.p
    if series.controls or p.heads is not None or p.constant.all() or found.equations.states != series.states:
        return found
    fitter, moved = Fitter.of(p), whole.data is not p.data
    if winner is not None:
        found = _chosen(found, winner, fitter, whole, task)
    others = [one for one in fitted if one is not winner]
    if moved:
        others = _on_all_samples(whole, others, found.initial_values)
    found = dataclasses.replace(found, front=merged(found.front, [row_of(whole, one, series) for one in others]))
    if winner is not None:
        return found
    same = next((one for one in fitted if has_terms_of(one.equations, found.equations)), None)
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
    """Forms with the constants that they have, from the starts of the claimed law [trajectories, states]."""
    fitter, initial = Fitter.of(whole), starts / whole.scale.state[: starts.shape[1]]
    moved = (fitter.taken(one.form, one.constants, initial, one.says) for one in fitted)
    return [one for one in moved if one is not None]


def _chosen(found: Discovery, winner: FittedForm, fitter: Fitter, whole: Problem, task: Task) -> Discovery:
    """The result with a textbook law as its answer, fitted to all samples."""
    form = dataclasses.replace(winner.form, starts=tuple(winner.constants.tolist()))
    fitted = len(winner.starts) == len(found.series.trajectories)
    try:
        own = fit_form(found.series, form, task.settings, task.monitor, winner.starts if fitted else None)
    except FitError:
        return found
    # A form has a criterion in the user's units; that of the other rows is dimensionless.
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
