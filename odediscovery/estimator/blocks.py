"""What is handed to an estimator as X and t: arrays, DataFrames, or lists of them.

Frames are known by their columns, whatever library they are of; where their times are is said in
`data.frames`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from odediscovery.data.dates import Clock, as_moments, counted_times
from odediscovery.data.frames import index_times, is_dataset, plain_frame
from odediscovery.data.trajectories import real_numbers
from odediscovery.errors import InputError, unknown_name
from odediscovery.runtime.arrays import Array


class Run(NamedTuple):
    """A trajectory: times [n], values [n, states], and the column or index that the times are from."""

    time: Array
    values: Array
    column: str | None


def read_runs(
    x: Any, t: Any, states: list[str] | None, interval: float | None, unit: str | None = None
) -> tuple[list[Run], list[str] | None, Clock | None]:
    """The trajectories of X, the names of their states if X has names, and how dates are counted."""
    blocks, given = paired(x, t)
    if is_frame(blocks[0]):
        states, _ = columns_of(blocks[0], states)
    found = [_times_of(block, at, states) for block, at in zip(blocks, given, strict=True)]
    times, clock = counted_times([at for at, _ in found], unit)
    runs = []
    for block, at, (_, column) in zip(blocks, times, found, strict=True):
        values = read_values(block, states)
        runs.append(Run(_times(at, len(values), interval), values, column))
    return runs, states, clock


def read_values(block: Any, states: list[str] | None) -> Array:
    """The states [samples, states] of an array or of the columns of a frame."""
    if not is_frame(block):
        return _matrix(block)
    names, frame = columns_of(block, states)[0], block
    values = np.empty((len(frame), len(names)))
    for k, name in enumerate(names):
        values[:, k] = real_numbers(frame[name], f"column {name!r}")
    return _matrix(values)


def _times_of(block: Any, t: Any, states: list[str] | None) -> tuple[Any, str | None]:
    """Times of a trajectory as they were given, and the column or index that they are from."""
    if not is_frame(block):
        return t, None
    _, column = columns_of(block, states)
    if column is not None:
        if t is not None:
            raise InputError(f"expected times once, got t and column {column!r}; drop one of them")
        held = block[column]
        return held if as_moments(held) is not None else real_numbers(held, f"column {column!r}"), column
    if t is not None and np.ndim(t) > 0:
        return t, None
    told = index_times(block)
    if told is None:
        return t, None
    if t is not None:
        raise InputError(
            f"expected times once, got the interval t={t!r} and the index {told[0]!r}; leave t out, or drop the "
            "index, X.reset_index(drop=True)"
        )
    name, index = told
    return index if as_moments(index) is not None else real_numbers(index, f"index {name!r}"), name


def is_list(x: Any) -> bool:
    """Whether this is a list of trajectories, and not one array written as a list of rows."""
    return isinstance(x, list | tuple) and (not x or is_frame(x[0]) or is_dataset(x[0]) or np.ndim(x[0]) == 2)


def is_frame(x: Any) -> bool:
    """Whether this has columns, as a DataFrame has."""
    return hasattr(x, "columns") and hasattr(x, "__getitem__")


def paired(x: Any, t: Any) -> tuple[list[Any], list[Any]]:
    """The trajectories, and for each its times, its sample interval, or None."""
    if not is_list(x):
        return [_plain(x)], [t]
    blocks = [_plain(block) for block in x]
    if not blocks:
        raise InputError("X: expected at least one trajectory, got an empty list")
    if not isinstance(t, list | tuple) and np.ndim(t) == 0:
        return blocks, [t] * len(blocks)
    if not isinstance(t, list | tuple) or len(t) != len(blocks):
        got = len(t) if isinstance(t, list | tuple) else type(t).__name__
        raise InputError(
            "t: expected one sample interval, or a list with one entry for each of "
            f"{len(blocks)} trajectories, got {got}; give that"
        )
    return blocks, list(t)


def _plain(block: Any) -> Any:
    """A Dataset as the frame of its variables, anything else as it is."""
    return plain_frame(block)[0] if is_dataset(block) else block


def _times(t: Any, count: int, interval: float | None) -> Array:
    """Times of `count` samples from times or from the interval between them."""
    step = interval if t is None else t
    if step is None:
        raise InputError(
            "t: expected the times of X, as fit was given times, got None; give t or DataFrames with a column t"
        )
    times = real_numbers(step, "t")
    if times.ndim == 0:
        if not 0.0 < times < math.inf:
            raise InputError(f"t: expected a positive sample interval, got {step!r}; give that or all times")
        return times * np.arange(count, dtype=np.float64)
    if times.shape != (count,):
        raise InputError(
            f"t: expected {count} times, one a sample, got shape {times.shape}; give those or the sample interval"
        )
    return times


def columns_of(frame: Any, states: list[str] | None) -> tuple[list[str], str | None]:
    """Columns of the states, the given ones or all others, and that of the times if any."""
    columns = list(frame.columns)
    if not all(isinstance(name, str) for name in columns) or len(set(columns)) < len(columns):
        raise InputError(
            f"X: expected columns with different names that are text, got {columns}; rename them or give X.to_numpy()"
        )
    for name in states or ():
        if name not in columns:
            raise unknown_name("column", name, columns)
    time = next((n for n in ("t", "time") if n in columns and n not in (states or ())), None)
    return states if states is not None else [name for name in columns if name != time], time


def _matrix(x: Any) -> Array:
    """Values [samples, states], finite or nan."""
    values = real_numbers(x, "X")
    if values.ndim != 2:
        raise InputError(
            f"X: expected an array [samples, states], got shape {values.shape}. "
            "Reshape your data, X.reshape(-1, 1) for one state; give trajectories "
            "as a list"
        )
    if not values.shape[1]:
        raise InputError(
            f"X has 0 feature(s) (shape={values.shape}) while a minimum of 1 is required: give a column for every state"
        )
    if np.isinf(values).any():
        raise InputError("X: expected finite values, got infinity; use nan if missing")
    return values
