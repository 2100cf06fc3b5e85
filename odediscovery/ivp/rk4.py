"""The classical fourth-order Runge-Kutta method."""

from __future__ import annotations

from collections.abc import Callable

from jaxtyping import Float

from odediscovery.runtime.arrays import Array
from odediscovery.runtime.monitor import check_time


def rk4_step(
    rhs: Callable[[float, Array], Array], x: Float[Array, "*shape"], h: Array | float
) -> Float[Array, "*shape"]:
    """One step of length h of dx/dt = f:

        k1 = f(0, x),   k2 = f(1/2, x + h k1 / 2),   k3 = f(1/2, x + h k2 / 2),   k4 = f(1, x + h k3)
        x + h (k1 + 2 k2 + 2 k3 + k4) / 6

    Args:
        rhs: (share of the step that has passed, x) -> dx/dt.
        x: any shape.
        h: length of the step; an array broadcasts against x.

    Source: Kutta (1901); Hairer, Norsett, Wanner, Solving Ordinary Differential Equations I (1993),
    Table II.1.2.

    >>> import numpy as np
    >>> rk4_step(lambda _, x: -x, np.array([1.0]), 0.1).round(7).tolist()
    [0.9048375]
    """
    check_time()
    half = h / 2
    k1 = rhs(0.0, x)
    k2 = rhs(0.5, x + half * k1)
    k3 = rhs(0.5, x + half * k2)
    k4 = rhs(1.0, x + h * k3)
    return x + h / 6 * (k1 + 2 * (k2 + k3) + k4)
