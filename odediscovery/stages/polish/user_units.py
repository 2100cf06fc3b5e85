"""Standard errors of the constants in the user's units."""

from __future__ import annotations

import numpy as np

from odediscovery.data.scale import Scale
from odediscovery.laws.cost import SIMPLE, Free, count, filled
from odediscovery.laws.power_sum import PowerSum, expanded
from odediscovery.runtime.arrays import Array, Mask
from odediscovery.stages.values import Polished

# Relative rounding of a few products of floats.
ROUNDING = 2e-15


def unscaled_errors(polished: Polished, scale: Scale) -> PowerSum:
    """Standard errors in the user's units, by the delta method with the full covariance.

    A user's coefficient is A (s_i / T) prod_k s_k^-W[j, k], and a weight of an inner sum
    B prod_k s_k^-V[j, k]: their relative errors also feel the exponents of the states,
    d ln A' = d ln A - sum_k ln(s_k) dW[j, k].

    Args:
        polished: a law in units of `scale`.
        scale: of n states.

    Returns:
        Errors in the places of the law's constants: 0 for what was held at a round number, nan
        where unknown.
    """
    law, free = polished.law, polished.free
    user = law.unscaled(scale.state, scale.time)
    known = polished.joint.part(slice(count(free)))
    places, jacobian = [np.argwhere(mask) for mask in free], _to_user(law, free, scale)
    n_a = len(places[0])
    a, w, b, v = (np.zeros_like(values) for values in law.constants)
    total = np.zeros((law.n_states, law.n_monomials))
    _, w, b, v = filled((a, w, b, v), free, known.transformed(jacobian).deviations())
    w, v = (
        np.where((e == 0.0) & ~_round(values), np.nan, e) for e, values in zip((w, v), law.constants[1::2], strict=True)
    )
    if user.stoichiometry is None:
        total[tuple(places[0].T)] = known.transformed(jacobian[:n_a]).deviations()
    else:
        of_a = np.zeros((*law.coefficients.shape, len(jacobian)))
        of_a[tuple(places[0].T)] = jacobian[:n_a]
        of_a = np.einsum("ir,rjp->ijp", user.stoichiometry, of_a)
        touched = np.any(of_a != 0.0, axis=2)
        total[touched] = known.transformed(of_a[touched]).deviations()
    return expanded(user).with_constants(total, w, b, v)


def without_rounding(values: Array) -> Array:
    """Values without the last few bits, in which a change of units there and back leaves its rounding.

    >>> without_rounding(np.array([0.9999999999999998, 0.10000000000000003, 2.0 / 3.0])).tolist()
    [1.0, 0.1, 0.6666666666666666]
    """
    written = np.array([float(f"{value:.13g}") for value in values.ravel()]).reshape(values.shape)
    return np.where(np.abs(written - values) <= ROUNDING * np.abs(values), written, values)


def _round(exponents: Array) -> Mask:
    """Round values, to which exponents are set; others were held where an earlier fit left them."""
    round_ones: Mask = (np.round(exponents, 6) == exponents) | np.isin(exponents, list(SIMPLE))
    return round_ones


def _to_user(law: PowerSum, free: Free, scale: Scale) -> Array:
    """d (constants in the user's units) / d (those of the law), [constants, constants]."""
    user = law.unscaled(scale.state, scale.time)
    a, w, b, v = law.constants
    unit = law.with_constants(np.ones_like(a), w, np.ones_like(b), v)
    unit = unit.unscaled(scale.state, scale.time)
    places, log_scale = [np.argwhere(mask) for mask in free], np.log(scale.size)
    starts = np.cumsum([0, *map(len, places)])
    jacobian = np.eye(starts[-1])
    for linear, power in ((0, 1), (2, 3)):
        for row, (i, j) in enumerate(places[linear], start=starts[linear]):
            jacobian[row, row] = unit.constants[linear][i, j]
            for column, (monomial, k) in enumerate(places[power], start=starts[power]):
                # Functions and sums have no units.
                if monomial == j and k < law.n_states:
                    jacobian[row, column] = -user.constants[linear][i, j] * log_scale[k]
    return jacobian
