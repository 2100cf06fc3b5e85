r"""Nonlinear mixed effects: one law for many groups, with means and spreads of its constants.

    c_g = X_g beta + b_g,    b_g ~ N(0, diag(d^2)),    y_g = x(t; c_g) + e_g,    e_g ~ N(0, sigma_s^2) of each state s

The curves are linearised at the current constants of every group; the resulting linear mixed model,

    w_g = J_g (X_g beta + b_g) + e_g,

gives beta, d, sigma of maximum likelihood, with the b_g integrated out, and new constants; this is repeated until it
converges. Constants are logarithms, so that their distribution is log-normal. For every group only J'J and J'w
are needed, so that a million samples cost no more than a thousand. Models are compared by

    criterion = -2 log L + log(values) (means + exponents) + max(log(groups), 3.84) spreads

If the true spread is 0, the likelihood gains nothing in half of all cases and more than 3.84 in one of forty.

Source: Lindstrom and Bates (1990).
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from odediscovery.population.groups import GroupModel, Measured, Structure
from odediscovery.runtime.arrays import ABOVE_ZERO, Array, Mask

# Maximum number of linearisations (most fits need 5 to 10), and that for one of many structures, limited by cost.
ROUNDS, FEW_ROUNDS = 30, 8
SETTLED = 1e-3  # change of -2 log likelihood at convergence
LEAST_SQUARE = 1e-14  # least mean square of residuals [that of the values]: keeps the likelihood finite without noise
# Bounds of the spreads [logarithm], and the largest logarithm of a constant and of sigma, beyond any choice of units.
SPREADS, MOST_LOG = (1e-4, 10.0), 80.0
ROUNDING = 1e-9  # relative differences due to rounding


class Sums(NamedTuple):
    """Sums over the samples that determine the likelihood."""

    normal: Array  # J'J by state [states, groups, unknowns, unknowns]
    moment: Array  # J'w by state [states, groups, unknowns]
    squares: Array  # w'w by state [states]
    counts: Array  # number of values by state [states]


class Estimate(NamedTuple):
    """A linear mixed model with the maximum likelihood estimates of its parameters."""

    beta: Array  # of the columns of the design
    deviations: Array  # d [unknowns], 0 for those that all groups share
    sigma: Array  # [states]
    unknowns: Array  # of the groups, shrunk towards the mean [groups, unknowns]
    minus_2_log_likelihood: float  # of the values
    gradient: Array  # of -2 log L by the logarithms of the deviations and of sigma
    information: Array  # inverse of the covariance of beta
    spread: Array  # posterior covariance of the groups' unknowns about X beta [groups, unknowns, unknowns]

    @property
    def covariance(self) -> Array:
        """Covariance of beta."""
        return np.asarray(np.linalg.pinv(self.information))

    @property
    def errors(self) -> Array:
        """Standard errors of beta."""
        return np.sqrt(np.maximum(np.diag(self.covariance), 0.0))


def estimate(sums: Sums, design: Array, random: Mask, deviations: Array, sigma: Array) -> Estimate:
    """Maximum likelihood fit with a design [groups, unknowns, columns], starting from these deviations and sigma."""
    begin, spreads = _packed(sums, random, deviations, sigma), int(random.sum())

    def objective(theta: Array) -> tuple[float, Array]:
        with contextlib.suppress(np.linalg.LinAlgError):
            found = _at(sums, design, random, theta)
            if np.isfinite(found.minus_2_log_likelihood):
                return found.minus_2_log_likelihood, found.gradient
        return 1e30, np.zeros(len(theta))  # so that the line search backtracks

    # One search changes sigma by at most a factor of exp(8).
    bounds = [tuple(np.log(SPREADS))] * spreads + [(at - 8.0, at + 8.0) for at in begin[spreads:]]
    ends = {"maxiter": 200, "ftol": 1e-11}
    theta = minimize(objective, begin, jac=True, bounds=bounds, method="L-BFGS-B", options=ends).x
    d, s = _unpacked(sums, random, theta)
    kept = random & (d >= 0.01)  # a spread below one per cent counts as 0
    return _at(sums, design, kept, theta if np.array_equal(kept, random) else _packed(sums, kept, d, s))


def theta_errors(sums: Sums, design: Array, random: Mask, found: Estimate) -> Array:
    """Standard errors of the logarithms of the deviations [random unknowns], nan for those that are 0."""
    theta, spreads = _packed(sums, random, found.deviations, found.sigma), int(random.sum())
    h = 1e-4
    shifts = h * np.eye(len(theta))
    sides = [[_at(sums, design, random, theta + sign * shift).gradient for sign in (1, -1)] for shift in shifts]
    hessian = np.array([(up - down) / (2 * h) for up, down in sides]).reshape(shifts.shape)
    free = np.append(found.deviations[random] > 0, np.ones(len(theta) - spreads, bool))
    inverse = np.linalg.pinv((hessian + hessian.T)[np.ix_(free, free)] / 4.0)
    errors = np.full(len(theta), np.nan)
    errors[free] = np.sqrt(np.maximum(np.diag(inverse), 0.0))
    return errors[:spreads]


def _packed(sums: Sums, random: Mask, deviations: Array, sigma: Array) -> Array:
    d = np.clip(np.log(np.maximum(deviations[random], ABOVE_ZERO)), *np.log(SPREADS))
    return np.concatenate([d, np.log(np.maximum(sigma[sums.counts > 0], ABOVE_ZERO))])


def _unpacked(sums: Sums, random: Mask, theta: Array) -> tuple[Array, Array]:
    d, s, spreads = np.zeros(len(random)), np.ones(len(sums.counts)), int(random.sum())
    d[random] = np.exp(theta[:spreads])
    s[sums.counts > 0] = np.exp(np.clip(theta[spreads:], -MOST_LOG, MOST_LOG))
    return d, s


def _inverse(k: Array) -> Array:
    """Inverse of 1 + D J'J D, with a ridge if rounding made it singular."""
    try:
        return np.asarray(np.linalg.inv(k))
    except np.linalg.LinAlgError:
        ridge = 1e-9 * np.abs(k).max(axis=(1, 2), keepdims=True)
        return np.asarray(np.linalg.inv(k + ridge * np.eye(k.shape[1])))


@np.errstate(over="ignore", invalid="ignore")  # diverging curves raise LinAlgError
def _at(sums: Sums, design: Array, random: Mask, theta: Array) -> Estimate:
    """The model at given logarithms of the deviations and of sigma, with the most likely beta."""
    d, s = _unpacked(sums, random, theta)
    counts, seen = sums.counts, sums.counts > 0
    weight = np.where(seen, 1.0 / s**2, 0.0)
    a = np.einsum("sgpq,s->gpq", sums.normal, weight)
    v = np.einsum("sgp,s->gp", sums.moment, weight)
    k = np.eye(len(d)) + d[:, None] * a * d
    inner = d[:, None] * _inverse(k) * d
    ad = a @ inner
    m = a - ad @ a
    information = np.einsum("gpa,gpb->ab", design, m @ design)
    right = np.einsum("gpa,gp->a", design, v - np.einsum("gpq,gq->gp", ad, v))
    if not (np.isfinite(information).all() and np.isfinite(right).all()):
        raise np.linalg.LinAlgError("curves have run away")
    beta = np.linalg.lstsq(information, right, rcond=1e-12)[0]
    mean = design @ beta
    u = v - np.einsum("gpq,gq->gp", a, mean)
    b = np.einsum("gpq,gq->gp", inner, u)
    t = u - np.einsum("gpq,gq->gp", a, b)
    whole = float(sums.squares @ weight) - 2 * float(np.sum(v * mean)) + float(np.einsum("gp,gpq,gq->", mean, a, mean))
    quadratic = whole - float(np.sum(u * b))
    value = float(np.linalg.slogdet(k)[1].sum() + quadratic + np.sum(counts[seen] * np.log(2 * np.pi * s[seen] ** 2)))
    g_d = 2 * d**2 * (np.einsum("gpp->p", m) - np.sum(t**2, axis=0))
    phi = mean + b
    g_s = []
    for i in np.flatnonzero(seen):
        left = sums.squares[i] - 2 * np.sum(phi * sums.moment[i]) + np.einsum("gp,gpq,gq->", phi, sums.normal[i], phi)
        trace = np.einsum("gpq,gqp->", inner, sums.normal[i]) * weight[i]
        g_s.append(2 * (counts[i] - trace - left * weight[i]))
    return Estimate(beta, d, s, phi, value, np.append(g_d[random], g_s), information, inner)


@dataclass(frozen=True, eq=False)
class MixedFit:
    """A mixed model of one structure."""

    model: GroupModel
    design: Array  # X, [groups, unknowns, columns]
    random: Mask  # unknowns that differ from group to group
    estimate: Estimate  # the linear mixed model where the iteration ended
    unknowns: Array  # [unknowns, groups]
    sums: Sums
    squares: Array  # of the residuals at these unknowns [states]

    @property
    def minus_2_log_likelihood(self) -> float:
        """-2 log likelihood of the measured values."""
        return self.estimate.minus_2_log_likelihood + self.model.measured.jacobian_of_logs()

    @property
    def parameters(self) -> int:
        """Number of fitted parameters of the population: means, effects of covariates, spreads, noise."""
        return int(self.design.shape[2] + self.random.sum() + (self.sums.counts > 0).sum())


def _sums_of(model: GroupModel, unknowns: Array) -> tuple[Sums, Array]:
    """Sums for the linearised curves of all groups, and sums of squared residuals [states]."""
    r, j = model.curves(unknowns)
    if not np.isfinite(unknowns).all():
        raise np.linalg.LinAlgError("constants have run away")
    w = np.where(model.seen, r + np.einsum("tipg,pg->tig", j, unknowns), 0.0)
    normal = np.einsum("tipg,tiqg->igpq", j, j, optimize=True)
    moment = np.einsum("tipg,tig->igp", j, w)
    sums = Sums(normal, moment, np.einsum("tig,tig->i", w, w), model.measured.counts())
    return sums, np.einsum("tig,tig->i", r, r)


def fit_mixed(
    model: GroupModel,
    begin: Array,
    random: Mask,
    design: Array | None = None,
    deviations: Array | None = None,
    rounds: int = ROUNDS,
) -> MixedFit:
    """The mixed model fitted from these unknowns [unknowns, groups]; default design: one column per unknown."""
    design = np.tile(np.eye(len(begin)), (begin.shape[1], 1, 1)) if design is None else design
    # In populations, constants typically differ by a third.
    d = np.full(len(begin), 0.3) if deviations is None else deviations
    # Square of the size of each state on the scale of its noise.
    size = np.where(model.measured.logarithmic, 1.0, model.measured.scale**2)
    x, last, share = begin, np.inf, 1.0
    sums, squares = _sums_of(model, x)
    sigma = np.sqrt(np.maximum(squares / np.maximum(sums.counts, 1), LEAST_SQUARE * size))
    for done in range(rounds):
        found = estimate(sums, design, random, d, sigma)
        value, d = found.minus_2_log_likelihood, found.deviations
        sigma = np.maximum(found.sigma, 1e-8 * np.sqrt(size))
        # An iteration that has not converged after ten rounds may cycle: shorter steps. With noise below the solver's
        # error the likelihood is unbounded, and increases of `value` are rounding.
        if done >= 10 and value > last + SETTLED and np.any((sigma**2 > 1e-4**2 * size)[sums.counts > 0]):
            share *= 0.5
        before, x = x, _stepped(model, x, found, design, share)
        sums, squares = _sums_of(model, x)
        if x is before or abs(last - value) < SETTLED:
            break
        last, d = value, np.where(random, np.maximum(d, 0.02), 0.0)
    return MixedFit(model, design, random, estimate(sums, design, random, d, sigma), x, sums, squares)


def _stepped(model: GroupModel, x: Array, found: Estimate, design: Array, share: float) -> Array:
    """A step of at most `share` towards the new unknowns that does not increase the objective; x itself if none."""
    # Shared unknowns may differ slightly while steps are compared.
    weight, d = 1.0 / found.sigma**2, np.maximum(found.deviations, 1e-4)

    def value(at: Array) -> float:
        residual = model.residual(at)
        off = (at - (design @ found.beta).T) / d[:, None]
        return float(np.einsum("tig,tig->i", residual, residual) @ weight + np.sum(off**2))

    # If shared constants still differ between groups, the first step makes them equal in any case.
    before = np.inf if np.any(np.ptp(x[found.deviations <= 0], axis=1) > ROUNDING) else value(x)
    for halvings in range(5):
        tried = x + share * 0.5**halvings * (found.unknowns.T - x)
        if value(tried) <= before + ROUNDING * abs(before):
            return tried
    return x


def _price_of_spread(model: GroupModel) -> float:
    """Penalty of one spread in -2 log likelihood."""
    return max(math.log(model.measured.n_groups), 3.84)


def criterion(fit: MixedFit) -> float:
    """The criterion of a mixed model; lower is better."""
    means = fit.design.shape[2] + fit.model.structure.price()
    spreads = int(np.sum(fit.estimate.deviations[fit.random] > 0))
    values = math.log(max(float(fit.sums.counts.sum()), 2.0))
    return float(fit.minus_2_log_likelihood + values * means + _price_of_spread(fit.model) * spreads)


def always_own(model: GroupModel) -> Mask:
    """Mask of the unknowns that always differ between groups: the starts."""
    return np.arange(model.n_unknowns) >= model.first_start


def may_vary(model: GroupModel) -> Mask:
    """Mask of the unknowns that may differ between groups: all except the exponents."""
    return always_own(model) | (np.arange(model.n_unknowns) < model.n_constants)


def choose_varying(fit: MixedFit) -> MixedFit:
    """The model with the spreads that minimise the criterion, from one in which all constants vary.

    Spreads are removed one by one on the linearised curves, which is cheap; the nonlinear model is then
    refitted and checked.
    """
    price, own, random = _price_of_spread(fit.model), always_own(fit.model), fit.random.copy()
    present, number = fit.estimate.minus_2_log_likelihood, np.arange(len(random))

    def loss_without(k: int) -> float:
        less = random & (number != k)
        found = estimate(fit.sums, fit.design, less, _begin(fit, less), fit.estimate.sigma)
        return found.minus_2_log_likelihood

    while tried := [(loss_without(k), k) for k in np.flatnonzero(random & ~own).tolist()]:
        least, place = min(tried)
        if least - present > price:
            break
        present, random[place] = least, False
    if np.array_equal(random, fit.random):
        return fit
    fewer = refit(fit, random)
    # Restore a spread that the linearised curves removed wrongly.
    for k in np.flatnonzero(fit.random & ~random).tolist():
        more = random | (number == k)
        again = refit(fewer, more)
        if again.minus_2_log_likelihood + price < fewer.minus_2_log_likelihood:
            fewer, random = again, more
    return fewer


def refit(fit: MixedFit, random: Mask, design: Array | None = None) -> MixedFit:
    """The model refitted with other spreads, starting from its estimates."""
    return fit_mixed(fit.model, fit.unknowns, random, fit.design if design is None else design, _begin(fit, random))


def _begin(fit: MixedFit, random: Mask) -> Array:
    return np.where(random, np.maximum(fit.estimate.deviations, 0.1), 0.0)


def with_covariates(fit: MixedFit) -> tuple[MixedFit, dict[tuple[int, str], tuple[float, float]]]:
    """The model in which varying constants depend on powers of the covariates,

        log c_g = mean + power * (log z_g - mean of these) + b_g

    and the powers with standard errors, by constant and name of the covariate.
    """
    covariates, unknowns = fit.model.measured.covariates, len(fit.unknowns)
    varying = np.flatnonzero(fit.estimate.deviations[: fit.model.n_constants] > 0).tolist()
    places = [(k, name) for name in covariates for k in varying]
    if not places:
        return fit, {}
    design = np.tile(np.eye(unknowns, unknowns + len(places)), (fit.unknowns.shape[1], 1, 1))
    for column, (k, name) in enumerate(places, start=unknowns):
        design[:, k, column] = covariates[name]
    found = refit(fit, fit.random, design)
    powers = zip(found.estimate.beta[unknowns:].tolist(), found.estimate.errors[unknowns:].tolist(), strict=True)
    return found, dict(zip(places, powers, strict=True))


def sound(fit: Callable[[], MixedFit]) -> list[MixedFit]:
    """The model of a fit in a list, which is empty if the fit fails or is not sound."""
    with contextlib.suppress(np.linalg.LinAlgError):
        if is_sound(found := fit()):
            return [found]
    return []


def sound_model(measured: Measured, structure: Structure, begin: Array, rounds: int = FEW_ROUNDS) -> list[MixedFit]:
    """The model in which all constants vary, in a list that is empty if the fit is not sound."""
    model = GroupModel(structure, measured)
    return sound(partial(fit_mixed, model, begin, may_vary(model), rounds=rounds))


def is_sound(fit: MixedFit) -> bool:
    """Whether a fit is plausible: it is finite, its terms are distinct, and sigma agrees with the residuals."""
    k, structure = fit.model.n_constants, fit.model.structure
    w = structure.with_exponents(fit.unknowns[k : fit.model.first_start].mean(axis=1).tolist()).exponents
    alike = (
        one.state == other.state and np.abs(w[one.monomial] - w[other.monomial]).max() < 0.05  # one term, not two
        for one, other in itertools.combinations(structure.entries, 2)
    )
    if not np.isfinite(criterion(fit)) or np.any(np.abs(w) > 6.0) or any(alike):
        return False
    seen = fit.sums.counts > 0
    each = fit.sums.counts, fit.estimate.sigma, fit.squares, fit.model.measured.spread()
    counts, sigma, squares, spread = (of_states[seen] for of_states in each)
    if np.abs(fit.unknowns[:k]).max() > MOST_LOG or np.any(squares > counts * spread**2):
        return False
    # Residuals this small count as 0, whatever sigma is.
    tiny = np.sqrt(squares / counts) < 1e-6 * spread
    # A larger likelihood is impossible: it is an artefact of rounding with unbounded slopes.
    least = float(np.sum(counts * (np.log(2 * np.pi * sigma**2) - 1.0)))
    if not tiny.any() and fit.estimate.minus_2_log_likelihood < least:
        return False
    ratio = sigma**2 * counts / np.maximum(squares, ABOVE_ZERO)
    return bool(np.all(tiny | ((ratio > 0.25) & (ratio < 4.0))))


def with_spreads(row: MixedFit) -> MixedFit:
    """The model with the spreads of `choose_varying`, or unchanged if that is not sound."""
    return next(iter(sound(partial(choose_varying, row))), row)


def refined(fit: MixedFit) -> MixedFit:
    """The model refitted with twice the solver steps, at most three times, until the likelihood no longer changes."""
    for _ in range(3):
        model = GroupModel(fit.model.structure, fit.model.measured.refined())
        again = sound(partial(fit_mixed, model, fit.unknowns, fit.random, fit.design, fit.estimate.deviations))
        if not again:
            break
        before, fit = fit, again[0]
        if abs(fit.minus_2_log_likelihood - before.minus_2_log_likelihood) < 0.1:
            break
    return fit
