"""Input of commands: the series of a table, the times of a prediction, controls and laws."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from odediscovery.command.flags import Columns, assignments, names_in
from odediscovery.data.dates import date_of_time, time_of_date
from odediscovery.data.series import TimeSeries, load_with_controls, read_controls, read_doses, series_text
from odediscovery.data.signals import MOMENT, Signal
from odediscovery.data.table import NUMBER
from odediscovery.errors import InputError
from odediscovery.many.run import Table, opened_table
from odediscovery.problem.problem import columns_of_groups, dose_columns
from odediscovery.result.discovery import Discovery
from odediscovery.result.folder import read_document
from odediscovery.runtime.arrays import Array
from odediscovery.runtime.files import check_file
from odediscovery.settings import Settings


def asked_times(series: TimeSeries, last: str | None, file: Path | None) -> Array:
    """The times of a prediction: from a file, up to `last` with the data's step, or those of the data."""
    own = series.trajectories[0].time
    if file is not None:
        return np.array(_read_times(file, series))
    if last is None:
        return own
    until = _read_time(last, series)
    if until is None:
        expected = f"a number or a date such as {series.since}" if series.since else "a number"
        raise InputError(f"--until expects {expected}, got {last!r}")
    if not own[0] < until < math.inf:
        raise InputError(f"--until must be later than the data's start {own[0]:g}, got {until:g}")
    # Ignore the added times at the end of doses in computing the step.
    gaps = np.diff(own)
    count = math.ceil((until - own[0]) / float(np.median(gaps[gaps > 10.0 * MOMENT * gaps.max()]))) + 1
    if count > 100_000:  # probably an error
        raise InputError(
            f"--until {until:g} would give {count} rows, at most 100000: give the times you want with --times"
        )
    return np.linspace(own[0], until, count)


def _read_time(text: str, series: TimeSeries) -> float | None:
    """Parse a time: a number, or a date if the series counts from one; None for other text."""
    if (number := _number(text)) is not None or not series.since:
        return number
    return time_of_date(text, series.since, series.units[series.time_name])


def written_times(series: TimeSeries, times: Array, last: str | None, file: Path | None) -> list[str]:
    """Write the times as dates if they were requested by dates, else as numbers."""
    asked = [] if last is None else [last]
    asked += [] if file is None else [row[0] for row in _rows(file)[1:]]
    if not series.since or all(_number(text) is not None for text in asked):
        return [repr(time) for time in times.tolist()]
    return [date_of_time(time, series.since, series.units[series.time_name]) for time in times.tolist()]


def _number(text: str) -> float | None:
    return float(text) if NUMBER.fullmatch(text.strip()) else None


def _rows(path: Path) -> list[list[str]]:
    """Read the non-empty rows of a file of times."""
    check_file(path, "--times")
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return [row for row in csv.reader(file) if any(cell.strip() for cell in row)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"--times {path}: cannot be read ({getattr(error, 'strerror', None) or error})") from error


def _read_times(path: Path, series: TimeSeries) -> list[float]:
    """Read the column with the name of the time, else the first column, with or without a header."""
    rows = _rows(path)
    column = next((k for k, cell in enumerate(rows[0]) if cell.strip() == series.time_name), 0) if rows else 0
    times = []
    for number, row in enumerate(rows, start=1):
        time = _read_time(row[column], series) if column < len(row) else None
        if time is not None:
            times.append(time)
        elif number > 1:
            raise InputError(f"--times {path}: row {number} holds no number{' and no date' * bool(series.since)}")
    if not times:
        raise InputError(f"--times {path}: no times in it")
    return times


def what_acts(found: Discovery, inputs: Path | None, doses: Path | None) -> Signal | None:
    """Read the controls of a prediction; None for those of the data."""
    if inputs is not None and doses is not None:
        raise InputError("--inputs and --doses cannot be given together; --doses takes the other inputs too")
    if doses is not None:
        own = dose_columns(found.settings)
        return read_doses(doses, found.series, own, columns_of_groups(found.settings))
    return None if inputs is None else read_controls(inputs, found.series)


def measured_series(data: Path, columns: Columns, settings: Settings | None = None) -> TimeSeries:
    """Read the series in a table, with its controls and known standard deviations."""
    noise, settings = columns.noise_level, settings or Settings()
    return load_with_controls(
        data,
        names_in(columns.inputs, "--inputs") or [],
        [*(names_in(columns.held_inputs, "--held-inputs") or []), *columns_of_groups(settings)],
        time=columns.time,
        states=names_in(columns.states, "--states"),
        group=columns.group,
        sigma=columns.sigma_columns,
        noise=assignments(noise.split(",") if noise else [], "--noise-level"),
        units=columns.units,
        columns=columns.column or (),
        impulses=dose_columns(settings),
    )


def each_table(data: Path, columns: Columns, folder: Path) -> Table:
    """Read a table of many series with separate laws, and prepare the folder of the results."""
    group, states = columns.group, names_in(columns.states, "--states")
    if group is None or "," in group:
        raise InputError("--each fits every group: name their column, --group well")
    if states is not None and len(states) > 1:
        raise InputError(f"--each fits one state, got {', '.join(states)}; --vary fits several")
    return opened_table(data, group, folder, time=columns.time, state=states[0] if states else None)


def check_same_table(folder: Path, source: Mapping[str, str], series: TimeSeries) -> None:
    """Check that a result under the default name, if any, is one of the same table."""
    if not (folder / "result.json").exists():
        return
    before = read_document(folder / "result.json").get("source")
    if isinstance(before, dict) and before.get("path") == source["path"]:
        return
    try:
        if series_text(Discovery.load(folder).series) == series_text(series):
            return
    except InputError:
        pass
    raise InputError(
        f"{folder} holds the result of another table; name a folder with --out (--out {folder} replaces that result)"
    )


def law_text(path: Path) -> str:
    """Read the text of a law."""
    check_file(path, "--law")
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "no text in UTF-8"
        raise InputError(f"--law {path}: cannot be read ({reason})") from None
