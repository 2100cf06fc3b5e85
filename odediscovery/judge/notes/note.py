"""A message of a result with its weight: what its reader should know first.

A note says what was seen, what follows from it, and what to do, in one or two sentences; the modules beside this one
have them all. A result shows the weightiest first. What the reader of a table has to say of columns stays in `data`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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


def percent(share: float) -> str:
    """A share of the variance, cut off and not rounded up: 0.9996 is 99.9 %.

    >>> percent(0.9996), percent(0.5), percent(-3.3)
    ('99.9 %', '50 %', 'nothing')
    """
    if share <= 0.0:
        return "nothing"
    return f"{int(1000.0 * share + 1e-9) / 10.0:g} %"


def listed(names: Sequence[str]) -> str:
    """Names in a sentence: a, b and c."""
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)
