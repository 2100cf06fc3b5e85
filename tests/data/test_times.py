"""Times, dates and frames: their unit, their start, where they stand, and what is no date."""

from datetime import datetime, timedelta

import numpy as np
import pandas as pd
import pytest
from tabular import refusal, table

from odediscovery import InputError, TimeSeries, load_csv
from odediscovery.data.dates import counted_times
from odediscovery.data.frames import index_times, plain_frame
from odediscovery.data.series import with_even_times
from odediscovery.data.signals import even_times
from odediscovery.plots.axes import with_unit

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
def test_dates_and_durations_of_any_kind_are_times(times):
    series = TimeSeries.from_arrays(times, [1.0, 2.0, 3.0, 4.0], ["x"])
    np.testing.assert_allclose(series.trajectories[0].time, [0, 30, 60, 90])
    assert series.units == {"t": "minutes"}
    assert len(series.messages) == 1 and "counted in minutes" in series.messages[0]


def test_a_change_of_clocks_is_no_jump():
    local = pd.date_range("2020-03-29 01:00", periods=4, freq="1h", tz="Europe/Berlin")
    assert counted_times([local])[0][0].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("other", [np.arange(4.0), pd.date_range("2020-03-01", periods=4, tz="UTC")])
def test_times_of_two_kinds_are_refused(other):
    with pytest.raises(InputError, match=r"^times: expected dates"):
        TimeSeries.from_arrays([pd.date_range("2020-03-01", periods=4), other], [range(4), range(4)])


def test_a_missing_date_is_named():
    with pytest.raises(InputError, match="sample 2: the time 't' is missing"):
        TimeSeries.from_arrays(pd.to_datetime(["2020-03-01", "2020-03-02", None, "2020-03-04"]), range(4))


def test_months_count_from_their_first_days(tmp_path):
    series = load_csv(table(tmp_path, "2001-01,20", "2001-02,24", "2001-03,27", "2001-04,29", header="Month,voles"))
    assert series.trajectories[0].time.tolist() == [0, 31, 59, 90]
    assert series.messages[0].endswith("days since 2001-01-01.")


GRID = np.linspace(0.0, 5.0, 30)


@pytest.mark.parametrize("digits", [3, 4, 6])
def test_rounded_even_times_are_even_again(digits):
    found = even_times([GRID.round(digits)])
    assert np.abs(found[0][0] - GRID).max() < 0.1 * 10.0**-digits
    assert found[1] == pytest.approx(GRID[1], abs=10.0**-digits)


def test_trajectories_share_one_grid_also_with_samples_missing():
    written = GRID.round(4)
    found = even_times([written, np.delete(written, 7), written[3:25], written[:4]])
    assert found[0][1].tolist() == np.delete(found[0][0], 7).tolist()
    assert found[0][3].tolist() == found[0][0][:4].tolist()


@pytest.mark.parametrize(
    "time",
    [
        pytest.param(np.arange(12) * 0.1, id="even as written"),
        pytest.param(np.array([0, 14, 29, 42, 56, 71, 84, 98, 112], float), id="fortnights"),
        pytest.param(np.sort(np.random.default_rng(0).uniform(0.0, 9.0, 30)).round(2), id="uneven"),
        pytest.param(np.linspace(0.0, 1.0, 7).round(3), id="few"),
        pytest.param(np.linspace(0.0, 7.0, 30), id="all digits"),
    ],
)
def test_other_times_stay(time):
    assert even_times([time]) is None


def test_dates_stay():
    years = pd.to_datetime([f"{year}-01-01" for year in range(1990, 2010)])
    series = TimeSeries.from_frame(pd.DataFrame({"date": years, "x": np.exp(-0.1 * np.arange(20.0))}), time="date")
    assert series.since and with_even_times(series) is series


STATES = {"prey": [1.0, 3.0, 2.0, 5.0], "pred": [4.0, 2.0, 2.5, 1.0]}
HALVES = [0.0, 0.5, 1.0, 1.5]
DAYS = pd.date_range("2020-03-01", periods=4)


def times(frame, **options):
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
def test_a_time_like_index_holds_the_times(index, name, unit):
    series = TimeSeries.from_frame(pd.DataFrame(STATES, index))
    assert series.states == ("prey", "pred") and series.time_name == name
    assert series.trajectories[0].time.tolist() == (HALVES if unit is None else [0, 30, 60, 90])
    assert series.units == ({} if unit is None else {name: "minutes"})
    assert len(series.messages) == (unit is not None)


def test_a_column_that_says_so_comes_before_the_index():
    frame = pd.DataFrame({**STATES, "t": HALVES}, DAYS)
    series = TimeSeries.from_frame(frame)
    assert (series.time_name, series.trajectories[0].time.tolist()) == ("t", HALVES)
    assert series.messages == ("The index of the frame was left out: column 't' holds the times.",)
    assert times(frame.rename(columns={"t": "hours"}), time="hours") == HALVES


@pytest.mark.parametrize(
    ("index", "shown"),
    [(HALVES, "(0.0, 0.5, ...)"), ([1900, 1905, 1910, 1915], "(1900, 1905, ...)"), (list("abcd"), "(a, b, ...)")],
)
def test_an_index_that_may_be_the_times_is_not_dropped(index, shown):
    frame = pd.DataFrame(STATES, index)
    told = refusal(frame)
    assert f"the index of the frame, {shown}, does not count rows" in told
    assert "rename_axis('t')" in told and "reset_index(drop=True)" in told
    if not isinstance(index[0], str):
        assert times(frame.rename_axis("t")) == index
    assert "nothing says where the times" in refusal(frame.reset_index(drop=True))


def test_the_first_column_of_a_frame_is_no_time_unless_it_says_so(tmp_path):
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

    def __init__(self, **columns):
        self.held, self.columns = columns, list(columns)

    def __getitem__(self, name):
        return self.held[name]


def test_frames_of_other_libraries_are_known_by_their_columns():
    assert times(Listed(t=HALVES, **STATES)) == HALVES
    dated = Listed(**STATES, when=[datetime(2020, 3, 1) + k * timedelta(hours=2) for k in range(4)])
    assert times(dated) == [0, 2, 4, 6]
    assert "nothing says" in refusal(Listed(**STATES))
    assert index_times(dated) is None
    assert "its columns cannot be listed" in refusal(Listed(t=HALVES, x=[1.0]))


def test_a_dataset_of_xarray():
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


def test_levels_of_an_index_beside_the_times_are_groups():
    index = pd.MultiIndex.from_product([["a", "b"], HALVES], names=["vessel", "t"])
    series = TimeSeries.from_frame(pd.DataFrame({name: [*cells, *cells] for name, cells in STATES.items()}, index))
    assert [run.label for run in series.trajectories] == ["a", "b"]
    assert (series.states, series.messages) == (("prey", "pred"), ())


def test_a_series_of_pandas_is_a_frame_of_one_column():
    days = pd.date_range("2024-05-01", periods=5)
    for name, state in (("cells", "cells"), (None, "x")):
        assert TimeSeries.from_frame(pd.Series(np.arange(5.0), index=days, name=name)).states == (state,)


FRAME = pd.DataFrame({"t": [0.0, 0.1, 2.0, 3.0], "S": [4, 5, 6, 7], "who": list("abcd")})


def dated(folder, *dates):
    return table(folder, *(f"{cell},{k}" for k, cell in enumerate(dates)), header="date,x")


def same(series, other):
    for part in ("states", "time_name", "messages", "units"):
        assert getattr(series, part) == getattr(other, part)
    for a, b in zip(series.trajectories, other.trajectories, strict=True):
        assert a.label == b.label
        np.testing.assert_array_equal(a.time, b.time)
        np.testing.assert_array_equal(a.values, b.values)


@pytest.mark.parametrize(
    ("dates", "unit", "times"),
    [
        (["2020-02-28", "2020-02-29", "2020-03-01", "2021-02-28"], "days", [0, 1, 2, 366]),
        (
            ["2020-03-01T12:00:30", "2020-03-01T12:01", "2020-03-01T12:01:30.5", "2020-03-02T12:00:30"],
            "seconds",
            [0, 30, 60.5, 86400],
        ),
        (
            ["2020-10-25T01:00+02:00", "2020-10-25T03:00+01:00", "2020-10-25T23:00Z", "2020-10-26T23:00Z"],
            "hours",
            [0, 3, 24, 48],
        ),
    ],
)
def test_dates_count_in_a_unit_that_fits_their_steps(tmp_path, dates, unit, times):
    series = load_csv(dated(tmp_path, *dates))
    assert series.trajectories[0].time.tolist() == times
    assert series.messages == (f"Column 'date' holds dates: time is counted in {unit} since {dates[0]}.",)
    assert series.time_name == "date"
    assert with_unit("date", series.units) == f"date [{unit}]"


FORMS = "2020-03-01 or 2020-03-01 12:00"


@pytest.mark.parametrize(
    ("dates", "message"),
    [
        (
            ["03/01/2020", "03/02/2020"],
            "line 2, column 'date': expected numbers or ISO dates for the time, got '03/01/2020'; "
            f"write dates as {FORMS}",
        ),
        (
            ["2020-02-29", "2020-02-30"],
            f"line 3, column 'date': expected an ISO date such as {FORMS}, got '2020-02-30'; correct it",
        ),
        (
            ["2020-03", "2020-03-15"],
            "line 3, column 'date': expected a month as in line 2, got a date, '2020-03-15'; write all times alike",
        ),
        (
            ["2020-03-01 12:00", "2020-03-02 12:00Z"],
            "line 3, column 'date': expected a date and time as in line 2, got a date and time with a "
            "time zone, '2020-03-02 12:00Z'; write all times alike",
        ),
        (["2020-03-01", ""], "line 3: the time 'date' is missing or infinite"),
    ],
)
def test_unreadable_and_mixed_dates_are_refused(tmp_path, dates, message):
    assert refusal(dated(tmp_path, *dates)) == message


def test_lines_are_counted_over_quoted_cells(tmp_path):
    path = tmp_path / "d.csv"
    path.write_text('t,"S\nof all",note\n0,1,"a\nb"\n1,2x,\n', encoding="utf-8")
    assert refusal(path).startswith("line 5, column 'S of all': expected a number, got '2x'")


def test_a_frame_is_read_like_the_file(tmp_path):
    frame = pd.DataFrame(
        {
            "run": ["a", "a", "a", "b", "b"],
            "when": [0.1, 0.2, 0.30000000000000004, 0.0, 1e-300],
            "x": [1.0, np.nan, 3.0, 4.0, 5.5],
            "n": pd.array([1, 2, None, 4, 5], dtype="Int64"),
            "note": ["", "text", None, "", ""],
        }
    )
    frame.to_csv(tmp_path / "d.csv", index=False)
    options = {"time": "when", "group": "run"}
    series = TimeSeries.from_frame(frame, **options)
    same(series, load_csv(tmp_path / "d.csv", **options))
    assert series.states == ("x", "n")
    assert series.trajectories[0].time.tolist() == [0.1, 0.2, 0.30000000000000004]
    assert series.messages == (
        "Column 'note' holds text and was left out.",
        "Column 'x' lacks 1 of 5 values.",
        "Column 'n' lacks 1 of 5 values.",
    )
    assert TimeSeries.from_frame(frame, "when", ["n"], "run").states == ("n",)
    again = TimeSeries.from_frame(series.to_frame(), "when", group="trajectory")
    np.testing.assert_array_equal(again.trajectories[0].values, series.trajectories[0].values)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (
            [[1, 2]],
            "expected a DataFrame (pandas, polars) or an xarray Dataset, got list; TimeSeries.from_arrays takes arrays",
        ),
        (pd.DataFrame(), "the frame has no named column; expected a time and at least one state"),
        (pd.DataFrame([[1, 2]]), "the frame has a column named 0; name every column by text"),
        (
            FRAME[["t", "S", "S"]],
            "line 1: the column 'S' stands twice (columns 2 and 3); give every column its own name",
        ),
        (
            FRAME.assign(S=[1, 2, "3x", 4]),
            "line 4, column 'S': expected a number, got '3x'; correct it or leave the cell empty",
        ),
    ],
)
def test_frames_are_refused_in_the_same_words(frame, message):
    assert refusal(frame) == message


# What pandas hands over for a sheet: no header, an empty row above it, gaps as "" or None.
SHEET = [
    ["", "", "", ""],
    ["day", "S", "", "note\nof mine"],
    [datetime(2020, 3, 1), 4, "", "a\nb"],
    [datetime(2020, 3, 2), 5.5, 8, ""],
    ["", "", "", ""],
    [datetime(2020, 3, 4), "", "", "c"],
    [datetime(2020, 3, 5), "7", "", ""],
    [datetime(2020, 3, 6), 8, None, ""],
]


def test_a_real_spreadsheet(tmp_path):
    pytest.importorskip("openpyxl")
    path = tmp_path / "d.xlsx"
    with pd.ExcelWriter(path) as writer:
        pd.DataFrame(SHEET).to_excel(writer, sheet_name="one", header=False, index=False)
        FRAME.to_excel(writer, sheet_name="two", index=False)
    series = load_csv(path)
    assert series.states == ("S",)
    assert series.trajectories[0].time.tolist() == [0, 1, 3, 4, 5]
    assert series.trajectories[0].values[[0, 1, 3], 0].tolist() == [4, 5.5, 7]
    assert series.messages == (
        "Column 3 has no name and was left out.",
        "Column 'note of mine' holds text and was left out.",
        "Column 'day' holds dates: time is counted in days since 2020-03-01.",
        "Column 'S' lacks 1 of 5 values.",
    )
    rows = [["t", "S", "land"], *([k, k + 1, "NA"] for k in range(3)), [3, "4x", "NA"]]
    pd.DataFrame(rows).to_excel(path, header=False, index=False)
    assert refusal(path).startswith("line 5, column 'S': expected a number, got '4x'")
    rows[4][1] = 4
    pd.DataFrame(rows).to_excel(path, header=False, index=False)
    assert [t.label for t in load_csv(path, group="land").trajectories] == ["NA"]
    content = path.read_bytes()
    for damaged in (content[: len(content) // 2], content[:600] + content[700:]):
        path.write_bytes(damaged)
        assert f"{path} is damaged or of an unknown kind (" in refusal(path)


def test_a_real_parquet_file(tmp_path):
    pytest.importorskip("pyarrow")
    path = tmp_path / "d.parquet"
    frame = FRAME.assign(t=pd.date_range("2020-03-01", periods=4), S=[0.1, 2, 1e-300, 4])
    frame = frame.assign(n=pd.array([1, 2, 3, 2**40], dtype="Int64"))
    frame.set_index("t").to_parquet(path, engine="pyarrow")
    same(load_csv(path), TimeSeries.from_frame(frame))
    path.write_bytes(path.read_bytes()[:200])
    assert f"{path} is damaged or of an unknown kind (" in refusal(path)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("d.parquet", "is no Parquet file; write it again, or as CSV in UTF-8"),
        ("d.xlsx", "is no spreadsheet; save the table as .xlsx or as CSV in UTF-8"),
        ("d.xls", "is no spreadsheet; save the table as .xlsx or as CSV in UTF-8"),
    ],
)
def test_another_file_under_the_ending(tmp_path, name, message):
    path = tmp_path / name
    assert refusal(path) == f"{path}: no such file"
    for content in (b"", b"t,S\n0,1\n"):
        path.write_bytes(content)
        assert refusal(path) == f"{path} {message}"


def test_clocks_are_durations_and_go_past_midnight(tmp_path):
    cells = ["23:58:30", "23:59:15", "00:00:00", "00:00:45.5"]
    series = load_csv(table(tmp_path, *(f"{cell},{k}" for k, cell in enumerate(cells)), header="time,x"))
    np.testing.assert_allclose(np.diff(series.trajectories[0].time), [45.0, 45.0, 45.5])
    assert series.units == {"time": "seconds"}
    assert refusal(table(tmp_path, "00:00:00,1", "00:00:90,2", header="time,x")).startswith(
        "line 3, column 'time': expected a duration such as 06:00:00"
    )


@pytest.mark.parametrize("clocks", [[0, 4, 8, 12, 16], [0, 6, 12, 18, 24], list(range(31))])
def test_clocks_that_restart_are_trials_or_groups(tmp_path, clocks):
    rows = [f"{g},{h:02d}:00:00,{h}" for g in "AB" for h in clocks]
    for options in ({"group": "g"}, {}):
        series = load_csv(table(tmp_path, *rows, header="g,time,x"), **options)
        assert [run.time.tolist() for run in series.trajectories] == [clocks, clocks]
    # Each group passes its own midnight.
    night = [f"{g},{c}:00,{k}" for g in "AB" for k, c in enumerate(("23:58", "23:59", "00:00", "00:01"))]
    series = load_csv(table(tmp_path, *night, header="g,time,x"), group="g")
    assert [run.time.tolist() for run in series.trajectories] == [[1438, 1439, 1440, 1441]] * 2
    assert "passes midnight 2 times" in series.messages[0]


def test_clocks_beside_dates_are_refused_unless_the_dates_are_the_times(tmp_path):
    rows = [f"2024-05-0{day},12:00:00,{day}" for day in range(1, 6)]
    message = refusal(table(tmp_path, *rows, header="date,time,x"))
    assert message.startswith("column 'time' holds clocks and column 'date' dates: expected one column with both")
    # A day is a trajectory if it is named so.
    days = [f"2024-05-0{day},{hour:02d}:00:00,{hour}" for day in (1, 9) for hour in range(5)]
    series = load_csv(table(tmp_path, *days, header="date,time,x"), group="date")
    assert [run.time.tolist() for run in series.trajectories] == [[0, 1, 2, 3, 4]] * 2
    frame = pd.DataFrame([row.split(",") for row in rows], columns=["date", "sunrise", "x"]).astype({"x": float})
    assert TimeSeries.from_frame(frame).trajectories[0].time.tolist() == [0, 1, 2, 3, 4]
