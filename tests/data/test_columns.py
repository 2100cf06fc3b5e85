"""Columns computed from columns, their units, standard deviations and inputs: read, kept and shown."""

import re

import numpy as np
import pandas as pd
import pytest
from problems import SINE, TIMES
from tabular import refusal, table

from odediscovery import InputError, TimeSeries, load_csv, load_with_controls
from odediscovery.data.recorded import Arithmetic, split_name
from odediscovery.data.series import (
    append_controls,
    drop_appended_controls,
    group_column,
    sigma_columns,
    with_controls,
    write_csv,
)
from odediscovery.data.signals import Signal
from odediscovery.data.table import split_unit
from odediscovery.laws.equations import Equations
from odediscovery.problem.problem import prepare

COLUMNS = {"a": np.array([1.0, 2.0, np.nan]), "b c": np.array([4.0, 0.0, 1.0]), "a-b": np.array([7.0, 7.0, 7.0])}


def value(text):
    return Arithmetic(text, list(COLUMNS), COLUMNS.__getitem__).value().tolist()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a-b", [7.0, 7.0, 7.0]),  # the longest name first
        ("2*(a - 1) + b c/4", [1.0, 2.0, np.nan]),
        ("-b c - -1e1", [6.0, 10.0, 9.0]),
        ("8/b c/2", [1.0, np.inf, 4.0]),
    ],
)
def test_sums_are_computed_row_by_row(text, expected):
    np.testing.assert_array_equal(value(text), expected)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a + ", "expected a column or a number"),
        ("(a", "expected )"),
        ("a b", "expected +, -, * or /"),
        ("a ** 2", "expected a column or a number"),
        ("__import__('os')", "unknown column"),
        ("d", "unknown column 'd'"),
        ("1 + 2", "names no column"),
        ("(" * 100 + "a", "within each other"),
        ("a" * 2000, "at most 1000 characters"),
    ],
)
def test_mistakes_are_told_in_one_line(text, reason):
    with pytest.raises(InputError, match=r"--column") as caught:
        value(text)
    assert reason in str(caught.value) and "\n" not in str(caught.value)
    with pytest.raises(InputError, match="NAME=SUM"):
        split_name("a + b")


def test_a_computed_column_is_a_state_and_its_parts_are_none(tmp_path):
    path = table(tmp_path, "0,9,0,0", "1,7,1,1", "2,5,2,", "3,3,4,2", "4,2,5,2", header="t,I,recovered,deaths")
    series = load_csv(path, columns="R=recovered+deaths")
    assert series.states == ("I", "R")
    np.testing.assert_array_equal(series.trajectories[0].values[:, 1], [0.0, 2.0, np.nan, 6.0, 7.0])
    assert load_csv(path, columns=["R=recovered+deaths"], states=["R", "deaths"]).states == ("R", "deaths")
    with pytest.raises(InputError, match="line 2: --column 'x=I/deaths' divides by 0"):
        load_csv(path, columns="x=I/deaths")


def measured(folder, header="t [h],cells [g/L],x[0],T [°C]"):
    return table(folder, *(f"{k},{9 - k},{k * k},{30 + k}" for k in range(6)), header=header)


@pytest.mark.parametrize(
    ("header", "name", "unit"),
    [
        ("cells[g/L]", "cells", "g/L"),
        ("rate [h^-1]", "rate", "h^-1"),
        ("T [°C]", "T", "°C"),
        ("x[0]", "x[0]", None),
        ("a [b] c", "a [b] c", None),
    ],
)
def test_a_unit_stands_in_brackets_behind_a_name(header, name, unit):
    assert split_unit(header) == (name, unit)


def test_units_of_a_header_are_kept_and_the_names_are_bare(tmp_path):
    series = load_csv(measured(tmp_path))
    assert (series.time_name, series.states) == ("t", ("cells", "x[0]", "T"))
    assert series.units == {"t": "h", "cells": "g/L", "T": "°C"}
    for chosen in (["cells"], ["cells [g/L]"]):
        assert load_csv(measured(tmp_path), states=chosen).states == ("cells",)
    with pytest.raises(InputError, match="unknown state"):
        load_csv(measured(tmp_path), states=["cells [mg/L]"])
    driven = load_with_controls(measured(tmp_path), ["T"])
    assert driven.controls == ("T",) and driven.units["T"] == "°C"


def test_names_that_differ_by_their_units_alone_keep_them(tmp_path):
    series = load_csv(measured(tmp_path, "t,cells [g/L],cells [1/L],cells2"))
    assert series.states == ("cells [g/L]", "cells [1/L]", "cells2") and series.units == {}


def test_units_are_given_beside_the_data(tmp_path):
    series = load_csv(measured(tmp_path), units="cells=mg/L, x[0]=1")
    assert series.units == {"t": "h", "cells": "mg/L", "T": "°C", "x[0]": "1"}
    frame = pd.DataFrame({"mass [g]": [1.0, 2.0, 3.0, 4.0]}, pd.Index([0.0, 0.5, 1.0, 1.5], name="t"))
    series = TimeSeries.from_frame(frame, units={"t": "h"})
    assert series.states == ("mass",) and series.units == {"mass": "g", "t": "h"}
    assert TimeSeries.from_frame(frame.rename_axis("t [min]"), time="t").units == {"mass": "g", "t": "min"}


@pytest.mark.parametrize(
    ("units", "message"),
    [
        ("cells", "units: expected STATE=UNIT, parted by commas, got 'cells'; write S=g/L,t=h"),
        ("cell=g", "unknown state or time with a unit 'cell': did you mean 'cells'?"),
        ("cells=g,cells=mg", "'cells' is named twice"),
    ],
)
def test_mistakes_are_one_line(tmp_path, units, message):
    assert message in refusal(measured(tmp_path), units=units)


def test_dates_have_their_own_unit(tmp_path):
    frame = pd.DataFrame({"x": range(4)}, pd.date_range("2020-03-01", periods=4))
    with pytest.raises(InputError, match="holds dates, which count in days; leave its unit out"):
        TimeSeries.from_frame(frame, units={"time": "h"})
    assert TimeSeries.from_frame(frame, units={"time": "days", "x": "g"}).units == {"time": "days", "x": "g"}


ROWS = ["0,10,1,0.5,0.1", "1,20,2,0.5,0.1", "2,30,3,1.5,0.2", "3,40,4,1.5,0.2", "4,50,5,2,0.2"]
HEADER = "t,S,I,S_sd,I_sd"
BOTH = {"S": "S_sd", "I": "I_sd"}
T = np.linspace(0.0, 10.0, 40)
# Good and bad samples by turns: nothing in the values tells which is which.
BY_TURNS = np.where(np.arange(len(T)) % 2, 0.5, 0.05)
RATE, CAPACITY = 0.8, 10.0
LOGISTIC = CAPACITY / (1.0 + 19.0 * np.exp(-RATE * T))


def draw(seed, sigma=BY_TURNS):
    return LOGISTIC + sigma * np.random.default_rng(seed).standard_normal(len(T))


def known(series, run=0):
    return series.trajectories[run].sigma


def posed(values, **options):
    return prepare(TimeSeries.from_arrays(T, values, **options))


@pytest.mark.parametrize("sigma", [BOTH, " I = I_sd, S=S_sd "])
def test_columns_of_standard_deviations_are_no_states(tmp_path, sigma):
    series = load_csv(table(tmp_path, *ROWS, header=HEADER), sigma=sigma)
    assert series.states == ("S", "I")
    assert known(series).T.tolist() == [[0.5, 0.5, 1.5, 1.5, 2], [0.1, 0.1, 0.2, 0.2, 0.2]]
    plain = load_csv(table(tmp_path, *ROWS, header=HEADER))
    assert plain.states == ("S", "I", "S_sd", "I_sd") and plain.trajectories[0].sigma is None


def test_only_some_states_need_them_and_missing_values_none(tmp_path):
    path = table(tmp_path, *ROWS, "5,,6,-1,0.3", "6,70,,1,", header=HEADER)
    assert np.isnan(known(load_csv(path, sigma=BOTH))).tolist()[-2:] == [[True, False], [False, True]]
    series = load_csv(path, states=["S", "I"], sigma={"I": "I_sd"})
    assert np.isnan(known(series)[:, 0]).all() and np.isfinite(known(series)[:-1, 1]).all()


def test_arrays_have_them_by_trajectory_and_state():
    values = np.arange(8.0).reshape(4, 2)
    unknown = np.column_stack([np.full(4, 0.5), np.full(4, np.nan)])
    series = TimeSeries.from_arrays([range(4), range(4)], [values, values], sigma=[unknown] * 2)
    np.testing.assert_array_equal(known(series, 1), unknown)
    assert sigma_columns(series) == {"x0": "x0_sd"}
    none = TimeSeries.from_arrays([range(4)] * 2, [values] * 2, sigma=[None, None])
    assert none.trajectories[0].sigma is None and sigma_columns(none) == {}
    gappy = TimeSeries.from_arrays(range(5), [1, 2, np.nan, 4, 5], sigma=[1, 1, 1, 1, 1])
    assert np.isnan(known(gappy)[:, 0]).tolist() == [False, False, True, False, False]


def test_a_noise_level_is_the_same_in_all_samples():
    values = np.column_stack([draw(0), draw(1)])
    values[3, 0] = np.nan
    series = TimeSeries.from_arrays(T, values, ["S", "I"], noise={"S": 2, "I": np.float64(0.5)})
    assert np.nanmin(known(series)[:, 0]) == np.nanmax(known(series)[:, 0]) == 2.0
    assert np.isnan(known(series)[3, 0]) and (known(series)[:, 1] == 0.5).all()
    mixed = TimeSeries.from_arrays(
        T, values, ["S", "I"], noise={"S": 2}, sigma=np.column_stack([np.full(len(T), np.nan), BY_TURNS])
    )
    np.testing.assert_array_equal(known(mixed)[:, 1], BY_TURNS)


POSITIVE = (
    "line 7, column '{0}_sd': expected a positive standard deviation of the '{0}' measured there, got {1}; give one, "
    "or leave that value of '{0}' out"
)
SIGMA = "column of standard deviations"


@pytest.mark.parametrize(
    ("row", "sigma", "message"),
    [
        ("5,60,6,0,1", BOTH, POSITIVE.format("S", 0)),
        ("5,60,6,1,", BOTH, POSITIVE.format("I", "none")),
        ("5,60,6,1,inf", BOTH, "line 7, column 'I_sd': 'inf' is infinite; correct it"),
        ("", {"S": "S_std"}, f"unknown {SIGMA} 'S_std': did you mean 'S_sd'? Known: t, S, I, S_sd, I_sd"),
        ("", {"R": "S_sd"}, f"unknown state with a {SIGMA} 'R': Known: S, I, I_sd"),
        ("", "S_sd", f"{SIGMA}: expected STATE=COLUMN, parted by commas, got 'S_sd'; write S=S_sd,I=I_sd"),
    ],
)
def test_refusals_name_the_line(tmp_path, row, sigma, message):
    assert refusal(table(tmp_path, *ROWS, row, header=HEADER), sigma=sigma) == message


def test_written_tables_read_back_exactly(tmp_path):
    values = np.random.default_rng(0).standard_normal((5, 3)) * [[1.0], [1e-320], [1e300], [1.0], [1.0]]
    values[2, 0], values[3] = np.nan, [0.1, 0.30000000000000004, 1.7976931348623157e308]
    sigma = np.abs(values) / 3.0
    sigma[:, 2] = np.nan
    time, states = np.array([0.1, 0.2, 0.30000000000000004, 1e3, 1e4 / 3]), ["trajectory", "trajectory_sd", 'a "b", c']
    series = TimeSeries.from_arrays([time, time], [values, -values], states, sigma=[sigma, 2.0 * sigma])
    columns, group = sigma_columns(series), group_column(series)
    assert columns == {"trajectory": "trajectory_sd_", "trajectory_sd": "trajectory_sd_sd"} and group == "trajectory_"
    write_csv(series, tmp_path / "d.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["d.csv"]
    again = load_csv(tmp_path / "d.csv", "t", states, group, sigma=columns)
    for k, (old, new) in enumerate(zip(series.trajectories, again.trajectories, strict=True)):
        assert old.label == new.label
        np.testing.assert_array_equal(old.time, new.time)
        np.testing.assert_array_equal(old.values, new.values)
        np.testing.assert_array_equal(known(again, k), known(series, k))


def test_they_are_the_noise_and_its_shape():
    p = posed(draw(0), sigma=BY_TURNS)
    rms = np.sqrt(np.mean(BY_TURNS**2))
    np.testing.assert_allclose(p.noise, rms / p.scale.state)
    np.testing.assert_allclose(p.relative_sigma[0][:, 0], np.maximum(BY_TURNS / rms, 0.1))
    assert p.messages == ()
    level = posed(draw(0, np.full(len(T), 0.2)), noise={"x0": 0.25})
    np.testing.assert_allclose(level.noise, 0.25 / level.scale.state)
    assert (level.relative_sigma[0] == 1.0).all() and level.messages == ()


@pytest.mark.parametrize(("factor", "word"), [(2.0, None), (0.5, None), (5.0, "smaller"), (0.2, "larger")])
def test_deviations_that_the_data_contradict(factor, word):
    p = posed(draw(0), states=["S"], sigma=factor * BY_TURNS)
    told = rf"the noise of S looks \d times {word} than its standard deviations say"
    assert [bool(re.match(told, text)) for text in p.messages] == [True] * bool(word)


def test_a_held_input_jumps_at_its_samples():
    # x' = -x + u has x = u + (x0 - u) exp(-t) while u stays.
    law = Equations.parse(["x"], {"x": "u - x"}, controls=["u"])
    steps = Signal(np.array([0.0, 1.0, 3.0]), np.array([[2.0], [-1.0], [5.0]]), np.array([True]))
    found = law.simulate([0.0], [0.0, 0.5, 1.0, 2.0, 3.0, 4.0], controls=steps)[:, 0]
    after = lambda t, x0, u: u + (x0 - u) * np.exp(-t)  # noqa: E731
    first = after(1.0, 0.0, 2.0)
    second = after(2.0, first, -1.0)
    expected = [0.0, after(0.5, 0.0, 2.0), first, after(1.0, first, -1.0), second, after(1.0, second, 5.0)]
    np.testing.assert_allclose(found, expected, rtol=1e-8)


def test_a_linear_input_is_a_straight_line_between_samples():
    # x' = u, so x is the trapezoid under u: exact by numpy, at unequal times.
    law = Equations.parse(["x"], {"x": "u"}, controls=["u"])
    signal = Signal(TIMES, SINE[:, None], np.array([False]))
    found = law.simulate([0.5], TIMES, controls=signal)[:, 0]
    area = np.concatenate([[0.0], np.cumsum(np.diff(TIMES) * (SINE[1:] + SINE[:-1]) / 2)])
    np.testing.assert_allclose(found, 0.5 + area, rtol=1e-7)


def test_time_goes_on_where_other_controls_stay():
    law = Equations.parse(["x"], {"x": "t + u"}, controls=["t", "u"])
    signal = Signal(np.array([0.0, 1.0]), np.array([[0.0, 1.0], [1.0, 2.0]]), np.zeros(2, bool))
    # Up to t = 1 it is t^2/2 + t + t^2/2; then t^2/2 and 2 t go on.
    found = law.simulate([0.0], [0.0, 1.0, 3.0], controls=signal)[:, 0]
    np.testing.assert_allclose(found, [0.0, 2.0, 2.0 + 4.0 + 4.0], rtol=1e-8)
    alone = Equations.parse(["x"], {"x": "t"}, controls=["t"])
    np.testing.assert_allclose(alone.simulate([0.0], [2.0, 4.0])[:, 0], [0.0, 6.0], rtol=1e-8)


def test_gaps_of_an_input_are_filled_and_the_rest_of_the_series_stays():
    times = [0.0, 1.0, 2.0, 4.0, 5.0, 6.0]
    u = np.array([1.0, np.nan, 3.0, 4.0, 5.0, np.nan])
    series = TimeSeries.from_arrays(times, np.column_stack([np.arange(6.0), u, u]), ["x", "a", "b"], noise={"x": 0.1})
    found = with_controls(series, ["a"], ["b"])
    (run,) = found.trajectories
    assert run.controls.values.T.tolist() == [[1, 2, 3, 4, 5, 5], [1, 1, 3, 4, 5, 5]]
    assert run.sigma.tolist() == [[0.1]] * 6
    back = drop_appended_controls(append_controls(found))
    assert back.states == ("x",)
    assert back.trajectories[0].values.tolist() == found.trajectories[0].values.tolist()


def test_an_input_needs_its_first_value(tmp_path):
    path = table(tmp_path, "0,9,", *(f"{k},{9 - k},{k % 3}" for k in range(1, 9)), header="t,x,feed")
    with pytest.raises(InputError, match=r"'feed' has no value in the first sample \(time 0\)"):
        load_with_controls(path, ["feed"])


def test_a_temperature_called_T_is_no_time(tmp_path):
    path = table(tmp_path, *(f"{k},{9 - k},{20 - k % 3}" for k in range(9)), header="hours,x,T")
    series = load_with_controls(path, ["T"])
    assert (series.time_name, series.states, series.controls) == ("hours", ("x",), ("T",))
    write_csv(series, tmp_path / "again.csv")
    assert (tmp_path / "again.csv").read_text().startswith("hours,x,T\n")
    # The time itself as an input is no further column.
    series = load_with_controls(path, ["hours"], time="hours", states=["x"])
    assert series.to_frame().columns.tolist() == ["hours", "x"]
