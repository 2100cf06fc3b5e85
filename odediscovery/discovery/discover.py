"""discover(): measured series in, readable equations out. The stages of an ordinary fit in order.

    pose -> search (propose, prune) -> judge (polish, rank) -> change -> conclude -> name

The moves of the search are in `search/search.py`. Groups, flows, breaks and published recipes have stages of their
own (`_search`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

from threadpoolctl import threadpool_limits

from odediscovery.data.recorded import FOUND, dose_factor
from odediscovery.data.series import TimeSeries, check_series, with_even_times
from odediscovery.discovery.changes import (
    cut_until_followed,
    drop_excess,
    drop_idle_terms,
    explain_dominated,
    explain_open_exponents,
    join_longer_pieces,
    join_textbook,
    judge_all_samples,
    judge_shortlist,
    judge_textbook,
    lower_noise,
    prefer_named,
    prefer_what_predicts,
    refine_constants,
    simplify_exponents,
    simplify_quotients,
    spare_terms,
    stay_with_few,
    with_named,
    write_short,
)
from odediscovery.discovery.conclude import add_messages, build_result, conclude, constants, groups_result, rivals
from odediscovery.discovery.fit_constants import fit_form
from odediscovery.discovery.reliability import with_probabilities
from odediscovery.discovery.task import (
    SEARCH_SHARE,
    Task,
    check_asked,
    check_size,
    continue_over,
    laws_asked_for,
    noiseless,
    notes_on,
    pose_task,
    seconds_for,
    split,
    textbook_laws,
)
from odediscovery.errors import FitError, InputError
from odediscovery.families import FAMILIES, Family
from odediscovery.judge.claim import turning_state
from odediscovery.judge.criterion import NO_EVIDENCE, Verdict
from odediscovery.judge.notes import Note, found_break, memory_spent, no_break, same_constants, time_spent
from odediscovery.judge.remarks import check_extrapolation, closed_orbit, unidentifiable_combinations
from odediscovery.laws.power_sum import PowerSum
from odediscovery.laws.records import Candidate, FittedForm, Polished
from odediscovery.problem.problem import Problem, break_controls, with_breaks, without_controls, without_still_controls
from odediscovery.result.discovery import Discovery, outliers, rest
from odediscovery.runtime.monitor import JUDGING, OUT_OF_MEMORY, SEARCHING, TELLING, TIME_SPENT, Monitor, at_most, drawn
from odediscovery.search.moves import at_rest, each_alone, is_settled, warm_start
from odediscovery.search.refinement import count_independent, shorten_windows
from odediscovery.search.search import search, train_networks, vocabulary
from odediscovery.settings import Settings
from odediscovery.textbook.broken import broken_note, find_break, fit_broken
from odediscovery.textbook.fit import criterion_of, fit_textbook


def discover(
    series: TimeSeries,
    settings: Settings | None = None,
    monitor: Monitor | None = None,
    *,
    before: Sequence[PowerSum] = (),
    families: Sequence[Family] = FAMILIES,
    vary: str | None = None,
) -> Discovery:
    """Find the ordinary differential equations behind measured series.

    Args:
        series: the measurements, from `load_csv` or `TimeSeries.from_arrays`.
        settings: options, see `Settings` (default: the default recipe).
        monitor: receives the progress and can stop the work; the best law so far is returned. By default a
            bar is drawn in notebooks and on terminals; `Monitor()` draws none.
        before: laws in the user's units that compete with those found, such as those of an earlier
            fit (`resume`).
        families: of laws, from simple to rich; your own may be among them (`term_library`).
        vary: constants that differ between trajectories ("all", "none", "auto", "k in conc'"), if not in
            `settings`.

    Raises:
        InputError: no TimeSeries, a setting is out of range, or `holdout` leaves too few samples.
        FitError: no law could be integrated through the data.

    >>> from odediscovery import settings_for, simulate_system
    >>> found = discover(simulate_system("torricelli"), settings_for(members=0))
    >>> sorted(found.equations.power_sum.exponents.ravel().tolist())
    [0.0, 0.5]
    """
    check_series(series, "discover")
    settings = settings or Settings()
    settings = (settings if vary is None else replace(settings, vary=vary)).checked()
    check_size(series, settings)
    series = without_still_controls(series, settings)
    if settings.breaks is None and not settings.doses:
        series = with_even_times(series)
    earlier, later = split(series, settings.holdout)
    # The matrices of a fit are small and many, so threads spend more time waiting than multiplying. On two cores
    # regression took six times the processor time without a limit.
    one = threadpool_limits(settings.threads or 1, user_api="blas")
    with at_most(settings.max_memory), one, drawn(monitor, settings.max_seconds) as hears:
        found = _search(earlier, settings, hears, before, families)
        return found if later is None else continue_over(found, earlier, later)


def _search(
    series: TimeSeries, settings: Settings, monitor: Monitor, before: Sequence[PowerSum], families: Sequence[Family]
) -> Discovery:
    """Run the search that the settings and the series require."""
    if settings.vary is not None:
        return _search_groups(series, settings, monitor)
    if settings.breaks is not None:
        return _search_breaks(series, settings, monitor)
    task = pose_task(series, settings, monitor)
    if settings.published:
        return _train_as_published(task)
    if settings.doses or not task.p.measured.all():
        return _search_flows(task)
    return _search_laws(task, before, families)


def _search_laws(task: Task, before: Sequence[PowerSum], families: Sequence[Family]) -> Discovery:
    """Propose laws by every stage that the settings allow, and judge them; the default search."""
    settings, monitor = task.settings, task.monitor
    if settings.recipe == "neural":
        return _judge_laws(task, *train_networks(task.p, before, settings, monitor))
    words, limit = vocabulary(settings.library, families), seconds_for(task.settings)
    check_asked(task)
    begun = time.process_time()
    monitor.spend(limit and SEARCH_SHARE * limit, whole=limit)
    whole = monitor.in_time(SEARCHING, lambda: noiseless(task.p, words, monitor), task.p) if settings.grow else task.p
    whole = monitor.in_time(SEARCHING, lambda: shorten_windows(whole), whole) if settings.grow else whole
    asked = laws_asked_for(task, whole)

    @cache
    def textbook() -> list[FittedForm]:
        return monitor.in_time(SEARCHING, lambda: textbook_laws(task, whole, words), [])

    candidates = monitor.in_time(SEARCHING, lambda: warm_start(whole, before, monitor), list[Candidate]())
    if whole.constant.all():
        candidates = [at_rest(whole)]
    elif words.families and not (whole.clean and is_settled(candidates)):
        candidates += search(whole, settings, monitor, words.families, textbook)
    # Without noise, a law without residuals needs no rivals.
    simple = [] if whole.clean and words.families and is_settled(candidates) else textbook()
    # A stopped fit still returns a law, but unfinished textbook laws may all blow up.
    if not (candidates or asked) and words.families and monitor.stopping():
        candidates = [each_alone(whole)]
    spent = [time_spent()] if monitor.stopping() == TIME_SPENT else []
    monitor.spend(limit and limit - (time.process_time() - begun))
    return _judge_laws(task, whole, candidates, simple, asked, spent)


def _judge_laws(
    task: Task,
    whole: Problem,
    candidates: list[Candidate],
    simple: Sequence[FittedForm] = (),
    asked: Sequence[FittedForm] = (),
    spent: Sequence[Note] = (),
) -> Discovery:
    """Judge candidates on whole trajectories, or the pieces of cut ones, then simplify and refine laws.

    Args:
        simple: textbook laws that compete with them.
        asked: laws requested by the user.
        spent: a note, if time ran out before every kind of law was tried.
    """
    monitor, named = task.monitor, [*asked, *simple]
    if candidates:
        nothing: tuple[Problem, dict[Candidate, Polished]] = whole, {}
        p, polished = monitor.in_time(JUDGING, lambda: cut_until_followed(whole, candidates, monitor), nothing)
        verdict = lower_noise(judge_shortlist(p, candidates, polished, monitor))
        verdict = _unless_late(monitor, count_independent, verdict)
        if p.heads is None:
            # Laws with names are fitted to whole trajectories.
            verdict = replace(verdict, named=tuple(named))
            verdict = _unless_late(monitor, partial(join_textbook, monitor=monitor), verdict)
    else:
        verdict = count_independent(judge_textbook(whole, named))
    monitor.note(event="chosen", **constants(verdict.p, verdict.best))
    for change in CHANGES:
        if verdict.form is None:  # a form that is no sum of powers is fitted as a whole, in `with_named`
            verdict = monitor.in_time(JUDGING, partial(change.make, verdict, task, whole), verdict)
    return _told(task, verdict, asked, spent)


@dataclass(frozen=True)
class Change:
    """A step after the search that changes laws or chooses another one.

    Args:
        name: a few words.
        says: what it does.
        make: (verdict, task, problem in whole trajectories) -> the verdict after it.
    """

    name: str
    says: str
    make: Callable[[Verdict, Task, Problem], Verdict]


CHANGES = (
    Change(
        "simple exponents",
        "exponents are set to simple values where that is likelier",
        lambda verdict, task, whole: simplify_exponents(verdict, task.monitor),
    ),
    Change(
        "short quotients",
        "terms over sums lose constants where that is as good",
        lambda verdict, task, whole: simplify_quotients(verdict, task.monitor),
    ),
    Change(
        "left-out blocks",
        "a simpler law is claimed if it clearly better predicts blocks of time that were left out of its fit",
        lambda verdict, task, whole: prefer_what_predicts(verdict, task.monitor),
    ),
    Change(
        "names",
        "a law with a name is claimed if it is better, or about as good with no more constants",
        lambda verdict, task, whole: prefer_named(verdict),
    ),
    Change(
        "refined constants",
        "constants of the claimed law go to the maximum of the likelihood",
        lambda verdict, task, whole: refine_constants(verdict, task.monitor),
    ),
    Change(
        "no idle terms",
        "the claimed law loses terms without which it is about as good",
        lambda verdict, task, whole: drop_idle_terms(verdict, task.monitor),
    ),
    Change(
        "fewest products",
        "where sums of states are constant, the claimed law is written in the fewest products, if that is likelier",
        lambda verdict, task, whole: spare_terms(verdict, task.monitor),
    ),
    Change(
        "longer pieces",
        "constants that were fitted to pieces are fitted to longer ones",
        lambda verdict, task, whole: join_longer_pieces(whole, verdict, task.monitor),
    ),
    Change(
        "no excess",
        "laws lose terms that a stated conserved sum makes superfluous",
        lambda verdict, task, whole: drop_excess(verdict),
    ),
)


def changes_table() -> str:
    """The changes in order, as Markdown."""
    rows = [f"| {i} | {change.name} | {change.says} |" for i, change in enumerate(CHANGES, start=1)]
    return "\n".join(["|  | change | what it does |", "| --- | --- | --- |", *rows])


def _unless_late(monitor: Monitor, step: Callable[[Verdict], Verdict], verdict: Verdict) -> Verdict:
    """The verdict after one more step, or unchanged if there is no time left for it."""
    return monitor.in_time(JUDGING, lambda: step(verdict), verdict)


def _told(task: Task, judged: Verdict, asked: Sequence[FittedForm], spent: Sequence[Note]) -> Discovery:
    """The verdict as a result, with as many notes as time allows, and the probability of its laws.

    Args:
        asked: laws requested by the user.
        spent: a note, if time ran out before every kind of law was tried.
    """
    settings, monitor, nothing = task.settings, task.monitor, list[str]()
    of_terms = judged.form is None
    wide = monitor.in_time(TELLING, lambda: [*explain_open_exponents(judged, monitor)], nothing) if of_terms else []
    verdict, series = judge_all_samples(task, judged)
    verdict = _unless_late(monitor, partial(write_short, monitor=monitor), verdict) if of_terms else verdict
    plain = conclude(verdict, series, settings, monitor)
    found = monitor.in_time(TELLING, lambda: with_named(plain, judged, verdict.p, task), plain)

    claimed = found.outcome != "poor-fit"
    followed, alone = claimed and verdict.p.heads is None, not series.controls

    def tell() -> Iterator[Sequence[str]]:
        yield [] if claimed else turning_state(verdict.p)
        yield explain_dominated(found)
        yield wide
        yield unidentifiable_combinations(verdict.p, verdict.best.polished) if of_terms else []
        yield check_extrapolation(found.equations, series, found.initial_values) if alone else []
        yield closed_orbit(found.equations, series, found.initial_values) if followed and alone else []
        yield rest(found) if claimed else []
        yield outliers(found, verdict.p) if followed and not verdict.p.clean else []
        yield notes_on(judged, asked, task.series)

    scarce = any(line.get("event") == OUT_OF_MEMORY for line in monitor.log)
    told = [*rivals(found), *([memory_spent(settings.max_memory)] if scarce else [])]
    parts = tell()
    while (part := monitor.in_time(TELLING, lambda: next(parts, None), None)) is not None:
        told += part
    # A law that the user wrote, or knows in part, is not one of those that were drawn at random.
    found = add_messages(found, *told, *task.known.sentences(), *spent)
    return found if asked or not task.known.empty else with_probabilities(found, verdict.p, bool(spent))


def _search_breaks(series: TimeSeries, settings: Settings, monitor: Monitor) -> Discovery:
    """Fit a textbook law, or one written by the user, with one constant that changes at known times or one found."""
    if settings.breaks == FOUND:
        return _search_for_a_break(series, settings, monitor)
    steps = break_controls(settings, series.time_name)
    whole = with_breaks(series, settings)
    task = pose_task(without_controls(whole, list(steps)), replace(settings, breaks=None), monitor)
    same = _unbroken(task)
    broken = fit_broken(task.p, same, steps, monitor)
    if not broken:
        raise FitError("no textbook law could be integrated through the data; write one with --try")
    best = broken[0]
    found = fit_form(with_breaks(task.series, settings), best.form, settings, monitor)
    named = found.named
    assert named is not None  # a form has names
    behind = min(criterion_of(task.p, one) for one in same) - best.criterion
    row = replace(found.front[0], name=best.fitted.says)
    found = replace(found, front=(row,), found_by="textbook")
    return add_messages(found, broken_note(named, best.name, list(steps), behind), *task.known.sentences())


def _search_for_a_break(series: TimeSeries, settings: Settings, monitor: Monitor) -> Discovery:
    """Find the likeliest time at which one constant changes, or fit laws without a change if none is clear."""
    task, name = pose_task(series, replace(settings, breaks=None), monitor), series.time_name
    change = find_break(task.p, _unbroken(task), monitor)
    if change is None or change.behind < NO_EVIDENCE:
        found = _search_laws(task, (), FAMILIES)
        return found if change is None else add_messages(found, no_break(change.time, name))
    found = _search_breaks(series, replace(settings, breaks=f"{name}={change.time!r}"), monitor)
    told = add_messages(found, found_break(change.time, change.first, change.last, name))
    return replace(told, settings=settings)


def _unbroken(task: Task) -> list[FittedForm]:
    """Laws without a change, each of whose constants may change."""
    if task.series.controls or not task.p.measured.all():
        raise InputError("--breaks needs data without inputs and unmeasured states; leave them out")
    # Large residuals with a constant that stays are no evidence against one that changes.
    return [*laws_asked_for(task, task.p), *fit_textbook(task.p, task.monitor, most_left=math.inf)]


def _search_groups(series: TimeSeries, settings: Settings, monitor: Monitor) -> Discovery:
    """Fit one law to many groups, with constants that may differ between groups."""
    try:
        return groups_result(series, settings, monitor)
    except FitError:
        if not monitor.stopping() or any(map(dose_factor, settings.doses)):
            raise
        found = _search(series, replace(settings, vary=None), monitor, (), FAMILIES)
        return add_messages(replace(found, settings=settings), same_constants())


def _search_flows(task: Task) -> Discovery:
    """Fit laws of flows between compartments, for doses or unmeasured states."""
    from odediscovery.search.flows.contest import compete, flow_notes  # noqa: PLC0415 (many modules for few fits)

    limit, monitor = seconds_for(task.settings), task.monitor
    monitor.spend(limit, whole=limit)
    won = compete(task.p, task.known, task.settings, monitor)
    spent = [time_spent()] if monitor.stopping() == TIME_SPENT else []
    monitor.spend(None)
    verdict, series = stay_with_few(task, won.verdict)
    found = conclude(verdict, series, task.settings, monitor)
    return add_messages(found, *rivals(found), *flow_notes(won, task.series.states), *task.known.sentences(), *spent)


def _train_as_published(task: Task) -> Discovery:
    """Train members and read equations from them as a published recipe does."""
    from odediscovery.search.published.recipes import run_published  # noqa: PLC0415 (torch waits until somebody trains)

    series, settings, monitor = task.series, task.settings, task.monitor
    ended = run_published(series, task.p, settings, monitor)
    return build_result(
        series,
        settings,
        monitor,
        ended.front,
        ended.initial,
        ended.noise,
        ended.network,
        ended.messages,
        found_by="training",
    )
