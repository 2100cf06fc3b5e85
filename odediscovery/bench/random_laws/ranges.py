"""From what random laws are drawn: numbers of the benchmark, none of the engine.

Each kind of law keeps its ranges and chances in one frozen dataclass beside its generator,

    @dataclass(frozen=True)
    class DecayRanges(PositiveRanges):
        decay: Range = drawn((0.3, 1.5), "rate d")
        inflow_chance: float = drawn(0.4, "there is an inflow")

    DECAY = DecayRanges()

and the documentation prints them all as tables. They are not thresholds (see `runtime.thresholds`):
whoever changes one of them gets other laws, and no kept row is of these.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

# The least and the greatest value.
Range: TypeAlias = tuple[float, float]
# The chance of each of several cases, in their order; the sum is 1.
Chances: TypeAlias = tuple[float, ...]


def drawn(value: Any, says: str) -> Any:
    """A field of a dataclass of ranges.

    Args:
        value: a range, a chance, the chances of several cases, or the values of which one is taken.
        says: what is drawn from it, or what has this chance, half a sentence.
    """
    return field(default=value, metadata={"says": says})


@dataclass(frozen=True)
class Ranges:
    """Base of all dataclasses of ranges; everything is drawn in units of order 1."""


@dataclass(frozen=True)
class PositiveRanges(Ranges):
    """Laws whose states stay positive."""

    starts: Range = drawn((0.2, 4.0), "starts, even on the logarithm")


@dataclass(frozen=True)
class SignedRanges(Ranges):
    """Laws whose states change their sign: x' = p y, y' = ..., and perhaps a filter z."""

    velocity: Range = drawn((0.6, 1.6), "p")
    damping: Range = drawn((0.05, 0.4), "size of linear or cubic damping")
    filter_decay: Range = drawn((0.2, 1.5), "decay of z")
    filter_drive: Range = drawn((0.3, 1.5), "size of what drives z")
    starts: Range = drawn((-2.0, 2.0), "starts")
