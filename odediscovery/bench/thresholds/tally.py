"""What one threshold did in a fit, counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np


@dataclass
class Tally:
    """What one threshold did.

    Args:
        reads: how often its value was asked for.
        decisions: how often it was compared, itself or what was computed from it.
        true, false: decisions that came out so; an array may do both in one.
        half, twice: decisions that would have come out otherwise.
        lost: uses that could not be followed.
    """

    reads: int = 0
    decisions: int = 0
    true: int = 0
    false: int = 0
    half: int = 0
    twice: int = 0
    lost: int = 0

    def decided(self, outcome: Any, otherwise: Sequence[bool]) -> None:
        """Count a decision that came out so, and would have come out otherwise at half, at twice."""
        several = isinstance(outcome, np.ndarray)
        self.decisions += 1
        self.true += bool(outcome.any() if several else outcome)
        self.false += not (outcome.all() if several else outcome)
        self.half += otherwise[0]
        self.twice += otherwise[1]


Tallies: TypeAlias = dict[str, Tally]
