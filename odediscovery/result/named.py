"""Named constants of a form, and constants of all kinds with their units."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from odediscovery.data.series import TimeSeries
from odediscovery.knowledge.dimensions import Dimensions, unit_text, units_of_constants, units_of_names
from odediscovery.laws.equations import Equations
from odediscovery.laws.expressions import constant, law_constant, order
from odediscovery.laws.records import constants, interval, number, plain
from odediscovery.result.front import checked_text, jsonable


@dataclass(frozen=True)
class NamedConstants:
    """The fitted constants of a form, and its equations as written, one per state.

    >>> print(NamedConstants(("x' = -k*x",), ("k",), (0.5,), (0.01,)).text())
    x' = -k*x
    k = 0.500(10)
    """

    lines: tuple[str, ...]
    names: tuple[str, ...]
    values: tuple[float, ...]
    errors: tuple[float, ...]  # standard errors, nan where the data do not determine them

    def text(self, digits: int = 4) -> str:
        """The equations, with the constants on a line below."""
        return "\n".join([*self.lines, self._values(digits)])

    def one_line(self, digits: int = 4) -> str:
        """The equations and constants on one line."""
        return f"{'; '.join(self.lines)} with {self._values(digits)}"

    def _values(self, digits: int) -> str:
        told = (f"{n} = {constant(v, e, digits)}" for n, v, e in zip(self.names, self.values, self.errors, strict=True))
        return ", ".join(told)

    def rows(self, freedom: float | None) -> list[dict[str, Any]]:
        """One entry per constant: name, value, standard_error, low and high (95 %)."""
        rows = []
        for name, value, error in zip(self.names, self.values, self.errors, strict=True):
            low, high = interval(value, error, freedom) or (None, None)
            rows.append({"name": name, "value": value, "standard_error": plain(error), "low": low, "high": high})
        return rows

    def record(self) -> dict[str, Any]:
        """Plain values for `result.json`."""
        keys = {"lines": "lines", "names": "names", "values": "values", "errors": "standard_errors"}
        return {key: jsonable(getattr(self, own)) for own, key in keys.items()}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> NamedConstants:
        """Inverse of `record()`."""
        lines, names = (tuple(map(checked_text, record[key])) for key in ("lines", "names"))
        values, errors = (tuple(map(number, record[key])) for key in ("values", "standard_errors"))
        if not len(names) == len(values) == len(errors):
            raise ValueError("named constants of different numbers")
        return cls(lines, names, values, errors)


# Digits of constants without a standard error that are printed with units.
DIGITS = 4


def constant_records(
    equations: Equations, freedom: float | None, units: Mapping[str, str]
) -> dict[str, list[dict[str, Any]]]:
    """The constants of every equation as plain records, with units if columns have any."""
    records = constants(equations, freedom)
    found = units_of_constants(replace(equations, units=units)) if units else {}
    for state, own in records.items():
        for record, unit in zip(own, found.get(state, []), strict=False):
            record["unit"] = unit
    return records


def named_units(named: NamedConstants | None, series: TimeSeries) -> list[str | None]:
    """The units of named constants; empty if there are no constants or no units."""
    if named is None or not series.units:
        return []
    return units_of_names(
        named.lines, named.names, series.states, series.time_name, series.units, controls=series.controls
    )


def named_rows(named: NamedConstants, series: TimeSeries, freedom: float | None) -> list[dict[str, Any]]:
    """The rows of named constants, with their units if known."""
    units: list[str | None] = named_units(named, series) or [None] * len(named.names)
    return [row | {"unit": unit} for row, unit in zip(named.rows(freedom), units, strict=False)]


def rate_label(series: TimeSeries, state: str) -> str:
    """The label of an axis of rates, with the unit if the columns have units."""
    unit = unit_text(Dimensions(series.states, series.time_name, series.units).rate(state))
    told = f"rate of {state} [{unit}]" if unit not in (None, "1") else f"rate of {state}"
    # Longer labels do not fit on one line beside a small drawing.
    return told if len(told) <= 26 else told.replace(" [", "\n[")


def named_record(named: NamedConstants, series: TimeSeries) -> dict[str, Any]:
    """Named constants as in `result.json`."""
    units = named_units(named, series)
    return named.record() | ({"units": units} if units else {})


def units_text(
    equations: Equations,
    series: TimeSeries,
    named: NamedConstants | None = None,
    textbook: NamedConstants | None = None,
) -> str:
    """The constants with their units, one line per equation; empty if no unit is known."""
    if named is not None:
        constants = zip(named.names, named.values, named.errors, named_units(named, series), strict=False)
        told = [f"{n} = {law_constant(v, e, DIGITS)} {unit}" for n, v, e, unit in constants if unit not in (None, "1")]
        return f"with units: {', '.join(told)}" if told else ""
    if not series.units:
        return ""
    known = zip(() if textbook is None else textbook.names, named_units(textbook, series), strict=False)
    own = ", ".join(f"{name} in {unit}" for name, unit in known if unit not in (None, "1"))
    return own or "\n".join(_coefficients(equations, series.units))


def _coefficients(equations: Equations, units: Mapping[str, str]) -> list[str]:
    """The coefficients of the first six equations with their units, in printed order."""
    law, lines = equations.law, list[str]()
    if law is None:
        return []
    for state, records in [*constant_records(equations, None, units).items()][:6]:
        own = [one for one in records if one["kind"] == "coefficient" and one["unit"] not in (None, "1")]
        own.sort(key=lambda one: order(one["value"], law.exponents[one["monomial"]]))
        pairs = [(number(one["standard_error"]), one) for one in own]
        told = [f"{law_constant(x['value'], e, DIGITS, equations.spare)} {x['unit']}" for e, x in pairs]
        lines += [f"units in {state}': {', '.join(told)}"] * bool(told)
    return lines
