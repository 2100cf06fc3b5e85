"""Solvers of initial value problems: Runge-Kutta steps of arrays and of plain numbers, and LSODA.

A step of arrays makes some thirty calls of numpy, which for a point of a few states take ten times as long as the
arithmetic. Straight-line code is therefore generated and compiled once. It contains only names and indices, never
input from users or files, and anything but arithmetic is rejected. Networks use the 3/8 rule, as torchdiffeq does, and
laws the classical rule.

A solve by LSODA has a budget of evaluations: without it, a law with a singularity or a wrong constant would cost more
than all good laws together.

Source: Petzold, SIAM J. Sci. Stat. Comput. 4 (1983); Hindmarsh, ODEPACK (1983); scipy's interface.
"""

from __future__ import annotations

import ast
import math
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float
from scipy.integrate import LSODA, odeint

from odediscovery.runtime.arrays import Array
from odediscovery.runtime.monitor import check_time


def rk4_step(
    rhs: Callable[[float, Array], Array], x: Float[Array, "*shape"], h: Array | float
) -> Float[Array, "*shape"]:
    """One step of length h of dx/dt = f:

        k1 = f(0, x),   k2 = f(1/2, x + h k1 / 2),   k3 = f(1/2, x + h k2 / 2),   k4 = f(1, x + h k3)
        x + h (k1 + 2 k2 + 2 k3 + k4) / 6

    Source: Kutta (1901); Hairer, Norsett, Wanner, Solving Ordinary Differential Equations I (1993),
    Table II.1.2.
    """
    check_time()
    half = h / 2
    k1 = rhs(0.0, x)
    k2 = rhs(0.5, x + half * k1)
    k3 = rhs(0.5, x + half * k2)
    k4 = rhs(1.0, x + h * k3)
    return x + h / 6 * (k1 + 2 * (k2 + k3) + k4)


def three_eighths_step(rhs: Callable[[Any], Any], x: Any, h: Any) -> Any:
    """One step of length h from x, an array or tensor, by Kutta's 3/8 rule, the "rk4" of torchdiffeq.

    Source: Hairer, Norsett, Wanner, Solving Ordinary Differential Equations I (1993), Table II.1.2.
    """
    check_time()
    k1 = rhs(x)
    third = h / 3.0 * k1
    k2 = rhs(x + third)
    k3 = rhs(h * k2 + x - third)
    k4 = rhs((k1 - k2 + k3) * h + x)
    return ((k2 + k3) * 3.0 + k1 + k4) * (h / 8.0) + x


# Without attributes, imports, strings, deletions and built-in names, code can reach nothing but its arguments.
ARITHMETIC = (
    *(ast.Module, ast.FunctionDef, ast.arguments, ast.arg, ast.Return, ast.Expr, ast.Yield),
    *(ast.For, ast.If, ast.IfExp, ast.Compare, ast.Lt),
    *(ast.Assign, ast.Tuple, ast.Name, ast.Load, ast.Store, ast.Call, ast.Constant),
    *(ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow),
)


@lru_cache(maxsize=1024)  # about 3 kB each
def compiled(text: str) -> Callable[..., Any]:
    """The single function that a text defines, with access to its arguments only."""
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
# (rates, start, lengths of steps) -> the start, then the states after every step.
March: TypeAlias = Callable[[PlainRates, Sequence[float], Sequence[float]], Iterator[tuple[float, ...]]]

# The parts in braces are repeated for each state.
MARCH = """\
def march(rates, start, steps):
    {x#} = start
    yield {x#}
    for h in steps:
        if h:
            third, eighth = h / 3.0, h / 8.0
            {a#} = rates({x#})
            {t#} = {third * a#}
            {b#} = rates({x# + t#})
            {c#} = rates({h * b# + x# - t#})
            {d#} = rates({(a# - b# + c#) * h + x#})
            {x#} = {((b# + c#) * 3.0 + a# + d#) * eighth + x#}
        yield {x#}
"""


@cache
def march(n: int) -> March:
    """The function that integrates n states by Kutta's 3/8 rule; a step of length 0 leaves them unchanged."""
    function: March = compiled(
        re.sub("{(.*?)}", lambda part: "".join(part[1].replace("#", str(k)) + "," for k in range(n)), MARCH)
    )
    return function


# (t, states [states]) -> dx/dt [states].
Rhs: TypeAlias = Callable[[float, Array], Sequence[float] | Array]
States: TypeAlias = Float[Array, " states"]
Times: TypeAlias = Float[Array, " times"]
Course: TypeAlias = Float[Array, "times states"]


class _GivenUp(Exception):
    """Raised when the budget is spent, or the states or right-hand sides exceed all bounds."""


def _budgeted(rhs: Rhs, max_evaluations: int, largest: float = math.inf) -> Rhs:
    """The right-hand side, which raises `_GivenUp` beyond a number of evaluations or a size of the states."""
    evaluations = 0

    def counted(t: float, x: Array) -> Sequence[float] | Array:
        nonlocal evaluations
        evaluations += 1
        if evaluations > max_evaluations:
            raise _GivenUp
        if evaluations % 64 == 0:
            check_time()
            if np.abs(x).max() > largest:
                raise _GivenUp
        return rhs(t, x)

    return counted


def solve_whole(
    rhs: Rhs,
    start: States,
    times: Times,
    rtol: float,
    atol: States | float,
    largest: float = math.inf,
    max_evaluations: int | None = None,
) -> Course | None:
    """States at all times; None if the solver fails. The usual budget is that of a candidate law, a small one."""
    most = 5_000 + 100 * len(times) if max_evaluations is None else max_evaluations
    counted, options = _budgeted(rhs, most, largest), {"rtol": rtol, "atol": atol, "mxstep": most}
    # Failures that LSODA warns about return None.
    with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
        try:
            x, info = odeint(counted, start, times, tfirst=True, full_output=True, **options)
        except (_GivenUp, ValueError, ArithmeticError):
            return None
    states: Array = x
    return states if info["message"] == "Integration successful." and np.isfinite(states).all() else None


def solve_until_failure(
    rhs: Rhs, start: States, times: Times, rtol: float, atol: States | float, max_evaluations: int | None = None
) -> Course:
    """States at all times; nan from where the solver fails.

    If the fast solve fails, the solver is stepped explicitly, which is slower, but keeps the states before the failure.
    """
    states = np.full((len(times), len(start)), np.nan)
    if not len(times) or not np.isfinite(start).all() or not np.isfinite(times).all():
        return states
    states[times == times[0]] = start
    span = float(times[-1] - times[0])
    if 0.0 < span < math.inf and not 1e-100 < span < 1e100:
        # The square of such steps over- or underflows: measure time in units of the whole span.
        first = float(times[0])
        inner: Rhs = lambda s, x: span * np.asarray(rhs(first + span * s, x))  # noqa: E731
        return solve_until_failure(inner, start, (times - first) / span, rtol, atol, max_evaluations)

    # A solution that needs more is at a singularity or extremely stiff.
    most = 100_000 if max_evaluations is None else max_evaluations
    quick = int(0.2 * most)
    whole = solve_whole(rhs, start, times, rtol, atol, max_evaluations=quick)
    return _solve_by_steps(rhs, states, times, rtol, atol, most - quick) if whole is None else whole


def _solve_by_steps(
    rhs: Rhs, states: Array, times: Array, rtol: float, atol: Array | float, max_evaluations: int
) -> Array:
    """States at all times that the solver reaches; `states` [times, states] has the first one, else nan."""

    def finite(t: float, x: Array) -> Sequence[float] | Array:
        dx_dt = rhs(t, x)
        if not math.isfinite(sum(dx_dt)):
            raise _GivenUp
        return dx_dt

    counted = _budgeted(finite, max_evaluations)
    with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
        try:
            solver = LSODA(counted, float(times[0]), states[0], float(times[-1]), rtol=rtol, atol=atol)
            while solver.status == "running":
                solver.step()
                if solver.status == "failed" or not np.isfinite(solver.y).all():
                    break
                inside = (times > solver.t_old) & (times <= solver.t)
                if inside.any():
                    states[inside] = solver.dense_output()(times[inside]).T
        except (_GivenUp, ArithmeticError, ValueError):
            pass
    return states
