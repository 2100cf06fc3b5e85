"""Files and frames as tables of text: CSV, Parquet, the first sheet of a spreadsheet, DataFrames.

Values from libraries are written as text again, without loss, so that `table` checks every source by the same rules.
"""

from __future__ import annotations

import csv
import io
import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from odediscovery.data.frames import with_index_as_columns
from odediscovery.data.recorded import Arithmetic, split_name
from odediscovery.data.table import DECIMAL_COMMA, NUMBER, Table, clean_name, split_unit
from odediscovery.errors import InputError
from odediscovery.runtime.texts import check_letters, shortened

# Later versions of pandas always read numbers exactly, and warn about the option.
_OLD = tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1)
_EXACT: dict[str, Any] = {"float_precision": "round_trip"} if _OLD else {}


def read_table(path: Path) -> Table:
    """Read the table in a file by its ending: .parquet, .xlsx, .xls, else text in columns."""
    ending = path.suffix.lower()
    if ending in (".xlsx", ".xls"):
        return _read_sheet(path)
    if ending == ".parquet":
        content = _read_content(path)
        # Reject a file of another kind with this ending before a library reads it.
        if not content.startswith(b"PAR1"):
            raise InputError(f"{path} is no Parquet file; write it again, or as CSV in UTF-8")
        return frame_table(_asked(pd.read_parquet, content, path, engine="pyarrow"), path, of_file=True)
    text, first = _read_text(path)
    sep = separator_of(text)
    return _read_numbers(text, first, path, sep) or _read_cells(text, first, path, sep)


def frame_table(frame: pd.DataFrame, source: object, time: str | None = None, of_file: bool = False) -> Table:
    """Read the table in a DataFrame, header in line 1; an index with a name or dates becomes the first columns."""
    frame, of_index, left_out = with_index_as_columns(frame, source, time)
    for name in frame.columns:
        if not isinstance(name, str):
            raise InputError(f"{source} has a column named {name!r}; name every column by text")
    table = _table_of(list(frame.columns), _texts(frame, 2), 1, source)
    bare = None if of_index is None else split_unit(of_index)[0]
    held = bare if bare in table.units else of_index
    return replace(table, messages=[*left_out, *table.messages], time=held, of_frame=not of_file)


def header_table(names: Sequence[str], source: object, sep: str = "") -> tuple[Table, dict[str, int]]:
    """Build a table without rows, and the position of every column; arguments as in `_table_of`."""
    table = _table_of(names, pd.DataFrame(columns=range(len(names)), dtype=object), 1, source, sep)
    return table, _places(table, names)


def with_made_columns(table: Table, texts: Sequence[str] | str) -> Table:
    """Add columns computed from others, "R=a+b,D=a-b"; a column of the same name is replaced."""
    for text in texts.split(",") if isinstance(texts, str) else texts:
        name, written = split_name(text)
        check_letters(name)
        made = Arithmetic(written, table.columns, lambda column, table=table: table.numbers(column, "sum"))  # type: ignore[misc]
        values = np.broadcast_to(made.value(), len(table.cells))
        for k in map(int, np.flatnonzero(np.isinf(values))[:1]):
            raise InputError(
                f"line {table.lines[k]}: --column {text!r} divides by 0 or is infinite; leave that row out"
            )
        cells = table.cells.assign(**{name: ["" if np.isnan(x) else repr(float(x)) for x in values]})
        if table.decimal == ",":
            cells[name] = cells[name].str.replace(".", ",", regex=False)
        units = {column: unit for column, unit in table.units.items() if column != name}
        spent = (*table.spent, *(column for column in made.used if column != name))
        table = replace(table, cells=cells, units=units, spent=spent)
    return table


def exact_text(frame: pd.DataFrame) -> str:
    """Write a frame as text that `exact_table` reads back exactly, and `read_table` except for blanks in names."""
    header = []
    for name in frame.columns:
        doubled = name.replace('"', '""')
        header.append(f'"{doubled}"' if re.search(r"[^\w.]", name) else name)
    rows: str = frame.to_csv(index=False, header=False, lineterminator="\n")
    return f"{','.join(header)}\n{rows}"


def exact_table(content: bytes, source: object) -> Table:
    """Read a table that `exact_text` wrote: comma-separated, every cell unchanged."""
    try:
        rows = list(csv.reader(io.StringIO(content.decode(), newline=""), strict=True))
    except (ValueError, csv.Error) as error:
        raise InputError(f"{source} is damaged ({error}); fit the data again") from None
    header = rows[0] if rows else []
    if len(set(header)) < max(len(header), 2) or any(len(row) != len(header) for row in rows):
        raise InputError(f"{source} is damaged (rows of different lengths, or no header); fit the data again")
    cells = pd.DataFrame(rows[1:], range(2, len(rows) + 1), header, dtype=object)
    return Table(cells, ".", [])


def _read_content(path: Path) -> bytes:
    if path.is_dir():
        raise InputError(f"{path} is a folder; give the path of a CSV file")
    if path.is_char_device():  # endless
        raise InputError(f"{path} is a device; give the path of a CSV file")
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"cannot read {path}: {reason}") from None


def _read_text(path: Path) -> tuple[str, int]:
    """Read a UTF-8 text file from its first non-blank line on, and return the number of that line."""
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
    if re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]", text):
        raise InputError(f"{path} is no text file; save the table as CSV in UTF-8")
    if not text.strip():
        raise InputError(f"{path} is empty; expected a header and one line a sample")
    blank = re.match(r"([ \t]*(\r\n|\n|\r))*", text)
    start = blank.end() if blank else 0
    return text[start:], len(text[:start].splitlines()) + 1


def separator_of(text: str) -> str:
    """The separator of the columns: the most frequent one outside quotes in the first line."""
    found = re.match(r'(?:"[^"]*"|[^"\r\n])*', text)
    header = re.sub(r'"[^"]*"', "", found[0] if found else "")
    return max(",;\t", key=header.count)


def _read_numbers(text: str, first: int, path: Path, sep: str) -> Table | None:
    """Read a table of plain numbers and empty cells, else None: millions of cells take half a minute one by one."""
    header, _, body = text.partition("\n")
    header = header.rstrip("\r")
    names = header.split(sep)
    if re.search('["\r]', header) or body.encode().translate(None, b"0123456789eE+-.\r\n" + sep.encode()):
        return None
    try:
        cells = _parsed(body, sep, dtype=float, keep_default_na=False, na_values=[""], **_EXACT)
    except (ValueError, pd.errors.ParserError):
        return None
    if cells.shape[1] != len(names) or np.isinf(cells).any(axis=None):
        return None
    lines = cells.index = pd.RangeIndex(first + 1, first + 1 + len(cells))
    table = _table_of(names, cells, first, path, sep)
    place = _places(table, names)

    def written(name: str) -> pd.Series:
        column = _parsed(body, sep, dtype=object, na_filter=False, usecols=[place[name]]).iloc[:, 0]
        return column.set_axis(lines)[table.cells.index].rename(name)

    return replace(table, written=written)


def _read_cells(text: str, first: int, path: Path, sep: str) -> Table:
    """Read a table in a text cell by cell."""
    try:
        cells = _parsed(text, sep, dtype=object, na_filter=False, skipinitialspace=True)
    except (ValueError, pd.errors.ParserError) as error:
        raise InputError(f"{path} cannot be read as a table: {_reason(str(error), first)}") from None
    # A quoted cell may span several lines of the file.
    height = 1 + cells.map(lambda cell: cell.count("\n")).sum(axis=1)
    cells.index = first + height.cumsum() - height
    return _table_of(list(cells.iloc[0]), cells.iloc[1:].map(str.strip), first, path, sep)


def _parsed(text: str, sep: str, **options: Any) -> pd.DataFrame:
    """Parse a text without a header: pandas would rename repeated columns and use an extra column as an index.

    So a row that is too long fails; one that is too short lacks values.
    """
    return pd.read_csv(io.StringIO(text), sep=sep, header=None, skip_blank_lines=False, **options)


def _reason(message: str, first: int) -> str:
    """Reword an error of pandas' parser, which read the file from line `first` on."""
    if found := re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", message):
        expected, line, seen = found.groups()
        return f"line {int(line) + first - 1} has {seen} cells, but the header has {expected}"
    if found := re.search(r"EOF inside string starting at row (\d+)", message):
        return f"a quotation mark is opened in line {int(found[1]) + first} and never closed"
    return message.strip().replace("\n", " ")


def _read_sheet(path: Path) -> Table:
    content = _read_content(path)
    # Some programs write one format with the ending of the other, so the content decides.
    options: dict[str, Any] = {"engine": "openpyxl"}
    if content.startswith(b"\xd0\xcf\x11\xe0"):
        # By default xlrd prints warnings on standard output.
        options = {"engine": "xlrd", "engine_kwargs": {"logfile": io.StringIO()}}
    elif not content.startswith(b"PK\x03\x04"):
        raise InputError(f"{path} is no spreadsheet; save the table as .xlsx or as CSV in UTF-8")
    # As with CSV, header and missing values follow our rules, not those of pandas.
    options |= {"sheet_name": 0, "header": None, "dtype": object, "keep_default_na": False, "na_values": []}
    frame = _asked(pd.read_excel, content, path, **options)
    cells = _texts(frame, 1)
    cells = cells[(cells != "").any(axis=1)]
    if cells.empty:
        raise InputError(f"{path} is empty; expected a header and one line a sample")
    return _table_of(list(cells.iloc[0]), cells.iloc[1:], int(cells.index[0]), path)


def _asked(read: Callable[..., pd.DataFrame], content: bytes, path: Path, **options: Any) -> pd.DataFrame:
    """Read the content of `path` with a library, and reword its errors."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they concern styles, never cells
            return read(io.BytesIO(content), **options)
    except ImportError:
        raise InputError(
            f"{path} cannot be read: a library for {path.suffix.lower()} files is missing; "
            'pip install "odediscovery[tables]"'
        ) from None
    except Exception as error:
        # A damaged file may raise any error, from KeyError to errors of zip, XML and Arrow.
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise InputError(
            f"{path} is damaged or of an unknown kind ({reason}); write it again, or as CSV in UTF-8"
        ) from None


def _texts(frame: pd.DataFrame, first: int) -> pd.DataFrame:
    """Write cells as text that `table` reads back exactly, gaps empty, with rows numbered from `first` on."""
    columns = {i: _column_texts(frame.iloc[:, i].astype(object)) for i in range(frame.shape[1])}
    return pd.DataFrame(columns, range(first, first + len(frame)), dtype=object)


def _column_texts(cells: Iterable[Any]) -> list[str]:
    # A period, such as a month, is written as its first date.
    cells = [cell.to_timestamp() if isinstance(cell, pd.Period) else cell for cell in cells]
    stamps = [cell for cell in cells if isinstance(cell, datetime) and cell is not pd.NaT]
    # Spreadsheets and pandas lack plain dates: a column of midnights holds dates.
    days = all(s.tzinfo is None and s.time() == datetime.min.time() for s in stamps)
    return [_text(cell, days).strip() for cell in cells]


def _text(cell: object, days: bool) -> str:
    if cell is None or cell is pd.NA or cell is pd.NaT:
        return ""
    if isinstance(cell, float | np.floating):
        return "" if np.isnan(cell) else repr(float(cell))
    if isinstance(cell, datetime):
        return cell.date().isoformat() if days else cell.isoformat(" ")
    return cell.isoformat() if isinstance(cell, date) else str(cell)


def _table_of(names: Sequence[str], cells: pd.DataFrame, line: int, source: object, sep: str = "") -> Table:
    header = [clean_name(name) for name in names]
    for name in header:
        check_letters(name)
    _check_header(header, line, source, sep)
    seen = cells.notna() & (cells != "")
    cells, used = cells[seen.any(axis=1)], seen.any()
    messages = [
        f"Column {i + 1} has no name and was left out." for i, name in enumerate(header) if not name and used.iloc[i]
    ]
    texts = cells.select_dtypes(exclude="number")
    comma = sep in (";", "\t") and bool(texts.map(DECIMAL_COMMA.fullmatch).notna().any(axis=None))
    columns = cells.loc[:, [bool(name) for name in header]].set_axis([name for name in header if name], axis=1)
    # Keep the unit in a name that would otherwise equal another.
    split = {name: split_unit(name) for name in columns.columns}
    bare = [short for short, _ in split.values()]
    known = {name: (short, unit) for name, (short, unit) in split.items() if unit and bare.count(short) == 1}
    columns = columns.rename(columns={name: short for name, (short, _) in known.items()})
    return Table(columns, "," if comma else ".", messages, units=dict(known.values()))


def _places(table: Table, names: Sequence[str]) -> dict[str, int]:
    """Positions of the columns in the header, which may also have unnamed columns."""
    return dict(zip(table.columns, [i for i, name in enumerate(names) if name.strip()], strict=True))


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
