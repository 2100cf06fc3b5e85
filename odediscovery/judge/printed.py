"""Printed numbers are the law: digits enough that a reader who copies them has the fitted solution.

Two digits of a standard error are enough for a constant alone. Constants that mean something together
only, such as those of two exponentials that nearly cancel, are known much better together than one by
one; printed to the place of their own errors they would be another law. With x as fitted, x' as printed
and residuals of standard deviation sigma,

    min over starts   sqrt(sum ((x' - x) / sigma)^2) <= 0.1 sqrt(k)    over all samples and states,

by integrating both, and by how x moves with its starts. The variance of a curve with k fitted constants, in units
of sigma^2, adds up to k over all samples: the printed curve is off by a tenth of its own standard error on the
average. Starts are fitted beside the constants: what another start takes back, as it does along long and sensitive
series, needs no digit. Residuals with memory say less, so sigma is larger by the factor of the standard errors.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from odediscovery.data.series import TimeSeries
from odediscovery.judge.notes.constants import undetermined_constants
from odediscovery.judge.notes.note import Note
from odediscovery.laws.equations import Equations
from odediscovery.laws.power_sum import PowerSum
from odediscovery.laws.printing import as_printed
from odediscovery.laws.records import monomial_names
from odediscovery.runtime.arrays import Array
from odediscovery.runtime.monitor import TELLING, Monitor


@dataclass(frozen=True)
class PrintedThresholds:
    """When printed numbers are the law."""

    away: float = 0.1  # how far the printed curve may be from the fitted one [standard errors of the curve]
    most: int = 6  # most digits beyond the two of an error
    step: float = 1e-5  # step of a derivative by a start [the start]
    digits: int = 4  # digits of a constant whose error is unknown


PRINTED = PrintedThresholds()


def with_enough_digits(
    equations: Equations, series: TimeSeries, initial: Array, sigma: Array, monitor: Monitor
) -> Equations:
    """The equations, to be printed with as many digits as they need; with a few more where time is short.

    Args:
        initial: start values [trajectories, states].
        sigma: standard deviation of the residuals [states], times the factor of errors where residuals have memory;
            nan where nothing was measured.
        monitor: knows how much time is left to find out what other starts would take back.
    """
    law, errors = equations.law, equations.standard_errors
    if law is None or errors is None:
        return equations
    fitted = _curves(equations, series, initial)
    scale = np.where(sigma > 0.0, sigma, np.nan)
    fitted_constants = max(sum(int((e > 0.0).sum()) for e in errors.constants), 1)
    moves = monitor.in_time(TELLING, lambda: _moves(equations, series, initial, scale), list[Array]())
    for spare in range(PRINTED.most + 1):
        copied = as_printed(law, errors, PRINTED.digits, spare)
        printed = Equations.from_power_sum(
            equations.states, copied, time_name=equations.time_name, controls=equations.controls
        )
        away = (_curves(printed, series, initial) - fitted) / scale
        # Where the fitted law has no solution either, nothing can be compared.
        away = np.where(np.isfinite(fitted) & np.isfinite(scale), away, 0.0)
        if np.sqrt(np.sum(_beyond_starts(away, moves) ** 2)) <= PRINTED.away * np.sqrt(fitted_constants):
            return dataclasses.replace(equations, spare=spare)
    return dataclasses.replace(equations, spare=PRINTED.most)


def _moves(equations: Equations, series: TimeSeries, initial: Array, scale: Array) -> list[Array]:
    """How curves move with their starts, in standard deviations [samples * states, starts] a trajectory."""
    found = []
    for x0, run in zip(initial, series.trajectories, strict=True):
        here = equations.simulate(x0, run.time, controls=run.controls)
        columns = []
        for h in np.diag(PRINTED.step * np.maximum(np.abs(x0), np.nan_to_num(scale, nan=1.0))):
            moved = (equations.simulate(x0 + h, run.time, controls=run.controls) - here) / h.sum() / scale
            columns.append(np.nan_to_num(moved, posinf=0.0, neginf=0.0).ravel())
        found.append(np.stack(columns, axis=1))
    return found


def _beyond_starts(away: Array, moves: list[Array]) -> Array:
    """What other starts, which are fitted too, cannot take back of a distance [samples, states]; all without moves."""
    if not moves:
        return away.ravel()
    left, first = [], 0
    for block in moves:
        rows = len(block) // away.shape[1]
        own = away[first : first + rows].ravel()
        left.append(own - block @ np.linalg.lstsq(block, own, rcond=None)[0])
        first += rows
    joined: Array = np.concatenate(left)
    return joined


def _curves(equations: Equations, series: TimeSeries, initial: Array) -> Array:
    """Solutions at all samples of all trajectories, [samples, states]."""
    runs = zip(initial, series.trajectories, strict=True)
    return np.concatenate([equations.simulate(x0, run.time, controls=run.controls) for x0, run in runs])


def name_undetermined(equations: Equations) -> list[Note]:
    """A note that names the constants whose standard errors are as large as they are."""
    law, errors = equations.law, equations.standard_errors
    if law is None or errors is None:
        return []
    named = _undetermined(equations, law, errors)
    return [undetermined_constants(named)] if named else []


def _undetermined(equations: Equations, law: PowerSum, errors: PowerSum) -> list[str]:
    terms, found = monomial_names(equations), []
    for i, j in np.argwhere((law.coefficients != 0.0) & (errors.coefficients >= np.abs(law.coefficients))):
        if i < len(equations.states):
            term = "the constant term" if terms[j] == "1" else f"the coefficient of {terms[j]}"
            found.append(f"{term} in {equations.states[i]}'")
    names = [*equations.variables, *(["a function or sum"] * law.exponents.shape[1])]
    for j, k in np.argwhere((law.exponents != 0.0) & (errors.exponents >= np.abs(law.exponents))):
        found.append(f"the exponent of {names[k]} in {terms[j]}")
    for b, e in zip(law.constants[2].ravel(), errors.constants[2].ravel(), strict=True):
        if b and e >= abs(b):
            found.append(f"the constant {abs(b):.3g} of a sum")
    return found
