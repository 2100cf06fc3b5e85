"""Units: in the header, on the command line, in frames; they are kept and shown, never converted."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from odediscovery import InputError, TimeSeries, load_csv, load_with_controls
from odediscovery.data.table import split_unit

ROWS = "".join(f"{k},{9 - k},{k * k},{30 + k}\n" for k in range(6))


def table(folder: Path, header: str = "t [h],cells [g/L],x[0],T [°C]") -> Path:
    path = folder / "d.csv"
    path.write_text(f"{header}\n{ROWS}", encoding="utf-8")
    return path


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
    series = load_csv(table(tmp_path))
    assert (series.time_name, series.states) == ("t", ("cells", "x[0]", "T"))
    assert series.units == {"t": "h", "cells": "g/L", "T": "°C"}
    for chosen in (["cells"], ["cells [g/L]"]):
        assert load_csv(table(tmp_path), states=chosen).states == ("cells",)
    with pytest.raises(InputError, match="unknown state"):
        load_csv(table(tmp_path), states=["cells [mg/L]"])
    driven = load_with_controls(table(tmp_path), ["T"])
    assert driven.controls == ("T",) and driven.units["T"] == "°C"


def test_names_that_differ_by_their_units_alone_keep_them(tmp_path: Path) -> None:
    series = load_csv(table(tmp_path, "t,cells [g/L],cells [1/L],cells2"))
    assert series.states == ("cells [g/L]", "cells [1/L]", "cells2") and series.units == {}


def test_units_are_given_beside_the_data(tmp_path: Path) -> None:
    series = load_csv(table(tmp_path), units="cells=mg/L, x[0]=1")
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
    with pytest.raises(InputError) as caught:
        load_csv(table(tmp_path), units=units)
    assert message in str(caught.value)


def test_dates_have_their_own_unit(tmp_path: Path) -> None:
    frame = pd.DataFrame({"x": range(4)}, pd.date_range("2020-03-01", periods=4))
    with pytest.raises(InputError, match="holds dates, which count in days; leave its unit out"):
        TimeSeries.from_frame(frame, units={"time": "h"})
    assert TimeSeries.from_frame(frame, units={"time": "days", "x": "g"}).units == {"time": "days", "x": "g"}
