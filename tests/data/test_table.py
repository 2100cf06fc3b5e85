"""What the cells of a table mean, and the words for those that mean nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from odediscovery.data.dates import Clock
from odediscovery.data.series import load_csv
from odediscovery.data.sheets import frame_table, read_table
from odediscovery.data.table import Table, assigned, check_names, clean_name
from odediscovery.errors import InputError
from odediscovery.runtime.texts import shortened


def table(decimal: str = ".", **columns: list[str]) -> Table:
    """Rows in lines 2, 3, ... of a file."""
    rows = len(next(iter(columns.values())))
    return Table(pd.DataFrame(columns, index=range(2, 2 + rows), dtype=object), decimal, ["Read."])


@pytest.mark.parametrize(
    ("decimal", "cell", "value"),
    [(".", "1", 1.0), (".", "-.5e1", -5.0), (".", "+2.", 2.0), (",", "1,5", 1.5), (",", ",5", 0.5), (",", "3", 3.0)],
)
def test_numbers(decimal: str, cell: str, value: float) -> None:
    assert table(decimal, x=[cell]).numbers("x", "state").tolist() == [value]


def test_gaps_are_nan() -> None:
    values = table(x=["1", "NA", "", "n/a", "None", "2"]).numbers("x", "state")
    np.testing.assert_array_equal(values, [1.0, np.nan, np.nan, np.nan, np.nan, 2.0])


@pytest.mark.parametrize("cell", ["1_0", "٣", "0x10", "1.5.", "12 mg", "--1", "1,5", "True"])
def test_what_looks_like_a_number_and_is_none(cell: str) -> None:
    with pytest.raises(InputError, match=r"line 3, column 'x': expected a number, got "):
        table(x=["1", cell]).numbers("x", "state")


def test_times_are_numbers_or_days() -> None:
    days, clock = table(d=["2020-03-02", "", "2020-03-01"]).times("d")
    np.testing.assert_array_equal(days, [1.0, np.nan, 0.0])
    assert clock == Clock("days", "2020-03-01")
    hours, clock = table(d=["0 days 06:00:00", "", "0 days 12:00:00"]).times("d")
    np.testing.assert_array_equal(hours, [6.0, np.nan, 12.0])
    assert clock == Clock("hours", "")
    assert table(d=["0.5", "2"]).times("d")[1] is None
    assert table(d=["", "NA"]).is_text("d") is False


def test_groups_in_order_of_appearance() -> None:
    of = table(a=["x", "y", "x"], b=["1", "1", "2"])
    assert of.groups(["a"]) == {"x": [0, 2], "y": [1]}
    assert of.groups(["a", "b"]) == {"x, 1": [0], "y, 1": [1], "x, 2": [2]}
    assert of.groups([]) == {"": [0, 1, 2]}


@pytest.mark.parametrize(
    ("names", "time"), [("a,Time,t", "t"), ("a,T,time", "time"), ("a,T,b", "T"), ("a,b", "a"), ("g,a", "a")]
)
def test_the_column_of_times(names: str, time: str) -> None:
    of = table(**{name: ["1"] for name in names.split(",")})
    assert of.time_column(None, ["g"]) == time
    assert of.time_column("a", []) == "a"


def test_states_are_the_columns_of_numbers() -> None:
    of = table(t=["1"], x=["2"], note=["text"])
    assert of.state_columns(None, {"t": "the time"}) == (["x"], ["Read.", "Column 'note' holds text and was left out."])
    with pytest.raises(InputError, match="column 't' is the time, so it cannot be a state"):
        of.state_columns("t,x", {"t": "the time"})


def test_deviations_by_column() -> None:
    of = table(s=["0.1", ""], x=["1", ""])
    sigma = of.deviations({"x": "s"}, ["y", "x"], np.array([[0.0, 1.0], [0.0, np.nan]]))
    np.testing.assert_array_equal(sigma, [[np.nan, 0.1], [np.nan, np.nan]])
    with pytest.raises(InputError, match="line 3, column 's': expected a positive standard deviation of the 'x'"):
        of.deviations({"x": "s"}, ["x"], np.ones((2, 1)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: assigned("S", "columns"),
            "columns: expected STATE=COLUMN, parted by commas, got 'S'; write S=S_sd,I=I_sd",
        ),
        (lambda: assigned("S=a,S=b", "columns"), "columns: state 'S' is named twice; name every state once"),
        (lambda: check_names(["t", "x"], 3), "expected 2 names of states, got 1"),
        (lambda: check_names(["t", "t"], 2), "the name 't' is given twice; every column needs its own"),
        (lambda: check_names(["t", "a\nb"], 2), "a name should be text on one line without outer blanks, got 'a\\nb'"),
        (lambda: table(t=["1"]).time_column(None, ["t"]), "no column is left for the time besides the group columns"),
    ],
)
def test_names_that_do_not_fit(call: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError) as caught:
        call()
    assert str(caught.value) == message


def test_names_and_cells_in_messages() -> None:
    assert clean_name(" a\r\n b ") == "a b"
    assert shortened("x" * 41) == repr("x" * 37 + "...")


def test_tables_of_files_and_frames(tmp_path: Path) -> None:
    path = tmp_path / "d.csv"
    path.write_text('\n\n t ;x;;"note"\n0;1,5; ;"a\nb"\n\n1;;z;c\n', encoding="utf-8")
    of = read_table(path)
    assert (of.columns, of.lines, of.decimal) == (["t", "x", "note"], [4, 7], ",")
    assert of.messages == ["Column 3 has no name and was left out."]
    assert of.cells["note"].tolist() == ["a\nb", "c"]
    frame = pd.DataFrame({"x": [0.1, np.nan], "n": [1, 2]}, index=pd.Index(["a", "b"], name="g"))
    of = frame_table(frame, "the frame")
    assert (of.columns, of.lines, of.decimal) == (["g", "x", "n"], [2, 3], ".")
    assert of.cells.to_numpy().tolist() == [["a", "0.1", "1"], ["b", "", "2"]]


def test_a_file_of_plain_numbers_is_the_same_table_as_cell_by_cell(tmp_path: Path) -> None:
    """Numbers are read at once where there is nothing else; a word in the last row asks for every cell."""
    draw = np.random.default_rng(0)
    values = draw.standard_normal((40, 3)) * 10.0 ** draw.integers(-200, 200, (40, 3))
    rows = [f"{k % 3:03d},{k}.0," + ",".join(map(repr, row)) for k, row in enumerate(values.tolist())]
    rows[5], rows[9] = "002,5,,1e3,-.5", ""
    plain, mixed = tmp_path / "plain.csv", tmp_path / "mixed.csv"
    plain.write_text("g,t,x [g/L],y,z\n" + "\n".join(rows) + "\n")
    mixed.write_text("g,t,x [g/L],y,z,note\n" + "\n".join(row and f"{row},a" for row in rows) + "\n")
    one, other = read_table(plain), read_table(mixed)
    assert one.written is not None and other.written is None
    assert (one.columns, one.lines, one.units) == (other.columns[:-1], other.lines, other.units)
    for name in "txyz":
        np.testing.assert_array_equal(one.numbers(name, "state"), other.numbers(name, "state"))
        assert not one.is_text(name)
    assert one.groups(["g"]) == other.groups(["g"]) and list(one.groups(["g"])) == ["000", "001", "002"]
    assert one.groups(["g", "t"]) == other.groups(["g", "t"])
    for file in (plain, mixed):
        with pytest.raises(InputError, match=r"line 7, column 'x': the group is missing"):
            read_table(file).groups(["x"])
    np.testing.assert_array_equal(load_csv(plain, group="g").trajectories[1].values[0], values[1])


@pytest.mark.parametrize("body", ["1,2\n3,4,5\n", "1,2,3\n4,5,6\n", "1,1e999\n2,3\n", "1,-\n2,3\n", ""])
def test_what_is_not_plainly_numbers_is_read_cell_by_cell(body: str, tmp_path: Path) -> None:
    """So its errors name what they always did."""
    (tmp_path / "odd.csv").write_bytes(f"t,x\n{body}".encode())
    try:
        assert read_table(tmp_path / "odd.csv").written is None
    except InputError as error:
        assert "\n" not in str(error)
