"""A table of text and what its cells mean: names, numbers, dates, gaps, groups.

Numbers are read cell by cell by a pattern of our own instead of a library's guesses, so that
"1e3" is a number, "12 mg" is not, and every complaint names the line of the file (the header is
line 1) and the column. Dates are read in ISO form only: whether 03/01/2020 is in March or in
January no program can know. What a table means as a time series is decided in `series`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from odediscovery.errors import InputError, unknown_name

Array = NDArray[np.float64]

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?", re.ASCII)
_INFINITE = re.compile(r"[+-]?inf(inity)?", re.IGNORECASE)
_MISSING = frozenset(["", "na", "n/a", "nan", "null", "none"])
_DATE = re.compile(
    r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}([.,]\d+)?)?(Z|[+-]\d{2}:?\d{2})?)?", re.ASCII
)
_OTHER_DATE = re.compile(r"\d{1,4}([-/.])\d{1,2}\1\d{1,4}([T ].*)?", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of text.

    Args:
        columns: cells of every named column, without outer blanks.
        lines: line in the file of every row.
        decimal: "." or ",", how this file writes decimals.
        messages: what was left out in reading, one sentence each.
    """

    columns: dict[str, list[str]]
    lines: list[int]
    decimal: str
    messages: list[str]

    def is_text(self, name: str) -> bool:
        """Whether a column has values, but not one number (or infinity)."""
        cells = [cell for cell in self.columns[name] if not is_missing(cell)]
        return bool(cells) and not any(
            self._number(cell) is not None or _INFINITE.fullmatch(cell) for cell in cells
        )

    def numbers(self, name: str, use: str) -> Array:
        """A column as numbers [rows], nan where missing; `use` is its role in messages.

        Raises:
            InputError: a cell that is no number, an infinite one, or no value at all.
        """
        values = np.full(len(self.lines), np.nan)
        cells = self.columns[name]
        if self.is_text(name):
            k = next(k for k, cell in enumerate(cells) if not is_missing(cell))
            raise InputError(
                f"line {self.lines[k]}, column {name!r}: expected numbers for the {use}, but the "
                f"column holds text such as {_short(cells[k])}"
            )
        for k, cell in enumerate(cells):
            if is_missing(cell):
                continue
            value = self._number(cell)
            where = f"line {self.lines[k]}, column {name!r}"
            if value is None and not _INFINITE.fullmatch(cell):
                comma = " with a decimal comma" if self.decimal == "," else ""
                raise InputError(f"{where}: expected a number{comma}, got {_short(cell)}; correct "
                                 "it or leave the cell empty")  # fmt: skip
            if value is None or np.isinf(value):
                raise InputError(f"{where}: {_short(cell)} is infinite; correct it or leave the "
                                 "cell empty")  # fmt: skip
            values[k] = value
        if np.isnan(values).all():
            raise InputError(f"column {name!r} has no values; fill it, or leave it out by naming "
                             "the states to use")  # fmt: skip
        return values

    def times(self, name: str) -> tuple[Array, str]:
        """A column as times [rows], nan where missing, and the date they count from in days.

        Numbers stay as they are and count from "". Dates are days since the earliest of them.

        Raises:
            InputError: a cell that is no number or, among dates, no date of the same kind.
        """
        cells = self.columns[name]
        filled = [k for k, cell in enumerate(cells) if not is_missing(cell)]
        if filled and _DATE.fullmatch(cells[filled[0]]):
            dates = self._dates(name, filled)
            first = min(filled, key=lambda k: dates[k])
            days = np.full(len(cells), np.nan)
            for k, date in dates.items():
                days[k] = (date - dates[first]) / timedelta(days=1)
            return days, cells[first]
        if filled and _OTHER_DATE.fullmatch(cells[filled[0]]):
            raise InputError(
                f"line {self.lines[filled[0]]}, column {name!r}: expected numbers or ISO dates for "
                f"the time, got {_short(cells[filled[0]])}; write dates as 2020-03-01 or "
                "2020-03-01 12:00"
            )
        return self.numbers(name, "time"), ""

    def groups(self, names: Sequence[str]) -> dict[str, list[int]]:
        """Rows by the values of some columns, in order of appearance; all under "" for none.

        Raises:
            InputError: a cell without a value.
        """
        found: dict[str, list[int]] = {}
        for k, line in enumerate(self.lines):
            cells = [self.columns[name][k] for name in names]
            for name, cell in zip(names, cells, strict=True):
                if not cell:
                    raise InputError(f"line {line}, column {name!r}: the group is missing")
            found.setdefault(", ".join(cells), []).append(k)
        return found

    def chosen(self, names: str | Sequence[str] | None, kind: str) -> list[str]:
        """Names given by the user (or one text parted by commas), checked to be columns.

        Raises:
            InputError: an unknown or repeated name.
        """
        if names is None:
            return []
        if isinstance(names, str):
            names = [names] if names in self.columns else names.split(",")
        picked = [name.strip() for name in names]
        for name in picked:
            if name not in self.columns:
                raise unknown_name(kind, name, self.columns)
            if picked.count(name) > 1:
                raise InputError(f"{kind} {name!r} is named twice; name every column once")
        return picked

    def _dates(self, name: str, rows: Sequence[int]) -> dict[int, datetime]:
        """The dates in some rows of a column, all of the kind that stands in the first of them."""
        cells, found = self.columns[name], {}
        kind = _kind_of_date(cells[rows[0]])
        for k in rows:
            where, cell = f"line {self.lines[k]}, column {name!r}", cells[k]
            try:
                found[k] = _date(cell)
            except ValueError:
                raise InputError(
                    f"{where}: expected an ISO date such as 2020-03-01 or 2020-03-01 12:00, got "
                    f"{_short(cell)}; correct it"
                ) from None
            if _kind_of_date(cell) != kind:
                raise InputError(
                    f"{where}: expected {kind} as in line {self.lines[rows[0]]}, got "
                    f"{_kind_of_date(cell)}, {_short(cell)}; write all times alike"
                )
        return found

    def _number(self, cell: str) -> float | None:
        if self.decimal == ",":
            if "." in cell:
                return None
            cell = cell.replace(",", ".")
        return float(cell) if _NUMBER.fullmatch(cell) else None


def is_missing(cell: str) -> bool:
    """Whether a cell says that nothing was measured."""
    return cell.lower() in _MISSING


def _date(cell: str) -> datetime:
    """An ISO date, or a date and time; ValueError for anything else."""
    # The standard library alone would take "2020-W10-7" and any character before the hours.
    if not _DATE.fullmatch(cell):
        raise ValueError
    return datetime.fromisoformat(cell)


def _kind_of_date(cell: str) -> str:
    if len(cell) == len("2020-03-01"):
        return "a date"
    return "a date and time" + (" with a time zone" if _date(cell).tzinfo else "")


def clean_name(cell: str) -> str:
    """A column name on one line, without outer blanks."""
    return re.sub(r"\s*[\r\n]+\s*", " ", cell.strip())


def read_content(path: Path) -> bytes:
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


def read_text(path: Path) -> tuple[str, int]:
    """The content of a text file in UTF-8 from its first line that is not blank, and its number.

    Raises:
        InputError: missing, a folder, unreadable, empty, binary or in another encoding.
    """
    content = read_content(path)
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise InputError(f"{path} is text in UTF-16; save it as CSV in UTF-8")
    if b"\x00" in content:
        raise InputError(f"{path} is no text file; save the table as CSV in UTF-8")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{path} is not UTF-8: byte 0x{content[error.start]:02x} in line {line}; save it as "
            "CSV in UTF-8"
        ) from None
    if _CONTROL.search(text):
        raise InputError(f"{path} is no text file; save the table as CSV in UTF-8")
    if not text.strip():
        raise InputError(f"{path} is empty; expected a header and one line a sample")
    blank = re.match(r"([ \t]*(\r\n|\n|\r))*", text)
    start = blank.end() if blank else 0
    return text[start:], len(text[:start].splitlines()) + 1


def separator(text: str) -> str:
    """The character that parts the columns of the first line: the most frequent outside quotes."""
    header = re.sub(r'"[^"]*"', "", text.splitlines()[0])
    return max(",;\t", key=header.count)


def table_of(
    rows: Sequence[Sequence[str]], lines: Sequence[int], source: object, sep: str = ""
) -> Table:
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
    comma = sep in (";", "\t") and any(
        _DECIMAL_COMMA.fullmatch(cell) for row in body for cell in row
    )
    return Table(columns, [lines[k] for k in kept], "," if comma else ".", messages)


def _check_header(header: Sequence[str], line: int, source: object, sep: str) -> None:
    named = [name for name in header if name]
    if len(named) < 2:
        what = f"one column, {_short(named[0])}" if named else "no named column"
        parted = ", parted by comma, semicolon or tab" if sep else ""
        raise InputError(f"{source} has {what}; expected a time and at least one state{parted}")
    if all(_NUMBER.fullmatch(name.replace(",", ".")) for name in named):
        raise InputError(f"{source} begins with numbers; the first line should name the columns")
    for i, name in enumerate(header):
        if name and name in header[:i]:
            places = f"columns {header.index(name) + 1} and {i + 1}"
            raise InputError(
                f"line {line}: the column {name!r} stands twice ({places}); give every column its "
                "own name"
            )


def _short(cell: str) -> str:
    return repr(cell if len(cell) <= 40 else f"{cell[:37]}...")
