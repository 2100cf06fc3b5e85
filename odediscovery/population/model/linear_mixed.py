r"""The linear mixed model at the heart of the nonlinear one: the likelihood of what groups share.

    w_g = J_g (X_g beta + b_g) + e_g,    b_g ~ N(0, diag(d^2)),    e_g ~ N(0, sigma_s^2) of each state s

in maximum likelihood over beta, d and sigma; the b_g are integrated out. Of every group only J'J and
J'w are needed, so that a million samples cost no more than a thousand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from odediscovery.runtime.arrays import ABOVE_ZERO, Array, Mask
from odediscovery.runtime.thresholds import Thresholds, threshold


@dataclass(frozen=True)
class LinearMixedThresholds(Thresholds):
    """How the likelihood of the straightened curves is climbed."""

    negligible: float = threshold(0.01, "a spread below it is none", unit="logarithm", origin="one per cent")
    beyond: float = threshold(1e30, "likelihood of what cannot be computed", origin="the search turns back from it")
    spreads: tuple[float, float] = threshold((1e-4, 10.0), "ends of the spreads that are looked for", unit="logarithm")
    reach: float = threshold(8.0, "how far the logarithm of sigma may go in one search")
    steps: int = threshold(200, "steps of the search, at most", origin="cost")
    settled: float = threshold(1e-11, "change of the likelihood that ends it", unit="relative")
    difference: float = threshold(1e-4, "step of a second derivative", unit="logarithm")
    most_log: float = threshold(80.0, "largest logarithm of sigma", origin="its square and their inverse are floats")
    ridge: float = threshold(1e-9, "added where a matrix is singular", unit="its largest entry", origin="rounding")
    singular: float = threshold(1e-12, "least singular value of the information", unit="the largest", origin="rounding")


LINEAR = LinearMixedThresholds()


class Sums(NamedTuple):
    """What the likelihood needs of the groups.

    Args:
        normal: J'J by state [states, groups, unknowns, unknowns].
        moment: J'w by state [states, groups, unknowns].
        squares: w'w by state [states].
        counts: number of values by state [states].
    """

    normal: Array
    moment: Array
    squares: Array
    counts: Array


class Estimate(NamedTuple):
    """The most likely linear mixed model.

    Args:
        beta: of the columns of the design.
        deviations: d [unknowns], 0 for those that all groups share.
        sigma: [states].
        unknowns: of the groups, shrunk towards the mean [groups, unknowns].
        minus_2_log_likelihood: of the values.
        covariance: of beta.
        spread: posterior covariance of the groups' unknowns about X beta [groups, unknowns, unknowns].
    """

    beta: Array
    deviations: Array
    sigma: Array
    unknowns: Array
    minus_2_log_likelihood: float
    covariance: Array
    spread: Array


class _Solved(NamedTuple):
    beta: Array
    value: float
    gradient: Array
    unknowns: Array
    information: Array
    spread: Array


def estimate(sums: Sums, design: Array, random: Mask, deviations: Array, sigma: Array) -> Estimate:
    """The maximum of the likelihood.

    Args:
        design: X, [groups, unknowns, columns].
        random: unknowns that differ from group to group [unknowns].
        deviations: where the search begins [unknowns].
        sigma: where the search begins [states].
    """
    begin = _packed(sums, random, deviations, sigma)

    def objective(theta: Array) -> tuple[float, Array]:
        try:
            found = _solve(sums, design, random, theta)
        except np.linalg.LinAlgError:
            return LINEAR.beyond, np.zeros(len(theta))
        return (found.value, found.gradient) if np.isfinite(found.value) else (LINEAR.beyond, np.zeros(len(theta)))

    spreads = int(random.sum())
    bounds = [tuple(np.log(LINEAR.spreads))] * spreads
    bounds += [(at - LINEAR.reach, at + LINEAR.reach) for at in begin[spreads:]]
    ends = {"maxiter": LINEAR.steps, "ftol": LINEAR.settled}
    done = minimize(objective, begin, jac=True, bounds=bounds, method="L-BFGS-B", options=ends)
    return at(sums, design, random, done.x)


def at(sums: Sums, design: Array, random: Mask, theta: Array) -> Estimate:
    """The model at given logarithms of the deviations and of sigma."""
    d, s = _unpacked(sums, random, theta)
    if np.any(d[random] < LINEAR.negligible):
        random = random & (d >= LINEAR.negligible)
        theta = _packed(sums, random, d, s)
    found = _solve(sums, design, random, theta)
    d = np.where(d < LINEAR.negligible, 0.0, d)
    covariance = np.asarray(np.linalg.pinv(found.information))
    return Estimate(found.beta, d, s, found.unknowns, found.value, covariance, found.spread)


def theta_errors(sums: Sums, design: Array, random: Mask, found: Estimate) -> Array:
    """Standard errors of the logarithms of the deviations [random unknowns], nan for those that are 0."""
    theta = _packed(sums, random, found.deviations, found.sigma)
    step, size = LINEAR.difference, len(theta)
    hessian = np.zeros((size, size))
    for k in range(size):
        shift = np.zeros(size)
        shift[k] = step
        up, down = (_solve(sums, design, random, theta + sign * shift).gradient for sign in (1, -1))
        hessian[k] = (up - down) / (2 * step)
    at_zero = np.append(found.deviations[random] <= 0, np.zeros(size - int(random.sum()), bool))
    errors = np.full(size, np.nan)
    free = ~at_zero
    inverse = np.linalg.pinv((hessian + hessian.T)[np.ix_(free, free)] / 4.0)
    errors[free] = np.sqrt(np.maximum(np.diag(inverse), 0.0))
    return errors[: int(random.sum())]


def _packed(sums: Sums, random: Mask, deviations: Array, sigma: Array) -> Array:
    d = np.clip(np.log(np.maximum(deviations[random], ABOVE_ZERO)), *np.log(LINEAR.spreads))
    return np.concatenate([d, np.log(np.maximum(sigma[sums.counts > 0], ABOVE_ZERO))])


def _unpacked(sums: Sums, random: Mask, theta: Array) -> tuple[Array, Array]:
    d, s = np.zeros(len(random)), np.ones(len(sums.counts))
    d[random] = np.exp(theta[: int(random.sum())])
    s[sums.counts > 0] = np.exp(np.clip(theta[int(random.sum()) :], -LINEAR.most_log, LINEAR.most_log))
    return d, s


def _inverse(k: Array) -> Array:
    """Of 1 + D J'J D, which rounding alone can make singular."""
    try:
        return np.asarray(np.linalg.inv(k))
    except np.linalg.LinAlgError:
        ridge = LINEAR.ridge * np.abs(k).max(axis=(1, 2), keepdims=True)
        return np.asarray(np.linalg.inv(k + ridge * np.eye(k.shape[1])))


@np.errstate(over="ignore", invalid="ignore")  # where curves have run away, which is an error of its own
def _solve(sums: Sums, design: Array, random: Mask, theta: Array) -> _Solved:
    """-2 log likelihood with its gradient, beta eliminated."""
    d, s = _unpacked(sums, random, theta)
    seen = sums.counts > 0
    weight = np.where(seen, 1.0 / s**2, 0.0)
    a = np.einsum("sgpq,s->gpq", sums.normal, weight)
    v = np.einsum("sgp,s->gp", sums.moment, weight)
    eye = np.eye(len(d))
    k = eye + d[:, None] * a * d
    inner = d[:, None] * _inverse(k) * d
    ad = a @ inner
    m = a - ad @ a
    information = np.einsum("gpa,gpb->ab", design, m @ design)
    right = np.einsum("gpa,gp->a", design, v - np.einsum("gpq,gq->gp", ad, v))
    if not (np.isfinite(information).all() and np.isfinite(right).all()):
        raise np.linalg.LinAlgError("curves have run away")
    beta = np.linalg.lstsq(information, right, rcond=LINEAR.singular)[0]
    mean = design @ beta
    u = v - np.einsum("gpq,gq->gp", a, mean)
    b = np.einsum("gpq,gq->gp", inner, u)
    t = u - np.einsum("gpq,gq->gp", a, b)
    whole = float(sums.squares @ weight) - 2 * float(np.sum(v * mean)) + float(np.einsum("gp,gpq,gq->", mean, a, mean))
    quadratic = whole - float(np.sum(u * b))
    sign_det = np.linalg.slogdet(k)[1].sum()
    counts = sums.counts
    value = float(sign_det + quadratic + np.sum(counts[seen] * np.log(2 * np.pi * s[seen] ** 2)))
    g_d = 2 * d**2 * (np.einsum("gpp->p", m) - np.sum(t**2, axis=0))
    phi = mean + b
    g_s = []
    for i in np.flatnonzero(seen):
        left = sums.squares[i] - 2 * np.sum(phi * sums.moment[i]) + np.einsum("gp,gpq,gq->", phi, sums.normal[i], phi)
        trace = np.einsum("gpq,gqp->", inner, sums.normal[i]) * weight[i]
        g_s.append(2 * (counts[i] - trace - left * weight[i]))
    return _Solved(beta, value, np.append(g_d[random], g_s), phi, information, inner)
