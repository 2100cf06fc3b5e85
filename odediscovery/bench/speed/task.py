"""A measurement of time or memory as a value, and the rows that it gives.

The column `figures` holds what was measured, under names that depend on the part; `failed` is the
reason why there is nothing, such as a limit or a package that is not installed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from odediscovery.bench.rows import Row, reason_of

# Members of a batch, as many as the paper trains of each model.
MEMBERS = 100
# Largest relative difference of a loss or gradient computed in two ways.
ROUNDING_DIFFERENCE = 1e-9
COLUMNS = ("id", "method", "failed", "seconds", "figures")


@dataclass(frozen=True)
class Measurement:
    """One measurement.

    Args:
        part: gradients, fsir, polynomials, samples, noisy samples, states, members, hidden or
            throughput.
        case: of gradients and polynomials; "" for others.
        size: of samples, states, members, hidden and throughput; 0 for others.
        quick: a few rounds, for a first look.
    """

    part: str
    case: str = ""
    size: int = 0
    seed: int = 0
    max_seconds: float = 600.0
    quick: bool = False

    @property
    def id(self) -> str:
        """What the rows are called."""
        return " ".join(filter(None, (self.part, self.case, str(self.size or ""))))


def rows_of(task: Measurement, measure: Callable[[Measurement], Sequence[Row]]) -> list[Row]:
    """The rows of a measurement; if it fails, one row with the reason."""
    began = time.monotonic()
    try:
        rows = measure(task)
    except Exception as error:
        return [row_of(task, "ours", time.monotonic() - began, reason_of(error))]
    kept = []
    for figures in rows:
        rest = {name: value for name, value in figures.items() if name not in ("method", "seconds")}
        kept.append(row_of(task, figures["method"], figures["seconds"], None, rest))
    return kept


def row_of(
    task: Measurement, method: str, seconds: float | None, failed: str | None, figures: dict[str, Any] | None = None
) -> Row:
    """A row of a task."""
    return {"id": task.id, "method": method, "failed": failed, "seconds": seconds, "figures": figures or {}}
