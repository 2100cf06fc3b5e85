"""Short decimals: constants that data without noise place on one are written as it.

A constant v known within e is by chance as near to a decimal of d digits as that with probability

    P = 2 max(|v - m|, e) / 10 ** (k - d + 1),    m the decimal, k the power of ten of v

Where P is next to nothing the decimal is what was meant, and shorter: to write v takes ln(|v| / e), to write m
d ln 10. A law of such constants is taken where what it leaves is worse by less than it saves.

Source: Rissanen, Modeling by shortest data description, Automatica 14 (1978).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from odediscovery.data.scale import Scale
from odediscovery.families import power_is_rate
from odediscovery.laws.cost import Free
from odediscovery.laws.power_sum import PowerSum
from odediscovery.runtime.arrays import Array
from odediscovery.stages.polish.user_units import unscaled_errors
from odediscovery.stages.values import Polished


@dataclass(frozen=True)
class DecimalThresholds:
    """When a constant becomes a short decimal."""

    digits: int = 4  # most digits of a decimal [significant digits]
    chance: float = 1e-4  # a constant as near by chance is not set [probability]
    reach: float = 3.0  # farther away it is another number [standard errors]


DECIMALS = DecimalThresholds()


@dataclass(frozen=True)
class Rounded:
    """A law some of whose constants are short decimals in the user's units.

    Args:
        polished: that law in units of the scale; its other constants, and the starts, are what they were, and so are
            their errors.
        saved: by writing these constants so, in units of twice the log-likelihood.
    """

    polished: Polished
    saved: float


def nearest_decimal(value: float, error: float) -> tuple[float, float] | None:
    """The short decimal that a constant is, and what that saves in units of twice the log-likelihood; None for others.

    >>> nearest_decimal(0.07500000002, 1e-9)[0]
    0.075
    >>> nearest_decimal(0.0751, 1e-3), nearest_decimal(2.718281828, 1e-9)
    (None, None)
    """
    if not (value and math.isfinite(value) and 0.0 < error < math.inf):
        return None
    for digits in range(1, DECIMALS.digits + 1):
        decimal = float(f"{value:.{digits - 1}e}")
        spacing = 10.0 ** (math.floor(math.log10(abs(value))) - digits + 1)
        off = abs(value - decimal)
        chance = 2.0 * max(off, error) / spacing
        if off <= DECIMALS.reach * error and chance <= DECIMALS.chance:
            return decimal, -2.0 * math.log(chance)
    return None


def round_constants(found: Polished, scale: Scale) -> Rounded | None:
    """The law with every constant that is a short decimal in the user's units set to it; None where none is.

    Args:
        found: a law in units of `scale`, without flows.
    """
    user, errors = found.law.unscaled(scale.state, scale.time), unscaled_errors(found, scale)
    constants, free, saved = [c.copy() for c in user.constants], [mask.copy() for mask in found.free], 0.0
    for values, of, left, rates in zip(constants, errors.constants, free, _printed(user), strict=True):
        for at in map(tuple, np.argwhere(left)):
            short = nearest_decimal(float(values[at] * rates[at]), float(of[at] * abs(rates[at])))
            if short is not None:
                values[at], left[at] = short[0] / rates[at], False
                saved += short[1]
    if not saved:
        return None
    a, w, b, v = constants
    law = user.with_constants(a, w, b, v).rescaled(scale.state, scale.time)
    kept = np.concatenate([left[before] for left, before in zip(free, found.free, strict=True)])
    known = np.append(kept, np.ones(found.initial.size, dtype=bool))
    error = found.errors.with_constants(
        *(np.where(left, e, 0.0) for left, e in zip(free, found.errors.constants, strict=True))
    )
    fitted: Free = (free[0], free[1], free[2], free[3])
    return Rounded(replace(found, law=law, free=fitted, errors=error, joint=found.joint.part(known)), saved)


def _printed(law: PowerSum) -> tuple[Array, Array, Array, Array]:
    """What each constant is multiplied by when it is printed: an exponent of exp(r x) is a rate, exp(w r x)."""
    a, w, b, v = (np.ones_like(c) for c in law.constants)
    if law.features is not None:
        n = law.features.states
        for k, function in enumerate(law.features.functions):
            if power_is_rate(function):
                w[:, n + k] = function.rate
                v[:, n + k : n + k + 1] = function.rate  # empty without sums
    return a, w, b, v
