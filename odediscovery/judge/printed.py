"""Printed numbers are the law: digits enough that a reader who copies them has the fitted solution.

Two digits of a standard error are enough for a constant alone. Constants that mean something together
only, such as those of two exponentials that nearly cancel, are known much better together than one by
one; printed to the place of their own errors they would be another law. With x as fitted, x' as printed
and residuals of standard deviation sigma,

    sqrt(sum ((x' - x) / sigma)^2) <= 0.1    over all samples and states,

by integrating both. To first order no linear function of the constants then moves by more than a tenth
of its standard error.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from odediscovery.data.series import TimeSeries
from odediscovery.judge.notes import Note, undetermined_constants
from odediscovery.laws.equations import Equations
from odediscovery.laws.power_sum import PowerSum
from odediscovery.laws.printing import as_printed
from odediscovery.laws.records import monomial_names
from odediscovery.runtime.arrays import Array
from odediscovery.runtime.thresholds import Thresholds, threshold


@dataclass(frozen=True)
class PrintedThresholds(Thresholds):
    """When printed numbers are the law."""

    away: float = threshold(0.1, "how far the printed law may be from the fitted one", unit="standard errors")
    most: int = threshold(6, "most digits beyond the two of an error", origin="with them any error has eight")
    digits: int = threshold(4, "digits of a constant whose error is unknown", origin="what equations are printed with")


PRINTED = PrintedThresholds()


def with_enough_digits(equations: Equations, series: TimeSeries, initial: Array, sigma: Array) -> Equations:
    """The equations, to be printed with as many digits as they need.

    Args:
        initial: start values [trajectories, states].
        sigma: standard deviation of the residuals [states], nan where nothing was measured.
    """
    law, errors = equations.law, equations.standard_errors
    if law is None or errors is None:
        return equations
    fitted = _curves(equations, series, initial)
    scale = np.where(sigma > 0.0, sigma, np.nan)
    for spare in range(PRINTED.most + 1):
        copied = as_printed(law, errors, PRINTED.digits, spare)
        printed = Equations.from_power_sum(
            equations.states, copied, time_name=equations.time_name, controls=equations.controls
        )
        away = (_curves(printed, series, initial) - fitted) / scale
        # Where the fitted law has no solution either, nothing can be compared.
        away = np.where(np.isfinite(fitted) & np.isfinite(scale), away, 0.0)
        if np.sqrt(np.sum(away**2)) <= PRINTED.away:
            return dataclasses.replace(equations, spare=spare)
    return dataclasses.replace(equations, spare=PRINTED.most)


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
    for i, j in np.argwhere(errors.coefficients >= np.abs(law.coefficients)):
        if law.coefficients[i, j] and i < len(equations.states):
            found.append(f"the coefficient of {terms[j]} in {equations.states[i]}'")
    names = [*equations.variables, *(["a function or sum"] * law.exponents.shape[1])]
    for j, k in np.argwhere(errors.exponents >= np.abs(law.exponents)):
        if law.exponents[j, k]:
            found.append(f"the exponent of {names[k]} in {terms[j]}")
    for b, e in zip(law.constants[2].ravel(), errors.constants[2].ravel(), strict=True):
        if b and e >= abs(b):
            found.append(f"the constant {abs(b):.3g} of a sum")
    return found
