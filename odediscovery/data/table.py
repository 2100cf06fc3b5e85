"""A table of text and what its cells mean: names, numbers, dates, gaps, groups.

Numbers are read cell by cell by a pattern of our own instead of a library's guesses, so that
"1e3" is a number, "12 mg" is not, and every complaint names the line of the file (the header is
line 1) and the column. Dates are read in ISO form only: whether 03/01/2020 is in March or in
January no program can know. What a table means as a time series is decided in `series`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from numbers import Real

import numpy as np
from numpy.typing import NDArray

from odediscovery.errors import InputError, unknown_name

Array = NDArray[np.float64]

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?", re.ASCII)
_INFINITE = re.compile(r"[+-]?inf(inity)?", re.IGNORECASE)
_MISSING = frozenset(["", "na", "n/a", "nan", "null", "none"])
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}([.,]\d+)?)?(Z|[+-]\d{2}:?\d{2})?)?", re.ASCII)
_OTHER_DATE = re.compile(r"\d{1,4}([-/.])\d{1,2}\1\d{1,4}([T ].*)?", re.ASCII)


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
        return bool(cells) and not any(self._number(cell) is not None or _INFINITE.fullmatch(cell) for cell in cells)

    def numbers(self, name: str, use: str, gaps: bool = True) -> Array:
        """A column as numbers [rows], nan where missing; `use` is its role in messages.

        Args:
            gaps: whether to advise an empty cell in place of a wrong one, and to refuse a column
                that has no value at all.

        Raises:
            InputError: a cell that is no number, an infinite one, or no value at all.
        """
        mend = "correct it or leave the cell empty" if gaps else "correct it"
        values = np.full(len(self.lines), np.nan)
        cells = self.columns[name]
        if self.is_text(name):
            k = next(k for k, cell in enumerate(cells) if not is_missing(cell))
            raise InputError(
                f"line {self.lines[k]}, column {name!r}: expected numbers for the {use}, but the "
                f"column holds text such as {shortened(cells[k])}"
            )
        for k, cell in enumerate(cells):
            if is_missing(cell):
                continue
            value = self._number(cell)
            where = f"line {self.lines[k]}, column {name!r}"
            if value is None and not _INFINITE.fullmatch(cell):
                comma = " with a decimal comma" if self.decimal == "," else ""
                raise InputError(f"{where}: expected a number{comma}, got {shortened(cell)}; {mend}")
            if value is None or np.isinf(value):
                raise InputError(f"{where}: {shortened(cell)} is infinite; {mend}")
            values[k] = value
        if gaps and np.isnan(values).all():
            raise InputError(f"column {name!r} has no values; fill it, or leave it out by naming the states to use")
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
                f"the time, got {shortened(cells[filled[0]])}; write dates as 2020-03-01 or "
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

    def time_column(self, wanted: str | None, groups: Sequence[str]) -> str:
        """The column of times: the wanted one, else the one called t or time, else the first.

        Raises:
            InputError: an unknown name, or no column besides the groups.
        """
        if wanted is not None:
            return self.chosen([wanted], "time column")[0]
        names = [name for name in self.columns if name not in groups]
        for usual in ("t", "time"):
            for name in names:
                if name == usual:
                    return name
        for name in names:
            if name.lower() in ("t", "time"):
                return name
        if not names:
            raise InputError("no column is left for the time besides the group columns")
        return names[0]

    def state_columns(
        self, wanted: str | Sequence[str] | None, taken: Mapping[str, str]
    ) -> tuple[list[str], list[str]]:
        """The states, by default every column of numbers, and what was left out so far.

        Args:
            taken: what other columns are, such as "the time", by name.

        Raises:
            InputError: an unknown, repeated or taken name.
        """
        chosen = self.chosen(wanted, "state")
        for name in chosen:
            if name in taken:
                raise InputError(f"column {name!r} is {taken[name]}, so it cannot be a state")
        messages = [*self.messages]
        if wanted is None:
            rest = [name for name in self.columns if name not in taken]
            chosen = [name for name in rest if not self.is_text(name)]
            messages += [f"Column {name!r} holds text and was left out." for name in rest if name not in chosen]
        return chosen, messages

    def deviations(self, columns: Mapping[str, str], states: Sequence[str], values: Array) -> Array:
        """Standard deviations of measured states [rows, states], nan where unknown.

        Args:
            columns: the column of standard deviations, by state.
            states: names of the states.
            values: what was measured, [rows, states], nan where missing.

        Raises:
            InputError: a state that is not among them, or an observed value whose standard
                deviation is missing or not positive.
        """
        sigma = np.full(values.shape, np.nan)
        for state, column in columns.items():
            if state not in states:
                raise unknown_name("state with a column of standard deviations", state, states)
            i = list(states).index(state)
            read = self.numbers(column, "standard deviations", gaps=False)
            places = [f"line {line}, column {column!r}" for line in self.lines]
            sigma[:, i] = known_deviations(read, values[:, i], places, state)
        return sigma

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
                    f"{shortened(cell)}; correct it"
                ) from None
            if _kind_of_date(cell) != kind:
                raise InputError(
                    f"{where}: expected {kind} as in line {self.lines[rows[0]]}, got "
                    f"{_kind_of_date(cell)}, {shortened(cell)}; write all times alike"
                )
        return found

    def _number(self, cell: str) -> float | None:
        if self.decimal == ",":
            if "." in cell:
                return None
            cell = cell.replace(",", ".")
        return float(cell) if NUMBER.fullmatch(cell) else None


def known_deviations(sigma: Array, values: Array, places: Sequence[str], state: str) -> Array:
    """Standard deviations of the values of a state [samples], nan where it has no value.

    Args:
        sigma: as given, in the unit of the state.
        values: what was measured, nan where missing.
        places: what names every sample in messages.
        state: its name.

    Raises:
        InputError: not positive and finite where there is a value.

    >>> sigma, values = np.array([0.1, 0.2]), np.array([5.0, np.nan])
    >>> known_deviations(sigma, values, ["line 2", "line 3"], "S").tolist()
    [0.1, nan]
    """
    seen = np.isfinite(values)
    for k in map(int, np.flatnonzero(seen & ~((sigma > 0) & np.isfinite(sigma)))):
        got = "none" if np.isnan(sigma[k]) else f"{sigma[k]:.10g}"
        raise InputError(
            f"{places[k]}: expected a positive standard deviation of the {state!r} measured there, "
            f"got {got}; give one, or leave that value of {state!r} out"
        )
    known: Array = np.where(seen, sigma, np.nan)
    return known


def with_levels(
    sigma: Sequence[Array], values: Sequence[Array], names: Sequence[str], noise: Mapping[str, float] | None
) -> list[Array]:
    """Standard deviations [samples, states] a trajectory, those of some states the same everywhere.

    Args:
        sigma: the standard deviations, nan where unknown.
        values: what was measured, nan where missing.
        names: of the states.
        noise: standard deviation by state.

    Raises:
        InputError: an unknown state, one whose deviations are known, or no positive number.

    >>> with_levels([np.full((1, 1), np.nan)], [np.ones((1, 1))], ["S"], {"S": 2.0})[0].tolist()
    [[2.0]]
    """
    blocks = list(sigma)
    for name, level in (noise or {}).items():
        if name not in names:
            raise unknown_name("state with a noise level", name, names)
        if not isinstance(level, Real) or not 0.0 < float(level) < np.inf:
            raise InputError(
                f"noise level of {name!r}: expected a positive number in its unit, got {level!r}; "
                "give its standard deviation"
            )
        i = list(names).index(name)
        if any(np.isfinite(block[:, i]).any() for block in blocks):
            raise InputError(f"state {name!r} has both standard deviations and a noise level; give one of them")
        here = np.arange(len(names)) == i
        blocks = [
            np.where(here & np.isfinite(value), float(level), block)
            for block, value in zip(blocks, values, strict=True)
        ]
    return blocks


def assigned(texts: Mapping[str, str] | str | None, kind: str) -> dict[str, str]:
    """Names given by the user (or one text such as "S=S_sd,I=I_sd") as pairs.

    Raises:
        InputError: text that is no such list, or a name given twice.

    >>> assigned("S=S_sd, I = I_sd", "column of standard deviations")
    {'S': 'S_sd', 'I': 'I_sd'}
    """
    if not isinstance(texts, str):
        return dict(texts or {})
    pairs: dict[str, str] = {}
    for part in texts.split(","):
        state, sign, column = (piece.strip() for piece in part.partition("="))
        if not sign or not state or not column:
            raise InputError(
                f"{kind}: expected STATE=COLUMN, parted by commas, got {part.strip()!r}; write S=S_sd,I=I_sd"
            )
        if state in pairs:
            raise InputError(f"{kind}: state {state!r} is named twice; name every state once")
        pairs[state] = column
    return pairs


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


def check_names(names: Sequence[str], expected: int) -> None:
    """Whether there are as many names, of the time and of states, as expected, all different.

    Raises:
        InputError: too many or few, repeated, or no text on one line.
    """
    if len(names) != expected:
        raise InputError(f"expected {expected - 1} names of states, got {len(names) - 1}")
    for name in names:
        if not isinstance(name, str) or not name or name != clean_name(name):
            raise InputError(f"a name should be text on one line without outer blanks, got {name!r}")
        if names.count(name) > 1:
            raise InputError(f"the name {name!r} is given twice; every column needs its own")


def shortened(cell: str) -> str:
    """A cell in quotes, cut if it is long.

    >>> shortened("a")
    "'a'"
    """
    return repr(cell if len(cell) <= 40 else f"{cell[:37]}...")
