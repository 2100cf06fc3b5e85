r"""fit_constants(): measured series and equations of a known form in, their constants out.

    min over constants c and starts x_0   \sum_i \sum_j (x_i(t_j; c, x_0) - data_ij)^2 / sigma_i^2

The constants of any form are fitted to whole trajectories. Like that of a textbook law, the fit starts from the
constants that fit the integral form best; see `textbook.fit.start_of`.

`discover` finds the law; this determines the constants of a given law, and their errors.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from odediscovery.data.series import Scale, TimeSeries, append_controls, check_series, pooled
from odediscovery.data.signals import Trajectory
from odediscovery.discovery.conclude import add_messages, build_result, conclude, groups_result
from odediscovery.errors import FitError, InputError
from odediscovery.judge.claim import EXPLAINED, EXPLAINED_STRUCTURED, Claim, examine_residuals, shares_explained
from odediscovery.judge.criterion import Verdict, judge_on
from odediscovery.judge.remarks import Refit, split_known, undetermined_exponents
from odediscovery.laws.equations import Equations, Form, Written, read_form
from odediscovery.laws.power_sum import Free, PowerSum, all_free
from odediscovery.laws.records import Origin, Polished, PolishedForm
from odediscovery.problem.problem import Problem, apply_knowledge_to_fit, find_interpolation, pose
from odediscovery.result.compare import criterion
from odediscovery.result.discovery import Discovery
from odediscovery.result.front import FrontRow
from odediscovery.result.named import NamedConstants
from odediscovery.runtime.arrays import Array, Mask
from odediscovery.runtime.monitor import Monitor
from odediscovery.search.refinement import residual_sigma
from odediscovery.settings import Settings
from odediscovery.solve.sensitivities import residuals
from odediscovery.stages.polish import polish_on
from odediscovery.textbook.fit import Curve, Fitter, nonlinear_constants, positive_start, start_of

# Most Jacobians of a fit; bounds the time
STEPS = 60
# Smallest significant residual [spreads]; the solver's error
FLOOR = 1e-8
# Fits end when a step changes less than this share of the squares; rough ones end earlier.
TOLERANCE, ROUGH_TOLERANCE = 1e-10, 1e-3
# Samples per piece in the first fit of trajectories that cannot be followed as a whole.
SHORTEST = 4
OUT_OF_TIME = "no constants were found in {:.0f} s: allow more, or name some to start from"
# Shares of the time after the limit in which the first fits, and further ones, may end.
LED, REFINED = 0.2, 0.4
# Standard errors on each side of a 95 % interval.
SURE = 1.96


def fit_form(
    series: TimeSeries, form: Form, settings: Settings, monitor: Monitor, starts: Array | None = None
) -> Discovery:
    """The most likely constants of a form, with standard errors.

    Args:
        series: measurements of the states of the form.
        form: equations with named constants.
        settings: stored with the result.
        monitor: ends the fit early with the best constants so far.
        starts: initial states of the trajectories [trajectories, states], if these and the starts of the form's
            constants were fitted before (default: the first samples, and the best of many constants).

    Raises:
        FitError: no constants were found with which the equations can be integrated through the data.
    """
    task = _Task.of(series, form)
    if starts is not None:
        task.fitter = dataclasses.replace(task.fitter, begun=starts / task.size)
        begun = [np.array(form.starts, dtype=np.float64)]
    else:
        begun = monitor.in_time(LED, partial(_beginnings, task), [])
    fits = list[PolishedForm]()
    for begin in begun:
        found = monitor.in_time(LED, partial(task.led, begin), None)
        fits += [found] if found is not None and np.isfinite(task.deviations(found)).all() else []
        if monitor.stopping() is not None:
            break
    if not fits and monitor.stopping() is not None:
        raise FitError(OUT_OF_TIME.format(monitor.seconds()))
    if not fits:
        raise FitError(
            "equations of this form could not be integrated through the data; name constants to start from, start={...}"
        )
    before = spread = task.fitter.spread

    def lost(found: PolishedForm) -> tuple[float, int]:
        """Residuals of a fit, and number of negative constants: of two equal fits, that with fewer is preferred."""
        squares = float(np.sum(found.squares / spread**2))
        return round(float(np.log(max(squares, FLOOR**2))), 3), int((found.law.values < 0.0).sum())

    best = min(fits, key=lost)
    # Each fit has the noise of the last one's residuals; the weights converge in two.
    for _ in range(3):
        sigma = task.deviations(best)
        after = monitor.in_time(REFINED, partial(task.polished, best.law.values, best.initial, sigma, TOLERANCE), best)
        best = after if after.finite and np.isfinite(task.deviations(after)).all() else best
        change = (task.deviations(best) / sigma)[task.own]
        # The ratio of noise between states has converged to 20 %.
        if before is not spread and change.max() < 1.2 * change.min():
            break
        before = sigma
    return _concluded(task, best, settings, monitor)


@dataclass(eq=False)
class _Task:
    """The least squares problem of one form.

    Args:
        series: measurements of the states of the form.
        form: equations with named constants.
        fitter: of the series.
        filled: the dimensionless samples with straight lines over gaps, [samples, variables] per trajectory.
    """

    series: TimeSeries
    form: Form
    fitter: Fitter
    filled: list[Array]

    @classmethod
    def of(cls, series: TimeSeries, form: Form) -> _Task:
        """The problem for a series in the user's units."""
        with_controls = append_controls(series)
        scale = Scale.of(with_controls)
        data = scale.apply(with_controls)
        filled = [_filled(run) for run in data.trajectories]
        begun = np.stack([x[0] for x in filled])[:, ~data.is_control]
        anywhere, relative = np.zeros(len(data.states), dtype=bool), tuple(np.ones_like(x) for x in filled)
        fitter = Fitter(data, scale, begun, anywhere, np.full(len(data.states), FLOOR), relative)
        return cls(series, form, fitter, filled)

    @property
    def own(self) -> Mask:
        """Which variables are states [states and controls]."""
        return ~self.fitter.data.is_control

    @property
    def size(self) -> Array:
        """Unit of every state [states]."""
        return self.fitter.scale.state[self.own]

    @cached_property
    def curve(self) -> Curve:
        """The samples as a curve in the user's units."""
        series = append_controls(self.series)
        runs = tuple(dataclasses.replace(run, values=_filled(run)) for run in series.trajectories)
        return Curve.of(dataclasses.replace(series, trajectories=runs))

    def led(self, constants: Array) -> PolishedForm | None:
        """A rough fit from these constants, by way of ever longer pieces if they fail; None if these fail too."""
        fitter, length = self.fitter, SHORTEST
        found = self.polished(constants, fitter.begun, fitter.spread, ROUGH_TOLERANCE)
        longest = max(len(run.time) for run in self.series.trajectories)
        while not found.finite and length < longest:
            cut, heads = _cut(self.series, length)
            pieces = _Task.of(cut, self.form)
            led = pieces.polished(constants, pieces.fitter.begun, pieces.fitter.spread, ROUGH_TOLERANCE)
            if led.finite:
                constants, begun = led.law.values, led.initial[heads] * pieces.size / self.size
                found = self.polished(constants, begun, fitter.spread, ROUGH_TOLERANCE)
            length *= 2
        return found if found.finite else None

    def polished(self, constants: Array, initial: Array, sigma: Array, tolerance: float) -> PolishedForm:
        """The least squares fit from given constants and dimensionless starts.

        Args:
            sigma: of the states [states and controls], for values without a given standard deviation.
        """
        runs = self.fitter.data.trajectories
        known = [np.full(t.values.shape, np.nan) if t.sigma is None else t.sigma for t in runs]
        relative = [np.where(np.isfinite(each), each / sigma, 1.0) for each in known]
        return self.fitter.polished(self.form, constants, initial, sigma, STEPS, ftol=tolerance, relative=relative)

    def deviations(self, found: PolishedForm) -> Array:
        """Root mean square of the residuals of every state, 1 for controls [states and controls]."""
        left = np.concatenate(residuals(found.law, self.fitter.data, found.initial))
        sigma = np.ones(len(self.own))
        sigma[self.own] = np.sqrt(np.nanmean(left[:, self.own] ** 2, axis=0))
        return np.maximum(sigma, FLOOR * self.fitter.spread)


def _cut(series: TimeSeries, length: int) -> tuple[TimeSeries, list[int]]:
    """Every trajectory in pieces of about `length` samples, and the index of each one's first piece."""
    runs, heads = list[Trajectory](), list[int]()
    for run in series.trajectories:
        n = len(run.time)
        ends = np.linspace(0, n, max(n // length, 1) + 1).round().astype(int)
        heads.append(len(runs))
        runs += [run.part(slice(i, j)) for i, j in itertools.pairwise(ends)]
    return dataclasses.replace(series, trajectories=tuple(runs)), heads


def _beginnings(task: _Task) -> list[Array]:
    """Initial constants for fits to whole trajectories: the given ones, and those that fit the integral form best.

    If some linear constants are negative there, starts with positive ones are added.
    """
    names, begun = task.form.names, list[dict[str, float]]()
    given = {name: value for name, value in zip(names, task.form.starts, strict=True) if value is not None}
    for known in ({}, given) if given else ({},):
        if len(known) == len(names):
            begun.append(known)
            continue
        form = task.form.holding(known)
        sought = nonlinear_constants(form)
        linear = [k for k, name in enumerate(form.names) if name not in sought]
        found = start_of(form, sought, task.curve, most=3)
        turned = [one for one in found if (one.constants[linear] < 0.0).any()]
        found += [positive_start(form, list(sought), task.curve, one, ()) for one in turned]
        begun += [known | dict(zip(form.names, one.constants.tolist(), strict=True)) for one in found]
    return [np.array([values[name] for name in names]) for values in begun]


def _filled(run: Trajectory) -> Array:
    """The samples with straight lines over gaps [n, states]."""
    columns = []
    for column in run.values.T:
        seen = np.isfinite(column)
        columns.append(np.interp(run.time, run.time[seen], column[seen]) if seen.any() else np.ones(len(run.time)))
    return np.stack(columns, axis=1)


def _concluded(task: _Task, found: PolishedForm, settings: Settings, monitor: Monitor) -> Discovery:
    """The fit as a result."""
    series, form, k = task.series, task.form, len(task.form.names)
    left = task.fitter.residuals(found)
    tests, off = examine_residuals(left), find_interpolation(series).sentences
    freedom = int(np.isfinite(np.concatenate(left)).sum()) - k - found.initial.size
    errors = found.joint.widened(tests.inflation).deviations()
    values, starts = found.law.values, found.initial * task.size
    errors[k:] *= np.tile(np.abs(task.size), len(starts))
    try:
        equations = form.with_constants(values.tolist())
    except InputError as error:
        raise FitError(
            f"a constant of this form runs beyond all numbers: the data do not determine it ({error})"
        ) from None
    plain = [run.plain(block) for run, block in zip(series.trajectories, left, strict=True)]
    squares, samples = np.concatenate(plain) ** 2, pooled(series)
    mse, spread = float(np.nanmean(squares)), float(np.nansum((samples - np.nanmean(samples, axis=0)) ** 2))
    r2 = 1.0 - float(np.nansum(squares)) / spread if spread > 0 else 1.0
    each = shares_explained(series, np.nansum(squares, axis=0))
    row = FrontRow(equations, equations.complexity, mse, r2, 0.0, True, starts, state_r2=each)
    result = build_result(
        series,
        settings,
        monitor,
        (row,),
        starts,
        np.sqrt(np.nanmean(squares, axis=0)),
        None,
        [*_unknown(form, values, errors), *tests.sentences(series.states, bool(off)), *off],
        claim=Claim(r2, EXPLAINED if tests.is_noise else EXPLAINED_STRUCTURED, each),
        freedom=freedom if freedom > 0 else None,
    )
    result = dataclasses.replace(
        result,
        named=NamedConstants(tuple(form.lines()), form.names, tuple(values.tolist()), tuple(errors[:k].tolist())),
        initial_value_errors=errors[k:].reshape(starts.shape),
    )
    return dataclasses.replace(result, front=(dataclasses.replace(row, criterion=criterion(result)[0]),))


def _unknown(form: Form, values: Array, errors: Array) -> Sequence[str]:
    """Sentences on constants, or signs of constants, that the data do not determine."""
    names = [name for name, error in zip(form.names, errors, strict=False) if np.isnan(error)]
    more = ": at most a combination of them is identifiable" if len(names) > 1 else ""
    told = [f"the data do not determine {', '.join(names)}{more}"] if names else []
    unsigned = [name for name, c, e in zip(form.names, values, errors, strict=False) if abs(c) < SURE * e]
    if unsigned:
        told.append(f"the data do not determine the sign of {', '.join(unsigned)}: a law without may fit as well")
    return told


NOT_INTEGRATED = (
    "equations of this form could not be integrated through the data from these constants; start from nearer ones"
)


def fit_constants(
    series: TimeSeries,
    form: Equations | Written,
    settings: Settings | None = None,
    *,
    exponents: bool = True,
    start: Mapping[str, float] | None = None,
    monitor: Monitor | None = None,
) -> Discovery:
    """Fit the constants of equations of a given form, with standard errors.

        min over constants c and starts x_0   sum (x(t; c, x_0) - data)^2 / sigma^2

    on whole trajectories, with sigma of every state from the residuals of the fit itself.

    Args:
        series: the measurements.
        form: sums of products of powers of the same states; the fit starts from their constants.
            No terms are added. Or text such as "N' = r*N*(1 - N/K)", one line per state, of any law:
            names that are not states are its constants, and other numbers are fixed. In
            text without names, numbers with a decimal point or an error bar are the constants.
        settings: knowledge (`known`, `conserve`, `bounds`, ...), which is not fitted, and `max_seconds`; for a
            form in text, only statements on groups, `vary`, `starts`, `covariate`, `hidden_states`, and `max_seconds`.
        exponents: whether exponents are fitted too; those of states that change sign are whole
            numbers and fixed. Exponents of a form in text are fitted if they have names.
        start: initial constants of a form in text, by name; others are searched.
        monitor: ends the fit early (default: after `max_seconds`).

    Raises:
        InputError: no TimeSeries, or the form has other states, cannot be read, or comes with knowledge that must
            be written into it.
        FitError: the equations cannot be integrated through the data from these constants.

    >>> import numpy as np
    >>> t = np.linspace(0.0, 2.0, 20)
    >>> series = TimeSeries.from_arrays(t, 4.0 * np.exp(-0.5 * t), ["x"])
    >>> bool(fit_constants(series, Equations.parse(["x"], {"x": "-x**1.2"})).mse < 1e-12)
    True
    >>> found = fit_constants(series, "x' = -rate*x")
    >>> found.equations_text().splitlines()[0], float(found.constants["value"][0].round(6))
    ("x' = -rate*x", 0.5)
    """
    check_series(series, "fit_constants")
    settings = (settings or Settings()).checked()
    monitor = monitor or Monitor(settings.max_seconds)
    if settings.vary is not None:
        return _fit_groups(series, form, settings, start or {}, monitor)
    if not isinstance(form, Equations) or form.power_sum is None:
        return _fit_written(series, form, settings, start, monitor)
    if start is not None:
        raise InputError("start: expected only beside a form in text; these equations have their own constants")
    law = _checked_law(form, series)
    series, p, known = pose(series, settings)
    law, free = _fitted_constants(p, law.rescaled(p.scale.state, p.scale.time), exponents)
    refit = _refit_from(p, p.initial, p.sigma)
    # Each fit has the noise of the last one's residuals; the weights converge in two.
    found: Polished | None = None
    for _ in range(3):
        after = monitor.in_time(LED if found is None else REFINED, partial(refit, law, free), None)
        if after is None or not after.finite:
            if found is not None:
                break
            raise FitError(OUT_OF_TIME.format(monitor.seconds()) if after is None else NOT_INTEGRATED)
        found = after
        law, refit = found.law, _refit_from(p, found.initial, residual_sigma(p, found))
    assert found is not None
    row = judge_on(p, found, Origin(0))
    result = conclude(Verdict.of(p, [row]), series, settings, monitor)
    wide = monitor.in_time(REFINED, partial(undetermined_exponents, p, found, refit), []) if exponents else []
    return add_messages(result, *wide, *known.sentences())


def _fitted_constants(p: Problem, law: PowerSum, exponents: bool) -> tuple[PowerSum, Free]:
    """The law with knowledge written into it, and which of its constants are fitted."""
    a, w, b, v = all_free(law)
    law, free = apply_knowledge_to_fit(p, law, (a, w & p.nonnegative & exponents, b, v))
    return split_known(p, law, free, fit=True) if exponents else (law, free)


def _refit_from(p: Problem, initial: Array, sigma: Array) -> Refit:
    """A function that polishes laws from these start values, with this standard deviation of the residuals."""

    def refit(law: PowerSum, free: Free, most: int | None = None) -> Polished:
        return polish_on(p, law, free, initial, sigma, 50 if most is None else most)

    return refit


def _fit_groups(
    series: TimeSeries, form: Equations | Written, settings: Settings, start: Mapping[str, float], monitor: Monitor
) -> Discovery:
    """Fit a mixed model, with constants that differ between groups."""
    written = form.texts() if isinstance(form, Equations) else form
    states = (*series.states, *settings.hidden_states)
    read = read_form(written, states, controls=series.controls, time_name=series.time_name, start=start)
    return groups_result(series, settings, monitor, (read, start))


def _fit_written(
    series: TimeSeries,
    form: Equations | Written,
    settings: Settings,
    start: Mapping[str, float] | None,
    monitor: Monitor,
) -> Discovery:
    """Fit any form: its constants have names, or are those of its numbers that are not whole."""
    known = [name for name in ("known", "conserve", "forbid", "bounds", "hidden_states") if getattr(settings, name)]
    if known:
        raise InputError(f"{known[0]}: write what is known into the form; expected no such setting beside it")
    if isinstance(form, Equations) and tuple(form.states) != tuple(series.states):
        raise InputError(f"expected equations of {', '.join(series.states)}, got those of {', '.join(form.states)}")
    written = form.texts() if isinstance(form, Equations) else form
    try:
        read = read_form(written, series.states, controls=series.controls, time_name=series.time_name, start=start)
    except InputError as error:
        if not isinstance(form, Equations):
            raise
        raise InputError(f"expected sums of products of powers, or constants in other equations: {error}") from None
    return fit_form(series, read, settings, monitor)


def _checked_law(form: Equations, series: TimeSeries) -> PowerSum:
    if tuple(form.states) != tuple(series.states) or form.power_sum is None:
        raise InputError(
            f"expected equations of {', '.join(series.states)} that are sums of products of "
            f"powers, got {form.texts()}; write one for each state"
        )
    return form.power_sum
