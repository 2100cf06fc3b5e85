r"""Where the fit of a form begins: the constants that meet its integral form best.

    x(t_j) = x_0 + \sum_l c_l \int_0^{t_j} g_l(x(s); d) ds

A law is linear in most of its constants c: for any others, d, they are a linear regression on the
smoothed path. The others are looked for on a grid.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import sympy
from scipy.interpolate import CubicSpline, PchipInterpolator
from scipy.optimize import least_squares, lsq_linear

from odediscovery.data.series import TimeSeries, Trajectory
from odediscovery.laws.compiled import form_of_expressions
from odediscovery.laws.expressions import identifiers
from odediscovery.laws.forms import Form
from odediscovery.problem.peaks import count_peaks
from odediscovery.runtime.arrays import ABOVE_ZERO, Array
from odediscovery.runtime.monitor import check_time
from odediscovery.textbook.registry import ABOVE, ANYTHING, BELOW, INVERSE, POWER, RESTING, SIZE


@dataclass(frozen=True)
class StartThresholds:
    """The grids on which constants are looked for."""

    between: int = 4  # parts of a sample interval over which the integrals are taken
    most_points: int = 400  # points of all paths, about
    for_turn: int = 20  # samples that follow one extremum [samples]
    prominence: float = 0.2  # least prominence of an extremum [standard deviation of a state]
    runs: int = 8  # runs of neighbours where so many points cannot follow all extrema; cost
    sizes: int = 22  # sizes of a state that are tried, a hundredth to 30 times the largest value
    distances: int = 14  # distances beyond the data that are tried, a thousandth to 10 times their range
    inside: int = 9  # values within the data that are tried
    finer: int = 7  # values between the neighbours of the best one, for each sought constant
    refined: int = 2  # points of the grids that are refined for each start that is wanted
    refinements: int = 2  # times that a grid is refined, to about 10 % of a constant
    hopeless: float = 32.0  # points of the grids that leave more are not refined [what laws that are fitted leave]
    alike: float = 0.3  # powers that differ by less begin alike
    little: float = 0.02  # what a constant begins with that noise gives the wrong sign [spreads of the states]
    step: float = 1e-4  # step of a derivative by a constant [the constant]
    evaluations: int = 30  # most steps of the descent from there
    descent: tuple[float, float] = (-0.9, 9.0)  # ends of that descent [change of the constant]
    singular: float = 1e-10  # least eigenvalue of the linear terms [the largest]; rounding
    usable: float = 1e21  # terms with larger integrals are not looked at; far below where they are cut
    combinations: int = 600  # most combinations of sought constants


STARTS = StartThresholds()
# The largest integral of a term, and what one that is not defined counts as.
MAX_INTEGRAL = 1e30
POWERS = (0.25, 0.5, 0.67, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0)


@dataclass(frozen=True, eq=False)
class Path:
    """Smoothed trajectories on fine grids.

    Args:
        times: of each trajectory [points].
        values: [points, states] of each.
        ends: index of the grid points that are samples, of each.
        spread: standard deviation of the states [states].
    """

    times: tuple[Array, ...]
    values: tuple[Array, ...]
    ends: tuple[Array, ...]
    spread: Array

    @classmethod
    def of(cls, smooth: TimeSeries) -> Path:
        """The path through smoothed samples, none missing.

        Of many samples every so many are taken, or runs of neighbours where these would not follow the turns.
        """
        count = sum(len(run.time) for run in smooth.trajectories)
        every = max(1, count * STARTS.between // STARTS.most_points) if count > STARTS.most_points else 1
        between = 1 if count * STARTS.between > 4 * STARTS.most_points else STARTS.between
        followed = max(1, count // (STARTS.for_turn * max(_turns(smooth), 1)))
        runs = list(smooth.trajectories)
        if every > followed:
            runs, every = _spread_runs(runs, followed * STARTS.most_points // STARTS.runs), followed
        times, values, ends = [], [], []
        for run in runs:
            rows = np.unique(np.append(np.arange(0, len(run.time), every), len(run.time) - 1))
            t, x = run.time[rows], run.values[rows]
            fine = np.unique(np.concatenate([np.linspace(a, b, between + 1) for a, b in itertools.pairwise(t)]))
            times.append(fine)
            values.append(_between(t, x, fine))
            ends.append(np.searchsorted(fine, t))
        spread = np.std(np.concatenate([run.values for run in smooth.trajectories]), axis=0)
        return cls(tuple(times), tuple(values), tuple(ends), np.where(spread > 0, spread, 1.0))

    def goes(self, way: int) -> bool:
        """Whether all states grow (1) or vanish (-1) on the whole; always for 0."""
        return not (way * sum(values[-1] - values[0] for values in self.values) < 0).any()

    def of_state(self, k: int) -> Path:
        """The path of one state."""
        return Path(self.times, tuple(v[:, k : k + 1] for v in self.values), self.ends, self.spread[k : k + 1])


def _turns(smooth: TimeSeries) -> int:
    """Clear extrema of the state that has most of them."""
    least = STARTS.prominence * np.std(np.concatenate([run.values for run in smooth.trajectories]), axis=0)
    counts = [
        sum(
            count_peaks(side, least[k]) for run in smooth.trajectories for side in (run.values[:, k], -run.values[:, k])
        )
        for k in range(len(least))
    ]
    return max(counts)


def _spread_runs(trajectories: Sequence[Trajectory], length: int) -> list[Trajectory]:
    """A few runs of so many neighbours, spread evenly over all trajectories."""
    runs = [
        run.part(slice(first, first + length))
        for run in trajectories
        for first in range(0, max(len(run.time) - length // 2, 1), length)
    ]
    places = np.unique(np.linspace(0, len(runs) - 1, STARTS.runs).round().astype(int))
    return [runs[k] for k in places]


def _between(t: Array, x: Array, fine: Array) -> Array:
    """A curve through samples x [samples, states] at finer times."""
    try:
        with np.errstate(all="ignore"):
            # A cubic spline of few points swings, a monotone one is flat at extrema.
            curve = CubicSpline(t, x) if len(t) > 6 else PchipInterpolator(t, x)
            found: Array = curve(fine)
    except ValueError:  # slopes are beyond all numbers
        found = np.full((len(fine), x.shape[1]), np.nan)
    lines = np.stack([np.interp(fine, t, column) for column in x.T], axis=1)
    return np.where(np.isfinite(found), found, lines)


@dataclass(frozen=True, eq=False)
class Start:
    """Constants from which a fit begins.

    Args:
        constants: in the order of the form.
        misfit: mean square of what they leave of the integral form, in spreads of the states.
    """

    constants: Array
    misfit: float


def start_of(form: Form, sought: Mapping[str, str], path: Path, most: int = 2, worst: float = np.inf) -> list[Start]:
    """The best few sets of constants of a form, the best first.

    Args:
        form: whose constants they are.
        sought: constants in which it is not linear, "kind state".
        path: smoothed trajectories.
        most: sets, which differ in the sought constants.
        worst: what a set may leave to be of use, in variances: none is refined that leaves far more.
    """
    check_time()
    grids = [_grid(what, form, path) for what in sought.values()]
    while np.prod([len(g) for g in grids]) > STARTS.combinations:
        longest = max(range(len(grids)), key=lambda k: len(grids[k]))
        grids[longest] = grids[longest][::2]
    found: list[Start] = []
    taken: list[Array] = []
    # Powers have no unit; anything else is compared by its size.
    alike = np.array([STARTS.alike if what.split(" ")[0] in (POWER, ANYTHING) else 0.0 for what in sought.values()])
    for point, _, misfit in _solved(form, list(sought), path, np.array(list(itertools.product(*grids)))):
        if len(found) == STARTS.refined * most or misfit > STARTS.hopeless * worst:
            break
        if any((np.abs(point - other) <= alike + 0.5 * np.abs(other)).all() for other in taken):
            continue
        taken.append(point)
        start = _refined(form, list(sought), path, grids, point)
        if start is not None:
            found.append(start)
    return sorted(found, key=lambda start: start.misfit)[:most]


def positive_start(form: Form, sought: Sequence[str], path: Path, start: Start, signed: Collection[str]) -> Start:
    """The start with the linear constants that meet the integral form best while those that are not `signed` are > 0.

    Noise gives a small constant either sign. One that comes out as 0 begins where it explains a little.
    """
    linear = [name for name in form.names if name not in sought]
    values = dict(zip(form.names, start.constants.tolist(), strict=True))
    given = np.array([[values[name] for name in sought]])
    blocks = _blocks(form, linear, sought, path, given) if linear else None
    if blocks is None:
        return start
    features, target = blocks[0][0], blocks[1][0]
    size = np.sqrt(np.mean(features**2, axis=0)) + ABOVE_ZERO
    least = np.array([-np.inf if name in signed else 0.0 for name in linear])
    if not (np.isfinite(target).all() and (size < STARTS.usable).all()):
        return start
    found = lsq_linear(features / size, target, (least, np.full(len(linear), np.inf)))
    little = np.where((least == 0.0) & (found.x < STARTS.little), STARTS.little, found.x)
    left = float(np.mean((target - features / size @ little) ** 2))
    values |= dict(zip(linear, (little / size).tolist(), strict=True))
    return Start(np.array([values[name] for name in form.names]), left)


def _refined(
    form: Form, sought: Sequence[str], path: Path, grids: Sequence[Sequence[float]], at: Array
) -> Start | None:
    """The best constants between the neighbours of a point of the grids."""
    linear = [name for name in form.names if name not in sought]
    for _ in range(STARTS.refinements if sought else 1):
        near = []
        for grid, value in zip(grids, at, strict=True):
            k = int(np.abs(np.asarray(grid) - value).argmin())
            near.append(np.linspace(grid[max(k - 1, 0)], grid[min(k + 1, len(grid) - 1)], STARTS.finer).tolist())
        grids = [sorted([*grid, float(value)]) for grid, value in zip(near, at, strict=True)]
        ranked = _solved(form, sought, path, np.array(list(itertools.product(*grids))))
        if not ranked:
            return None
        at, constants, misfit = ranked[0]
    if sought:
        at, constants, misfit = _descended(form, sought, path, at) or (at, constants, misfit)
    values = dict(zip(linear, constants, strict=True)) | dict(zip(sought, at, strict=True))
    return Start(np.array([values[name] for name in form.names]), misfit)


def _descended(form: Form, sought: Sequence[str], path: Path, at: Array) -> tuple[Array, Array, float] | None:
    """The best constants downhill from some: valleys are narrower than the mesh of a grid; None where it is lost."""
    size = np.maximum(np.abs(at), 1e-3 * np.abs(at).max(initial=ABOVE_ZERO))

    @lru_cache(maxsize=1)
    def around(shift: bytes) -> Array:
        """What these constants leave, and what each of them a little larger does [1 + sought, rows]."""
        steps = np.vstack([np.zeros(len(at)), STARTS.step * np.eye(len(at))])
        found = _projected(form, sought, path, at + size * (np.frombuffer(shift) + steps))
        return np.full((1 + len(at), 1), MAX_INTEGRAL) if found is None else found[0].clip(-MAX_INTEGRAL, MAX_INTEGRAL)

    def left(shift: Array) -> Array:
        here: Array = around(shift.tobytes())[0]
        return here

    def slopes(shift: Array) -> Array:
        rows = around(shift.tobytes())
        slope: Array = (rows[1:] - rows[0]).T / STARTS.step
        return slope

    with np.errstate(all="ignore"):
        begun = around(np.zeros(len(at)).tobytes())
        if not np.isfinite(begun).all():
            return None
        found = least_squares(left, np.zeros(len(at)), slopes, max_nfev=STARTS.evaluations, bounds=STARTS.descent)
        ranked = _solved(form, sought, path, (at + size * found.x)[None])
        return ranked[0] if ranked and ranked[0][2] <= np.mean(begun[0] ** 2) else None


def _solved(form: Form, sought: Sequence[str], path: Path, given: Array) -> list[tuple[Array, Array, float]]:
    """Sets of sought constants, the best first, each with the linear ones and what both leave.

    Args:
        given: sets of sought constants [sets, sought].
    """
    found = _projected(form, sought, path, given)
    if found is None:
        return []
    left, constants, size = found
    misfit = np.mean(left**2, axis=1)
    usable = np.isfinite(misfit) & (size < STARTS.usable).all(axis=1)
    order = [g for g in np.argsort(misfit, kind="stable") if usable[g]]
    return [(given[g], constants[g], float(misfit[g])) for g in order]


def _projected(form: Form, sought: Sequence[str], path: Path, given: Array) -> tuple[Array, Array, Array] | None:
    """What sets of sought constants leave [sets, rows], the linear ones, and the size of what stands with these."""
    linear = [name for name in form.names if name not in sought]
    blocks = _blocks(form, linear, sought, path, given)
    if blocks is None:
        return None
    features, target = blocks
    with np.errstate(all="ignore"):  # of the least and largest numbers nothing comes, which is seen later
        size = np.sqrt(np.mean(features**2, axis=1, keepdims=True)) + ABOVE_ZERO
        unit = features / size
        gram = np.einsum("gnl,gnm->glm", unit, unit) / len(target[0])
        moment = np.einsum("gnl,gn->gl", unit, target) / len(target[0])
        solved = np.einsum("glm,gm->gl", np.linalg.pinv(gram, rcond=STARTS.singular, hermitian=True), moment)
        return target - np.einsum("gnl,gl->gn", unit, solved), solved / size[:, 0], size[:, 0]


def _blocks(
    form: Form, linear: Sequence[str], sought: Sequence[str], path: Path, given: Array
) -> tuple[Array, Array] | None:
    """Integrals of what stands with each constant [sets, rows, constants], and what they explain [sets, rows]."""
    n = len(form.states)
    function = _parts(form.states, tuple(form.texts.items()), form.names, tuple(linear), tuple(sought))
    if function is None:
        return None
    features, targets = [], []
    for times, values, ends in zip(path.times, path.values, path.ends, strict=True):
        with np.errstate(all="ignore"):
            found = function(*values.T[:, None, :], *given.T[:, :, None])
            # [linear constants and none, states, sets, rows]
            whole = np.empty((len(linear) + 1, n, len(given), len(ends)))
            for place, part in zip(np.ndindex(len(linear) + 1, n), found, strict=True):
                whole[place] = _integrated(part, times, ends) / path.spread[place[1]]
        x = values[ends] - values[ends].mean(axis=0)
        scaled = np.nan_to_num(whole, nan=MAX_INTEGRAL, posinf=MAX_INTEGRAL, neginf=-MAX_INTEGRAL).clip(
            -MAX_INTEGRAL, MAX_INTEGRAL
        )
        features.append(np.moveaxis(scaled[:-1], 0, -1))
        targets.append((x / path.spread).T[:, None, :] - scaled[-1])
    # [states, sets, rows(, constants)] -> [sets, states * rows(, constants)]
    joined, left = np.concatenate(features, axis=2), np.concatenate(targets, axis=2)
    joined = np.moveaxis(joined, 0, 1).reshape(len(given), -1, len(linear))
    return joined, np.moveaxis(left, 0, 1).reshape(len(given), -1)


def _integrated(rate: Array | float, times: Array, ends: Array) -> Array:
    """Integrals up to the samples, without their mean, [sets, samples] or [1, samples] where all sets have the same.

    Args:
        rate: by sets and times, or what broadcasts to that.
        times: of the path.
        ends: which of them are samples.
    """
    rate = np.asarray(rate)
    if not rate.any():  # most terms stand in one equation
        return np.zeros((1, 1))
    rates = np.broadcast_to(rate, (len(rate) if rate.ndim > 1 else 1, len(times)))
    sums = np.cumsum(0.5 * (rates[:, 1:] + rates[:, :-1]) * np.diff(times), axis=1)
    whole = np.concatenate([np.zeros((len(sums), 1)), sums], axis=1)[:, ends]
    centred: Array = whole - whole.mean(axis=1, keepdims=True)
    return centred


@lru_cache(maxsize=500)
def _parts(
    states: tuple[str, ...],
    texts: tuple[tuple[str, str], ...],
    names: tuple[str, ...],
    linear: tuple[str, ...],
    sought: tuple[str, ...],
) -> Callable[..., Sequence[Array]] | None:
    """What stands with each linear constant and without any, as one function of states and sought constants.

    None where the law is not linear in them. The same laws are fitted again and again: it is kept.
    """
    opened = Form(states, (), dict(texts), names, (None,) * len(names)).open()
    symbols = {s.name: s for s in opened.symbols}
    sides = list(opened.right_hand_sides)
    parts = [[sympy.diff(side, symbols[name]) for side in sides] for name in linear]
    nothing = {symbols[name]: sympy.Integer(0) for name in linear}
    known = [side.xreplace(nothing) for side in sides]
    if any(part.has(symbols[name]) for row in parts for part in row for name in linear):
        return None
    kept = tuple(e for row in (*parts, known) for e in row)
    return form_of_expressions(kept, [*opened.symbols[: len(states)], *(symbols[name] for name in sought)]).values


def _grid(what: str, form: Form, path: Path) -> list[float]:
    """Values to try of a constant, "kind state"."""
    kind, _, of = what.rpartition(" ")
    k = list(identifiers(form.states).values()).index(of)
    x = np.concatenate([values[:, k] for values in path.values])
    low, high = float(x.min()), float(x.max())
    largest, wide = max(abs(low), abs(high)) or 1.0, (high - low) or 1.0
    sizes = largest * np.logspace(-2.0, 1.5, STARTS.sizes)
    beyond = wide * np.logspace(-3.0, 1.0, STARTS.distances)
    grids: dict[str, Array] = {
        SIZE: sizes,
        INVERSE: 1.0 / sizes,
        BELOW: low - beyond,
        ABOVE: high + beyond,
        RESTING: np.concatenate([low - beyond[::-1], np.linspace(low, high, STARTS.inside), high + beyond]),
        POWER: np.array(POWERS),
        ANYTHING: np.unique(
            np.concatenate([POWERS, low - beyond[::3], high + beyond[::3], sizes[::3], 1.0 / sizes[::3]])
        ),
    }
    values: list[float] = grids[kind].tolist()
    return values
