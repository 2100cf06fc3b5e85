"""What somebody asks a result to simulate: start values by name or in order, times as numbers or dates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from odediscovery.data.dates import time_of_date
from odediscovery.data.series import TimeSeries
from odediscovery.errors import InputError, unknown_name
from odediscovery.runtime.arrays import Array


def start_values(initial: Any, fitted: Array, states: Sequence[str]) -> Array:
    """Start values [states]; of states that a mapping leaves out, the fitted ones.

    Args:
        initial: numbers in the order of the states, or by their names.
        fitted: those of the first trajectory [states].
        states: names.

    Raises:
        InputError: another number of values, another name, or what is no finite number.

    >>> start_values({"lynx": 5}, np.array([36.0, 4.0]), ["hare", "lynx"]).tolist()
    [36.0, 5.0]
    """
    if isinstance(initial, Mapping):
        for name in initial:
            if name not in states:
                raise unknown_name("state", str(name), states)
        initial = [initial.get(name, value) for name, value in zip(states, fitted.tolist(), strict=True)]
    try:
        values = np.asarray(initial, float)
    except (TypeError, ValueError):
        values = np.full(len(states), np.nan)
    if values.shape != (len(states),) or not np.all(np.isfinite(values)):
        raise InputError(
            f"initial: expected {len(states)} finite numbers, of {', '.join(states)}, or these by name, got {initial!r}"
        )
    return values


def asked_times(times: Any, series: TimeSeries) -> Array:
    """Times [n] as numbers: those of the first trajectory by default, dates counted as the data's were.

    Raises:
        InputError: no increasing numbers, or dates where the data had none.

    >>> asked_times(["2024-05-03"], TimeSeries((), (), "day", {"day": "days"}, since="2024-05-01")).tolist()
    [2.0]
    """
    if times is None:
        return np.asarray(series.trajectories[0].time)
    own = list(times) if np.ndim(times) == 1 else []
    if series.since and own and not all(isinstance(one, int | float | np.number) for one in own):
        unit = series.units[series.time_name]
        own = [time_of_date(str(one).replace("T", " "), series.since, unit) for one in own]
    try:
        values = np.asarray(own, float)
    except (TypeError, ValueError):
        values = np.zeros(0)
    if not values.size or not np.all(np.isfinite(values)):
        dates = f" or dates such as {series.since}" if series.since else ""
        raise InputError(f"times should be a list of finite numbers{dates}, at least one, got {times!r}")
    if np.any(np.diff(values) <= 0):
        raise InputError("times should increase from one to the next")
    return values
