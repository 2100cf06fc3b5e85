"""Measured time series and how to load them.

A `TimeSeries` holds trajectories: states at strictly increasing times, nan where nothing was measured. `load_csv`,
`TimeSeries.from_frame` and `TimeSeries.from_arrays` check the data once; the rest of the package relies on it.

Controls, which users call inputs, are known functions of time that act on a system, dx/dt = f(x, u(t)). A fit treats
them as further states without equations. So a series has two forms: the user's, with the controls beside the states,
and the appended one, in which they are the last states.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from odediscovery.data.dates import counted_times
from odediscovery.data.frames import is_dataset, plain_frame
from odediscovery.data.repeats import check_repeats, long_enough, restarted, trials, which_have, without_repeats
from odediscovery.data.sheets import exact_text, frame_table, read_table, with_made_columns
from odediscovery.data.signals import (
    Signal,
    array_deviations,
    checked_trajectories,
    even_times,
    fill_gaps,
    float_arrays,
    with_moments,
    with_sigma,
    without_turns,
)
from odediscovery.data.signals import Trajectory as Trajectory
from odediscovery.data.table import Table, assigned, check_names, names_in
from odediscovery.errors import InputError, unknown_name
from odediscovery.runtime.arrays import Array, Mask
from odediscovery.runtime.files import as_path, write_whole
from odediscovery.runtime.texts import check_letters


@dataclass(frozen=True, eq=False, repr=False)
class TimeSeries:
    """Trajectories of the same states.

    Args:
        states: names of the states, as the user wrote them.
        trajectories: one or more.
        time_name: name of the time.
        units: known units of the states and the time, by name.
        messages: remarks for the reader of the data, one sentence each.
        controls: names of the controls, see `with_controls`.
        since: the date from which time is counted, if the times were dates.

    >>> load_csv("data/lynx_hare_1900_1920.csv").trajectories[0].values.shape
    (21, 2)
    """

    states: tuple[str, ...]
    trajectories: tuple[Trajectory, ...]
    time_name: str = "t"
    units: Mapping[str, str] = field(default_factory=dict)
    messages: tuple[str, ...] = ()
    controls: tuple[str, ...] = ()
    since: str = ""

    def __repr__(self) -> str:
        """What was measured, how often and when, in one line; then the messages as notes."""
        names = [f"{name} [{self.units[name]}]" if name in self.units else name for name in self.states]
        shown = ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
        runs = self.trajectories
        several = f" of {len(runs)} trajectories" if len(runs) > 1 else ""
        span = f"from {min(run.time[0] for run in runs):g} to {max(run.time[-1] for run in runs):g}"
        unit = f" {self.units[self.time_name]}" if self.time_name in self.units else ""
        since = f" since {self.since}" if self.since else ""
        acts = f", {', '.join(self.controls)} given" if self.controls else ""
        head = f"{shown}: {self.n_samples} samples{several}, {self.time_name} {span}{unit}{since}{acts}"
        return "\n".join([head, *(f"note: {message}" for message in self.messages)])

    @property
    def n_states(self) -> int:
        """Number of states."""
        return len(self.states)

    @property
    def is_control(self) -> Mask:
        """Which states are appended controls, which have no equation [states]."""
        return np.array([state in self.controls for state in self.states], dtype=bool)

    @property
    def n_samples(self) -> int:
        """Number of sample times, over all trajectories."""
        return sum(len(trajectory.time) for trajectory in self.trajectories)

    @classmethod
    def from_arrays(
        cls,
        time: ArrayLike | list[ArrayLike],
        values: ArrayLike | list[ArrayLike],
        states: Sequence[str] | None = None,
        *,
        labels: Sequence[str] | None = None,
        time_name: str = "t",
        units: Mapping[str, str] | None = None,
        sigma: ArrayLike | Sequence[ArrayLike | None] | None = None,
        noise: Mapping[str, float] | None = None,
    ) -> TimeSeries:
        """A checked series from arrays.

        Args:
            time: [n], numbers, dates or durations, or a list of these arrays, one per trajectory.
            values: [n, states] or [n] (one state), nan where missing, or a list of these arrays.
            states: names; by default x0, x1, ...
            labels: one per trajectory; by default 1, 2, ... if there are several.
            time_name: name of the time.
            units: units of the states and the time, by name.
            sigma: standard deviations of the values, with the same shape and units; all nan for
                a state with unknown noise.
            noise: standard deviation common to all values of a state, by its name.

        Raises:
            InputError: inconsistent shapes, invalid names, times that do not increase, infinite
                values, standard deviations that are not positive, or too few samples for a fit.

        >>> series = TimeSeries.from_arrays([0, 1, 2, 3], [1.0, 0.5, 0.25, 0.125], ["mass"])
        >>> series.states, series.n_samples
        (('mass',), 4)
        """
        several = isinstance(time, (list, tuple)) and len(time) > 0 and np.ndim(time[0]) > 0
        times: list[Any] = list(time) if several else [time]  # type: ignore[arg-type]
        blocks: list[Any] = list(values) if several else [values]  # type: ignore[arg-type]
        if len(times) != len(blocks):
            raise InputError(
                f"{len(times)} arrays of times, but {len(blocks)} of values: give one of each for every trajectory"
            )
        if labels is None:
            labels = [str(k + 1) for k in range(len(times))] if several else [""]
        if len(labels) != len(times) or len(set(labels)) != len(labels):
            raise InputError(f"give {len(times)} distinct labels, one a trajectory")
        for label in (*labels, *(units or {}).values()):
            check_letters(label)
        times, clock = counted_times(times)
        pairs = [float_arrays(t, v) for t, v in zip(times, blocks, strict=True)]
        width = pairs[0][1].shape[1]
        if any(v.shape[1] != width for _, v in pairs):
            raise InputError("every trajectory needs the same number of states")
        names = [f"x{k}" for k in range(width)] if states is None else names_in(states)
        if len(names) != width:
            raise InputError(f"expected {width} names of states, got {len(names)}")
        check_names([time_name, *names])
        for _, v in pairs:
            for k, i in np.argwhere(np.isinf(v)):
                raise InputError(f"sample {k}, state {names[i]!r}: infinite value; use nan if missing")
        runs = [(label, t, v, ("sample", range(len(t)))) for (t, v), label in zip(pairs, labels, strict=True)]
        trajectories, turned = without_turns(checked_trajectories(runs, names, time_name), names)
        given: Any = sigma if several and sigma is not None else [sigma] * len(times)
        known = with_sigma(trajectories, names, array_deviations(given, trajectories, names), noise)
        told = dict(units or {})
        if clock is None:
            return cls(tuple(names), known, time_name, told, tuple(turned))
        said = (clock.sentence(f"The time {time_name!r}"), *turned)
        return cls(tuple(names), known, time_name, {time_name: clock.unit, **told}, said, since=clock.since)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        time: str | None = None,
        states: Sequence[str] | None = None,
        group: str | Sequence[str] | None = None,
        *,
        sigma: Mapping[str, str] | str | None = None,
        noise: Mapping[str, float] | None = None,
        units: Mapping[str, str] | None = None,
    ) -> TimeSeries:
        """A checked series from a frame, by the rules of `load_csv`.

        Args:
            frame: times (numbers, dates or durations) and states, as a DataFrame of pandas or
                polars, or an xarray Dataset, whose attributes may name units. A named index counts
                as a first column; other dimensions of a Dataset and other levels of an index are
                groups by default. None, NaN, NA and NaT are missing values.
            time: column of the times; by default the one named t or time, else an index with such
                a name or with dates or durations, else the only column of dates or durations.
            group: one or several columns whose values distinguish the trajectories. It, `states`, `sigma`, `noise`
                and `units` are as in `load_csv`.

        Raises:
            InputError: the frame or a name is invalid, or the times cannot be located; the message
                names the line (the header is line 1, the first row line 2) and the column.

        >>> frame = pd.DataFrame({"t": [0, 1, 2, 3], "mass": [1.0, 0.5, 0.25, 0.125]})
        >>> TimeSeries.from_frame(frame).states
        ('mass',)
        """
        plain, told = plain_frame(frame)
        table = frame_table(plain, "the frame", time)
        if group is None and (is_dataset(frame) or plain.index.nlevels > 1):
            group = [name for name in plain.index.names if name not in (None, time, table.time)]
        series = series_of(table, "the frame", time, states, group, sigma, noise)
        named = {name: unit for name, unit in told.items() if name in (*series.states, series.time_name)}
        return with_units(replace(series, units={**named, **series.units}), units)

    def to_frame(self) -> pd.DataFrame:
        """The series as one table, one row per sample: (group,) time, states (, controls, standard deviations)."""
        group, deviations = group_column(self), sigma_columns(self)
        labels = [trajectory.label for trajectory in self.trajectories]
        if not all(labels) or len(set(labels)) < len(labels):
            labels = [str(k + 1) for k in range(len(labels))]
        blocks = []
        for trajectory, label in zip(self.trajectories, labels, strict=True):
            columns: dict[str, Any] = {} if group is None else {group: label}
            columns |= {self.time_name: trajectory.time, **dict(zip(self.states, trajectory.values.T, strict=True))}
            for k, name in enumerate(self.controls):
                if trajectory.controls is not None and name != self.time_name:
                    columns[name] = trajectory.controls.values[:, k]
            for state, name in deviations.items():
                known = trajectory.sigma
                columns[name] = np.nan if known is None else known[:, self.states.index(state)]
            blocks.append(pd.DataFrame(columns))
        return pd.concat(blocks, ignore_index=True)


def load_csv(
    path: str | os.PathLike[str],
    time: str | None = None,
    states: Sequence[str] | None = None,
    group: str | Sequence[str] | None = None,
    *,
    sigma: Mapping[str, str] | str | None = None,
    noise: Mapping[str, float] | None = None,
    units: Mapping[str, str] | str | None = None,
    columns: Sequence[str] | str = (),
) -> TimeSeries:
    """Read a table of measurements: a header with column names, then one line per sample.

    Args:
        path: text in UTF-8 with columns separated by commas, semicolons or tabs (with the last two,
            numbers may have a decimal comma), the first sheet of a .xlsx or .xls file, or a
            .parquet file. Empty cells, NA, N/A, NaN, null and none are missing values.
        time: column of the times: numbers, durations, clocks (13:05:00, which go on past midnight), or
            ISO dates (2020-03-01, 2020-03-01 12:00), which become days (hours, ... depending on their
            spacing) since the first; by default the column named t or time, else the first.
        states: columns of the states; by default all other numeric columns.
        group: one or several columns whose values distinguish the trajectories.
        sigma: column of standard deviations by state, {"S": "S_sd"} or "S=S_sd,I=I_sd", in the
            unit of the state; by default these columns are not states.
        noise: standard deviation common to all values of a state, by its name.
        units: units of the states and the time, {"S": "g/L"} or "S=g/L,t=h"; the header may give
            them too, as "S [g/L]" for the state S.
        columns: columns to compute, "R=recovered+deaths"; their operands are states only if named in `states`.

    Without a group column, times that restart begin a new trajectory. Samples at the same time are averaged. Angles
    that jump by a full turn, kept within -pi and pi or 0 and 360, are joined, with a message.

    Raises:
        InputError: the file or a name is invalid, or a library to read it is missing; the
            message names the line (the header is line 1) and the column.

    >>> load_csv("data/yeast_carlson_1913.csv").states
    ('biomass',)
    """
    table = with_made_columns(read_table(as_path(path)), columns)
    return with_units(series_of(table, path, time, states, group, sigma, noise), units)


def with_units(series: TimeSeries, units: Mapping[str, str] | str | None) -> TimeSeries:
    """Set units of states, controls or the time, by name or as "S=g/L,t=h"."""
    given = assigned(units, "units", "STATE=UNIT", "S=g/L,t=h")
    names = (*series.states, *series.controls, series.time_name)
    counted = any("time is counted in" in message for message in series.messages)
    for name, unit in given.items():
        if name not in names:
            raise unknown_name("state or time with a unit", name, names)
        check_letters(unit)
        if name == series.time_name and series.units.get(name, unit) != unit and counted:
            raise InputError(f"the time {name!r} holds dates, which count in {series.units[name]}; leave its unit out")
    return replace(series, units={**series.units, **given})


def write_csv(series: TimeSeries, path: str | os.PathLike[str]) -> None:
    """Write the series as a table that `load_csv` reads back to the same numbers.

    Labels come first (`group_column`), standard deviations last (`sigma_columns`). `path` is written completely
    or not at all.

    Raises:
        OSError: the file cannot be written.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     write_csv(load_csv("data/yeast_carlson_1913.csv"), f"{folder}/copy.csv")
    ...     print(load_csv(f"{folder}/copy.csv").n_samples)
    19
    """
    write_whole(Path(path), series_text(series).encode())


def series_text(series: TimeSeries) -> str:
    """The series as comma-separated text."""
    return exact_text(series.to_frame())


def group_column(series: TimeSeries) -> str | None:
    """Name of the label column that `write_csv` and `to_frame` put first; None for a single trajectory."""
    if len(series.trajectories) < 2:
        return None
    return _free("trajectory", (*series.states, *series.controls, series.time_name))


def sigma_columns(series: TimeSeries) -> dict[str, str]:
    """Names of the columns of standard deviations that `write_csv` and `to_frame` append, by state."""
    taken = {*series.states, *series.controls, series.time_name, group_column(series)}
    columns: dict[str, str] = {}
    for i, state in enumerate(series.states):
        if any(t.sigma is not None and np.isfinite(t.sigma[:, i]).any() for t in series.trajectories):
            columns[state] = _free(f"{state}_sd", (*taken, *columns.values()))
    return columns


def _free(name: str, taken: Collection[str | None]) -> str:
    """Append underscores to a name until it is not taken."""
    while name in taken:
        name += "_"
    return name


def series_of(
    table: Table,
    source: object,
    time: str | None,
    states: Sequence[str] | None,
    group: str | Sequence[str] | None,
    sigma: Mapping[str, str] | str | None,
    noise: Mapping[str, float] | None,
) -> TimeSeries:
    """The series in a table; `source` names it in messages."""
    if not table.lines:
        raise InputError(f"{source} holds a header but no data; add one line a sample")
    groups = table.chosen(group, "group column")
    time_name = table.time_column(time, groups)
    taken = {**dict.fromkeys(groups, "a group column"), time_name: "the time"}
    deviations = table.deviation_columns(sigma, taken)
    taken |= {name: f"the standard deviation of {state!r}" for state, name in deviations.items()}
    chosen, messages = table.state_columns(states, taken)
    if not chosen:
        raise InputError(f"{source}: no column of numbers besides the time {time_name!r}; expected at least one state")
    grouped = table.groups(groups) if groups else None
    whole = [range(len(table.lines))]
    times, clock = table.times(time_name, whole if grouped is None else [*grouped.values()], groups)
    if clock:
        messages.append(clock.sentence(f"Column {time_name!r}"))
    values = np.stack([table.numbers(name, "state") for name in chosen], axis=1)
    errors = table.deviations(deviations, chosen, values)
    hint = f", in {clock.unit} since {clock.since}" if clock and clock.since else ""
    if not groups:
        hint += "; if the file holds several trajectories, name the column that tells them apart as group"
    runs = trials(times) if grouped is None else grouped
    check_repeats([*runs.values()], times, values, chosen, lambda: table.labels({*taken, *chosen}))
    merged, told = without_repeats(list(runs.values()), times, values, errors, chosen)
    kept, short = long_enough(runs, merged)
    messages += [*([] if groups else restarted(runs, table.lines, time_name)), *told, *short]
    lines = np.array(table.lines)
    found = [(label, one.time, one.values, ("line", lines[one.rows].tolist())) for label, one in kept]
    trajectories, turned = without_turns(checked_trajectories(found, chosen, time_name, hint), chosen)
    messages += turned
    for name, column in zip(chosen, values.T, strict=True):
        if missing := int(np.isnan(column).sum()):
            messages.append(f"Column {name!r} lacks {missing} of {len(column)} values.")
    units = {name: unit for name, unit in table.units.items() if name in (*chosen, time_name)}
    known = with_sigma(trajectories, chosen, [one.sigma for _, one in kept], noise)
    units |= {time_name: clock.unit} if clock else {}
    since = clock.since if clock else ""
    return TimeSeries(tuple(chosen), known, time_name, units, tuple(messages), since=since)


def check_series(series: object, caller: str) -> None:
    """Check that the argument of `caller` is a `TimeSeries`, not a table."""
    if not isinstance(series, TimeSeries):
        kind = type(series).__name__
        raise InputError(
            f"{caller} expects a TimeSeries, got a {kind}; load_csv reads a file, TimeSeries.from_frame a frame"
        )


def with_even_times(series: TimeSeries) -> TimeSeries:
    """Replace times that were rounded in writing by the even times behind them, with a message."""
    if series.since or series.controls or any(run.controls or run.recorded for run in series.trajectories):
        return series
    found = even_times([run.time for run in series.trajectories])
    if found is None:
        return series
    runs = (replace(run, time=time) for run, time in zip(series.trajectories, found[0], strict=True))
    told = f"The time {series.time_name!r} was rounded when it was written: taken as even steps of {found[1]:.7g}."
    return replace(series, trajectories=tuple(runs), messages=(*series.messages, told))


def with_latent_states(series: TimeSeries, latent: Sequence[str]) -> TimeSeries:
    """Add columns of nan for states that were not measured."""
    if not latent:
        return series
    states = (*series.states, *latent)
    check_names([series.time_name, *states])
    return with_columns(series, states)


def with_columns(series: TimeSeries, states: Sequence[str]) -> TimeSeries:
    """Rearrange the series to these states, nan for those that it lacks."""
    places = [states.index(name) for name in series.states]
    runs = tuple(run.spread(places, len(states)) for run in series.trajectories)
    return replace(series, states=tuple(states), trajectories=runs)


def pooled(series: TimeSeries) -> Array:
    """The samples of all trajectories, concatenated [samples, states]."""
    return np.concatenate([t.values for t in series.trajectories])


def complete(series: TimeSeries) -> TimeSeries:
    """Discard trajectories that lack a measured state, with a message; keep all if none is complete.

    >>> full = np.ones((4, 2))
    >>> without_b = np.column_stack([full[:, 0], np.full(4, np.nan)])
    >>> complete(TimeSeries.from_arrays([range(4)] * 2, [full, without_b], ["a", "b"])).messages
    ("Trajectory '2' has no value of b: laws are sought in the 1 of 2 with all states.",)
    """
    lacking = measured(series) & ~np.array([np.isfinite(t.values).any(axis=0) for t in series.trajectories])
    out = lacking.any(axis=1)
    if out.all() or not out.any():
        return series
    kept = tuple(t for t, lacks in zip(series.trajectories, out, strict=True) if not lacks)
    which = which_have([repr(series.trajectories[j].label) for j in np.flatnonzero(out)])
    of = " or ".join(series.states[i] for i in np.flatnonzero(lacking.any(axis=0)))
    told = f"{which} no value of {of}: laws are sought in the {len(kept)} of {len(out)} with all states."
    return replace(series, trajectories=kept, messages=(told, *series.messages))


def usual_values(series: TimeSeries) -> Array:
    """Mean of all samples of each state, a substitute in trajectories without samples; nan for unmeasured states."""
    found, seen = np.full(series.n_states, np.nan), measured(series)
    found[seen] = np.nanmean(pooled(series)[:, seen], axis=0)
    return found


def measured(series: TimeSeries) -> NDArray[np.bool_]:
    """Which states have samples [states]."""
    return np.asarray(np.isfinite(pooled(series)).any(axis=0))


@dataclass(frozen=True, eq=False)
class Scale:
    """Units in which every state and the sample interval are about 1.

    x' = x / state,  t' = t / time.
    """

    state: Array  # in the unit of each state [states]; negative for a mirrored one
    time: float  # in the unit of the time

    @property
    def size(self) -> Array:
        """|state|, the unit of standard deviations [states]."""
        return np.abs(self.state)

    @classmethod
    def of(cls, series: TimeSeries) -> Scale:
        """Root mean square of the observed values of each state (1 if all are zero), and the median sample interval."""
        values = pooled(series)
        # Divide by the largest first: squares of very large or small numbers overflow or vanish.
        largest = np.nanmax(np.abs(values), axis=0)
        largest = np.where(largest > 0, largest, 1.0)
        rms = largest * np.sqrt(np.nanmean((values / largest) ** 2, axis=0))
        steps = np.concatenate([np.diff(t.time) for t in series.trajectories])
        return cls(np.where(rms > 0, rms, 1.0), float(np.median(steps)))

    @classmethod
    def from_arrays(cls, state: Any, time: Any) -> Scale:
        """The units read from a file."""
        states, step = np.asarray(state, dtype=np.float64), float(time)
        if states.ndim != 1 or not np.isfinite(states).all() or not states.all() or not 0.0 < step < np.inf:
            raise ValueError("units that are zero or not finite")
        return cls(states, step)

    def apply(self, series: TimeSeries) -> TimeSeries:
        """Make a series dimensionless."""
        trajectories = tuple(
            replace(
                t,
                time=t.time / self.time,
                values=t.values / self.state,
                sigma=None if t.sigma is None else t.sigma / self.size,
                controls=t.controls and t.controls.scaled(self.state[series.is_control], self.time),
                recorded=t.recorded and t.recorded.scaled(self.state),
            )
            for t in series.trajectories
        )
        return replace(series, trajectories=trajectories, units={})


# Interpolation of a control between samples; `Signal.held` marks the second.
INTERPOLATIONS = ("linear", "held")


def with_controls(
    series: TimeSeries, linear: Sequence[str] = (), held: Sequence[str] = (), impulses: Sequence[str] = ()
) -> TimeSeries:
    """Turn some columns of a series from states into controls.

    Missing values of a control are interpolated or held; those at the end take the last value.

    Args:
        series: as loaded, with the controls among its states.
        linear: columns that are interpolated linearly between samples. The name of the time makes
            time itself a control, u(t) = t.
        held: columns that keep each value until the next sample, where they jump.
        impulses: columns of amounts added right after each sample; an empty cell is an amount of zero.
            They act as a rate, amount / width, over a short time, whose end becomes a sample without values.

    Raises:
        InputError: an unknown or repeated name, a missing first value, no remaining state, or
            controls with standard deviations.

    >>> columns = [[4.0, 0.0], [3.0, 1.0], [2.0, 1.0], [1.5, 1.0]]
    >>> series = TimeSeries.from_arrays([0, 1, 2, 3], columns, ["x", "feed"])
    >>> series = with_controls(series, held=["feed"])
    >>> series.states, series.controls
    (('x',), ('feed',))
    """
    names = [*linear, *held, *impulses]
    if not names:
        return series
    for name in names:
        if name != series.time_name and name not in series.states:
            raise unknown_name("input", name, (*series.states, series.time_name))
        if names.count(name) > 1:
            raise InputError(f"input {name!r} is named twice; name every input once")
    if series.time_name in (*held, *impulses):
        raise InputError(f"{series.time_name!r} is the time, which cannot be held; name it among the other inputs")
    states = tuple(state for state in series.states if state not in names)
    if not states:
        raise InputError(
            f"no state is left besides the inputs {', '.join(names)}; expected at least one column to model"
        )
    kept = [series.states.index(state) for state in states]
    trajectories = []
    for t in series.trajectories:
        columns = [_column(series, t, name, name in held, name in impulses) for name in names]
        signal = Signal(t.time, np.stack(columns, axis=1), np.isin(names, [*held, *impulses]))
        run = replace(t.select(kept), controls=signal)
        trajectories.append(with_moments(run, np.isin(names, list(impulses))))
    # An empty cell means no dose, so it is not a missing value.
    blank = tuple(f"Column {name!r} lacks " for name in impulses)
    messages = tuple(text for text in series.messages if not text.startswith(blank))
    return replace(series, states=states, trajectories=tuple(trajectories), controls=tuple(names), messages=messages)


def load_with_controls(
    path: str | os.PathLike[str],
    linear: Sequence[str] = (),
    held: Sequence[str] = (),
    *,
    time: str | None = None,
    states: Sequence[str] | None = None,
    group: str | None = None,
    sigma: Mapping[str, str] | str | None = None,
    noise: Mapping[str, float] | None = None,
    units: Mapping[str, str] | str | None = None,
    columns: Sequence[str] | str = (),
    impulses: Sequence[str] = (),
) -> TimeSeries:
    """Read a table with controls, which need not be named among the states.

    Args:
        path: the table; it and `time`, `states`, `group`, `sigma`, `noise`, `units` and `columns` are as in `load_csv`.
        linear: columns that are interpolated linearly; it, `held` and `impulses` are as in `with_controls`.

    Raises:
        InputError: as in `load_csv` and `with_controls`, or a control that has another role too.

    >>> doses = load_with_controls("data/theoph.csv", held=["weight_kg"], states=["conc"], group="subject")
    >>> doses.states, doses.controls
    (('conc',), ('weight_kg',))
    """
    names = [*linear, *held, *impulses]
    if not names:
        return load_csv(path, time, states, group, sigma=sigma, noise=noise, units=units, columns=columns)
    table = with_made_columns(read_table(as_path(path)), columns)
    for name in names:
        if name not in table.columns:
            raise unknown_name("input", name, [one for one in table.columns if not table.is_text(one)])
        if states is not None and name in states:
            raise InputError(f"column {name!r} is named as a state and as an input; name it once")
        if name == group:
            raise InputError(f"column {name!r} is the group column, so it cannot be an input")
    guess = table.time_column(time, table.chosen(group, "group column"))
    # A column T that is named as an input is probably a temperature, not the time.
    guessed = time is None and guess not in ("t", "time", table.columns[0])
    time = table.time_column(None, [guess]) if guessed and guess in names else guess
    series = series_of(table, path, time, states, group, sigma, noise)
    if more := [name for name in names if name not in (*series.states, series.time_name)]:
        series = series_of(table, path, time, [*series.states, *more], group, sigma, noise)
    return with_units(with_controls(series, linear, held, impulses), units)


def read_controls(
    path: Path, series: TimeSeries, *, empty: Sequence[str] = (), kept: Mapping[str, float] | None = None
) -> Signal:
    """Read controls for a prediction from a table with the time and every control not in `kept`."""
    own = series.trajectories[0].controls
    if own is None:
        raise InputError(f"{path}: these equations have no inputs; leave the option out")
    table = read_table(path)
    known = {name: value for name, value in (kept or {}).items() if name not in table.columns}
    times = table.increasing_times(path, series.time_name, [name for name in series.controls if name not in known])
    given = {series.time_name: times} | {name: np.full(len(times), value) for name, value in known.items()}
    values = []
    for name, held in zip(series.controls, own.held.tolist(), strict=True):
        u = given[name] if name in given else table.numbers(name, "input")
        u = np.nan_to_num(u) if name in empty else u
        if np.isnan(u[0]):
            raise InputError(f"{path}: input {name!r} has no value in the first row; fill it in")
        values.append(fill_gaps(times, u, held))
    return Signal(times, np.stack(values, axis=1), own.held)


def read_doses(path: Path, series: TimeSeries, doses: Sequence[str], constant: Sequence[str] = ()) -> Signal:
    """Read a new dosing plan for a prediction, from a table as in `read_controls`."""
    own, run = series.trajectories[0].controls, series.trajectories[0]
    if own is None or not doses:
        raise InputError(f"{path}: this fit has no doses; fit with --doses, or give other inputs with --inputs")
    given = np.isin(series.controls, list(doses))
    kept = {name: float(own.values[0, series.controls.index(name)]) for name in constant if name in series.controls}
    plan = read_controls(path, series, empty=tuple(doses), kept=kept)
    step = float(np.diff(plan.times if len(plan.times) > 1 else run.time).min())
    times, values = np.append(plan.times, plan.times[-1] + step), np.vstack([plan.values, plan.values[-1]])
    values[-1, given] = 0.0
    if times[0] > run.time[0]:
        times, values = np.append(run.time[0], times), np.vstack([values[0], values])
        values[0, given] = 0.0
    nothing = np.full((len(times), series.n_states), np.nan)
    moments = with_moments(Trajectory(times, nothing, controls=Signal(times, values, own.held)), given)
    assert moments.controls is not None
    return moments.controls


def interpolation_by_control(series: TimeSeries) -> dict[str, str]:
    """Interpolation of each control between samples, "linear" or "held", by name."""
    first = series.trajectories[0].controls
    held = [] if first is None else first.held.tolist()
    return {name: INTERPOLATIONS[one] for name, one in zip(series.controls, held, strict=True)}


def with_interpolations(series: TimeSeries, interpolations: Mapping[str, str]) -> TimeSeries:
    """Apply `with_controls` according to the output of `interpolation_by_control`."""
    for one in interpolations.values():
        if one not in INTERPOLATIONS:
            raise unknown_name("way between samples", one, INTERPOLATIONS)
    linear, held = ([name for name, one in interpolations.items() if one == kind] for kind in INTERPOLATIONS)
    return with_controls(series, linear, held)


def _column(series: TimeSeries, t: Trajectory, name: str, held: bool, impulse: bool) -> Array:
    """Values of one control in one trajectory, with gaps filled."""
    if name == series.time_name:
        return t.time
    i = series.states.index(name)
    if impulse:
        return np.nan_to_num(t.values[:, i])
    if t.sigma is not None and np.isfinite(t.sigma[:, i]).any():
        raise InputError(f"input {name!r} has standard deviations, but inputs are taken as exact; leave these out")
    if not np.isfinite(t.values[0, i]):
        where = f" of trajectory {t.label!r}" if t.label else ""
        raise InputError(
            f"input {name!r} has no value in the first sample{where} (time "
            f"{t.time[0]:.10g}): fill it in, or leave out the samples before its "
            "first value"
        )
    return fill_gaps(t.time, t.values[:, i], held)


def append_controls(series: TimeSeries) -> TimeSeries:
    """Append the controls of a series to its states."""
    if not series.controls:
        return series
    states = (*series.states, *series.controls)
    check_names(states)
    trajectories = tuple(t.spread(range(series.n_states), len(states)) for t in series.trajectories)
    for t in trajectories:
        assert t.controls is not None  # all trajectories of a series have the same controls
        t.values[:, series.n_states :] = t.controls.values
    return replace(series, states=states, trajectories=trajectories)


def drop_appended_controls(series: TimeSeries) -> TimeSeries:
    """Invert `append_controls`."""
    if not series.controls:
        return series
    own = np.flatnonzero(~series.is_control)
    trajectories = tuple(t.select(own) for t in series.trajectories)
    return replace(series, states=tuple(series.states[i] for i in own), trajectories=trajectories)


def sampling_errors(series: TimeSeries) -> Array:
    """What straight lines between the samples of each variable miss, as a share of its variation; 0 for states.

    A state integrates what drives it, so the integrals of both are compared: straight lines miss most of fast changes,
    which hardly move a state. Controls that are held are known exactly, and so are those that are straight.
    """
    missed = np.zeros(len(series.states) + len(series.controls))
    runs = [t.controls for t in series.trajectories if t.controls is not None and len(t.time) > 2]

    def spread_of_integral(rate: Callable[[Signal], Array]) -> Array:
        integrals = [np.cumsum(rate(u) * np.diff(u.times)[1:, None], axis=0) for u in runs]
        return np.asarray(np.sqrt(sum(integral.var(axis=0) for integral in integrals)))

    if runs:
        off = spread_of_integral(lambda u: u.chord_errors)
        moved = spread_of_integral(lambda u: u.values[1:-1] - u.values.mean(axis=0))
        missed[len(series.states) :] = off / np.where(moved > 0.0, moved, np.inf)
    return missed


def explain_two_values(series: TimeSeries) -> list[str]:
    """Note held controls with at most two values, one sentence each: u^2 is then a + b u."""
    signals = [t.controls for t in series.trajectories if t.controls is not None]
    notes = []
    for k, name in enumerate(series.controls):
        count = len(np.unique(np.concatenate([signal.values[:, k] for signal in signals])))
        if count <= 2 and signals[0].held[k]:
            notes.append(
                f"{name} takes only {count} value{'s'[: count != 1]}: its powers, and a "
                "constant beside it, cannot be told apart"
            )
    return notes
