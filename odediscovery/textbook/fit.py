"""Textbook laws fitted to whole trajectories, the promising ones of each number of constants."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial

import numpy as np
import sympy

from odediscovery.data.controls import append_controls
from odediscovery.data.samples import pooled
from odediscovery.data.scale import Scale
from odediscovery.data.series import TimeSeries
from odediscovery.errors import InputError
from odediscovery.laws.compiled import CompiledForm, FilledForm, form_of_expressions
from odediscovery.laws.equations import Equations
from odediscovery.laws.forms import Form
from odediscovery.problem.impulses import step_at
from odediscovery.problem.problem import Problem, has_little_noise
from odediscovery.runtime.arrays import ABOVE_ZERO, Array, Mask
from odediscovery.runtime.monitor import SEARCHING, Monitor
from odediscovery.solve.trajectories import residuals
from odediscovery.stages.polish.polish import polish
from odediscovery.stages.values import PolishedForm
from odediscovery.textbook.registry import TEXTBOOK, TextbookLaw, orders
from odediscovery.textbook.starts import Path, Start, positive_start, start_of


@dataclass(frozen=True)
class TextbookThresholds:
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
    evaluations: int = 40  # most evaluations of the derivatives in a fit
    starting: int = 15  # the same for the starts alone
    small: float = 1e-3  # a start that noise took nearer to 0 is moved so far away [spread of a state]
    converged: float = 1e-6  # change of squares that ends a fit [relative]
    roughly: float = 1e-3  # the same for a fit that only tells how large the noise of every state is [relative]


FITTING = TextbookThresholds()


@dataclass(frozen=True, eq=False)
class FittedForm:
    """A form with constants at the maximum of the likelihood.

    Args:
        says: what it is called; nothing for one without a name.
        form: with named constants.
        found: its constants in the user's units, in the order of the form; starts and squares are dimensionless.
        scale: what the states were divided by.
    """

    says: str
    form: Form
    found: PolishedForm
    scale: Scale

    @property
    def constants(self) -> Array:
        """In the user's units and the order of the form."""
        return self.found.law.values

    @property
    def starts(self) -> Array:
        """First states in the user's units [trajectories, states]."""
        starts: Array = self.found.initial * self.scale.state[: self.found.initial.shape[1]]
        return starts

    @property
    def equations(self) -> Equations:
        """With numbers in the place of the constants."""
        return self.form.with_constants(self.constants.tolist())

    @property
    def squares(self) -> Array:
        """Sum of squared residuals of every state in the user's units [states]."""
        squares: Array = (self.found.plain_squares * self.scale.state**2)[: self.found.initial.shape[1]]
        return squares

    @property
    def counts(self) -> Array:
        """Observed values of every state [states]."""
        return self.found.counts[: self.found.initial.shape[1]]


@dataclass(frozen=True, eq=False)
class Fitter:
    """Forms fitted to whole trajectories.

        min over constants c and starts x_0   sum of ((x(t; c, x_0) - data) / sigma)^2

    with sigma of every state from what the last fit left; see `polish`.

    Args:
        data: dimensionless, controls appended.
        scale: what it was divided by; the constants of forms stay in the user's units.
        begun: first states to begin from [trajectories, states].
        nonnegative: states that do not start below 0 [states and controls].
        floor: standard deviation that rounding and integration alone explain [states and controls].
        relative: noise of each sample relative to the others, [samples, states and controls] a trajectory.
    """

    data: TimeSeries
    scale: Scale
    begun: Array
    nonnegative: Mask
    floor: Array
    relative: tuple[Array, ...]

    @classmethod
    def of(cls, p: Problem) -> Fitter:
        """For the data of a problem."""
        begun = np.stack([run.values[0] for run in p.smooth.trajectories])
        # Noise takes a small start to 0 or beyond, from where nothing grows.
        least = np.where(p.nonnegative & (p.noise > 0.0), FITTING.small * np.nanstd(pooled(p.data), axis=0), -np.inf)
        begun = np.maximum(begun, least)[:, ~p.data.is_control]
        return cls(p.data, p.scale, begun, p.nonnegative, p.floor, p.relative_sigma)

    def with_steps(self, steps: Mapping[str, float]) -> Fitter:
        """The same data with controls that are 0 before a time and 1 from then on; there is a sample at each."""
        at = np.array(list(steps.values())) / self.scale.time
        runs = tuple(step_at(run, at) for run in self.data.trajectories)
        data = append_controls(dataclasses.replace(self.data, trajectories=runs, controls=tuple(steps)))

        def widened(values: Array, fill: float) -> Array:
            return np.append(values, np.full((*values.shape[:-1], len(at)), fill), axis=-1)

        return dataclasses.replace(
            self,
            data=data,
            scale=Scale(widened(self.scale.state, 1.0), self.scale.time),
            nonnegative=np.append(self.nonnegative, np.zeros(len(at), dtype=bool)),
            floor=widened(self.floor, 1.0),
            relative=tuple(widened(block, 1.0) for block in self.relative),
        )

    @cached_property
    def spread(self) -> Array:
        """Standard deviation of every state, or its size where it stays [states and controls]."""
        values = pooled(self.data)
        spread = np.nanstd(values, axis=0)
        size: Array = np.where(spread > 0, spread, np.nanmax(np.abs(values), axis=0).clip(ABOVE_ZERO))
        return size

    def fit(
        self, form: Form, constants: Array, says: str = "", *, worst: float = np.inf, most: int | None = None
    ) -> FittedForm | None:
        """The form from these constants; None where it cannot be integrated.

        Args:
            worst: mean square, in spreads, from which on first samples seem to lead away from the data: then the
                fit begins from the starts that follow them best, too.
            most: evaluations of the derivatives (default: `FITTING.evaluations`). A fit that is to be so brief
                begins from the first samples alone.
        """
        begun = [self.begun]
        if most is None:
            first = self.polished(form, constants, self.begun, self.spread, 0)
            if not first.finite or np.mean(self._mean_squares(first)) > worst:
                led = self.polished(form, constants, self.begun, self.spread, FITTING.starting, starts_alone=True)
                begun += [led.initial] if led.finite else []
        fits = [self._from(form, constants, initial, most) for initial in begun]
        best = min((one for one in fits if one.finite), key=self._misfit, default=None)
        return None if best is None else self._named(form, best, says)

    def taken(self, form: Form, constants: Array, initial: Array, says: str) -> FittedForm | None:
        """The form with constants and dimensionless starts as they are; None where it cannot be integrated."""
        found = self.polished(form, constants, initial, self.spread, 0)
        return self._named(form, found, says) if found.finite else None

    def polished(
        self,
        form: Form,
        constants: Array,
        initial: Array,
        sigma: Array,
        most: int,
        *,
        ftol: float | None = None,
        starts_alone: bool = False,
        relative: Sequence[Array] | None = None,
    ) -> PolishedForm:
        """One least squares fit; see `polish`.

        Args:
            sigma: of every state [states and controls].
            most: evaluations of the derivatives; 0 for none.
            ftol: relative change of the squares that ends it (default: `FITTING.converged`).
            starts_alone: whether the constants stay.
            relative: noise of each sample relative to the others, where it is not the fitter's.
        """
        nothing = np.zeros(0, dtype=bool)
        with np.errstate(all="ignore"):
            return polish(
                self.law(form, constants),
                self.data,
                initial,
                sigma,
                floor=self.floor,
                nonnegative=self.nonnegative,
                free=(np.full(len(constants), not starts_alone), nothing, nothing, nothing),
                most=most,
                relative_sigma=self.relative if relative is None else relative,
                ftol=FITTING.converged if ftol is None else ftol,
            )

    def law(self, form: Form, constants: Array) -> FilledForm:
        """The form with constants in the user's units, as the law of the dimensionless data."""
        return FilledForm(rates_of(form), constants, (*self.scale.state.tolist(), self.scale.time))

    def residuals(self, found: PolishedForm) -> list[Array]:
        """Curve - data of the states in the user's units [samples, states] a trajectory, nan where not measured."""
        own = ~self.data.is_control
        return [block[:, own] * self.scale.size[own] for block in residuals(found.law, self.data, found.initial)]

    def deviations(self, found: PolishedForm) -> Array:
        """Root mean square of what a fit leaves of every state [states and controls]."""
        return np.maximum(np.sqrt(self._mean_squares(found)), FITTING.floor * self.spread)

    def _from(self, form: Form, constants: Array, initial: Array, most: int | None) -> PolishedForm:
        sigma = self.spread
        for last in (True,) if most else (False,) * (FITTING.rounds - 1) + (True,):
            ftol = FITTING.converged if last else FITTING.roughly
            found = self.polished(form, constants, initial, sigma, most or FITTING.evaluations, ftol=ftol)
            if not found.finite:
                break
            constants, initial, sigma = found.law.values, found.initial, self.deviations(found)
        return found

    def _mean_squares(self, found: PolishedForm) -> Array:
        return np.asarray(found.squares / found.counts.clip(1))

    def _misfit(self, found: PolishedForm) -> float:
        return float(found.counts @ np.log(self.deviations(found)))

    def _named(self, form: Form, found: PolishedForm, says: str) -> FittedForm | None:
        try:
            form.with_constants(found.law.values.tolist())
        except InputError:  # a constant has run beyond all numbers
            return None
        return FittedForm(says, form, found, self.scale)


def rates_of(form: Form) -> CompiledForm:
    """The right-hand sides of a form, compiled; its constants are the parameters, then the units of a problem."""
    return _rates_of(form.states, form.controls, tuple(form.texts.items()), form.names, form.time_name)


@lru_cache(maxsize=500)
def _rates_of(
    states: tuple[str, ...],
    controls: tuple[str, ...],
    texts: tuple[tuple[str, str], ...],
    names: tuple[str, ...],
    time_name: str,
) -> CompiledForm:
    """Kept: the same laws are fitted again and again."""
    opened = Form(states, controls, dict(texts), names, (None,) * len(names), time_name).open()
    variables = len(opened.symbols) - len(names)
    sides = [*opened.right_hand_sides, *[sympy.Integer(0)] * (variables - len(states))]
    return form_of_expressions(sides, opened.symbols[:variables], opened.symbols[variables:], scaled=True)


def in_user_units(p: Problem, series: TimeSeries) -> TimeSeries:
    """A dimensionless series of a problem, such as its data, as the user had it."""
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
    return dataclasses.replace(series, trajectories=tuple(runs))


def path_of(p: Problem) -> Path:
    """The smoothed path of a problem in the user's units."""
    return Path.of(in_user_units(p, p.smooth))


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
    fitter, path = Fitter.of(p), path_of(p)
    if most_left is None:
        most_left = FITTING.clear if has_little_noise(p) else FITTING.nothing
    monitor.stage("textbook laws", 1)
    begun = list(_begun(laws, p, path, most_left))
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
            fit = partial(fitter.fit, form, start.constants, law.says, worst=worst_of(start), most=steps)
            fitted = monitor.in_time(SEARCHING, fit, None)
            says = "" if fitted is None else law.called(form.names, fitted.constants.tolist())
            if fitted is not None and says:
                found.append(dataclasses.replace(fitted, says=says))
        # Where nothing else is tried a law that explains little keeps no other from being tried.
        if np.isfinite(most_left):
            simpler = min([simpler, *(row[1].misfit for row in alike if _is_signed(row))])
    return found


def worst_of(start: Start) -> float:
    """What a fit that begins so may leave without first samples being doubted [spreads]."""
    return max(FITTING.behind * start.misfit, FITTING.well)


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
