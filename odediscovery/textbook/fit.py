r"""Textbook laws fitted to whole trajectories: initial constants, and the least squares fit of any form.

Initial constants are those that fit the integral form of the law best.

    x(t_j) = x_0 + \sum_l c_l \int_0^{t_j} g_l(x(s); d) ds

A law is linear in most of its constants c: for given other constants d, they are a linear regression on the
smoothed curve. The constants d are searched on a grid.

The promising laws of each number of constants are fitted to whole trajectories. A fitted form has a criterion, a name
and a row of the front, as other laws have.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import NamedTuple

import numpy as np
import sympy
from scipy.interpolate import CubicSpline, PchipInterpolator
from scipy.optimize import least_squares, lsq_linear

from odediscovery.data.series import Scale, TimeSeries, Trajectory, append_controls, pooled
from odediscovery.errors import InputError
from odediscovery.judge.claim import UNDERESTIMATED, examine_residuals, shares_explained
from odediscovery.judge.criterion import NO_EVIDENCE, correction, judge_on, misfit
from odediscovery.laws.compiled import CompiledForm, FilledForm, form_of_expressions
from odediscovery.laws.equations import Equations, Form, read_law
from odediscovery.laws.expressions import identifiers
from odediscovery.laws.power_sum import Free, PowerSum, value_penalty
from odediscovery.laws.records import Covariance, FittedForm, Judged, Origin, PolishedForm
from odediscovery.problem.problem import Problem, count_extrema, has_little_noise, step_at
from odediscovery.result.front import FrontRow
from odediscovery.result.named import NamedConstants
from odediscovery.runtime.arrays import ABOVE_ZERO, Array, Mask
from odediscovery.runtime.monitor import SEARCHING, Monitor, check_time
from odediscovery.solve.sensitivities import residuals
from odediscovery.stages.polish import polish, polish_on
from odediscovery.textbook.registry import (
    ABOVE,
    ANYTHING,
    BELOW,
    INVERSE,
    POWER,
    RESTING,
    SIZE,
    TEXTBOOK,
    TextbookLaw,
    orders,
)

# Parts of a sample interval for the integrals
BETWEEN = 4
# Approximate number of points of all paths
MOST_POINTS = 400
# Runs of neighbours where this many points cannot follow all extrema; cost
START_RUNS = 8
# Initial value of a constant to which noise gives the wrong sign [spreads of the states]
LITTLE = 0.02
# Step of a derivative by a constant [the constant]
START_STEP = 1e-4
# Terms with larger integrals are skipped; far below the limit of integrals
USABLE = 1e21
# Limit of integrals, and the value of undefined ones.
MAX_INTEGRAL = 1e30
POWERS = (0.25, 0.5, 0.67, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0)


@dataclass(frozen=True, eq=False)
class Curve:
    """Smoothed trajectories on fine grids."""

    times: tuple[Array, ...]  # of each trajectory [points]
    values: tuple[Array, ...]  # of each [points, states and controls]
    ends: tuple[Array, ...]  # which points of each are samples
    spread: Array  # standard deviation of the states and controls

    @classmethod
    def of(cls, smooth: TimeSeries) -> Curve:
        """The curve through smoothed samples without gaps.

        From many samples every n-th is used, or runs of neighbours where these would not follow the extrema.
        """
        count = sum(len(run.time) for run in smooth.trajectories)
        every = max(1, count * BETWEEN // MOST_POINTS) if count > MOST_POINTS else 1
        between = 1 if count * BETWEEN > 4 * MOST_POINTS else BETWEEN
        # Samples per extremum
        followed = max(1, count // (20 * max(_turns(smooth), 1)))
        runs = list(smooth.trajectories)
        if every > followed:
            runs, every = _spread_runs(runs, followed * MOST_POINTS // START_RUNS), followed
        times, values, ends = [], [], []
        for run in runs:
            rows = np.unique(np.append(np.arange(0, len(run.time), every), len(run.time) - 1))
            t, x = run.time[rows], run.values[rows]
            fine = np.unique(np.concatenate([np.linspace(a, b, between + 1) for a, b in itertools.pairwise(t)]))
            along = _between(t, x, fine)
            if run.controls is not None:
                along[:, smooth.is_control] = run.controls.at(fine)
            times.append(fine)
            values.append(along)
            ends.append(np.searchsorted(fine, t))
        spread = np.std(np.concatenate([run.values for run in smooth.trajectories]), axis=0)
        return cls(tuple(times), tuple(values), tuple(ends), np.where(spread > 0, spread, 1.0))

    def goes(self, way: int) -> bool:
        """Whether all states grow (1) or decline (-1) overall; always true for 0."""
        return not (way * sum(values[-1] - values[0] for values in self.values) < 0).any()

    def of_state(self, k: int) -> Curve:
        """The curve of one state."""
        return Curve(self.times, tuple(v[:, k : k + 1] for v in self.values), self.ends, self.spread[k : k + 1])


def _turns(smooth: TimeSeries) -> int:
    """Clear extrema of the state with the most."""
    # Least prominence of an extremum [standard deviation of a state]
    least = 0.2 * np.std(np.concatenate([run.values for run in smooth.trajectories]), axis=0)
    return max(sum(count_extrema(run.values[:, k], least[k]) for run in smooth.trajectories) for k in range(len(least)))


def _spread_runs(trajectories: Sequence[Trajectory], length: int) -> list[Trajectory]:
    """At most `START_RUNS` runs of `length` neighbours, spread evenly over all trajectories."""
    runs = [
        run.part(slice(first, first + length))
        for run in trajectories
        for first in range(0, max(len(run.time) - length // 2, 1), length)
    ]
    places = np.unique(np.linspace(0, len(runs) - 1, START_RUNS).round().astype(int))
    return [runs[k] for k in places]


def _between(t: Array, x: Array, fine: Array) -> Array:
    """A curve through samples x [samples, states] at finer times."""
    try:
        with np.errstate(all="ignore"):
            # A cubic spline through few points oscillates; a monotone one is flat at extrema.
            spline = CubicSpline(t, x) if len(t) > 6 else PchipInterpolator(t, x)
            found: Array = spline(fine)
    except ValueError:  # slopes overflow
        found = np.full((len(fine), x.shape[1]), np.nan)
    lines = np.stack([np.interp(fine, t, column) for column in x.T], axis=1)
    return np.where(np.isfinite(found), found, lines)


class Start(NamedTuple):
    """Initial constants of a fit."""

    constants: Array  # in the order of the form
    misfit: float  # mean square of the residuals of the integral form, in variances of the states


def start_of(form: Form, sought: Mapping[str, str], curve: Curve, most: int = 2, worst: float = np.inf) -> list[Start]:
    """At most `most` sets of initial constants of a form that differ in those `sought` ("kind state"), best first.

    Sets with misfits far above the largest useful one, `worst` in variances, are not refined.
    """
    check_time()
    grids = [_grid(what, form, curve) for what in sought.values()]
    found: list[Start] = []
    taken: list[Array] = []
    # Powers have no unit, so they are compared by difference, other constants by size.
    alike = np.array([0.3 if what.split(" ")[0] in (POWER, ANYTHING) else 0.0 for what in sought.values()])
    for point, _, missed in _solved(form, list(sought), curve, _combinations(grids)):
        if len(found) == 2 * most or missed > 32.0 * worst:
            break
        if any((np.abs(point - other) <= alike + 0.5 * np.abs(other)).all() for other in taken):
            continue
        taken.append(point)
        start = _refined(form, list(sought), curve, grids, point)
        if start is not None:
            found.append(start)
    return sorted(found, key=lambda start: start.misfit)[:most]


def _combinations(grids: Sequence[Sequence[float]]) -> Array:
    """Combinations of values [combinations, grids]; where there are many, the longest grids lose every other value."""
    grids = list(grids)
    while math.prod(map(len, grids)) > 600:
        longest = max(range(len(grids)), key=lambda k: len(grids[k]))
        grids[longest] = grids[longest][::2]
    return np.array(list(itertools.product(*grids)))


def nonlinear_constants(form: Form) -> dict[str, str]:
    """The constants in which a form is not linear, given the others, as `start_of` seeks them: "anything variable".

    The variable is the one nearest to the constant in the formula; its values set the constant's scale.

    >>> from odediscovery.laws.equations import read_form
    >>> nonlinear_constants(read_form("s' = -V*s/(K + s)", ["s"]))
    {'K': 'anything s'}
    """
    opened = form.open()
    place = {symbol.name: symbol for symbol in opened.symbols}
    sides, linear = opened.right_hand_sides, list[sympy.Symbol]()
    for name in form.names:
        together = [*linear, place[name]]
        if all(sympy.diff(side, a, b) == 0 for side in sides for a in together for b in together):
            linear = together
    variables = opened.symbols[: len(form.states) + len(form.controls)]
    return {
        name: f"{ANYTHING} {_nearest(sides, place[name], variables)}"
        for name in form.names
        if place[name] not in linear
    }


def _nearest(sides: Sequence[sympy.Expr], of: sympy.Symbol, variables: Sequence[sympy.Symbol]) -> str:
    """A variable in the shortest part of the right-hand sides that has the constant and a variable; else the first."""
    parts = (part for side in sides for part in sympy.preorder_traversal(side) if part.has(of) and part.has(*variables))
    shortest = min(parts, key=lambda part: part.count_ops(), default=variables[0])
    return str(next(symbol for symbol in variables if shortest.has(symbol)))


def positive_start(form: Form, sought: Sequence[str], curve: Curve, start: Start, signed: Collection[str]) -> Start:
    """The start with the best linear constants for the integral form, those that are not `signed` being positive.

    Noise may give a small constant either sign. One that comes out as 0 starts at a small positive value.
    """
    linear = [name for name in form.names if name not in sought]
    values = dict(zip(form.names, start.constants.tolist(), strict=True))
    given = np.array([[values[name] for name in sought]])
    blocks = _blocks(form, linear, sought, curve, given) if linear else None
    if blocks is None:
        return start
    features, target = blocks[0][0], blocks[1][0]
    size = np.sqrt(np.mean(features**2, axis=0)) + ABOVE_ZERO
    least = np.array([-np.inf if name in signed else 0.0 for name in linear])
    if not (np.isfinite(target).all() and (size < USABLE).all()):
        return start
    found = lsq_linear(features / size, target, (least, np.full(len(linear), np.inf)))
    little = np.where((least == 0.0) & (found.x < LITTLE), LITTLE, found.x)
    left = float(np.mean((target - features / size @ little) ** 2))
    values |= dict(zip(linear, (little / size).tolist(), strict=True))
    return Start(np.array([values[name] for name in form.names]), left)


def _refined(
    form: Form, sought: Sequence[str], curve: Curve, grids: Sequence[Sequence[float]], at: Array
) -> Start | None:
    """The best constants between the neighbours of a grid point."""
    linear = [name for name in form.names if name not in sought]
    # Two refinements determine a constant to about 10 %.
    for _ in range(2 if sought else 1):
        near = []
        for grid, value in zip(grids, at, strict=True):
            k = int(np.abs(np.asarray(grid) - value).argmin())
            # Values between the neighbours of the best one
            near.append(np.linspace(grid[max(k - 1, 0)], grid[min(k + 1, len(grid) - 1)], 7).tolist())
        grids = [sorted([*grid, float(value)]) for grid, value in zip(near, at, strict=True)]
        ranked = _solved(form, sought, curve, np.vstack([at, _combinations(grids)]))
        if not ranked:
            return None
        at, constants, misfit = ranked[0]
    if sought:
        at, constants, misfit = _descended(form, sought, curve, at) or (at, constants, misfit)
    values = dict(zip(linear, constants, strict=True)) | dict(zip(sought, at, strict=True))
    return Start(np.array([values[name] for name in form.names]), misfit)


def _descended(form: Form, sought: Sequence[str], curve: Curve, at: Array) -> tuple[Array, Array, float] | None:
    """The best constants downhill from some, as valleys are narrower than a grid's mesh; None if the descent fails."""
    size = np.maximum(np.abs(at), 1e-3 * np.abs(at).max(initial=ABOVE_ZERO))

    @lru_cache(maxsize=1)
    def around(shift: bytes) -> Array:
        """Residuals with these constants, and with each of them a little larger [1 + sought, rows]."""
        steps = np.vstack([np.zeros(len(at)), START_STEP * np.eye(len(at))])
        found = _projected(form, sought, curve, at + size * (np.frombuffer(shift) + steps))
        return np.full((1 + len(at), 1), MAX_INTEGRAL) if found is None else found[0].clip(-MAX_INTEGRAL, MAX_INTEGRAL)

    def left(shift: Array) -> Array:
        here: Array = around(shift.tobytes())[0]
        return here

    def slopes(shift: Array) -> Array:
        rows = around(shift.tobytes())
        slope: Array = (rows[1:] - rows[0]).T / START_STEP
        return slope

    with np.errstate(all="ignore"):
        begun = around(np.zeros(len(at)).tobytes())
        if not np.isfinite(begun).all():
            return None
        found = least_squares(left, np.zeros(len(at)), slopes, max_nfev=30, bounds=(-0.9, 9.0))
        ranked = _solved(form, sought, curve, (at + size * found.x)[None])
        return ranked[0] if ranked and ranked[0][2] <= np.mean(begun[0] ** 2) else None


def _solved(form: Form, sought: Sequence[str], curve: Curve, given: Array) -> list[tuple[Array, Array, float]]:
    """The given sets of sought constants [sets, sought], best first, each with the linear constants and the misfit."""
    found = _projected(form, sought, curve, given)
    if found is None:
        return []
    left, constants, size = found
    misfit = np.mean(left**2, axis=1)
    usable = np.isfinite(misfit) & (size < USABLE).all(axis=1)
    order = [g for g in np.argsort(misfit, kind="stable") if usable[g]]
    return [(given[g], constants[g], float(misfit[g])) for g in order]


def _projected(form: Form, sought: Sequence[str], curve: Curve, given: Array) -> tuple[Array, Array, Array] | None:
    """Residuals of sets of sought constants [sets, rows], the linear constants, and the size of their features."""
    linear = [name for name in form.names if name not in sought]
    blocks = _blocks(form, linear, sought, curve, given)
    if blocks is None:
        return None
    features, target = blocks
    with np.errstate(all="ignore"):  # overflow and underflow are detected later
        size = np.sqrt(np.mean(features**2, axis=1, keepdims=True)) + ABOVE_ZERO
        unit = features / size
        gram = np.einsum("gnl,gnm->glm", unit, unit) / len(target[0])
        moment = np.einsum("gnl,gn->gl", unit, target) / len(target[0])
        # Least eigenvalue of the linear terms [the largest]; rounding
        solved = np.einsum("glm,gm->gl", np.linalg.pinv(gram, rcond=1e-10, hermitian=True), moment)
        return target - np.einsum("gnl,gl->gn", unit, solved), solved / size[:, 0], size[:, 0]


def _blocks(
    form: Form, linear: Sequence[str], sought: Sequence[str], curve: Curve, given: Array
) -> tuple[Array, Array] | None:
    """Integrals of the factor of each constant [sets, rows, constants], and their target [sets, rows]."""
    n = len(form.states)
    function = _parts(form, tuple(linear), tuple(sought))
    if function is None:
        return None
    features, targets = [], []
    for times, values, ends in zip(curve.times, curve.values, curve.ends, strict=True):
        with np.errstate(all="ignore"):
            found = function(*values.T[:, None, :], *given.T[:, :, None])
            # [linear constants and the rest, states, sets, rows]
            whole = np.empty((len(linear) + 1, n, len(given), len(ends)))
            for place, part in zip(np.ndindex(len(linear) + 1, n), found, strict=True):
                whole[place] = _integrated(part, times, ends) / curve.spread[place[1]]
        x = values[ends, :n] - values[ends, :n].mean(axis=0)
        scaled = np.nan_to_num(whole, nan=MAX_INTEGRAL, posinf=MAX_INTEGRAL, neginf=-MAX_INTEGRAL).clip(
            -MAX_INTEGRAL, MAX_INTEGRAL
        )
        features.append(np.moveaxis(scaled[:-1], 0, -1))
        targets.append((x / curve.spread[:n]).T[:, None, :] - scaled[-1])
    # [states, sets, rows(, constants)] -> [sets, states * rows(, constants)]
    joined, left = np.concatenate(features, axis=2), np.concatenate(targets, axis=2)
    left = np.moveaxis(left, 0, 1).reshape(len(given), -1)
    return np.moveaxis(joined, 0, 1).reshape(*left.shape, len(linear)), left


def _integrated(rate: Array | float, times: Array, ends: Array) -> Array:
    """Integrals of rates [sets, points] up to the samples, without their mean, [sets, samples]; 1 set if all agree."""
    rate = np.asarray(rate)
    if not rate.any():  # most terms are in one equation only
        return np.zeros((1, 1))
    rates = np.broadcast_to(rate, (len(rate) if rate.ndim > 1 else 1, len(times)))
    sums = np.cumsum(0.5 * (rates[:, 1:] + rates[:, :-1]) * np.diff(times), axis=1)
    whole = np.concatenate([np.zeros((len(sums), 1)), sums], axis=1)[:, ends]
    centred: Array = whole - whole.mean(axis=1, keepdims=True)
    return centred


@lru_cache(maxsize=500)  # the same laws are fitted repeatedly
def _parts(form: Form, linear: tuple[str, ...], sought: tuple[str, ...]) -> Callable[..., Sequence[Array]] | None:
    """The factor of each linear constant and the rest, as one function of variables and sought constants.

    None if the law is not linear in them.
    """
    opened = form.open()
    symbols = {s.name: s for s in opened.symbols}
    sides = list(opened.right_hand_sides)
    parts = [[sympy.diff(side, symbols[name]) for side in sides] for name in linear]
    nothing = {symbols[name]: sympy.Integer(0) for name in linear}
    known = [side.xreplace(nothing) for side in sides]
    if any(part.has(symbols[name]) for row in parts for part in row for name in linear):
        return None
    kept = tuple(e for row in (*parts, known) for e in row)
    variables = opened.symbols[: len(form.states) + len(form.controls)]
    return form_of_expressions(kept, [*variables, *(symbols[name] for name in sought)]).values


def _grid(what: str, form: Form, curve: Curve) -> list[float]:
    """Values of a constant to try, for "kind state"."""
    kind, _, of = what.rpartition(" ")
    k = list(identifiers((*form.states, *form.controls)).values()).index(of)
    x = np.concatenate([values[:, k] for values in curve.values])
    low, high = float(x.min()), float(x.max())
    largest, wide = max(abs(low), abs(high)) or 1.0, (high - low) or 1.0
    # Sizes of a state: a hundredth to 30 times the largest value
    sizes = largest * np.logspace(-2.0, 1.5, 22)
    # Distances beyond the data: a thousandth to 10 times their range
    beyond = wide * np.logspace(-3.0, 1.0, 14)
    grids: dict[str, Array] = {
        SIZE: sizes,
        INVERSE: 1.0 / sizes,
        BELOW: low - beyond,
        ABOVE: high + beyond,
        RESTING: np.concatenate([low - beyond[::-1], np.linspace(low, high, 9), high + beyond]),
        POWER: np.array(POWERS),
        ANYTHING: np.unique(
            np.concatenate([POWERS, low - beyond[::3], high + beyond[::3], sizes[::3], 1.0 / sizes[::3]])
        ),
    }
    values: list[float] = grids[kind].tolist()
    return values


# Laws whose misfit exceeds that of the best of their size by this factor are not promising [mean square]
BEHIND = 4.0
# Laws with a smaller misfit are as promising as the best [variance of the states]
FITTING_WELL = 0.01
# Laws with a larger misfit are not promising [variance of the states]
NOTHING = 0.5
# In low noise laws with a larger misfit are not fitted [variance of the states]
CLEAR = 0.02
# Fits, each with the noise from the residuals of the last one
ROUNDS = 2
# Most evaluations of the derivatives in a fit
EVALUATIONS = 40
# Change of squares that ends a fit [relative]
CONVERGED = 1e-6


@dataclass(frozen=True, eq=False)
class Fitter:
    """A fitter of forms to whole trajectories.

        min over constants c and starts x_0   sum of ((x(t; c, x_0) - data) / sigma)^2

    with sigma of every state from the residuals of the last fit; see `polish`.
    """

    data: TimeSeries  # dimensionless, controls appended
    scale: Scale  # by which it was divided; the constants of forms stay in the user's units
    begun: Array  # initial states of the fit [trajectories, states]
    nonnegative: Mask  # states that do not start below 0 [states and controls]
    floor: Array  # standard deviation due to rounding and integration alone [states and controls]
    relative: tuple[
        Array, ...
    ]  # noise of each sample over that of others [samples, states and controls], by trajectory

    @classmethod
    def of(cls, p: Problem) -> Fitter:
        """The fitter for the data of a problem."""
        begun = np.stack([run.values[0] for run in p.smooth.trajectories])
        # Noise may move a small start to 0 or below, where nothing grows: starts keep at least this distance [spread
        # of a state]
        least = np.where(p.nonnegative & (p.noise > 0.0), 1e-3 * np.nanstd(pooled(p.data), axis=0), -np.inf)
        begun = np.maximum(begun, least)[:, ~p.data.is_control]
        return cls(p.data, p.scale, begun, p.nonnegative, p.floor, p.relative_sigma)

    def with_steps(self, steps: Mapping[str, float]) -> Fitter:
        """The fitter with controls that are 0 before a time and 1 from then on, and a sample at each time."""
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
        """Standard deviation of every state, or its size if it is constant [states and controls]."""
        values = pooled(self.data)
        spread = np.nanstd(values, axis=0)
        size: Array = np.where(spread > 0, spread, np.nanmax(np.abs(values), axis=0).clip(ABOVE_ZERO))
        return size

    def fit(
        self, form: Form, constants: Array, says: str = "", *, worst: float = np.inf, most: int | None = None
    ) -> FittedForm | None:
        """Fit the form from these constants; None if it cannot be integrated.

        Above a mean square of `worst`, in spreads, the first samples may be poor starts: the fit then also begins from
        starts that are fitted with these constants, unless it is short, with at `most` so many evaluations.
        """
        begun = [self.begun]
        if most is None:
            first = self.polished(form, constants, self.begun, self.spread, 0)
            if not first.finite or np.mean(self._mean_squares(first) / self.spread**2) > worst:
                led = self.polished(form, constants, self.begun, self.spread, 15, starts_alone=True)
                begun += [led.initial] if led.finite else []
        fits = [self._from(form, constants, initial, most) for initial in begun]
        best = min((one for one in fits if one.finite), key=self._misfit, default=None)
        return None if best is None else self._named(form, best, says)

    def taken(self, form: Form, constants: Array, initial: Array, says: str) -> FittedForm | None:
        """The form with given constants and dimensionless starts; None if it cannot be integrated."""
        found = self.polished(form, constants, initial, self.spread, 0)
        return self._named(form, found, says) if found.finite else None

    def settled(self, fitted: FittedForm) -> FittedForm:
        """The form refined to the maximum of the likelihood, for constants that are shown."""
        found, form = fitted.found, fitted.form
        for _ in range(ROUNDS):
            sigma = self.deviations(found)
            # A tight tolerance, because constants are shown
            after = self.polished(form, found.law.values, found.initial, sigma, EVALUATIONS, ftol=1e-9)
            found = after if after.finite else found
        return self._named(form, found, fitted.says) or fitted

    def polished(
        self,
        form: Form,
        constants: Array,
        initial: Array,
        sigma: Array,
        most: int,
        *,
        ftol: float = CONVERGED,
        starts_alone: bool = False,
        relative: Sequence[Array] | None = None,
    ) -> PolishedForm:
        """Make one least squares fit with at `most` so many evaluations of the derivatives; see `polish`.

        `ftol` is the relative change of the squares that ends it. With `starts_alone` the constants are fixed.
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
                ftol=ftol,
            )

    def law(self, form: Form, constants: Array) -> FilledForm:
        """The form with constants in the user's units, as the law of the dimensionless data."""
        return FilledForm(rates_of(form), constants, (*self.scale.state.tolist(), self.scale.time))

    def residuals(self, found: PolishedForm) -> list[Array]:
        """Curve - data of the states in the user's units [samples, states] per trajectory, nan where not measured."""
        own = ~self.data.is_control
        return [block[:, own] * self.scale.size[own] for block in residuals(found.law, self.data, found.initial)]

    def deviations(self, found: PolishedForm) -> Array:
        """Root mean square of the residuals of every state [states and controls]."""
        # Least residual that is not rounding [spread]
        return np.maximum(np.sqrt(self._mean_squares(found)), 1e-8 * self.spread)

    def _from(self, form: Form, constants: Array, initial: Array, most: int | None) -> PolishedForm:
        sigma = self.spread
        for last in (True,) if most else (False,) * (ROUNDS - 1) + (True,):
            # Fits before the last only estimate the noise.
            ftol = CONVERGED if last else 1e-3
            found = self.polished(form, constants, initial, sigma, most or EVALUATIONS, ftol=ftol)
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
        except InputError:  # a constant has overflowed
            return None
        return FittedForm(says, form, found, self.scale)


@lru_cache(maxsize=500)  # the same laws are fitted repeatedly
def rates_of(form: Form) -> CompiledForm:
    """The right-hand sides of a form, compiled; its constants are the parameters, then the units of a problem."""
    opened = form.open()
    variables = len(form.states) + len(form.controls)
    sides = [*opened.right_hand_sides, *[sympy.Integer(0)] * len(form.controls)]
    return form_of_expressions(sides, opened.symbols[:variables], opened.symbols[variables:], scaled=True)


def in_units_of_data(p: Problem, series: TimeSeries) -> TimeSeries:
    """A dimensionless series of a problem in the user's units, without standard deviations."""
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


def curve_of(p: Problem) -> Curve:
    """The smoothed curve of a problem in the user's units."""
    return Curve.of(in_units_of_data(p, p.smooth))


def fit_textbook(
    p: Problem, monitor: Monitor, laws: Sequence[TextbookLaw] = TEXTBOOK, *, most_left: float | None = None
) -> list[FittedForm]:
    """The textbook laws fitted to these data, those with few constants first.

    For each number of constants, only laws with nearly the smallest misfit of the integral form are fitted, and
    none without an improvement on laws with fewer constants. Laws with a misfit above `most_left`, in variances, are
    not fitted (default: `CLEAR` in low noise, else `NOTHING`).
    """
    fitter, curve = Fitter.of(p), curve_of(p)
    if most_left is None:
        most_left = CLEAR if has_little_noise(p) else NOTHING
    monitor.stage("textbook laws", 1)
    begun = list(_begun(laws, p, curve, most_left))
    found: list[FittedForm] = []
    simpler = np.inf
    for size in sorted({row[0] for row in begun}):
        alike = sorted((row for row in begun if row[0] == size), key=lambda row: row[1].misfit)
        # Laws with more than this share of the misfit of simpler ones are not promising [mean square]
        most = max(min(BEHIND * alike[0][1].misfit, 0.9 * simpler), FITTING_WELL)
        near = [row for row in alike if row[1].misfit <= most]
        right = [row for row in near if _is_signed(row)][:4]
        # The integral form may give a constant of the right law the wrong sign.
        for _, start, law, form in [*right, *[row for row in near if not _is_signed(row)][:2]]:
            if found and monitor.stopping():
                return found
            # Fits from wrong signs or far from the data end soon or fail, so they are short.
            # Laws with a larger misfit are fitted briefly [variance of the states]
            near_data = _is_signed((size, start, law, form)) and start.misfit < 0.1
            steps = None if near_data else 15
            fit = partial(fitter.fit, form, start.constants, law.says, worst=worst_of(start), most=steps)
            fitted = monitor.in_time(SEARCHING, fit, None)
            says = "" if fitted is None else law.called(form.names, fitted.constants.tolist())
            if fitted is not None and says:
                found.append(dataclasses.replace(fitted, says=says))
        # Without a limit of the misfit, a poor simple law does not exclude others.
        if np.isfinite(most_left):
            simpler = min([simpler, *(row[1].misfit for row in alike if _is_signed(row))])
    return found


def worst_of(start: Start) -> float:
    """Largest misfit of a fit from this start at which its first samples are not doubted [spreads]."""
    return max(BEHIND * start.misfit, FITTING_WELL)


def _is_signed(row: tuple[int, Start, TextbookLaw, Form]) -> bool:
    """Whether the constants have the signs that the name of the law implies."""
    _, start, law, form = row
    return bool(law.called(form.names, start.constants.tolist()))


def _begun(
    laws: Sequence[TextbookLaw], p: Problem, curve: Curve, most_left: float
) -> Iterator[tuple[int, Start, TextbookLaw, Form]]:
    """Laws with a small enough misfit of the integral form: size, start, law and form."""
    states, time_name = p.data.states, p.data.time_name
    for law in (law for law in laws if curve.goes(law.way)):
        for order in orders(law, states):
            form, sought = law.form(states, order, time_name)
            alone = law.n_states < len(states)
            starts = _each_alone(law, p, curve) if alone else start_of(form, sought, curve, most=1, worst=most_left)
            for start in starts[:1]:
                for begun in (start, *_mended(law, form, sought, curve, start)):
                    if begun.misfit < most_left:
                        yield len(form.names), begun, law, form


def _mended(law: TextbookLaw, form: Form, sought: Mapping[str, str], curve: Curve, start: Start) -> list[Start]:
    """A start with the signs that the name of the law implies, if the regression gives others."""
    if law.n_states < len(form.states) or law.backwards or law.called(form.names, start.constants.tolist()):
        return []
    mended = positive_start(form, list(sought), curve, start, law.signed)
    return [mended] if law.called(form.names, mended.constants.tolist()) else []


def _each_alone(law: TextbookLaw, p: Problem, curve: Curve) -> list[Start]:
    """Initial constants of a law of one state for each state separately."""
    found = []
    for k, state in enumerate(p.data.states):
        form, sought = law.form([state], (), p.data.time_name)
        found += start_of(form, sought, curve.of_state(k), most=1)
    if len(found) < len(p.data.states):
        return []
    return [Start(np.concatenate([one.constants for one in found]), float(np.mean([one.misfit for one in found])))]


# Laws with a larger misfit of the integral form are not compared [variance of the states]
NAMING_NEAR = 0.3
# Largest difference between the rates of two laws [rms of the rates]
NAMING_LOST = 1e3


def criterion_of(p: Problem, fitted: FittedForm, *, constants: int | None = None) -> float:
    """The criterion of a fitted form on the data of a problem, comparable with that of `judge.criterion.judge`.

    All constants are charged, unless their number is given.
    """
    squares, counts = weighted_squares(p, fitted)
    charged = len(fitted.constants) if constants is None else constants
    price = price_of_name(charged, float(counts.sum()), fitted.starts.size)
    return misfit(squares, counts, p.sigma, p.independent) + price


def weighted_squares(p: Problem, fitted: FittedForm) -> tuple[Array, Array]:
    """Sums of weighted squared residuals of a form, dimensionless, and numbers of values, both [states]."""
    n = len(p.noise)
    return fitted.found.squares[:n], fitted.found.counts[:n]


def price_of_name(constants: int, samples: float, starts: int) -> float:
    """The penalty of a law with a name, which was chosen at the same charge for any number of constants."""
    each = value_penalty(samples) * correction(samples, constants + starts)
    # Charge for choosing one of the textbook laws [criterion]
    return constants * each + 2.0 * math.log(15.0)


def is_left_to_noise(p: Problem, fitted: FittedForm) -> bool:
    """Whether the residuals of every state are no larger than underestimated noise explains."""
    squares, counts = weighted_squares(p, fitted)
    seen = counts > 0
    return bool((squares[seen] <= UNDERESTIMATED * counts[seen] * p.sigma[seen] ** 2).all())


def as_law(fitted: FittedForm) -> PowerSum | None:
    """The form as a law in the user's units with independent constants; None if it cannot be written so."""
    law = _numbers(fitted.form, fitted.constants)
    return law if law is not None and law.n_monomials else None


def as_numbers(fitted: FittedForm) -> tuple[PowerSum, Free] | None:
    """The form as a sum of powers and its fitted numbers; None if it cannot be written so, or ties constants."""
    # The same law with each constant changed by another factor
    moved = _numbers(fitted.form, fitted.constants * np.linspace(1.01, 1.02, len(fitted.constants)))
    law = as_law(fitted)
    if law is None or moved is None or law.mirrored:
        return None
    if any(one.shape != other.shape for one, other in zip(law.constants, moved.constants, strict=True)):
        return None
    a, w, b, v = law.constants
    order = [int(np.abs(moved.exponents - row).sum(axis=1).argmin()) for row in w]
    others = (moved.coefficients[:, order], moved.exponents[order], moved.constants[2], moved.constants[3])
    free = (_follows(a, others[0]), _follows(w, others[1]), _follows(b, others[2]), _follows(v, others[3]))
    return (law, free) if sum(int(mask.sum()) for mask in free) == len(fitted.constants) else None


def _follows(numbers: Array, moved: Array) -> Mask:
    """Which numbers of a law change with its constants."""
    found: Mask = (numbers != 0) & ~np.isclose(moved, numbers, rtol=1e-9, atol=0.0)
    return found


def _numbers(form: Form, constants: Array) -> PowerSum | None:
    try:
        equations = form.with_constants(constants.tolist())
    except InputError:  # a constant has overflowed
        return None
    if equations.power_sum is not None:
        return equations.power_sum
    return read_law(equations.right_hand_sides, equations.symbols, features=True)


def as_judged(p: Problem, fitted: FittedForm) -> Judged | None:
    """The form as a judged law with refined constants; None if it cannot be one."""
    numbers = as_numbers(fitted)
    if numbers is None or (p.given is not None and not p.given.allows(numbers[0])):
        return None
    law, free = numbers[0].rescaled(p.scale.state, p.scale.time), numbers[1]
    if not all(np.isfinite(part).all() for part in law.constants):
        return None
    found = polish_on(p, law, free, fitted.found.initial, p.sigma)
    return judge_on(p, found, Origin(0, "textbook")) if found.finite else None


def named_constants(fitter: Fitter, fitted: FittedForm) -> NamedConstants:
    """The constants of a fitted form with their standard errors."""
    values, errors = fitted.constants.tolist(), joint_of(fitter, fitted).deviations()[: len(fitted.constants)].tolist()
    return NamedConstants(tuple(fitted.form.lines()), fitted.form.names, tuple(values), tuple(errors))


def joint_of(fitter: Fitter, fitted: FittedForm) -> Covariance:
    """The covariance of the constants and starts of a fitted form, widened where its residuals are autocorrelated."""
    return fitted.found.joint.widened(examine_residuals(fitter.residuals(fitted.found)).inflation)


def covariance_of(fitter: Fitter, fitted: FittedForm) -> Array:
    """The covariance of the constants of a fitted form [constants, constants]."""
    k = len(fitted.constants)
    return joint_of(fitter, fitted).matrix[:k, :k]


def has_terms_of(one: Equations, other: Equations) -> bool:
    """Whether two sums of powers have the same terms."""
    a, b = one.power_sum, other.power_sum
    if a is None or b is None or a.coefficients.shape != b.coefficients.shape:
        return False
    order = [int(np.abs(b.exponents - row).sum(axis=1).argmin()) for row in a.exponents]
    # Exponents no further apart belong to one term; accuracy of the fit
    if len(set(order)) < len(order) or not np.allclose(b.exponents[order], a.exponents, atol=1e-6):
        return False
    return bool(((a.coefficients != 0) == (b.coefficients[:, order] != 0)).all())


def recognise(p: Problem, equations: Equations, initial: Array) -> FittedForm | None:
    """The textbook law that equations found in the data of p agree with, of those the simplest; None if there is none.

    The equations are in the user's units, the fitted starts `initial` [trajectories, states] dimensionless.
    """
    curve = curve_of(p)
    x = np.concatenate(curve.values)
    rates = equations.rhs(x)
    with np.errstate(over="ignore"):  # squares of very large rates overflow
        size = np.sqrt(np.mean(rates**2, axis=0))
    size = np.where(size > 0, size, 1.0)
    for law, form, start in sorted(_near(curve, equations), key=lambda found: len(found[2].constants)):
        function, units = rates_of(form), (1.0,) * (x.shape[1] + 1)

        def missed(c: Array, function=function, units=units) -> Array:  # type: ignore[no-untyped-def]
            off: Array = np.nan_to_num((function.rates(x.T, (*c, *units)).T - rates) / size, nan=NAMING_LOST)
            return off.clip(-NAMING_LOST, NAMING_LOST).ravel()

        try:
            with np.errstate(all="ignore"):
                solved = least_squares(missed, start.constants, x_scale="jac", max_nfev=30)
        except ValueError:
            # Constants of 1e-300 have undefined slopes.
            continue
        # Laws whose rates differ by less are the same [rms of the rates]
        if np.sqrt(np.mean(solved.fun**2)) < 1e-5 and (says := law.called(form.names, solved.x)):
            return Fitter.of(p).taken(form, solved.x, initial, says)
    return None


def _near(curve: Curve, equations: Equations) -> Iterator[tuple[TextbookLaw, Form, Start]]:
    """Textbook laws with a small misfit of the integral form, and their constants."""
    variables = {symbol.name for symbol in equations.symbols}
    for law in (law for law in TEXTBOOK if curve.goes(law.way) and law.n_states == len(equations.states)):
        for order in orders(law, equations.states):
            form, sought = law.form(equations.states, order, equations.time_name)
            pairs = zip(form.texts, equations.right_hand_sides, strict=True)
            # Each equation should contain the same states.
            if all(
                variables & set(re.findall(r"\w+", text)) == {s.name for s in side.free_symbols} for text, side in pairs
            ):
                for start in start_of(form, sought, curve, most=1, worst=NAMING_NEAR):
                    if start.misfit < NAMING_NEAR:
                        yield law, form, start


def row_of(p: Problem, fitted: FittedForm, series: TimeSeries) -> FrontRow:
    """A textbook law as a row of the front."""
    equations = fitted.equations
    values, squares = pooled(series), fitted.squares
    spread = float(np.nansum((values - np.nanmean(values, axis=0)) ** 2))
    r2 = 1.0 - float(squares.sum()) / spread if spread > 0 else 1.0
    return FrontRow(
        equations,
        complexity_of(fitted),
        float(squares.sum() / fitted.counts.sum()),
        r2,
        criterion_of(p, fitted),
        False,
        fitted.starts,
        fitted.says,
        state_r2=shares_explained(series, squares),
    )


def complexity_of(fitted: FittedForm) -> int:
    """Number of constants, factors that are states, functions, and states; at least that of a sum of monomials."""
    opened = fitted.form.open()
    states = set(opened.symbols[: len(opened.states)])
    sides = opened.right_hand_sides
    factors = sum(int(side.count(symbol)) for side in sides for symbol in states)
    functions = sum(len(side.atoms(sympy.Function)) for side in sides)
    counted = len(fitted.constants) + len(states) + factors + functions
    equations = fitted.equations
    return counted if equations.power_sum is None else max(counted, equations.complexity)


def _place(row: FrontRow) -> tuple[int, float]:
    """Sort key of a row: complexity, then mean square, where a name outweighs a factor of 2."""
    # Largest advantage of a law without a name over one with a name [ratio of mean squares]
    return row.complexity, row.mse / (2.0 if row.name else 1.0)


def merged(front: Sequence[FrontRow], rows: Sequence[FrontRow]) -> tuple[FrontRow, ...]:
    """A front with `rows` added, one per complexity: those that fit better than all simpler ones, or have a name.

    Textbook laws are added if they beat simpler textbook laws; a row that equals one takes its name.
    """
    named: list[FrontRow] = []
    front, least = list(front), np.inf
    for row in _known_first(rows):
        same = next((i for i, one in enumerate(front) if has_terms_of(one.equations, row.equations)), None)
        if same is not None:
            front[same] = dataclasses.replace(front[same], name=front[same].name or row.name)
            least = min(least, front[same].mse)
        elif row.mse < least and row.complexity not in {one.complexity for one in named}:
            named.append(row)
            least = row.mse
    kept: dict[int, FrontRow] = {row.complexity: row for row in front if row.selected}
    for row in sorted([*named, *front], key=_place):
        # Rows that are not shown dominate none.
        simpler = [one for one in kept.values() if one.complexity < row.complexity]
        # A row must improve on simpler ones by this factor, or two fits of one law would be two rows [mean square]
        if row.complexity not in kept and (row.name or all(row.mse < 0.999 * one.mse for one in simpler)):
            kept[row.complexity] = row
    return tuple(kept[size] for size in sorted(kept))


def _known_first(rows: Sequence[FrontRow]) -> list[FrontRow]:
    """Simple rows first; among rows of one complexity about as good, in the order of the registry."""
    order = {name: place for place, law in enumerate(TEXTBOOK) for name in (law.says, law.backwards)}
    least: dict[int, float] = {}
    for row in rows:
        least[row.complexity] = min(row.criterion, least.get(row.complexity, np.inf))

    def place(row: FrontRow) -> tuple[int, bool, int, float]:
        worse = row.criterion > least[row.complexity] + NO_EVIDENCE
        return row.complexity, worse, order.get(row.name, len(order)), row.mse

    return sorted(rows, key=place)
