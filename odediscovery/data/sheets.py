"""Files and frames as tables of text: CSV, Parquet, the first sheet of a spreadsheet, DataFrames;
and arrays.

What pandas and its optional libraries hand over as numbers and dates is written out as text
again, exactly, so that one set of rules (in `table`) checks every source and complains alike.
"""

from __future__ import annotations

import csv
import io
import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from odediscovery.data.table import DECIMAL_COMMA, NUMBER, Table, clean_name, known_deviations, shortened
from odediscovery.errors import InputError

Array = NDArray[np.float64]

# How the files begin. What only bears the ending is refused before a library is asked for.
_PARQUET, _XLSX, _XLS = b"PAR1", b"PK\x03\x04", b"\xd0\xcf\x11\xe0"
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


def read_table(path: Path) -> Table:
    """The table in a file, by its ending: .parquet, .xlsx, .xls, else text in columns.

    Raises:
        InputError: missing, unreadable, damaged, no table, or a library that reads it is missing.
    """
    ending = path.suffix.lower()
    if ending == ".parquet":
        return _read_parquet(path)
    return _read_sheet(path) if ending in (".xlsx", ".xls") else _read_csv(path)


def frame_table(frame: pd.DataFrame, source: object) -> Table:
    """The table in a DataFrame, its header line 1; a named index gives columns in front.

    Raises:
        InputError: no DataFrame, or repeated, missing or numeric column names.
    """
    if not isinstance(frame, pd.DataFrame):
        raise InputError(f"expected a pandas DataFrame, got {type(frame).__name__}")
    index = frame.index
    if isinstance(index, pd.DatetimeIndex) and index.name is None:
        # Left out like a count of rows, it would leave a state in the place of the time.
        raise InputError(
            f"the index of {source} holds dates but has no name; name it, frame.index.name = 'time', or reset it"
        )
    names = [name for name in index.names if name is not None]
    columns = [index.get_level_values(i) for i, name in enumerate(index.names) if name is not None]
    names += list(frame.columns)
    columns += [frame.iloc[:, i] for i in range(frame.shape[1])]
    for name in names:
        if not isinstance(name, str):
            raise InputError(f"{source} has a column named {name!r}; name every column by text")
    cells = [_texts(column.astype(object)) for column in columns]
    rows = [names, *map(list, zip(*cells, strict=True))]
    return _table_of(rows, range(1, len(rows) + 1), source)


def float_arrays(time: ArrayLike, values: ArrayLike) -> tuple[Array, Array]:
    """Times [n] and values [n, states] as arrays.

    Raises:
        InputError: no numbers, or shapes that do not fit.
    """
    try:
        t, v = np.array(time, dtype=np.float64), np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"times and values should be arrays of numbers: {error}") from None
    if v.ndim == 1:
        v = v[:, None]
    if t.ndim != 1 or v.ndim != 2 or len(t) != len(v) or v.shape[1] == 0:
        raise InputError(f"expected times [n] and values [n, states], got shapes {t.shape} and {v.shape}")
    return t, v


def array_deviations(
    given: Sequence[Any], values: Sequence[Array], labels: Sequence[str], names: Sequence[str]
) -> list[Array]:
    """Standard deviations that came as arrays, [samples, states] a trajectory, nan where unknown.

    Args:
        given: one a trajectory, shaped like its values, or None.
        values: what was measured, nan where missing.
        labels: of the trajectories.
        names: of the states.

    Raises:
        InputError: shapes that do not fit, or, for a state with any, a value without a positive
            one.
    """
    if len(given) != len(values):
        raise InputError(
            f"{len(values)} trajectories, but {len(given)} arrays of standard "
            "deviations: give one a trajectory, None where unknown"
        )
    blocks = []
    for sigma, value in zip(given, values, strict=True):
        try:
            # A copy, in which samples without a value become nan below.
            block = np.array(np.full(value.shape, np.nan) if sigma is None else sigma, dtype=float)
        except (TypeError, ValueError) as error:
            raise InputError(f"sigma should be arrays of numbers: {error}") from None
        block = block[:, None] if block.ndim == 1 else block
        if block.shape != value.shape:
            raise InputError(
                f"sigma: expected arrays shaped like the values {value.shape}, got {block.shape}; "
                "give nan for a state whose noise is unknown"
            )
        blocks.append(block)
    for i in map(int, np.flatnonzero(~np.isnan(np.concatenate(blocks)).all(axis=0))):
        for label, block, value in zip(labels, blocks, values, strict=True):
            where = f" of trajectory {label!r}" if label else ""
            places = [f"sample {k}{where}, state {names[i]!r}" for k in range(len(block))]
            block[:, i] = known_deviations(block[:, i], value[:, i], places, names[i])
    return blocks


def csv_text(frame: pd.DataFrame) -> str:
    """A frame of numbers and text as CSV that reads back to the same values; gaps are empty.

    >>> csv_text(pd.DataFrame({"t": [0.0, 0.1], "S": [float("nan"), 2.0]}))
    't,S\\n0.0,\\n0.1,2.0\\n'
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(frame.columns)
    for row in frame.itertuples(index=False, name=None):
        writer.writerow([cell if isinstance(cell, str) else _text(cell, False) for cell in row])
    return buffer.getvalue()


def _read_content(path: Path) -> bytes:
    """The content of a file.

    Raises:
        InputError: missing, a folder or unreadable.
    """
    if path.is_dir():
        raise InputError(f"{path} is a folder; give the path of a CSV file")
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"cannot read {path}: {reason}") from None


def _read_text(path: Path) -> tuple[str, int]:
    """The content of a text file in UTF-8 from its first line that is not blank, and its number.

    Raises:
        InputError: missing, a folder, unreadable, empty, binary or in another encoding.
    """
    content = _read_content(path)
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise InputError(f"{path} is text in UTF-16; save it as CSV in UTF-8")
    if b"\x00" in content:
        raise InputError(f"{path} is no text file; save the table as CSV in UTF-8")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{path} is not UTF-8: byte 0x{content[error.start]:02x} in line {line}; save it as CSV in UTF-8"
        ) from None
    if _CONTROL.search(text):
        raise InputError(f"{path} is no text file; save the table as CSV in UTF-8")
    if not text.strip():
        raise InputError(f"{path} is empty; expected a header and one line a sample")
    blank = re.match(r"([ \t]*(\r\n|\n|\r))*", text)
    start = blank.end() if blank else 0
    return text[start:], len(text[:start].splitlines()) + 1


def _separator(text: str) -> str:
    """The character that parts the columns of the first line: the most frequent outside quotes."""
    header = re.sub(r'"[^"]*"', "", text.splitlines()[0])
    return max(",;\t", key=header.count)


def _read_csv(path: Path) -> Table:
    text, first = _read_text(path)
    sep = _separator(text)
    try:
        # No header for pandas: it would rename repeated columns and take a column too many as
        # an index. So a row that is too long fails; one that is too short lacks values.
        frame = pd.read_csv(
            io.StringIO(text),
            sep=sep,
            header=None,
            dtype=str,
            keep_default_na=False,
            na_values=[],
            skip_blank_lines=False,
            skipinitialspace=True,
            low_memory=False,
        )
    except (ValueError, pd.errors.ParserError) as error:
        reason = _reason(str(error), first)
        raise InputError(f"{path} cannot be read as a table: {reason}") from None
    rows = frame.to_numpy(dtype=object).tolist()
    lines, line = [], first
    for row in rows:
        lines.append(line)
        # A quoted cell may run over several lines of the file.
        line += 1 + sum(cell.count("\n") for cell in row)
    return _table_of(rows, lines, path, sep)


def _reason(message: str, first: int) -> str:
    """What pandas' parser says, in our words; it was given the file from line `first` on."""
    if found := re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", message):
        expected, line, seen = found.groups()
        return f"line {int(line) + first - 1} has {seen} cells, but the header has {expected}"
    if found := re.search(r"EOF inside string starting at row (\d+)", message):
        return f"a quotation mark is opened in line {int(found[1]) + first} and never closed"
    return message.strip().replace("\n", " ")


def _read_parquet(path: Path) -> Table:
    content = _read_content(path)
    if not content.startswith(_PARQUET):
        raise InputError(f"{path} is no Parquet file; write it again, or as CSV in UTF-8")
    return frame_table(_asked(lambda: pd.read_parquet(io.BytesIO(content), engine="pyarrow"), path), path)


def _read_sheet(path: Path) -> Table:
    content = _read_content(path)
    # Programs write one kind under the ending of the other, so the content decides.
    options: dict[str, Any] = {"engine": "openpyxl"}
    if content.startswith(_XLS):
        # xlrd prints what it finds odd, by default among our results.
        options = {"engine": "xlrd", "engine_kwargs": {"logfile": io.StringIO()}}
    elif not content.startswith(_XLSX):
        raise InputError(f"{path} is no spreadsheet; save the table as .xlsx or as CSV in UTF-8")
    # As with CSV, pandas is told of no header and of no missing values: both are our rules.
    frame = _asked(
        lambda: pd.read_excel(
            io.BytesIO(content), sheet_name=0, header=None, dtype=object, keep_default_na=False, na_values=[], **options
        ),
        path,
    )
    cells = [_texts(frame[name]) for name in frame.columns]
    rows = [list(row) for row in zip(*cells, strict=True)]
    first = next((k for k, row in enumerate(rows) if any(cell.strip() for cell in row)), None)
    if first is None:
        raise InputError(f"{path} is empty; expected a header and one line a sample")
    return _table_of(rows[first:], range(first + 1, len(rows) + 1), path)


def _asked(read: Callable[[], pd.DataFrame], path: Path) -> pd.DataFrame:
    """What a library reads in `path`, its failures in our words."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of styles and the like, never of cells
            return read()
    except ImportError:
        raise InputError(
            f"{path} cannot be read: a library for {path.suffix.lower()} files is missing; "
            'pip install "odediscovery[tables]"'
        ) from None
    except Exception as error:
        # A damaged file may raise anything: from KeyError to errors of zip, XML and Arrow.
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise InputError(
            f"{path} is damaged or of an unknown kind ({reason}); write it again, or as CSV in UTF-8"
        ) from None


def _texts(column: Iterable[Any]) -> list[str]:
    """Cells as text that `table` reads back to the same value; a gap is empty."""
    cells = list(column)
    stamps = [cell for cell in cells if isinstance(cell, datetime) and cell is not pd.NaT]
    # Spreadsheets and pandas have no plain dates: a column of midnights is one of dates.
    days = all(s.tzinfo is None and s.time() == datetime.min.time() for s in stamps)
    return [_text(cell, days) for cell in cells]


def _text(cell: object, days: bool) -> str:
    if cell is None or cell is pd.NA or cell is pd.NaT:
        return ""
    if isinstance(cell, float | np.floating):
        return "" if np.isnan(cell) else repr(float(cell))
    if isinstance(cell, datetime):
        return cell.date().isoformat() if days else cell.isoformat(" ")
    return cell.isoformat() if isinstance(cell, date) else str(cell)


def _table_of(rows: Sequence[Sequence[str]], lines: Sequence[int], source: object, sep: str = "") -> Table:
    """The table in rows of cells, the header first.

    Args:
        rows: cells of text, as many in every row.
        lines: line of every row.
        source: where the rows come from, for messages: a path or "the frame".
        sep: what parted the cells, if text did.

    Raises:
        InputError: repeated, missing or numeric column names.
    """
    kept = [k for k, row in enumerate(rows) if k and any(cell.strip() for cell in row)]
    header = [clean_name(cell) for cell in rows[0]]
    _check_header(header, lines[0], source, sep)
    body = [[cell.strip() for cell in rows[k]] for k in kept]
    columns = {name: [row[i] for row in body] for i, name in enumerate(header) if name}
    messages = [
        f"Column {i + 1} has no name and was left out."
        for i, name in enumerate(header)
        if not name and any(row[i] for row in body)
    ]
    comma = sep in (";", "\t") and any(DECIMAL_COMMA.fullmatch(cell) for row in body for cell in row)
    return Table(columns, [lines[k] for k in kept], "," if comma else ".", messages)


def _check_header(header: Sequence[str], line: int, source: object, sep: str) -> None:
    named = [name for name in header if name]
    if len(named) < 2:
        what = f"one column, {shortened(named[0])}" if named else "no named column"
        parted = ", parted by comma, semicolon or tab" if sep else ""
        raise InputError(f"{source} has {what}; expected a time and at least one state{parted}")
    if all(NUMBER.fullmatch(name.replace(",", ".")) for name in named):
        raise InputError(f"{source} begins with numbers; the first line should name the columns")
    for i, name in enumerate(header):
        if name and name in header[:i]:
            places = f"columns {header.index(name) + 1} and {i + 1}"
            raise InputError(
                f"line {line}: the column {name!r} stands twice ({places}); give every column its own name"
            )
