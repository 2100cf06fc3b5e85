"""Controls u(t): followed exactly by every integrator, read from tables, filled and told apart."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from problems import SINE, TIMES
from tabular import table

from odediscovery.data.series import (
    TimeSeries,
    append_controls,
    drop_appended_controls,
    load_with_controls,
    with_controls,
    write_csv,
)
from odediscovery.data.signals import Signal
from odediscovery.errors import InputError
from odediscovery.laws.equations import Equations

# ---- the solutions, against closed forms and against a solver that sees u(t) as a function -------


def test_a_held_input_jumps_at_its_samples() -> None:
    # x' = -x + u has x = u + (x0 - u) exp(-t) while u stays.
    law = Equations.parse(["x"], {"x": "u - x"}, controls=["u"])
    steps = Signal(np.array([0.0, 1.0, 3.0]), np.array([[2.0], [-1.0], [5.0]]), np.array([True]))
    found = law.simulate([0.0], [0.0, 0.5, 1.0, 2.0, 3.0, 4.0], controls=steps)[:, 0]
    first = 2.0 - 2.0 * np.exp(-1.0)
    second = -1.0 + (first + 1.0) * np.exp(-2.0)
    expected = [
        0.0,
        2.0 - 2.0 * np.exp(-0.5),
        first,
        -1.0 + (first + 1.0) * np.exp(-1.0),
        second,
        5.0 + (second - 5.0) * np.exp(-1.0),
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-8)


def test_a_linear_input_is_a_straight_line_between_samples() -> None:
    # x' = u, so x is the trapezoid under u: exact by numpy, at unequal times.
    law = Equations.parse(["x"], {"x": "u"}, controls=["u"])
    signal = Signal(TIMES, SINE[:, None], np.array([False]))
    found = law.simulate([0.5], TIMES, controls=signal)[:, 0]
    area = np.concatenate([[0.0], np.cumsum(np.diff(TIMES) * (SINE[1:] + SINE[:-1]) / 2)])
    np.testing.assert_allclose(found, 0.5 + area, rtol=1e-7)


def test_time_goes_on_where_other_controls_stay() -> None:
    law = Equations.parse(["x"], {"x": "t + u"}, controls=["t", "u"])
    signal = Signal(np.array([0.0, 1.0]), np.array([[0.0, 1.0], [1.0, 2.0]]), np.zeros(2, bool))
    # Up to t = 1 it is t^2/2 + t + t^2/2; then t^2/2 and 2 t go on.
    found = law.simulate([0.0], [0.0, 1.0, 3.0], controls=signal)[:, 0]
    np.testing.assert_allclose(found, [0.0, 2.0, 2.0 + 4.0 + 4.0], rtol=1e-8)
    alone = Equations.parse(["x"], {"x": "t"}, controls=["t"])
    np.testing.assert_allclose(alone.simulate([0.0], [2.0, 4.0])[:, 0], [0.0, 6.0], rtol=1e-8)


# ---- the user's side -----------------------------------------------------------------------------


def test_gaps_of_an_input_are_filled_and_the_rest_of_the_series_stays() -> None:
    times = [0.0, 1.0, 2.0, 4.0, 5.0, 6.0]
    u = np.array([1.0, np.nan, 3.0, 4.0, 5.0, np.nan])
    series = TimeSeries.from_arrays(times, np.column_stack([np.arange(6.0), u, u]), ["x", "a", "b"], noise={"x": 0.1})
    found = with_controls(series, ["a"], ["b"])
    signal = found.trajectories[0].controls
    assert signal is not None
    assert signal.values.T.tolist() == [[1, 2, 3, 4, 5, 5], [1, 1, 3, 4, 5, 5]]
    sigma = found.trajectories[0].sigma
    assert sigma is not None
    assert sigma.tolist() == [[0.1]] * 6
    back = drop_appended_controls(append_controls(found))
    assert back.states == ("x",)
    assert back.trajectories[0].values.tolist() == found.trajectories[0].values.tolist()


def test_an_input_needs_its_first_value(tmp_path: Path) -> None:
    path = table(tmp_path, "0,9,", *(f"{k},{9 - k},{k % 3}" for k in range(1, 9)), header="t,x,feed")
    with pytest.raises(InputError, match=r"'feed' has no value in the first sample \(time 0\)"):
        load_with_controls(path, ["feed"])


def test_a_temperature_called_T_is_no_time(tmp_path: Path) -> None:
    path = table(tmp_path, *(f"{k},{9 - k},{20 - k % 3}" for k in range(9)), header="hours,x,T")
    series = load_with_controls(path, ["T"])
    assert (series.time_name, series.states, series.controls) == ("hours", ("x",), ("T",))
    write_csv(series, tmp_path / "again.csv")
    assert (tmp_path / "again.csv").read_text().startswith("hours,x,T\n")
    # The time itself as an input is no further column.
    series = load_with_controls(path, ["hours"], time="hours", states=["x"])
    assert series.to_frame().columns.tolist() == ["hours", "x"]
