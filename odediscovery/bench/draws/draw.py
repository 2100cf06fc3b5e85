"""How often is a fit right, or honest, when the noise is drawn again and again?

A measurement is a `Draws`: it makes the data of a draw and describes what was found in them. The rows,
one for each draw, are those of its `Study`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import ClassVar, TypeVar

from odediscovery.bench.rows import Row, Study, Task, timed
from odediscovery.bench.summary import Cell, grouped, middle, printed, table
from odediscovery.data.series import TimeSeries
from odediscovery.discovery.discover import discover
from odediscovery.errors import InputError
from odediscovery.result.discovery import Discovery
from odediscovery.settings import Settings, settings_for

# Digits of the constants in a table.
DIGITS = 3
YES_NO = {True: "yes", False: "no"}
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
    # The columns that `describe` fills, and those of the table of all draws together.
    own: ClassVar[tuple[str, ...]]
    counted: ClassVar[Mapping[str, Cell]]

    seed: int = 0
    max_seconds: float = 180.0

    @abstractmethod
    def data(self, draw: int) -> TimeSeries:
        """The measured series of one draw."""

    @abstractmethod
    def describe(self, found: Discovery, series: TimeSeries) -> Row:
        """What was found, as the columns named in `own`."""

    def told(self, row: Row) -> dict[str, str]:
        """What the table of single draws says of one that has equations, by the titles of its columns."""
        return {}

    def markdown(self, rows: Sequence[Row]) -> str:
        """A table of all draws together, then one with a line for each."""
        options = {name: value for name, value in asdict(self).items() if name not in ("seed", "max_seconds")}
        about = tuple(v if isinstance(v, str) else f"{v:g}" for v in options.values())
        counted = grouped(tuple(options), {about: rows}, {**self.counted, "median s": middle("seconds")})
        return f"# {self.measure}\n\n{counted}\n\n{draw_table(rows, self.told)}\n"

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

    def known(self, _draw: int) -> Row:
        """What the row of a draw says even where there are no equations."""
        return {}

    def study(self, count: int) -> Study:
        """The first draws from the seed on.

        Args:
            count: how many.

        Raises:
            InputError: an option is out of range.
        """
        if count < 1:
            raise InputError(f"--draws must be at least 1, got {count}")
        shared = {"measure": self.measure, **asdict(self.checked())}
        tasks = [Draw(str(k), "ours", self, k) for k in range(self.seed, self.seed + count)]
        return Study(self.measure, shared, (*COMMON, *self.own), tasks, self.max_seconds, self.in_a_word)


@dataclass(frozen=True)
class Draw(Task):
    """One of the draws of a measurement."""

    about: Draws
    draw: int

    def known(self) -> Row:
        return self.about.known(self.draw)

    def fill(self, row: Row) -> None:
        series = self.about.data(self.draw)
        with timed(row):
            found = discover(series, self.about.settings(self.draw))
        row |= self.about.describe(found, series)
        row |= {"outcome": found.outcome, "equations": found.equations.texts()}


def draw_table(rows: Sequence[Row], told: Callable[[Row], Mapping[str, str]]) -> str:
    """A line for each draw: its number, what is told of it, and the equations or why there are none."""
    cells = {row["id"]: told(row) for row in rows if not row["failed"]}
    titles = next((list(own) for own in cells.values()), [])
    blank = dict.fromkeys(titles, "-")
    lines = [(row["id"], *cells.get(row["id"], blank).values(), printed(row, DIGITS)) for row in rows]
    return table(("draw", *titles, "equations"), lines)
