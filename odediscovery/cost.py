"""What the constants of a law cost, in units of twice the log-likelihood.

    cost = price * (free constants) + sum of kind(v) over exponents held at simple values v

A free constant costs ln N + 2 ln p: ln N as in BIC, and 2 ln p because a search tries constants
in all p = n (n + 1) places where n equations could have one more, and the best of many useless
constants looks better than a useless constant should. An exponent held at a simple value was
not fitted; it only costs the choice of its kind, dearer the more values that kind has.

Source: Chen and Chen, Extended Bayesian information criteria, Biometrika 95 (2008), gamma = 1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from odediscovery.powersum import PowerSum

Mask = NDArray[np.bool_]

# Exponents that laws of nature like, and what each kind costs.
SIMPLE: dict[float, float] = {
    1.0: 1.0,
    **dict.fromkeys((2.0, 0.5, -1.0), 2.5),
    **dict.fromkeys((3.0, -2.0, 1.5, -0.5, 4.0, -3.0), 4.0),
    **dict.fromkeys((1 / 3, 2 / 3, 4 / 3, 5 / 3, -1 / 3, -2 / 3, 2.5, -1.5), 8.0),
}


def price(states: int, samples: float) -> float:
    """What one free constant has to gain: ln N + 2 ln(n (n + 1)) for n states, N samples."""
    return float(np.log(max(samples, 2.0)) + 2.0 * np.log(states * (states + 1)))


def kind(value: float) -> float:
    """What an exponent held at `value` costs; other than simple values count as the dearest."""
    return SIMPLE.get(value, max(SIMPLE.values()))


def all_free(law: PowerSum) -> tuple[Mask, Mask]:
    """Every coefficient and exponent that is not zero: what a fit may change."""
    return law.coefficients != 0, law.exponents != 0


def cost(law: PowerSum, free: tuple[Mask, Mask], samples: float) -> float:
    """The cost above.

    Args:
        free: what was fitted, (bool like coefficients, bool like exponents).
        samples: number of observed values N.
    """
    held = law.exponents[(law.exponents != 0) & ~free[1]]
    count = int(free[0].sum() + free[1].sum())
    return count * price(law.n_states, samples) + sum(kind(float(v)) for v in held)
