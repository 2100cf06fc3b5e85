"""A table of many series in blocks that are read one at a time, so that memory does not grow with it.

The table is a CSV file whose rows of one group stand together. One pass notes where blocks begin, as
places in the file; who fits a block reads that part alone.
"""

from __future__ import annotations

import csv
import io
import itertools
import math
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from odediscovery.data.sheets import header_table, separator_of
from odediscovery.data.table import Table
from odediscovery.errors import InputError
from odediscovery.runtime.arrays import Array


@dataclass(frozen=True)
class Block:
    """Part of a table.

    Args:
        path: of the table.
        start, end: bytes of the part.
        columns: of the group, the time and the state.
        places: of these.
        separator: between columns.
    """

    path: str
    start: int
    end: int
    columns: tuple[str, str, str]
    places: tuple[int, int, int]
    separator: str


def blocks_of(
    path: Path, group: str, time: str | None, state: str | None, series: int
) -> tuple[list[Block], tuple[str, str, str]]:
    """The blocks of a table and its columns: of the group, the time and the state.

    Args:
        group: column that tells the series apart.
        time: column of times; by default the one called t or time, else the first other one.
        state: the only column to model; by default the only other one.
        series: of one block.

    Raises:
        InputError: no such file or column, or rows of a group apart from each other.
    """
    if path.suffix.lower() not in (".csv", ".tsv", ".txt"):
        raise InputError(f"{path}: --each reads a CSV file or Parquet part by part; write the table as one of these")
    try:
        with path.open("rb") as file:
            begin = len(BOM_UTF8) if file.read(len(BOM_UTF8)) == BOM_UTF8 else 0
            file.seek(begin)
            separator = separator_of(next((line for line in file if line.strip()), b"").decode())
            file.seek(begin)
            rows = _rows((line.decode() for line in file), separator)
            names = next(rows, (0, []))[1]
            table, places = header_table(names, path, separator)
            columns = chosen_columns(table, group, time, state)
            found = places[columns[0]], places[columns[1]], places[columns[2]]
            starts = list(_starts(file, rows, len(names), found[0], series, path))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or (
            f"{error}; look at its quotation marks" if isinstance(error, csv.Error) else "no text in UTF-8"
        )
        raise InputError(f"{path}: cannot be read ({reason})") from None
    return [Block(str(path), a, b, columns, found, separator) for a, b in itertools.pairwise(starts)], columns


def chosen_columns(table: Table, group: str, time: str | None, state: str | None) -> tuple[str, str, str]:
    """The columns of group, time and state, by the rules for all tables.

    Raises:
        InputError: no such column, or several that may be the state.
    """
    own = table.chosen([group], "group column")[0]
    when = table.time_column(time, [own])
    taken = {own: "the group", when: "the time"}
    states, _ = table.state_columns(None if state is None else [state], taken)
    if len(states) != 1:
        raise InputError(f"--each fits one state: name its column, --states, among {', '.join(states) or 'none'}")
    return own, when, states[0]


def _rows(lines: Iterable[str], separator: str) -> Iterator[tuple[int, list[str]]]:
    """The rows that hold anything, each with the line at which it ends."""
    reader = csv.reader(lines, delimiter=separator, skipinitialspace=True, strict=True)
    return ((reader.line_num, row) for row in reader if any(map(str.strip, row)))


def _starts(
    file: IO[bytes], rows: Iterable[tuple[int, list[str]]], width: int, place: int, series: int, path: Path
) -> Iterator[int]:
    """Where blocks begin, and the end of the file."""
    at = file.tell()
    yield at
    label, count, seen = None, 0, set[int]()
    for number, row in rows:
        if not place < len(row) <= width:
            raise InputError(f"{path}, line {number}: expected {width} cells as in the header, got {len(row)}")
        if row[place].strip() != label:
            label = row[place].strip()
            if hash(label) in seen:
                raise InputError(
                    f"{path}, line {number}: the rows of group {label!r} do not stand together; sort the table by its "
                    "group column"
                )
            seen.add(hash(label))
            count += 1
            if count > series:
                count = 1
                yield at
        at = file.tell()
    yield at


def read_block(block: Block) -> tuple[list[str], list[tuple[Array, Array]]]:
    """Labels and (times, values) of the series of a block, nan for what is no number."""
    with open(block.path, "rb") as file:
        file.seek(block.start)
        text = file.read(block.end - block.start).decode()
    found: dict[str, tuple[list[float], list[float]]] = {}
    group, time, state = block.places
    for _, row in _rows(io.StringIO(text, newline=""), block.separator):
        if len(row) > max(block.places):
            t, x = found.setdefault(row[group].strip(), ([], []))
            t.append(_number(row[time], block.separator))
            x.append(_number(row[state], block.separator))
    return list(found), [(np.array(t), np.array(x)) for t, x in found.values()]


def _number(cell: str, separator: str) -> float:
    try:
        # A comma that parts no columns is that of decimals.
        value = float(cell if separator == "," else cell.replace(",", "."))
    except ValueError:
        return math.nan
    return value if math.isfinite(value) else math.nan
