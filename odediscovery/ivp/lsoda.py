"""The one door to LSODA, an adaptive solver that switches to a stiff method where it has to.

A solve has a budget of evaluations: without it, a law with a singularity or a wrong constant would
cost more than all good laws together.

Source: Petzold, SIAM J. Sci. Stat. Comput. 4 (1983); Hindmarsh, ODEPACK (1983); scipy's interface.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from jaxtyping import Float
from scipy.integrate import LSODA, odeint

from odediscovery.runtime.arrays import Array
from odediscovery.runtime.monitor import check_time

# (t, states [states]) -> dx/dt [states].
Rhs: TypeAlias = Callable[[float, Array], Sequence[float] | Array]

# Spans of time below this, or above its inverse, are no ordinary units.
SHORTEST = 1e-100
# What odeint says of a solve that went well.
_SUCCESS = "Integration successful."


@dataclass(frozen=True)
class LsodaThresholds:
    """What a solve may cost."""

    # A solution to show that needs more has met a singularity or a stiff wall [evaluations of the right-hand side]
    max_evaluations: int = 100_000
    quick: float = 0.2  # spent on a solution as a whole before one is stepped by hand [share of the evaluations]
    # The same for a law on trial, whatever the number of samples [evaluations of the right-hand side]
    trial_evaluations: int = 5_000
    trial_evaluations_per_sample: int = 100  # and for every sample [evaluations of the right-hand side]
    # Evaluations after which the time and the size of the states are checked again
    evaluations_between_checks: int = 64


BUDGETS = LsodaThresholds()


class _GivenUp(Exception):
    """The budget is spent, or the states or the right-hand sides left all bounds."""


def _budgeted(rhs: Rhs, max_evaluations: int, largest: float = math.inf) -> Rhs:
    """The right-hand side, which gives up beyond a number of evaluations or a size of the states."""
    evaluations, each = 0, BUDGETS.evaluations_between_checks

    def counted(t: float, x: Array) -> Sequence[float] | Array:
        nonlocal evaluations
        evaluations += 1
        if evaluations > max_evaluations:
            raise _GivenUp
        if evaluations % each == 0:
            check_time()
            if np.abs(x).max() > largest:
                raise _GivenUp
        return rhs(t, x)

    return counted


def solve_whole(
    rhs: Rhs, start: Float[Array, " states"], times: Float[Array, " times"], rtol: float, atol: float, largest: float
) -> Float[Array, "times states"] | None:
    """States at all times [times, states], None where the solver fails on the way.

    For laws on trial: fast, and given up soon.

    Args:
        rhs: (t, x) -> dx/dt.
        start: states at the first time [states].
        times: increasing [times].
        rtol, atol: tolerances, relative and absolute.
        largest: absolute value of a state from which on the solve is given up.

    >>> solve_whole(lambda t, x: -x, np.array([1.0]), np.array([0.0, 1.0]), 1e-9, 1e-11, 1e10).round(6).tolist()
    [[1.0], [0.367879]]
    """
    most = BUDGETS.trial_evaluations + BUDGETS.trial_evaluations_per_sample * len(times)
    return _solve_quickly(rhs, start, times, rtol, atol, most, largest)


def _solve_quickly(
    rhs: Rhs,
    start: Array,
    times: Array,
    rtol: float,
    atol: Array | float,
    max_evaluations: int,
    largest: float = math.inf,
) -> Array | None:
    counted = _budgeted(rhs, max_evaluations, largest)
    options = {"rtol": rtol, "atol": atol, "mxstep": max_evaluations}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # LSODA reports trouble by warnings; None says it better
        try:
            x, info = odeint(counted, start, times, tfirst=True, full_output=True, **options)
        except (_GivenUp, ValueError, ArithmeticError):
            return None
    states: Array = x
    return states if info["message"] == _SUCCESS and np.isfinite(states).all() else None


def solve_until_failure(
    rhs: Rhs,
    start: Float[Array, " states"],
    times: Float[Array, " times"],
    rtol: float,
    atol: Float[Array, " states"] | float,
    max_evaluations: int | None = None,
) -> Float[Array, "times states"]:
    """States at all times [times, states]; nan from where the solver fails on.

    Where the solution does not last it is stepped by hand, which is slower, but keeps what was reached.

    Args:
        rhs: (t, x) -> dx/dt.
        start: states at the first time [states].
        times: increasing [times].
        rtol, atol: tolerances, relative and absolute.
        max_evaluations: of the right-hand side (default: `BUDGETS.max_evaluations`).

    >>> exploding = solve_until_failure(lambda t, x: x**2, np.array([1.0]), np.array([0.0, 0.5, 2.0]), 1e-9, 1e-9)
    >>> exploding.round(6).tolist()
    [[1.0], [2.0], [nan]]
    """
    states = np.full((len(times), len(start)), np.nan)
    if not len(times) or not np.isfinite(start).all() or not np.isfinite(times).all():
        return states
    states[times == times[0]] = start
    span = float(times[-1] - times[0])
    if 0.0 < span < math.inf and not SHORTEST < span < 1.0 / SHORTEST:
        # Steps whose square is no number: time in units of the whole span.
        first = float(times[0])
        inner: Rhs = lambda s, x: span * np.asarray(rhs(first + span * s, x))  # noqa: E731
        return solve_until_failure(inner, start, (times - first) / span, rtol, atol, max_evaluations)

    most = BUDGETS.max_evaluations if max_evaluations is None else max_evaluations
    quick = int(BUDGETS.quick * most)
    whole = _solve_quickly(rhs, start, times, rtol, atol, quick)
    return _solve_by_steps(rhs, states, times, rtol, atol, most - quick) if whole is None else whole


def _solve_by_steps(
    rhs: Rhs, states: Array, times: Array, rtol: float, atol: Array | float, max_evaluations: int
) -> Array:
    """States at all times as far as the solver gets; `states` holds the first one and nan [times, states]."""

    def finite(t: float, x: Array) -> Sequence[float] | Array:
        dx_dt = rhs(t, x)
        if not math.isfinite(sum(dx_dt)):
            raise _GivenUp
        return dx_dt

    counted = _budgeted(finite, max_evaluations)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
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
