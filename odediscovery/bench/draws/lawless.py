"""How often is a law claimed where there is none?

    white noise  x_k = 5 + e_k          random walk  x_k = x_{k-1} + e_k,    e_k ~ N(0, 1)

One state, 60 samples. A draw counts against us if its fit ends as `converged`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from odediscovery.bench.draws.draw import Draws, draw_table
from odediscovery.bench.rows import Row
from odediscovery.bench.summary import hits_of, median_seconds, table
from odediscovery.data.series import TimeSeries
from odediscovery.errors import unknown_name
from odediscovery.result.discovery import Discovery

KINDS = ("white-noise", "random-walk")
SAMPLES, LEVEL = 60, 5.0


@dataclass(frozen=True, kw_only=True)
class Lawless(Draws):
    """Draws of what no differential equation explains.

    Args:
        kind: `white-noise` or `random-walk`.
    """

    measure: ClassVar[str] = "lawless"
    own: ClassVar[tuple[str, ...]] = ("claimed", "r2", "messages")

    kind: str = KINDS[0]

    def checked(self) -> Lawless:
        if self.kind not in KINDS:
            raise unknown_name("kind", self.kind, KINDS)
        return super().checked()

    def data(self, draw: int) -> TimeSeries:
        noise = np.random.default_rng(draw).standard_normal((SAMPLES, 1))
        x = np.cumsum(noise, axis=0) if self.kind == "random-walk" else LEVEL + noise
        return TimeSeries.from_arrays(np.arange(float(SAMPLES)), x, ["x"])

    def describe(self, found: Discovery, series: TimeSeries) -> Row:
        return {"claimed": found.outcome == "converged", "r2": found.r2, "messages": list(found.messages)}

    def in_a_word(self, row: Row) -> str:
        return "claimed" if row["claimed"] else row["outcome"]

    def markdown(self, rows: Sequence[Row]) -> str:
        line = (self.kind, hits_of(rows, "claimed"), median_seconds(rows))
        counted = table(("kind", "claimed as converged", "median s"), [line])
        each = draw_table(
            ("draw", "outcome", "R²", "equations"), rows, lambda row: (row["outcome"], f"{row['r2']:.3f}")
        )
        return f"# {self.measure}\n\n{counted}\n\n{each}\n"
