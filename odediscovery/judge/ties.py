"""What leaves one state and enters another has one rate, not two.

    a_ij s_i = -a_kj s_k    for a monomial j in the equations of the states i and k, of the scales s

Coefficients that the data do not tell apart in this way are one constant in the criterion, which loses by a refit
with m such ties what the quadratic approximation of the likelihood says:

    d^T (C V C^T)^-1 d,    d = C theta [ties],

the rows of C the ties, theta the fitted constants and V their covariance. A tie holds where it loses less than a
constant costs.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from odediscovery.laws.cost import constant_penalty, count, picked
from odediscovery.laws.power_sum import PowerSum
from odediscovery.runtime.arrays import ABOVE_ZERO, Array, Mask
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
    """The ties of a law that save most; none where its covariance is not known, or flows are tied already.

    Args:
        found: a law with its covariance.
        scale: what the states were divided by [states].
    """
    law, free, best = found.law, found.free, NO_TIES
    v = found.joint.matrix[: count(free), : count(free)]
    if law.stoichiometry is not None or not np.isfinite(v).all():
        return best
    theta, worth = picked(law, free), constant_penalty(law.n_states, found.counts.sum())
    held = _likeliest_first(_flows(law, free[0], scale), theta, v, worth)
    for number in range(1, len(held) + 1):
        c = held[:number]
        d = c @ theta
        loss = float(d @ np.linalg.pinv(c @ v @ c.T, hermitian=True) @ d)
        if number * worth - loss > best.number * worth - best.loss:
            best = Ties(number, loss)
    return best


def _flows(law: PowerSum, fitted: Mask, scale: Array) -> Array:
    """A row for every pair of coefficients that may be one flow, [pairs, coefficients]: their sum in its scales."""
    place = np.full(law.coefficients.shape, -1)
    place[fitted] = np.arange(fitted.sum())
    rates = law.coefficients * scale[:, None]
    rows = list[Array]()
    for j in range(law.n_monomials):
        for i, k in itertools.combinations(np.flatnonzero(fitted[:, j]), 2):
            if rates[i, j] * rates[k, j] < 0.0:
                rows.append(np.zeros(fitted.sum()))
                rows[-1][place[i, j]], rows[-1][place[k, j]] = scale[i], scale[k]
    return np.array(rows).reshape(len(rows), int(fitted.sum()))


def _likeliest_first(flows: Array, theta: Array, v: Array, worth: float) -> Array:
    """Flows that lose less than a constant costs, no coefficient in two of them, [ties, constants]."""
    c = np.pad(flows, ((0, 0), (0, len(theta) - flows.shape[1])))
    lost = (c @ theta) ** 2 / np.maximum(np.einsum("tp,pq,tq->t", c, v, c), ABOVE_ZERO)
    taken, kept = np.zeros(len(theta), dtype=bool), list[int]()
    for k in np.argsort(lost, kind="stable"):
        if lost[k] < worth and not taken[c[k] != 0].any():
            taken |= c[k] != 0
            kept.append(int(k))
    return c[kept]
