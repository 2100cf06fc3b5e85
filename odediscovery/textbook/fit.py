"""Textbook laws fitted to whole trajectories, the promising ones of each number of constants."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from odediscovery.data.samples import pooled
from odediscovery.data.series import TimeSeries
from odediscovery.errors import InputError
from odediscovery.laws.compiled import CompiledForm
from odediscovery.laws.equations import Equations
from odediscovery.laws.forms import Form
from odediscovery.problem.problem import Problem, has_little_noise
from odediscovery.runtime.arrays import Array
from odediscovery.runtime.monitor import SEARCHING, Monitor
from odediscovery.runtime.thresholds import Thresholds
from odediscovery.textbook.flow import rates_of
from odediscovery.textbook.registry import TEXTBOOK, TextbookLaw, orders
from odediscovery.textbook.shooting import SHOOTING, Shooting
from odediscovery.textbook.starts import Path, Start, positive_start, start_of


@dataclass(frozen=True)
class TextbookThresholds(Thresholds):
    """Which textbook laws are fitted to whole trajectories."""

    of_a_size: int = 4  # laws of each number of constants that are fitted
    # Laws that miss the integral form by so much more than the best of their size are not [mean square]
    behind: float = 4.0
    # Laws that leave no more of the integral form are as promising as the best [variance of the states]
    well: float = 0.01
    # Laws of each number of constants that are fitted although the integral form gives one a wrong sign
    unsigned: int = 2
    most: int = 15  # most evaluations of the derivatives in their fits
    gained: float = 0.9  # nor laws that miss it by more than this share of what simpler ones do [mean square]
    nothing: float = 0.5  # laws that leave more of the integral form are not [variance of the states]
    far: float = 0.1  # laws that leave more of it are fitted briefly [variance of the states]
    clear: float = 0.02  # in little noise laws that leave more of it are not fitted [variance of the states]
    rounds: int = 2  # fits, each with the noise that the last one leaves of every state
    floor: float = 1e-8  # least residual that is told from none [spread]


FITTING = TextbookThresholds()


@dataclass(frozen=True, eq=False)
class FittedForm:
    """A form with constants at the maximum of the likelihood, in the user's units.

    Args:
        says: what it is called; nothing for one without a name.
        form: with named constants.
        constants: in the order of the form.
        starts: fitted first states [trajectories, states].
        left: curve - data, [samples, states] a trajectory, nan where nothing was measured.
    """

    says: str
    form: Form
    constants: Array
    starts: Array
    left: tuple[Array, ...]

    @property
    def equations(self) -> Equations:
        """With numbers in the place of the constants."""
        return self.form.with_constants(self.constants.tolist())

    @property
    def mse(self) -> float:
        """Mean squared residual of all values, of counts that of their increments."""
        return float(np.nanmean(np.concatenate(self.left) ** 2))


def user_path(p: Problem) -> tuple[TimeSeries, TimeSeries]:
    """Data and smoothed path of a problem in the user's units."""
    found = []
    for series in (p.data, p.smooth):
        runs = [
            dataclasses.replace(
                run,
                time=run.time * p.scale.time,
                values=run.values * p.scale.state,
                sigma=None,
                recorded=run.recorded and run.recorded.scaled(1.0 / p.scale.state),
            )
            for run in series.trajectories
        ]
        found.append(dataclasses.replace(series, trajectories=tuple(runs)))
    return found[0], found[1]


class Fitter:
    """Forms fitted to one problem."""

    def __init__(self, p: Problem) -> None:
        self.series, smooth = user_path(p)
        self.path = Path.of(smooth)
        begun = np.stack([run.values[0] for run in p.smooth.trajectories])
        # Noise takes a small start to 0 or beyond, from where nothing grows.
        least = np.where(p.nonnegative & (p.noise > 0.0), SHOOTING.small * np.nanstd(pooled(p.data), axis=0), -np.inf)
        begun = np.maximum(begun, least) * p.scale.state
        self.relative = [np.broadcast_to(r * p.scale.size, r.shape) for r in p.relative_sigma]
        self.noise = p.noise * p.scale.size
        guess = [
            np.column_stack([np.interp(run.time, path.time, x) for x in path.values.T])
            for run, path in zip(self.series.trajectories, smooth.trajectories, strict=True)
        ]
        self.shooting = Shooting(self.series, begun, self.relative, self.noise, guess)

    def fit(self, form: Form, start: Start, says: str, *, most: int | None = None) -> FittedForm | None:
        """The form from these constants; None where it cannot be integrated.

        Args:
            most: evaluations of the derivatives (default: `SHOOTING.evaluations`). A fit that is to be so brief
                begins from the first samples alone.
        """
        rates, k = rates_of(form), len(start.constants)
        begun = [np.concatenate([start.constants, self.shooting.begun.ravel()])]
        begun += [] if most else self._led(rates, start)
        found = (self._from(rates, theta, k, most or SHOOTING.evaluations) for theta in begun)
        _, theta, steps = min(found, key=lambda one: one[0])
        return self._value(form, rates, theta, k, steps, says)

    def _from(self, rates: CompiledForm, theta: Array, k: int, most: int) -> tuple[float, Array, float]:
        """Misfit, unknowns and steps of a fit from some unknowns."""
        shooting, steps = self.shooting, 1.0
        sigma, weight = np.nan_to_num(shooting.sigma, nan=1.0), np.ones((shooting.n, 1))
        counts = shooting.seen.sum(axis=(0, 2))
        rounds = 1 if shooting.n == 1 or most < SHOOTING.evaluations else FITTING.rounds
        for last in [False] * (rounds - 1) + [True]:
            starts = theta[k:].reshape(shooting.begun.shape)
            gained = SHOOTING.gained if last else SHOOTING.roughly
            found = shooting.fitted(rates, theta[:k], sigma * weight, most, starts, gained)
            theta, steps = found.x, found.steps
            left = shooting.left(rates, k, theta, steps)
            mean = np.where(shooting.seen, (left / sigma) ** 2, 0.0).sum(axis=(0, 2)) / counts.clip(1)
            weight = np.sqrt(np.maximum(mean, FITTING.floor**2))[:, None]
        return float(counts @ np.log(weight[:, 0])), theta, steps

    def _led(self, rates: CompiledForm, start: Start) -> list[Array]:
        """Unknowns with starts that follow the data best, where first samples lead away from them."""
        shooting, k = self.shooting, len(start.constants)
        theta = np.concatenate([start.constants, shooting.begun.ravel()])
        left = shooting.left(rates, k, theta, shooting.enough_steps(rates, k, theta)) / shooting.spread[:, None]
        if np.mean(left[shooting.seen] ** 2) <= max(FITTING.behind * start.misfit, FITTING.well):
            return []
        starts = shooting.nearest_starts(rates, start.constants, np.nan_to_num(shooting.sigma, nan=1.0))
        return [np.concatenate([start.constants, starts.ravel()])]

    def taken(self, form: Form, constants: Array, starts: Array, says: str) -> FittedForm | None:
        """The form with constants and starts [trajectories, states] as they are; None where it cannot be integrated."""
        rates, theta = rates_of(form), np.concatenate([constants, starts.ravel()])
        steps = self.shooting.enough_steps(rates, len(constants), theta)
        return self._value(form, rates, theta, len(constants), steps, says)

    def r2(self, fitted: FittedForm) -> float:
        """Share of the variance of all states that a form explains."""
        values = np.concatenate([run.values for run in self.series.trajectories])
        spread = float(np.nansum((values - np.nanmean(values, axis=0)) ** 2))
        left = [run.plain(block) for run, block in zip(self.series.trajectories, fitted.left, strict=True)]
        return 1.0 - float(np.nansum(np.concatenate(left) ** 2)) / spread if spread > 0 else 1.0

    def slopes(self, fitted: FittedForm) -> tuple[Array, Array]:
        """Derivatives of the weighted residuals by all unknowns [values, unknowns], and these residuals [values].

        Each state is weighed by what the form leaves of it.
        """
        shooting, k, rates = self.shooting, len(fitted.constants), rates_of(fitted.form)
        theta = np.concatenate([fitted.constants, fitted.starts.ravel()])
        steps = shooting.enough_steps(rates, k, theta)
        sigma = np.nan_to_num(shooting.sigma, nan=1.0)
        left = shooting.left(rates, k, theta, steps)
        mean = np.where(shooting.seen, (left / sigma) ** 2, 0.0).sum(axis=(0, 2)) / shooting.seen.sum(axis=(0, 2))
        sigma = sigma * np.sqrt(np.maximum(mean, FITTING.floor**2))[:, None]
        return shooting.linearised(rates, k, theta, sigma, steps)[1], (left / sigma)[shooting.seen]

    def _value(
        self, form: Form, rates: CompiledForm, theta: Array, k: int, steps: float, says: str
    ) -> FittedForm | None:
        shooting = self.shooting
        left = np.where(np.isfinite(shooting.values), shooting.left(rates, k, theta, steps), np.nan)
        blocks = tuple(left[: len(run.time), :, r] for r, run in enumerate(self.series.trajectories))
        if not np.nanmax(np.abs(left) / shooting.spread[:, None]) < SHOOTING.lost:
            return None
        try:
            form.with_constants(theta[: len(form.names)].tolist())
        except InputError:  # a constant has run beyond all numbers
            return None
        return FittedForm(says, form, theta[:k], shooting.unpacked(theta, k)[1].T, blocks)


def fit_textbook(
    p: Problem, monitor: Monitor, laws: Sequence[TextbookLaw] = TEXTBOOK, *, most_left: float | None = None
) -> list[FittedForm]:
    """The textbook laws of these data, those of few constants first.

    Of each number of constants only those that meet the integral form about best are fitted, and none that
    a law of fewer constants meets as well.

    Args:
        most_left: laws that leave more of the integral form, in variances, are not fitted (default:
            `FITTING.clear` in little noise, else `FITTING.nothing`).
    """
    fitter = Fitter(p)
    if most_left is None:
        most_left = FITTING.clear if has_little_noise(p) else FITTING.nothing
    monitor.stage("textbook laws", 1)
    begun = list(_begun(laws, p, fitter.path, most_left))
    found: list[FittedForm] = []
    simpler = np.inf
    for size in sorted({row[0] for row in begun}):
        alike = sorted((row for row in begun if row[0] == size), key=lambda row: row[1].misfit)
        most = max(min(FITTING.behind * alike[0][1].misfit, FITTING.gained * simpler), FITTING.well)
        near = [row for row in alike if row[1].misfit <= most]
        right = [row for row in near if _is_signed(row)][: FITTING.of_a_size]
        for _, start, law, form in [*right, *[row for row in near if not _is_signed(row)][: FITTING.unsigned]]:
            if found and monitor.stopping():
                return found
            # What begins with a wrong sign or far from the data ends soon, or not at all.
            near_data = _is_signed((size, start, law, form)) and start.misfit < FITTING.far
            steps = None if near_data else FITTING.most
            fitted = monitor.in_time(SEARCHING, partial(fitter.fit, form, start, law.says, most=steps), None)
            says = "" if fitted is None else law.called(form.names, fitted.constants.tolist())
            if fitted is not None and says:
                found.append(dataclasses.replace(fitted, says=says))
        # Where nothing else is tried a law that explains little keeps no other from being tried.
        if np.isfinite(most_left):
            simpler = min([simpler, *(row[1].misfit for row in alike if _is_signed(row))])
    return found


def _is_signed(row: tuple[int, Start, TextbookLaw, Form]) -> bool:
    """Whether constants have the signs that the law's name means."""
    _, start, law, form = row
    return bool(law.called(form.names, start.constants.tolist()))


def _begun(
    laws: Sequence[TextbookLaw], p: Problem, path: Path, most_left: float
) -> Iterator[tuple[int, Start, TextbookLaw, Form]]:
    """Laws that meet the integral form at all: size, start, law and form."""
    states, time_name = p.data.states, p.data.time_name
    for law in (law for law in laws if path.goes(law.way)):
        for order in orders(law, states):
            form, sought = law.form(states, order, time_name)
            alone = law.n_states < len(states)
            starts = _each_alone(law, p, path) if alone else start_of(form, sought, path, most=1, worst=most_left)
            for start in starts[:1]:
                for begun in (start, *_mended(law, form, sought, path, start)):
                    if begun.misfit < most_left:
                        yield len(form.names), begun, law, form


def _mended(law: TextbookLaw, form: Form, sought: Mapping[str, str], path: Path, start: Start) -> list[Start]:
    """A start with the signs that the law's name means, where the regression gives others."""
    if law.n_states < len(form.states) or law.backwards or law.called(form.names, start.constants.tolist()):
        return []
    mended = positive_start(form, list(sought), path, start, law.signed)
    return [mended] if law.called(form.names, mended.constants.tolist()) else []


def _each_alone(law: TextbookLaw, p: Problem, path: Path) -> list[Start]:
    """The constants of a law of one state for every state on its own."""
    found = []
    for k, state in enumerate(p.data.states):
        form, sought = law.form([state], (), p.data.time_name)
        found += start_of(form, sought, path.of_state(k), most=1)
    if len(found) < len(p.data.states):
        return []
    return [Start(np.concatenate([one.constants for one in found]), float(np.mean([one.misfit for one in found])))]
