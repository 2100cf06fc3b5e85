"""Runge-Kutta steps of a few points in plain numbers.

A few windows of a few members are a few points: of these a call of numpy takes longer than its arithmetic, and a step
makes some thirty. So each point goes its way alone, in straight-line code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from jaxtyping import Float

from odediscovery.ivp.straight_line import compiled
from odediscovery.laws.pointwise import PlainRates
from odediscovery.networks.chain import Chain
from odediscovery.networks.plain_rates import member_rates
from odediscovery.runtime.arrays import Array
from odediscovery.runtime.monitor import check_time
from odediscovery.runtime.thresholds import Thresholds, threshold

_March: TypeAlias = Callable[[PlainRates, Sequence[float], Sequence[float]], Iterator[tuple[float, ...]]]


@dataclass(frozen=True)
class PlainThresholds(Thresholds):
    """When points go their way alone."""

    most_numbers: int = threshold(
        250, "constants of all members times windows, with more of them arrays are faster", origin="cost: measured"
    )


PLAIN = PlainThresholds()


def plain_nodes(
    chain: Chain, theta: Array, start: Float[np.ndarray, "members windows states"], steps: Array
) -> Float[np.ndarray, "members windows nodes states"] | None:
    """States after every step by Kutta's 3/8 rule, as `rk4_nodes` has them but for rounding.

    Args:
        theta: parameters [members, P].
        start: [members, windows, states].
        steps: lengths of the K steps of every window, [windows, K]; 0 beyond its end.

    Returns:
        [members, windows, 1 + K, states], the start first; None where arrays are faster, where a law has
        powers that turn, or where a number becomes too large.
    """
    members, windows, n = start.shape
    if windows * np.count_nonzero(theta) > PLAIN.most_numbers:
        return None
    march, ways = _march(n), steps.tolist()
    nodes = np.empty((members, windows, 1 + len(steps[0]), n))
    for m, of_member in enumerate(start.tolist()):
        rates = member_rates(chain, theta[m])
        if rates is None:
            return None
        for b, x in enumerate(of_member):
            check_time()
            try:
                nodes[m, b] = list(march(rates, x, ways[b]))
            except (ArithmeticError, ValueError):
                return None
    return nodes


def _march(n: int) -> _March:
    """Rates of n states, start and steps -> states after every step; the arithmetic of `three_eighths_step`."""

    def each(text: str) -> str:
        return ", ".join(text.replace("#", str(k)) for k in range(n)) + ","

    text = f"""
def march(rates, start, steps):
    {each("x#")} = start
    yield {each("x#")}
    for h in steps:
        if h:
            third, eighth = h / 3.0, h / 8.0
            {each("a#")} = rates({each("x#")})
            {each("t#")} = {each("third * a#")}
            {each("b#")} = rates({each("x# + t#")})
            {each("c#")} = rates({each("h * b# + x# - t#")})
            {each("d#")} = rates({each("(a# - b# + c#) * h + x#")})
            {each("x#")} = {each("((b# + c#) * 3.0 + a# + d#) * eighth + x#")}
        yield {each("x#")}
"""
    march: _March = compiled(text)
    return march
