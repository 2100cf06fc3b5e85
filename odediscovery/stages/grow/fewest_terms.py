"""Where states depend on each other, laws differ in their terms and agree in their rates: the shortest one is meant.

While S + I + R stays N, an epidemic recovers by g I or by g (S I + I^2 + I R) / N alike. Removing terms one by one
finds the one or the other, as chance has it; which terms alone give the rates of a law is a regression.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from odediscovery.data.samples import pooled
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.problem import Problem
from odediscovery.runtime.arrays import Array
from odediscovery.stages.grow.polynomials import allowed_products, products
from odediscovery.stages.grow.subsets import best_subsets


@dataclass(frozen=True)
class FewestThresholds:
    """When fewer terms are the same law."""

    same: float = 1e-5  # what fewer terms may miss of the rates of a law [their rms]
    library: int = 500  # products above which none are looked through
    samples: int = 500  # samples in which rates are compared


FEWEST = FewestThresholds()


def fewest_terms(law: PowerSum, p: Problem) -> PowerSum | None:
    """The law with the fewest products of whole powers that has the same rates in all samples.

        minimise |S_i| so that sum_{m in S_i} a_im x^w_m = f_i(x) in all samples x, for each equation i

    Args:
        law: sum of products of whole powers, dimensionless.

    Returns:
        None where no equation is shorter than it is.
    """
    used = law.coefficients != 0
    degree = int(law.exponents[used.any(axis=0)].sum(axis=1).max(initial=0.0))
    # What a user knows is no choice of terms.
    if law.features is not None or law.constants[3].size or p.knowledge is not None or not degree:
        return None
    exponents = products(law.n_states, degree)
    if len(exponents) > FEWEST.library:
        return None
    values = pooled(p.data)
    x = values[np.unique(np.linspace(0, len(values) - 1, FEWEST.samples).astype(int))]
    columns = np.prod(x[:, None, :] ** exponents, axis=2)
    allowed, rates = allowed_products(p, exponents), law.rhs(x)
    shorter = np.zeros((law.n_states, len(exponents)))
    kept = law.coefficients.copy()
    for i in np.flatnonzero(used.sum(axis=1) > 1):
        found = _alone(columns[:, allowed[i]], rates[:, i], int(used[i].sum()) - 1)
        if found is not None:
            shorter[i, allowed[i]], kept[i] = found, 0.0
    if not shorter.any():
        return None
    return PowerSum(np.hstack([kept, shorter]), np.vstack([law.exponents, exponents])).merged()


def _alone(columns: Array, rates: Array, most: int) -> Array | None:
    """Coefficients of the fewest columns, `most` or fewer, that are the rates; None where so few are not."""
    size = np.linalg.norm(columns, axis=0)
    size = np.where(size > 0.0, size, 1.0)
    for level in best_subsets(columns / size, rates, np.arange(len(size)), most, 1, pairs=True):
        subset = list(level[0])
        values = np.linalg.lstsq(columns[:, subset] / size[subset], rates, rcond=None)[0] / size[subset]
        missed = np.linalg.norm(columns[:, subset] @ values - rates)
        if missed <= FEWEST.same * np.linalg.norm(rates):
            coefficients = np.zeros(len(size))
            coefficients[subset] = values
            return coefficients
    return None
