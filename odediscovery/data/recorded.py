"""How samples were recorded, if they are more than values with noise, and the formulas of computed columns.

    O(x)_j = max(x_j, L_j)             for a value that is known to lie below L_j
    O(x)_j = x_j - x_(j-1)             for a cumulative count, whose increments have independent noise

The residuals of a law are O(curve) - O(data). Formulas of computed columns are parsed by a grammar, never executed as
code.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odediscovery.errors import InputError, unknown_name
from odediscovery.runtime.arrays import Array, Mask


def spread_columns(values: NDArray[Any], places: Sequence[int], n: int, fill: float = np.nan) -> NDArray[Any]:
    """Spread values [..., k] over n columns, with `fill` in the others."""
    wide = np.full((*values.shape[:-1], n), fill, dtype=np.result_type(values, type(fill)))
    wide[..., list(places)] = values
    return wide


@dataclass(frozen=True, eq=False)
class Recorded:
    """How the samples of one trajectory were recorded, if they are more than values with noise."""

    start: Array  # known first values [states], nan where unknown
    limit: Array  # detection limits of censored values [samples, states], nan elsewhere
    seen: Mask  # which values exist [samples, states]
    counted: Mask  # which states are cumulative counts [states]
    given: Array | None = None  # cumulative doses up to each sample [samples, states]; None without doses

    @property
    def censored(self) -> Mask:
        """Which values lie below a limit [samples, states]."""
        return np.isfinite(self.limit)

    def part(self, samples: Any) -> Recorded:
        """Select samples; the start remains known only if the first sample is among them."""
        first = np.arange(len(self.seen))[samples][:1]
        start = self.start if len(first) and first[0] == 0 else np.full_like(self.start, np.nan)
        given = None if self.given is None else self.given[samples]
        return Recorded(start, self.limit[samples], self.seen[samples], self.counted, given)

    def scaled(self, size: Array) -> Recorded:
        """Rescale to x' = x / size [states]."""
        given = None if self.given is None else self.given / size
        return Recorded(self.start / size, self.limit / size, self.seen, self.counted, given)

    def by_column(self, change: Callable[[NDArray[Any], float], NDArray[Any]]) -> Recorded:
        """Apply a change of columns to every array, given its neutral value."""
        start, limit = change(self.start, np.nan), change(self.limit, np.nan)
        given = None if self.given is None else change(self.given, 0.0)
        return Recorded(start, limit, change(self.seen, False), change(self.counted, False), given)

    def observed(self, x: Array) -> Array:
        """Compute O(x) of curves or data [samples, states, ...]."""
        if self.censored.any():
            limit = self.limit.reshape(*self.limit.shape, *[1] * (x.ndim - 2))
            x = np.where(np.isfinite(limit), np.fmax(x, limit), x)
        return self._increments(x)

    def linearised(self, slopes: Array, x: Array) -> Array:
        """Derivatives of O(x) [samples, states, unknowns] from those of x along a curve [samples, states]."""
        return self._increments(np.where((self.censored & ~(x > self.limit))[..., None], 0.0, slopes))

    def _increments(self, x: Array) -> Array:
        found = x.copy() if self.counted.any() else x
        for i, rows in self._counts():
            found[rows[1:], i] = x[rows[1:], i] - x[rows[:-1], i]
        return found

    def summed(self, left: Array) -> Array:
        """Curve - data [samples, states] from residuals of the increments."""
        found = left.copy() if self.counted.any() else left
        for i, rows in self._counts():
            found[rows, i] = np.cumsum(left[rows, i])
        return found

    def _counts(self) -> list[tuple[int, Any]]:
        """Cumulative counts and the rows of their samples."""
        return [(int(i), np.flatnonzero(self.seen[:, i])) for i in np.flatnonzero(self.counted)]

    def filled(self, values: Array) -> Array:
        """Values for smoothing: half the limit for censored values, doses subtracted."""
        filled: Array = np.where(self.censored, 0.5 * np.nan_to_num(self.limit), values)
        return filled if self.given is None else filled - self.given


_NUMBER = re.compile(r"(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
EXAMPLE = 'write --column "R=recovered+deaths"'


def split_name(text: str) -> tuple[str, str]:
    """Split a computed column into its name and its formula."""
    name, formula = _sides(text)
    if not name or not formula:
        raise InputError(f"--column expects NAME=SUM OF COLUMNS, got {text!r}; {EXAMPLE}")
    return name, formula


_OPERATIONS: Mapping[str, Callable[[Array, Array], Array]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": lambda left, right: np.where(right == 0.0, np.inf, left / right),
}


class Arithmetic:
    """Parser of arithmetic with the columns of a table, whose names are used unquoted.

    sum     := product (("+" | "-") product)*
    product := factor (("*" | "/") factor)*
    factor  := ("+" | "-") factor | "(" sum ")" | number | name of a column
    """

    def __init__(self, text: str, columns: Sequence[str], numbers: Callable[[str], Array]) -> None:
        if len(text) > 1000:
            raise InputError(f"--column: expected at most 1000 characters, got {len(text)}")
        self.text, self.columns, self.numbers = text, list(columns), numbers
        # The longest first: a column may be named "a-b".
        names = "|".join(re.escape(name) for name in sorted(columns, key=len, reverse=True))
        self._names = re.compile(rf"({names})(?!\w)") if names else None
        self.at, self.depth = 0, 0
        self.used: list[str] = []

    def value(self) -> Array:
        """Compute the new column [rows], nan where an operand has no value, infinite after division by 0."""
        found = self._sum()
        if self._peek():
            raise self._error("expected +, -, * or /")
        if not self.used:
            raise InputError(f"--column: {self.text!r} names no column; expected a sum of columns, {EXAMPLE}")
        return np.asarray(found, dtype=np.float64)

    def _error(self, reason: str) -> InputError:
        return InputError(f"--column: cannot read {self.text!r} at character {self.at + 1}: {reason}; {EXAMPLE}")

    def _peek(self) -> str:
        """Return the next character that is not blank; "" at the end."""
        while self.text[self.at : self.at + 1].isspace():
            self.at += 1
        return self.text[self.at : self.at + 1]

    def _taken(self, signs: str) -> str:
        """Consume and return the next character if it is one of these, else return ""."""
        found = self._peek()
        if not found or found not in signs:
            return ""
        self.at += 1
        return found

    def _sum(self, level: int = 0) -> Array:
        """Parse a sum (level 0) or a product."""
        below: Callable[[], Array] = self._factor if level else partial(self._sum, 1)
        found = below()
        while sign := self._taken("*/" if level else "+-"):
            with np.errstate(divide="ignore", invalid="ignore"):
                found = _OPERATIONS[sign](found, below())
        return found

    def _factor(self) -> Array:
        self.depth += 1
        if self.depth > 50:
            raise self._error("too many signs and brackets within each other")
        if sign := self._taken("+-"):
            found = self._factor() * (-1.0 if sign == "-" else 1.0)
        elif self._taken("("):
            found = self._sum()
            if not self._taken(")"):
                raise self._error("expected )")
        else:
            found = self._atom()
        self.depth -= 1
        return found

    def _atom(self) -> Array:
        if self._names and (named := self._names.match(self.text, self.at)):
            self.at = named.end()
            if named[1] not in self.used:
                self.used.append(named[1])
            return self.numbers(named[1])
        if number := _NUMBER.match(self.text, self.at):
            self.at = number.end()
            return np.asarray(float(number[0]))
        if word := re.compile(r"[^\W\d]\w*").match(self.text, self.at):
            raise InputError(f"--column: {unknown_name('column', word[0], self.columns)}")
        raise self._error("expected a column or a number")


# Keywords for a start equal to its sample, and for breaks to be found.
OF_SAMPLE, FOUND = "measured", "found"


def known_start(text: str) -> tuple[str, str | float]:
    """Parse state and start of "conc = 0", "gut = dose" (a column) or "gut = measured"."""
    state, value = _sides(text)
    if not state or not value:
        raise InputError(f"--starts expects STATE = NUMBER, COLUMN or {OF_SAMPLE}, got {text!r}")
    number = _number(value)
    return state, value if number is None else number


def detection_limit(text: str) -> tuple[str, float]:
    """Parse state and detection limit of "virus = 50"."""
    state, value = _sides(text)
    limit = _number(value)
    if not state or limit is None or not limit > 0.0:
        raise InputError(f'--censored expects STATE = LIMIT above 0, such as "virus = 50", got {text!r}')
    return state, limit


def dose_column(text: str) -> tuple[str, str]:
    """Parse state and column of "gut = dose" or "conc = f*dose"."""
    state, amount = _sides(text)
    factor, times, column = (part.strip() for part in amount.rpartition("*"))
    if not state or not column or (times and not factor.isidentifier()):
        raise InputError(
            f'--doses expects STATE = COLUMN of amounts, such as "gut = dose", or with a factor that is fitted, '
            f'"conc = f*dose", got {text!r}'
        )
    return state, column


def dose_factor(text: str) -> str:
    """Parse the factor f of "conc = f*dose", which converts amounts to the unit of the state; "" without one."""
    return _sides(text)[1].rpartition("*")[0].strip()


def break_times(text: str, time_name: str) -> list[float]:
    """Parse the times in "t = 23, 41", in increasing order."""
    name, rest = _sides(text)
    times = [_number(part) for part in rest.split(",")]
    if name != time_name or None in times:
        raise InputError(f'--breaks expects times, such as "{time_name}=23,41", or "{FOUND}", got {text!r}')
    return sorted({time for time in times if time is not None})


def _sides(text: str) -> tuple[str, str]:
    """Split a text at its first equals sign; the right side is "" without one."""
    left, _, right = text.partition("=")
    return left.strip(), right.strip()


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
