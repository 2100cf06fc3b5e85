"""Controls: columns that act on a system and are known, such as a feed, a force or a temperature.

    dx/dt = f(x, u(t))

Users call them inputs. The stages of a fit treat a control as a further state without an equation:
laws may contain it, and every integrator takes u(t) from the data. So a series has two forms: the
user's, with the controls beside the states, and the appended one, in which they are the last states.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from odediscovery.data.series import TimeSeries, Trajectory, load_csv, series_of, with_units
from odediscovery.data.sheets import read_table, with_made_columns
from odediscovery.data.signals import Signal, fill_gaps, with_moments
from odediscovery.data.table import check_names
from odediscovery.errors import InputError, unknown_name
from odediscovery.runtime.arrays import Array

# What a control does between samples; `Signal.held` marks the second.
INTERPOLATIONS = ("linear", "held")


def with_controls(
    series: TimeSeries, linear: Sequence[str] = (), held: Sequence[str] = (), impulses: Sequence[str] = ()
) -> TimeSeries:
    """The series with some of its columns as controls instead of states.

    Missing values of a control are interpolated or held; those at the end take the last value.

    Args:
        series: as loaded, the controls among its states.
        linear: columns that are straight lines between samples. The name of the time makes time
            itself a control, u(t) = t.
        held: columns that keep each value until the next sample, where they jump.
        impulses: columns of amounts that are given at their times, right after the sample; an empty cell is none.
            They act as a rate, amount / width, for a moment: a sample without values stands where it ends.

    Raises:
        InputError: an unknown or repeated name, a missing first value, no state left, or controls
            with standard deviations.

    >>> columns = [[4.0, 0.0], [3.0, 1.0], [2.0, 1.0], [1.5, 1.0]]
    >>> series = TimeSeries.from_arrays([0, 1, 2, 3], columns, ["x", "feed"])
    >>> series = with_controls(series, held=["feed"])
    >>> series.states, series.controls
    (('x',), ('feed',))
    """
    names = [*linear, *held, *impulses]
    for name in names:
        if name != series.time_name and name not in series.states:
            raise unknown_name("input", name, (*series.states, series.time_name))
        if names.count(name) > 1:
            raise InputError(f"input {name!r} is named twice; name every input once")
    if series.time_name in held:
        raise InputError(f"{series.time_name!r} is the time, which cannot be held; name it among the other inputs")
    if not names:
        return series
    states = tuple(state for state in series.states if state not in names)
    if not states:
        raise InputError(
            f"no state is left besides the inputs {', '.join(names)}; expected at least one column to model"
        )
    kept = [series.states.index(state) for state in states]
    trajectories = []
    for t in series.trajectories:
        columns = [
            np.nan_to_num(t.values[:, series.states.index(name)])
            if name in impulses
            else _column(series, t, name, name in held)
            for name in names
        ]
        signal = Signal(t.time, np.stack(columns, axis=1), np.isin(names, [*held, *impulses]))
        sigma = None if t.sigma is None else t.sigma[:, kept]
        run = Trajectory(t.time, t.values[:, kept], t.label, sigma, signal)
        trajectories.append(with_moments(run, np.isin(names, list(impulses))))
    # Where nothing is written nothing was given: no value is lacking.
    blank = tuple(f"Column {name!r} lacks " for name in impulses)
    messages = tuple(text for text in series.messages if not blank or not text.startswith(blank))
    return dataclasses.replace(
        series, states=states, trajectories=tuple(trajectories), controls=tuple(names), messages=messages
    )


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
    """`load_csv` of a table with controls, which need not be named among the states.

    Args:
        path: the table, as in `load_csv`.
        linear: columns that are straight lines between samples, as in `with_controls`.
        held: columns that keep each value until the next sample.
        time: column of the times; by default the one called t or time, else the first.
        states: columns of the states; by default all other columns of numbers.
        group: column whose values distinguish the trajectories.
        sigma: column of standard deviations by state, in the unit of the state.
        noise: standard deviation of all values of a state, by its name, in its unit.
        units: of states, controls or the time, as in `load_csv`.
        columns: computed from others, as in `load_csv`.
        impulses: columns of amounts that are given at their times, as in `with_controls`.

    Raises:
        InputError: as in `load_csv` and `with_controls`, or a control that is also something else.

    >>> doses = load_with_controls("data/theoph.csv", held=["weight_kg"], states=["conc"], group="subject")
    >>> doses.states, doses.controls
    (('conc',), ('weight_kg',))
    """
    names = [*linear, *held, *impulses]
    if not names:
        return load_csv(path, time, states, group, sigma=sigma, noise=noise, units=units, columns=columns)
    table = with_made_columns(read_table(Path(path)), columns)
    for name in names:
        if name not in table.columns:
            raise unknown_name("input", name, [one for one in table.columns if not table.is_text(one)])
        if states is not None and name in states:
            raise InputError(f"column {name!r} is named as a state and as an input; name it once")
        if name == group:
            raise InputError(f"column {name!r} is the group column, so it cannot be an input")
    guess = table.time_column(time, table.chosen(group, "group column"))
    # T that is named as an input is a temperature rather than the time.
    guessed = time is None and guess not in ("t", "time", table.columns[0])
    time = table.time_column(None, [guess]) if guessed and guess in names else guess
    series = series_of(table, path, time, states, group, sigma, noise)
    if more := [name for name in names if name not in (*series.states, series.time_name)]:
        series = series_of(table, path, time, [*series.states, *more], group, sigma, noise)
    return with_units(with_controls(series, linear, held, impulses), units)


def read_controls(
    path: Path, series: TimeSeries, *, empty: Sequence[str] = (), kept: Mapping[str, float] | None = None
) -> Signal:
    """Controls for a prediction, from a table with columns of the time and of every control."""
    own = series.trajectories[0].controls
    if own is None:
        raise InputError(f"{path}: these equations have no inputs; leave the option out")
    table = read_table(path)
    known = {name: value for name, value in (kept or {}).items() if name not in table.columns}
    asked = dict.fromkeys(name for name in (series.time_name, *series.controls) if name not in known)
    if not asked.keys() <= set(table.columns):
        raise InputError(f"{path}: expected columns {', '.join(asked)}, got {', '.join(table.columns)}; name them so")
    times = table.numbers(series.time_name, "time", gaps=False)
    if not len(times) or (np.diff(times) <= 0).any():
        raise InputError(f"{path}: expected times that increase from one row to the next")
    given = {series.time_name: times} | {name: np.full(len(times), value) for name, value in known.items()}
    columns = [given[name] if name in given else table.numbers(name, "input") for name in series.controls]
    columns = [np.nan_to_num(u) if name in empty else u for name, u in zip(series.controls, columns, strict=True)]
    for name, column in zip(series.controls, columns, strict=True):
        if np.isnan(column[0]):
            raise InputError(f"{path}: input {name!r} has no value in the first row; fill it in")
    values = [fill_gaps(times, u, bool(h)) for u, h in zip(columns, own.held, strict=True)]
    return Signal(times, np.stack(values, axis=1), own.held)


def read_doses(path: Path, series: TimeSeries, doses: Sequence[str], constant: Sequence[str] = ()) -> Signal:
    """Controls for a prediction with another plan of doses, from a table as `read_controls` takes it."""
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
    """What each control does between samples, "linear" or "held", by its name."""
    first = series.trajectories[0].controls
    held = [] if first is None else first.held.tolist()
    return {name: INTERPOLATIONS[one] for name, one in zip(series.controls, held, strict=True)}


def with_interpolations(series: TimeSeries, interpolations: Mapping[str, str]) -> TimeSeries:
    """`with_controls` from what `interpolation_by_control` gives."""
    for one in interpolations.values():
        if one not in INTERPOLATIONS:
            raise unknown_name("way between samples", one, INTERPOLATIONS)
    linear, held = ([name for name, one in interpolations.items() if one == kind] for kind in INTERPOLATIONS)
    return with_controls(series, linear, held)


def _column(series: TimeSeries, t: Trajectory, name: str, held: bool) -> Array:
    """The values of one control in one trajectory, gaps filled."""
    if name == series.time_name:
        return t.time
    i = series.states.index(name)
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
    """The series with its controls as further states, the last ones."""
    if not series.controls:
        return series
    states = (*series.states, *series.controls)
    check_names([*states], len(states))
    trajectories = tuple(t.spread(range(series.n_states), len(states)) for t in series.trajectories)
    for t in trajectories:
        assert t.controls is not None  # all trajectories of a series have the same controls
        t.values[:, series.n_states :] = t.controls.values
    return dataclasses.replace(series, states=states, trajectories=trajectories)


def drop_appended_controls(series: TimeSeries) -> TimeSeries:
    """The inverse of `append_controls`."""
    if not series.controls:
        return series
    own = np.flatnonzero(~series.is_control)
    trajectories = tuple(t.select(own) for t in series.trajectories)
    return dataclasses.replace(series, states=tuple(series.states[i] for i in own), trajectories=trajectories)


def explain_two_values(series: TimeSeries) -> list[str]:
    """What held controls with two values cannot show, one sentence each: u^2 is then a + b u."""
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
