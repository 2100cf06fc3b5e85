"""Textbook laws of which one constant changes at known times, everything else being fixed.

S' = -b(t)*S*I,        b(t) = b before t_1, b_1 from t_1 on, b_2 from t_2 on, ...
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from odediscovery.judge.notes import Note, changing_constant
from odediscovery.laws.equations import Form
from odediscovery.laws.expressions import constant, identifiers
from odediscovery.problem.problem import Problem
from odediscovery.result.named import NamedConstants
from odediscovery.runtime.arrays import Array
from odediscovery.runtime.monitor import Monitor
from odediscovery.textbook.fit import FittedForm, Fitter, criterion_of

# Times that are tried, and again between the neighbours of the best; cost
TIMES = 12
# Least samples before and after a break; a constant and what tells its error
SAMPLES = 4


class Broken(NamedTuple):
    """A form of which one constant changes."""

    fitted: FittedForm  # with the constants of the form, then those of later pieces
    name: str  # of the constant that changes
    criterion: float  # with the price of the pieces

    @property
    def form(self) -> Form:
        """With steps, 0 before a break and 1 from then on, as controls; a fit begins at its constants."""
        return dataclasses.replace(self.fitted.form, starts=tuple(self.fitted.constants.tolist()))


class FoundBreak(NamedTuple):
    """A time at which one constant of one law changes, found among the samples, in the user's unit."""

    time: float  # the likeliest
    first: float  # the earliest that is about as good
    last: float
    behind: float  # by how much the criterion of the best law without a change is larger


def fit_broken(p: Problem, forms: Sequence[FittedForm], steps: Mapping[str, float], monitor: Monitor) -> list[Broken]:
    """Every constant of every form, fitted with constants that do not change, broken, the best first.

    The data have no controls, but a sample, perhaps without values, at every break. `steps` are the names of the
    controls that say what is before and after a break, and its time in the user's unit, in the order of time.
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
    """The sample time at which one constant of one of the simplest forms changes; None where none can be fitted.

    Times are tried evenly, then those between the neighbours of the best one. The data have no controls, and the
    constants of the forms do not change.
    """
    # How well they fit without a change says nothing: the simplest laws of a few constants come first.
    # Laws of the fewest constants of which one is broken; cost: 0.1 s a constant and time
    best = sorted(forms, key=lambda one: (len(one.constants), criterion_of(p, one)))[:4]
    times, tried = _possible(p), dict[float, tuple[float, FittedForm, int]]()
    if not best or not len(times):
        return None
    pairs = [(one, place) for one in best for place in range(len(one.form.names))]
    coarse = _evenly(times)
    monitor.stage("times of a break", len(coarse))

    def scan(among: Array, pairs: Sequence[tuple[FittedForm, int]]) -> float:
        """The best time so far, after `TIMES` even ones of some."""
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
    # Times whose criterion is larger by less are about as good [criterion]; 95 % of chi squared
    alike = [t for t, (score, *_) in tried.items() if score < tried[time][0] + 3.84]
    choice = 2.0 * float(np.log(len(times)))
    behind = min(criterion_of(p, one) for one in forms) - tried[time][0] - choice
    return FoundBreak(time, min(alike), max(alike), behind)


def _evenly(times: Array) -> Array:
    """`TIMES` of some times, evenly."""
    return times[np.unique(np.linspace(0, len(times) - 1, TIMES).round().astype(int))] if len(times) else times


def _possible(p: Problem) -> Array:
    """Sample times with enough samples on either side, in the user's unit."""
    every = np.sort(np.concatenate([run.time for run in p.data.trajectories])) * p.scale.time
    times: Array = np.unique(every[SAMPLES : len(every) - SAMPLES])
    return times


def _broken(p: Problem, one: FittedForm, place: int, steps: Mapping[str, float]) -> Broken | None:
    """One constant of a form broken; None where it cannot be integrated."""
    name = one.form.names[place]
    begun = np.append(one.constants, np.full(len(steps), one.constants[place]))
    form = _with_steps(one.form, name, list(steps))
    fitted = Fitter.of(p).with_steps(steps).fit(form, begun, one.says)
    if fitted is None:
        return None
    samples = float(fitted.counts.sum())
    # Which constant it is was chosen, too.
    choice = 2.0 * float(np.log(max(len(one.form.names), 1)))
    price = len(steps) * float(np.log(max(samples, 2.0))) + choice
    return Broken(fitted, name, criterion_of(p, fitted, constants=len(one.constants)) + price)


def _with_steps(form: Form, name: str, controls: Sequence[str]) -> Form:
    """The form with a constant that has another value from each step on."""
    safe = list(identifiers(list(controls)).values())
    later = [f"{name}_{step}" for step in safe]
    steps = ["1", *safe, "0"]
    parts = [
        f"{value}*{before}" if after == "0" else f"{value}*({before} - {after})"
        for value, before, after in zip([name, *later], steps, steps[1:], strict=False)
    ]
    written = re.compile(rf"(?<![\w.]){re.escape(name)}(?![\w])")
    texts = {state: written.sub(f"({' + '.join(parts)})", text) for state, text in form.texts.items()}
    names = (*form.names, *later)
    return dataclasses.replace(form, controls=tuple(controls), texts=texts, names=names, starts=(None,) * len(names))


def broken_note(named: NamedConstants, name: str, controls: Sequence[str], behind: float) -> Note:
    """What changes when, and how much worse it is without."""
    values = dict(zip(named.names, zip(named.values, named.errors, strict=True), strict=True))
    steps = [
        f"from {control.removeprefix('after_')} on {constant(*values[f'{name}_{safe}'])}"
        for control, safe in identifiers(list(controls)).items()
    ]
    return changing_constant(name, constant(*values[name]), steps, behind)
