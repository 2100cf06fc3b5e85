"""Dates, frames, Parquet and spreadsheets: other doors, the same rules and words."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tabular import refusal, table

from odediscovery.data.series import TimeSeries, load_csv
from odediscovery.plots.figures import with_unit

FRAME = pd.DataFrame({"t": [0.0, 0.1, 2.0, 3.0], "S": [4, 5, 6, 7], "who": list("abcd")})


def dated(folder: Path, *dates: str) -> Path:
    return table(folder, *(f"{cell},{k}" for k, cell in enumerate(dates)), header="date,x")


def same(series: TimeSeries, other: TimeSeries) -> None:
    assert series.states == other.states
    assert (series.time_name, series.messages) == (other.time_name, other.messages)
    assert series.units == other.units
    for a, b in zip(series.trajectories, other.trajectories, strict=True):
        assert a.label == b.label
        np.testing.assert_array_equal(a.time, b.time)
        np.testing.assert_array_equal(a.values, b.values)


@pytest.mark.parametrize(
    ("dates", "unit", "times"),
    [
        (["2020-02-28", "2020-02-29", "2020-03-01", "2021-02-28"], "days", [0, 1, 2, 366]),
        (
            ["2020-03-01T12:00:30", "2020-03-01T12:01", "2020-03-01T12:01:30.5", "2020-03-02T12:00:30"],
            "seconds",
            [0, 30, 60.5, 86400],
        ),
        (
            ["2020-10-25T01:00+02:00", "2020-10-25T03:00+01:00", "2020-10-25T23:00Z", "2020-10-26T23:00Z"],
            "hours",
            [0, 3, 24, 48],
        ),
    ],
)
def test_dates_count_in_a_unit_that_fits_their_steps(
    tmp_path: Path, dates: list[str], unit: str, times: list[float]
) -> None:
    series = load_csv(dated(tmp_path, *dates))
    assert series.trajectories[0].time.tolist() == times
    assert series.messages == (f"Column 'date' holds dates: time is counted in {unit} since {dates[0]}.",)
    assert series.time_name == "date"
    assert with_unit("date", series.units) == f"date [{unit}]"


FORMS = "2020-03-01 or 2020-03-01 12:00"


@pytest.mark.parametrize(
    ("dates", "message"),
    [
        (
            ["03/01/2020", "03/02/2020"],
            "line 2, column 'date': expected numbers or ISO dates for the time, got '03/01/2020'; "
            f"write dates as {FORMS}",
        ),
        (
            ["2020-02-29", "2020-02-30"],
            f"line 3, column 'date': expected an ISO date such as {FORMS}, got '2020-02-30'; correct it",
        ),
        (
            ["2020-03", "2020-03-15"],
            "line 3, column 'date': expected a month as in line 2, got a date, '2020-03-15'; write all times alike",
        ),
        (
            ["2020-03-01 12:00", "2020-03-02 12:00Z"],
            "line 3, column 'date': expected a date and time as in line 2, got a date and time with a "
            "time zone, '2020-03-02 12:00Z'; write all times alike",
        ),
        (["2020-03-01", ""], "line 3: the time 'date' is missing or infinite"),
    ],
)
def test_unreadable_and_mixed_dates_are_refused(tmp_path: Path, dates: list[str], message: str) -> None:
    assert refusal(dated(tmp_path, *dates)) == message


def test_lines_are_counted_over_quoted_cells(tmp_path: Path) -> None:
    path = tmp_path / "d.csv"
    path.write_text('t,"S\nof all",note\n0,1,"a\nb"\n1,2x,\n', encoding="utf-8")
    assert refusal(path).startswith("line 5, column 'S of all': expected a number, got '2x'")


def test_a_frame_is_read_like_the_file(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {
            "run": ["a", "a", "a", "b", "b"],
            "when": [0.1, 0.2, 0.30000000000000004, 0.0, 1e-300],
            "x": [1.0, np.nan, 3.0, 4.0, 5.5],
            "n": pd.array([1, 2, None, 4, 5], dtype="Int64"),
            "note": ["", "text", None, "", ""],
        }
    )
    frame.to_csv(tmp_path / "d.csv", index=False)
    options: dict[str, Any] = {"time": "when", "group": "run"}
    series = TimeSeries.from_frame(frame, **options)
    same(series, load_csv(tmp_path / "d.csv", **options))
    assert series.states == ("x", "n")
    assert series.trajectories[0].time.tolist() == [0.1, 0.2, 0.30000000000000004]
    assert series.messages == (
        "Column 'note' holds text and was left out.",
        "Column 'x' lacks 1 of 5 values.",
        "Column 'n' lacks 1 of 5 values.",
    )
    assert TimeSeries.from_frame(frame, "when", ["n"], "run").states == ("n",)
    again = TimeSeries.from_frame(series.to_frame(), "when", group="trajectory")
    np.testing.assert_array_equal(again.trajectories[0].values, series.trajectories[0].values)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (
            [[1, 2]],
            "expected a DataFrame (pandas, polars) or an xarray Dataset, got list; TimeSeries.from_arrays takes arrays",
        ),
        (pd.DataFrame(), "the frame has no named column; expected a time and at least one state"),
        (pd.DataFrame([[1, 2]]), "the frame has a column named 0; name every column by text"),
        (
            FRAME[["t", "S", "S"]],
            "line 1: the column 'S' stands twice (columns 2 and 3); give every column its own name",
        ),
        (
            FRAME.assign(S=[1, 2, "3x", 4]),
            "line 4, column 'S': expected a number, got '3x'; correct it or leave the cell empty",
        ),
    ],
)
def test_frames_are_refused_in_the_same_words(frame: object, message: str) -> None:
    assert refusal(frame) == message


# What pandas hands over for a sheet: no header, an empty row above it, gaps as "" or None.
SHEET = [
    ["", "", "", ""],
    ["day", "S", "", "note\nof mine"],
    [datetime(2020, 3, 1), 4, "", "a\nb"],
    [datetime(2020, 3, 2), 5.5, 8, ""],
    ["", "", "", ""],
    [datetime(2020, 3, 4), "", "", "c"],
    [datetime(2020, 3, 5), "7", "", ""],
    [datetime(2020, 3, 6), 8, None, ""],
]


def test_a_real_spreadsheet(tmp_path: Path) -> None:
    pytest.importorskip("openpyxl")
    path = tmp_path / "d.xlsx"
    with pd.ExcelWriter(path) as writer:
        pd.DataFrame(SHEET).to_excel(writer, sheet_name="one", header=False, index=False)
        FRAME.to_excel(writer, sheet_name="two", index=False)
    series = load_csv(path)
    assert series.states == ("S",)
    assert series.trajectories[0].time.tolist() == [0, 1, 3, 4, 5]
    assert series.trajectories[0].values[[0, 1, 3], 0].tolist() == [4, 5.5, 7]
    assert series.messages == (
        "Column 3 has no name and was left out.",
        "Column 'note of mine' holds text and was left out.",
        "Column 'day' holds dates: time is counted in days since 2020-03-01.",
        "Column 'S' lacks 1 of 5 values.",
    )
    rows = [["t", "S", "land"], *([k, k + 1, "NA"] for k in range(3)), [3, "4x", "NA"]]
    pd.DataFrame(rows).to_excel(path, header=False, index=False)
    assert refusal(path).startswith("line 5, column 'S': expected a number, got '4x'")
    rows[4][1] = 4
    pd.DataFrame(rows).to_excel(path, header=False, index=False)
    assert [t.label for t in load_csv(path, group="land").trajectories] == ["NA"]
    content = path.read_bytes()
    for damaged in (content[: len(content) // 2], content[:600] + content[700:]):
        path.write_bytes(damaged)
        assert f"{path} is damaged or of an unknown kind (" in refusal(path)


def test_a_real_parquet_file(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    path = tmp_path / "d.parquet"
    frame = FRAME.assign(t=pd.date_range("2020-03-01", periods=4), S=[0.1, 2, 1e-300, 4])
    frame = frame.assign(n=pd.array([1, 2, 3, 2**40], dtype="Int64"))
    frame.set_index("t").to_parquet(path, engine="pyarrow")
    same(load_csv(path), TimeSeries.from_frame(frame))
    path.write_bytes(path.read_bytes()[:200])
    assert f"{path} is damaged or of an unknown kind (" in refusal(path)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("d.parquet", "is no Parquet file; write it again, or as CSV in UTF-8"),
        ("d.xlsx", "is no spreadsheet; save the table as .xlsx or as CSV in UTF-8"),
        ("d.xls", "is no spreadsheet; save the table as .xlsx or as CSV in UTF-8"),
    ],
)
def test_another_file_under_the_ending(tmp_path: Path, name: str, message: str) -> None:
    path = tmp_path / name
    assert refusal(path) == f"{path}: no such file"
    for content in (b"", b"t,S\n0,1\n"):
        path.write_bytes(content)
        assert refusal(path) == f"{path} {message}"
