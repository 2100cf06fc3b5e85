"""When a law is not believed yet: what it leaves, and whether it looks like a law."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from odediscovery.data.signals import control_slopes
from odediscovery.ivp.rk4 import rk4_step
from odediscovery.judge.criterion import rank
from odediscovery.judge.residual_tests import has_no_memory
from odediscovery.judge.stability import runs_away
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.prepare import Prepared
from odediscovery.runtime.arrays import Array, Mask
from odediscovery.solve.trajectories import residuals
from odediscovery.stages.values import SETTLED, Candidate

# An exponent nearer than this to a whole number, and not at it, is a sign of another law.
NEARLY, AT = 0.02, 1e-4
# Terms that are this much larger than their sum cancel; more terms than these are no law.
CANCEL, TERMS = 30.0, 3
# Runge-Kutta steps over one sample interval.
STEPS = 24
# Standard deviations that the mean square of mere noise may be above its expected value, and how
# many times as large as it was estimated noise without memory may be.
LIKELY, UNDERESTIMATED = 3.0, 3.0


def interval_squares(law: PowerSum, p: Prepared) -> Array:
    """Mean squared error of every state at the ends of intervals from measured starts [states].

    In units of the mean squared increment of each state; inf where the law blows up.
    """
    errors, increments = [], []
    for t in p.smooth.trajectories:
        x, h = t.values[:-1].copy(), np.diff(t.time)[:, None] / STEPS
        drift = control_slopes([t])

        def rhs(_: float, x: Array, drift: Array = drift) -> Array:
            return law.rhs(x) + drift

        with np.errstate(all="ignore"):
            for _ in range(STEPS):
                x = rk4_step(rhs, x, h)
        errors.append(np.where(p.data.is_control, 0.0, x - t.values[1:]))
        increments.append(np.diff(t.values, axis=0))
    spread = np.mean(np.concatenate(increments) ** 2, axis=0)
    squares = np.mean(np.concatenate(errors) ** 2, axis=0) / np.where(p.constant, 1.0, spread)
    result: Array = np.where(np.isfinite(squares), squares, np.inf)
    return result


def doubtful(law: PowerSum, p: Prepared) -> Mask:
    """Equations that leave something or do not look like a law, bool [states]."""
    found = interval_squares(law, p) > SETTLED
    w = law.exponents
    off = np.abs(w - np.round(w))
    nearly = ((off > AT) & (off < NEARLY)).any(axis=1)
    values = np.concatenate([t.values for t in p.smooth.trajectories])
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        terms = law.monomials(values)[:, None, :] * law.coefficients
        ratio = np.sqrt((terms**2).sum(axis=2).mean(axis=0) / (terms.sum(axis=2) ** 2).mean(axis=0))
    used = law.coefficients != 0
    found |= (used & nearly).any(axis=1) | (ratio > CANCEL) | (used.sum(axis=1) > TERMS)
    return found & ~p.constant


def is_convincing(p: Prepared, candidates: Sequence[Candidate]) -> bool:
    """Whether in noise the best law is short and leaves noise only.

    Of short, irregular trajectories noise is easily underestimated: what a law leaves may be
    larger, if it has no memory and so is noise all the same.
    """
    if not candidates:
        return False
    best = rank(candidates, p.samples)[0]
    if not is_short(best.law):
        return False
    if best.mean_square <= (1.0 + LIKELY * np.sqrt(2.0 / p.samples)) * max(p.unexplained, 1.0):
        return not runs_away(best.law, p.data, best.initial, p.start_errors, p.nonnegative)
    own = ~p.data.is_control
    return is_within_noise(p, best) and has_no_memory([r[:, own] for r in residuals(best.law, p.data, best.initial)])


def is_short(law: PowerSum) -> bool:
    """Whether no equation has more terms than a law has."""
    return bool((law.coefficients != 0).sum(axis=1).max() <= TERMS)


def is_within_noise(p: Prepared, c: Candidate) -> bool:
    """Whether a law leaves no more than noise that was underestimated."""
    return c.mean_square <= UNDERESTIMATED * max(p.unexplained, 1.0)
