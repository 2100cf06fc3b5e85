"""Which constants vary from group to group: as the user says, or by the criterion of the mixed model.

    criterion = -2 log L + log(values) (means + exponents) + max(log(groups), 3.84) spreads

A spread that is not there gains nothing half of the time, and by more than 3.84 in one case of forty.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from odediscovery.population.model.linear_mixed import estimate
from odediscovery.population.model.measured import GroupModel
from odediscovery.population.model.mixed import MixedFit, fit_mixed
from odediscovery.runtime.arrays import Array, Mask
from odediscovery.runtime.thresholds import Thresholds, threshold


@dataclass(frozen=True)
class VaryThresholds(Thresholds):
    """When a constant is said to vary."""

    least_gain: float = threshold(
        3.84, "gain of -2 log likelihood that a spread has to bring, at least", origin="one in forty without a spread"
    )
    begin: float = threshold(0.1, "spread to begin a fit with other spreads from, at least", unit="logarithm")


VARY = VaryThresholds()


def price_of_spread(groups: int) -> float:
    """What one more spread has to gain in -2 log likelihood."""
    return max(math.log(groups), VARY.least_gain)


def criterion(fit: MixedFit) -> float:
    """Of a mixed model, smaller is better."""
    counts, model = fit.sums.counts, fit.model
    means = fit.design.shape[2] + model.structure.price()
    spreads = int(np.sum(fit.estimate.deviations[fit.random] > 0))
    values = math.log(max(float(counts.sum()), 2.0))
    price = price_of_spread(model.measured.data.n_groups)
    return float(fit.minus_2_log_likelihood + values * means + price * spreads)


def always_own(model: GroupModel) -> Mask:
    """Unknowns that every group has of its own in any case: the starts."""
    found = np.zeros(model.n_unknowns, bool)
    found[model.n_constants + model.n_free :] = True
    return found


def may_vary(model: GroupModel) -> Mask:
    """Unknowns that may differ from group to group: all but the exponents."""
    found = np.ones(model.n_unknowns, bool)
    found[model.n_constants : model.n_constants + model.n_free] = False
    return found


def choose_varying(fit: MixedFit) -> MixedFit:
    """The model with the spreads that the criterion wants, from one in which all constants vary.

    Spreads are taken away one after another on the straightened curves, which cost nothing; the last
    word has the whole model.
    """
    price = price_of_spread(fit.model.measured.data.n_groups)
    own, random = always_own(fit.model), fit.random.copy()
    present = fit.estimate.minus_2_log_likelihood
    while True:
        tried: list[tuple[float, int]] = []
        for k in np.flatnonzero(random & ~own):
            less = random.copy()
            less[k] = False
            begin = np.where(less, _begin(fit), 0.0)
            found = estimate(fit.sums, fit.design, less, begin, fit.estimate.sigma)
            tried.append((found.minus_2_log_likelihood, int(k)))
        if not tried or min(tried)[0] - present > price:
            break
        present, place = min(tried)
        random[place] = False
    if np.array_equal(random, fit.random):
        return fit
    fewer = refit(fit, random)
    # Where the straightened curves were wrong about a spread, it comes back.
    for k in np.flatnonzero(fit.random & ~random):
        more = random.copy()
        more[k] = True
        again = refit(fewer, more)
        if again.minus_2_log_likelihood + price < fewer.minus_2_log_likelihood:
            fewer, random = again, more
    return fewer


def refit(fit: MixedFit, random: Mask, design: Array | None = None) -> MixedFit:
    """The model with other spreads, from where it is."""
    return fit_mixed(
        fit.model, fit.unknowns, random, fit.design if design is None else design, np.where(random, _begin(fit), 0.0)
    )


def _begin(fit: MixedFit) -> Array:
    return np.maximum(fit.estimate.deviations, VARY.begin)


def with_covariates(fit: MixedFit) -> tuple[MixedFit, dict[tuple[int, str], tuple[float, float]]]:
    """The model in which constants that vary follow a power of what is known of the groups.

        log c_g = mean + power * (log z_g - mean of these) + b_g

    Returns:
        The model, and power and standard error by constant and name of the covariate.
    """
    covariates = fit.model.measured.covariates
    varying = [int(k) for k in np.flatnonzero(fit.estimate.deviations[: fit.model.n_constants] > 0)]
    places = [(k, name) for name in covariates for k in varying]
    if not places:
        return fit, {}
    groups, unknowns = len(fit.unknowns[0]), len(fit.unknowns)
    more = np.zeros((groups, unknowns, len(places)))
    for column, (k, name) in enumerate(places):
        more[:, k, column] = covariates[name]
    base = np.tile(np.eye(unknowns), (groups, 1, 1))
    found = refit(fit, fit.random, np.concatenate([base, more], axis=2))
    errors = np.sqrt(np.maximum(np.diag(found.estimate.covariance), 0.0))
    return found, {
        place: (float(found.estimate.beta[unknowns + c]), float(errors[unknowns + c])) for c, place in enumerate(places)
    }
