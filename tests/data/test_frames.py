"""Where the times of a frame are: one rule for columns, indexes, Datasets and frames of other libraries."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tabular import refusal

from odediscovery.data.frames import index_times, plain_frame
from odediscovery.data.series import TimeSeries, load_csv

STATES = {"prey": [1.0, 3.0, 2.0, 5.0], "pred": [4.0, 2.0, 2.5, 1.0]}
HALVES = [0.0, 0.5, 1.0, 1.5]
DAYS = pd.date_range("2020-03-01", periods=4)


def times(frame: Any, **options: Any) -> list[float]:
    series = TimeSeries.from_frame(frame, **options)
    assert set(series.states) == {"prey", "pred"}
    return series.trajectories[0].time.tolist()


@pytest.mark.parametrize(
    ("index", "name", "unit"),
    [
        (pd.Index(HALVES, name="t"), "t", None),
        (pd.to_datetime(["2020-03-01 00:00", "2020-03-01 00:30", "2020-03-01 01:00", "2020-03-01 01:30"]), "time", "m"),
        (pd.to_timedelta([0, 30, 60, 90], "min").rename("since dosing"), "since dosing", "m"),
        (pd.period_range("2020-03-01", periods=4, freq="30min", name="when"), "when", "m"),
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


def test_levels_of_an_index_beside_the_times_are_groups() -> None:
    index = pd.MultiIndex.from_product([["a", "b"], HALVES], names=["vessel", "t"])
    series = TimeSeries.from_frame(pd.DataFrame({name: [*cells, *cells] for name, cells in STATES.items()}, index))
    assert [run.label for run in series.trajectories] == ["a", "b"]
    assert (series.states, series.messages) == (("prey", "pred"), ())


def test_a_series_of_pandas_is_a_frame_of_one_column() -> None:
    days = pd.date_range("2024-05-01", periods=5)
    assert TimeSeries.from_frame(pd.Series(np.arange(5.0), index=days, name="cells")).states == ("cells",)
    assert TimeSeries.from_frame(pd.Series(np.arange(5.0), index=days)).states == ("x",)
    told = refusal(pd.Series(np.arange(5.0), index=0.5 * np.arange(5), name="cells"))
    assert "does not count rows and is not called t or time" in told
