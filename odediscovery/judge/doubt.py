"""When a law is doubted: because of its residuals, or because it does not look like a law."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from odediscovery.data.signals import control_slopes
from odediscovery.ivp.rk4 import rk4_step
from odediscovery.judge.criterion import rank
from odediscovery.judge.residual_tests import has_no_memory
from odediscovery.judge.stability import runs_away
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.problem import Problem
from odediscovery.runtime.arrays import Array, Mask
from odediscovery.runtime.thresholds import Thresholds, threshold
from odediscovery.solve.trajectories import residuals
from odediscovery.stages.values import STAGES, Candidate


@dataclass(frozen=True)
class DoubtThresholds(Thresholds):
    """What makes a law doubtful although it fits."""

    nearly_whole: float = threshold(
        0.02, "an exponent nearer than this to a whole number, and not at it, is a sign of another law"
    )
    whole: float = threshold(
        1e-4, "an exponent nearer than this is at a whole number", origin="above the accuracy of a fit to clean data"
    )
    cancelling: float = threshold(30.0, "terms so many times larger than their sum cancel", unit="ratio of rms")
    terms: int = threshold(
        3, "an equation of more terms does not look like a law", origin="the laws of the suites have at most so many"
    )
    steps: int = threshold(
        24, "Runge-Kutta steps over one sample interval", origin="error of h^4 far below `STAGES.settled`"
    )
    likely: float = threshold(
        3.0,
        "distance of the mean square of mere noise above its expected value",
        unit="standard deviations",
        origin="99.9 % of a normal distribution",
    )
    underestimated: float = threshold(
        3.0, "noise without memory may be so many times larger than it was estimated", unit="ratio of mean squares"
    )


DOUBT = DoubtThresholds()


def interval_squares(law: PowerSum, p: Problem) -> Array:
    """Mean squared error of every state at the ends of intervals from measured starts [states].

    In units of the mean squared increment of each state; inf where the law blows up.
    """
    errors, increments = [], []
    for t in p.smooth.trajectories:
        x, h = t.values[:-1].copy(), np.diff(t.time)[:, None] / DOUBT.steps
        drift = control_slopes([t])

        def rhs(_: float, x: Array, drift: Array = drift) -> Array:
            return law.rhs(x) + drift

        with np.errstate(all="ignore"):
            for _ in range(DOUBT.steps):
                x = rk4_step(rhs, x, h)
        errors.append(np.where(p.data.is_control, 0.0, x - t.values[1:]))
        increments.append(np.diff(t.values, axis=0))
    spread = np.mean(np.concatenate(increments) ** 2, axis=0)
    squares = np.mean(np.concatenate(errors) ** 2, axis=0) / np.where(p.constant, 1.0, spread)
    result: Array = np.where(np.isfinite(squares), squares, np.inf)
    return result


def doubtful(law: PowerSum, p: Problem) -> Mask:
    """Equations that leave residuals or do not look like a law, bool [states].

    Args:
        law: dimensionless.
        p: the data it was found in.
    """
    found = interval_squares(law, p) > STAGES.settled
    w = law.exponents
    off = np.abs(w - np.round(w))
    nearly = ((off > DOUBT.whole) & (off < DOUBT.nearly_whole)).any(axis=1)
    values = np.concatenate([t.values for t in p.smooth.trajectories])
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        terms = law.monomials(values)[:, None, :] * law.coefficients
        ratio = np.sqrt((terms**2).sum(axis=2).mean(axis=0) / (terms.sum(axis=2) ** 2).mean(axis=0))
    used = law.coefficients != 0
    found |= (used & nearly).any(axis=1) | (ratio > DOUBT.cancelling) | (used.sum(axis=1) > DOUBT.terms)
    return found & ~p.constant


def is_convincing(p: Problem, candidates: Sequence[Candidate]) -> bool:
    """Whether the best law for noisy data is short, and its residuals are noise.

    In short, irregular trajectories noise is easily underestimated. Residuals may then be larger than
    the estimate, as long as they have no memory.
    """
    if not candidates:
        return False
    best = rank(candidates, p.samples)[0]
    if not is_short(best.law):
        return False
    if best.mean_square <= (1.0 + DOUBT.likely * np.sqrt(2.0 / p.samples)) * max(p.unexplained, 1.0):
        return not runs_away(best.law, p.data, best.initial, p.start_errors, p.nonnegative)
    own = ~p.data.is_control
    return is_within_noise(p, best) and has_no_memory([r[:, own] for r in residuals(best.law, p.data, best.initial)])


def is_short(law: PowerSum) -> bool:
    """Whether no equation has more than `DOUBT.terms` terms."""
    return bool((law.coefficients != 0).sum(axis=1).max() <= DOUBT.terms)


def is_within_noise(p: Problem, c: Candidate) -> bool:
    """Whether the residuals of a law are no larger than noise that was underestimated."""
    return c.mean_square <= DOUBT.underestimated * max(p.unexplained, 1.0)
