"""The constants of a result with their units, where the columns say theirs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from odediscovery.data.series import TimeSeries
from odediscovery.knowledge.dimensions import Dimensions, unit_text, units_of_constants, units_of_names
from odediscovery.laws.equations import Equations
from odediscovery.laws.printing import law_constant, order
from odediscovery.laws.records import constants
from odediscovery.result.named import NamedConstants

# Equations whose constants are printed with units.
MAX_STATES = 6
# Letters that stand beside a small drawing on one line.
LONGEST_LABEL = 26


def constant_records(
    equations: Equations, freedom: float | None, units: Mapping[str, str]
) -> dict[str, list[dict[str, Any]]]:
    """The constants of every equation as plain records, with their units where columns have any.

    Args:
        equations: with their constants.
        freedom: residual degrees of freedom of the fit, None where unknown.
        units: of the states and the time, by name.
    """
    records = constants(equations, freedom)
    found = units_of_constants(replace(equations, units=units)) if units else {}
    for state, own in records.items():
        for record, unit in zip(own, found.get(state, []), strict=False):
            record["unit"] = unit
    return records


def named_units(named: NamedConstants | None, series: TimeSeries) -> list[str | None]:
    """The units of named constants; empty where there are none, or no units are known."""
    if named is None or not series.units:
        return []
    return units_of_names(
        named.lines, named.names, series.states, series.time_name, series.units, controls=series.controls
    )


def rate_label(series: TimeSeries, state: str) -> str:
    """What an axis of rates is called, with the unit where the columns say theirs.

    >>> from odediscovery import load_csv
    >>> yeast = load_csv("data/yeast_carlson_1913.csv", units="t=h,biomass=g/L")
    >>> rate_label(yeast, "biomass")
    'rate of biomass [g/(L h)]'
    """
    unit = unit_text(Dimensions(series.states, series.time_name, series.units).rate(state))
    told = f"rate of {state} [{unit}]" if unit not in (None, "1") else f"rate of {state}"
    return told if len(told) <= LONGEST_LABEL else told.replace(" [", "\n[")


def named_record(named: NamedConstants, series: TimeSeries) -> dict[str, Any]:
    """Named constants as `result.json` has them."""
    units = named_units(named, series)
    return named.record() | ({"units": units} if units else {})


def units_text(
    equations: Equations,
    series: TimeSeries,
    named: NamedConstants | None = None,
    textbook: NamedConstants | None = None,
    digits: int = 4,
) -> str:
    """The constants with their units, a line an equation; nothing where no unit is known.

    Args:
        equations, series, named, textbook: of a result.
        digits: of constants without a standard error.

    >>> from odediscovery import fit_constants, load_csv
    >>> yeast = load_csv("data/yeast_carlson_1913.csv", units="t=h,biomass=g/L")
    >>> found = fit_constants(yeast, "biomass' = r*biomass*(1 - biomass/K)")
    >>> print(units_text(found.equations, yeast, found.named))
    with units: r = 0.5470(56) 1/h, K = 663.0(17) g/L
    """
    if named is not None:
        constants = zip(named.names, named.values, named.errors, named_units(named, series), strict=False)
        told = [f"{n} = {law_constant(v, e, digits)} {unit}" for n, v, e, unit in constants if unit not in (None, "1")]
        return f"with units: {', '.join(told)}" if told else ""
    if not series.units:
        return ""
    known = zip(() if textbook is None else textbook.names, named_units(textbook, series), strict=False)
    own = ", ".join(f"{name} in {unit}" for name, unit in known if unit not in (None, "1"))
    return own or "\n".join(_coefficients(replace(equations, units=series.units), digits))


def _coefficients(equations: Equations, digits: int) -> list[str]:
    """The coefficients of every equation with their units, in the order in which they are printed."""
    law, errors = equations.law, equations.standard_errors
    if law is None:
        return []
    lines = []
    for i, (state, units) in enumerate([*units_of_constants(equations).items()][:MAX_STATES]):
        places = [int(j) for j in np.flatnonzero(law.coefficients[i])]
        by_place = dict(zip(places, units, strict=False))
        parts = []
        for j in sorted(places, key=lambda j: order(float(law.coefficients[i, j]), law.exponents[j])):
            if by_place[j] in (None, "1"):
                continue
            error = float("nan") if errors is None else float(errors.coefficients[i, j])
            value = law_constant(float(law.coefficients[i, j]), error, digits, equations.spare)
            parts.append(f"{value} {by_place[j]}")
        if parts:
            lines.append(f"units in {state}': {', '.join(parts)}")
    return lines
