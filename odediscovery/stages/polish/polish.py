"""The constants of a law at the maximum of the likelihood: on intervals, on whole trajectories, on ever longer pieces.

Intervals. What a law leaves between samples, from every measured start,

    x(t + h; x(t)) - x(t + h)

Where there is no noise every sample is a start: constants come out to all the digits that the data have, however far
whole trajectories of chaos carry an error, and the law of one half of the samples says what it is worth by the other.

Whole trajectories, with standard errors.

    minimise  sum over trajectories, samples, states of ((x(t; theta, x0) - data) / sigma)^2

over coefficients, exponents and start values, with scipy's LSODA at tight tolerance: an
adaptive solver of another family than training used, so what training owed to its own solver
does not reach the printed constants. The Jacobian comes from the variational equations
(`solve/sensitivities.py`), and the covariance of constants and start values is (J^T J)^-1 at the minimum.

Pieces. Chaos forgets its start, so a law is fitted to short pieces with starts of their own. These determine the
constants poorly; but once the law fits them, two neighbours can be joined, since the first one ends nearly where the
second one begins. So the fit proceeds to longer trajectories, over which small errors of the constants would grow,
until joining fails (multiple shooting; Bock, Randwertproblemmethoden zur Parameteridentifizierung, 1987).

Tied equations. One that follows from a conserved sum, x_l' = sum_r M[l, r] (A y^W)_r, has each monomial with what the
others leave of it. Where that is nothing but error, as in S' = -r, I' = r - b I, R' = b I, the monomial only passes
from one state to another, and

    g . theta = sum_r M[l, r] A[r, j] = 0

is a constraint on the constants: theta and their covariance C become what they are under it,
theta - C g (g C g)^-1 g . theta and C - C g (g C g)^-1 g C.

Source: Seber and Lee, Linear Regression Analysis (2003), Sec. 3.8 (least squares under a linear
constraint; here to second order in the constants).

At last, standard errors of the constants in the user's units.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from itertools import product

import numpy as np
from scipy.linalg import block_diag
from scipy.optimize import least_squares

from odediscovery.data.series import Scale, TimeSeries
from odediscovery.data.signals import control_slopes
from odediscovery.ivp.solvers import rk4_step
from odediscovery.laws.power_sum import SIMPLE, Free, PowerSum, but_whole_powers, count, expanded, filled, picked
from odediscovery.laws.records import Covariance
from odediscovery.problem.problem import Problem, increment_squares
from odediscovery.runtime.arrays import ABOVE_ZERO, Array, Mask, column_norms
from odediscovery.solve.sensitivities import (
    ConservedSums,
    Evaluation,
    Starts,
    TrajectoryResiduals,
    known_starts,
    residual_squares,
    solutions,
    tolerance,
)
from odediscovery.stages.values import SETTLED, Law, Polished, PolishedLaw

# Runge-Kutta steps over one sample interval.
STEPS = 24
# What a law that leaves nothing may leave [mean squared increment of an interval, variance of whole trajectories].
EXACT_SQUARES = 1e-11
# What a law leaves that needs no more refinement, and steps may change [mean squared increment].
SHARP = 1e-18
# Gain of a step below which a law in noise that is compared with others has converged [of the criterion]; a
# hundredth of what counts as evidence; along a curved valley such steps go on for hundreds.
CONVERGED = 0.05
# (series and what is known of it, law with the starts to begin from) -> refined constants.
Refit = Callable[[Problem, Polished], Polished]


def interval_errors(law: PowerSum, p: Problem, shift: Array | float = 0.0, steps: int = STEPS) -> list[Array]:
    """What a law leaves at the ends of intervals from measured starts + shift, [intervals, states] a trajectory."""
    runs = p.smooth.trajectories
    x = np.concatenate([t.values[:-1] for t in runs]) + shift
    h = np.concatenate([np.diff(t.time) for t in runs])[:, None] / steps
    drift = control_slopes(runs)

    def rhs(_: float, x: Array) -> Array:
        slopes: Array = law.rhs(x) + drift
        return slopes

    with np.errstate(all="ignore"):
        for _ in range(steps):
            x = rk4_step(rhs, x, h)
    left = np.where(p.data.is_control, 0.0, x - np.concatenate([t.values[1:] for t in runs]))
    errors: list[Array] = np.split(left, np.cumsum([len(t.values) - 1 for t in runs])[:-1])
    return errors


@np.errstate(all="ignore")  # a law that runs away leaves more than any bound, and nothing to warn of
def sharpened(p: Problem, law: PowerSum, free: Free, *, told: bool = False) -> PowerSum | None:
    """The law with constants that leave least of the intervals between samples, each from its measured start:

        minimise  sum over intervals and states of ((x(t + h; x(t)) - x(t + h)) / increment)^2

    by Gauss-Newton. None where there is noise, or the law leaves more of the intervals than the digits of the data
    do, or intervals do not know each free constant, if they have to have `told` them.
    """
    if not (p.clean and p.complete and p.knowledge is None and (~p.constant).any() and count(free)):
        return None
    fit = _IntervalFit(p, law, free)
    if not np.mean(fit.left**2) <= SETTLED:
        return None
    if not told and np.mean(fit.left**2) <= SHARP:  # it was sharpened before
        return law
    slopes = fit.refine(np.ones(len(fit.left), dtype=bool))
    if slopes is None or (told and not _tells_apart(slopes)):
        return None
    return fit.law if np.mean(fit.left**2) <= EXACT_SQUARES else None


def _tells_apart(slopes: Array) -> bool:
    """Whether intervals know each constant, not combinations alone; slopes [intervals, states, constants]."""
    rows = slopes.reshape(-1, slopes.shape[2])
    return bool(np.linalg.cond(rows / np.maximum(column_norms(rows), ABOVE_ZERO)) < 1e6)


@np.errstate(all="ignore")
def holds_outside(p: Problem, law: PowerSum) -> bool:
    """Whether a law that is fitted to the inner half of the samples does about as well in the outer half.

        mean of r^2 / (1 + h) outside  <=  30 times the mean of r^2 inside,

    h the leverage of an interval, and each constant is ten standard errors from 0 by what the inner half leaves. A law
    holds everywhere; its first terms, or a curve through the data, hold where they were fitted. Only for data without
    noise, of which no more is asked than that it tells such terms apart.
    """
    free = but_whole_powers(law)
    if not (p.clean and p.complete and count(free)):
        return False
    x = np.concatenate([t.values[:-1] for t in p.smooth.trajectories])[:, ~p.constant]
    far = column_norms((x - x.mean(axis=0)) / np.maximum(x.std(axis=0), ABOVE_ZERO), axis=1)
    inner = far <= np.median(far)
    fit = _IntervalFit(p, law, free)
    if inner.sum() * fit.left.shape[1] <= count(free):
        return False
    slopes = fit.refine(inner)
    if slopes is None:
        return False
    rows, freedom = slopes[inner].reshape(-1, count(free)), 1.0 - count(free) / inner.sum() / fit.left.shape[1]
    size = np.maximum(column_norms(rows), ABOVE_ZERO)
    inverse = np.linalg.pinv(np.linalg.qr(rows / size)[1])
    leverage = ((slopes[~inner] / size @ inverse) ** 2).sum(axis=2)
    within = (fit.left[inner] ** 2).mean(axis=0) / freedom
    if (fit.constants**2 < 100.0 * within.max() * (inverse**2).sum(axis=1) / size**2).any():
        return False
    beyond = (fit.left[~inner] ** 2 / (1.0 + leverage)).mean(axis=0)
    return bool((beyond <= 30.0 * np.maximum(within, ABOVE_ZERO)).all())


class _IntervalFit:
    """A law whose free constants are fitted to intervals; `left` is what it leaves of them, [intervals, states]."""

    def __init__(self, p: Problem, law: PowerSum, free: Free) -> None:
        self.p, self.law, self.free = p, law, free
        self.moving = ~p.constant
        self.size = np.sqrt(increment_squares(p))[self.moving]
        self.steps, self.left = STEPS, self._errors(law, STEPS)
        # Where states turn fast within an interval the solver needs more steps to be no part of what is left.
        while self.steps < 16 * STEPS and np.mean(self.left**2) <= SETTLED:
            finer = self._errors(law, 2 * self.steps)
            enough = np.mean((finer - self.left) ** 2) <= SHARP
            self.steps, self.left = 2 * self.steps, finer
            if enough:
                break

    def refine(self, rows: Mask) -> Array | None:
        """Fit to some intervals; slopes of all by the constants [intervals, states, constants], None if infinite."""
        slopes = self._slopes()
        for _ in range(4):
            if not np.isfinite(slopes).all():
                return None
            flat = slopes[rows].reshape(-1, slopes.shape[2])
            width = np.maximum(column_norms(flat), ABOVE_ZERO)
            step = np.linalg.lstsq(flat / width, self.left[rows].ravel(), rcond=None)[0] / width
            trial = self._with(self.constants - step)
            anew = self._errors(trial, self.steps)
            before, after = (np.square(e[rows]).sum() for e in (self.left, anew))
            if not after < before:
                break
            self.law, self.left = trial, anew
            if after > 0.1 * before:
                break
        return slopes

    @property
    def constants(self) -> Array:
        """Those that are fitted."""
        return picked(self.law, self.free)

    def _with(self, u: Array) -> PowerSum:
        return self.law.with_constants(*filled(self.law.constants, self.free, u))

    def _errors(self, law: PowerSum, steps: int) -> Array:
        found: Array = np.concatenate(interval_errors(law, self.p, steps=steps))[:, self.moving] / self.size
        return found

    def _slopes(self) -> Array:
        # A few steps are enough for differences.
        u, here = self.constants, self._errors(self.law, 6)
        shifts = np.diag(1e-7 * np.maximum(np.abs(u), 1.0))
        return np.stack([(self._errors(self._with(u + h), 6) - here) / h.sum() for h in shifts], axis=2)


def polish(
    law: Law,
    series: TimeSeries,
    initial: Array,
    sigma: Array,
    *,
    floor: Array,
    nonnegative: Mask,
    free: Free | None = None,
    most: int = 25,
    relative_sigma: Sequence[Array] | None = None,
    sums: ConservedSums = (),
    fully: bool = True,
    ftol: float | None = None,
) -> PolishedLaw[Law]:
    """The law's non-zero constants and start values at the maximum of the likelihood.

    The law is dimensionless, in the units of the series; start values to begin from are [trajectories, states],
    without controls. A law that cannot be integrated comes back as it is, with `finite=False`.

    Args:
        floor: standard deviation that rounding and integration alone explain [states]; no
            standard error is computed from smaller residuals.
        nonnegative: states whose start value is fitted through its square root.
        free: which constants are fitted (default: all that are not zero).
        most: most evaluations of the Jacobian; 0 takes constants and starts as they are.
        relative_sigma: noise of each sample relative to the others, [samples, states] a trajectory
            (default: all alike).
        sums: conserved sums with their values, which the start values keep.
        fully: whether constants are wanted as near to the maximum as can be, not only the likelihood.
        ftol: relative change of the squares that ends the fit (default: by `fully`).
    """
    a, w, b, v = law.constants
    free = free or (a != 0, w != 0, b != 0, v != 0)
    relative_sigma = relative_sigma or [np.ones_like(t.values) for t in series.trajectories]
    starts = Starts(nonnegative[~series.is_control], tuple(sums), known_starts(series))
    model = TrajectoryResiduals(law, series, sigma, free, starts, relative_sigma)
    u = model.pack(initial)
    now = model.evaluate(u)
    if now is not None and len(u) and most:
        if ftol is None:
            roughly = not fully and bool((sigma > floor).any())
            ftol = max(CONVERGED / len(now.residual) if roughly else 0.0, 1e-9)
        u, now = minimise(model, u, now, most, ftol)
    refined, initial = model.unpack(u)
    law = law.with_constants(*refined.constants)
    squares, plain, counts = model.squares(None if now is None else now.residual)
    if now is None:
        unknown, joint = _unknown(law), Covariance.nothing_known(len(u))
        return PolishedLaw(law, unknown, initial, joint, free, squares, counts, finite=False, plain_squares=plain)
    fitted = len(u) / max(int(np.count_nonzero(counts)), 1)
    left = np.sqrt(squares / np.maximum(counts - fitted, 1.0))
    # Each state's sigma anew from its residuals, and starts from their roots.
    own = sigma / np.maximum(left, floor)
    joint = _covariance(model, series, own, starts, u[model.n_constants :].reshape(initial.shape), now)
    errors = _errors(law, free, joint)
    return PolishedLaw(law, errors, initial, joint, free, squares, counts, finite=True, plain_squares=plain)


def as_it_is(
    law: PowerSum, series: TimeSeries, initial: Array, sigma: Array, free: Free, relative_sigma: Sequence[Array]
) -> Polished:
    """The law and its starts, integrated once and not refined, for when there is no time left; see `polish`."""
    squares, plain, counts = residual_squares(law, series, initial, relative_sigma, tolerance(sigma))
    joint, finite = Covariance.nothing_known(count(free) + initial.size), bool(np.isfinite(squares).all())
    return Polished(law, _unknown(law), initial, joint, free, squares, counts, finite=finite, plain_squares=plain)


def _unknown(law: Law) -> Law:
    """Errors of which nothing is known."""
    return law.with_constants(*(np.full_like(c, np.nan) for c in law.constants))


def _errors(law: Law, free: Free, joint: Covariance) -> Law:
    """Standard errors of the free constants, 0 for those that are held."""
    a, w, b, v = (np.zeros_like(c) for c in law.constants)
    deviations = np.sqrt(np.maximum(np.diag(joint.matrix)[: count(free)], 0.0))
    return law.with_constants(*filled((a, w, b, v), free, deviations))


def _covariance(
    model: TrajectoryResiduals, series: TimeSeries, factor: Array, starts: Starts, roots: Array, now: Evaluation
) -> Covariance:
    """(J^T J)^-1 of constants and start values, the rows of each state times a factor [states]."""
    rows = [np.broadcast_to(factor, t.values.shape).ravel() for t in series.trajectories]
    slopes = block_diag(np.eye(model.n_constants), *(starts.slopes(q, j) for j, q in enumerate(roots)))
    return Covariance.of(now.jacobian * np.concatenate(rows)[:, None]).transformed(slopes)


def minimise(model: TrajectoryResiduals, u: Array, now: Evaluation, most: int, ftol: float) -> tuple[Array, Evaluation]:
    """Unknowns at the minimum and what is known there; scipy's trust-region reflective method."""
    # scipy asks for residuals and Jacobian one after the other: the latest point is remembered.
    latest: Evaluation | None = now
    at, effort = u.tobytes(), now.effort
    # A law that blows up is worse than any other, also than where a poor one begins.
    wall = np.full_like(now.residual, 1e8 * max(1.0, float(np.abs(now.residual).max())))

    def evaluated(v: Array) -> Evaluation | None:
        nonlocal at, latest
        if at != v.tobytes():
            # Steps of constants that have run far away leave the range of numbers.
            at, latest = v.tobytes(), model.evaluate(v, effort) if np.isfinite(v).all() else None
        return latest

    def residual(v: Array) -> Array:
        value = evaluated(v)
        return wall if value is None else value.residual

    def jacobian(v: Array) -> Array:
        nonlocal effort
        value = evaluated(v)
        assert value is not None  # scipy asks for the Jacobian of accepted points only
        # What a step that went too far needed says nothing of those that follow.
        effort = value.effort
        return value.jacobian

    with np.errstate(all="ignore"):
        found = least_squares(
            residual, u, jacobian, method="trf", x_scale="jac", max_nfev=most, xtol=1e-10, ftol=ftol, gtol=None
        )
    best = evaluated(found.x)
    if best is None or np.sum(best.residual**2) > np.sum(now.residual**2):
        return u, now
    return found.x, best


def join_pieces(whole: Problem, pieces: Problem, found: Polished, refit: Refit) -> Polished:
    """The law with constants refined on ever longer pieces, as far as they can be followed.

    Begins with a law that fits the pieces, which remains where not even two can be joined.
    """
    now, best = pieces, found
    samples = sum(len(t.time) for t in whole.data.trajectories)
    # Each join doubles the pieces: 256 samples become one.
    for _ in range(8):
        count = len(now.data.trajectories)
        if count == len(whole.data.trajectories):
            break
        longer = whole.pieces(int(np.ceil(2.0 * samples / count)))
        if len(longer.data.trajectories) >= count:
            longer = whole
        heads = np.cumsum([0, *(len(t.time) for t in longer.data.trajectories)])[:-1]
        start = np.concatenate(solutions(best.law, now.data, best.initial))[heads]
        tried = refit(longer, dataclasses.replace(best, initial=start[:, ~longer.data.is_control]))
        if not tried.finite or _mean_square(tried) > 1.2 * _mean_square(best):
            break
        now, best = longer, tried
    return best


def _mean_square(found: Polished) -> float:
    # Every start that is fitted takes away residual.
    return float(found.squares.sum() / max(found.counts.sum() - found.initial.size, 1.0))


def balance(found: Polished) -> Polished:
    """The law without terms of tied equations that are no more than error; constants under that.

    Its squares and starts are still those of the law given.
    """
    law, free, joint = found.law, found.free, found.joint
    if law.stoichiometry is None:
        return found
    theta = picked(law, free)
    index = {(int(r), int(j)): k for k, (r, j) in enumerate(np.argwhere(free[0]))}
    balanced, met = list[tuple[int, int]](), list[tuple[int, int]]()
    for tied, j in product(np.flatnonzero(np.diag(law.stoichiometry) == 0.0), range(law.n_monomials)):
        weights = law.stoichiometry[tied]
        places = [(int(r), j) for r in np.flatnonzero(weights) if (int(r), j) in index]
        g = np.zeros(len(theta))
        for place in places:
            g[index[place]] = weights[place[0]]
        held = weights @ np.where(free[0][:, j], 0.0, law.coefficients[:, j])
        left, variance = float(g @ theta + held), float(g @ joint.matrix[: len(g), : len(g)] @ g)
        sizes = np.abs(weights * law.coefficients[:, j])
        # Within three standard errors (99.7 % of a normal distribution) or the accuracy of the solvers that judge.
        nothing = left**2 < 3.0**2 * variance or abs(left) < 1e-6 * sizes.max()
        # One place alone has nothing that it could be balanced by.
        if np.count_nonzero(sizes) < 2 or not nothing or not variance > 0.0:
            continue
        theta = theta - joint.matrix[: len(g), : len(g)] @ g / variance * left
        joint = joint.given(np.append(g, np.zeros(len(joint.matrix) - len(g))))
        balanced.append((int(tied), j))
        met += places if len(places) == 1 else []
    if not balanced:
        return found
    a, w, b, v = filled(law.constants, free, theta)
    for row, j in balanced:
        _close(a, law.stoichiometry[row], j, free[0])
    return _without(dataclasses.replace(found, law=law.with_constants(a, w, b, v), joint=joint), met, index)


def _without(found: Polished, met: list[tuple[int, int]], index: dict[tuple[int, int], int]) -> Polished:
    """The law with the coefficients that meet known ones held: nothing is left of them to fit.

    Given are their equations and monomials, and the places of the free coefficients among the free constants.
    """
    free = (found.free[0].copy(), *found.free[1:])
    for place in met:
        free[0][place] = False
    joint = found.joint.part(np.setdiff1d(np.arange(len(found.joint.matrix)), [index[place] for place in met]))
    return dataclasses.replace(found, joint=joint, free=free, errors=_errors(found.law, free, joint))


def _close(a: Array, weights: Array, j: int, fitted: Mask) -> None:
    """The smallest fitted coefficient of monomial j from the others, so that nothing is left at all."""
    rows = np.flatnonzero((weights != 0) & (a[:, j] != 0))
    open_rows = rows[fitted[rows, j]]
    last = open_rows[np.argmin(np.abs(a[open_rows, j]))]
    others = rows[rows != last]
    a[last, j] = -(weights[others] @ a[others, j]) / weights[last]


def unscaled_errors(polished: Polished, scale: Scale) -> PowerSum:
    """Standard errors in the user's units, by the delta method with the full covariance.

    A user's coefficient is A (s_i / T) prod_k s_k^-W[j, k], and a weight of an inner sum
    B prod_k s_k^-V[j, k]: their relative errors also feel the exponents of the states,
    d ln A' = d ln A - sum_k ln(s_k) dW[j, k].

    In the places of the law's constants; 0 for what was held at a round number, nan where unknown.
    """
    law, free = polished.law, polished.free
    user = law.unscaled(scale.state, scale.time)
    known = polished.joint.part(slice(count(free)))
    places, jacobian = [np.argwhere(mask) for mask in free], _to_user(law, free, scale)
    n_a = len(places[0])
    a, w, b, v = (np.zeros_like(values) for values in law.constants)
    total = np.zeros((law.n_states, law.n_monomials))
    _, w, b, v = filled((a, w, b, v), free, known.transformed(jacobian).deviations())
    w, v = (
        np.where((e == 0.0) & ~_round(values), np.nan, e) for e, values in zip((w, v), law.constants[1::2], strict=True)
    )
    if user.stoichiometry is None:
        total[tuple(places[0].T)] = known.transformed(jacobian[:n_a]).deviations()
    else:
        of_a = np.zeros((*law.coefficients.shape, len(jacobian)))
        of_a[tuple(places[0].T)] = jacobian[:n_a]
        of_a = np.einsum("ir,rjp->ijp", user.stoichiometry, of_a)
        touched = np.any(of_a != 0.0, axis=2)
        total[touched] = known.transformed(of_a[touched]).deviations()
    return expanded(user).with_constants(total, w, b, v)


def without_rounding(values: Array) -> Array:
    """Values without the last few bits, in which a change of units there and back leaves its rounding.

    >>> without_rounding(np.array([0.9999999999999998, 0.10000000000000003, 2.0 / 3.0])).tolist()
    [1.0, 0.1, 0.6666666666666666]
    """
    written = np.array([float(f"{value:.13g}") for value in values.ravel()]).reshape(values.shape)
    return np.where(np.abs(written - values) <= 2e-15 * np.abs(values), written, values)


def _round(exponents: Array) -> Mask:
    """Round values, to which exponents are set; others were held where an earlier fit left them."""
    round_ones: Mask = (np.round(exponents, 6) == exponents) | np.isin(exponents, list(SIMPLE))
    return round_ones


def _to_user(law: PowerSum, free: Free, scale: Scale) -> Array:
    """d (constants in the user's units) / d (those of the law), [constants, constants]."""
    user = law.unscaled(scale.state, scale.time)
    a, w, b, v = law.constants
    unit = law.with_constants(np.ones_like(a), w, np.ones_like(b), v)
    unit = unit.unscaled(scale.state, scale.time)
    places, log_scale = [np.argwhere(mask) for mask in free], np.log(scale.size)
    starts = np.cumsum([0, *map(len, places)])
    jacobian = np.eye(starts[-1])
    for linear, power in ((0, 1), (2, 3)):
        for row, (i, j) in enumerate(places[linear], start=starts[linear]):
            jacobian[row, row] = unit.constants[linear][i, j]
            for column, (monomial, k) in enumerate(places[power], start=starts[power]):
                # Functions and sums have no units.
                if monomial == j and k < law.n_states:
                    jacobian[row, column] = -user.constants[linear][i, j] * log_scale[k]
    return jacobian
