"""What a fit begins with: the posed series, and the laws that the user asks for.

What a fit is asked to do: the series, what the user knows, the options and the monitor.

Laws that the user asks for, by name or written down, fitted and told beside what is found.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import sympy

from odediscovery.data.controls import drop_appended_controls
from odediscovery.data.series import TimeSeries, complete, measured
from odediscovery.errors import InputError
from odediscovery.judge.criterion import Verdict
from odediscovery.judge.notes import Note, tried
from odediscovery.knowledge.constraints import Knowledge
from odediscovery.laws.equations import Form, read_form
from odediscovery.problem.prepare import pose_known, thin_series, with_known_states
from odediscovery.problem.problem import Problem
from odediscovery.runtime.monitor import SEARCHING, Monitor
from odediscovery.runtime.resources import GIGABYTE
from odediscovery.settings import Settings
from odediscovery.textbook.fit import FittedForm, Fitter, path_of, start_of, worst_of
from odediscovery.textbook.judged import criterion_of, named_constants, row_of
from odediscovery.textbook.registry import ANYTHING, template

# Copies of the samples, and matrices of all states, that a fit has at a time.
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
        monitor: hears the progress and can stop the work.
    """

    every: TimeSeries
    few: TimeSeries
    known: Knowledge
    p: Problem
    settings: Settings
    monitor: Monitor

    @property
    def series(self) -> TimeSeries:
        """All samples, controls apart from the states."""
        return drop_appended_controls(self.every)


def check_size(series: TimeSeries, settings: Settings) -> None:
    """Whether there is memory for the least that a fit holds: its samples, and matrices of all states.

    Raises:
        InputError: it takes more than --max-memory.
    """
    n, samples = series.n_states, sum(len(t.time) for t in series.trajectories)
    needed = (SAMPLES_HELD * samples * n + MATRICES_HELD * n**2) * 8 / GIGABYTE
    if needed > settings.max_memory:
        raise InputError(
            f"{n} states in {samples} samples need about {needed:.0f} GB of memory, and --max-memory is "
            f"{settings.max_memory:g}: name fewer columns with --states, or allow more"
        )


def pose_task(series: TimeSeries, settings: Settings, monitor: Monitor) -> Task:
    """The task, its data dimensionless.

    Raises:
        InputError: the device is missing, controls are asked of a published recipe, or a statement of the user
            does not fit the series.
    """
    if settings.device != "cpu":
        from odediscovery.runtime.device import device_of  # noqa: PLC0415 (torch waits until it is needed)

        device_of(settings.device)  # A missing device is reported before any work is done.
    if series.controls and settings.published:
        raise InputError(
            f"inputs ({', '.join(series.controls)}) need --recipe default: the published recipes know none"
        )
    every, known = with_known_states(series, settings)
    if settings.recipe == "neural" and not measured(every).all():
        raise InputError("unmeasured states need --recipe default: recipe neural trains on what was measured")
    # Without time noise is estimated from neighbours alone.
    with monitor.patient(SEARCHING):
        whole = every if settings.published else complete(every)
        few = every if settings.published else thin_series(whole)
        every = every if whole is every else replace(every, messages=whole.messages)
        p = pose_known(few, known, settings)
    return Task(every, few, known, p, settings, monitor)


# Beginnings from which a law that was written down is fitted; constants may be anything there.
BEGINNINGS = 4
# Evaluations of the derivatives that each is worth: the user asked for it.
MAX_JACOBIANS = 80


def check_asked(task: Task) -> None:
    """Whether laws that the user asks for can be read, and be fitted to these data.

    Raises:
        InputError: they cannot, or the list of names was asked for.
    """
    list(_asked(task))


def laws_asked_for(task: Task, p: Problem) -> list[FittedForm]:
    """The laws of --template and --try, fitted to whole trajectories; those that cannot be are left out."""
    forms = list(_asked(task))
    if not forms:
        return []
    fitter, path, found = Fitter.of(p), path_of(p), []
    for says, options in forms:
        fits = [
            fit
            for form, sought in options
            for start in start_of(form, sought, path, most=BEGINNINGS)
            if (fit := fitter.fit(form, start.constants, says, worst=worst_of(start), most=MAX_JACOBIANS)) is not None
        ]
        if fits:
            best = min(fits, key=lambda fit: criterion_of(p, fit))
            found.append(best)
    return found


def notes_on(
    verdict: Verdict, asked: Sequence[FittedForm], winner: FittedForm | None, series: TimeSeries
) -> list[Note]:
    """What became of each law that was asked for, beside the chosen one."""
    if not asked or verdict.p.heads is not None:
        return []
    p = verdict.p
    fitter, best = Fitter.of(p), verdict.best.criterion if winner is None else criterion_of(p, winner)
    behind = [0.0 if fit is winner else criterion_of(p, fit) - best for fit in asked]
    pairs = zip(asked, behind, strict=True)
    return [tried(named_constants(fitter, fit).one_line(), row_of(p, fit, series).r2, gap) for fit, gap in pairs]


def _asked(task: Task) -> Iterator[tuple[str, list[tuple[Form, dict[str, str]]]]]:
    """What each law is called, and its forms with the constants that are sought."""
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
        yield "as it was tried", [(form, _nonlinear(form))]


def _nonlinear(form: Form) -> dict[str, str]:
    """Constants in which a form is not linear, beside the others."""
    opened = form.open()
    place = {symbol.name: symbol for symbol in opened.symbols}
    sides = opened.right_hand_sides
    linear: list[sympy.Symbol] = []
    for name in form.names:
        together = [*linear, place[name]]
        if all(sympy.diff(side, a, b) == 0 for side in sides for a in together for b in together):
            linear = together
    state = opened.symbols[0].name
    return {name: f"{ANYTHING} {_nearest(form, name, state)}" for name in form.names if place[name] not in linear}


def _nearest(form: Form, name: str, state: str) -> str:
    """The state of the first equation that has a constant."""
    opened = form.open()
    for side, symbol in zip(opened.right_hand_sides, opened.symbols, strict=False):
        if any(part.name == name for part in side.free_symbols):
            return str(symbol.name)
    return state
