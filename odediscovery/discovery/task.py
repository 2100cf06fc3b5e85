"""The task of a fit: the posed series, laws requested by the user, and the held-out time.

With `--holdout`, the last share of each trajectory's time is held out; the equations are continued over it.

    R2 = 1 - sum (x - x_sim)^2 / sum (x - mean x)^2

over all held-out values of all states and trajectories, in the units of the data, each state
about its own mean over the held-out samples (variance weighted, like the R2 of the fit). x_sim
starts from the fitted start values at the first time of the trajectory and covers the whole
time, so accumulated errors count. Below 0, the mean of the held-out values would be nearer,
although it was unknown before; this is common where values hardly change. Therefore

    off = sqrt(mean (x - x_sim)^2 / variance of the fitted values),    summed over states

is reported too, with the same number for constant last fitted values. Equations with a
larger error than these, and above 5 % of the spread, do not hold at later times and are refused.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import sympy

from odediscovery.data.series import TimeSeries, complete, drop_appended_controls, measured
from odediscovery.data.signals import LEAST_VALUES
from odediscovery.errors import InputError
from odediscovery.judge.criterion import Verdict
from odediscovery.judge.notes import Note, cannot_be_continued, continued, in_order, tried
from odediscovery.knowledge.constraints import Knowledge
from odediscovery.laws.equations import Form, read_form
from odediscovery.laws.records import FittedForm
from odediscovery.problem.problem import Problem, pose_known, thin_series, with_known_states
from odediscovery.result.discovery import Discovery
from odediscovery.runtime.arrays import Array
from odediscovery.runtime.monitor import GIGABYTE, SEARCHING, Monitor
from odediscovery.search.refinement import detect_noiseless
from odediscovery.search.search import Vocabulary
from odediscovery.settings import Settings
from odediscovery.stages.prune import has_whole_powers
from odediscovery.textbook.fit import (
    Fitter,
    as_numbers,
    criterion_of,
    curve_of,
    fit_textbook,
    named_constants,
    nonlinear_constants,
    row_of,
    start_of,
    worst_of,
)
from odediscovery.textbook.registry import template

# Copies of the samples, and matrices of all states, that a fit holds at once.
SAMPLES_HELD, MATRICES_HELD = 20, 60


@dataclass(frozen=True, eq=False)
class Task:
    """One fit before its first stage.

    Args:
        every: all samples, unmeasured states and controls as columns.
        few: those that the search sees: fewer, if the series is long or trajectories lack a state.
        known: what the user knows, in the user's units.
        p: `few` and `known`, dimensionless.
        settings: options of the fit.
        monitor: receives the progress and can stop the work.
    """

    every: TimeSeries
    few: TimeSeries
    known: Knowledge
    p: Problem
    settings: Settings
    monitor: Monitor

    @property
    def series(self) -> TimeSeries:
        """All samples, with controls separate from the states."""
        return drop_appended_controls(self.every)


# Most processor time of a fit [s]. The search has `SEARCH_SHARE` of it.
SECONDS = 30.0
# Share of the time of a fit for the search, the rest for judging its laws
SEARCH_SHARE = 0.6


def check_size(series: TimeSeries, settings: Settings) -> None:
    """Check that there is memory for the least that a fit holds: its samples, and matrices of all states.

    Raises:
        InputError: they take more than --max-memory.
    """
    n, samples = series.n_states, sum(len(t.time) for t in series.trajectories)
    needed = (SAMPLES_HELD * samples * n + MATRICES_HELD * n**2) * 8 / GIGABYTE
    if needed > settings.max_memory:
        raise InputError(
            f"{n} states in {samples} samples need about {needed:.0f} GB of memory, and --max-memory is "
            f"{settings.max_memory:g}: name fewer columns with --states, or allow more"
        )


def pose_task(series: TimeSeries, settings: Settings, monitor: Monitor) -> Task:
    """The task with dimensionless data.

    Raises:
        InputError: the device is missing, a recipe cannot handle controls or unmeasured states, or a statement of the
            user does not fit the series.
    """
    if settings.device != "cpu":
        from odediscovery.runtime.device import device_of  # noqa: PLC0415 (torch waits until it is needed)

        device_of(settings.device)  # Reports a missing device before any work.
    if series.controls and settings.published:
        raise InputError(
            f"inputs ({', '.join(series.controls)}) need --recipe default: the published recipes know none"
        )
    every, known = with_known_states(series, settings)
    if settings.recipe == "neural" and not measured(every).all():
        raise InputError("unmeasured states need --recipe default: recipe neural trains on what was measured")
    # If the time is up, noise is estimated from neighbours alone.
    with monitor.patient(SEARCHING):
        whole = every if settings.published else complete(every)
        few = every if settings.published else thin_series(whole)
        every = every if whole is every else replace(every, messages=whole.messages)
        p = pose_known(few, known, settings)
    return Task(every, few, known, p, settings, monitor)


# Starts for the constants of a requested law, which may have any values.
BEGINNINGS = 4
# Evaluations of the derivatives for each start; many, because the user requested the law.
MAX_JACOBIANS = 80


def check_asked(task: Task) -> None:
    """Check that laws requested by the user can be read and fitted to these data.

    Raises:
        InputError: they cannot, or a name is unknown.
    """
    list(_asked(task))


def laws_asked_for(task: Task, p: Problem) -> list[FittedForm]:
    """The laws of --template and --try, fitted to whole trajectories, without those that cannot be integrated."""
    forms = list(_asked(task))
    if not forms:
        return []
    fitter, curve, found = Fitter.of(p), curve_of(p), []
    for says, options in forms:
        fits = [
            fit
            for form, sought in options
            for start in start_of(form, sought, curve, most=BEGINNINGS)
            if (fit := fitter.fit(form, start.constants, says, worst=worst_of(start), most=MAX_JACOBIANS)) is not None
        ]
        if fits:
            best = min(fits, key=lambda fit: criterion_of(p, fit))
            found.append(best)
    return found


def textbook_laws(task: Task, p: Problem, words: Vocabulary) -> list[FittedForm]:
    """The fitted textbook laws of a problem; none if they are disabled, controls act, or a state never changes."""
    if task.series.controls or p.constant.any() or not task.settings.grow or not words.textbook:
        return []
    # If nothing else is tried, the best of them is the answer, however poor.
    found = fit_textbook(p, task.monitor, most_left=None if words.families else np.inf)
    return [one for one in found if _is_allowed(p, one) and (not words.families or _is_in(words, one))]


def _is_allowed(p: Problem, fitted: FittedForm) -> bool:
    """Whether a law agrees with the knowledge of the user."""
    if p.given is None:
        return True
    numbers = as_numbers(fitted)
    return numbers is not None and p.given.allows(numbers[0])


def _is_in(words: Vocabulary, fitted: FittedForm) -> bool:
    """Whether a law contains only functions and sums that are tried."""
    opened = fitted.form.open()
    functions = {part.func.__name__ for side in opened.right_hand_sides for part in side.atoms(sympy.Function)}
    return functions <= words.functions and (
        words.has_sums or bool(functions) or fitted.equations.power_sum is not None
    )


def noiseless(p: Problem, words: Vocabulary, monitor: Monitor) -> Problem:
    """The series without noise if some permitted law has no residuals between samples."""
    if not words.families:
        return p
    found = detect_noiseless(p, monitor)
    law = found.exact
    if law is None:
        return found
    strange = not (has_whole_powers(law) or any(family.real_exponents for family in words.families))
    if law.features is not None:
        strange |= any(f.name not in words.functions for f in law.features.functions)
        strange |= bool(len(law.features.sums)) and not words.has_sums
    return p if strange else found


def seconds_for(settings: Settings) -> float | None:
    """Most processor time of a fit in seconds; None with --thorough."""
    return None if settings.thorough else SECONDS


def notes_on(verdict: Verdict, asked: Sequence[FittedForm], series: TimeSeries) -> list[Note]:
    """Notes that compare each requested law with the chosen one."""
    if not asked or verdict.p.heads is not None:
        return []
    p, winner = verdict.p, verdict.form
    fitter, best = Fitter.of(p), verdict.best.criterion if winner is None else criterion_of(p, winner)
    behind = [0.0 if fit is winner else criterion_of(p, fit) - best for fit in asked]
    pairs = zip(asked, behind, strict=True)
    return [tried(named_constants(fitter, fit).one_line(), row_of(p, fit, series).r2, gap) for fit, gap in pairs]


def _asked(task: Task) -> Iterator[tuple[str, list[tuple[Form, dict[str, str]]]]]:
    """The name of each requested law, and its forms with their nonlinear constants."""
    settings, series = task.settings, task.series
    if not (settings.template or settings.tries):
        return
    if series.controls or not task.p.measured.all():
        raise InputError("--template and --try need data without inputs and unmeasured states; see fit-constants")
    for name in (word.strip() for text in settings.template for word in text.split(",")):
        laws = template(name, series.states, series.time_name)
        yield laws[0][0].says, [(form, sought) for _, form, sought in laws]
    for text in settings.tries:
        form = read_form(text, series.states, time_name=series.time_name)
        yield "as it was tried", [(form, nonlinear_constants(form))]


# Least number of held-out values of a state; one value has no variance
VALUES = 2


def split(series: TimeSeries, share: float) -> tuple[TimeSeries, TimeSeries | None]:
    """Split a series into the samples before the last `share` of each trajectory's time, and the rest.

        earlier: t <= t_first + (1 - share) (t_last - t_first),    later: the rest

    Args:
        share: at least 0, below 1; 0 holds nothing out.

    Returns:
        The earlier samples, and the later ones in the same number of trajectories, which may be
        empty; None for a share of 0.

    Raises:
        InputError: too few samples on one side.

    >>> series = TimeSeries.from_arrays(np.arange(10.0), np.arange(10.0))
    >>> earlier, later = split(series, 0.2)
    >>> earlier.trajectories[0].time[-1], later.trajectories[0].time
    (np.float64(7.0), array([8., 9.]))
    """
    if share == 0.0:
        return series, None
    before, after = [], []
    for run in series.trajectories:
        last = run.time[-1] - share * (run.time[-1] - run.time[0])
        # Rounding of times that were written in decimals [share of the measured time]
        count = int(np.sum(run.time <= last + 1e-9 * (run.time[-1] - run.time[0])))
        before.append(run.part(slice(count)))
        after.append(run.part(slice(count, None)))
    earlier = dataclasses.replace(series, trajectories=tuple(before))
    later = dataclasses.replace(series, trajectories=tuple(after))
    _check(earlier, later, share)
    return earlier, later


def _check(earlier: TimeSeries, later: TimeSeries, share: float) -> None:
    kept, held = (
        np.sum([np.isfinite(t.values).sum(axis=0) for t in part.trajectories], axis=0) for part in (earlier, later)
    )
    for state, left, back in zip(earlier.states, kept, held, strict=True):
        if left < LEAST_VALUES:
            raise InputError(
                f"--holdout {share:g} leaves {left} values of {state!r} to fit, at "
                f"least {LEAST_VALUES} are needed; keep less back"
            )
        if back < VALUES:
            raise InputError(
                f"--holdout {share:g} keeps {back} values of {state!r} back, at least "
                f"{VALUES} are needed; keep more back"
            )
    for run in earlier.trajectories:
        samples = int(np.isfinite(run.values).any(axis=1).sum())
        if samples < 2:
            name = f"trajectory {run.label!r}" if run.label else "the series"
            raise InputError(
                f"--holdout {share:g} leaves {samples} samples of {name} to fit, at least 2 are needed; keep less back"
            )


def r2_of(later: TimeSeries, continued: Sequence[Array]) -> tuple[float, Array]:
    """R2 of continued solutions, over all states and for each alone [states].

    Args:
        later: held-out samples.
        continued: states at their times, [samples, states] per trajectory.

    Returns:
        -inf where `continued` is not finite; nan where nothing varies.

    >>> later = TimeSeries.from_arrays([0, 1, 2, 3], [1.0, 2.0, 3.0, 4.0])
    >>> r2_of(later, [np.array([[1.0], [2.0], [3.0], [3.0]])])[0]
    0.8
    """
    values = np.concatenate([t.values for t in later.trajectories])
    errors = np.where(np.isfinite(values), np.concatenate(continued) - values, 0.0)
    left = np.where(np.isfinite(errors).all(axis=0), np.nansum(errors**2, axis=0), np.inf)
    spread = np.nansum((values - np.nanmean(values, axis=0)) ** 2, axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        each = np.where(spread > 0, 1.0 - left / spread, np.nan)
        whole = 1.0 - left.sum() / spread.sum() if spread.sum() > 0 else np.nan
    return float(whole), each


def continue_solutions(found: Discovery, later: TimeSeries) -> list[Array]:
    """The solutions at held-out times, from the fitted starts, [samples, states] per trajectory.

    Args:
        later: measured states; the equations may have more.

    Returns:
        nan from where a solution blows up.
    """
    places = [found.equations.states.index(state) for state in later.states]
    ends = []
    for run, rest, start in zip(found.series.trajectories, later.trajectories, found.initial_values, strict=True):
        times = np.concatenate([run.time[:1], rest.time])
        acting = run.controls
        if acting is not None and rest.controls is not None:
            acting = acting.joined(rest.controls)
        ends.append(
            found.equations.simulate(start, times, controls=acting)[1:, places]
            if len(rest.time)
            else np.empty((0, len(places)))
        )
    return ends


def relative_error(earlier: TimeSeries, later: TimeSeries, ends: Sequence[Array]) -> float:
    """Root of the mean squared error over held-out samples, relative to the spread of the fitted ones.

    Args:
        ends: states at the held-out times, [samples, states] per trajectory.
    """
    before, after = (np.concatenate([t.values for t in part.trajectories]) for part in (earlier, later))
    with np.errstate(divide="ignore", invalid="ignore"):
        squares = np.nanmean(np.square(np.concatenate(ends) - after), axis=0)
        return float(np.sqrt(squares.sum() / np.nanvar(before, axis=0).sum()))


def hold_last_values(earlier: TimeSeries, later: TimeSeries) -> list[Array]:
    """The last fitted value of each state at all held-out times, as a constant forecast."""
    ends = []
    for run, rest in zip(earlier.trajectories, later.trajectories, strict=True):
        last = [column[np.isfinite(column)][-1:] for column in run.values.T]
        values = [float(value[0]) if len(value) else np.nan for value in last]
        ends.append(np.tile(values, (len(rest.time), 1)))
    return ends


def continue_over(found: Discovery, earlier: TimeSeries, later: TimeSeries) -> Discovery:
    """The result with its R2 on held-out samples, a note on them, and the outcome.

    Args:
        found: fitted to `earlier`.
        later: the held-out samples.
    """
    ends = continue_solutions(found, later)
    whole, each = r2_of(later, ends)
    count = sum(len(run.time) for run in later.trajectories)
    if not all(np.isfinite(x).all() for x in ends):
        return _with_note(found, cannot_be_continued(count), refused=True)
    by_state = ", ".join(f"{state} {_number(r2)}" for state, r2 in zip(later.states, each, strict=True))
    off, still = relative_error(earlier, later, ends), relative_error(earlier, later, hold_last_values(earlier, later))
    # Least error for which equations are refused [spread of the fitted values]
    refused = off > max(still, 0.05)
    note = continued(count, _number(whole), f" ({by_state})" * (len(each) > 1), off, still, refused)
    found = dataclasses.replace(found, r2_heldout=whole if np.isfinite(whole) else None)
    return _with_note(found, note, refused=refused)


def _with_note(found: Discovery, note: Note, *, refused: bool) -> Discovery:
    outcome = "poor-fit" if refused else found.outcome
    return dataclasses.replace(found, outcome=outcome, messages=in_order((*found.messages, note)))


def _number(r2: float) -> str:
    if np.isfinite(r2):
        return f"{r2:.3f}" if abs(r2) < 100.0 else f"{r2:.3g}"
    return "unknown" if np.isnan(r2) else "none"
