"""What the cells of a table mean, and the words for those that mean nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from odediscovery.data.series import load_csv
from odediscovery.data.sheets import frame_table, read_table
from odediscovery.data.table import Table
from odediscovery.errors import InputError


def table(decimal: str = ".", **columns: list[str]) -> Table:
    """Rows in lines 2, 3, ... of a file."""
    rows = len(next(iter(columns.values())))
    return Table(pd.DataFrame(columns, index=range(2, 2 + rows), dtype=object), decimal, ["Read."])


@pytest.mark.parametrize("cell", ["1_0", "٣", "0x10", "1.5.", "12 mg", "--1", "1,5", "True"])
def test_what_looks_like_a_number_and_is_none(cell: str) -> None:
    with pytest.raises(InputError, match=r"line 3, column 'x': expected a number, got "):
        table(x=["1", cell]).numbers("x", "state")


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


@pytest.mark.parametrize("body", ["1,2\n3,4,5\n", "1,1e999\n2,3\n", "1,-\n2,3\n"])
def test_what_is_not_plainly_numbers_is_read_cell_by_cell(body: str, tmp_path: Path) -> None:
    """So its errors name what they always did."""
    (tmp_path / "odd.csv").write_bytes(f"t,x\n{body}".encode())
    try:
        assert read_table(tmp_path / "odd.csv").written is None
    except InputError as error:
        assert "\n" not in str(error)
