"""Times that were rounded when they were written are even again, and no others."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from odediscovery import TimeSeries
from odediscovery.data.recorded.even_times import even_times
from odediscovery.data.samples import with_even_times
from odediscovery.runtime.arrays import Array

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
