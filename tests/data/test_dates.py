"""Dates and durations as times: their unit, their start, and what is no date."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from odediscovery.data.dates import as_moments, count_moments, duration_seconds, unit_of_steps
from odediscovery.data.series import TimeSeries, load_csv
from odediscovery.errors import InputError

START = datetime(2020, 3, 1, 6)


@pytest.mark.parametrize(
    ("step", "unit"),
    [
        (7 * 86400, "days"),
        (86400, "days"),
        (86399, "hours"),
        (3600, "hours"),
        (90, "minutes"),
        (1, "seconds"),
        (0.04, "milliseconds"),
        (2e-5, "microseconds"),
        (0, "days"),
    ],
)
def test_the_unit_is_the_longest_that_the_steps_hold(step: float, unit: str) -> None:
    assert unit_of_steps(step * np.arange(5)) == unit
    assert unit_of_steps(-step * np.arange(5)) == unit


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0 days 00:00:10", 10.0),
        ("2 days", 172800.0),
        ("-1 days +23:59:59.5", -0.5),
        ("0 days 00:00:00.000000250", 2.5e-7),
        ("10", None),
        ("00:10:00", None),
        ("1 days 1:2", None),
    ],
)
def test_durations_are_read_as_pandas_writes_them(text: str, seconds: float | None) -> None:
    assert duration_seconds(text) == seconds


@pytest.mark.parametrize(
    "times",
    [
        pd.date_range(START, periods=4, freq="30min"),
        pd.date_range(START, periods=4, freq="30min", tz="Europe/Berlin"),
        pd.Series(pd.date_range(START, periods=4, freq="30min")),
        np.array([np.datetime64(START) + k * np.timedelta64(30, "m") for k in range(4)]),
        [START + k * timedelta(minutes=30) for k in range(4)],
        pd.timedelta_range("1h", periods=4, freq="30min") - pd.Timedelta("1h"),
        [k * timedelta(minutes=30) for k in range(4)],
        pd.period_range(START, periods=4, freq="30min"),
    ],
)
def test_dates_and_durations_of_any_kind_are_times(times: Any) -> None:
    series = TimeSeries.from_arrays(times, [1.0, 2.0, 3.0, 4.0], ["x"])
    np.testing.assert_allclose(series.trajectories[0].time, [0, 30, 60, 90])
    assert series.units == {"t": "minutes"}
    assert len(series.messages) == 1 and "counted in minutes" in series.messages[0]


def test_days_without_hours_are_dates_too() -> None:
    series = TimeSeries.from_arrays([date(2020, 2, 27 + k) for k in range(3)] + [date(2020, 3, 1)], range(4))
    assert series.trajectories[0].time.tolist() == [0, 1, 2, 3]
    assert series.messages == ("The time 't' holds dates: time is counted in days since 2020-02-27.",)


def test_a_change_of_clocks_is_no_jump() -> None:
    local = pd.date_range("2020-03-29 01:00", periods=4, freq="1h", tz="Europe/Berlin")
    assert count_moments([local])[0][0].tolist() == [0, 1, 2, 3]


def test_trajectories_count_alike_from_the_first_date_of_all() -> None:
    late, early = pd.date_range("2020-03-05", periods=4), pd.date_range("2020-03-01", periods=4)
    series = TimeSeries.from_arrays([late, early], [range(4), range(4)])
    assert [run.time.tolist() for run in series.trajectories] == [[4, 5, 6, 7], [0, 1, 2, 3]]
    assert count_moments([late], "hours")[0][0].tolist() == [0, 24, 48, 72]


def test_numbers_and_text_are_no_dates() -> None:
    for times in ([0, 1], np.arange(3.0), ["2020-03-01"], None, 0.5, [None, None], pd.Index([1, 2])):
        assert as_moments(times) is None


@pytest.mark.parametrize(
    "times",
    [
        [pd.date_range("2020-03-01", periods=4), np.arange(4.0)],
        [pd.date_range("2020-03-01", periods=4), pd.timedelta_range("1h", periods=4)],
        [pd.date_range("2020-03-01", periods=4), pd.date_range("2020-03-01", periods=4, tz="UTC")],
    ],
)
def test_times_of_two_kinds_are_refused(times: list[Any]) -> None:
    with pytest.raises(InputError, match=r"^times: expected dates"):
        TimeSeries.from_arrays(times, [range(4), range(4)])


def test_a_missing_date_is_named() -> None:
    with pytest.raises(InputError, match="sample 2: the time 't' is missing"):
        TimeSeries.from_arrays(pd.to_datetime(["2020-03-01", "2020-03-02", None, "2020-03-04"]), range(4))


def test_months_count_from_their_first_days(tmp_path: Path) -> None:
    path = tmp_path / "voles.csv"
    path.write_text("Month,voles\n2001-01,20\n2001-02,24\n2001-03,27\n2001-04,29\n")
    series = load_csv(path)
    assert series.trajectories[0].time.tolist() == [0, 31, 59, 90]
    assert series.messages[0].endswith("days since 2001-01-01.")
