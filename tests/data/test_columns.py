"""Columns computed from columns, and their units: read, kept and shown."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tabular import refusal, table

from odediscovery import InputError, TimeSeries, load_csv, load_with_controls
from odediscovery.data.recorded import Arithmetic, split_name
from odediscovery.data.table import split_unit

COLUMNS = {"a": np.array([1.0, 2.0, np.nan]), "b c": np.array([4.0, 0.0, 1.0]), "a-b": np.array([7.0, 7.0, 7.0])}


def value(text: str) -> list[float]:
    return Arithmetic(text, list(COLUMNS), COLUMNS.__getitem__).value().tolist()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a-b", [7.0, 7.0, 7.0]),  # the longest name first
        ("2*(a - 1) + b c/4", [1.0, 2.0, np.nan]),
        ("-b c - -1e1", [6.0, 10.0, 9.0]),
        ("8/b c/2", [1.0, np.inf, 4.0]),
    ],
)
def test_sums_are_computed_row_by_row(text: str, expected: list[float]) -> None:
    np.testing.assert_array_equal(value(text), expected)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a + ", "expected a column or a number"),
        ("(a", "expected )"),
        ("a b", "expected +, -, * or /"),
        ("a ** 2", "expected a column or a number"),
        ("__import__('os')", "unknown column"),
        ("d", "unknown column 'd'"),
        ("1 + 2", "names no column"),
        ("(" * 100 + "a", "within each other"),
        ("a" * 2000, "at most 1000 characters"),
    ],
)
def test_mistakes_are_told_in_one_line(text: str, reason: str) -> None:
    with pytest.raises(InputError, match=r"--column") as caught:
        value(text)
    assert reason in str(caught.value) and "\n" not in str(caught.value)
    with pytest.raises(InputError, match="NAME=SUM"):
        split_name("a + b")


def test_a_computed_column_is_a_state_and_its_parts_are_none(tmp_path: Path) -> None:
    path = table(tmp_path, "0,9,0,0", "1,7,1,1", "2,5,2,", "3,3,4,2", "4,2,5,2", header="t,I,recovered,deaths")
    series = load_csv(path, columns="R=recovered+deaths")
    assert series.states == ("I", "R")
    np.testing.assert_array_equal(series.trajectories[0].values[:, 1], [0.0, 2.0, np.nan, 6.0, 7.0])
    assert load_csv(path, columns=["R=recovered+deaths"], states=["R", "deaths"]).states == ("R", "deaths")
    with pytest.raises(InputError, match="line 2: --column 'x=I/deaths' divides by 0"):
        load_csv(path, columns="x=I/deaths")


def measured(folder: Path, header: str = "t [h],cells [g/L],x[0],T [°C]") -> Path:
    return table(folder, *(f"{k},{9 - k},{k * k},{30 + k}" for k in range(6)), header=header)


@pytest.mark.parametrize(
    ("header", "name", "unit"),
    [
        ("cells[g/L]", "cells", "g/L"),
        ("rate [h^-1]", "rate", "h^-1"),
        ("T [°C]", "T", "°C"),
        ("x[0]", "x[0]", None),
        ("a [b] c", "a [b] c", None),
    ],
)
def test_a_unit_stands_in_brackets_behind_a_name(header: str, name: str, unit: str | None) -> None:
    assert split_unit(header) == (name, unit)


def test_units_of_a_header_are_kept_and_the_names_are_bare(tmp_path: Path) -> None:
    series = load_csv(measured(tmp_path))
    assert (series.time_name, series.states) == ("t", ("cells", "x[0]", "T"))
    assert series.units == {"t": "h", "cells": "g/L", "T": "°C"}
    for chosen in (["cells"], ["cells [g/L]"]):
        assert load_csv(measured(tmp_path), states=chosen).states == ("cells",)
    with pytest.raises(InputError, match="unknown state"):
        load_csv(measured(tmp_path), states=["cells [mg/L]"])
    driven = load_with_controls(measured(tmp_path), ["T"])
    assert driven.controls == ("T",) and driven.units["T"] == "°C"


def test_names_that_differ_by_their_units_alone_keep_them(tmp_path: Path) -> None:
    series = load_csv(measured(tmp_path, "t,cells [g/L],cells [1/L],cells2"))
    assert series.states == ("cells [g/L]", "cells [1/L]", "cells2") and series.units == {}


def test_units_are_given_beside_the_data(tmp_path: Path) -> None:
    series = load_csv(measured(tmp_path), units="cells=mg/L, x[0]=1")
    assert series.units == {"t": "h", "cells": "mg/L", "T": "°C", "x[0]": "1"}
    frame = pd.DataFrame({"mass [g]": [1.0, 2.0, 3.0, 4.0]}, pd.Index([0.0, 0.5, 1.0, 1.5], name="t"))
    series = TimeSeries.from_frame(frame, units={"t": "h"})
    assert series.states == ("mass",) and series.units == {"mass": "g", "t": "h"}
    assert TimeSeries.from_frame(frame.rename_axis("t [min]"), time="t").units == {"mass": "g", "t": "min"}


@pytest.mark.parametrize(
    ("units", "message"),
    [
        ("cells", "units: expected STATE=UNIT, parted by commas, got 'cells'; write S=g/L,t=h"),
        ("cell=g", "unknown state or time with a unit 'cell': did you mean 'cells'?"),
        ("cells=g,cells=mg", "'cells' is named twice"),
    ],
)
def test_mistakes_are_one_line(tmp_path: Path, units: str, message: str) -> None:
    assert message in refusal(measured(tmp_path), units=units)


def test_dates_have_their_own_unit(tmp_path: Path) -> None:
    frame = pd.DataFrame({"x": range(4)}, pd.date_range("2020-03-01", periods=4))
    with pytest.raises(InputError, match="holds dates, which count in days; leave its unit out"):
        TimeSeries.from_frame(frame, units={"time": "h"})
    assert TimeSeries.from_frame(frame, units={"time": "days", "x": "g"}).units == {"time": "days", "x": "g"}
