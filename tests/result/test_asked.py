"""What somebody asks a result for: starts by name or in order, times as numbers or dates."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from odediscovery import InputError, TimeSeries
from odediscovery.result.asked import asked_times, start_values
from odediscovery.result.named import NamedConstants

FITTED = np.array([36.0, 4.0])
PLAIN = TimeSeries.from_arrays(np.arange(4.0), np.ones((4, 2)), ["hare", "lynx"])


def test_starts_are_those_that_were_given_and_else_the_fitted_ones() -> None:
    states = ["hare", "lynx"]
    assert start_values({}, FITTED, states).tolist() == [36.0, 4.0]
    assert start_values({"hare": 1}, FITTED, states).tolist() == [1.0, 4.0]
    assert start_values((2, 3), FITTED, states).tolist() == [2.0, 3.0]
    with pytest.raises(InputError, match="hare"):
        start_values({"har": 1.0}, FITTED, states)
    for wrong in ([1.0], [1.0, np.nan], {"hare": np.inf}, "many", [[1.0, 2.0]], {"hare": "few"}):
        with pytest.raises(InputError, match="expected 2 finite numbers, of hare, lynx"):
            start_values(wrong, FITTED, states)


def test_times_increase_and_are_those_of_the_data_by_default() -> None:
    assert asked_times(None, PLAIN).tolist() == [0.0, 1.0, 2.0, 3.0]
    assert asked_times([0.5], PLAIN).tolist() == [0.5]
    for wrong in ([], [np.nan], 3.0, ["2024-05-01"], [[0.0, 1.0]]):
        with pytest.raises(InputError, match="a list of finite numbers"):
            asked_times(wrong, PLAIN)
    for wrong in ([1.0, 1.0], [2.0, 1.0]):
        with pytest.raises(InputError, match="increase"):
            asked_times(wrong, PLAIN)


def test_dates_count_as_those_of_the_data_did() -> None:
    dates = pd.date_range("2024-05-01", periods=4, freq="D")
    dated = TimeSeries.from_arrays(list(dates), np.ones((4, 1)), ["x"])
    assert asked_times(["2024-05-02", "2024-05-03T12:00"], dated).tolist() == [1.0, 2.5]
    assert asked_times([0.0, 7.0], dated).tolist() == [0.0, 7.0]


def test_named_constants_are_kept_and_read_back() -> None:
    named = NamedConstants(("x' = -k*x + c",), ("k", "c"), (0.5, 2.0), (0.01, float("nan")))
    again = NamedConstants.from_record(named.record())
    assert again is not None and again.text() == named.text() == "x' = -k*x + c\nk = 0.500(10), c = 2"
    assert named.record()["standard_errors"] == [0.01, None]
    # With 10 degrees of freedom a 95 % interval is 2.228 standard errors on each side.
    (k, c) = named.rows(10)
    assert (k["high"] - k["low"]) / 2.0 == pytest.approx(2.228 * 0.01, rel=1e-3)
    assert c["low"] is None and c["high"] is None
    with pytest.raises(ValueError, match="different numbers"):
        NamedConstants.from_record(named.record() | {"values": [0.5]})
