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

from collections.abc import Iterator

import numpy as np

from odediscovery.grow import FAMILIES, grow
from odediscovery.monitor import Monitor
from odediscovery.powersum import Array, Mask, PowerSum
from odediscovery.prepare import Prepared
from odediscovery.signals import drifts

# Relative mean square below which a law explains clean data as well as any law can.
SETTLED = 1e-8
# An exponent nearer than this to a whole number, and not at it, is a sign of another law.
NEARLY, AT = 0.02, 1e-4
# Terms that are this much larger than their sum cancel; more terms than these are no law.
CANCEL, TERMS = 30.0, 3
# Runge-Kutta steps over one sample interval.
STEPS = 24


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
    for family in FAMILIES[1:]:
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
