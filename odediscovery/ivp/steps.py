"""Runge-Kutta steps: of arrays, and of one point in plain numbers by straight-line code.

A step of arrays makes some thirty calls of numpy, which for a point of a few states take ten times as long as the
arithmetic. Straight-line code is written out and compiled once; it holds names and places alone, and never anything
that people or files say: all numbers come as arguments. Whatever is no arithmetic is refused. The rules are the
classical one and, as torchdiffeq has it, that of three eighths.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from typing import Any, TypeAlias

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


# Texts whose function is kept, about 3 kB each.
REMEMBERED = 1024
# No attributes, no imports, no strings, no deletions: with no built-in names nothing else can be reached.
ARITHMETIC = (
    *(ast.Module, ast.FunctionDef, ast.arguments, ast.arg, ast.Return, ast.Expr, ast.Yield),
    *(ast.For, ast.If, ast.IfExp, ast.Compare, ast.Lt),
    *(ast.Assign, ast.Tuple, ast.Name, ast.Load, ast.Store, ast.Call, ast.Constant),
    *(ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow),
)


@lru_cache(maxsize=REMEMBERED)
def compiled(text: str) -> Callable[..., Any]:
    """The one function that a text defines; it sees its arguments and nothing else.

    Raises:
        ValueError: the text is no arithmetic, or not one function.

    >>> compiled("def twice(x):\\n    return x + x\\n")(3.0)
    6.0
    """
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if not isinstance(node, ARITHMETIC) or (isinstance(node, ast.Constant) and type(node.value) is not float):
            raise ValueError(f"expected arithmetic, got {type(node).__name__}: {ast.unparse(node)}")
        if isinstance(node, ast.FunctionDef) and (node.decorator_list or node.args.defaults):
            raise ValueError(f"expected a function with plain arguments, got: {ast.unparse(node)}")
    if len(tree.body) != 1 or not isinstance(tree.body[0], ast.FunctionDef):
        raise ValueError(f"expected one function, got: {text}")
    names: dict[str, Any] = {}
    exec(compile(tree, "<straight line>", "exec"), {"__builtins__": {}}, names)
    function: Callable[..., Any] = names[tree.body[0].name]
    return function


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
