r"""The constants of any form of equations: named ones, fitted to whole trajectories.

    min over constants c and starts x_0   \sum_i \sum_j (x_i(t_j; c, x_0) - data_ij)^2 / sigma_i^2

The fit begins where the integral form is met best,

    x(t_{j+1}) - x(t_j)  =  (f(x(t_j); c) + f(x(t_{j+1}); c)) (t_{j+1} - t_j) / 2,

from many draws of the constants, which needs no solution of the equations.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import OptimizeResult, least_squares

from odediscovery.data.samples import pooled
from odediscovery.data.series import TimeSeries
from odediscovery.data.signals import Signal, Trajectory
from odediscovery.discovery.conclude import build_result
from odediscovery.errors import FitError, InputError
from odediscovery.judge.claim import CLAIM, Claim, shares_explained
from odediscovery.judge.residual_tests import examine_residuals
from odediscovery.laws.equations import Equations
from odediscovery.laws.forms import Form
from odediscovery.problem.interpolants import find_interpolation
from odediscovery.result.compare import criterion
from odediscovery.result.discovery import Discovery
from odediscovery.result.front import FrontRow
from odediscovery.result.named import NamedConstants
from odediscovery.runtime.arrays import ABOVE_ZERO, Array
from odediscovery.runtime.monitor import Monitor
from odediscovery.runtime.thresholds import Thresholds, threshold
from odediscovery.settings import Settings
from odediscovery.textbook.judged import standard_errors


@dataclass(frozen=True)
class FormThresholds(Thresholds):
    """How the constants of a form are sought and fitted."""

    draws: int = threshold(60, "draws of the constants from which the integral form is fitted", origin="cost: seconds")
    decades: float = threshold(2.0, "powers of ten on each side of 1 for constants without a start", origin="a guess")
    begun: int = threshold(3, "of them that are fitted to whole trajectories", origin="cost: seconds each")
    worse: float = threshold(
        2.0,
        "others are fitted that miss the integral form at most so much more",
        unit="squares",
        origin="twice the best",
    )
    poor: float = threshold(
        0.5,
        "rough fits that all leave more than this are fitted to the end",
        unit="of the squares around the mean",
        origin="half is no fit",
    )
    settled: float = threshold(1.2, "change of one state's noise against another's that ends them", origin="20 %")
    rounds: int = threshold(3, "fits, each with the noise that the last one leaves", origin="the weights settle in two")
    steps: int = threshold(60, "most Jacobians of a fit", origin="cost: bounds the time")
    lost: float = threshold(1e3, "residual where a solution ended early", unit="spreads", origin="worse than any")
    evaluations: int = threshold(50_000, "most evaluations of the right-hand sides in a solution", origin="cost")
    floor: float = threshold(1e-8, "least residual that is told from none", unit="spreads", origin="the solver's error")


FORM = FormThresholds()
# Fits end where a step changes less than this share of constants or squares, rough ones earlier.
TOLERANCE, ROUGH_TOLERANCE = 1e-10, 1e-3
# Step of a derivative, as a share of the constant: the solver's error, 1e-9, is far below.
STEP = 1e-5
# By how much the curve is moved for the derivatives behind standard errors, as a share of the spread.
WIDE_STEP = 1e-3
# Standard errors on each side of a 95 % interval.
SURE = 1.96


def fit_form(
    series: TimeSeries, form: Form, settings: Settings, monitor: Monitor, starts: Array | None = None
) -> Discovery:
    """The most likely constants of a form, with standard errors.

    Args:
        series: what was measured, of the states of the form.
        form: equations with named constants.
        settings: are kept with the result; the seed draws where the fit begins.
        monitor: knows the time.
        starts: states from which the trajectories begin [trajectories, states], where these and the constants that
            the form begins with were fitted before (default: the first samples, and the best of many constants).

    Raises:
        FitError: no constants were found with which the equations can be integrated through the data.
    """
    task = _Task(series, form)
    if starts is not None:
        task.starts = np.where(np.isfinite(task.known), task.known, starts).ravel()
        begun = [np.concatenate([np.array(form.starts, dtype=np.float64), task.starts])]
    else:
        begun = _beginnings(task, np.random.default_rng(settings.seed))
    fits = [found for begin in begun if (found := task.fitted(begin, task.spread, ROUGH_TOLERANCE)) is not None]
    if fits and all(2.0 * found.cost > FORM.poor * len(found.fun) for found in fits):
        fits = [task.fitted(found.x, task.spread, TOLERANCE) or found for found in fits]
    if not fits:
        raise FitError(
            "equations of this form could not be integrated through the data; name constants to start from, start={...}"
        )
    best = min(fits, key=lambda found: float(found.cost))
    sigma = task.spread
    for _ in range(FORM.rounds):
        before, sigma = sigma, task.deviations(best.x)
        best = task.fitted(best.x, sigma, TOLERANCE) or best
        change = task.deviations(best.x) / sigma
        if before is not task.spread and change.max() < FORM.settled * change.min():
            break
    return _concluded(task, best, settings, monitor)


class _Task:
    """The least squares problem of one form: constants, then the starts of all trajectories."""

    def __init__(self, series: TimeSeries, form: Form) -> None:
        self.series, self.form = series, form
        self.law, self.runs = form.open(), series.trajectories
        self.n, self.k = series.n_states, len(form.names)
        values = pooled(series)
        self.spread = np.nanstd(values, axis=0)
        self.spread = np.where(self.spread > 0, self.spread, np.nanmax(np.abs(values), axis=0).clip(ABOVE_ZERO))
        self.filled = [_filled(run) for run in self.runs]
        self.known = np.stack([run.known_start for run in self.runs])
        begun = np.stack([x[0] for x in self.filled])
        self.starts = np.where(np.isfinite(self.known), self.known, begun).ravel()

    def controls(self, run: Trajectory, constants: Array) -> Signal:
        """What acts on a run, with the constants as further controls, which stay."""
        ends = run.time[[0, -1]]
        if run.controls is None:
            return Signal(ends, np.tile(constants, (2, 1)), np.ones(self.k, dtype=bool))
        own = run.controls
        values = np.column_stack([own.values, np.tile(constants, (len(own.times), 1))])
        return Signal(own.times, values, np.append(own.held, np.ones(self.k, dtype=bool)))

    def curve(self, j: int, theta: Array) -> Array:
        """The solution of trajectory j at its samples [n, states], nan from where it ends."""
        start, run = theta[self.k :].reshape(-1, self.n)[j], self.runs[j]
        start = np.where(np.isfinite(self.known[j]), self.known[j], start)
        controls = self.controls(run, theta[: self.k])
        return self.law.simulate(start, run.time, controls=controls, most_evaluations=FORM.evaluations)

    def left_of(self, j: int, theta: Array) -> Array:
        """Data - curve of trajectory j, of increments and limits where these were recorded [samples, states].

        It is nan where nothing was measured.
        """
        run = self.runs[j]
        left = -run.left(self.curve(j, theta))
        lost = np.isfinite(run.values) & ~np.isfinite(left)
        return np.where(lost, FORM.lost * self.spread, left)

    def left(self, theta: Array) -> list[Array]:
        """The same of every trajectory."""
        return [self.left_of(j, theta) for j in range(len(self.runs))]

    def residuals_of(self, j: int, theta: Array, sigma: Array) -> Array:
        """The residuals of trajectory j in units of their standard deviations [its values]."""
        run = self.runs[j]
        known = np.full(run.values.shape, np.nan) if run.sigma is None else run.sigma
        left: Array = (self.left_of(j, theta) / np.where(np.isfinite(known), known, sigma)).ravel()
        return left[np.isfinite(left)]

    def residuals(self, theta: Array, sigma: Array) -> Array:
        """All residuals in units of their standard deviations [values]."""
        return np.concatenate([self.residuals_of(j, theta, sigma) for j in range(len(self.runs))])

    def changes(self, theta: Array, steps: Array, sigma: Array) -> Array:
        """What a step of each constant and start changes of the residuals [values, constants and starts].

        A start moves its own trajectory alone.
        """
        here = [self.residuals_of(j, theta, sigma) for j in range(len(self.runs))]
        changed = []
        for i, step in enumerate(np.diag(steps)):
            own = range(len(self.runs)) if i < self.k else [(i - self.k) // self.n]
            blocks = [np.zeros(len(block)) for block in here]
            for j in own:
                blocks[j] = self.residuals_of(j, theta + step, sigma) - here[j]
            changed.append(np.concatenate(blocks))
        return np.stack(changed, axis=1)

    def deviations(self, theta: Array) -> Array:
        """Root mean square of what is left of every state [states]."""
        left = np.concatenate(self.left(theta))
        found: Array = np.maximum(np.sqrt(np.nanmean(left**2, axis=0)), FORM.floor * self.spread)
        return found

    def size(self, theta: Array) -> Array:
        """The order of magnitude of constants and starts, also of those that are nearly 0."""
        typical = np.append(np.full(self.k, np.median(np.abs(theta[: self.k]))), np.tile(self.spread, len(self.runs)))
        return np.maximum(np.abs(theta), 1e-2 * typical)

    def slopes(self, theta: Array, sigma: Array) -> Array:
        """Derivatives of the residuals by central differences [values, constants and starts].

        Steps move the curve by a thousandth of the spread, so that what tells two constants apart is seen.
        """
        moved = self.changes(theta, STEP * self.size(theta), self.spread)
        moves = np.sqrt(np.mean(moved**2, axis=0)) / (STEP * self.size(theta))
        steps = np.minimum(WIDE_STEP / np.maximum(moves, ABOVE_ZERO), 1e2 * self.size(theta))
        slopes: Array = (self.changes(theta, steps, sigma) - self.changes(theta, -steps, sigma)) / (2.0 * steps)
        return slopes

    def fitted(self, theta: Array, sigma: Array, tolerance: float) -> OptimizeResult | None:
        """The least squares fit from some constants and starts; None where nothing can be integrated."""
        if not np.isfinite(self.residuals(theta, sigma)).all() or self._is_lost(theta):
            return None
        size = self.size(theta)

        def jacobian(at: Array) -> Array:
            # Beyond all numbers a slope says nothing.
            slopes: Array = np.nan_to_num(self.changes(at, STEP * size, sigma) / (STEP * size), posinf=0.0, neginf=0.0)
            return slopes

        with np.errstate(all="ignore"):  # squares of the largest numbers are none
            found = least_squares(
                lambda at: self.residuals(at, sigma),
                theta,
                jacobian,
                x_scale="jac",
                max_nfev=FORM.steps,
                ftol=tolerance,
                xtol=tolerance,
            )
        return None if self._is_lost(found.x) else found

    def _is_lost(self, theta: Array) -> bool:
        return all(np.isnan(self.curve(j, theta)[1:]).all() for j in range(len(self.runs)))


def _beginnings(task: _Task, random: np.random.Generator) -> list[Array]:
    """Where fits of whole trajectories begin: the best of the integral form, [constants and starts]."""
    given = task.form.starts
    known = np.array([np.nan if value is None else value for value in given])
    begun = [np.where(np.isnan(known), 1.0, known)]
    if np.isnan(known).any():
        size = 10.0 ** random.uniform(-FORM.decades, FORM.decades, (FORM.draws, task.k))
        begun += list(np.where(np.isnan(known), size, known))
    found = [(float(np.sum(_integral(task, begin) ** 2)), begin) for begin in begun]
    found += [_matched(task, begin) for _, begin in sorted(found, key=lambda pair: pair[0])[: FORM.draws // 3]]
    found.sort(key=lambda pair: pair[0])
    # Where all constants have a start it is tried as it is, too.
    kept: list[Array] = [] if np.isnan(known).any() else [known]
    most = FORM.worse * found[0][0]
    for _, constants in (pair for pair in found if pair[0] <= most):
        if len(kept) < FORM.begun and not any(np.allclose(constants, other, rtol=0.05, atol=0.0) for other in kept):
            kept.append(constants)
    return [np.concatenate([constants, task.starts]) for constants in kept]


def _matched(task: _Task, begin: Array) -> tuple[float, Array]:
    """The constants that meet the integral form best, from some others, and by how much they miss it."""
    found = least_squares(lambda c: _integral(task, c), begin, x_scale=np.abs(begin) + 1e-6, max_nfev=FORM.steps)
    return 2.0 * float(found.cost), found.x


def _integral(task: _Task, constants: Array) -> Array:
    """By how much the data miss the integral form of the law, in units of the spread [values]."""
    blocks = []
    for run, x in zip(task.runs, task.filled, strict=True):
        known = task.controls(run, constants).at(run.time)
        rates = task.law.rhs(np.column_stack([x, known]))
        steps = 0.5 * (rates[1:] + rates[:-1]) * np.diff(run.time)[:, None]
        blocks.append(((np.diff(x, axis=0) - steps) / task.spread).ravel())
    missed: Array = np.nan_to_num(np.concatenate(blocks), nan=FORM.lost, posinf=FORM.lost, neginf=-FORM.lost)
    return missed.clip(-FORM.lost, FORM.lost)


def _filled(run: Trajectory) -> Array:
    """The samples with straight lines over gaps [n, states]."""
    columns = []
    for column in run.values.T:
        seen = np.isfinite(column)
        columns.append(np.interp(run.time, run.time[seen], column[seen]) if seen.any() else np.ones(len(run.time)))
    return np.stack(columns, axis=1)


def _concluded(task: _Task, found: OptimizeResult, settings: Settings, monitor: Monitor) -> Discovery:
    """The fit as a result, in the words of other results."""
    series, form = task.series, task.form
    left = task.left(found.x)
    tests, off = examine_residuals(left), find_interpolation(series).sentences
    freedom = len(found.fun) - len(found.x)
    sigma = task.deviations(found.x)
    squares_left = float(np.sum(task.residuals(found.x, sigma) ** 2))
    errors = standard_errors(task.slopes(found.x, sigma), squares_left, freedom) * tests.inflation
    values, starts = found.x[: task.k], found.x[task.k :].reshape(-1, task.n)
    starts = np.where(np.isfinite(task.known), task.known, starts)
    try:
        equations = form.with_constants(values)
    except InputError as error:
        raise FitError(f"a constant of this form runs beyond all numbers: the data do not tell it ({error})") from None
    plain = [run.plain(block) for run, block in zip(task.runs, left, strict=True)]
    squares, samples = np.concatenate(plain) ** 2, pooled(series)
    mse, spread = float(np.nanmean(squares)), float(np.nansum((samples - np.nanmean(samples, axis=0)) ** 2))
    r2 = 1.0 - float(np.nansum(squares)) / spread if spread > 0 else 1.0
    each = shares_explained(series, np.nansum(squares, axis=0))
    row = FrontRow(_plain(equations), equations.complexity, mse, r2, 0.0, True, starts, state_r2=each)
    result = build_result(
        series,
        settings,
        monitor,
        (row,),
        starts,
        np.sqrt(np.nanmean(squares, axis=0)),
        None,
        [*_unknown(form, values, errors), *tests.sentences(series.states, bool(off)), *off],
        claim=Claim(r2, CLAIM.explained if tests.is_noise else CLAIM.explained_structured, each),
        freedom=freedom if freedom > 0 else None,
    )
    result = dataclasses.replace(
        result,
        named=NamedConstants(tuple(form.lines()), form.names, tuple(values.tolist()), tuple(errors[: task.k].tolist())),
        initial_value_errors=errors[task.k :].reshape(starts.shape),
    )
    return dataclasses.replace(result, front=(dataclasses.replace(row, criterion=criterion(result)[0]),))


def _plain(equations: Equations) -> Equations:
    """The equations without error bars, which belong to the named constants."""
    return dataclasses.replace(equations, standard_errors=None, snapped=None)


def _unknown(form: Form, values: Array, errors: Array) -> Sequence[str]:
    """Which constants the data do not tell, or not the sign of, in sentences."""
    names = [name for name, error in zip(form.names, errors, strict=False) if np.isnan(error)]
    more = ": at most a combination of them is known" if len(names) > 1 else ""
    told = [f"the data do not tell {', '.join(names)}{more}"] if names else []
    unsigned = [name for name, c, e in zip(form.names, values, errors, strict=False) if abs(c) < SURE * e]
    if unsigned:
        told.append(f"the data do not tell the sign of {', '.join(unsigned)}: a law without may do as well")
    return told
