"""Laws that the user asks for, by name or written down, fitted and told beside what is found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import sympy

from odediscovery.data.series import TimeSeries
from odediscovery.discovery.task import Task
from odediscovery.errors import InputError
from odediscovery.judge.notes.choice import tried
from odediscovery.judge.notes.note import Note
from odediscovery.judge.verdict import Verdict
from odediscovery.laws.forms import Form, read_form
from odediscovery.problem.problem import Problem
from odediscovery.textbook.fit import FittedForm, Fitter, path_of, worst_of
from odediscovery.textbook.front import row_of
from odediscovery.textbook.judged import criterion_of, named_constants
from odediscovery.textbook.registry import ANYTHING, template
from odediscovery.textbook.starts import start_of

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
