"""discover(): measured series in, readable equations out. The stages in their order.

    pose -> search (grow, train, prune) -> polish -> judge -> simplify -> refine -> conclude

Every stage takes one finished value and returns a new one; this is the only file that knows
the order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from odediscovery.data.series import TimeSeries
from odediscovery.discovery.chaos import cut_until_followed
from odediscovery.discovery.conclude import add_messages, build_result, conclude, constants
from odediscovery.discovery.front import (
    judge_shortlist,
    lower_noise,
    prefer_determined,
    simplify_exponents,
    simplify_quotients,
)
from odediscovery.discovery.holdout import continue_over, split
from odediscovery.discovery.preference import (
    explain_dominated,
    prefer_undominated,
    prefer_what_predicts,
    prefer_what_stays,
)
from odediscovery.discovery.refine import (
    drop_excess,
    drop_idle_terms,
    explain_open_exponents,
    join_longer_pieces,
    judge_all_samples,
)
from odediscovery.discovery.simple_first import (
    SIMPLE,
    join_textbook,
    judge_textbook,
    named_winner,
    noiseless,
    prefer_textbook,
    seconds_for,
    stand_beside,
    textbook_laws,
)
from odediscovery.discovery.task import Task, pose_task
from odediscovery.discovery.tried import check_asked, laws_asked_for, notes_on
from odediscovery.families import FAMILIES, Family
from odediscovery.judge.extrapolation import check_extrapolation
from odediscovery.judge.identifiability import unidentifiable_combinations
from odediscovery.judge.notes import time_spent
from odediscovery.laws.power_sum import PowerSum
from odediscovery.population.told import search_groups
from odediscovery.problem.problem import Problem
from odediscovery.result.discovery import Discovery
from odediscovery.result.rest import rest
from odediscovery.runtime.monitor import TIME_SPENT, Monitor
from odediscovery.search.candidates import at_rest, is_settled
from odediscovery.search.flows.contest import compete
from odediscovery.search.flows.notes import flow_notes
from odediscovery.search.neural import train_networks
from odediscovery.search.published.recipes import run_published
from odediscovery.search.strategies import search
from odediscovery.search.vocabulary import vocabulary
from odediscovery.search.warm_start import warm_start
from odediscovery.settings import Settings
from odediscovery.stages.values import Candidate
from odediscovery.textbook.fit import FittedForm


def discover(
    series: TimeSeries,
    settings: Settings | None = None,
    monitor: Monitor | None = None,
    *,
    before: Sequence[PowerSum] = (),
    families: Sequence[Family] = FAMILIES,
    vary: str | None = None,
) -> Discovery:
    """The ordinary differential equations behind measured series.

    Args:
        series: what was measured, from `load_csv` or `TimeSeries.from_arrays`.
        settings: options, see `Settings` (default: the default recipe).
        monitor: hears the progress and can stop the work; the best law so far comes back.
        before: laws in the user's units that compete with what is found, such as those of an earlier
            fit (`resume`).
        families: of laws, from simple to rich; one of your own may be among them (`term_library`).

        vary: constants that trajectories have of their own ("all", "none", "auto", "k in conc'"), if not in
            `settings`.

    Raises:
        InputError: a setting is out of range, or `holdout` leaves too few samples.
        FitError: no law could be integrated through the data.

    >>> from odediscovery import settings_for, simulate_system
    >>> found = discover(simulate_system("torricelli"), settings_for(members=0))
    >>> sorted(found.equations.power_sum.exponents.ravel().tolist())
    [0.0, 0.5]
    """
    settings = settings or Settings()
    settings = (settings if vary is None else replace(settings, vary=vary)).checked()
    earlier, later = split(series, settings.holdout)
    monitor = monitor or Monitor(settings.max_seconds)
    if settings.vary is not None:
        found = _search_groups(earlier, settings, monitor)
        return found if later is None else continue_over(found, earlier, later)
    task = pose_task(earlier, settings, monitor)
    if settings.published:
        found = _train_as_published(task)
    elif not task.p.measured.all():
        found = _search_flows(task)
    else:
        found = _search_laws(task, before, families)
    return found if later is None else continue_over(found, earlier, later)


def _search_laws(task: Task, before: Sequence[PowerSum], families: Sequence[Family]) -> Discovery:
    """The default: laws are proposed by every stage that the settings allow, and judged."""
    settings, monitor = task.settings, task.monitor
    if settings.recipe == "neural":
        return _judge_laws(task, *train_networks(task.p, before, settings, monitor))
    words, limit = vocabulary(settings.library, families), seconds_for(task)
    check_asked(task)
    monitor.spend(limit and SIMPLE.searching * limit)
    whole = noiseless(task.p, words, monitor) if settings.grow else task.p
    asked = laws_asked_for(task, whole)
    # In noise first of all; where there is none, a law that leaves nothing needs no other beside it.
    simple = [] if whole.clean and words.families else textbook_laws(task, whole, words)
    candidates = warm_start(whole, before, monitor)
    if whole.constant.all():
        candidates = [at_rest(whole)]
    elif words.families and not (whole.clean and is_settled(candidates)):
        candidates += search(whole, settings, monitor, words.families)
    if whole.clean and words.families and not is_settled(candidates):
        simple = textbook_laws(task, whole, words)
    spent = [time_spent()] if monitor.stopping() == TIME_SPENT else []
    monitor.spend(limit and (1.0 - SIMPLE.searching) * limit)
    return add_messages(_judge_laws(task, whole, candidates, simple, asked), *spent)


def _judge_laws(
    task: Task,
    whole: Problem,
    candidates: list[Candidate],
    simple: Sequence[FittedForm] = (),
    asked: Sequence[FittedForm] = (),
) -> Discovery:
    """Candidates judged on whole trajectories, the claimed law simplified and refined.

    Args:
        simple: textbook laws beside them.
        asked: laws that the user asks for.
    """
    settings, monitor, named = task.settings, task.monitor, [*asked, *simple]
    if candidates:
        p, polished = cut_until_followed(whole, candidates, monitor)
        verdict = join_textbook(lower_noise(judge_shortlist(p, candidates, polished, monitor)), named, monitor)
    else:
        verdict = judge_textbook(whole, named)
    monitor.note(event="chosen", **constants(verdict.p, verdict.best))
    verdict = simplify_quotients(verdict, monitor)
    verdict = prefer_textbook(prefer_determined(simplify_exponents(verdict, monitor), monitor))
    verdict = prefer_what_predicts(verdict, monitor)
    verdict = prefer_undominated(prefer_what_stays(verdict, task.series, monitor), task.series)
    verdict = drop_idle_terms(verdict, monitor)
    verdict = join_longer_pieces(whole, verdict, monitor)
    verdict = drop_excess(verdict)
    wide = explain_open_exponents(verdict, monitor)
    winner, judged = named_winner(verdict, named, monitor), verdict
    verdict, series = judge_all_samples(task, verdict)
    found = stand_beside(conclude(verdict, series, settings, monitor), judged, named, winner, task)
    combinations = unidentifiable_combinations(verdict.p, verdict.best.polished) if winner is None else []
    ahead = [] if series.controls else check_extrapolation(found.equations, series, found.initial_values)
    told = [*explain_dominated(found), *wide, *combinations, *ahead, *rest(found), *notes_on(judged, asked, winner)]
    return add_messages(found, *told, *task.known.sentences())


def _search_groups(series: TimeSeries, settings: Settings, monitor: Monitor) -> Discovery:
    """One law for many groups, with constants of each group's own."""
    told = search_groups(series, settings, monitor)
    found = build_result(told.series, settings, monitor, told.front, told.starts, told.noise, None, told.messages)
    return replace(found, population=told.population)


def _search_flows(task: Task) -> Discovery:
    """Laws of flows between compartments, where states are unmeasured."""
    won = compete(task.p, task.known, task.settings, task.monitor)
    found = conclude(won.verdict, task.series, task.settings, task.monitor)
    return add_messages(found, *flow_notes(won, task.series.states), *task.known.sentences())


def _train_as_published(task: Task) -> Discovery:
    """Members trained and read as a published recipe does."""
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
