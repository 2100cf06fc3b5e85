"""Measured time series: the one door through which data come in.

A `TimeSeries` holds trajectories: values of some states at strictly increasing times, nan where
nothing was measured. It is made by `load_csv`, `TimeSeries.from_frame` or
`TimeSeries.from_arrays`, which check everything once; the rest of the package trusts it. Tables,
from a file or a frame, are text turned into numbers cell by cell, so that every complaint can
name the line and the column.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from odediscovery.errors import InputError
from odediscovery.files import write_whole
from odediscovery.sheets import frame_table, read_table
from odediscovery.table import Table, clean_name

Array = NDArray[np.float64]

# Fewer values than this of a state determine no law, not even a straight line with a check.
LEAST_VALUES = 4


@dataclass(frozen=True, eq=False)
class Trajectory:
    """One run of an experiment.

    Args:
        time: sample times [n], strictly increasing.
        values: states at these times [n, states], nan where missing.
        label: what tells it from the others, empty if there are no others.
    """

    time: Array
    values: Array
    label: str = ""


@dataclass(frozen=True, eq=False)
class TimeSeries:
    """Trajectories of the same states.

    Args:
        states: names of the states, as the user wrote them.
        trajectories: one or more.
        time_name: name of the time.
        units: unit of a state or of the time, by name, where known.
        messages: what the reader of the data should know, one sentence each.
    """

    states: tuple[str, ...]
    trajectories: tuple[Trajectory, ...]
    time_name: str = "t"
    units: Mapping[str, str] = field(default_factory=dict)
    messages: tuple[str, ...] = ()

    @property
    def n_states(self) -> int:
        """Number of states."""
        return len(self.states)

    @property
    def n_samples(self) -> int:
        """Number of sample times, over all trajectories."""
        return sum(len(trajectory.time) for trajectory in self.trajectories)

    @classmethod
    def from_arrays(
        cls, time: ArrayLike | list[ArrayLike], values: ArrayLike | list[ArrayLike],
        states: Sequence[str] | None = None, *, labels: Sequence[str] | None = None,
        time_name: str = "t", units: Mapping[str, str] | None = None,
    ) -> TimeSeries:  # fmt: skip
        """A checked series from arrays.

        Args:
            time: [n], or a list of such arrays, one a trajectory.
            values: [n, states] or [n] (one state), nan where missing, or a list of such arrays.
            states: names; by default x0, x1, ...
            labels: one a trajectory; by default 1, 2, ... when there are several.
            time_name: name of the time.
            units: unit of a state or of the time, by name.

        Raises:
            InputError: shapes that do not fit, bad names, times that do not increase, infinite
                values, or fewer samples than can be fitted.

        >>> series = TimeSeries.from_arrays([0, 1, 2, 3], [1.0, 0.5, 0.25, 0.125], ["mass"])
        >>> series.states, series.n_samples
        (('mass',), 4)
        """
        several = isinstance(time, (list, tuple)) and len(time) > 0 and np.ndim(time[0]) > 0
        times: list[Any] = list(time) if several else [time]  # type: ignore[arg-type]
        blocks: list[Any] = list(values) if several else [values]  # type: ignore[arg-type]
        if len(times) != len(blocks):
            raise InputError(
                f"{len(times)} arrays of times, but {len(blocks)} of values: give one of each "
                "for every trajectory"
            )
        if labels is None:
            labels = [str(k + 1) for k in range(len(times))] if several else [""]
        if len(labels) != len(times) or len(set(labels)) != len(labels):
            raise InputError(f"give {len(times)} distinct labels, one a trajectory")
        pairs = [_float_arrays(t, v) for t, v in zip(times, blocks, strict=True)]
        width = pairs[0][1].shape[1]
        if any(v.shape[1] != width for _, v in pairs):
            raise InputError("every trajectory needs the same number of states")
        names = [f"x{k}" for k in range(width)] if states is None else list(states)
        _check_names([time_name, *names], width + 1)
        trajectories = []
        for (t, v), label in zip(pairs, labels, strict=True):
            rows = [f"sample {k}" for k in range(len(t))]
            for k, i in np.argwhere(np.isinf(v)):
                raise InputError(
                    f"{rows[k]}, state {names[i]!r}: infinite value; use nan if missing"
                )
            trajectories.append(_trajectory(t, v, label, rows, time_name))
        _check_enough(trajectories, names)
        return cls(tuple(names), tuple(trajectories), time_name, dict(units or {}))

    @classmethod
    def from_frame(
        cls, frame: pd.DataFrame, time: str | None = None, states: Sequence[str] | None = None,
        group: str | Sequence[str] | None = None,
    ) -> TimeSeries:  # fmt: skip
        """A checked series from a pandas DataFrame, by the rules of `load_csv`.

        Args:
            frame: a column of times (numbers or dates) and columns of states; a named index
                counts as a column in front. None, NaN, NA and NaT are missing values.
            time: column of the times; by default the one called t or time, else the first.
            states: columns of the states; by default all other columns of numbers.
            group: column, or several, whose values tell the trajectories apart.

        Raises:
            InputError: the frame or a name is wrong; the message names the line (the header is
                line 1, the first row line 2) and the column.

        >>> frame = pd.DataFrame({"t": [0, 1, 2, 3], "mass": [1.0, 0.5, 0.25, 0.125]})
        >>> TimeSeries.from_frame(frame).states
        ('mass',)
        """
        return _series_of(frame_table(frame, "the frame"), "the frame", time, states, group)

    def to_frame(self) -> pd.DataFrame:
        """The series as one table: (group column,) time, states; one line a sample."""
        group = group_column(self)
        labels = [trajectory.label for trajectory in self.trajectories]
        if not all(labels) or len(set(labels)) < len(labels):
            labels = [str(k + 1) for k in range(len(labels))]
        blocks = []
        for trajectory, label in zip(self.trajectories, labels, strict=True):
            block = pd.DataFrame(trajectory.values, columns=list(self.states))
            block.insert(0, self.time_name, trajectory.time)
            if group is not None:
                block.insert(0, group, label)
            blocks.append(block)
        return pd.concat(blocks, ignore_index=True)


@dataclass(frozen=True, eq=False)
class Scale:
    """Units in which every state and the sample interval are about 1.

    x' = x / state,  t' = t / time.

    Args:
        state: one positive number a state [states], in its unit.
        time: in the unit of the time.

    >>> series = TimeSeries.from_arrays([0, 2, 4, 6], [3.0, 3.0, 3.0, 3.0])
    >>> scale = Scale.of(series)
    >>> scale.state.tolist(), scale.time
    ([3.0], 2.0)
    """

    state: Array
    time: float

    @classmethod
    def of(cls, series: TimeSeries) -> Scale:
        """Root mean square of the observed values of each state (1 if all are zero), and the
        median sample interval."""
        values = np.concatenate([t.values for t in series.trajectories])
        # Divided by the largest first: squares of very large or small numbers leave the range.
        largest = np.nanmax(np.abs(values), axis=0)
        largest = np.where(largest > 0, largest, 1.0)
        rms = largest * np.sqrt(np.nanmean((values / largest) ** 2, axis=0))
        steps = np.concatenate([np.diff(t.time) for t in series.trajectories])
        return cls(np.where(rms > 0, rms, 1.0), float(np.median(steps)))

    def apply(self, series: TimeSeries) -> TimeSeries:
        """The dimensionless series."""
        trajectories = tuple(
            Trajectory(t.time / self.time, t.values / self.state, t.label)
            for t in series.trajectories
        )
        return TimeSeries(series.states, trajectories, series.time_name, {}, series.messages)


def load_csv(
    path: str | os.PathLike[str], time: str | None = None, states: Sequence[str] | None = None,
    group: str | Sequence[str] | None = None,
) -> TimeSeries:  # fmt: skip
    """Read a table of measurements: a header with column names, then one line a sample.

    Args:
        path: text in UTF-8, columns parted by comma, semicolon or tab (with the last two,
            numbers may have a decimal comma), or by its ending the first sheet of a .xlsx or
            .xls file, or a .parquet file. Empty cells, NA, NaN, null and none are missing values.
        time: column of the times, numbers or ISO dates (2020-03-01, 2020-03-01 12:00), which
            become days since the first; by default the one called t or time, else the first.
        states: columns of the states; by default all other columns of numbers.
        group: column, or several, whose values tell the trajectories apart.

    Raises:
        InputError: the file or a name is wrong, or a library that reads it is missing; the
            message names the line (the header is line 1) and the column.
    """
    return _series_of(read_table(Path(path)), path, time, states, group)


def write_csv(series: TimeSeries, path: str | os.PathLike[str]) -> None:
    """Write the series as a table that `load_csv` reads back to the same numbers.

    Several trajectories get a column of labels in front (see `group_column`). The file appears
    whole or not at all.

    Raises:
        OSError: the file cannot be written.
    """
    frame = series.to_frame()
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(frame.columns)
    for row in frame.itertuples(index=False, name=None):
        writer.writerow([_cell(value) for value in row])
    write_whole(Path(path), buffer.getvalue().encode())


def group_column(series: TimeSeries) -> str | None:
    """The column of labels that `write_csv` and `to_frame` put in front, or None for none.

    It is called "trajectory", with underscores appended if a state or the time has that name.
    """
    if len(series.trajectories) < 2:
        return None
    name = "trajectory"
    while name in (*series.states, series.time_name):
        name += "_"
    return name


def _series_of(
    table: Table, source: object, time: str | None, states: Sequence[str] | None,
    group: str | Sequence[str] | None,
) -> TimeSeries:  # fmt: skip
    """The series in a table; `source` names it in messages."""
    if not table.lines:
        raise InputError(f"{source} holds a header but no data; add one line a sample")
    groups = table.chosen(group, "group column")
    time_name = _time_column(time, table, groups)
    chosen, messages = _state_columns(states, table, time_name, groups)
    if not chosen:
        raise InputError(f"{source}: no column of numbers besides the time {time_name!r}; "
                         "expected at least one state")  # fmt: skip
    times, since = table.times(time_name)
    if since:
        messages.append(f"Column {time_name!r} holds dates: time is counted in days since {since}.")
    values = np.stack([table.numbers(name, "state") for name in chosen], axis=1)
    hint = f", in days since {since}" if since else ""
    if not groups:
        hint += "; if the file holds several trajectories, name the column that tells them apart " \
            "as group"  # fmt: skip
    trajectories = []
    for label, rows in table.groups(groups).items():
        lines = [f"line {table.lines[k]}" for k in rows]
        trajectories.append(_trajectory(times[rows], values[rows], label, lines, time_name, hint))
    _check_enough(trajectories, chosen)
    for name, column in zip(chosen, values.T, strict=True):
        if missing := int(np.isnan(column).sum()):
            messages.append(f"Column {name!r} lacks {missing} of {len(column)} values.")
    units = {time_name: "days"} if since else {}
    return TimeSeries(tuple(chosen), tuple(trajectories), time_name, units, tuple(messages))


def _state_columns(
    states: Sequence[str] | None, table: Table, time_name: str, groups: Sequence[str]
) -> tuple[list[str], list[str]]:
    """The states, by default every column of numbers, and what was left out so far."""
    chosen = table.chosen(states, "state")
    for name in chosen:
        if name == time_name or name in groups:
            use = "the time" if name == time_name else "a group column"
            raise InputError(f"column {name!r} is {use}, so it cannot be a state")
    messages = [*table.messages]
    if states is None:
        rest = [name for name in table.columns if name != time_name and name not in groups]
        chosen = [name for name in rest if not table.is_text(name)]
        messages += [f"Column {name!r} holds text and was left out."
                     for name in rest if name not in chosen]  # fmt: skip
    return chosen, messages


def _time_column(time: str | None, table: Table, groups: Sequence[str]) -> str:
    if time is not None:
        return table.chosen([time], "time column")[0]
    names = [name for name in table.columns if name not in groups]
    for wanted in ("t", "time"):
        for name in names:
            if name == wanted:
                return name
    for name in names:
        if name.lower() in ("t", "time"):
            return name
    if not names:
        raise InputError("no column is left for the time besides the group columns")
    return names[0]


def _cell(value: float | str) -> str:
    if isinstance(value, str):
        return value
    return "" if np.isnan(value) else repr(float(value))


def _float_arrays(time: ArrayLike, values: ArrayLike) -> tuple[Array, Array]:
    try:
        t, v = np.array(time, dtype=np.float64), np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"times and values should be arrays of numbers: {error}") from None
    if v.ndim == 1:
        v = v[:, None]
    if t.ndim != 1 or v.ndim != 2 or len(t) != len(v) or v.shape[1] == 0:
        raise InputError(
            f"expected times [n] and values [n, states], got shapes {t.shape} and {v.shape}"
        )
    return t, v


def _check_names(names: Sequence[str], expected: int) -> None:
    if len(names) != expected:
        raise InputError(f"expected {expected - 1} names of states, got {len(names) - 1}")
    for name in names:
        if not isinstance(name, str) or not name or name != clean_name(name):
            raise InputError(
                f"a name should be text on one line without outer blanks, got {name!r}"
            )
        if names.count(name) > 1:
            raise InputError(f"the name {name!r} is given twice; every column needs its own")


def _trajectory(
    time: Array, values: Array, label: str, rows: Sequence[str], time_name: str, hint: str = ""
) -> Trajectory:
    """A trajectory whose times are finite and increase; `rows` names every sample."""
    for k in map(int, np.flatnonzero(~np.isfinite(time))):
        raise InputError(f"{rows[k]}: the time {time_name!r} is missing or infinite")
    for k in map(int, np.flatnonzero(np.diff(time) <= 0)):
        how = "repeats" if time[k + 1] == time[k] else "goes back:"
        after = f"{time[k + 1]:.10g} after {time[k]:.10g} in {rows[k]}"
        where = f" of trajectory {label!r}" if label else ""
        raise InputError(f"{rows[k + 1]}{where}: the time {time_name!r} {how} {after}{hint}")
    samples = int(np.isfinite(values).any(axis=1).sum())
    if samples < 2:
        name = f"trajectory {label!r}" if label else "the series"
        raise InputError(f"{name} has {samples} sample{'s'[: samples != 1]} with a value; "
                         "at least 2 are needed")  # fmt: skip
    return Trajectory(time, values, label)


def _check_enough(trajectories: Sequence[Trajectory], states: Sequence[str]) -> None:
    for i, name in enumerate(states):
        count = sum(int(np.isfinite(t.values[:, i]).sum()) for t in trajectories)
        if count < LEAST_VALUES:
            raise InputError(f"state {name!r} has {count} values in all; at least {LEAST_VALUES} "
                             "are needed to fit it")  # fmt: skip
