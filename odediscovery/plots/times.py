"""The axis of times: its label with the unit, and ticks at dates where the times were dates."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import numpy as np
from matplotlib import dates, rcParams
from matplotlib.axes import Axes
from matplotlib.ticker import Formatter, Locator, MaxNLocator

from odediscovery.data.dates import UNITS
from odediscovery.data.series import TimeSeries
from odediscovery.plots.theme import TICKS

# Its functions have no types.
_DATES: Any = dates
DAY = UNITS["days"]


class DateLocator(Locator):
    """Ticks at round dates for times that count units from a date.

    Args:
        since: the date, as matplotlib counts dates.
        unit: in days.
    """

    def __init__(self, since: float, unit: float) -> None:
        self.since, self.unit = since, unit
        self.dates: Any = _DATES.AutoDateLocator(minticks=TICKS.few, maxticks=TICKS.some)

    def __call__(self) -> Any:
        return self.tick_values(*self.axis.get_view_interval())  # type: ignore[union-attr]

    def tick_values(self, vmin: float, vmax: float) -> Any:
        """The ticks between two times."""
        ends = [_DATES.num2date(self.since + self.unit * float(t)) for t in sorted((vmin, vmax))]
        return (np.array(self.dates.tick_values(*ends), dtype=np.float64) - self.since) / self.unit


class DateFormatter(Formatter):
    """Dates as short as their ticks allow, for the same times."""

    def __init__(self, locator: DateLocator) -> None:
        self._locator = locator
        self._dates: Any = _DATES.ConciseDateFormatter(locator.dates)

    def __call__(self, x: float, pos: int | None = None) -> str:
        return str(_DATES.num2date(self._locator.since + self._locator.unit * x).date())

    def format_ticks(self, values: Sequence[float]) -> list[str]:
        """The texts of all ticks, which say together what none says alone."""
        return list(self._dates.format_ticks([self._locator.since + self._locator.unit * v for v in values]))

    def get_offset(self) -> str:
        """What all ticks have in common, such as the year."""
        return str(self._dates.get_offset())


def literal(name: str) -> str:
    """A column name as it is: without this a pair of `$` would be read as mathematics."""
    return name.replace("$", r"\$") if rcParams["text.parse_math"] else name


def set_times(axes: Axes, series: TimeSeries) -> None:
    """Label the horizontal axis as the time of a series, with dates as ticks where it has any."""
    name, unit = series.time_name, series.units.get(series.time_name, "")
    # No steps of 2.5: 1902.5 would be too long a label.
    axes.xaxis.set_major_locator(MaxNLocator(TICKS.some, steps=[1, 2, 4, 5, 10]))
    if not series.since or unit not in UNITS:
        axes.set_xlabel(literal(f"{name} [{unit}]" if unit else name))
        return
    try:
        since = float(_DATES.date2num(datetime.fromisoformat(series.since)))
        ticks = DateLocator(since, UNITS[unit] / DAY)
        ticks.tick_values(*axes.get_xlim())
    except (ValueError, OverflowError):
        axes.set_xlabel(literal(f"{name} [{unit}]"))
        return
    axes.xaxis.set_major_locator(ticks)
    axes.xaxis.set_major_formatter(DateFormatter(ticks))
    axes.set_xlabel(literal(name))
