"""What the stages behind the search hand on: judged laws, the one that is claimed, and their data."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from odediscovery.judge.criterion import choose
from odediscovery.judge.notes.note import Note
from odediscovery.problem.problem import Problem
from odediscovery.stages.values import Judged


@dataclass(frozen=True, eq=False)
class Verdict:
    """Judged laws, and which of them is claimed.

    Args:
        p: the data that they were judged on: whole trajectories, or pieces of them.
        rows: the laws, one for each row of the Pareto front and rivals of them.
        chosen: index of the law that is claimed.
        reasons: why closer laws were passed over, for the reader.
    """

    p: Problem
    rows: tuple[Judged, ...]
    chosen: int
    reasons: tuple[Note, ...] = ()

    @classmethod
    def of(cls, p: Problem, rows: Sequence[Judged]) -> Verdict:
        """The verdict for the law with the smallest criterion."""
        return cls(p, tuple(rows), choose(rows))

    @property
    def best(self) -> Judged:
        """The law that is claimed."""
        return self.rows[self.chosen]

    def passed_over(self, chosen: int, why: Callable[[int], Note]) -> Verdict:
        """The verdict for another law.

        Args:
            chosen: its index.
            why: what is said of the law that was claimed before, from its complexity.
        """
        note = why(self.best.polished.law.complexity)
        return dataclasses.replace(self, chosen=chosen, reasons=(*self.reasons, note))

    def with_best(self, row: Judged) -> Verdict:
        """The same with another row for the law that is claimed."""
        rows = (*self.rows[: self.chosen], row, *self.rows[self.chosen + 1 :])
        return dataclasses.replace(self, rows=rows)
