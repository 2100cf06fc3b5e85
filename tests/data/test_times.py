"""Dates, durations and rounded times: their unit, their start, and what is no date."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tabular import table

from odediscovery import TimeSeries
from odediscovery.data.dates import counted_times
from odediscovery.data.recorded import even_times
from odediscovery.data.series import load_csv, with_even_times
from odediscovery.errors import InputError
from odediscovery.runtime.arrays import Array

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
    assert counted_times([local])[0][0].tolist() == [0, 1, 2, 3]


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
    series = load_csv(table(tmp_path, "2001-01,20", "2001-02,24", "2001-03,27", "2001-04,29", header="Month,voles"))
    assert series.trajectories[0].time.tolist() == [0, 31, 59, 90]
    assert series.messages[0].endswith("days since 2001-01-01.")


GRID = np.linspace(0.0, 5.0, 30)


@pytest.mark.parametrize("digits", [3, 4, 6])
def test_rounded_even_times_are_even_again(digits: int) -> None:
    found = even_times([GRID.round(digits)])
    assert found is not None
    assert np.abs(found[0][0] - GRID).max() < 0.1 * 10.0**-digits
    assert found[1] == pytest.approx(GRID[1], abs=10.0**-digits)


def test_trajectories_share_one_grid_also_with_samples_missing() -> None:
    written = GRID.round(4)
    found = even_times([written, np.delete(written, 7), written[3:25], written[:4]])
    assert found is not None
    assert found[0][1].tolist() == np.delete(found[0][0], 7).tolist()
    assert found[0][3].tolist() == found[0][0][:4].tolist()


@pytest.mark.parametrize(
    "time",
    [
        pytest.param(np.arange(12) * 0.1, id="even as written"),
        pytest.param(np.array([0, 1, 3, 4, 6, 7, 9, 10, 12, 13], float), id="days"),
        pytest.param(np.array([0, 14, 29, 42, 56, 71, 84, 98, 112], float), id="fortnights"),
        pytest.param(np.array([0, 60, 121, 180, 239, 300, 361, 420, 480, 540], float), id="seconds"),
        pytest.param(np.sort(np.random.default_rng(0).uniform(0.0, 9.0, 30)).round(2), id="uneven"),
        pytest.param(np.linspace(0.0, 1.0, 7).round(3), id="few"),
        pytest.param(np.linspace(0.0, 7.0, 30), id="all digits"),
    ],
)
def test_other_times_stay(time: Array) -> None:
    assert even_times([time]) is None


def test_dates_stay() -> None:
    years = pd.to_datetime([f"{year}-01-01" for year in range(1990, 2010)])
    series = TimeSeries.from_frame(pd.DataFrame({"date": years, "x": np.exp(-0.1 * np.arange(20.0))}), time="date")
    assert series.since
    assert with_even_times(series) is series
