"""Textbook laws in which one constant changes at known times and all others stay.

S' = -b(t)*S*I,        b(t) = b before t_1, b_1 from t_1 on, b_2 from t_2 on, ...
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from odediscovery.judge.notes import Note, changing_constant
from odediscovery.laws.equations import Form, renamed
from odediscovery.laws.expressions import constant, identifiers
from odediscovery.laws.records import FittedForm
from odediscovery.problem.problem import Problem
from odediscovery.result.named import NamedConstants
from odediscovery.runtime.arrays import Array
from odediscovery.runtime.monitor import Monitor
from odediscovery.textbook.fit import Fitter, criterion_of

# Times that are tried, first over the whole range, then between the neighbours of the best; cost
TIMES = 12
# Least number of samples before and after a break: a constant and its error need them
SAMPLES = 4


class Broken(NamedTuple):
    """A form in which one constant changes."""

    fitted: FittedForm  # with the constants of the form, then those of later pieces
    name: str  # of the constant that changes
    criterion: float  # with the charge for the pieces

    @property
    def form(self) -> Form:
        """The form with steps, 0 before a break and 1 from then on, as controls, starting from the fitted constants."""
        return dataclasses.replace(self.fitted.form, starts=tuple(self.fitted.constants.tolist()))


class FoundBreak(NamedTuple):
    """A sample time at which one constant of one law changes, in the user's unit."""

    time: float  # the likeliest
    first: float  # the earliest that is about as good
    last: float  # the latest that is about as good
    behind: float  # criterion of the best law without a change, minus that with it


def fit_broken(p: Problem, forms: Sequence[FittedForm], steps: Mapping[str, float], monitor: Monitor) -> list[Broken]:
    """Fits of each form with each of its constants changing at the steps, best first.

    The data have no controls, but a sample, perhaps without values, at every break. `steps` maps the names of the
    controls that change at a break to its time in the user's unit, in order of time.
    """
    found: list[Broken] = []
    monitor.stage("laws with breaks", len(forms))
    for done, one in enumerate(forms):
        for place in range(len(one.form.names)):
            if found and monitor.stopping():
                break
            broken = _broken(p, one, place, steps)
            found += [] if broken is None else [broken]
        monitor.step(done + 1)
    return sorted(found, key=lambda broken: broken.criterion)


def find_break(p: Problem, forms: Sequence[FittedForm], monitor: Monitor) -> FoundBreak | None:
    """The sample time at which one constant of one of the simplest forms changes; None if none can be fitted.

    Evenly spaced times are tried, then those between the neighbours of the best one. The data have no controls, and
    the forms have constant constants.
    """
    # A fit without the change does not rank laws, so the simplest ones are tried.
    # Number of laws in which a constant is broken; cost: 0.1 s per constant and time
    best = sorted(forms, key=lambda one: (len(one.constants), criterion_of(p, one)))[:4]
    times, tried = _possible(p), dict[float, tuple[float, FittedForm, int]]()
    if not best or not len(times):
        return None
    pairs = [(one, place) for one in best for place in range(len(one.form.names))]
    coarse = _evenly(times)
    monitor.stage("times of a break", len(coarse))

    def scan(among: Array, pairs: Sequence[tuple[FittedForm, int]]) -> float:
        """The best time so far, after `TIMES` evenly spaced ones."""
        for done, time in enumerate(_evenly(among).tolist()):
            for one, place in pairs:
                if not (tried and monitor.stopping()):
                    broken = _broken(p, one, place, {"after": time})
                    if broken is not None and broken.criterion < tried.get(time, (np.inf, one, 0))[0]:
                        tried[time] = (broken.criterion, one, place)
            monitor.step(done + 1)
        return min(tried, key=lambda t: tried[t][0], default=np.nan)

    time = scan(times, pairs)
    if not tried:
        return None
    k, (_, one, place) = int(np.searchsorted(coarse, time)), tried[time]
    near = (times > coarse[max(k - 1, 0)]) & (times < coarse[min(k + 1, len(coarse) - 1)])
    time = scan(times[near & ~np.isin(times, coarse)], [(one, place)])
    # Times whose criterion exceeds the best by less are about as good [criterion]; 95 % point of chi squared
    alike = [t for t, (score, *_) in tried.items() if score < tried[time][0] + 3.84]
    choice = 2.0 * float(np.log(len(times)))
    behind = min(criterion_of(p, one) for one in forms) - tried[time][0] - choice
    return FoundBreak(time, min(alike), max(alike), behind)


def _evenly(times: Array) -> Array:
    """At most `TIMES` of the times, evenly spaced."""
    return times[np.unique(np.linspace(0, len(times) - 1, TIMES).round().astype(int))] if len(times) else times


def _possible(p: Problem) -> Array:
    """Sample times with enough samples on both sides, in the user's unit."""
    every = np.sort(np.concatenate([run.time for run in p.data.trajectories])) * p.scale.time
    times: Array = np.unique(every[SAMPLES : len(every) - SAMPLES])
    return times


def _broken(p: Problem, one: FittedForm, place: int, steps: Mapping[str, float]) -> Broken | None:
    """A form fitted with one constant broken; None if it cannot be integrated."""
    name = one.form.names[place]
    begun = np.append(one.constants, np.full(len(steps), one.constants[place]))
    form = _with_steps(one.form, name, list(steps))
    fitted = Fitter.of(p).with_steps(steps).fit(form, begun, one.says)
    if fitted is None:
        return None
    samples = float(fitted.counts.sum())
    # The choice of the constant is charged too.
    choice = 2.0 * float(np.log(max(len(one.form.names), 1)))
    price = len(steps) * float(np.log(max(samples, 2.0))) + choice
    return Broken(fitted, name, criterion_of(p, fitted, constants=len(one.constants)) + price)


def _with_steps(form: Form, name: str, controls: Sequence[str]) -> Form:
    """The form with a constant that takes another value from each step on."""
    safe = list(identifiers(list(controls)).values())
    later = [f"{name}_{step}" for step in safe]
    steps = ["1", *safe, "0"]
    parts = [
        f"{value}*{before}" if after == "0" else f"{value}*({before} - {after})"
        for value, before, after in zip([name, *later], steps, steps[1:], strict=False)
    ]
    texts = tuple(renamed(text, {name: f"({' + '.join(parts)})"}) for text in form.texts)
    names = (*form.names, *later)
    return dataclasses.replace(form, controls=tuple(controls), texts=texts, names=names, starts=(None,) * len(names))


def broken_note(named: NamedConstants, name: str, controls: Sequence[str], behind: float) -> Note:
    """The note on a constant that changes, when, and how the law compares without the change."""
    values = dict(zip(named.names, zip(named.values, named.errors, strict=True), strict=True))
    steps = [
        f"from {control.removeprefix('after_')} on {constant(*values[f'{name}_{safe}'])}"
        for control, safe in identifiers(list(controls)).items()
    ]
    return changing_constant(name, constant(*values[name]), steps, behind)
