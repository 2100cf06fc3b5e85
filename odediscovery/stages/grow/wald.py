"""How certain each constant of a grown law is: its square over its variance, by Wald."""

from __future__ import annotations

import numpy as np

from odediscovery.runtime.arrays import ABOVE_ZERO, Array
from odediscovery.stages.grow.stack import Constants, Places, evaluated, jacobian
from odediscovery.stages.grow.variable_projection import Fit, Projected


def wald(fit: Fit, model: Projected) -> tuple[Array, Array, Array]:
    """(constant / standard error)^2 of A [equations, m], W [m, features] and B; inf if 0.

    A whole exponent is judged with all others held.
    """
    linear = fit.linear(model)
    sigma = np.sqrt(model.squares + fit.floor)
    of_free, of_b, of_v = fit.places(model)
    places = np.argwhere(model.powers)
    now = evaluated(fit, model.path, Constants.of([model], fit.problem.features.size))
    all_places = [Places.of_each([kind]) for kind in (places, of_b, of_v)]
    jac = jacobian(fit, model.path, now, all_places)[0].swapaxes(1, 2)
    inside = linear.q.transpose(0, 2, 1) @ jac
    weighted = (jac - linear.q @ inside) / sigma[:, None, None]
    flat = weighted.reshape(linear.residual.size, jac.shape[2])
    free = np.ones(jac.shape[2], dtype=bool)
    free[: len(places)] = (places[:, None] == of_free[None]).all(axis=2).any(axis=1)
    covariance = np.zeros((len(free), len(free)))
    normal = flat[:, free].T @ flat[:, free]
    covariance[np.ix_(free, free)] = np.linalg.pinv(normal, rcond=1e-14, hermitian=True)
    inverse = np.linalg.inv(linear.r)
    change = inverse @ inside
    variance = np.einsum("imk,imk->im", inverse, inverse) * sigma[:, None] ** 2
    variance = variance + np.einsum("imp,pr,imr->im", change, covariance, change)
    scaled = linear.coefficients * linear.scale
    of_a = np.where(model.used, scaled**2 / np.maximum(variance, ABOVE_ZERO), np.inf)
    held = 1.0 / np.maximum(np.einsum("tp,tp->p", flat, flat), ABOVE_ZERO)
    spread = np.where(free, np.diag(covariance), held)
    found = [of_a]
    for values, at in ((model.exponents, places), (model.sums.weights, of_b)):
        own, spread = np.split(spread, [len(at)])
        statistic = np.full(values.shape, np.inf)
        with np.errstate(over="ignore"):  # inf where there is no variance at all
            statistic[tuple(at.T)] = values[tuple(at.T)] ** 2 / np.maximum(own, ABOVE_ZERO)
        found.append(statistic)
    return found[0], found[1], found[2]
