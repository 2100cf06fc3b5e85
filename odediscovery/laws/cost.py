"""What the constants of a law cost, in units of twice the log-likelihood.

    cost = constant_penalty * (free constants) + sum of snap_penalty(v) over exponents held at simple values v
           + 2 ln 4 * (functions of a state among the factors)
           + 6 * (exponentials and logarithms among them) + 6 * (those that stand beside another factor)

A free constant costs ln N + 2 ln p: ln N as in BIC, and 2 ln p because a search tries constants
in all p = n (n + 1) places where n equations could have one more, and the best of many useless
constants looks better than a useless constant should. An exponent held at a simple value was
not fitted; it only costs the choice among values of its kind, more where there are more of them. A factor
sin, cos, exp or log of a state is a choice as well: with them there are so many products that a few
useless ones always look good. The exponential or the logarithm of a state that has a dimension, and still
more exp(x)/x or x^2 log(x), is what nature rarely writes and what fits any smooth curve: such factors need
clear evidence. (Gompertz growth, which has one, is a textbook law and has a price of its own.)

Source: Chen and Chen, Extended Bayesian information criteria, Biometrika 95 (2008), gamma = 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from odediscovery.laws.power_sum import PowerSum
from odediscovery.runtime.arrays import Array, Mask

# Which of `PowerSum.constants` a fit may change.
Free: TypeAlias = tuple[Mask, Mask, Mask, Mask]


@dataclass(frozen=True)
class CostThresholds:
    """What choices cost, in units of twice the log-likelihood."""

    exponent_1: float = 1.0  # an exponent held at 1
    square: float = 2.5  # one held at 2, 1/2 or -1
    cube: float = 4.0  # one held at 3, 4, 3/2, -1/2, -2 or -3
    thirds: float = 8.0  # one held at a third, at 5/2 or -3/2, or elsewhere
    function: float = 2.0 * math.log(4.0)  # a function of a state; the choice of one of four: 2 ln 4
    dimensional: float = 6.0  # an exponential or a logarithm of a state
    mixed: float = 6.0  # one of these beside another factor


COSTS = CostThresholds()
# Functions whose argument has no dimension in a law of nature.
DIMENSIONAL = ("exp", "log")

# Exponents that laws of nature like, and the field of `CostThresholds` that says what each costs.
SIMPLE: dict[float, str] = {
    1.0: "exponent_1",
    **dict.fromkeys((2.0, 0.5, -1.0), "square"),
    **dict.fromkeys((3.0, -2.0, 1.5, -0.5, 4.0, -3.0), "cube"),
    **dict.fromkeys((1 / 3, 2 / 3, 4 / 3, 5 / 3, -1 / 3, -2 / 3, 2.5, -1.5), "thirds"),
}


def constant_penalty(states: int, samples: float) -> float:
    """What one free constant has to gain: ln N + 2 ln(n (n + 1)) for n states, N samples."""
    return value_penalty(samples) + float(2.0 * np.log(states * (states + 1)))


def value_penalty(samples: float) -> float:
    """The part of this that its value costs, ln N; the rest is the choice of its place."""
    return float(np.log(max(samples, 2.0)))


def snap_penalty(value: float) -> float:
    """What an exponent held at `value` costs; other than simple values count as the dearest."""
    penalty: float = getattr(COSTS, SIMPLE.get(value, "thirds"))
    return penalty


def all_free(law: PowerSum) -> Free:
    """Every constant that is not zero."""
    a, w, b, v = law.constants
    return a != 0, w != 0, b != 0, v != 0


def but_whole_powers(law: PowerSum) -> Free:
    """Every constant that is not zero, but for powers that are whole numbers.

    States that change their sign have no other powers, and the powers of a series are not to bend.
    """
    (a, w, b, v), (_, power, _, inner) = all_free(law), law.constants
    return a, w & (power != np.round(power)), b, v & (inner != np.round(inner))


def none_free(law: PowerSum) -> Free:
    """Nothing is fitted."""
    a, w, b, v = (np.zeros(c.shape, dtype=bool) for c in law.constants)
    return a, w, b, v


def count(free: Free) -> int:
    """How many constants are free."""
    return int(sum(mask.sum() for mask in free))


def cost(law: PowerSum, free: Free, samples: float) -> float:
    """The cost above.

    Args:
        free: what was fitted.
        samples: number of observed values N.
    """
    _, w, _, v = law.constants
    held = [*w[(w != 0) & ~free[1]], *v[(v != 0) & ~free[3]]]
    known = count(free) * constant_penalty(law.n_states, samples) + sum(snap_penalty(float(e)) for e in held)
    if law.features is None:
        return known
    own = slice(law.n_states, law.features.simple)
    known += COSTS.function * (np.count_nonzero(w[:, own]) + np.count_nonzero(v[:, own]))
    strange = [law.n_states + k for k, f in enumerate(law.features.functions) if f.name in DIMENSIONAL]
    among = w[:, strange] != 0
    beside = among & ((w != 0).sum(axis=1, keepdims=True) > 1)
    return float(known + COSTS.dimensional * among.sum() + COSTS.mixed * beside.sum())


def picked(law: PowerSum, free: Free) -> Array:
    """The free constants of a law in one row, in the order of `filled`."""
    return np.concatenate([c[mask] for c, mask in zip(law.constants, free, strict=True)])


def filled(
    constants: tuple[Array, Array, Array, Array], free: Free, values: Array
) -> tuple[Array, Array, Array, Array]:
    """The constants with the free ones replaced by `values`, in order."""
    a, w, b, v = (c.copy() for c in constants)
    parts = np.split(values, np.cumsum([mask.sum() for mask in free])[:-1])
    for changed, mask, part in zip((a, w, b, v), free, parts, strict=True):
        changed[mask] = part
    return a, w, b, v
