"""Columns computed from columns: "R = recovered + deaths", read by a grammar of its own and never evaluated.

sum     := product (("+" | "-") product)*
product := factor (("*" | "/") factor)*
factor  := ("+" | "-") factor | "(" sum ")" | number | name of a column
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

from odediscovery.errors import InputError, unknown_name
from odediscovery.runtime.arrays import Array

_NUMBER = re.compile(r"(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_WORD = re.compile(r"[^\W\d]\w*")
MAX_CHARACTERS, MAX_DEPTH = 1000, 50
EXAMPLE = 'write --column "R=recovered+deaths"'


def split_name(text: str) -> tuple[str, str]:
    """The new column's name and what it is computed from.

    >>> split_name("R = recovered + deaths")
    ('R', 'recovered + deaths')
    """
    name, sign, sum_ = (part.strip() for part in text.partition("="))
    if not sign or not name or not sum_:
        raise InputError(f"--column expects NAME=SUM OF COLUMNS, got {text!r}; {EXAMPLE}")
    return name, sum_


class Arithmetic:
    """The value of one text, column by column.

    Args:
        text: a sum, see the grammar of this module.
        columns: names of the columns, the text of which is taken as it stands.
        numbers: the values of a column [rows].

    >>> made = Arithmetic("2*a - (b + 1)/4", ["a", "b"], {"a": np.ones(2), "b": np.array([3.0, 7.0])}.__getitem__)
    >>> made.value().tolist(), made.used
    ([1.0, 0.0], ['a', 'b'])
    """

    def __init__(self, text: str, columns: Sequence[str], numbers: Callable[[str], Array]) -> None:
        if len(text) > MAX_CHARACTERS:
            raise InputError(f"--column: expected at most {MAX_CHARACTERS} characters, got {len(text)}")
        self.text, self.columns, self.numbers = text, list(columns), numbers
        # The longest first: a column may be called "a-b".
        names = "|".join(re.escape(name) for name in sorted(columns, key=len, reverse=True))
        self._names = re.compile(rf"({names})(?!\w)") if names else None
        self.at, self.depth = 0, 0
        self.used: list[str] = []

    def value(self) -> Array:
        """The new column [rows], nan where a column has no value, infinite where something is divided by 0."""
        found = self._sum()
        if self._peek():
            raise self._error("expected +, -, * or /")
        if not self.used:
            raise InputError(f"--column: {self.text!r} names no column; expected a sum of columns, {EXAMPLE}")
        return np.asarray(found, dtype=np.float64)

    def _error(self, reason: str) -> InputError:
        return InputError(f"--column: cannot read {self.text!r} at character {self.at + 1}: {reason}; {EXAMPLE}")

    def _peek(self) -> str:
        """The next character that is no blank; nothing at the end."""
        while self.text[self.at : self.at + 1].isspace():
            self.at += 1
        return self.text[self.at : self.at + 1]

    def _taken(self, signs: str) -> str:
        """The next character if it is one of these, which is then passed; else nothing."""
        found = self._peek()
        if not found or found not in signs:
            return ""
        self.at += 1
        return found

    def _sum(self) -> Array:
        found = self._product()
        while sign := self._taken("+-"):
            right = self._product()
            found = found + right if sign == "+" else found - right
        return found

    def _product(self) -> Array:
        found = self._factor()
        while sign := self._taken("*/"):
            right = self._factor()
            with np.errstate(divide="ignore", invalid="ignore"):
                found = found * right if sign == "*" else np.where(right == 0.0, np.inf, found / right)
        return found

    def _factor(self) -> Array:
        self.depth += 1
        if self.depth > MAX_DEPTH:
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
        """A column or a number."""
        if self._names and (named := self._names.match(self.text, self.at)):
            self.at = named.end()
            if named[1] not in self.used:
                self.used.append(named[1])
            return self.numbers(named[1])
        if number := _NUMBER.match(self.text, self.at):
            self.at = number.end()
            return np.asarray(float(number[0]))
        if word := _WORD.match(self.text, self.at):
            raise InputError(f"--column: {unknown_name('column', word[0], self.columns)}")
        raise self._error("expected a column or a number")
