"""Maximum likelihood fits of a law's constants, on intervals, trajectories and pieces, and shorter forms of the law.

Intervals. Residuals of a law between samples, from every measured start,

    x(t + h; x(t)) - x(t + h)

Without noise every sample is a start: constants are exact to the digits of the data, however much chaos magnifies
errors over whole trajectories, and a law fitted to one half of the samples can be tested on the other.

Whole trajectories, with standard errors.

    minimise  sum over trajectories, samples, states of ((x(t; theta, x0) - data) / sigma)^2

over coefficients, exponents and start values, with scipy's LSODA at tight tolerance instead of
the fixed steps of training, so that errors of the latter do not affect the reported constants.
The Jacobian comes from the variational equations (`solve/sensitivities.py`), and the covariance
of constants and start values is (J^T J)^-1 at the minimum, with each state's sigma re-estimated from its residuals.

Pieces. Chaos forgets its start, so a law is fitted to short pieces with separate starts. These determine the
constants poorly; but once the law fits them, two neighbours can be joined, since the first one ends nearly where the
second one begins. So the fit proceeds to longer trajectories, over which small errors of the constants would grow,
until joining fails (multiple shooting; Bock, Randwertproblemmethoden zur Parameteridentifizierung, 1987).

Tied equations. An equation that follows from a conserved sum, x_l' = sum_r M[l, r] (A y^W)_r, has the balance of each
monomial in the others. If that is zero within error, as in S' = -r, I' = r - b I, R' = b I, the monomial only passes
from one state to another, and

    g . theta = sum_r M[l, r] A[r, j] = 0

is a constraint on the constants. Theta and its covariance C are conditioned on it:
theta - C g (g C g)^-1 g . theta and C - C g (g C g)^-1 g C.

Source: Seber and Lee, Linear Regression Analysis (2003), Sec. 3.8 (least squares under a linear
constraint; here to second order in the constants).

Finally, standard errors of the constants in the user's units.

Shorter forms of a law have simple exponents, short decimals, or fewer constants in quotients and functions. A refit
decides whether each is as good.

Simple exponents. A law with x^0.98(3) is better written with x. First all exponents are snapped at once, by the
quadratic approximation of the likelihood; where that does not hold (two growth terms whose exponents can only
be determined together), they are snapped one after another. A value is accepted only if the criterion, which charges
a simple value less than a fitted constant, falls.

Short decimals. A constant v known within e is as close to a decimal of d digits by chance with probability

    P = 2 max(|v - m|, e) / 10 ** (k - d + 1),    m the decimal, k the power of ten of v

If P is tiny, the decimal is the true value, and shorter: to write v takes ln(|v| / e), to write m d ln 10. Such
decimals are accepted if the misfit rises by less than they save
(Rissanen, Modeling by shortest data description, Automatica 14, 1978).

Terms over one sum.

    u = 1 + sum_j b_j z_j:    m = m/u + sum_j b_j m z_j/u;    u = 1 + b z:    1/u = 1 - b z + ...

All but one of m, m/u and m z_j/u can express it, so a x/(c + x) may be found as a - a c/(c + x). Each equation is
written with those that give it the fewest terms. Where b z stays small, two terms without b replace m/u.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import TypeAlias

import numpy as np
from scipy.linalg import block_diag
from scipy.optimize import least_squares

from odediscovery.data.series import Scale, TimeSeries
from odediscovery.data.signals import control_slopes
from odediscovery.ivp.solvers import rk4_step
from odediscovery.laws.power_sum import (
    SIMPLE,
    Free,
    PowerSum,
    but_whole_powers,
    constant_penalty,
    count,
    expanded,
    factors,
    filled,
    picked,
    snap_penalty,
)
from odediscovery.laws.records import SETTLED, Covariance, Judged, Law, Polished, PolishedLaw
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

# Runge-Kutta steps over one sample interval.
STEPS = 24
# Largest squared residual of an exact law [mean squared increment of an interval, variance of whole trajectories].
EXACT_SQUARES = 1e-11
# Squared residual that needs no refinement, and largest effect of finer steps [mean squared increment].
SHARP = 1e-18
# Gain of a step below which a law in noise that is compared with others has converged [of the criterion]; a hundredth
# of what counts as evidence; along a curved valley, hundreds of such steps would follow.
CONVERGED = 0.05


def interval_errors(law: PowerSum, p: Problem, shift: Array | float = 0.0, steps: int = STEPS) -> list[Array]:
    """Compute residuals at the ends of intervals from measured starts + shift, [intervals, states] per trajectory."""
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


@np.errstate(all="ignore")  # a law that diverges exceeds any bound, without need for a warning
def sharpened(p: Problem, law: PowerSum, free: Free) -> PowerSum | None:
    """Fit the free constants to the intervals between samples, each from its measured start:

        minimise  sum over intervals and states of ((x(t + h; x(t)) - x(t + h)) / increment)^2

    by Gauss-Newton. None if the data are noisy, incomplete or constrained, or if residuals exceed those of an
    exact law.
    """
    moving = ~p.constant
    if not (p.clean and p.knowledge is None and moving.any() and count(free)):
        return None
    size = np.sqrt(increment_squares(p))[moving]

    def errors(law: PowerSum, steps: int) -> Array:
        found: Array = np.concatenate(interval_errors(law, p, steps=steps))[:, moving] / size
        return found

    def moved(u: Array) -> PowerSum:
        return law.with_constants(*filled(law.constants, free, u))

    steps, left = STEPS, errors(law, STEPS)
    # Where states change fast within an interval, more steps keep solver error out of the residuals.
    while steps < 16 * STEPS and np.mean(left**2) <= SETTLED:
        finer = errors(law, 2 * steps)
        enough = np.mean((finer - left) ** 2) <= SHARP
        steps, left = 2 * steps, finer
        if enough:
            break
    if not np.mean(left**2) <= SETTLED:
        return None
    if np.mean(left**2) <= SHARP:  # sharpened before
        return law
    # A few steps suffice for finite differences.
    u, here = picked(law, free), errors(law, 6)
    shifts = np.diag(1e-7 * np.maximum(np.abs(u), 1.0))
    slopes = np.stack([(errors(moved(u + h), 6) - here) / h.sum() for h in shifts], axis=2).reshape(-1, len(u))
    if not np.isfinite(slopes).all():
        return None
    width = np.maximum(column_norms(slopes), ABOVE_ZERO)
    for _ in range(4):
        trial = u - np.linalg.lstsq(slopes / width, left.ravel(), rcond=None)[0] / width
        anew = errors(moved(trial), steps)
        before, after = (np.square(e).sum() for e in (left, anew))
        if not after < before:
            break
        u, left = trial, anew
        if after > 0.1 * before:
            break
    return moved(u) if np.mean(left**2) <= EXACT_SQUARES else None


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
    """Fit a law's constants and start values by maximum likelihood on whole trajectories.

    The law is dimensionless, in the units of the series; initial guesses for the start values are [trajectories,
    states], without controls. A law that cannot be integrated is returned unchanged, with `finite=False`.

    Args:
        floor: standard deviation due to rounding and integration alone [states]; no standard
            error is computed from smaller residuals.
        nonnegative: states whose start value is fitted through its square root.
        free: which constants are fitted (default: all that are not zero).
        most: most evaluations; 0 leaves constants and starts unchanged.
        relative_sigma: noise of each sample relative to the others, [samples, states] per trajectory
            (default: all equal).
        sums: conserved sums and their values, which the start values obey.
        fully: whether constants are fitted to full precision, rather than the likelihood alone.
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
    # Each state's sigma is re-estimated from its residuals.
    own = sigma / np.maximum(left, floor)
    rows = [np.broadcast_to(own, t.values.shape).ravel() for t in series.trajectories]
    roots = u[model.n_constants :].reshape(initial.shape)
    slopes = block_diag(np.eye(model.n_constants), *(starts.slopes(q, j) for j, q in enumerate(roots)))
    # (J^T J)^-1 of constants and start values.
    joint = Covariance.of(now.jacobian * np.concatenate(rows)[:, None]).transformed(slopes)
    errors = _errors(law, free, joint)
    return PolishedLaw(law, errors, initial, joint, free, squares, counts, finite=True, plain_squares=plain)


def polish_on(
    p: Problem,
    law: PowerSum,
    free: Free,
    initial: Array,
    sigma: Array,
    most: int = 25,
    fully: bool = True,
    sums: ConservedSums = (),
) -> Polished:
    """`polish` a law on the data of a problem."""
    return polish(
        law,
        p.data,
        initial,
        sigma,
        floor=p.floor,
        nonnegative=p.nonnegative,
        free=free,
        most=most,
        relative_sigma=p.relative_sigma,
        sums=sums,
        fully=fully,
    )


def as_it_is(
    law: PowerSum, series: TimeSeries, initial: Array, sigma: Array, free: Free, relative_sigma: Sequence[Array]
) -> Polished:
    """Integrate a law once without refining it, when no time is left; see `polish`."""
    squares, plain, counts = residual_squares(law, series, initial, relative_sigma, tolerance(sigma))
    joint, finite = Covariance.nothing_known(count(free) + initial.size), bool(np.isfinite(squares).all())
    return Polished(law, _unknown(law), initial, joint, free, squares, counts, finite=finite, plain_squares=plain)


def _unknown(law: Law) -> Law:
    """Return unknown errors: nan for every constant."""
    return law.with_constants(*(np.full_like(c, np.nan) for c in law.constants))


def _errors(law: Law, free: Free, joint: Covariance) -> Law:
    """Compute standard errors of the free constants, 0 for fixed ones."""
    deviations = np.sqrt(np.maximum(np.diag(joint.matrix)[: count(free)], 0.0))
    a, w, b, v = (np.zeros_like(c) for c in law.constants)
    return law.with_constants(*filled((a, w, b, v), free, deviations))


def minimise(model: TrajectoryResiduals, u: Array, now: Evaluation, most: int, ftol: float) -> tuple[Array, Evaluation]:
    """Minimise by scipy's trust-region reflective method; return the unknowns and their evaluation."""
    # scipy requests residuals and Jacobian separately, so the latest point is cached.
    latest: Evaluation | None = now
    at, effort = u.tobytes(), now.effort
    # A law that diverges must score worse than any other, even than a poor initial guess.
    wall = np.full_like(now.residual, 1e8 * max(1.0, float(np.abs(now.residual).max())))

    def evaluated(v: Array) -> Evaluation | None:
        nonlocal at, latest
        if at != v.tobytes():
            # Steps of constants that diverge may overflow.
            at, latest = v.tobytes(), model.evaluate(v, effort) if np.isfinite(v).all() else None
        return latest

    def residual(v: Array) -> Array:
        value = evaluated(v)
        return wall if value is None else value.residual

    def jacobian(v: Array) -> Array:
        nonlocal effort
        value = evaluated(v)
        assert value is not None  # scipy requests the Jacobian of accepted points only
        # The effort of a rejected step is no guide to later ones.
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


def join_pieces(
    whole: Problem, pieces: Problem, found: Polished, refit: Callable[[Problem, Polished], Polished]
) -> Polished:
    """Refine a law that fits the pieces on ever longer ones, as far as it can follow them.

    The law is unchanged if no neighbours can be joined. `refit` fits a law's constants from its starts.
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
        tried = refit(longer, replace(best, initial=start[:, ~longer.data.is_control]))
        if not tried.finite or _mean_square(tried) > 1.2 * _mean_square(best):
            break
        now, best = longer, tried
    return best


def _mean_square(found: Polished) -> float:
    # Every fitted start reduces the residuals.
    return float(found.squares.sum() / max(found.counts.sum() - found.initial.size, 1.0))


def balance(found: Polished) -> Polished:
    """Remove terms of tied equations that are zero within error; condition the constants on that.

    Squares and starts remain those of the given law.
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
        # Not significant: within three standard errors (99.7 %), or within the accuracy of the solvers.
        nothing = left**2 < 3.0**2 * variance or abs(left) < 1e-6 * sizes.max()
        # A single coefficient has no other to balance it.
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
    # Coefficients that known ones determine are fixed.
    fitted = free[0].copy()
    for place in met:
        fitted[place] = False
    joint = joint.part(np.setdiff1d(np.arange(len(joint.matrix)), [index[place] for place in met]))
    law, free = law.with_constants(a, w, b, v), (fitted, *free[1:])
    return replace(found, law=law, free=free, joint=joint, errors=_errors(law, free, joint))


def _close(a: Array, weights: Array, j: int, fitted: Mask) -> None:
    """Set the smallest fitted coefficient of monomial j so that the monomial balances exactly."""
    rows = np.flatnonzero((weights != 0) & (a[:, j] != 0))
    open_rows = rows[fitted[rows, j]]
    last = open_rows[np.argmin(np.abs(a[open_rows, j]))]
    others = rows[rows != last]
    a[last, j] = -(weights[others] @ a[others, j]) / weights[last]


def unscaled_errors(polished: Polished, scale: Scale) -> PowerSum:
    """Compute standard errors in the user's units, by the delta method with the full covariance.

    A user's coefficient is A (s_i / T) prod_k s_k^-W[j, k], and a weight of an inner sum
    B prod_k s_k^-V[j, k]: their relative errors also depend on the exponents of the states,
    d ln A' = d ln A - sum_k ln(s_k) dW[j, k].

    Returned in the places of the law's constants; 0 for round fixed values, nan where unknown.
    """
    law, free = polished.law, polished.free
    user = law.unscaled(scale.state, scale.time)
    known = polished.joint.part(slice(count(free)))
    places, jacobian = [np.argwhere(mask) for mask in free], _to_user(law, free, scale)
    n_a = len(places[0])
    total = np.zeros((law.n_states, law.n_monomials))
    a, w, b, v = (np.zeros_like(values) for values in law.constants)
    _, w, b, v = filled((a, w, b, v), free, known.transformed(jacobian).deviations())
    # Round exponents are fixed by choice; others were fixed at values from an earlier fit.
    for e, values in zip((w, v), law.constants[1::2], strict=True):
        e[(e == 0.0) & (np.round(values, 6) != values) & ~np.isin(values, list(SIMPLE))] = np.nan
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
    """Remove the rounding errors that a change of units and back leaves in the last bits of values.

    >>> without_rounding(np.array([0.9999999999999998, 0.10000000000000003, 2.0 / 3.0])).tolist()
    [1.0, 0.1, 0.6666666666666666]
    """
    written = np.array([float(f"{value:.13g}") for value in values.ravel()]).reshape(values.shape)
    return np.where(np.abs(written - values) <= 2e-15 * np.abs(values), written, values)


def _to_user(law: PowerSum, free: Free, scale: Scale) -> Array:
    """Compute d (constants in the user's units) / d (those of the law), [constants, constants]."""
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


# (law, masks of free constants, initial guesses for starts [trajectories, states]) -> polished and judged.
RefitLaw = Callable[[PowerSum, Free, Array], Judged]


# Simple exponents.


# A constant of a law: index of its array in `PowerSum.constants`, row and column.
Place: TypeAlias = tuple[int, int, int]


def snap(row: Judged, refit: RefitLaw, scale: Array | None = None) -> Judged:
    """Set exponents to simple values, and constants of sums to 1 where they have no unit, if that lowers the criterion.

    Args:
        scale: of each state of the law [the user's units] (default: 1).
    """
    scale = np.ones(row.polished.law.n_states) if scale is None else scale
    together = [g for g in _goals(row.polished, scale) if g[0] < 0.0]
    places: dict[Place, float] = {}
    for _, place, value in together:
        places.setdefault(place, value)
    if len(places) > 1:
        after = refit(*_fixed(row.polished, places))
        if after.criterion < row.criterion:
            row = after
    while True:
        for _, place, value in _goals(row.polished, scale)[:3]:
            after = refit(*_fixed(row.polished, {place: value}))
            if after.criterion < row.criterion:
                row = after
                break
        else:
            return row


def _goals(polished: Polished, scale: Array) -> list[tuple[float, Place, float]]:
    """List (expected change of the criterion, place of a constant, simple value), best first."""
    law, errors, goals = polished.law, polished.errors, list[tuple[float, Place, float]]()
    worth = constant_penalty(law.n_states, polished.counts.sum())

    def propose(place: Place, simple: Iterable[tuple[float, float]]) -> None:
        of, *at = place
        now, error = law.constants[of][*at], max(float(errors.constants[of][*at]), ABOVE_ZERO)
        for value, penalty in simple:
            misfit = ((now - value) / error) ** 2
            # Very near values are tried regardless of the error; others only if the likelihood allows them.
            if abs(now - value) < 5e-3 or misfit < min(worth, 5.0):
                goals.append((misfit + penalty - worth, place, value))

    for j, k in np.argwhere(polished.free[1]).tolist():
        # An exponent of 0 costs nothing.
        propose((1, j, k), ((0.0, 0.0), *((value, snap_penalty(value)) for value in SIMPLE)))
    # Gates and norms: 1 + exp(r x), 1 + y^2 / x^2.
    v = law.constants[3][:, : law.n_states]
    for j, k in np.argwhere(polished.free[2] & (v.sum(axis=1) == 0.0)).tolist():
        propose((2, j, k), ((float(factors(v[[k]], scale)[0]), snap_penalty(1.0)),))
    return sorted(goals)


def _fixed(polished: Polished, places: dict[Place, float]) -> tuple[PowerSum, Free, Array]:
    """Fix some constants and move all other unknowns to their conditional mean; return law, masks and starts."""
    law, free, initial = polished.law, polished.free, polished.initial
    theta, order = picked(law, free), [(of, *at) for of, mask in enumerate(free) for at in np.argwhere(mask).tolist()]
    index = np.array([order.index(place) for place in places])
    change = np.array(list(places.values())) - theta[index]
    c = polished.joint.matrix
    step = c[:, index] @ np.linalg.lstsq(c[np.ix_(index, index)], change, rcond=None)[0]
    # Far from the minimum a linear step only does harm.
    near = [np.all(np.abs(part) <= 1.0) for part in (step[: len(theta)], step[len(theta) :])]
    moved = theta + step[: len(theta)] if near[0] else theta.copy()
    start = initial + step[len(theta) :].reshape(initial.shape) if all(near) else initial
    moved[index] = list(places.values())
    held = [mask.copy() for mask in free]
    for of, *at in places:
        held[of][*at] = False
    changed = law.with_constants(*filled(law.constants, free, moved))
    return *merge_monomials(changed, (free[0], held[1], held[2], free[3])), start


def merge_monomials(law: PowerSum, free: Free) -> tuple[PowerSum, Free]:
    """Merge equal monomials; fixed exponents stay fixed."""
    merged = law.merged()
    rows = [int(np.flatnonzero((law.exponents == w).all(axis=1))[0]) for w in merged.exponents]
    held = free[1][rows].reshape(merged.exponents.shape)
    return merged, (merged.coefficients != 0, held, *free[2:])


# Short decimals.


def nearest_decimal(value: float, error: float) -> tuple[float, float] | None:
    """Find the short decimal that equals a constant, and its saving in units of twice the log-likelihood, or None.

    >>> nearest_decimal(0.07500000002, 1e-9)[0]
    0.075
    >>> nearest_decimal(0.0751, 1e-3), nearest_decimal(2.718281828, 1e-9)
    (None, None)
    """
    if not (value and math.isfinite(value) and 0.0 < error < math.inf):
        return None
    for digits in range(1, 5):
        decimal = float(f"{value:.{digits - 1}e}")
        spacing = 10.0 ** (math.floor(math.log10(abs(value))) - digits + 1)
        off = abs(value - decimal)
        chance = 2.0 * max(off, error) / spacing
        if chance <= 1e-4:
            return decimal, -2.0 * math.log(chance)
    return None


def round_constants(found: Polished, scale: Scale) -> tuple[Polished, float] | None:
    """Round every constant that is a short decimal in the user's units; None if there are none. Not for flows.

    Returns the law in units of the scale, other constants unchanged, and what rounding saves, in units of twice the
    log-likelihood.
    """
    user, errors = found.law.unscaled(scale.state, scale.time), unscaled_errors(found, scale)
    constants, free, saved = [c.copy() for c in user.constants], [mask.copy() for mask in found.free], 0.0
    for values, of, left, rates in zip(constants, errors.constants, free, _printed(user), strict=True):
        for at in map(tuple, np.argwhere(left)):
            short = nearest_decimal(float(values[at] * rates[at]), float(of[at] * abs(rates[at])))
            if short is not None:
                values[at], left[at] = short[0] / rates[at], False
                saved += short[1]
    if not saved:
        return None
    law = user.with_constants(*constants).rescaled(scale.state, scale.time)
    kept = np.concatenate([left[before] for left, before in zip(free, found.free, strict=True)])
    known = np.append(kept, np.ones(found.initial.size, dtype=bool))
    error = found.errors.with_constants(
        *(np.where(left, e, 0.0) for left, e in zip(free, found.errors.constants, strict=True))
    )
    fitted: Free = (free[0], free[1], free[2], free[3])
    return replace(found, law=law, free=fitted, errors=error, joint=found.joint.part(known)), saved


def _printed(law: PowerSum) -> tuple[Array, Array, Array, Array]:
    """Return the factors of constants in print: an exponent w of exp(r x) appears in the rate, exp(w r x)."""
    a, w, b, v = (np.ones_like(c) for c in law.constants)
    if law.features is not None:
        n = law.features.states
        for k, function in enumerate(law.features.functions):
            w[:, n + k] = function.rate_of_power
            v[:, n + k : n + k + 1] = function.rate_of_power  # empty without sums
    return a, w, b, v


# Terms over one sum.


def shorten_quotients(law: PowerSum, x: Array) -> list[tuple[PowerSum, Free]]:
    """Find laws with fewer constants in terms over sums, with masks of their free constants, the three shortest.

    Sizes of terms are compared at states x [samples, states].

    >>> from odediscovery.laws.power_sum import Features, Sums
    >>> monod = Features(1, (), Sums(np.array([[0.5]]), np.array([[1.0]])))  # u = 1 + x/2
    >>> long = PowerSum(np.array([[3.0, -3.0]]), np.array([[0.0, 0.0], [0.0, -1.0]]), monod)  # 3 - 3/u
    >>> (short, _), *_ = shorten_quotients(long, np.linspace(0.1, 5.0, 20)[:, None])
    >>> short.coefficients.tolist(), short.exponents.tolist()  # 1.5 x/u
    ([[1.5]], [[1.0, -1.0]])
    """
    if law.features is None or law.stoichiometry is not None:
        return []
    a, w, b, v = law.constants
    off = np.abs(v - np.round(v))
    # Nearly whole powers inside sums are also tried as whole ones.
    nearly_whole = (off > 0).any() and (off < 0.1).all()
    wholes = [law, law.with_constants(a, w, b, np.round(v))] if nearly_whole else [law]
    # Two sums may have to be rewritten before a shared polynomial part cancels.
    starts = [start for one in wholes for start in (one, *_rewritten(one, x, without=1))]
    shorter = sorted((one for start in starts for one in _shortened(start, x)), key=count_constants)
    found: list[PowerSum] = []
    for one in (one for one in shorter if count_constants(one) < count_constants(law)):
        if not any(_is_same(one, other) for other in found):
            found.append(one)
    return [(one, but_whole_powers(one)) for one in found[:3]]


def _is_same(one: PowerSum, other: PowerSum) -> bool:
    """Whether two laws have the same terms, whatever their coefficients."""
    pairs = zip(one.constants, other.constants, strict=True)
    return all(a.shape == b.shape and bool(((a != 0) == (b != 0)).all()) for a, b in pairs) and bool(
        np.allclose(one.exponents, other.exponents)
    )


def _shortened(law: PowerSum, x: Array) -> Iterator[PowerSum]:
    """Yield the law and ever shorter ones: not only the shortest, since discarded small terms may be needed."""
    yield law.compact()
    for _ in range(law.n_monomials):
        terms = np.count_nonzero(law.coefficients)
        found = next((new for new in _rewritten(law, x) if np.count_nonzero(new.coefficients) < terms), None)
        if found is None:
            return
        law = found
        yield law.compact()


def count_constants(law: PowerSum) -> int:
    """Count terms, constants inside sums, fitted exponents, and functions."""
    functions = 0 if law.features is None else len(law.features.functions)
    return count(but_whole_powers(law)) + functions


def _rewritten(law: PowerSum, x: Array, without: int | None = None) -> Iterator[PowerSum]:
    """Rewrite terms over one sum u = 1 + sum_j b_j z_j with the fewest terms, for each sum and each m.

    With `without`, that one of m, m/u, m z_1/u, ... is always replaced by the others.
    """
    if law.features is None:
        return
    sums, first = law.features.sums, law.features.simple
    for k, weights in enumerate(sums.weights):
        inside, u = np.flatnonzero(weights), np.eye(law.exponents.shape[1])[first + k]
        z = np.pad(sums.exponents[inside], ((0, 0), (0, len(sums))))
        relation = np.concatenate([[1.0, -1.0], -weights[inside]])
        for row in law.exponents[law.exponents[:, first + k] == -1.0]:
            for m in np.vstack([row + u, row + u - z]):
                yield _with_fewest(law, x, np.vstack([m, m - u, m - u + z]), relation, without)


def _with_fewest(law: PowerSum, x: Array, rows: Array, relation: Array, without: int | None) -> PowerSum:
    """Use the fewest of the given rows in each equation; weighted by `relation`, they add up to 0."""
    near = np.abs(law.exponents[:, None] - rows[None]).max(axis=2) < 1e-9
    a = law.coefficients @ near.astype(float)
    with np.errstate(all="ignore"):
        size = np.sqrt(np.mean(PowerSum(a, rows, law.features).monomials(x) ** 2, axis=0))
    # If a monomial overflows, sizes cannot be compared, and the law stays unchanged.
    for i, old in enumerate(a if np.isfinite(size).all() else ()):
        left = range(len(rows)) if without is None else [without]
        ways = [old] * (without is None) + [old - old[k] / relation[k] * relation for k in left]
        # Terms below a fiftieth of the largest are discarded, subject to the refit.
        kept = [np.where(np.abs(w) * size > 0.02 * np.max(np.abs(w) * size), w, 0.0) for w in ways]
        a[i] = min(kept, key=np.count_nonzero)
    others = ~near.any(axis=1)
    coefficients = np.concatenate([law.coefficients[:, others], a], axis=1)
    return PowerSum(coefficients, np.concatenate([law.exponents[others], rows]), law.features).merged().compact()
