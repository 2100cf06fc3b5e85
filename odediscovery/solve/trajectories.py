"""Accurate solutions of a law through whole trajectories, and what they leave of the data.

scipy's LSODA at tight tolerance: an adaptive solver of another family than training used. Nothing
that is judged or printed depends on the step grids of training.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
from scipy.integrate import odeint

from odediscovery.data.series import TimeSeries
from odediscovery.data.signals import Trajectory, drifts
from odediscovery.laws.pointwise import Rates, point_field
from odediscovery.laws.power_sum import PowerSum
from odediscovery.runtime.arrays import Array

# Relative tolerance of clean data; in noise the share of its standard deviation that the solver
# may add.
RTOL, LOOSEST, OF_NOISE = 1e-9, 1e-6, 1e-5
# Relative tolerance over the absolute one (states have an rms of 1).
RELATIVE = 100.0
# What scipy's odeint says of a solve that went well.
DONE = "Integration successful."
# A solve that needs more evaluations than this has met a singularity or a stiff wall.
MOST_EVALUATIONS, EVALUATIONS_EACH = 5_000, 100
# States (with an rms of 1) that are nowhere near the data any more, and after how many evaluations
# that is looked at.
ABSURD, LOOK = 1e10, 64


def tolerance(sigma: Array) -> float:
    """Relative tolerance of solves that are compared with residuals of size sigma [states]."""
    return float(np.clip(OF_NOISE * np.min(sigma), RTOL, LOOSEST))


class _Lost(Exception):
    """The solver was given up."""


def integrate(law: PowerSum, start: Array, run: Trajectory, rtol: float) -> Array | None:
    """States at the run's times [n, states], None where the law blows up or the solver is lost.

    The solver begins anew where a line of the inputs ends.
    """
    dx_dt, u, slopes = point_field(law), run.inputs, drifts([run])
    if u is None:
        return _solved(dx_dt, start, run.time, rtol)
    found = np.hstack([np.tile(start, (len(run.time), 1)), u.values])
    for first, last in u.lines():
        part = _solved(dx_dt, found[first], run.time[first : last + 1], rtol, slopes[first])
        if part is None:
            return None
        found[first : last + 1, : len(start)] = part[:, : len(start)]
    return found


def _solved(law: Rates, start: Array, times: Array, rtol: float, drift: Array | None = None) -> Array | None:
    """The same along one line, on which the inputs have the rates `drift` [states]."""
    count, most = 0, MOST_EVALUATIONS + EVALUATIONS_EACH * len(times)

    def rates(t: float, x: Array) -> Sequence[float] | Array:
        nonlocal count
        count += 1
        if count > most or (count % LOOK == 0 and np.abs(x).max() > ABSURD):
            raise _Lost
        return law(t, x) if drift is None else np.asarray(law(t, x)) + drift

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # LSODA reports trouble by warnings; None says it better
        try:
            y, how = odeint(
                rates, start, times, tfirst=True, full_output=True, rtol=rtol, atol=rtol / RELATIVE, mxstep=most
            )
        except (_Lost, ValueError, FloatingPointError):
            return None
    found: Array = y
    return found if how["message"] == DONE and np.isfinite(found).all() else None


def residual_squares(
    law: PowerSum, series: TimeSeries, initial: Array, shape: Sequence[Array] | None = None, rtol: float = RTOL
) -> tuple[Array, Array, Array]:
    """Sums of squared residuals, weighted and plain, and number of values of every state.

    Args:
        shape: noise of each sample relative to the others (default: all alike).
        rtol: relative tolerance of the solver.
    """
    squares, plain, counts = (np.zeros(law.n_states) for _ in range(3))
    shape = shape or [np.ones_like(t.values) for t in series.trajectories]
    for r, t, s in zip(residuals(law, series, initial, rtol), series.trajectories, shape, strict=True):
        r[:, series.driven] = np.nan
        counts += np.isfinite(t.values).sum(axis=0) * ~series.driven
        of_noise = np.nansum((r / s) ** 2, axis=0)
        lost = np.isinf(r).any()
        squares += np.inf if lost else of_noise
        plain += np.inf if lost else np.nansum(r**2, axis=0)
    return squares, plain, counts


def solutions(law: PowerSum, series: TimeSeries, initial: Array, rtol: float = RTOL) -> list[Array]:
    """The law's states at all times [samples, states] a trajectory, inf where it blows up."""
    found = []
    for t, x0 in zip(series.trajectories, initial, strict=True):
        y = integrate(law, x0, t, rtol)
        found.append(np.full_like(t.values, np.inf) if y is None else y)
    return found


def residuals(law: PowerSum, series: TimeSeries, initial: Array, rtol: float = RTOL) -> list[Array]:
    """Law minus data [samples, states] a trajectory: nan where missing, inf where it blows up."""
    found = solutions(law, series, initial, rtol)
    return [y - t.values for y, t in zip(found, series.trajectories, strict=True)]
