"""Textbook laws of which one constant changes at known times, everything else being fixed.

S' = -b(t)*S*I,        b(t) = b before t_1, b_1 from t_1 on, b_2 from t_2 on, ...
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from odediscovery.judge.notes import Note, changing_constant
from odediscovery.laws.expressions import identifiers
from odediscovery.laws.forms import Form
from odediscovery.laws.printing import constant
from odediscovery.problem.problem import Problem
from odediscovery.result.named import NamedConstants
from odediscovery.runtime.arrays import Array
from odediscovery.runtime.monitor import Monitor
from odediscovery.textbook.fit import FittedForm, Fitter
from odediscovery.textbook.judged import criterion_of
from odediscovery.textbook.shooting import Shooting
from odediscovery.textbook.starts import Start


class _BrokenShooting(Shooting):
    """Forms of which constant `place` has a value of its own in every piece of time."""

    place: int = 0
    # Number of the piece of every interval [trajectories, intervals].
    piece: NDArray[np.int64]

    def constants_in(self, j: int, constants: Array) -> Array:
        """The first constants are those of the form, the others those of later pieces."""
        pieces = int(self.piece.max())
        k = len(constants) - pieces
        own = np.repeat(constants[:k, None, :], len(self.begun), axis=1)
        for m in range(1, pieces + 1):
            own[self.place, self.piece[:, j] == m] = constants[k + m - 1]
        return own


@dataclass(frozen=True, eq=False)
class Broken:
    """A form of which one constant changes.

    Args:
        fitted: the constants of the form, then those of later pieces.
        name: of the constant that changes.
        criterion: with the price of the pieces.
    """

    fitted: FittedForm
    name: str
    criterion: float

    def form(self, controls: Sequence[str]) -> Form:
        """The form with steps, 0 before a break and 1 from then on, as controls.

        Args:
            controls: the steps, in the order of time.
        """
        own, safe = self.fitted.form, list(identifiers(list(controls)).values())
        later = [f"{self.name}_{step}" for step in safe]
        steps = ["1", *safe, "0"]
        parts = [
            f"{value}*{before}" if after == "0" else f"{value}*({before} - {after})"
            for value, before, after in zip([self.name, *later], steps, steps[1:], strict=False)
        ]
        written = re.compile(rf"(?<![\w.]){re.escape(self.name)}(?![\w])")
        texts = {state: written.sub(f"({' + '.join(parts)})", text) for state, text in own.texts.items()}
        values = tuple(self.fitted.constants.tolist())
        return dataclasses.replace(
            own, controls=tuple(controls), texts=texts, names=(*own.names, *later), starts=values
        )


def fit_broken(p: Problem, forms: Sequence[FittedForm], times: Sequence[float], monitor: Monitor) -> list[Broken]:
    """Every constant of every form broken, the best first.

    Args:
        p: data without controls, with a sample, perhaps without values, at every break.
        forms: fitted with constants that do not change.
        times: of the breaks, in the user's unit, increasing.
    """
    found: list[Broken] = []
    monitor.stage("laws with breaks", len(forms))
    for done, one in enumerate(forms):
        for place, name in enumerate(one.form.names):
            if found and monitor.stopping():
                break
            fitter = Fitter(p)
            own = fitter.shooting
            shooting = _BrokenShooting(own.series, own.begun, own.sigmas)
            begins = np.stack([np.pad(t, (0, own.steps.shape[1] - len(t)), mode="edge") for t in _begins(own)])
            shooting.place, shooting.piece = place, np.searchsorted(np.asarray(times), begins, side="right")
            fitter.shooting = shooting
            start = np.append(one.constants, np.full(len(times), one.constants[place]))
            fitted = fitter.fit(one.form, Start(start, 0.0), one.says)
            if fitted is not None:
                samples = float(np.isfinite(np.concatenate(fitted.left)).sum())
                # Which constant it is was chosen, too.
                choice = 2.0 * float(np.log(max(len(one.form.names), 1)))
                price = len(times) * float(np.log(max(samples, 2.0))) + choice
                plain = dataclasses.replace(fitted, constants=fitted.constants[: len(one.constants)])
                found.append(Broken(fitted, name, criterion_of(p, plain) + price))
        monitor.step(done + 1)
    return sorted(found, key=lambda broken: broken.criterion)


def broken_note(named: NamedConstants, name: str, controls: Sequence[str], behind: float) -> Note:
    """What changes when, and how much worse it is without."""
    values = dict(zip(named.names, zip(named.values, named.errors, strict=True), strict=True))
    steps = [
        f"from {control.removeprefix('after_')} on {constant(*values[f'{name}_{safe}'])}"
        for control, safe in identifiers(list(controls)).items()
    ]
    return changing_constant(name, constant(*values[name]), steps, behind)


def _begins(shooting: Shooting) -> list[Array]:
    """Where the intervals of every trajectory begin."""
    return [run.time[:-1] for run in shooting.series.trajectories]
