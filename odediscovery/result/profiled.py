"""Intervals of constants by profile likelihood."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from odediscovery.errors import InputError
from odediscovery.laws.equations import Equations
from odediscovery.laws.expressions import constant
from odediscovery.laws.records import monomial_names, plain

KINDS = ("coefficient", "exponent")


@dataclass(frozen=True)
class Profile:
    """The 95 % interval of a constant by profile likelihood, in the user's units.

    Args:
        value: at the maximum of the likelihood.
        low: lower end of the interval; -inf where the data set none.
        high: upper end; inf where the data set none.
        kind: "coefficient" or "exponent".
        monomial: index of its monomial, as in `terms` of `result.json`.
        of: state whose equation contains the coefficient, or state or input with the exponent.

    >>> Profile(0.5, 0.4, math.inf).low
    0.4
    """

    value: float
    low: float
    high: float
    kind: str = "coefficient"
    monomial: int = 0
    of: str = ""

    def record(self) -> dict[str, Any]:
        """Plain values for `result.json`, null for an end that the data do not determine."""
        place = {key: getattr(self, key) for key in ("kind", "monomial", "of", "value")}
        return place | {"interval": [plain(self.low), plain(self.high)]}

    @classmethod
    def from_record(cls, record: Mapping[str, Any], equations: Equations) -> Profile:
        """Inverse of `record()`; raises InputError if `equations` have no such constant, or its value is outside."""
        low, high = record["interval"]
        found = cls(
            float(record["value"]),
            -math.inf if low is None else float(low),
            math.inf if high is None else float(high),
            str(record["kind"]),
            int(record["monomial"]),
            str(record["of"]),
        )
        terms, known = len(monomial_names(equations)), found.kind in KINDS and found.of in equations.variables
        if not known or not 0 <= found.monomial < terms or not math.isfinite(found.value):
            raise InputError("'profiles' should be of constants of the equations")
        if not found.low <= found.value <= found.high:
            raise InputError("'profiles' should have ends on both sides of their values")
        return found

    def name(self, monomials: Sequence[str]) -> str:
        """Readable name of the constant, such as "hare*lynx in hare'", from the names of the law's monomials."""
        name = monomials[self.monomial]
        return f"{name} in {self.of}'" if self.kind == "coefficient" else f"the exponent of {self.of} in {name}"

    def text(self, monomials: Sequence[str]) -> str:
        """The interval as one line of text, from the names of the law's monomials.

        >>> Profile(-0.0248, -0.0287, math.inf, "coefficient", 1, "hare").text(["hare", "hare*lynx"])
        "hare*lynx in hare': -0.0248, from -0.0287 to no end"
        """
        ends = (constant(end, digits=3) if math.isfinite(end) else "no end" for end in (self.low, self.high))
        return f"{self.name(monomials)}: {constant(self.value, digits=3)}, from {' to '.join(ends)}"


def profiles_text(profiles: Sequence[Profile], monomials: Sequence[str]) -> str:
    """Intervals as lines of text; empty if there are none."""
    lines = [f"  {one.text(monomials)}" for one in profiles]
    return "\n".join(["95 % intervals by profile likelihood", *lines]) if lines else ""
