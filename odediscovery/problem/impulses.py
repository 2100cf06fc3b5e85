"""Doses at known times, and rates that change at a known time, as controls.

gut' = dose(t) + ...        dose(t) = amount / width  for a moment after each dose
S' = -b*S*I - c*S*I*after_23,        after_23 = 0 before t = 23 and 1 from then on
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from odediscovery.data.recorded.statements import break_times, dose_column, dose_factor
from odediscovery.data.series import TimeSeries, Trajectory
from odediscovery.data.signals import Signal
from odediscovery.errors import InputError, unknown_name
from odediscovery.knowledge.constraints import Knowledge
from odediscovery.laws.expressions import identifiers
from odediscovery.runtime.arrays import Array
from odediscovery.settings import Settings


def dose_columns(settings: Settings) -> list[str]:
    """Columns of doses."""
    return list(dict.fromkeys(column for _, column in map(dose_column, settings.doses)))


def dose_statements(series: TimeSeries, settings: Settings) -> tuple[str, ...]:
    """Each dose enters its state, as a user would write it.

    Raises:
        InputError: a state or a column that there is not.
    """
    names, known = identifiers([*series.states, *series.controls]), []
    if settings.vary is None and any(map(dose_factor, settings.doses)):
        raise InputError("--doses with a factor that is fitted belongs to groups: it needs --vary all, none or auto")
    for state, column in map(dose_column, settings.doses):
        if state not in series.states:
            raise unknown_name("state with doses", state, series.states)
        if column not in series.controls:
            raise unknown_name("column of doses", column, (*series.controls, *series.states))
        known.append(f"{names[state]}' = {names[column]} + ?")
    return tuple(known)


def without_other_doses(known: Knowledge, settings: Settings) -> Knowledge:
    """Doses act as is known of them, and in no other way."""
    doses = np.isin(known.states, dose_columns(settings))
    return dataclasses.replace(known, forbidden=known.forbidden | (doses & ~doses[:, None]))


def given_amounts(series: TimeSeries, run: Trajectory, settings: Settings) -> Array | None:
    """What doses added to each state up to each sample [samples, states]; None for nothing."""
    if not settings.doses or run.controls is None:
        return None
    found = np.zeros(run.values.shape)
    for state, column in map(dose_column, settings.doses):
        if state in series.states and column in series.controls:
            rates = run.controls.values[:-1, series.controls.index(column)]
            found[1:, series.states.index(state)] += np.cumsum(rates * np.diff(run.time))
    return found


def break_controls(settings: Settings, time_name: str) -> dict[str, float]:
    """Names of the steps and their times, in order."""
    times = break_times(settings.breaks, time_name) if settings.breaks is not None else []
    return {f"after_{time:g}": time for time in times}


def with_breaks(series: TimeSeries, settings: Settings) -> TimeSeries:
    """The series with a control for each break, 0 before it and 1 from then on.

    Raises:
        InputError: times that are no numbers, or outside of the data.
    """
    named = break_controls(settings, series.time_name)
    new = {name: time for name, time in named.items() if name not in series.controls}
    for time in new.values():
        if not any(run.time[0] < time < run.time[-1] for run in series.trajectories):
            first, last = series.trajectories[0].time[[0, -1]]
            raise InputError(f"--breaks: {time:g} is not within the data, {first:g} to {last:g}; leave it out")
    if not new:
        return series
    if taken := set(new) & set(series.states):
        raise InputError(f"--breaks makes an input {min(taken)!r}, and a state is called so: rename the column")
    runs = [step_at(run, list(new.values())) for run in series.trajectories]
    return dataclasses.replace(series, trajectories=tuple(runs), controls=(*series.controls, *new))


def step_at(run: Trajectory, times: Sequence[float] | Array) -> Trajectory:
    """A trajectory with a sample, without values, at each break, and steps as held controls."""
    inside = [time for time in times if run.time[0] < time < run.time[-1]]
    whole = np.union1d(run.time, inside)
    old = np.searchsorted(whole, run.time)
    values, sigma = (np.full((len(whole), run.values.shape[1]), np.nan) for _ in range(2))
    values[old] = run.values
    if run.sigma is not None:
        sigma[old] = run.sigma
    steps = (whole[:, None] >= np.array(times)).astype(np.float64)
    held = np.ones(len(times), dtype=bool)
    if run.controls is not None:
        steps = np.hstack([run.controls.at(whole), steps])
        held = np.append(run.controls.held, held)
    return dataclasses.replace(
        run, time=whole, values=values, sigma=None if run.sigma is None else sigma, controls=Signal(whole, steps, held)
    )
