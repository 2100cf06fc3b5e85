"""Constants that somebody named, with their standard errors, as a value that is kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from odediscovery.data.table import check_letters
from odediscovery.laws.printing import constant
from odediscovery.laws.records import interval, number, plain


@dataclass(frozen=True)
class NamedConstants:
    """The constants of a form that was fitted.

    Args:
        lines: the equations as they were written, one a state.
        names: of the constants.
        values: fitted.
        errors: standard errors, nan where the data do not tell.

    >>> print(NamedConstants(("x' = -k*x",), ("k",), (0.5,), (0.01,)).text())
    x' = -k*x
    k = 0.500(10)
    """

    lines: tuple[str, ...]
    names: tuple[str, ...]
    values: tuple[float, ...]
    errors: tuple[float, ...]

    def text(self, digits: int = 4) -> str:
        """The equations, and the constants on a line below."""
        return "\n".join([*self.lines, self._values(digits)])

    def one_line(self, digits: int = 4) -> str:
        """The same on one line.

        >>> NamedConstants(("x' = -k*x",), ("k",), (0.5,), (0.01,)).one_line()
        "x' = -k*x with k = 0.500(10)"
        """
        return f"{'; '.join(self.lines)} with {self._values(digits)}"

    def _values(self, digits: int) -> str:
        told = (f"{n} = {constant(v, e, digits)}" for n, v, e in zip(self.names, self.values, self.errors, strict=True))
        return ", ".join(told)

    def rows(self, freedom: float | None) -> list[dict[str, Any]]:
        """One entry a constant: name, value, standard_error, low and high (95 %)."""
        rows = []
        for name, value, error in zip(self.names, self.values, self.errors, strict=True):
            low, high = interval(value, error, freedom) or (None, None)
            rows.append({"name": name, "value": value, "standard_error": plain(error), "low": low, "high": high})
        return rows

    def record(self) -> dict[str, Any]:
        """Plain values for `result.json`."""
        return {
            "lines": list(self.lines),
            "names": list(self.names),
            "values": [plain(v) for v in self.values],
            "standard_errors": [plain(e) for e in self.errors],
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any] | None) -> NamedConstants | None:
        """Inverse of `record()`; None for none."""
        if record is None:
            return None
        lines, names = (tuple(str(text) for text in record[key]) for key in ("lines", "names"))
        values, errors = (tuple(number(x) for x in record[key]) for key in ("values", "standard_errors"))
        for text in (*lines, *names):
            check_letters(text)
        if not len(names) == len(values) == len(errors):
            raise ValueError("named constants of different numbers")
        return cls(lines, names, values, errors)
