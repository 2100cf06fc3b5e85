"""Families of laws from simple to rich, climbed until an equation is no longer doubtful.

    powers                 sums of products of real powers    NPU -> NAU
    functions              the same with sin, cos, exp, log among the inputs
    sums                   with 1 / (1 + b m), m a product     NPU -> NAU -> NPU -> NAU
    sums of exponentials   the same with 1 / (1 + b exp(r x))

On clean data a law of the right family leaves nothing and looks like a law; one of a poorer
family may leave nothing too, since enough real powers fit any smooth curve, but it does not look
like one. Only equations that are doubtful climb further, the others keep their terms.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from odediscovery.grow import FAMILIES, grow
from odediscovery.honesty import memoryless
from odediscovery.judge import Candidate, ranked
from odediscovery.monitor import Monitor
from odediscovery.powersum import Array, Mask, PowerSum
from odediscovery.prepare import Prepared
from odediscovery.signals import drifts
from odediscovery.solutions import residuals
from odediscovery.stability import runs_away

# Relative mean square below which a law explains clean data as well as any law can.
SETTLED = 1e-8
# An exponent nearer than this to a whole number, and not at it, is a sign of another law.
NEARLY, AT = 0.02, 1e-4
# States up to which richer families are looked through: their terms grow with the square of them.
MOST_STATES = 10
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
        drift = drifts([t])
        with np.errstate(all="ignore"):
            for _ in range(STEPS):
                k1 = law.rates(x) + drift
                k2 = law.rates(x + h * k1 / 2) + drift
                k3 = law.rates(x + h * k2 / 2) + drift
                k4 = law.rates(x + h * k3) + drift
                x = x + h * (k1 + 2 * k2 + 2 * k3 + k4) / 6
        errors.append(np.where(p.data.driven, 0.0, x - t.values[1:]))
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


def climb(p: Prepared, powers: list[PowerSum], monitor: Monitor) -> Iterator[list[PowerSum]]:
    """Laws of each family after the first, the best first, while equations are doubtful.

    Args:
        powers: laws of the first family, the best first.
    """
    best = powers[0] if powers else None
    for family in FAMILIES[1:] if (~p.constant).sum() <= MOST_STATES else ():
        doubt = ~p.constant if best is None else doubtful(best, p)
        if not doubt.any() or monitor.stopping():
            return
        monitor.stage(f"grow {family}", 1)
        laws = grow(p.data, p.noise, integer=~p.nonnegative | p.whole, family=family,
                    size=p.scale.state, known=best, doubtful=doubt, monitor=monitor)  # fmt: skip
        yield list(laws)
        better = [law for law in laws[:1] if best is None or doubtful(law, p).sum() < doubt.sum()]
        if better and better[0].inputs is None:
            best = better[0]
        elif better and not doubtful(better[0], p).any():
            return


def enough(p: Prepared, candidates: Sequence[Candidate]) -> bool:
    """Whether in noise the best law is short and leaves noise only.

    Of short, irregular trajectories noise is easily underestimated: what a law leaves may be
    larger, if it has no memory and so is noise all the same.
    """
    if not candidates:
        return False
    best = ranked(candidates, p.samples)[0]
    if not short(best.law):
        return False
    if best.mean_square <= (1.0 + LIKELY * np.sqrt(2.0 / p.samples)) * max(p.unexplained, 1.0):
        return not runs_away(best.law, p.data, best.initial, p.start_errors, p.nonnegative)
    own = ~p.data.driven
    return little(p, best) and memoryless(
        [r[:, own] for r in residuals(best.law, p.data, best.initial)]
    )


def short(law: PowerSum) -> bool:
    """Whether no equation has more terms than a law has."""
    return bool((law.coefficients != 0).sum(axis=1).max() <= TERMS)


def little(p: Prepared, c: Candidate) -> bool:
    """Whether a law leaves no more than noise that was underestimated."""
    return c.mean_square <= UNDERESTIMATED * max(p.unexplained, 1.0)
