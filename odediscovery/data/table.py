"""A table and the interpretation of its cells: names, numbers, dates, gaps, groups.

Text is matched against a pattern of our own, so that "1e3" is a number, "12 mg" is not, and every error message names
line (the header is line 1) and column. Dates are read in ISO form only: the month of 03/01/2020 is ambiguous.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from odediscovery.data.dates import Clock, kind_of_time, times_in
from odediscovery.data.frames import TIME_NAMES
from odediscovery.data.signals import check_deviations
from odediscovery.errors import InputError, unknown_name
from odediscovery.runtime.arrays import Array
from odediscovery.runtime.texts import check_letters, shortened

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?", re.ASCII)
# Several numbers joined by commas.
_PLAIN = re.compile(r"[0-9eE+.,-]+")
_INFINITE = re.compile(r"[+-]?inf(inity)?", re.IGNORECASE)
_MISSING = ("", "na", "n/a", "nan", "null", "none")
# Most quantities that a column is taken to distinguish.
FEW_LABELS = 6
# A unit begins with a letter or 1/, so that x[0] is a name.
_WITH_UNIT = re.compile(r"(?P<name>.*\S)\s*\[(?P<unit>(?:1/)?\(?[^\W\d_%][\w^*/·µ°%. ()-]*|%|°\w+)\]")


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of text or of numbers."""

    # The named columns: text without outer blanks, or numbers and nan. The index holds the line of each row in the
    # file.
    cells: pd.DataFrame
    decimal: str  # decimal separator of the file, "." or ","
    messages: list[str]  # what was skipped in reading, one sentence each
    time: str | None = None  # the column from the index of a frame, if its name is t or time or it holds dates
    # Whether this is a frame. In files the first column holds the times by default; the first column of a frame is as
    # likely a state.
    of_frame: bool = False
    # Units in the header, by column: "mass [g]" is the column mass with the unit g.
    units: Mapping[str, str] = field(default_factory=dict)
    spent: tuple[str, ...] = ()  # operands of computed columns, which are not states unless named
    written: Callable[[str], pd.Series] | None = None  # original text of a numeric column in the file

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return list(self.cells.columns)

    @property
    def lines(self) -> list[int]:
        """Line of each row in the file."""
        lines: list[int] = self.cells.index.tolist()
        return lines

    def is_text(self, name: str) -> bool:
        """Whether a column has values, but no number (or infinity)."""
        cells = self._present(name)
        return bool(len(cells)) and not _is_plain(cells) and all(np.isnan(self._number(cell)) for cell in cells)

    def numbers(self, name: str, use: str, gaps: bool = True) -> Array:
        """Read a column as numbers [rows], nan where missing; `use` is its role in messages."""
        mend = "correct it or leave the cell empty" if gaps else "correct it"
        cells = self._present(name)
        values = self._plain(cells)
        if values is None:
            values = cells.map(self._number).astype(float)
        for line in values.index[~np.isfinite(values)][:1]:
            where, cell = f"line {line}, column {name!r}", shortened(cells[line])
            if values.isna().all():
                clock = "; write clocks as 13:05:00" * bool(re.match(r"\d+:\d\d$", cells[line]))
                raise InputError(
                    f"{where}: expected numbers for the {use}, but the column holds text such as {cell}{clock}"
                )
            if np.isnan(values[line]):
                comma = " with a decimal comma" if self.decimal == "," else ""
                raise InputError(f"{where}: expected a number{comma}, got {cell}; {mend}")
            raise InputError(f"{where}: {cell} is infinite; {mend}")
        if gaps and values.empty:
            raise InputError(f"column {name!r} has no values; fill it, or leave it out by naming the states to use")
        return np.asarray(values.reindex(self.cells.index), float)

    def times(
        self, name: str, runs: Sequence[Sequence[int]], groups: Collection[str] = ()
    ) -> tuple[Array, Clock | None]:
        """Read a column as times [rows], nan where missing, with the clock of dates or durations in these runs.

        Clocks beside dates are refused, unless the dates are `groups`.
        """
        if self._kind(name) == "clock":
            for other in self.columns:
                if other not in groups and self._kind(other) == "date":
                    raise InputError(
                        f"column {name!r} holds clocks and column {other!r} dates: expected one column with both, such "
                        "as 2020-03-01 12:00:00; join them"
                    )
        cells = self._present(name)
        moments = None if cells.empty or _is_plain(cells) else times_in(name, cells, self.lines, runs)
        return (self.numbers(name, "time"), None) if moments is None else moments

    def increasing_times(self, source: object, time: str, others: Iterable[str]) -> Array:
        """Read times [rows] as numbers, checking that they increase and that the other columns exist."""
        asked = dict.fromkeys((time, *others))
        if not asked.keys() <= set(self.columns):
            raise InputError(
                f"{source}: expected columns {', '.join(asked)}, got {', '.join(self.columns)}; name them so"
            )
        times = self.numbers(time, "time", gaps=False)
        if not len(times) or (np.diff(times) <= 0).any():
            raise InputError(f"{source}: expected times that increase from one row to the next")
        return times

    def groups(self, names: Sequence[str]) -> dict[str, list[int]]:
        """Rows by the values of some columns, in order of appearance; all under "" without columns."""
        if not names:
            return {"": list(range(len(self.cells)))}
        texts = pd.concat([self._texts(name) for name in names], axis=1)
        for line, row in (texts == "").loc[lambda blank: blank.any(axis=1)].head(1).iterrows():
            raise InputError(f"line {line}, column {texts.columns[row.argmax()]!r}: the group is missing")
        joined = texts.iloc[:, 0].str.cat(texts.iloc[:, 1:], sep=", ") if len(names) > 1 else texts.iloc[:, 0]
        labels = {cell: clean_name(cell) for cell in joined.unique()}
        for label in labels.values():
            check_letters(label)
        rows = pd.RangeIndex(len(joined)).groupby(joined.map(labels))
        return {label: rows[label].tolist() for label in labels.values()}

    def labels(self, taken: Collection[str]) -> dict[str, list[str]]:
        """The columns, but for the `taken` ones, of a few texts or numbers that may say what a row holds [rows]."""
        few = [name for name in self.columns if name not in taken and 2 <= self.cells[name].nunique() <= FEW_LABELS]
        texts = {name: self.cells[name].astype(str) for name in few}
        return {name: cells.where(~cells.str.lower().isin(_MISSING), "").tolist() for name, cells in texts.items()}

    def chosen(self, names: str | Sequence[str] | None, kind: str, unfit: Collection[str] = ()) -> list[str]:
        """Check that names given by the user (or one comma-separated text) are columns; never suggest an unfit one."""
        if names is None:
            return []
        if isinstance(names, str):
            names = [names] if names in self.columns else names.split(",")
        picked = []
        for name in map(str.strip, names):
            # The user may give the unit too, as in the header.
            bare, unit = split_unit(name)
            whole = name in self.columns or unit is None or self.units.get(bare) != unit
            picked.append(name if whole else bare)
        for name in picked:
            if name not in self.columns:
                raise unknown_name(kind, name, [one for one in self.columns if one not in unfit])
            if picked.count(name) > 1:
                raise InputError(f"{kind} {name!r} is named twice; name every column once")
        return picked

    def time_column(self, wanted: str | None, groups: Sequence[str]) -> str:
        """The column of times: the wanted one, else the one named t or time, else for a frame its
        index or only column of dates, for a file its first column.
        """
        if wanted is not None:
            return self.chosen([wanted], "time column")[0]
        names = [name for name in self.columns if name not in groups]
        if not names:
            raise InputError("no column is left for the time besides the group columns")
        usual = [name for name in TIME_NAMES if name in names]
        usual += [name for name in names if name.lower() in TIME_NAMES]
        usual += [name for name in names if name == self.time]
        if usual or not self.of_frame:
            return [*usual, *names][0]
        # A table may have other clocks than its times.
        dated = [name for name in names if self._kind(name) in ("date", "duration")]
        if len(dated) != 1:
            raise InputError(
                "nothing says where the times of the frame are: expected a column called t or time, or an index of "
                f"dates or called t, got columns {', '.join(names)}; name the column, time={names[0]!r}"
            )
        return dated[0]

    def state_columns(
        self, wanted: str | Sequence[str] | None, taken: Mapping[str, str]
    ) -> tuple[list[str], list[str]]:
        """The states, by default all numeric columns, and messages about skipped columns."""
        chosen = self.chosen(wanted, "state", {*taken, *filter(self.is_text, self.columns)})
        for name in chosen:
            if name in taken:
                raise InputError(f"column {name!r} is {taken[name]}, so it cannot be a state")
        messages = [*self.messages]
        if wanted is None:
            rest = [name for name in self.columns if name not in taken and name not in self.spent]
            chosen = [name for name in rest if not self.is_text(name)]
            messages += [f"Column {name!r} holds text and was left out." for name in rest if name not in chosen]
            # The header of a table that is read in blocks has no rows.
            empty = [name for name in chosen if len(self.cells) and self._present(name).empty]
            messages += [f"Column {name!r} has no values and was left out." for name in empty]
            chosen = [name for name in chosen if name not in empty]
        return chosen, messages

    def deviation_columns(self, sigma: Mapping[str, str] | str | None, taken: Mapping[str, str]) -> dict[str, str]:
        """Columns of standard deviations by state; `taken` gives the roles of columns that cannot hold them."""
        found = assigned(sigma, "column of standard deviations")
        for state, wanted in found.items():
            name = found[state] = self.chosen([wanted], "column of standard deviations")[0]
            if name in taken:
                raise InputError(
                    f"column {name!r} is {taken[name]}, so it cannot hold the standard deviations of {state!r}"
                )
        return found

    def deviations(self, columns: Mapping[str, str], states: Sequence[str], values: Array) -> Array:
        """Read standard deviations of measured values [rows, states], nan where unknown, from columns by state."""
        sigma = np.full(values.shape, np.nan)
        for state, column in columns.items():
            if state not in states:
                raise unknown_name("state with a column of standard deviations", state, states)
            i = list(states).index(state)
            read = self.numbers(column, "standard deviations", gaps=False)
            places = [f"line {line}, column {column!r}" for line in self.lines]
            sigma[:, i] = check_deviations(read, values[:, i], places, state)
        return sigma

    def _present(self, name: str) -> pd.Series:
        """The non-empty cells of a column."""
        cells = self.cells[name]
        return cells.dropna() if _is_plain(cells) else cells[~cells.str.lower().isin(_MISSING)]

    def _texts(self, name: str) -> pd.Series:
        """The cells of a column in their original spelling."""
        cells = self.cells[name]
        return self.written(name) if self.written is not None and _is_plain(cells) else cells

    def _plain(self, cells: pd.Series) -> pd.Series | None:
        """Convert cells of digits, points and exponents at once; None if one has other characters."""
        if _is_plain(cells):
            return cells
        if self.decimal == "," or not _PLAIN.fullmatch(",".join(cells)):
            return None
        try:
            return cells.astype(float)
        except ValueError:
            return None

    def _number(self, cell: str) -> float:
        """Convert a cell to a number, possibly infinite; nan for other text."""
        if self.decimal == ",":
            cell = "" if "." in cell else cell.replace(",", ".")
        return float(cell) if NUMBER.fullmatch(cell) or _INFINITE.fullmatch(cell) else np.nan

    def _kind(self, name: str) -> str:
        """What the first cell of a column is: "date", "clock" or "duration"; "" for anything else."""
        cells = self._present(name)
        return "" if cells.empty or _is_plain(cells) else kind_of_time(str(cells.iloc[0]))


def _is_plain(cells: pd.Series) -> bool:
    return bool(cells.dtype == np.float64)


def assigned(
    texts: Mapping[str, str] | str | None, kind: str, form: str = "STATE=COLUMN", example: str = "S=S_sd,I=I_sd"
) -> dict[str, str]:
    """Parse pairs of names given by the user, as a mapping or one text such as "S=S_sd,I=I_sd"."""
    if not isinstance(texts, str):
        return dict(texts or {})
    pairs: dict[str, str] = {}
    for part in texts.split(","):
        state, sign, column = (piece.strip() for piece in part.partition("="))
        if not sign or not state or not column:
            raise InputError(f"{kind}: expected {form}, parted by commas, got {part.strip()!r}; write {example}")
        if state in pairs:
            raise InputError(f"{kind}: state {state!r} is named twice; name every state once")
        pairs[state] = column
    return pairs


def split_unit(name: str) -> tuple[str, str | None]:
    """Split a name in a header from its unit in brackets, None without a unit."""
    found = _WITH_UNIT.fullmatch(name)
    return (found["name"], found["unit"].strip()) if found else (name, None)


def clean_name(cell: str) -> str:
    """Put a column name on one line, without outer blanks."""
    return re.sub(r"\s*[\t\r\n\x0b\x0c\x85]+\s*", " ", cell.strip())


def names_in(states: Iterable[str]) -> list[str]:
    """List the names of states given by the user."""
    try:
        return list(states)
    except TypeError:
        raise InputError(f"states: expected a list of names, got {states!r}; give one name for each column") from None


def check_names(names: Sequence[str]) -> None:
    """Check that the names of the time and the states are valid and distinct."""
    for name in names:
        if not isinstance(name, str) or not name or name != clean_name(name):
            raise InputError(f"a name should be text on one line without outer blanks, got {shortened(name)}")
        check_letters(name)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"the name {shortened(twice)} is given twice; every column needs its own")
