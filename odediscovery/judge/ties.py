"""What leaves one state and enters another has one rate, not two.

    a_ij s_i = -a_kj s_k    for a monomial j in the equations of the states i and k, of the scales s

Coefficients that the data do not tell apart in this way have one value in the criterion, in two places. What the
likelihood would lose by a refit with such ties is, to second order,

    d^T (C V C^T)^-1 d,    d = C theta [ties],

the rows of C the ties, theta the fitted constants and V their covariance; it counts against the law. Ties are taken
one after the other, the likeliest first, as long as each saves more than it loses.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from odediscovery.laws.cost import count, picked, value_penalty
from odediscovery.laws.power_sum import PowerSum
from odediscovery.runtime.arrays import Array, Mask
from odediscovery.stages.prune.surgeon import wald_statistic
from odediscovery.stages.values import Polished


@dataclass(frozen=True)
class Ties:
    """Coefficients of a law that are those of others.

    Args:
        number: of them.
        loss: what a law with these ties would lose, in units of twice the log-likelihood.
    """

    number: int = 0
    loss: float = 0.0


NO_TIES = Ties()


def find_ties(found: Polished, scale: Array) -> Ties:
    """The ties of a law; none where its covariance is not known, or flows are tied already.

    Args:
        found: a law with its covariance.
        scale: what the states were divided by [states].
    """
    law, v, best = found.law, found.covariance, NO_TIES
    if law.stoichiometry is not None or not np.isfinite(v).all():
        return best
    theta, worth = picked(law, found.free), value_penalty(found.counts.sum())
    flows = _likeliest_first(_flows(law, found.free[0], scale, len(theta)), theta, v, worth)
    for number in range(1, len(flows) + 1):
        loss = wald_statistic(flows[:number], theta, v)
        if number * worth - loss > best.number * worth - best.loss:
            best = Ties(number, loss)
    return best


def count_constants(found: Polished, scale: Array) -> int:
    """How many values of a law were fitted, that of one flow once.

    Args:
        scale: what the states were divided by [states].
    """
    return count(found.free) - find_ties(found, scale).number


def _flows(law: PowerSum, fitted: Mask, scale: Array, width: int) -> Array:
    """A row for every pair of coefficients that may be one flow, [pairs, constants]: their sum in its scales."""
    place = np.full(law.coefficients.shape, -1)
    place[fitted] = np.arange(fitted.sum())
    rates, rows = law.coefficients * scale[:, None], list[Array]()
    for j in range(law.n_monomials):
        for i, k in itertools.combinations(np.flatnonzero(fitted[:, j]), 2):
            if rates[i, j] * rates[k, j] < 0.0:
                rows.append(np.zeros(width))
                rows[-1][place[i, j]], rows[-1][place[k, j]] = scale[i], scale[k]
    return np.array(rows).reshape(len(rows), width)


def _likeliest_first(flows: Array, theta: Array, v: Array, worth: float) -> Array:
    """Flows each of which alone loses less than a value costs, but for those that follow from others before them."""
    lost, rate, kept = [wald_statistic(row[None], theta, v) for row in flows], np.arange(len(theta)), list[int]()
    for t in np.argsort(lost, kind="stable"):
        one, other = rate[flows[t] != 0.0]
        if lost[t] < worth and one != other:
            rate[rate == other] = one
            kept.append(int(t))
    likely: Array = flows[kept]
    return likely
