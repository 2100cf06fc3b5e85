"""Numbers that decide something: each with what it is, its unit and where its value came from.

A stage keeps its numbers in one frozen dataclass beside it,

    @dataclass(frozen=True)
    class PruneThresholds(Thresholds):
        hopeless: float = threshold(100.0, "a member this many times worse stays as it is", unit="ratio",
                                    origin="a likelihood ratio that no removal makes up for")
        steps: int = 20  # most steps of a fit

    PRUNING = PruneThresholds()

A number that changed no law at half and at twice its value (`data/results/bench/thresholds`) needs no
derivation: it stands there with a comment.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

# Origin of a value that nobody derived.
CHOSEN = "chosen: no derivation is known"


@dataclass(frozen=True)
class Thresholds:
    """Base of the dataclasses of thresholds; its subclasses are all there are."""


def threshold(value: Any, says: str, *, unit: str = "", origin: str = CHOSEN) -> Any:
    """A field of a dataclass of thresholds."""
    return field(default=value, metadata={"says": says, "origin": origin, "unit": unit})
