"""Standard deviations that the user knows: read, checked, carried along, and what they are for."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tabular import refusal, table

from odediscovery.data.series import TimeSeries, group_column, load_csv, sigma_columns, write_csv
from odediscovery.problem.problem import Problem, prepare
from odediscovery.runtime.arrays import Array

ROWS = ["0,10,1,0.5,0.1", "1,20,2,0.5,0.1", "2,30,3,1.5,0.2", "3,40,4,1.5,0.2", "4,50,5,2,0.2"]
HEADER = "t,S,I,S_sd,I_sd"
BOTH = {"S": "S_sd", "I": "I_sd"}
T = np.linspace(0.0, 10.0, 40)
# Good and bad samples by turns: nothing in the values tells which is which.
BY_TURNS = np.where(np.arange(len(T)) % 2, 0.5, 0.05)
RATE, CAPACITY = 0.8, 10.0
LOGISTIC = CAPACITY / (1.0 + 19.0 * np.exp(-RATE * T))


def draw(seed: int, sigma: Array = BY_TURNS) -> Array:
    return LOGISTIC + sigma * np.random.default_rng(seed).standard_normal(len(T))


def known(series: TimeSeries, run: int = 0) -> Array:
    sigma = series.trajectories[run].sigma
    assert sigma is not None
    return sigma


def measured(values: Array, **options: Any) -> Problem:
    return prepare(TimeSeries.from_arrays(T, values, **options))


@pytest.mark.parametrize("sigma", [BOTH, " I = I_sd, S=S_sd "])
def test_columns_of_standard_deviations_are_no_states(tmp_path: Path, sigma: Any) -> None:
    series = load_csv(table(tmp_path, *ROWS, header=HEADER), sigma=sigma)
    assert series.states == ("S", "I")
    assert known(series).T.tolist() == [[0.5, 0.5, 1.5, 1.5, 2], [0.1, 0.1, 0.2, 0.2, 0.2]]
    plain = load_csv(table(tmp_path, *ROWS, header=HEADER))
    assert plain.states == ("S", "I", "S_sd", "I_sd") and plain.trajectories[0].sigma is None


def test_only_some_states_need_them_and_missing_values_none(tmp_path: Path) -> None:
    path = table(tmp_path, *ROWS, "5,,6,-1,0.3", "6,70,,1,", header=HEADER)
    series = load_csv(path, sigma=BOTH)
    assert np.isnan(known(series)).tolist()[-2:] == [[True, False], [False, True]]
    series = load_csv(path, states=["S", "I"], sigma={"I": "I_sd"})
    assert np.isnan(known(series)[:, 0]).all() and np.isfinite(known(series)[:-1, 1]).all()


def test_arrays_have_them_by_trajectory_and_state() -> None:
    values = np.arange(8.0).reshape(4, 2)
    unknown = np.column_stack([np.full(4, 0.5), np.full(4, np.nan)])
    series = TimeSeries.from_arrays([range(4), range(4)], [values, values], sigma=[unknown] * 2)
    np.testing.assert_array_equal(known(series, 1), unknown)
    assert sigma_columns(series) == {"x0": "x0_sd"}
    none = TimeSeries.from_arrays([range(4)] * 2, [values] * 2, sigma=[None, None])
    assert none.trajectories[0].sigma is None and sigma_columns(none) == {}
    gappy = TimeSeries.from_arrays(range(5), [1, 2, np.nan, 4, 5], sigma=[1, 1, 1, 1, 1])
    assert np.isnan(known(gappy)[:, 0]).tolist() == [False, False, True, False, False]


def test_a_noise_level_is_the_same_in_all_samples() -> None:
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
def test_refusals_name_the_line(tmp_path: Path, row: str, sigma: Any, message: str) -> None:
    assert refusal(table(tmp_path, *ROWS, row, header=HEADER), sigma=sigma) == message


def test_written_tables_read_back_exactly(tmp_path: Path) -> None:
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


def test_they_are_the_noise_and_its_shape() -> None:
    p = measured(draw(0), sigma=BY_TURNS)
    rms = np.sqrt(np.mean(BY_TURNS**2))
    np.testing.assert_allclose(p.noise, rms / p.scale.state)
    np.testing.assert_allclose(p.relative_sigma[0][:, 0], np.maximum(BY_TURNS / rms, 0.1))
    assert p.messages == ()
    level = measured(draw(0, np.full(len(T), 0.2)), noise={"x0": 0.25})
    np.testing.assert_allclose(level.noise, 0.25 / level.scale.state)
    assert (level.relative_sigma[0] == 1.0).all() and level.messages == ()


@pytest.mark.parametrize(
    ("factor", "message"),
    [
        (1.0, None),
        (2.0, None),
        (0.5, None),
        (5.0, r"the noise of S looks \d times smaller than its standard deviations say"),
        (
            0.2,
            r"the noise of S looks \d times larger than its standard deviations say, unless it "
            r"changes too fast between samples to tell",
        ),
    ],
)
def test_deviations_that_the_data_contradict(factor: float, message: str | None) -> None:
    p = measured(draw(0), states=["S"], sigma=factor * BY_TURNS)
    assert [bool(re.fullmatch(message or "", text)) for text in p.messages] == [True] * bool(message)
