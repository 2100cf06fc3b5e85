"""Constants with the units that columns give them."""

from __future__ import annotations

import dataclasses

import numpy as np

from odediscovery import Equations, TimeSeries
from odediscovery.laws.power_sum import PowerSum
from odediscovery.result.named import NamedConstants
from odediscovery.result.units import constant_records, units_text

UNITS = {"S": "g/L", "t": "h"}
LAW = Equations.parse(["S"], {"S": "0.5*S - 0.01*S**2"})
LOGISTIC = NamedConstants(("S' = r*S*(1 - S/K)",), ("r", "K"), (0.5, 50.0), (0.01, float("nan")))


def series(states: tuple[str, ...] = ("S",), units: dict[str, str] | None = None) -> TimeSeries:
    t = np.arange(5.0)
    return TimeSeries.from_arrays(t, np.ones((5, len(states))), states, units=units)


def test_every_constant_has_the_unit_of_its_term() -> None:
    records = constant_records(LAW, None, UNITS)["S"]
    coefficients = {row["value"]: row["unit"] for row in records if row["kind"] == "coefficient"}
    assert coefficients == {0.5: "1/h", -0.01: "L/(g h)"}
    assert all("unit" not in row for row in constant_records(LAW, None, {})["S"])


def test_constants_are_printed_with_their_units_and_errors() -> None:
    known = series(units=UNITS)
    assert units_text(LAW, known, LOGISTIC) == "with units: r = 0.500(10) 1/h, K = 50 g/L"
    assert units_text(LAW, known, None, LOGISTIC) == "r in 1/h, K in g/L"
    errors = PowerSum(np.array([[0.02, 0.001]]), np.zeros((2, 1)))
    printed = units_text(dataclasses.replace(LAW, standard_errors=errors), known)
    assert printed == "units in S': 0.500(20) 1/h, -0.0100(10) L/(g h)"
    assert units_text(LAW, series()) == ""
