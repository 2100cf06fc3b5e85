"""Laws that run away: from starts that the data allow, they leave everything measured behind.

A law may follow a trajectory along an edge from which it would fall: to one side of the fitted
start its solutions blow up. The measured system did not, and where it started is known to
within an error only, so such a law is doubted.

When a law is doubted: because of its residuals, or because it does not look like a law.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from odediscovery.data.series import TimeSeries
from odediscovery.data.smoothing import SMOOTHING
from odediscovery.judge.residual_tests import RESIDUALS, correlations, has_no_memory
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.problem import Problem, increment_squares
from odediscovery.runtime.arrays import Array, Mask, column_norms
from odediscovery.solve.sensitivities import residuals
from odediscovery.stages.polish.intervals import holds_outside, interval_errors
from odediscovery.stages.values import STAGES, Candidate, Polished


@dataclass(frozen=True)
class StabilityThresholds:
    """When a solution has left the data behind."""

    far: float = 10.0  # a solution so far from its fitted course has left the data behind [range of the data]
    tolerance: float = 1e-6  # relative tolerance of the integration


STABILITY = StabilityThresholds()


def runs_away(law: PowerSum, series: TimeSeries, initial: Array, error: Array, nonnegative: Mask) -> bool:
    """Whether a solution that starts within an error of the fitted start leaves the data behind.

    Each state's start is moved by its error to either side, the others stay.

    Args:
        initial: fitted start values [trajectories, states], without controls.
        error: how uncertain they are [trajectories, states], without controls.
        nonnegative: states that do not start below 0.
    """
    values = np.concatenate([t.values for t in series.trajectories])
    reach = STABILITY.far * (np.nanmax(values, axis=0) - np.nanmin(values, axis=0))
    nonnegative = nonnegative[~series.is_control]
    for i, side in itertools.product(range(initial.shape[1]), (-1.0, 1.0)):
        start = initial.copy()
        start[:, i] += side * error[:, i]
        start = np.where(nonnegative, np.maximum(start, 0.0), start)
        left = residuals(law, series, start, STABILITY.tolerance)
        if any(np.any(np.abs(np.nan_to_num(r, posinf=np.inf)) > reach) for r in left):
            return True
    return False


@dataclass(frozen=True)
class DoubtThresholds:
    """What makes a law doubtful although it fits."""

    # An exponent nearer than this to a whole number, and not at it, is a sign of another law
    nearly_whole: float = 0.02
    whole: float = 1e-4  # an exponent nearer than this is at a whole number
    cancelling: float = 30.0  # terms so many times larger than their sum cancel [ratio of rms]
    # an equation of more terms has to need each of them, all with whole powers; the laws of the suites have at most
    # so many
    terms: int = 3
    constants: int = 5  # terms and sums of an equation together, above which it is doubted
    # highest power of a long law of whole powers that is believed in noise; the series of a sine goes on to the fifth
    # and farther
    degree: float = 3.0
    products: float = 2.0  # highest power of a law that is no first part of a series
    needed: float = 100.0  # squared t statistic from which on a term is needed
    # What a needed term explains at least of the increments of clean data [`STAGES.settled`, or what a law of
    # products of two states leaves]
    cliff: float = 1000.0
    singular: float = 1e-12  # least eigenvalue that counts [the largest]
    likely: float = 3.0  # distance of the mean square of mere noise above its expected value [standard deviations]
    # Noise without memory may be so many times larger than it was estimated [ratio of mean squares]
    underestimated: float = 3.0


DOUBT = DoubtThresholds()


def interval_squares(law: PowerSum, p: Problem) -> Array:
    """Mean squared error of every state at the ends of intervals from measured starts [states].

    In units of the mean squared increment of each state; inf where the law blows up.
    """
    return _relative_squares(interval_errors(law, p), p)


def _relative_squares(errors: Sequence[Array], p: Problem) -> Array:
    with np.errstate(over="ignore", invalid="ignore"):
        squares = np.mean(np.concatenate(errors) ** 2, axis=0) / increment_squares(p)
    result: Array = np.where(np.isfinite(squares), squares, np.inf)
    return result


def is_explained(law: PowerSum, p: Problem) -> Mask:
    """Whether what an equation leaves of the intervals is integration error or noise, bool [states].

        expected^2 = sigma_i^2 + sum_j (x_i(t + h; x + sigma_j) - x_i(t + h; x))^2

    Noise of both ends makes neighbouring errors differ; a wrong term makes them alike. Noise that
    is only estimated may be curvature, so on data that were not smoothed errors must have no memory.
    """
    errors = interval_errors(law, p)
    settled: Mask = _relative_squares(errors, p) <= STAGES.settled
    if settled.all():
        return settled
    sigma = np.maximum(p.noise, p.floor)
    expected = [np.broadcast_to(sigma**2, e.shape) for e in errors]
    for j in np.flatnonzero(~p.data.is_control):
        moved = interval_errors(law, p, sigma * (np.arange(len(sigma)) == j))
        with np.errstate(all="ignore"):  # a law that blows up explains nothing
            expected = [v + (m - e) ** 2 for v, m, e in zip(expected, moved, errors, strict=True)]
    with np.errstate(all="ignore"):
        relative = [e / np.sqrt(v) for e, v in zip(errors, expected, strict=True)]
    squares = np.mean(np.concatenate(relative) ** 2, axis=0)
    result: Mask = squares <= DOUBT.underestimated
    if p.noisiness <= SMOOTHING.clean and result.any():
        r, pairs = correlations([np.nan_to_num(e) for e in relative])
        result &= r < RESIDUALS.unlikely / np.sqrt(np.maximum(pairs, 1))
    return settled | result


def constant_errors(law: PowerSum, p: Problem) -> tuple[Array, Array]:
    """Standard errors of coefficients and exponents if they are fitted to intervals.

        covariance = (J' J)^-1,    J = d (errors / (sqrt(2) sigma)) / d (coefficients, exponents)

    by differences, with the noise of the data as sigma.

    Returns:
        Of coefficients [states, monomials] and exponents [monomials, features]; 0 where one is 0.
    """
    sigma = np.sqrt(2.0) * np.maximum(p.noise, p.floor)
    a, w, *inner = law.constants
    step = np.sqrt(np.finfo(float).eps)

    def weighted(a: Array, w: Array) -> Array:
        errors = np.concatenate(interval_errors(law.with_constants(a, w, *inner), p))
        result: Array = (errors / sigma)[:, ~p.constant].ravel()
        return result

    here, columns = weighted(a, w), []
    for values, is_exponent in ((a, False), (w, True)):
        for place in map(tuple, np.argwhere(values)):
            moved, h = values.copy(), step * abs(values[place])
            moved[place] += h
            columns.append((weighted(*((a, moved) if is_exponent else (moved, w))) - here) / h)
    jacobian = np.nan_to_num(np.stack(columns, axis=1), posinf=0.0, neginf=0.0)
    size = np.maximum(column_norms(jacobian), np.finfo(float).tiny)
    unit = jacobian / size
    with np.errstate(over="ignore"):  # the error of a constant that nothing feels is infinite
        errors = np.sqrt(np.diag(np.linalg.pinv(unit.T @ unit, rcond=DOUBT.singular, hermitian=True))) / size
    of_a, of_w = np.zeros(a.shape), np.zeros(w.shape)
    of_a[a != 0], of_w[w != 0] = np.split(errors, [np.count_nonzero(a)])
    return of_a, of_w


def doubtful(law: PowerSum, p: Problem) -> Mask:
    """Equations that leave residuals or do not look like a law, bool [states].

    Args:
        law: dimensionless.
        p: the data it was found in.
    """
    left = ~is_explained(law, p)
    return (left if left.all() else left | unlike_a_law(law, p)) & ~p.constant


def unlike_a_law(law: PowerSum, p: Problem) -> Mask:
    """Equations that do not look like a law, bool [states].

    A law does without exponents that are nearly whole, without terms that cancel, and without many
    terms, unless their powers are whole and the data could spare none of them: an approximation gains
    a little with every term, a law nearly everything with the last.

    Args:
        law: dimensionless.
        p: the data it was found in.
    """
    w = law.exponents
    off = np.abs(w - np.round(w))
    nearly = (off > DOUBT.whole) & (off < DOUBT.nearly_whole)
    used = law.coefficients != 0
    inside = 0 if law.features is None else (used @ (w[:, law.features.simple :] != 0)).sum(axis=1)
    many = (used.sum(axis=1) > DOUBT.terms) | (used.sum(axis=1) + inside > DOUBT.constants)
    if nearly.any() or many.any():
        of_a, of_w = constant_errors(law, p)
        nearly &= off > DOUBT.likely * of_w
        with np.errstate(divide="ignore", invalid="ignore"):
            gain = np.where(used, (law.coefficients / of_a) ** 2, np.inf).min(axis=1)
        samples = sum(len(t.values) for t in p.smooth.trajectories)
        share = gain * 2.0 * np.maximum(p.noise, p.floor) ** 2 / increment_squares(p) / samples
        whole = ~(used & (off > 0).any(axis=1)).any(axis=1)
        small = share < DOUBT.cliff * _least_left(law, p)
        if (many & whole & small).any() and holds_outside(p, law):
            small[:] = False
        many &= ~whole | (gain < DOUBT.needed) | small
    found: Mask = (used & nearly.any(axis=1)).any(axis=1) | has_cancelling_terms(law, p) | many
    return found


def _least_left(law: PowerSum, p: Problem) -> Array:
    """What approximations of the same terms would leave at least of each equation, as `interval_squares` [states].

    A series goes on to higher powers, and may leave any little; products of two states are the first terms of one
    that leaves much, so there it counts what the law itself leaves.
    """
    degrees = np.where(law.coefficients != 0, np.abs(law.exponents).sum(axis=1), 0.0).max(axis=1, initial=0.0)
    rounding = 2.0 * p.floor**2 / increment_squares(p)
    left = np.clip(interval_squares(law, p), np.minimum(rounding, STAGES.settled), STAGES.settled)
    plain = law.features is None
    least: Array = np.where(plain & (degrees <= DOUBT.products), left, STAGES.settled)
    return least


def has_cancelling_terms(law: PowerSum, p: Problem) -> Mask:
    """Whether terms of an equation are many times larger than their sum, bool [states]."""
    values = np.concatenate([t.values for t in p.smooth.trajectories])
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        terms = law.monomials(values)[:, None, :] * law.coefficients
        ratio = np.sqrt((terms**2).sum(axis=2).mean(axis=0) / (terms.sum(axis=2) ** 2).mean(axis=0))
    result: Mask = ratio > DOUBT.cancelling
    return result


def leaves_noise(p: Problem, best: Candidate) -> bool:
    """Whether what a law leaves of noisy data is noise.

    In short, irregular trajectories noise is easily underestimated. Residuals may then be larger than
    the estimate, as long as they have no memory.
    """
    if best.mean_square <= (1.0 + DOUBT.likely * np.sqrt(2.0 / p.samples)) * max(p.unexplained, 1.0):
        return not escapes(p, best)
    own = ~p.data.is_control
    return is_within_noise(p, best) and has_no_memory([r[:, own] for r in residuals(best.law, p.data, best.initial)])


def escapes(p: Problem, c: Candidate) -> bool:
    """Whether a law runs away from starts that the data allow, over as many samples as it can be followed.

    Where windows had to be shortened it is asked of pieces as long as these, each from its smoothed start.
    """
    q, initial = p, c.initial
    if p.longest_window is not None:
        q = p.pieces(p.longest_window)
        initial = q.initial
    return runs_away(c.law, q.data, initial, q.start_errors, q.nonnegative)


def needs_every_term(found: Polished, nonnegative: Mask, *, long: bool = False) -> bool:
    """Whether a law of whole powers has no term that the data could spare, and not too many.

    An approximation gains a little with every term, a law nearly everything with the last; the series of
    another law shows in its degree. Many terms may stand for real powers, but not where all states change sign.

    Args:
        found: the law, refined.
        nonnegative: states that do not change their sign, of those that change, bool [states].
        long: whether it may have any number of terms, of any degree.
    """
    a, w = found.law.coefficients, found.law.exponents
    few = (a != 0).sum(axis=1).max() <= DOUBT.constants
    if found.law.features is None:
        few = (few or not nonnegative.any()) and np.abs(w).sum(axis=1).max(initial=0.0) <= DOUBT.degree
    needed = a**2 >= DOUBT.needed * found.errors.coefficients**2
    return bool((few or long) and np.array_equal(w, np.round(w)) and needed[a != 0].all())


def is_short(law: PowerSum) -> bool:
    """Whether no equation has more than `DOUBT.terms` terms."""
    return bool((law.coefficients != 0).sum(axis=1).max() <= DOUBT.terms)


def is_within_noise(p: Problem, c: Candidate) -> bool:
    """Whether the residuals of a law are no larger than noise that was underestimated."""
    return c.mean_square <= DOUBT.underestimated * max(p.unexplained, 1.0)
