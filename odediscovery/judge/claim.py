"""Whether equations may be called a law: tests of residuals, doubts, and which terms are significant.

Residuals should be noise: the runs of their signs and the correlation of neighbours are tested, and the law is compared
with a random walk.

A term is not significant if the 95 % interval of its coefficient contains 0, or its exponent is very uncertain:

    a +- t f standard error,    t the 97.5 % point of Student's t

with the factor f for autocorrelated residuals (`autocorrelation_inflation`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import fdtri

from odediscovery.data.series import TimeSeries, pooled
from odediscovery.judge.criterion import correction
from odediscovery.judge.notes import (
    Note,
    idle_terms_left,
    poor_fit,
    stopped,
    structured_residuals,
    turns_back,
    unexplained_states,
    walk_as_good,
    widened_errors,
)
from odediscovery.laws.power_sum import PowerSum, constant_penalty
from odediscovery.laws.records import SETTLED, Candidate, Judged, Polished, interval, residual_freedom
from odediscovery.problem.problem import Problem, increment_squares
from odediscovery.runtime.arrays import ABOVE_ZERO, Array, Mask, column_norms
from odediscovery.runtime.monitor import TIME_SPENT, Monitor
from odediscovery.solve.sensitivities import residuals
from odediscovery.stages.polish import interval_errors

# Least number of residuals of a state for a test: the normal approximation of the number of runs needs about ten of
# each sign
RESIDUAL_FEW = 20
# Distance from the expected value from which on residuals are clearly not noise [standard deviations]
CLEAR = 4.0
# Autocorrelation up to which it is not significant [standard deviations]
UNLIKELY = 2.0
# Largest autocorrelation in the factor of standard errors
LARGEST_CORRELATION = 0.99

# Grid of the logarithms of a walk's variance per step, relative to that of the noise: from a walk that
# hardly moves to one that hides the noise.
WALK_LOG_VARIANCES = np.linspace(-12.0, 16.0, 57)

# Below, residuals are [samples, states] per trajectory, nan where nothing was measured.


@dataclass(frozen=True)
class ResidualTests:
    """Results of the tests of a law's residuals."""

    # States with too few runs of one sign: index, number of runs, expected number.
    few_runs: tuple[tuple[int, int, int], ...] = ()
    correlated: tuple[tuple[int, float], ...] = ()  # states with autocorrelated residuals: index, correlation
    inflation: float = 1.0  # factor by which this widens standard errors, at least 1

    @property
    def is_noise(self) -> bool:
        """Whether no test rejects noise."""
        return not (self.few_runs or self.correlated)

    def sentences(self, states: Sequence[str], explained: bool = False) -> list[Note]:
        """Notes for the reader; `explained`: the cause of residuals that are not noise is known."""
        runs = {i: f"{found} runs of one sign where about {of} are expected" for i, found, of in self.few_runs}
        seen = runs | {i: f"neighbouring residuals correlate by {r:.2f}" for i, r in self.correlated if i not in runs}
        named = [f"{states[i]}: {text}" if len(seen) > 1 else text for i, text in seen.items()]
        notes = [structured_residuals([states[i] for i in seen], "; ".join(named))] if seen and not explained else []
        if self.inflation > 1.0:
            notes.append(widened_errors(self.inflation, self.inflation >= inflation_of(LARGEST_CORRELATION)))
        return notes


def residuals_of(p: Problem, found: Polished) -> list[Array]:
    """Residuals of a fitted law, 0 for states that never change: theirs are rounding errors, all alike."""
    return [np.where(p.constant, 0.0, left) for left in residuals(found.law, p.data, found.initial)]


def examine_residuals(residuals: Sequence[Array]) -> ResidualTests:
    """All tests of a law's residuals."""
    return ResidualTests(
        tuple(too_few_runs(residuals)), tuple(autocorrelated(residuals)), autocorrelation_inflation(residuals)
    )


def runs(residuals: Sequence[Array]) -> tuple[Array, Array, Array]:
    """Number of runs of one sign in the residuals of every state, its expected value and standard deviation.

        expected  1 + 2 a b / n,    variance  (m - 1) (m - 2) / (n - 1)  with  m = expected

    for a residuals above 0, b below and n = a + b; summed over trajectories.

    Source: Wald and Wolfowitz, Annals of Mathematical Statistics 11 (1940).

    >>> slow = np.sin(np.linspace(0.0, 6.0, 50))[:, None]
    >>> found, expected, spread = runs([slow])
    >>> int(found[0]), round(float(expected[0]), 1)
    (2, 25.5)
    """
    found, expected, variance = np.zeros((3, residuals[0].shape[1]))
    for r in residuals:
        for i, column in enumerate(r.T):
            above = column[np.isfinite(column) & (column != 0)] > 0
            n, a = len(above), int(above.sum())
            if n < 2:
                continue
            m = 1.0 + 2.0 * a * (n - a) / n
            found[i] += 1 + np.count_nonzero(above[1:] != above[:-1])
            expected[i] += m
            variance[i] += (m - 1.0) * (m - 2.0) / (n - 1.0)
    return found, expected, np.sqrt(np.maximum(variance, 0.0))


def too_few_runs(residuals: Sequence[Array]) -> list[tuple[int, int, int]]:
    """States whose residuals have significantly too few runs of one sign: index, runs and expected number."""
    counts = sum(np.isfinite(r).sum(axis=0) for r in residuals)
    found, expected, spread = runs(residuals)
    clear = (counts >= RESIDUAL_FEW) & (found < expected - CLEAR * spread) & (spread > 0)
    return [(int(i), int(found[i]), round(expected[i])) for i in np.flatnonzero(clear)]


def correlations(residuals: Sequence[Array]) -> tuple[Array, Array]:
    """Correlation of neighbouring residuals of every state, and the number of pairs.

        r = sum e_t e_{t+1} / sum e_t^2,    standard deviation 1 / sqrt(pairs) for noise

    Source: Durbin and Watson, Biometrika 37 (1950).

    >>> slow = np.sin(np.linspace(0.0, 6.0, 50))[:, None]
    >>> bool(correlations([slow])[0][0] > 0.9)
    True
    """
    with np.errstate(all="ignore"):  # residuals of a law that blows up are not finite
        products = sum(np.nansum(r[1:] * r[:-1], axis=0) for r in residuals)
        pairs = sum(np.isfinite(r[1:] * r[:-1]).sum(axis=0) for r in residuals)
        squares = sum(np.nansum(r**2, axis=0) for r in residuals)
        return products / np.maximum(squares, ABOVE_ZERO), np.asarray(pairs)


def correlated_beyond(residuals: Sequence[Array], deviations: float) -> tuple[Array, Mask, Mask]:
    """`correlations`, which of them exceed 0 by `deviations` standard deviations, and which have enough pairs."""
    r, pairs = correlations(residuals)
    return r, np.asarray(r > deviations / np.sqrt(np.maximum(pairs, 1))), np.asarray(pairs >= RESIDUAL_FEW)


def memory(residuals: Sequence[Array]) -> Array:
    """The autocorrelation of the residuals of every state, 0 where it is not significant [states]."""
    r, clear, _ = correlated_beyond(residuals, UNLIKELY)
    # The bound matters for walks, whose steps are noise: their samples carry hardly any information.
    return np.where(clear, np.minimum(r, LARGEST_CORRELATION), 0.0)


def inflation_of(r: float) -> float:
    """The factor by which an autocorrelation r widens standard errors."""
    return float(np.sqrt((1.0 + r) / (1.0 - r)))


def autocorrelation_inflation(residuals: Sequence[Array]) -> float:
    """The factor by which autocorrelated residuals widen standard errors, at least 1.

        sqrt((1 + r) / (1 - r)),  r the largest correlation of a state's neighbouring residuals

    N residuals, each r times the last one plus new noise, carry as much information as
    N (1 - r) / (1 + r) independent ones. An r that is not significant counts as 0.

    Source: Bartlett, Journal of the Royal Statistical Society 98 (1935).

    >>> random = np.random.default_rng(0)
    >>> noise = random.standard_normal((4001, 1))
    >>> round(autocorrelation_inflation([noise]), 1), round(autocorrelation_inflation([noise[1:] + noise[:-1]]), 1)
    (1.0, 1.7)
    """
    return inflation_of(float(np.max(memory(residuals), initial=0.0)))


def autocorrelated(residuals: Sequence[Array]) -> list[tuple[int, float]]:
    """States whose residuals are significantly autocorrelated: index and correlation."""
    r, clear, enough = correlated_beyond(residuals, CLEAR)
    return [(int(i), float(r[i])) for i in np.flatnonzero(clear & enough)]


def has_no_memory(residuals: Sequence[Array]) -> bool:
    """Whether every state has enough residuals and none are autocorrelated.

    >>> random, t = np.random.default_rng(0), np.linspace(0.0, 20.0, 100)
    >>> noise, wave = random.standard_normal((100, 1)), np.sin(t)[:, None]
    >>> has_no_memory([noise]), has_no_memory([noise + wave]), has_no_memory([noise[:10]])
    (True, False, False)
    """
    r, correlate, enough = correlated_beyond(residuals, UNLIKELY)
    return bool((np.isfinite(r) & enough & ~correlate).all())


def walk_misfit(series: TimeSeries, relative_sigma: Sequence[Array] | None = None) -> Array:
    """The misfit of a random walk observed with noise, for every state, on the scale of a law's misfit.

        x_{k+1} = x_k + sqrt(q dt) s u_k,    y_k = x_k + s shape_k e_k,    u, e ~ N(0, 1)
        misfit  = min over q of  n ln(mean v_k^2 / F_k) + n mean ln(F_k / shape_k^2)

    with the errors v_k of a Kalman filter's forecasts and their variances s^2 F_k; the first value
    of each trajectory, which has no forecast, counts like the mean of the others. It is the
    counterpart of n ln(SSR / n): equations with a larger misfit are not a law. nan where nothing was
    measured; `relative_sigma` is the noise of each sample relative to the others (default: equal).

    Source: Harvey, Forecasting, Structural Time Series Models and the Kalman Filter (1989), ch. 4.

    >>> t, random = np.arange(50.0), np.random.default_rng(0)
    >>> noise = TimeSeries.from_arrays(t, random.standard_normal(50))
    >>> walk = TimeSeries.from_arrays(t, np.cumsum(random.standard_normal(50)))
    >>> noise_variance = np.exp(walk_misfit(noise) / 50)  # a walk that hardly moves
    >>> bool(0.5 < noise_variance[0] < 1.5), bool(walk_misfit(walk)[0] < 30.0)
    (True, True)
    """
    q = np.exp(WALK_LOG_VARIANCES)
    step = float(np.median(np.concatenate([np.diff(t.time) for t in series.trajectories])))
    states = len(series.states)
    squares, logs = np.zeros((states, len(q))), np.zeros((states, len(q)))
    counts, forecasts = np.zeros(states), np.zeros(states)
    for i, t in enumerate(series.trajectories):
        own = np.ones_like(t.values) if relative_sigma is None else relative_sigma[i]
        seen, variance = np.isfinite(t.values), own**2
        gaps = np.diff(t.time, prepend=t.time[0]) / step
        mean, spread = np.full((states, 1), np.nan), np.zeros((states, len(q)))
        for y, there, r, gap in zip(np.nan_to_num(t.values), seen, variance, gaps, strict=True):
            spread = spread + q * gap
            first = there & np.isnan(mean[:, 0])
            f = spread + r[:, None]
            judged = (there & ~first)[:, None]
            error = np.where(judged, y[:, None] - mean, 0.0)
            squares += error**2 / f
            logs += np.where(judged, np.log(f / r[:, None]), 0.0)
            forecasts += judged[:, 0]
            gain = np.where(there[:, None], spread / f, 0.0)
            mean = np.where(first[:, None], y[:, None], mean + gain * error)
            spread = np.where(first[:, None], r[:, None], spread * (1.0 - gain))
        counts += seen.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        each = np.log(squares / forecasts[:, None]) + logs / forecasts[:, None]
    return np.asarray(np.where(forecasts > 0, counts * each.min(axis=1), np.nan))


def is_walk_as_good(p: Problem, squares: Array, counts: Array, price: float, starts: int) -> bool:
    """Whether a random walk explains the data better than a law does.

    Both are compared by misfit and penalty: the law by its weighted `squares`, observed values `counts` [states] and
    `price`; the walk is charged for one variance per state, and for the same fitted `starts`.
    """
    seen = (counts > 0) & ~p.constant
    n, samples = counts[seen], float(counts.sum())
    with np.errstate(divide="ignore"):
        law = float(np.sum(n * np.log(squares[seen] / n))) + price
    fitted = int(seen.sum())
    walk = walk_misfit(p.data, p.relative_sigma)[seen].sum()
    walk += fitted * constant_penalty(len(counts), samples) * correction(samples, fitted + starts)
    return bool(walk < law)


# An exponent nearer than this to a whole number counts as whole
WHOLE_POWER = 1e-4
# An equation of more terms must need each of them, all with whole powers; the laws of the suites have at most this many
TERMS = 3
# Terms and sums of an equation together, above which it is doubted
CONSTANTS = 5
# Squared t statistic from which on a term is needed
NEEDED = 100.0
# Residuals below this are the last digits of numbers and solvers [variance of the increments]
LAST_DIGITS = 1e-16
# Distance of the mean square of mere noise above its expected value [standard deviations]
LIKELY = 3.0
# Noise without autocorrelation may exceed its estimate by this factor [ratio of mean squares]
UNDERESTIMATED = 3.0


def interval_squares(law: PowerSum, p: Problem) -> Array:
    """Mean squared error of every state at the ends of intervals from measured starts [states].

    In units of the mean squared increment of each state; inf where the law blows up.
    """
    return _relative_squares(interval_errors(law, p), p)


def _relative_squares(errors: Sequence[Array], p: Problem) -> Array:
    with np.errstate(over="ignore", invalid="ignore"):
        squares = np.mean(np.concatenate(errors) ** 2, axis=0) / increment_squares(p)
    return np.asarray(np.where(np.isfinite(squares), squares, np.inf))


def is_explained(law: PowerSum, p: Problem) -> Mask:
    """Whether the residuals of an equation over intervals are integration error or noise, bool [states].

    expected^2 = sigma_i^2 + sum_j (x_i(t + h; x + sigma_j) - x_i(t + h; x))^2
    """
    errors = interval_errors(law, p)
    settled: Mask = _relative_squares(errors, p) <= SETTLED
    if settled.all():
        return settled
    sigma = p.sigma
    expected = [np.broadcast_to(sigma**2, e.shape) for e in errors]
    for j in np.flatnonzero(~p.data.is_control):
        moved = interval_errors(law, p, sigma * (np.arange(len(sigma)) == j))
        with np.errstate(all="ignore"):  # a law that blows up explains nothing
            expected = [v + (m - e) ** 2 for v, m, e in zip(expected, moved, errors, strict=True)]
    with np.errstate(all="ignore"):
        relative = [e / np.sqrt(v) for e, v in zip(errors, expected, strict=True)]
    return np.asarray(settled | (np.mean(np.concatenate(relative) ** 2, axis=0) <= UNDERESTIMATED))


def constant_errors(law: PowerSum, p: Problem) -> tuple[Array, Array]:
    """Standard errors that coefficients and exponents would have if fitted to intervals.

        covariance = (J' J)^-1,    J = d (errors / (sqrt(2) sigma)) / d (coefficients, exponents)

    by finite differences, with the noise of the data as sigma; 0 where a coefficient or exponent is 0.
    """
    sigma = np.sqrt(2.0) * p.sigma
    a, w, *inner = law.constants
    step = np.sqrt(np.finfo(float).eps)

    def weighted(a: Array, w: Array) -> Array:
        errors = np.concatenate(interval_errors(law.with_constants(a, w, *inner), p))
        return np.asarray((errors / sigma)[:, ~p.constant].ravel())

    here, columns = weighted(a, w), []
    for values, is_exponent in ((a, False), (w, True)):
        for place in map(tuple, np.argwhere(values)):
            moved, h = values.copy(), step * abs(values[place])
            moved[place] += h
            columns.append((weighted(*((a, moved) if is_exponent else (moved, w))) - here) / h)
    jacobian = np.nan_to_num(np.stack(columns, axis=1), posinf=0.0, neginf=0.0)
    size = np.maximum(column_norms(jacobian), np.finfo(float).tiny)
    unit = jacobian / size
    with np.errstate(over="ignore"):  # the error of a constant without effect is infinite
        # Least eigenvalue that counts [the largest]
        errors = np.sqrt(np.diag(np.linalg.pinv(unit.T @ unit, rcond=1e-12, hermitian=True))) / size
    of_a, of_w = np.zeros(a.shape), np.zeros(w.shape)
    of_a[a != 0], of_w[w != 0] = np.split(errors, [np.count_nonzero(a)])
    return of_a, of_w


def doubtful(law: PowerSum, p: Problem) -> Mask:
    """Equations of a dimensionless law that do not explain the data or do not look like a law, bool [states]."""
    left = ~is_explained(law, p)
    return (left if left.all() else left | unlike_a_law(law, p)) & ~p.constant


def unlike_a_law(law: PowerSum, p: Problem) -> Mask:
    """Equations that do not look like a law, bool [states].

    A law has no exponents that are nearly whole, no poles, no terms that cancel, and few terms, unless their
    powers are whole and the data need each of them: an approximation gains a little with every term,
    a law nearly everything with the last. A short equation that leaves nothing but the last digits
    approximates nothing, unless its constants need more digits than the data have.
    """
    w = law.exponents
    off = np.abs(w - np.round(w))
    # An exponent nearer than this to a whole number, but not equal to it, indicates another law
    nearly = (off > WHOLE_POWER) & (off < 0.02)
    used, (terms, length) = law.coefficients != 0, lengths(law)
    many = (terms > TERMS) | (length > CONSTANTS)
    cancel = has_cancelling_terms(law, p)
    if nearly.any() or many.any() or cancel.any():
        of_a, of_w = constant_errors(law, p)
        nearly &= off > LIKELY * of_w
        with np.errstate(divide="ignore", invalid="ignore"):
            each = (law.coefficients / of_a) ** 2
        gain, digits = np.where(used, each, np.inf).min(axis=1), np.where(used, each, 0.0).max(axis=1)
        samples = sum(len(t.values) for t in p.smooth.trajectories)
        share = gain * 2.0 * p.sigma**2 / increment_squares(p) / samples
        whole = ~(used & (off > 0).any(axis=1)).any(axis=1)
        # Least share of the increments of clean data that a needed term explains [`SETTLED`, or the residuals of
        # a law with products of two states]
        small = share < 1000.0 * _least_left(law, p)
        many &= ~whole | (gain < NEEDED) | small
        exact = (interval_squares(law, p) < LAST_DIGITS) & (length <= CONSTANTS + 1) & (digits < 1.0 / LAST_DIGITS)
        many, cancel = many & ~exact, cancel & ~exact
    # A rate is infinite where a state with a negative power passes through zero.
    poles = (w[:, : law.n_states][:, ~p.nonnegative] < 0.0).any(axis=1)
    return np.asarray((used & (poles | nearly.any(axis=1))).any(axis=1) | cancel | many)


def _least_left(law: PowerSum, p: Problem) -> Array:
    """Least residuals that approximations with these terms would have, in units of `interval_squares` [states].

    The residuals of a series with higher powers may be arbitrarily small. Products of two states would begin a
    series with large residuals, so there the law's own residuals count.
    """
    degrees = np.where(law.coefficients != 0, np.abs(law.exponents).sum(axis=1), 0.0).max(axis=1, initial=0.0)
    rounding = 2.0 * p.floor**2 / increment_squares(p)
    left = np.clip(interval_squares(law, p), np.minimum(rounding, SETTLED), SETTLED)
    # Highest power of a law that is not the beginning of a series
    return np.asarray(np.where((law.features is None) & (degrees <= 2.0), left, SETTLED))


def has_cancelling_terms(law: PowerSum, p: Problem) -> Mask:
    """Which equations have terms many times larger than their sum, bool [states]."""
    values = np.concatenate([t.values for t in p.smooth.trajectories])
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        terms = law.monomials(values)[:, None, :] * law.coefficients
        ratio = np.sqrt((terms**2).sum(axis=2).mean(axis=0) / (terms.sum(axis=2) ** 2).mean(axis=0))
    # Terms cancel above this ratio to their sum [ratio of rms]
    return np.asarray(ratio > 30.0)


def leaves_noise(p: Problem, best: Candidate) -> bool:
    """Whether the residuals of a law on noisy data are noise.

    In short, irregular trajectories noise is easily underestimated. Residuals may then exceed the
    estimate, unless they are autocorrelated.
    """
    if best.mean_square <= (1.0 + LIKELY * np.sqrt(2.0 / p.samples)) * max(p.unexplained, 1.0):
        return True
    own = ~p.data.is_control
    return is_within_noise(p, best) and has_no_memory([r[:, own] for r in residuals(best.law, p.data, best.initial)])


def needs_every_term(found: Polished) -> bool:
    """Whether a law has whole powers only, needs each of its terms, and has few of them, none of a high degree.

    Many terms may stand for real powers; a high degree indicates the series of another law.
    """
    a, w = found.law.coefficients, found.law.exponents
    few = (a != 0).sum(axis=1).max() <= CONSTANTS
    if found.law.features is None:
        # Highest power of a polynomial law that is accepted in noise; the series of a sine reaches the fifth and
        # higher ones
        few = few and np.abs(w).sum(axis=1).max(initial=0.0) <= 3.0
    needed = a**2 >= NEEDED * found.errors.coefficients**2
    return bool(few and np.array_equal(w, np.round(w)) and needed[a != 0].all())


def lengths(law: PowerSum) -> tuple[Array, Array]:
    """Numbers of terms, and of terms and sums together, of each equation."""
    used = law.coefficients != 0
    terms = used.sum(axis=1)
    return terms, terms + (used @ (law.exponents[:, law.inputs.simple :] != 0)).sum(axis=1)


def is_short(law: PowerSum) -> bool:
    """Whether no equation has more than `TERMS` terms, or `CONSTANTS` terms and sums."""
    terms, length = lengths(law)
    return bool(terms.max() <= TERMS and length.max() <= CONSTANTS)


def is_within_noise(p: Problem, c: Candidate) -> bool:
    """Whether the residuals of a law are no larger than underestimated noise."""
    return c.mean_square <= UNDERESTIMATED * max(p.unexplained, 1.0)


# Least share of the variance that a law must explain, of all states and of each
EXPLAINED = 0.5
# Least share where the residuals are clearly not noise
EXPLAINED_STRUCTURED = 0.95


@dataclass(frozen=True, eq=False)
class Claim:
    """What equations explain, and what they must explain to be claimed as a law."""

    explained: float  # share of the variance of all states together
    least: float = EXPLAINED  # least value of `explained` for a claim
    each: Array | None = None  # share of the variance of every state [states]; nan where nothing varies or is measured
    least_each: Array | float = -np.inf  # least values of `each` for a claim [states]
    walk: bool = False  # whether a random walk explains the data better
    idle: Sequence[str] = ()  # names of the terms that are not significant

    def outcome(self, monitor: Monitor, states: Sequence[str]) -> tuple[str, list[Note]]:
        """How the fit ended, and why; equations that explain too little are no law, even after a stop."""
        found, notes = "converged", list[Note]()
        reason = monitor.stopping()
        # The default time of a fit is not a limit that the user set.
        if reason and reason != TIME_SPENT:
            found = "stopped"
            notes.append(stopped(reason, monitor.seconds()))
        poor = [] if self.each is None else np.flatnonzero(self.each < self.least_each).tolist()
        if not self.explained >= self.least:
            notes.append(poor_fit(self.explained, self.least))
        elif self.each is not None and poor:
            notes.append(unexplained_states([states[i] for i in poor], [float(self.each[i]) for i in poor]))
        elif self.walk:
            notes.append(walk_as_good())
        elif self.idle:
            notes.append(idle_terms_left(self.idle))
        else:
            return found, notes
        return "poor-fit", notes


def shares_explained(series: TimeSeries, squares: Array) -> Array:
    """1 - SSR / sum (x - mean x)^2 of every state [states], in the user's units; nan where nothing varies."""
    values = pooled(series)
    seen = np.isfinite(values).any(axis=0)
    mean = np.where(seen, np.nan_to_num(values).sum(axis=0) / np.isfinite(values).sum(axis=0).clip(1), np.nan)
    spread = np.nansum((values - mean) ** 2, axis=0)
    # Rounding of a large constant number is not variance.
    moves = seen & (spread > len(values) * (1e-12 * np.nan_to_num(np.abs(mean))) ** 2)
    return _share(squares, spread, moves)


def _share(squares: Array, of: Array, where: Mask, otherwise: float = np.nan) -> Array:
    """1 - squares / of [states] where a mask says so."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(where, 1.0 - squares / of, otherwise))


def least_shares(p: Problem, series: TimeSeries, tests: ResidualTests) -> Array:
    """The share of the variance of every state that equations must explain [states].

    Half of what is not noise; nearly all of it where the residuals of the state are clearly not noise.
    """
    own = ~p.data.is_control
    values = pooled(p.data)[:, own]
    variance = np.array([float(np.nanvar(column)) if np.isfinite(column).any() else 0.0 for column in values.T])
    possible = _share(p.sigma[own] ** 2, variance, variance > 0.0, 0.0).clip(0.0)
    structured: Mask = np.zeros(series.n_states, dtype=bool)
    structured[[*(i for i, *_ in tests.few_runs), *(i for i, _ in tests.correlated)]] = True
    least = np.where(structured, EXPLAINED_STRUCTURED, EXPLAINED) * possible
    # With a smaller share that is not noise, there is nothing for a law to explain [share of the variance]
    return np.where(possible < 0.1, -np.inf, least)


def turning_state(p: Problem) -> list[Note]:
    """A note if the only state clearly rises and falls within a trajectory and nothing measured acts on it."""
    if len(p.data.is_control) != 1 or p.data.is_control.any() or not p.measured.all():
        return []
    noise = float(p.sigma[0])
    for run in p.data.trajectories:
        x = run.values[np.isfinite(run.values[:, 0]), 0]
        if len(x):
            rise, fall = (x - np.minimum.accumulate(x)).max(), (np.maximum.accumulate(x) - x).max()
            # A state that rises and falls by more than this turns back [standard deviation of the noise]; ten thousand
            # samples of white noise stay below
            if min(rise, fall) > max(10.0 * noise, 0.1 * float(np.ptp(x))):
                return [turns_back(p.data.states[0])]
    return []


def share_in_pieces(p: Problem, found: Polished) -> tuple[float, Array]:
    """Share of the variance within pieces that is explained, of all states and of each; fitted starts explain
    the variance between pieces."""
    own = ~p.data.is_control
    parts = [(t.values - np.nanmean(t.values, axis=0))[:, own] ** 2 for t in p.data.trajectories]
    within = np.sum([np.nansum(part, axis=0) for part in parts], axis=0)
    squares = found.plain_squares[own]
    total = within.sum()
    return (float(1.0 - squares.sum() / total) if total > 0 else 1.0), _share(squares, within, within > 0.0)


def idle_terms(found: Polished, inflation: float) -> list[tuple[int, int]]:
    """Equation and monomial of fitted terms that are not significant, the least certain first; `inflation` is the
    factor of errors for autocorrelated residuals."""
    # With a larger standard error of its exponent, a term is undetermined
    undetermined: Mask = np.any((inflation * found.errors.exponents > 1.0) & found.free[1], axis=1)
    return [at for at in weak_terms(found) if undetermined[at[1]] or _may_be_zero(found, 0, at, inflation)]


def _may_be_zero(found: Polished, kind: int, at: tuple[int, int], inflation: float) -> bool:
    """Whether the interval of a constant, `found.law.constants[kind][at]`, contains 0."""
    value, error = float(found.law.constants[kind][at]), inflation * float(found.errors.constants[kind][at])
    ends = interval(value, error, residual_freedom(found))
    return ends is not None and ends[0] <= 0.0 <= ends[1]


def has_idle_terms(row: Judged) -> bool:
    """Whether a law has terms that are not significant, unless it has a name and its constants are significant."""
    return not row.origin.acts and bool(idle_terms(row.polished, 1.0))


def idle_constants(found: Polished, inflation: float) -> list[tuple[int, int]]:
    """Sum and monomial of fitted constants inside sums that are not significant, the least certain first."""
    value, error = found.law.constants[2], inflation * found.errors.constants[2]
    places = [(int(m), int(k)) for m, k in np.argwhere(found.free[2])]
    weak = [place for place in places if _may_be_zero(found, 2, place, inflation)]
    return sorted(weak, key=lambda place: float(abs(value[place]) / error[place]))


def is_needed(found: Polished, without: Polished, floor: Array, inflation: float) -> bool:
    """Whether the fit is significantly worse without a constant, although its own interval may contain 0.

        sum_i n_i ln(S_i' / S_i) > N ln(1 + F / nu),    F of 1 and nu degrees of freedom

    with nu degrees of freedom left and the `floor` of noise, rounding and integration in S [states]. Intervals assume
    that a law is linear in its constants; a fit without the constant is more reliable.
    """
    n, freedom = found.counts, residual_freedom(found)
    seen = n > 0
    ratio = (without.squares[seen] / n[seen] + floor[seen] ** 2) / (found.squares[seen] / n[seen] + floor[seen] ** 2)
    rise = float(n[seen] @ np.log(ratio)) / inflation**2
    # Confidence of the test of the two fits [probability]
    return bool(rise > n.sum() * np.log1p(fdtri(1, freedom, 0.99) / freedom))


def weak_terms(found: Polished) -> list[tuple[int, int]]:
    """Equation and monomial of all fitted terms, those with the least certain coefficients first."""
    if found.law.stoichiometry is not None:
        return []
    value, error = np.abs(found.law.coefficients), found.errors.coefficients
    certain = np.divide(value, error, out=np.full(value.shape, np.inf), where=error > 0.0)
    places = [(int(i), int(j)) for i, j in np.argwhere(found.free[0])]
    return sorted(places, key=lambda place: float(certain[place]))
