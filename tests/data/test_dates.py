"""Dates and durations as times: their unit, their start, and what is no date."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from odediscovery.data.dates import count_moments
from odediscovery.data.series import TimeSeries, load_csv
from odediscovery.errors import InputError

START = datetime(2020, 3, 1, 6)


@pytest.mark.parametrize(
    "times",
    [
        pd.date_range(START, periods=4, freq="30min", tz="Europe/Berlin"),
        [START + k * timedelta(minutes=30) for k in range(4)],
        pd.timedelta_range("1h", periods=4, freq="30min") - pd.Timedelta("1h"),
        pd.period_range(START, periods=4, freq="30min"),
    ],
)
def test_dates_and_durations_of_any_kind_are_times(times: Any) -> None:
    series = TimeSeries.from_arrays(times, [1.0, 2.0, 3.0, 4.0], ["x"])
    np.testing.assert_allclose(series.trajectories[0].time, [0, 30, 60, 90])
    assert series.units == {"t": "minutes"}
    assert len(series.messages) == 1 and "counted in minutes" in series.messages[0]


def test_a_change_of_clocks_is_no_jump() -> None:
    local = pd.date_range("2020-03-29 01:00", periods=4, freq="1h", tz="Europe/Berlin")
    assert count_moments([local])[0][0].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "times",
    [
        [pd.date_range("2020-03-01", periods=4), np.arange(4.0)],
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
