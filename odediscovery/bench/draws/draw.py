"""How often is a fit right, or honest, when the noise is drawn again and again?

A measurement is a `Draws`: it makes the data of a draw and describes what was found in them. The
rows, one for each draw, are made here, in processes side by side; each is kept as soon as it is known.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar, TypeVar

from odediscovery.bench.rows import Row, Rows, processor_seconds, reason_of
from odediscovery.bench.summary import in_short, table
from odediscovery.data.series import TimeSeries
from odediscovery.discovery.discover import discover
from odediscovery.errors import InputError
from odediscovery.result.discovery import Discovery
from odediscovery.runtime.monitor import Monitor
from odediscovery.runtime.workers import IN_TURN, Backend
from odediscovery.settings import Settings, settings_for

# Digits of the constants in a table.
DIGITS = 3
# The columns that all measurements share.
COMMON = ("id", "method", "failed", "outcome", "seconds", "equations")

Self = TypeVar("Self", bound="Draws")


@dataclass(frozen=True, kw_only=True)
class Draws(ABC):
    """What one folder of draws is about.

    Args:
        seed: number of the first draw; the others follow.
        max_seconds: limit of a fit, in seconds of the processor.
    """

    measure: ClassVar[str]
    own: ClassVar[tuple[str, ...]]

    seed: int = 0
    max_seconds: float = 180.0

    @abstractmethod
    def data(self, draw: int) -> TimeSeries:
        """The measured series of one draw."""

    @abstractmethod
    def describe(self, found: Discovery, series: TimeSeries) -> Row:
        """What was found, as the columns named in `own`."""

    @abstractmethod
    def markdown(self, rows: Sequence[Row]) -> str:
        """Tables of all rows."""

    def settings(self, draw: int) -> Settings:
        """The options of the fit of one draw."""
        return settings_for(seed=draw, max_seconds=self.max_seconds)

    def in_a_word(self, row: Row) -> str:
        """The word for a finished draw."""
        return "hit" if row["hit"] else "miss"

    def checked(self: Self) -> Self:
        """These draws, or an `InputError` that names the option that is out of range."""
        settings_for(seed=self.seed, max_seconds=self.max_seconds)
        return self

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a row."""
        return (*COMMON, *self.own)

    def blank(self, draw: int) -> Row:
        """The row of a draw with no equations."""
        return dict.fromkeys(self.columns) | {"id": str(draw), "method": "ours"}


def run_draws(
    about: Draws,
    count: int,
    folder: Path,
    *,
    backend: Backend = IN_TURN,
    monitor: Monitor | None = None,
    say: Callable[[str], None] = print,
) -> list[Row]:
    """Fit the draws that are not yet in `folder`; the rows of all.

    Args:
        count: how many draws.
        folder: to begin, or to go on with.
        backend: where the draws are fitted.
        monitor: hears the progress and can stop the work; finished rows stay.
        say: hears one line for each draw.

    Raises:
        InputError: an option is out of range, or the folder holds something else.
        FitError: nobody can run the fits.
    """
    if count < 1:
        raise InputError(f"--draws must be at least 1, got {count}")
    study = {"measure": about.measure, **asdict(about.checked())}
    rows = Rows.claim(folder, study, about.columns)
    wanted = range(about.seed, about.seed + count)
    rows.run(
        about.measure,
        fitted,
        [(about, draw) for draw in wanted if not rows.has(str(draw), "ours")],
        blank=lambda task: about.blank(task[1]),
        in_words=lambda row: (
            f"draw {row['id']}: " + (row["failed"] or f"{about.in_a_word(row)}, {row['seconds']:.1f} s")
        ),
        limit=about.max_seconds,
        backend=backend,
        monitor=monitor,
        say=say,
    )
    return sorted((row for row in rows.all if int(row["id"]) in wanted), key=lambda r: int(r["id"]))


def draw_table(header: Sequence[str], rows: Sequence[Row], described: Callable[[Row], Sequence[str]]) -> str:
    """A line for each draw: its number, the cells of `described`, and the equations or why there are none."""
    lines = []
    for row in rows:
        cells = ("failed", *["-"] * (len(header) - 3), row["failed"])
        if not row["failed"]:
            cells = (*described(row), in_short(row["equations"], DIGITS))
        lines.append((row["id"], *cells))
    return table(header, lines)


def fitted(task: tuple[Draws, int]) -> Row:
    """The row of one draw: what was found, or the reason why there are no equations."""
    about, draw = task
    row, began = about.blank(draw), time.process_time()
    try:
        series = about.data(draw)
        began = time.process_time()
        found = discover(series, about.settings(draw))
        seconds = processor_seconds(began)
        return (
            row
            | about.describe(found, series)
            | {"outcome": found.outcome, "seconds": seconds, "equations": found.equations.texts()}
        )
    except Exception as error:
        return row | {"failed": reason_of(error), "seconds": processor_seconds(began)}
