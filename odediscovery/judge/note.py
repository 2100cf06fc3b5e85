"""A message of a result with its weight: what its reader should know first.

A note says what was seen, what follows from it, and what to do, in one or two sentences; `notes` has them all.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum


class Weight(IntEnum):
    """How much a note matters: the smaller, the sooner its reader should know."""

    REFUSAL = 0
    DOUBT = 1
    CONSTANTS = 2
    CHOICE = 3
    DATA = 4
    BACKGROUND = 5


class Note(str):
    """A message of a result, with its weight.

    >>> Note("read me", Weight.DOUBT), in_order(["columns", Note("refused", Weight.REFUSAL)])
    ('read me', ('refused', 'columns'))
    """

    weight: Weight

    def __new__(cls, text: str, weight: Weight) -> Note:
        made = super().__new__(cls, text)
        made.weight = weight
        return made

    def __getnewargs__(self) -> tuple[str, Weight]:  # type: ignore[override]
        # A result goes from one process to another.
        return str(self), self.weight


def in_order(messages: Iterable[str]) -> tuple[str, ...]:
    """The messages, the most important first; those without a weight count as remarks on the data.

    A message that stands there twice is said once.
    """
    unique = dict.fromkeys(messages)
    return tuple(sorted(unique, key=lambda text: getattr(text, "weight", Weight.DATA)))
