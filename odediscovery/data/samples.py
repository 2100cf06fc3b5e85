"""All samples of a series at once, which states were measured, and columns added to it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from odediscovery.data.recorded.digits import even_times
from odediscovery.data.recorded.rows import which_have
from odediscovery.data.series import TimeSeries
from odediscovery.data.table import check_names
from odediscovery.errors import InputError
from odediscovery.runtime.arrays import Array


def check_series(series: object, caller: str) -> None:
    """Whether this is a series, which a table is not yet."""
    if not isinstance(series, TimeSeries):
        kind = type(series).__name__
        raise InputError(
            f"{caller} expects a TimeSeries, got a {kind}; load_csv reads a file, TimeSeries.from_frame a frame"
        )


def with_even_times(series: TimeSeries) -> TimeSeries:
    """The series with even times where they were rounded when they were written, which a message says.

    Dates are counted exactly, and what acts at written times stays at them: such series stay as they are.

    >>> rounded = TimeSeries.from_arrays(np.linspace(0.0, 5.0, 30).round(4), np.ones(30))
    >>> round(float(with_even_times(rounded).trajectories[0].time[1]), 8)
    0.17241379
    """
    if series.since or series.controls or any(run.controls or run.recorded for run in series.trajectories):
        return series
    found = even_times([run.time for run in series.trajectories])
    if found is None:
        return series
    runs = (dataclasses.replace(run, time=time) for run, time in zip(series.trajectories, found[0], strict=True))
    told = f"The time {series.time_name!r} was rounded when it was written: taken as even steps of {found[1]:.7g}."
    return dataclasses.replace(series, trajectories=tuple(runs), messages=(*series.messages, told))


def with_latent_states(series: TimeSeries, latent: Sequence[str]) -> TimeSeries:
    """The series with columns of nan for states that nobody measured."""
    states = (*series.states, *latent)
    check_names([series.time_name, *states], len(states) + 1)
    return with_columns(series, states)


def with_columns(series: TimeSeries, states: Sequence[str]) -> TimeSeries:
    """The series with these states, nan for those that it does not have.

    >>> with_columns(TimeSeries.from_arrays(range(4), [4, 3, 2, 1], ["a"]), ["b", "a"]).states
    ('b', 'a')
    """
    places = [states.index(name) for name in series.states]
    runs = tuple(run.spread(places, len(states)) for run in series.trajectories)
    return dataclasses.replace(series, states=tuple(states), trajectories=runs)


def pooled(series: TimeSeries) -> Array:
    """All samples of all trajectories, [samples, states]."""
    return np.concatenate([t.values for t in series.trajectories])


def complete(series: TimeSeries) -> TimeSeries:
    """The trajectories in which every measured state has values, which a message says; all where none is complete.

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
    return dataclasses.replace(series, trajectories=kept, messages=(told, *series.messages))


def usual_values(series: TimeSeries) -> Array:
    """Mean of all samples of each state, which stands in for a trajectory without any; nan where none has one."""
    found, seen = np.full(series.n_states, np.nan), measured(series)
    found[seen] = np.nanmean(pooled(series)[:, seen], axis=0)
    return found


def measured(series: TimeSeries) -> NDArray[np.bool_]:
    """States of which there are samples [states]."""
    return np.asarray(np.isfinite(pooled(series)).any(axis=0))
