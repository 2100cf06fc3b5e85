"""Where the times of a frame are: one rule for columns, indexes, Datasets and frames of other libraries."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from odediscovery.data.frames import counts_rows, index_times, plain_frame
from odediscovery.data.series import TimeSeries, load_csv
from odediscovery.errors import InputError

STATES = {"prey": [1.0, 3.0, 2.0, 5.0], "pred": [4.0, 2.0, 2.5, 1.0]}
HALVES = [0.0, 0.5, 1.0, 1.5]
DAYS = pd.date_range("2020-03-01", periods=4)


def times(frame: Any, **options: Any) -> list[float]:
    series = TimeSeries.from_frame(frame, **options)
    assert set(series.states) == {"prey", "pred"}
    return series.trajectories[0].time.tolist()


def refusal(frame: Any, **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        TimeSeries.from_frame(frame, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("index", "name", "unit"),
    [
        (pd.Index(HALVES, name="t"), "t", None),
        (pd.Index(HALVES, name="Time"), "Time", None),
        (pd.to_datetime(["2020-03-01 00:00", "2020-03-01 00:30", "2020-03-01 01:00", "2020-03-01 01:30"]), "time", "m"),
        (pd.to_timedelta([0, 30, 60, 90], "min"), "time", "m"),
        (pd.to_timedelta([0, 30, 60, 90], "min").rename("since dosing"), "since dosing", "m"),
        (pd.period_range("2020-03-01", periods=4, freq="30min", name="when"), "when", "m"),
        (pd.date_range("2020-03-01", periods=4, freq="30min", tz="Asia/Tokyo"), "time", "m"),
    ],
)
def test_a_time_like_index_holds_the_times(index: pd.Index, name: str, unit: str | None) -> None:
    series = TimeSeries.from_frame(pd.DataFrame(STATES, index))
    assert series.states == ("prey", "pred") and series.time_name == name
    assert series.trajectories[0].time.tolist() == (HALVES if unit is None else [0, 30, 60, 90])
    assert series.units == ({} if unit is None else {name: "minutes"})
    assert len(series.messages) == (unit is not None)


def test_a_column_that_says_so_comes_before_the_index() -> None:
    frame = pd.DataFrame({**STATES, "t": HALVES}, DAYS)
    series = TimeSeries.from_frame(frame)
    assert (series.time_name, series.trajectories[0].time.tolist()) == ("t", HALVES)
    assert series.messages == ("The index of the frame was left out: column 't' holds the times.",)
    assert times(frame.rename(columns={"t": "hours"}), time="hours") == HALVES


def test_the_index_of_a_frame_is_named_as_time_where_asked() -> None:
    frame = pd.DataFrame(STATES, pd.Index([1900, 1910, 1920, 1930], name="year"))
    assert times(frame, time="year") == [1900, 1910, 1920, 1930]
    assert "nothing says where the times of the frame are" in refusal(frame)
    assert refusal(frame).endswith("name the column, time='year'")


@pytest.mark.parametrize(
    ("index", "shown"),
    [(HALVES, "(0.0, 0.5, ...)"), ([1900, 1905, 1910, 1915], "(1900, 1905, ...)"), (list("abcd"), "(a, b, ...)")],
)
def test_an_index_that_may_be_the_times_is_not_dropped(index: list[Any], shown: str) -> None:
    frame = pd.DataFrame(STATES, index)
    told = refusal(frame)
    assert f"the index of the frame, {shown}, does not count rows" in told
    assert "rename_axis('t')" in told and "reset_index(drop=True)" in told
    if not isinstance(index[0], str):
        assert times(frame.rename_axis("t")) == index
    assert "nothing says where the times" in refusal(frame.reset_index(drop=True))


def test_the_first_column_of_a_frame_is_no_time_unless_it_says_so(tmp_path: Path) -> None:
    frame = pd.DataFrame({"hours": HALVES, **STATES})
    assert "got columns hours, prey, pred; name the column, time='hours'" in refusal(frame)
    assert times(frame, time="hours") == HALVES
    frame.to_csv(tmp_path / "d.csv", index=False)
    assert load_csv(tmp_path / "d.csv").time_name == "hours"
    # Dates are times wherever they stand, unless there are two columns of them.
    dated = frame.assign(when=DAYS)
    assert TimeSeries.from_frame(dated, states=["prey", "pred"]).time_name == "when"
    assert "nothing says" in refusal(dated.assign(entered=DAYS))


def test_durations_in_a_file_are_times(tmp_path: Path) -> None:
    frame = pd.DataFrame(STATES, pd.to_timedelta(HALVES, "s"))
    frame.rename_axis("elapsed").to_csv(tmp_path / "d.csv")
    series = load_csv(tmp_path / "d.csv")
    assert series.trajectories[0].time.tolist() == [0, 500, 1000, 1500]
    assert series.messages == ("Column 'elapsed' holds durations: time is counted in milliseconds.",)
    (tmp_path / "d.csv").write_text("elapsed,x\n0 days 00:00:01,1\n2,2\n")
    with pytest.raises(InputError, match=r"line 3, column 'elapsed': expected a duration"):
        load_csv(tmp_path / "d.csv")


def test_levels_of_an_index_are_groups_and_times() -> None:
    index = pd.MultiIndex.from_product([["a", "b"], HALVES], names=["run", "t"])
    frame = pd.DataFrame({name: values * 2 for name, values in STATES.items()}, index)
    series = TimeSeries.from_frame(frame, group="run")
    assert [run.label for run in series.trajectories] == ["a", "b"]
    assert [run.time.tolist() for run in series.trajectories] == [HALVES, HALVES]
    with pytest.raises(InputError, match="2 levels: give a list of frames"):
        index_times(frame)


@pytest.mark.parametrize(
    ("index", "counts"),
    [
        (pd.RangeIndex(4), True),
        (pd.RangeIndex(7, 11), True),
        (pd.Index([3, 4, 5]), True),
        (pd.RangeIndex(0, 8, 2), False),
        (pd.Index([0.0, 1.0, 2.0]), False),
        (pd.Index(["a", "b"]), False),
        (pd.MultiIndex.from_product([[0], [0, 1]]), False),
    ],
)
def test_a_count_of_rows_is_no_time(index: pd.Index, counts: bool) -> None:
    assert counts_rows(index) is counts


class Listed:
    """A frame of a library without an index, as polars has."""

    def __init__(self, **columns: Sequence[Any]) -> None:
        self.held, self.columns = columns, list(columns)

    def __getitem__(self, name: str) -> Sequence[Any]:
        return self.held[name]


def test_frames_of_other_libraries_are_known_by_their_columns() -> None:
    assert times(Listed(t=HALVES, **STATES)) == HALVES
    dated = Listed(**STATES, when=[datetime(2020, 3, 1) + k * timedelta(hours=2) for k in range(4)])
    assert times(dated) == [0, 2, 4, 6]
    assert "nothing says" in refusal(Listed(**STATES))
    assert index_times(dated) is None
    assert "its columns cannot be listed" in refusal(Listed(t=HALVES, x=[1.0]))


def test_a_frame_of_polars() -> None:
    polars = pytest.importorskip("polars")
    assert times(polars.DataFrame({"t": HALVES, **STATES})) == HALVES
    dated = polars.DataFrame({**STATES, "when": [datetime(2020, 3, 1 + k) for k in range(4)]})
    assert times(dated) == [0, 1, 2, 3]
    gaps = polars.DataFrame({"t": [*HALVES, 2.0], "prey": [*STATES["prey"], None], "pred": [*STATES["pred"], 3.0]})
    series = TimeSeries.from_frame(gaps)
    assert np.isnan(series.trajectories[0].values).sum() == 1


def test_a_dataset_of_xarray() -> None:
    xarray = pytest.importorskip("xarray")
    data = xarray.Dataset({name: ("time", values) for name, values in STATES.items()}, {"time": DAYS})
    assert times(data) == [0, 1, 2, 3]
    hours = data.assign_coords(time=("time", HALVES, {"units": "h"}), site="lake")
    hours["prey"].attrs["units"] = "1/L"
    series = TimeSeries.from_frame(hours)
    assert series.trajectories[0].time.tolist() == HALVES
    assert series.units == {"time": "h", "prey": "1/L"}
    runs = xarray.concat([hours, 2 * hours], xarray.IndexVariable("run", ["a", "b"]))
    series = TimeSeries.from_frame(runs)
    assert [run.label for run in series.trajectories] == ["a", "b"]
    assert [run.values[0, 0] for run in series.trajectories] == [1.0, 2.0]
    assert "no coordinate; give it one" in refusal(data.drop_vars("time"))
    assert "to_dataset" in refusal(xarray.DataArray([[1.0, 2.0]], dims=("time", "state")))
    assert plain_frame(hours["prey"])[0].columns.tolist() == ["prey"]


def test_dates_and_hours_of_a_frame_and_a_gap() -> None:
    times = pd.date_range("2020-03-01", periods=4, freq="6h")
    series = TimeSeries.from_frame(pd.DataFrame({"day": times, "x": range(4)}))
    assert series.trajectories[0].time.tolist() == [0, 6, 12, 18]
    assert series.messages[0].endswith("in hours since 2020-03-01 00:00:00.")
    for known in (times[:3], times.normalize()[:1]):
        frame = pd.DataFrame({"day": [*known, pd.NaT], "x": range(len(known) + 1)})
        line = len(known) + 2
        assert refusal(frame) == f"line {line}: the time 'day' is missing or infinite"


def test_months_begin_with_their_first_day() -> None:
    series = TimeSeries.from_frame(pd.DataFrame(STATES, pd.period_range("2024-01", periods=4, freq="M")))
    assert series.trajectories[0].time.tolist() == [0, 31, 60, 91]
    assert series.messages == ("Column 'time' holds dates: time is counted in days since 2024-01-01.",)


def test_levels_of_an_index_beside_the_times_are_groups() -> None:
    index = pd.MultiIndex.from_product([["a", "b"], HALVES], names=["vessel", "t"])
    series = TimeSeries.from_frame(pd.DataFrame({name: [*cells, *cells] for name, cells in STATES.items()}, index))
    assert [run.label for run in series.trajectories] == ["a", "b"]
    assert (series.states, series.messages) == (("prey", "pred"), ())


def test_a_series_says_what_it_holds_and_no_arrays() -> None:
    days = pd.date_range("2024-05-01", periods=5)
    dated = TimeSeries.from_frame(pd.DataFrame({"cells": [1.0, 2.0, np.nan, 4.0, 5.0]}, index=days))
    first, *notes = repr(dated).splitlines()
    assert first == "cells: 5 samples, time from 0 to 4 days since 2024-05-01"
    assert notes == [f"note: {message}" for message in dated.messages] and len(notes) == 2
    wide = TimeSeries.from_arrays([np.arange(4.0)] * 2, [np.ones((4, 20))] * 2)
    assert repr(wide).startswith("x0, x1, ")
    assert repr(wide).endswith("x11 and 8 more: 8 samples of 2 trajectories, t from 0 to 3")


def test_a_series_of_pandas_is_a_frame_of_one_column() -> None:
    days = pd.date_range("2024-05-01", periods=5)
    assert TimeSeries.from_frame(pd.Series(np.arange(5.0), index=days, name="cells")).states == ("cells",)
    assert TimeSeries.from_frame(pd.Series(np.arange(5.0), index=days)).states == ("x",)
    with pytest.raises(InputError, match="does not count rows and is not called t or time"):
        TimeSeries.from_frame(pd.Series(np.arange(5.0), index=0.5 * np.arange(5), name="cells"))
