"""The times of a prediction, from `--until` and `--times`."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np

from odediscovery.data.series import TimeSeries
from odediscovery.errors import InputError
from odediscovery.runtime.arrays import Array

# More rows than this are more likely a slip in --until than a wish.
MAX_ROWS = 100_000


def asked_times(series: TimeSeries, until: float | None, file: Path | None) -> Array:
    """The times to predict: of a file, up to `until` at the data's pace, or the data's own."""
    own = series.trajectories[0].time
    if file is not None:
        return np.array(_read_times(file, series.time_name))
    if until is None:
        return own
    if not own[0] < until < math.inf:
        raise InputError(f"--until must be later than the data's start {own[0]:g}, got {until:g}")
    count = math.ceil((until - own[0]) / float(np.median(np.diff(own)))) + 1
    if count > MAX_ROWS:
        raise InputError(
            f"--until {until:g} would give {count} rows, at most {MAX_ROWS}: give the times you want with --times"
        )
    return np.linspace(own[0], until, count)


def _read_times(path: Path, name: str) -> list[float]:
    """The column called `name`, else the first column, with or without a header."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = [row for row in csv.reader(file) if any(cell.strip() for cell in row)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"--times {path}: cannot be read ({reason})") from error
    column = next((k for k, cell in enumerate(rows[0]) if cell.strip() == name), 0) if rows else 0
    times = []
    for number, row in enumerate(rows, start=1):
        try:
            times.append(float(row[column]))
        except (ValueError, IndexError):
            if number > 1:
                raise InputError(f"--times {path}: row {number} holds no number") from None
    if not times:
        raise InputError(f"--times {path}: no times in it")
    return times
