"""Dates and durations as times: numbers in a unit that suits their spacing.

    t = (date - first date) / unit,  unit the longest of days, hours, ... that is at most the
    median step

So an hourly series counts hours and a daily one days.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from odediscovery.errors import InputError
from odediscovery.runtime.arrays import Array
from odediscovery.runtime.texts import shortened

# Units of time by name, in seconds, from long to short. Months and years differ in length.
UNITS = {"days": 86400.0, "hours": 3600.0, "minutes": 60.0, "seconds": 1.0, "milliseconds": 1e-3, "microseconds": 1e-6}

# A duration as written by pandas or Python: "1 days 06:00:00.5", "1 day, 6:00:00".
DURATION = re.compile(r"(-?\d+) days?,?(?: ([+-]?)(\d{1,2}):(\d{2}):(\d{2}(?:\.\d+)?))?", re.ASCII)
# A clock as loggers write it: "13:05:00", "13:05:00.5".
CLOCK = re.compile(r"(\d{1,6}):([0-5]\d):([0-5]\d(?:[.,]\d+)?)", re.ASCII)
# An ISO date, and a date in another format.
DATE = re.compile(
    r"\d{4}-\d{2}(?P<day>-\d{2}(?P<time>[T ]\d{2}:\d{2}(:\d{2}([.,]\d+)?)?(?P<zone>Z|[+-]\d{2}:?\d{2})?)?)?", re.ASCII
)
OTHER_DATE = re.compile(r"\d{1,4}([-/.])\d{1,2}\1\d{1,4}([T ].*)?", re.ASCII)


class Clock(NamedTuple):
    """Unit in which dates or durations are counted, the first date, "" for durations, and how often a clock wraps."""

    unit: str
    since: str
    midnights: int = 0

    def sentence(self, what: str) -> str:
        """Message for the reader of the data; `what` names the column or the index."""
        if not self.since:
            times = f"{self.midnights} time{'s'[: self.midnights != 1]}"
            wraps = f"; the clock passes midnight {times}" if self.midnights else ""
            return f"{what} holds durations: time is counted in {self.unit}{wraps}."
        return f"{what} holds dates: time is counted in {self.unit} since {self.since}."


def unit_of_steps(seconds: Any) -> str:
    """Choose the unit of time for samples at these seconds [n], nan where unknown."""
    steps = np.abs(np.diff(np.asarray(seconds, float)))
    steps = steps[steps > 0]
    if not steps.size:
        return "days"
    # Rounding may have made a step slightly shorter than its unit.
    step = float(np.median(steps)) * (1.0 + 1e-9)
    return next((name for name, length in UNITS.items() if length <= step), "microseconds")


def first_day(text: str) -> str:
    """Complete a month to its first day; leave dates unchanged."""
    return f"{text}-01" if len(text) == len("2024-05") else text


def time_of_date(text: str, since: str, unit: str) -> float | None:
    """Count the units from one date to another; None for other text."""
    try:
        span = datetime.fromisoformat(first_day(text.strip())) - datetime.fromisoformat(since)
        return span / timedelta(**{unit: 1})
    except (ValueError, TypeError):
        return None


def date_of_time(value: float, since: str, unit: str) -> str:
    """The date of a time to the millisecond, without hours at midnight.

    >>> date_of_time(2.0, "2024-05-01", "days"), date_of_time(1.5, "2024-05-01 12:00", "hours")
    ('2024-05-03', '2024-05-01 13:30:00')
    """
    try:
        when = datetime.fromisoformat(since) + timedelta(seconds=round(value * UNITS[unit], 3))
    except (OverflowError, ValueError):
        return f"{value:g}"
    midnight = (when.hour, when.minute, when.second, when.microsecond, when.tzinfo) == (0, 0, 0, 0, None)
    return when.date().isoformat() if midnight else when.isoformat(" ")


def duration_seconds(cell: str) -> float | None:
    """The seconds of a duration as written by pandas, or of a clock; None for other text.

    >>> duration_seconds("1 days 06:00:00.5"), duration_seconds("30:00:00.5"), duration_seconds("1 d")
    (108000.5, 108000.5, None)
    """
    if written := CLOCK.fullmatch(cell):
        hours, minutes, seconds = (float(part.replace(",", ".")) for part in written.groups())
        return hours * UNITS["hours"] + minutes * UNITS["minutes"] + seconds
    found = DURATION.fullmatch(cell)
    if not found:
        return None
    days, sign, *clock = found.groups()
    hours, minutes, seconds = (float(part or 0) for part in clock)
    within = hours * UNITS["hours"] + minutes * UNITS["minutes"] + seconds
    return int(days) * UNITS["days"] + (-within if sign == "-" else within)


def as_moments(times: Any) -> pd.DatetimeIndex | pd.TimedeltaIndex | None:
    """Convert dates or durations to a pandas index; None for anything else."""
    try:
        index = pd.Index(times)
        if index.inferred_type == "date":
            index = pd.to_datetime(index)
    except (TypeError, ValueError, RuntimeError):  # no list of single cells, or a tensor with gradients
        return None
    if isinstance(index, pd.PeriodIndex):
        return index.to_timestamp()
    return index if isinstance(index, (pd.DatetimeIndex, pd.TimedeltaIndex)) else None


def counted_times(times: Sequence[Any], unit: str | None = None) -> tuple[list[Any], Clock | None]:
    """Convert dates and durations of all trajectories to times [n] and their clock; keep numbers unchanged."""
    moments = [as_moments(time) for time in times]
    blocks = [block for block in moments if block is not None]
    if not blocks:
        return list(times), None
    if len(blocks) < len(moments):
        raise InputError("times: expected dates in all trajectories or in none; convert them")
    if len({(type(block), getattr(block, "tz", None) is None) for block in blocks}) != 1:
        raise InputError("times: expected dates, or durations, alike in all trajectories; convert them")
    dated = isinstance(blocks[0], pd.DatetimeIndex)
    zero = min(block.min() for block in blocks) if dated else pd.Timedelta(0)
    spans = [block - zero for block in blocks]
    if unit is None:
        seconds = [np.asarray(span / pd.Timedelta(seconds=1), float) for span in spans]
        unit = unit_of_steps(np.concatenate([np.append(one, np.nan) for one in seconds]))
    length = pd.Timedelta(**{unit: 1})
    values = [np.asarray(span / length, float) for span in spans]
    if not dated:
        return values, Clock(unit, "")
    # Drop the hours if all dates are midnights.
    midnights = zero.tz is None and all((block.dropna() == block.dropna().normalize()).all() for block in blocks)
    return values, Clock(unit, str(zero.date().isoformat() if midnights else zero.isoformat(" ")))


def times_in(
    name: str, cells: pd.Series, lines: Sequence[int], runs: Sequence[Sequence[int]]
) -> tuple[Array, Clock] | None:
    """Convert the dates or durations in a column to times [lines], nan without a cell; None for other columns.

    A clock passes midnight within the rows of one of the `runs`, not from one to the next.
    """
    start = str(cells.iloc[0])
    if DATE.fullmatch(start):
        dates = _dates_in(name, cells)
        first = min(dates, key=dates.__getitem__)
        spans = {line: date - dates[first] for line, date in dates.items()}
        unit = unit_of_steps([span.total_seconds() for span in spans.values()])
        counted = {line: span / timedelta(**{unit: 1}) for line, span in spans.items()}
        return np.array([counted.get(line, np.nan) for line in lines]), Clock(unit, first_day(str(cells[first])))
    if duration_seconds(start) is not None:
        found = {line: duration_seconds(cell) for line, cell in cells.items()}
        if wrong := [line for line, seconds in found.items() if seconds is None]:
            raise InputError(
                f"line {wrong[0]}, column {name!r}: expected a duration such as 06:00:00 or 0 days 06:00:00, got "
                f"{shortened(cells[wrong[0]])}; write all times alike"
            )
        seconds = np.array([found.get(line, np.nan) for line in lines], float)
        midnights = 0
        if all(CLOCK.fullmatch(cell) for cell in cells) and np.nanmax(seconds) < UNITS["days"]:
            for rows in runs:
                seconds[rows], passed = _past_midnight(seconds[rows])
                midnights += passed
        unit = unit_of_steps(seconds)
        return seconds / UNITS[unit], Clock(unit, "", midnights)
    if OTHER_DATE.fullmatch(start):
        raise InputError(
            f"line {cells.index[0]}, column {name!r}: expected numbers or ISO dates for the time, got "
            f"{shortened(start)}; write dates as 2020-03-01 or 2020-03-01 12:00"
        )
    return None


def _past_midnight(seconds: Array) -> tuple[Array, int]:
    """Add a day wherever a clock falls from at most one and a half usual steps before midnight to as soon after it.

    >>> _past_midnight(np.array([86340.0, 86370.0, 0.0, 30.0]))[0].tolist()
    [86340.0, 86370.0, 86400.0, 86430.0]
    """
    day, steps = UNITS["days"], np.diff(seconds)
    near = 1.5 * float(np.median(steps[steps > 0.0])) if (steps > 0.0).any() else 0.0
    falls = (steps < 0.0) & (seconds[:-1] >= day - near) & (seconds[1:] <= near)
    return seconds + day * np.append(0, np.cumsum(falls)), int(falls.sum())


def kind_of_time(cell: str) -> str:
    """What a cell is: "date", "clock" (13:05:00), "duration", or "" for anything else."""
    kinds = {"date": DATE, "clock": CLOCK, "duration": DURATION}
    return next((kind for kind, form in kinds.items() if form.fullmatch(cell)), "")


def _dates_in(name: str, cells: pd.Series) -> dict[int, datetime]:
    """The dates in a column by line, all of the same kind as the first."""
    found, first = {}, cells.index[0]
    for line, cell in cells.items():
        where = f"line {line}, column {name!r}"
        try:
            # The standard library alone would accept "2020-W10-7" and any character before the hours.
            found[line] = datetime.fromisoformat(first_day(cell) if DATE.fullmatch(cell) else "")
        except ValueError:
            raise InputError(
                f"{where}: expected an ISO date such as 2020-03-01 or 2020-03-01 12:00, got "
                f"{shortened(cell)}; correct it"
            ) from None
        kind, expected = _kind_of_date(cell), _kind_of_date(cells[first])
        if kind != expected:
            raise InputError(
                f"{where}: expected {expected} as in line {first}, got {kind}, {shortened(cell)}; write all times alike"
            )
    return found


def _kind_of_date(cell: str) -> str:
    found = DATE.fullmatch(cell)
    day, hours, zone = found.group("day", "time", "zone") if found else ("", None, None)
    return "a month" if day is None else "a date" + " and time" * bool(hours) + " with a time zone" * bool(zone)
