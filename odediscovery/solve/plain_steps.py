"""Runge-Kutta steps of a few points in plain numbers.

A few windows of a few members are a few points: of these a call of numpy takes longer than its arithmetic, and a step
makes some thirty. So each point goes its way alone, in straight-line code.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from odediscovery.ivp.marching import THREE_EIGHTHS, march
from odediscovery.networks.chain import AnyChain, Chain
from odediscovery.networks.plain_rates import member_rates
from odediscovery.runtime.arrays import Array
from odediscovery.runtime.monitor import check_time


@dataclass(frozen=True)
class PlainThresholds:
    """When points go their way alone."""

    # constants of all members times windows, with more of them arrays are faster; cost: measured
    most_numbers: int = 250


PLAIN = PlainThresholds()


def plain_nodes(
    chain: AnyChain, theta: Array, start: Float[np.ndarray, "members windows states"], steps: Array
) -> Float[np.ndarray, "members windows nodes states"] | None:
    """States after every step by Kutta's 3/8 rule, as `rk4_nodes` has them but for rounding.

    Args:
        theta: parameters [members, P].
        start: [members, windows, states].
        steps: lengths of the K steps of every window, [windows, K]; 0 beyond its end.

    Returns:
        [members, windows, 1 + K, states], the start first; None where arrays are faster, where a law is none
        of those of `member_rates`, or where a number is none or becomes too large.
    """
    members, windows, n = start.shape
    if not isinstance(chain, Chain):
        return None
    if windows * np.count_nonzero(theta) > PLAIN.most_numbers or not np.isfinite(theta).all():
        return None
    go, ways = march(n, THREE_EIGHTHS), steps.tolist()
    nodes = np.empty((members, windows, 1 + len(steps[0]), n))
    for m, of_member in enumerate(start.tolist()):
        rates = member_rates(chain, theta[m])
        if rates is None:
            return None
        for b, x in enumerate(of_member):
            check_time()
            try:
                nodes[m, b] = list(go(rates, x, ways[b]))
            except (ArithmeticError, ValueError):
                return None
    return nodes
