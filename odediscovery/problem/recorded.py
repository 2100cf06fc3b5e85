"""What the user says of the samples, as part of the series: known starts, limits of detection, cumulative counts."""

from __future__ import annotations

import dataclasses

import numpy as np

from odediscovery.data.recorded.recorded import Recorded
from odediscovery.data.recorded.statements import OF_SAMPLE, detection_limit, known_start
from odediscovery.data.series import TimeSeries, Trajectory
from odediscovery.errors import InputError, unknown_name
from odediscovery.problem.impulses import given_amounts
from odediscovery.runtime.arrays import Array
from odediscovery.settings import Settings


def columns_of_groups(settings: Settings) -> list[str]:
    """Columns that starts and covariates need: they are constant within a group."""
    named = [value for _, value in map(known_start, settings.starts) if isinstance(value, str)]
    return list(dict.fromkeys([*settings.covariate, *(value for value in named if value != OF_SAMPLE)]))


def of_groups(series: TimeSeries, name: str) -> Array:
    """A column that is constant within each group [groups].

    Raises:
        InputError: no such column, or one that changes within a group.
    """
    if name not in series.controls:
        raise unknown_name("column of groups", name, (*series.controls, *series.states))
    k, found = series.controls.index(name), []
    for run in series.trajectories:
        assert run.controls is not None
        values = run.controls.values[:, k]
        if np.ptp(values) > 1e-9 * np.abs(values).max():
            raise InputError(
                f"column {name!r} changes within group {run.label!r}: expected one value a group; name it with --inputs"
            )
        found.append(float(values[0]))
    return np.array(found)


def with_recorded(series: TimeSeries, settings: Settings) -> TimeSeries:
    """The series with what is known of its samples; without columns that serve for starts only.

    Args:
        series: controls apart from the states, unmeasured states among them.

    Raises:
        InputError: a state that there is not, a start or limit that does not fit it, or counts that fall.
    """
    limits = dict(map(detection_limit, settings.censored))
    if not (settings.starts or limits or settings.cumulative or settings.doses):
        return series
    for kind, names in {
        "state with a known start": [state for state, _ in map(known_start, settings.starts)],
        "censored state": limits,
        "cumulative count": settings.cumulative,
    }.items():
        for name in names:
            if name not in series.states:
                raise unknown_name(kind, name, series.states)
    starts = _starts(series, settings)
    runs = []
    for run, start in zip(series.trajectories, starts, strict=True):
        level = np.array([limits.get(state, np.nan) for state in series.states])
        with np.errstate(invalid="ignore"):
            limit = np.where(run.values < level, level, np.nan)
        counted = np.isin(series.states, settings.cumulative)
        given = given_amounts(series, run, settings)
        recorded = Recorded(start, limit, np.isfinite(run.values), counted, given)
        runs.append(dataclasses.replace(run, recorded=recorded, sigma=_count_noise(run, recorded, series.states)))
    notes = [
        _told_of_limit(runs, i, series.states[i], limits[name])
        for i, name in enumerate(series.states)
        if name in limits
    ]
    series = dataclasses.replace(series, trajectories=tuple(runs), messages=(*series.messages, *notes))
    return without_controls(series, [name for name in columns_of_groups(settings) if name in series.controls])


def _told_of_limit(runs: list[Trajectory], i: int, state: str, limit: float) -> str:
    values = np.concatenate([run.values[:, i] for run in runs])
    count = int((values < limit).sum())
    return (
        f"{count} of {int(np.isfinite(values).sum())} values of {state} lie below the limit {limit:g}: there the curve "
        "only has to stay below it"
    )


def _starts(series: TimeSeries, settings: Settings) -> Array:
    """Known first values [trajectories, states], nan where unknown."""
    found = np.full((len(series.trajectories), series.n_states), np.nan)
    for state, value in map(known_start, settings.starts):
        i = series.states.index(state)
        if value == OF_SAMPLE:
            found[:, i] = [run.values[0, i] for run in series.trajectories]
            if not np.isfinite(found[:, i]).all():
                raise InputError(
                    f"--starts {state!r} = {OF_SAMPLE}: expected a first sample in every group; fill it in"
                )
        else:
            found[:, i] = of_groups(series, value) if isinstance(value, str) else value
    return found


def _count_noise(run: Trajectory, recorded: Recorded, states: tuple[str, ...]) -> Array | None:
    """Standard deviations of the values, those of cumulative counts being the roots of their increments.

    Raises:
        InputError: a cumulative count that falls, or one with standard deviations of its own.
    """
    if not recorded.counted.any():
        return run.sigma
    sigma = np.full(run.values.shape, np.nan) if run.sigma is None else run.sigma.copy()
    for i in np.flatnonzero(recorded.counted):
        if np.isfinite(sigma[:, i]).any():
            raise InputError(f"{states[i]!r} is cumulative: its noise follows from its increments; give no other")
        rows = np.flatnonzero(recorded.seen[:, i])
        values = run.values[rows, i]
        for k in np.flatnonzero(np.diff(values) < 0.0)[:1]:
            raise InputError(
                f"{states[i]!r} falls from {values[k]:g} to {values[k + 1]:g} at time {run.time[rows[k + 1]]:g}: "
                "expected a cumulative count; correct it, or leave --cumulative out"
            )
        sigma[rows, i] = np.sqrt(np.maximum(np.append(values[0], np.diff(values)), 1.0))
    return sigma


def without_controls(series: TimeSeries, names: list[str]) -> TimeSeries:
    """The series without some of its controls."""
    if not names:
        return series
    kept = [k for k, name in enumerate(series.controls) if name not in names]
    runs = []
    for run in series.trajectories:
        assert run.controls is not None
        own = run.controls
        left = dataclasses.replace(own, values=own.values[:, kept], held=own.held[kept]) if kept else None
        runs.append(dataclasses.replace(run, controls=left))
    return dataclasses.replace(series, trajectories=tuple(runs), controls=tuple(series.controls[k] for k in kept))
