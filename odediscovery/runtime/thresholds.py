"""Numbers that decide something: each with what it is, its unit and where its value came from.

A stage keeps its numbers in one frozen dataclass beside it,

    @dataclass(frozen=True)
    class PruneThresholds(Thresholds):
        hopeless: float = threshold(100.0, "a member this many times worse is left", unit="ratio",
                                    origin="measured: half or twice it changes nothing")

    PRUNING = PruneThresholds()

so that a reader finds them in one place.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

# Origin of a value that nobody derived.
CHOSEN = "chosen: no derivation is known"


@dataclass(frozen=True)
class Thresholds:
    """Base of the dataclasses of thresholds; its subclasses are all there are."""


def threshold(value: Any, says: str, *, unit: str = "", origin: str = CHOSEN) -> Any:
    """A field of a dataclass of thresholds, or of one of sizes that decide nothing, such as those of a drawing.

    Args:
        value: the number, or a tuple of numbers.
        says: what it is, half a sentence.
        unit: what it is measured in; empty for a count or a pure number.
        origin: where the value came from: a derivation, a cost, a source (default: it was chosen, and
            its measured sensitivity is all that stands behind it).
    """
    return field(default=value, metadata={"says": says, "origin": origin, "unit": unit})


@dataclass(frozen=True)
class Described:
    """One threshold for people.

    Args:
        owner: class of thresholds that it belongs to.
        name: of the field.
        value: its default.
        says, unit, origin: see `threshold`.
    """

    owner: str
    name: str
    value: Any
    says: str
    unit: str
    origin: str


def described(owner: type[Thresholds]) -> Iterator[Described]:
    """Every threshold of a class, in the order in which they stand."""
    for f in dataclasses.fields(owner):
        yield Described(owner.__name__, f.name, f.default, **f.metadata)
