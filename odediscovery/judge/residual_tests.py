"""Are the residuals of a law noise? Tests of their signs and of neighbours, and a walk as a rival."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from odediscovery.data.series import TimeSeries
from odediscovery.judge.criterion import correction
from odediscovery.judge.notes import Note, structured_residuals, widened_errors
from odediscovery.laws.power_sum import constant_penalty
from odediscovery.problem.problem import Problem
from odediscovery.runtime.arrays import ABOVE_ZERO, Array


@dataclass(frozen=True)
class ResidualThresholds:
    """When residuals are no longer taken for noise."""

    # residuals of a state from which on it is tested; the normal approximation of the number of runs needs about 10
    # of each sign
    few: int = 20
    # Distance from the expected value from which on residuals are clearly no noise [standard deviations]
    clear: float = 4.0
    unlikely: float = 2.0  # correlation of neighbours up to which it counts as none [standard deviations]
    largest_correlation: float = 0.99  # largest correlation of neighbours that widens standard errors


RESIDUALS = ResidualThresholds()

# Grid of the logarithms of a walk's variance a step, relative to that of the noise: from a walk that
# hardly moves to one in which the noise is not seen.
WALK_LOG_VARIANCES = np.linspace(-12.0, 16.0, 57)


@dataclass(frozen=True)
class ResidualTests:
    """What the tests say about the residuals of a law.

    Args:
        few_runs: states with too few runs of one sign: index, number of runs, expected number.
        correlated: states whose neighbouring residuals correlate: index, correlation.
        inflation: factor by which that widens standard errors, at least 1.
    """

    few_runs: tuple[tuple[int, int, int], ...] = ()
    correlated: tuple[tuple[int, float], ...] = ()
    inflation: float = 1.0

    @property
    def is_noise(self) -> bool:
        """Whether nothing speaks against noise."""
        return not (self.few_runs or self.correlated)

    def sentences(self, states: Sequence[str], explained: bool = False) -> list[Note]:
        """What the reader should know.

        Args:
            states: their names.
            explained: whether it is known why residuals are no noise.
        """
        seen = {
            i: f"{found} runs of one sign where about {expected} are expected" for i, found, expected in self.few_runs
        }
        seen |= {i: f"neighbouring residuals correlate by {r:.2f}" for i, r in self.correlated if i not in seen}
        named = [f"{states[i]}: {text}" if len(seen) > 1 else text for i, text in seen.items()]
        notes = [structured_residuals([states[i] for i in seen], named)] if seen and not explained else []
        if self.inflation > 1.0:
            notes.append(widened_errors(self.inflation, self.inflation >= largest_inflation()))
        return notes


def largest_inflation() -> float:
    """The largest factor by which standard errors are widened."""
    r = RESIDUALS.largest_correlation
    return float(np.sqrt((1.0 + r) / (1.0 - r)))


def examine_residuals(residuals: Sequence[Array]) -> ResidualTests:
    """All tests of the residuals of a law, [samples, states] a trajectory, nan where unmeasured."""
    return ResidualTests(
        tuple(too_few_runs(residuals)), tuple(autocorrelated(residuals)), autocorrelation_inflation(residuals)
    )


def runs(residuals: Sequence[Array]) -> tuple[Array, Array, Array]:
    """How many runs of one sign the residuals of every state have, and should have.

        expected  1 + 2 a b / n,    variance  (m - 1) (m - 2) / (n - 1)  with  m = expected

    for a residuals above 0, b below and n = a + b; summed over trajectories.

    Args:
        residuals: [samples, states] a trajectory, nan where nothing was measured.

    Returns:
        Number of runs, expected number and its standard deviation, all [states].

    Source: Wald and Wolfowitz, Annals of Mathematical Statistics 11 (1940).

    >>> slow = np.sin(np.linspace(0.0, 6.0, 50))[:, None]
    >>> found, expected, spread = runs([slow])
    >>> int(found[0]), round(float(expected[0]), 1)
    (2, 25.5)
    """
    states = residuals[0].shape[1]
    found, expected, variance = np.zeros(states), np.zeros(states), np.zeros(states)
    for r in residuals:
        for i in range(states):
            above = r[np.isfinite(r[:, i]) & (r[:, i] != 0), i] > 0
            n, a = len(above), int(above.sum())
            if n < 2:
                continue
            m = 1.0 + 2.0 * a * (n - a) / n
            found[i] += 1 + np.count_nonzero(above[1:] != above[:-1])
            expected[i] += m
            variance[i] += (m - 1.0) * (m - 2.0) / (n - 1.0)
    return found, expected, np.sqrt(np.maximum(variance, 0.0))


def correlations(residuals: Sequence[Array]) -> tuple[Array, Array]:
    """Correlation of neighbouring residuals of every state, and how many pairs it is from.

        r = sum e_t e_{t+1} / sum e_t^2,    standard deviation 1 / sqrt(pairs) for noise

    Args:
        residuals: [samples, states] a trajectory, nan where nothing was measured.

    Source: Durbin and Watson, Biometrika 37 (1950).

    >>> slow = np.sin(np.linspace(0.0, 6.0, 50))[:, None]
    >>> bool(correlations([slow])[0][0] > 0.9)
    True
    """
    with np.errstate(all="ignore"):  # of a law that runs away nothing is known
        products = sum(np.nansum(r[1:] * r[:-1], axis=0) for r in residuals)
        pairs = sum(np.isfinite(r[1:] * r[:-1]).sum(axis=0) for r in residuals)
        squares = sum(np.nansum(r**2, axis=0) for r in residuals)
        return products / np.maximum(squares, ABOVE_ZERO), np.asarray(pairs)


def memory(residuals: Sequence[Array]) -> Array:
    """The correlation of neighbouring residuals of every state, 0 where chance explains it [states].

    Args:
        residuals: [samples, states] a trajectory, nan where nothing was measured.
    """
    r, pairs = correlations(residuals)
    clear = r > RESIDUALS.unlikely / np.sqrt(np.maximum(pairs, 1))
    # Hardly anything is known of a walk: its steps, not it, would be noise.
    return np.where(clear, np.minimum(r, RESIDUALS.largest_correlation), 0.0)


def autocorrelation_inflation(residuals: Sequence[Array]) -> float:
    """The factor by which memory in the residuals widens standard errors, at least 1.

        sqrt((1 + r) / (1 - r)),  r the largest correlation of a state's neighbouring residuals

    N residuals, each r times the last one plus new noise, carry as much information as
    N (1 - r) / (1 + r) without memory. An r that chance explains counts as 0.

    Args:
        residuals: [samples, states] a trajectory, nan where nothing was measured.

    Source: Bartlett, Journal of the Royal Statistical Society 98 (1935).

    >>> random = np.random.default_rng(0)
    >>> noise = random.standard_normal((4001, 1))
    >>> round(autocorrelation_inflation([noise]), 1), round(autocorrelation_inflation([noise[1:] + noise[:-1]]), 1)
    (1.0, 1.7)
    """
    largest = float(np.max(memory(residuals), initial=0.0))
    return float(np.sqrt((1.0 + largest) / (1.0 - largest)))


def autocorrelated(residuals: Sequence[Array]) -> list[tuple[int, float]]:
    """States whose neighbouring residuals clearly correlate: index and correlation.

    Args:
        residuals: [samples, states] a trajectory, nan where nothing was measured.
    """
    r, pairs = correlations(residuals)
    clear = (pairs >= RESIDUALS.few) & (r > RESIDUALS.clear / np.sqrt(np.maximum(pairs, 1)))
    return [(int(i), float(r[i])) for i in np.flatnonzero(clear)]


def has_no_memory(residuals: Sequence[Array]) -> bool:
    """Whether every state has enough residuals, and neighbouring ones do not correlate.

    >>> random, t = np.random.default_rng(0), np.linspace(0.0, 20.0, 100)
    >>> noise, wave = random.standard_normal((100, 1)), np.sin(t)[:, None]
    >>> has_no_memory([noise]), has_no_memory([noise + wave]), has_no_memory([noise[:10]])
    (True, False, False)
    """
    r, pairs = correlations(residuals)
    return bool(np.all((pairs >= RESIDUALS.few) & (r < RESIDUALS.unlikely / np.sqrt(np.maximum(pairs, 1)))))


def too_few_runs(residuals: Sequence[Array]) -> list[tuple[int, int, int]]:
    """States whose residuals have clearly too few runs of one sign for noise.

    Args:
        residuals: [samples, states] a trajectory, nan where nothing was measured.

    Returns:
        Index of the state, number of runs and expected number.
    """
    counts = sum(np.isfinite(r).sum(axis=0) for r in residuals)
    found, expected, spread = runs(residuals)
    clear = (counts >= RESIDUALS.few) & (found < expected - RESIDUALS.clear * spread) & (spread > 0)
    return [(int(i), int(found[i]), round(expected[i])) for i in np.flatnonzero(clear)]


def walk_misfit(series: TimeSeries, relative_sigma: Sequence[Array] | None = None) -> Array:
    """The misfit of a random walk seen through noise, for every state, on the scale of a law's misfit.

        x_{k+1} = x_k + sqrt(q dt) s u_k,    y_k = x_k + s shape_k e_k,    u, e ~ N(0, 1)
        misfit  = min over q of  n ln(mean v_k^2 / F_k) + n mean ln(F_k / shape_k^2)

    with the errors v_k of a Kalman filter's forecasts and their variances s^2 F_k; the first value
    of each trajectory, which nothing forecasts, counts like the mean of the others. It is the
    counterpart of n ln(SSR / n): a walk knows no law, so a law whose misfit is larger is none.

    Args:
        relative_sigma: noise of each sample relative to the others, [samples, states] a trajectory
            (default: all alike).

    Returns:
        [states], nan where nothing was measured.

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
    best: Array = np.where(forecasts > 0, counts * each.min(axis=1), np.nan)
    return best


def is_walk_as_good(p: Problem, squares: Array, counts: Array, price: float, starts: int) -> bool:
    """Whether a random walk, which knows no law, explains the data as well as a law does.

    Both are compared by misfit and penalty; the walk pays for one variance a state.

    Args:
        squares: of the weighted residuals of the law [states].
        counts: observed values [states].
        price: penalty of the law, as it was chosen.
        starts: number of fitted start values.
    """
    seen = (counts > 0) & ~p.constant
    n, samples = counts[seen], float(counts.sum())
    with np.errstate(divide="ignore"):
        law = float(np.sum(n * np.log(squares[seen] / n))) + price
    fitted = int(seen.sum())
    walk = walk_misfit(p.data, p.relative_sigma)[seen].sum()
    walk += fitted * constant_penalty(len(counts), samples) * correction(samples, fitted + starts)
    return bool(walk < law)
