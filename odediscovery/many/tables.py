"""Tables of many series in blocks that are read one at a time, so that memory does not grow with their length.

The table is a CSV file in which the rows of a group are contiguous, one Parquet file, or a folder of such files
partitioned by a column, as Hive, Spark and dask write it: `plates/well=A1/part-0.parquet`, where the name of a folder
contains the value of a column. One pass records the positions of blocks in the file; a task reads only its
block, for Parquet its row groups. Summaries are also written as Parquet.
"""

from __future__ import annotations

import csv
import hashlib
import io
import itertools
import math
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeAlias
from urllib.parse import unquote

import numpy as np

from odediscovery.data.sheets import header_table, separator_of
from odediscovery.data.table import Table
from odediscovery.errors import InputError
from odediscovery.runtime.arrays import Array

try:
    import pyarrow
    import pyarrow.parquet
except ImportError:
    pyarrow = None

# Labels and (times, values) of some series.
Series: TypeAlias = tuple[list[str], list[tuple[Array, Array]]]


@dataclass(frozen=True)
class Block:
    """Part of a CSV table, as a range of bytes."""

    path: str
    start: int
    end: int
    columns: tuple[str, str, str]  # of the group, the time and the state
    places: tuple[int, int, int]  # indices of these columns
    separator: str

    def read(self) -> Series:
        """Labels and (times, values) of its series, nan for cells that are not numbers."""
        with open(self.path, "rb") as file:
            file.seek(self.start)
            text = file.read(self.end - self.start).decode()
        found: dict[str, tuple[list[float], list[float]]] = {}
        group, time, state = self.places
        for _, row in _rows(io.StringIO(text, newline=""), self.separator):
            if len(row) > max(self.places):
                t, x = found.setdefault(row[group].strip(), ([], []))
                t.append(_number(row[time], self.separator))
                x.append(_number(row[state], self.separator))
        return list(found), [(np.array(t), np.array(x)) for t, x in found.values()]


def blocks_of(
    path: Path, group: str, time: str | None, state: str | None, series: int
) -> tuple[list[Block], tuple[str, str, str]]:
    """The blocks of a CSV table, each of at most `series` series, and its columns of group, time and state."""
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
    """The columns of group, time and state, chosen by the rules for all tables."""
    own = table.chosen([group], "group column")[0]
    when = table.time_column(time, [own])
    states, _ = table.state_columns(None if state is None else [state], {own: "the group", when: "the time"})
    if len(states) != 1:
        raise InputError(f"--each fits one state: name its column, --states, among {', '.join(states) or 'none'}")
    return own, when, states[0]


def _rows(lines: Iterable[str], separator: str) -> Iterator[tuple[int, list[str]]]:
    """The non-empty rows, each with the number of its last line."""
    reader = csv.reader(lines, delimiter=separator, skipinitialspace=True, strict=True)
    return ((reader.line_num, row) for row in reader if any(map(str.strip, row)))


def _starts(
    file: IO[bytes], rows: Iterable[tuple[int, list[str]]], width: int, place: int, series: int, path: Path
) -> Iterator[int]:
    """Positions at which blocks begin, and the end of the file."""
    at, label, seen = file.tell(), None, set[int]()
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
            if len(seen) % series == 0:
                yield at
            seen.add(hash(label))
        at = file.tell()
    yield at


def _number(cell: str, separator: str) -> float:
    try:
        # A comma that does not separate columns is a decimal comma.
        value = float(cell if separator == "," else cell.replace(",", "."))
    except ValueError:
        return math.nan
    return value if math.isfinite(value) else math.nan


@dataclass(frozen=True)
class Part:
    """A range of rows of one Parquet file."""

    path: str
    first: int
    end: int
    label: str | None  # the group of all rows, if known


@dataclass(frozen=True)
class ParquetBlock:
    """Part of a Parquet table, as ranges of rows in order."""

    parts: tuple[Part, ...]
    columns: tuple[str, str, str]  # of the group, the time and the state

    def read(self) -> Series:
        """Labels and (times, values) of its series, nan for values that are not finite."""
        group, time, state = self.columns
        found: dict[str, tuple[list[Array], list[Array]]] = {}
        for part in self.parts:
            rows = _rows_of(part, [time, state] + [group] * (part.label is None))
            t, x = (np.array(rows.column(name).to_numpy(zero_copy_only=False), float) for name in (time, state))
            x[~np.isfinite(x)] = np.nan
            labels = [part.label] * len(t) if part.label is not None else map(str, rows.column(group).to_pylist())
            for label, own in _stretches(labels):
                times, values = found.setdefault(label, ([], []))
                times.append(t[own])
                values.append(x[own])
        return list(found), [(np.concatenate(t), np.concatenate(x)) for t, x in found.values()]


def is_parquet(path: Path) -> bool:
    """Whether a table is read as Parquet: it has that extension or is a folder."""
    return path.suffix.lower() == ".parquet" or path.is_dir()


def hash_of(path: Path) -> str:
    """Hash of the content of a table and of the names of its files, which may contain a column."""
    whole = hashlib.sha256()
    for part in _files(path):
        with part.open("rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        whole.update(f"{part.relative_to(path).as_posix()}\n{content}\n".encode(errors="surrogateescape"))
    return whole.hexdigest()


def parquet_blocks(
    path: Path, group: str, time: str | None, state: str | None, series: int
) -> tuple[list[ParquetBlock], tuple[str, str, str]]:
    """The blocks of a Parquet table and its columns, as returned by `blocks_of`."""
    if pyarrow is None:
        raise InputError(f'{path}: Parquet needs the package pyarrow: pip install "odediscovery[tables]"')
    files = _files(path)
    if not files:
        raise InputError(f"{path}: expected Parquet files in this folder, found none")
    keys = _keys(path, files[0])
    schema = _opened(files[0]).schema_arrow
    # pandas writes an unnamed index as a column __index_level_0__.
    own = (name for name in schema.names if name not in keys and not name.startswith("__index_level_"))
    names = [*keys, *own]
    table, places = header_table(names, path)
    columns = chosen_columns(table, group, time, state)
    # Names in the file, including units in brackets.
    group, time, state = chosen = names[places[columns[0]]], names[places[columns[1]]], names[places[columns[2]]]
    for column in (time, state):
        kind = schema.field(column).type if column not in keys else None
        if kind is None or not (pyarrow.types.is_integer(kind) or pyarrow.types.is_floating(kind)):
            raise InputError(f"{path}: column {column!r} holds {kind or 'names of folders'}; --each needs numbers")
    every = _series(path, files, group)
    found: list[ParquetBlock] = []
    while parts := list(itertools.chain.from_iterable(itertools.islice(every, series))):
        found.append(ParquetBlock(tuple(parts if group in keys else _merged(parts)), chosen))
    return found, columns


def write_parquet(path: Path, blocks: Iterable[Sequence[dict[str, Any]]]) -> None:
    """Write rows of series to a Parquet file, one row group per block; `constants` is a list in every row."""
    number = pyarrow.float64()
    kinds = dict.fromkeys(("series", "outcome", "law", "equation"), pyarrow.string())
    kinds |= {"r2": number, "samples": pyarrow.int64(), "constants": pyarrow.list_(number)}
    schema = pyarrow.schema(kinds | dict.fromkeys(("exponent", "start", "seconds"), number))
    part = path.with_suffix(".part")
    with pyarrow.parquet.ParquetWriter(part, schema) as writer:
        for rows in blocks:
            writer.write_table(pyarrow.Table.from_pylist(list(rows), schema))
    part.replace(path)


def _files(path: Path) -> list[Path]:
    """The files of a table, sorted; for a folder all Parquet files that are not hidden."""
    if not path.is_dir():
        return [path]
    found = path.rglob("*.parquet")
    return sorted(file for file in found if file.is_file() and not file.name.startswith((".", "_")))


def _keys(path: Path, file: Path) -> dict[str, str]:
    """Columns and values that the names of folders contain."""
    between = file.relative_to(path).parts[:-1] if path.is_dir() else ()
    pairs = (part.split("=", 1) for part in between if "=" in part)
    return {key: unquote(value) for key, value in pairs}


def _opened(file: Path) -> Any:
    try:
        return pyarrow.parquet.ParquetFile(file)
    except (OSError, pyarrow.ArrowException) as error:
        raise InputError(f"{file}: cannot be read as Parquet ({' '.join(str(error).split())[:120]})") from None


def _series(path: Path, files: Sequence[Path], group: str) -> Iterator[list[Part]]:
    """The parts of every series, in the order of the files."""
    seen = set[int]()
    every = itertools.chain.from_iterable(_runs(path, file, group) for file in files)
    for label, run in itertools.groupby(every, key=lambda part: part.label):
        parts = list(run)
        if hash(label) in seen:
            raise InputError(f"{parts[0].path}: the rows of group {label!r} do not stand together; sort by this column")
        seen.add(hash(label))
        yield parts


def _runs(path: Path, file: Path, group: str) -> Iterator[Part]:
    """Ranges of consecutive rows of one file that belong to the same group."""
    opened, keys = _opened(file), _keys(path, file)
    if group in keys:
        yield Part(str(file), 0, opened.metadata.num_rows, keys[group])
        return
    if group not in opened.schema_arrow.names:
        raise InputError(f"{file}: no column {group!r}, which other files of the folder have")
    batches = opened.iter_batches(columns=[group])
    for label, own in _stretches(str(value) for batch in batches for value in batch.column(0).to_pylist()):
        yield Part(str(file), own.start, own.stop, label)


def _stretches(labels: Iterable[str]) -> Iterator[tuple[str, slice]]:
    """Runs of equal labels, with their slices."""
    end = 0
    for label, run in itertools.groupby(labels):
        begin, end = end, end + sum(1 for _ in run)
        yield label, slice(begin, end)


def _merged(parts: Sequence[Part]) -> Iterator[Part]:
    """Consecutive parts of a file merged into one without a label; labels are then read from the file."""
    for file, run in itertools.groupby(parts, key=lambda one: one.path):
        own = list(run)
        yield Part(file, own[0].first, own[-1].end, None)


def _rows_of(part: Part, columns: Sequence[str]) -> Any:
    """The rows of a part, read from the row groups that contain them."""
    opened = _opened(Path(part.path))
    ends = np.cumsum([opened.metadata.row_group(k).num_rows for k in range(opened.num_row_groups)])
    begins = np.append(0, ends[:-1])
    held = np.flatnonzero((ends > part.first) & (begins < part.end)).tolist()
    rows = opened.read_row_groups(held, columns=list(columns))
    return rows.slice(part.first - int(begins[held[0]]), part.end - part.first)
