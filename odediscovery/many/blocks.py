"""A table of many series in blocks that are read one at a time, so that memory does not grow with it.

The table is a CSV file whose rows of one group stand together. One pass notes where blocks begin, as
places in the file; who fits a block reads that part alone.
"""

from __future__ import annotations

import csv
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from odediscovery.errors import InputError, unknown_name
from odediscovery.runtime.arrays import Array


@dataclass(frozen=True)
class Block:
    """Part of a table.

    Args:
        path: of the table.
        start, end: bytes of the part.
        places: columns of the group, the time and the state.
        separator: between columns.
    """

    path: str
    start: int
    end: int
    places: tuple[int, int, int]
    separator: str


def blocks_of(path: Path, group: str, time: str | None, state: str | None, series: int) -> tuple[list[Block], str]:
    """The blocks of a table and the name of its state.

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
            header = file.readline()
            separator, names = _header(header)
            places, name = place_columns(names, group, time, state)
            starts = list(_starts(file, len(header), places[0], separator, series, path))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "no text in UTF-8"
        raise InputError(f"{path}: cannot be read ({reason})") from None
    pairs = itertools.pairwise(starts)
    return [Block(str(path), a, b, places, separator) for a, b in pairs], name


def column_names(path: Path) -> list[str]:
    """Names of the columns of a table of text."""
    with path.open("rb") as file:
        return _header(file.readline())[1]


def _header(line: bytes) -> tuple[str, list[str]]:
    """What parts the columns, and their names."""
    separator = "\t" if b"\t" in line else ";" if b";" in line else ","
    return separator, [name.strip().strip('"') for name in line.decode("utf-8-sig").strip().split(separator)]


def place_columns(
    names: Sequence[str], group: str, time: str | None, state: str | None
) -> tuple[tuple[int, int, int], str]:
    """Places of group, time and state among the columns of a table, and the name of the state.

    Raises:
        InputError: no such column, or several that may be the state.
    """
    for wanted, kind in ((group, "group column"), (time, "time column"), (state, "state")):
        if wanted is not None and wanted not in names:
            raise unknown_name(kind, wanted, names)
    rest = [name for name in names if name != group]
    when = time or next((name for name in rest if name.lower() in ("t", "time")), rest[0] if rest else None)
    others = [name for name in rest if name != when]
    if when is None or (state is None and len(others) != 1):
        raise InputError(f"--each fits one state: name its column, --states, among {', '.join(others) or 'none'}")
    chosen = state or others[0]
    return (names.index(group), names.index(when), names.index(chosen)), chosen


def _starts(file: Iterator[bytes], at: int, place: int, separator: str, series: int, path: Path) -> Iterator[int]:
    """Where blocks begin, and the end of the file."""
    yield at
    cut, label, count, seen = separator.encode(), None, 0, set[int]()
    for number, line in enumerate(file, start=2):
        cells = line.split(cut, place + 1)
        if line.strip():
            if len(cells) <= place:
                raise InputError(f"{path}, line {number}: expected a value of every column")
            if cells[place] != label:
                label = cells[place]
                if hash(label) in seen:
                    raise InputError(
                        f"{path}, line {number}: the rows of group {label.decode(errors='replace').strip()!r} do not "
                        "stand together; sort the table by its group column"
                    )
                seen.add(hash(label))
                count += 1
                if count > series:
                    count = 1
                    yield at
        at += len(line)
    yield at


def read_block(block: Block) -> tuple[list[str], list[tuple[Array, Array]]]:
    """Labels and (times, values) of the series of a block, nan for what is no number."""
    with open(block.path, "rb") as file:
        file.seek(block.start)
        text = file.read(block.end - block.start).decode("utf-8", errors="replace")
    found: dict[str, tuple[list[float], list[float]]] = {}
    group, time, state = block.places
    for row in csv.reader(text.splitlines(), delimiter=block.separator):
        if len(row) > max(block.places):
            t, x = found.setdefault(row[group].strip(), ([], []))
            t.append(_number(row[time]))
            x.append(_number(row[state]))
    return list(found), [(np.array(t), np.array(x)) for t, x in found.values()]


def _number(cell: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        return math.nan
    return value if math.isfinite(value) else math.nan
