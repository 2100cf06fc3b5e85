"""Where the fit of a form begins: the integral form, over gaps too, and draws of what nobody gave."""

from __future__ import annotations

import numpy as np
import pytest

from odediscovery.data.series import TimeSeries
from odediscovery.discovery.fit_form import FORM, _beginnings, _filled, _integral, _matched, _Task, _unknown
from odediscovery.laws.forms import read_form

T = np.linspace(0.0, 3.0, 31)


def task(text: str, values: np.ndarray, start: dict[str, float] | None = None) -> _Task:
    series = TimeSeries.from_arrays(T[: len(values)], values, ["x"])
    return _Task(series, read_form(text, ["x"], start=start))


def test_gaps_are_bridged_by_straight_lines() -> None:
    values = np.array([1.0, np.nan, np.nan, 4.0, 5.0, 7.0, np.nan])
    series = TimeSeries.from_arrays(np.arange(7.0), values, ["x"])
    assert _filled(series.trajectories[0])[:, 0].tolist() == [1.0, 2.0, 3.0, 4.0, 5.0, 7.0, 7.0]


def test_the_true_constants_meet_the_integral_form_to_the_error_of_the_trapezium_rule() -> None:
    one = task("x' = -k*x", np.exp(-0.5 * T))
    missed = _integral(one, np.array([0.5])) * one.spread * one.size
    # Its error is h^3 |x'''| / 12 in an interval.
    bound = 0.1**3 * 0.5**3 * np.exp(-0.5 * T[:-1]) / 12.0
    np.testing.assert_array_less(np.abs(missed), 1.01 * bound)
    assert np.abs(_integral(one, np.array([0.7]))).min() > 10 * (bound / one.spread / one.size).max()
    # A rate that does not change with the state is integrated exactly.
    assert np.abs(_integral(task("x' = v", 2.0 * T), np.array([2.0]))).max() < 1e-12


def test_the_integral_form_alone_gives_constants_close_to_the_true_ones() -> None:
    squares, constants = _matched(task("x' = -k*x", np.exp(-0.5 * T)), np.array([5.0]))
    assert constants[0] == pytest.approx(0.5, rel=1e-3) and squares < 1e-6


def test_given_constants_are_tried_as_they_are_first() -> None:
    one = task("x' = -k*x", np.exp(-0.5 * T), {"k": 3.0})
    begun = _beginnings(one, np.random.default_rng(0))
    np.testing.assert_array_equal(begun[0], [3.0])
    assert len(begun) <= FORM.begun


def test_constants_that_nobody_gave_are_drawn_until_one_is_close() -> None:
    one = task("x' = -k*x^p", np.exp(-0.5 * T))
    begun = _beginnings(one, np.random.default_rng(0))
    np.testing.assert_allclose(begun[0], [0.5, 1.0], rtol=1e-2)


def test_constants_that_the_data_do_not_tell_are_named() -> None:
    form = read_form("x' = a*b*x - c*x^2", ["x"])
    nan = float("nan")
    told = _unknown(form, np.array([1.0, 2.0, 0.1]), np.array([nan, nan, 0.2]))
    assert told[0] == "the data do not tell a, b: at most a combination of them is known"
    assert "the sign of c" in told[1]
    assert _unknown(form, np.ones(3), np.full(3, 0.1)) == []
