"""Files and frames as tables of text: CSV, Parquet, the first sheet of a spreadsheet, DataFrames.

What pandas and its optional libraries hand over as numbers and dates is written out as text
again, exactly, so that one set of rules (in `table`) checks every source and complains alike.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Iterable
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from odediscovery.errors import InputError
from odediscovery.table import Table, read_content, read_text, separator, table_of

# How the files begin. What only bears the ending is refused before a library is asked for.
_PARQUET, _XLSX, _XLS = b"PAR1", b"PK\x03\x04", b"\xd0\xcf\x11\xe0"


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
        raise InputError(f"the index of {source} holds dates but has no name; name it, "
                         "frame.index.name = 'time', or reset it")  # fmt: skip
    names = [name for name in index.names if name is not None]
    columns = [index.get_level_values(i) for i, name in enumerate(index.names) if name is not None]
    names += list(frame.columns)
    columns += [frame.iloc[:, i] for i in range(frame.shape[1])]
    for name in names:
        if not isinstance(name, str):
            raise InputError(f"{source} has a column named {name!r}; name every column by text")
    cells = [_texts(column.astype(object)) for column in columns]
    rows = [names, *map(list, zip(*cells, strict=True))]
    return table_of(rows, range(1, len(rows) + 1), source)


def _read_csv(path: Path) -> Table:
    text, first = read_text(path)
    sep = separator(text)
    try:
        # No header for pandas: it would rename repeated columns and take a column too many as
        # an index. So a row that is too long fails; one that is too short lacks values.
        frame = pd.read_csv(
            io.StringIO(text), sep=sep, header=None, dtype=str, keep_default_na=False,
            na_values=[], skip_blank_lines=False, skipinitialspace=True, low_memory=False,
        )  # fmt: skip
    except (ValueError, pd.errors.ParserError) as error:
        reason = _reason(str(error), first)
        raise InputError(f"{path} cannot be read as a table: {reason}") from None
    rows = frame.to_numpy(dtype=object).tolist()
    lines, line = [], first
    for row in rows:
        lines.append(line)
        # A quoted cell may run over several lines of the file.
        line += 1 + sum(cell.count("\n") for cell in row)
    return table_of(rows, lines, path, sep)


def _reason(message: str, first: int) -> str:
    """What pandas' parser says, in our words; it was given the file from line `first` on."""
    if found := re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", message):
        expected, line, seen = found.groups()
        return f"line {int(line) + first - 1} has {seen} cells, but the header has {expected}"
    if found := re.search(r"EOF inside string starting at row (\d+)", message):
        return f"a quotation mark is opened in line {int(found[1]) + first} and never closed"
    return message.strip().replace("\n", " ")


def _read_parquet(path: Path) -> Table:
    content = read_content(path)
    if not content.startswith(_PARQUET):
        raise InputError(f"{path} is no Parquet file; write it again, or as CSV in UTF-8")
    return frame_table(
        _asked(lambda: pd.read_parquet(io.BytesIO(content), engine="pyarrow"), path), path
    )


def _read_sheet(path: Path) -> Table:
    content = read_content(path)
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
            io.BytesIO(content), sheet_name=0, header=None, dtype=object,
            keep_default_na=False, na_values=[], **options,
        ), path
    )  # fmt: skip
    cells = [_texts(frame[name]) for name in frame.columns]
    rows = [list(row) for row in zip(*cells, strict=True)]
    first = next((k for k, row in enumerate(rows) if any(cell.strip() for cell in row)), None)
    if first is None:
        raise InputError(f"{path} is empty; expected a header and one line a sample")
    return table_of(rows[first:], range(first + 1, len(rows) + 1), path)


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
        raise InputError(f"{path} is damaged or of an unknown kind ({reason}); write it again, "
                         "or as CSV in UTF-8") from None  # fmt: skip


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
