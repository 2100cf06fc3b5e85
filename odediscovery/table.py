"""A table of text and what its cells mean: names, numbers, gaps, groups.

Numbers are read cell by cell by a pattern of our own instead of a library's guesses, so that
"1e3" is a number, "12 mg" is not, and every complaint names the line of the file (the header is
line 1) and the column. What a table means as a time series is decided in `series`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from odediscovery.errors import InputError, unknown_name

Array = NDArray[np.float64]

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?", re.ASCII)
_INFINITE = re.compile(r"[+-]?inf(inity)?", re.IGNORECASE)
_MISSING = frozenset(["", "na", "n/a", "nan", "null", "none"])
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

    def _number(self, cell: str) -> float | None:
        if self.decimal == ",":
            if "." in cell:
                return None
            cell = cell.replace(",", ".")
        return float(cell) if _NUMBER.fullmatch(cell) else None


def is_missing(cell: str) -> bool:
    """Whether a cell says that nothing was measured."""
    return cell.lower() in _MISSING


def clean_name(cell: str) -> str:
    """A column name on one line, without outer blanks."""
    return re.sub(r"\s*[\r\n]+\s*", " ", cell.strip())


def read_text(path: Path) -> tuple[str, int]:
    """The content of a text file in UTF-8 from its first line that is not blank, and its number.

    Raises:
        InputError: missing, a folder, unreadable, empty, binary or in another encoding.
    """
    if path.is_dir():
        raise InputError(f"{path} is a folder; give the path of a CSV file")
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"cannot read {path}: {reason}") from None
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


def table_of(rows: Sequence[Sequence[str]], first: int, sep: str, path: Path) -> Table:
    """The table in rows of cells: the header, which stands in line `first`, and the data.

    Raises:
        InputError: repeated, missing or numeric column names.
    """
    starts, line = [], first
    for row in rows:
        starts.append(line)
        # A quoted cell may run over several lines of the file.
        line += 1 + sum(cell.count("\n") for cell in row)
    kept = [k for k, row in enumerate(rows) if k and any(cell.strip() for cell in row)]
    header = [clean_name(cell) for cell in rows[0]]
    _check_header(header, first, path)
    body = [[cell.strip() for cell in rows[k]] for k in kept]
    columns = {name: [row[i] for row in body] for i, name in enumerate(header) if name}
    messages = [
        f"Column {i + 1} has no name and was left out."
        for i, name in enumerate(header)
        if not name and any(row[i] for row in body)
    ]
    comma = sep != "," and any(_DECIMAL_COMMA.fullmatch(cell) for row in body for cell in row)
    return Table(columns, [starts[k] for k in kept], "," if comma else ".", messages)


def _check_header(header: Sequence[str], line: int, path: Path) -> None:
    named = [name for name in header if name]
    if len(named) < 2:
        raise InputError(
            f"{path} has one column, {', '.join(map(_short, named))}; expected a time and at least "
            "one state, parted by comma, semicolon or tab"
        )
    if all(_NUMBER.fullmatch(name.replace(",", ".")) for name in named):
        raise InputError(f"{path} begins with numbers; the first line should name the columns")
    for i, name in enumerate(header):
        if name and name in header[:i]:
            places = f"columns {header.index(name) + 1} and {i + 1}"
            raise InputError(
                f"line {line}: the column {name!r} stands twice ({places}); give every column its "
                "own name"
            )


def _short(cell: str) -> str:
    return repr(cell if len(cell) <= 40 else f"{cell[:37]}...")
