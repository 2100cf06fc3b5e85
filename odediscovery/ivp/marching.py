"""Runge-Kutta steps of one point in plain numbers, one after the other.

A step of arrays makes some thirty calls of numpy, which for a point of a few states take ten times as long as the
arithmetic. The rules are those of `rk4_step` (classical) and of torchdiffeq's rk4 (three eighths).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import TypeAlias

from odediscovery.ivp.straight_line import compiled

# (states, one by one) -> their rates.
PlainRates: TypeAlias = Callable[..., Sequence[float]]
# Rates, start and lengths of steps -> the start, and the states after every step.
March: TypeAlias = Callable[[PlainRates, Sequence[float], Sequence[float]], Iterator[tuple[float, ...]]]

BEGIN = """\
    {x#} = start
    yield {x#}
    for h in steps:
        if h:
"""
CLASSICAL = """\
            half, sixth = h / 2.0, h / 6.0
            {a#} = rates({x#})
            {b#} = rates({x# + half * a#})
            {c#} = rates({x# + half * b#})
            {d#} = rates({x# + h * c#})
            {x#} = {x# + sixth * (a# + 2.0 * (b# + c#) + d#)}
"""
THREE_EIGHTHS = """\
            third, eighth = h / 3.0, h / 8.0
            {a#} = rates({x#})
            {t#} = {third * a#}
            {b#} = rates({x# + t#})
            {c#} = rates({h * b# + x# - t#})
            {d#} = rates({(a# - b# + c#) * h + x#})
            {x#} = {((b# + c#) * 3.0 + a# + d#) * eighth + x#}
"""


@cache
def march(n: int, rule: str) -> March:
    """The function that goes from a point of n states on, step by step; a step of length 0 stays.

    Args:
        rule: `CLASSICAL` or `THREE_EIGHTHS`.

    Source: Hairer, Norsett, Wanner, Solving Ordinary Differential Equations I (1993), Table II.1.2.

    >>> [round(x, 7) for (x,) in march(1, CLASSICAL)(lambda x: (-x,), [1.0], [0.1, 0.0])]
    [1.0, 0.9048375, 0.9048375]
    """
    text = f"def march(rates, start, steps):\n{BEGIN}{rule}        yield {{x#}}\n"
    function: March = compiled("\n".join(_for_each(n, line) for line in text.split("\n")))
    return function


def _for_each(n: int, line: str) -> str:
    """A line with what stands in braces once for each state."""
    before, *parts = line.split("{")
    for part in parts:
        text, _, after = part.partition("}")
        before += ", ".join(text.replace("#", str(k)) for k in range(n)) + "," + after
    return before
