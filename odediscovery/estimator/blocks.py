"""What is handed to an estimator as X and t: arrays, DataFrames, or lists of them.

DataFrames are known by their columns: this needs no pandas.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse

from odediscovery.errors import InputError, unknown_name
from odediscovery.runtime.arrays import Array


class Run(NamedTuple):
    """A trajectory: times [n], values [n, states], and the column that the times are from."""

    time: Array
    values: Array
    column: str | None


def read_run(block: Any, t: Any, states: list[str] | None, interval: float | None) -> Run:
    """A trajectory from an array or a DataFrame; `interval` counts where neither has times."""
    column = None
    if is_frame(block):
        names, column = columns_of(block, states)
        block, frame = np.empty((len(block), len(names))), block
        for k, name in enumerate(names):
            block[:, k] = numbers(frame[name], f"column {name!r}")
        if column is not None and t is not None:
            raise InputError(f"expected times once, got t and column {column!r}; drop one of them")
        t = t if column is None else numbers(frame[column], f"column {column!r}")
    values = _matrix(block)
    return Run(_times(t, len(values), interval), values, column)


def is_list(x: Any) -> bool:
    """Whether this is a list of trajectories, and not one array written as a list of rows."""
    return isinstance(x, list | tuple) and (not x or is_frame(x[0]) or np.ndim(x[0]) == 2)


def is_frame(x: Any) -> bool:
    """Whether this has columns, as a DataFrame has."""
    return hasattr(x, "columns") and hasattr(x, "__getitem__")


def paired(x: Any, t: Any) -> tuple[list[Any], list[Any]]:
    """The trajectories, and for each its times, its sample interval, or None."""
    if not is_list(x):
        return [x], [t]
    blocks = list(x)
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


def _times(t: Any, count: int, interval: float | None) -> Array:
    """Times of `count` samples from times or from the interval between them."""
    step = interval if t is None else t
    if step is None:
        raise InputError(
            "t: expected the times of X, as fit was given times, got None; give t or DataFrames with a column t"
        )
    times = numbers(step, "t")
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
    values = numbers(x, "X")
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


def numbers(x: Any, name: str) -> Array:
    """Anything that holds real numbers as an array of floats, missing ones as nan."""
    if issparse(x):
        raise InputError(f"{name}: expected a dense array, got a sparse one; use {name}.toarray()")
    try:
        kind = np.asarray(x).dtype
        if kind.kind in "biufO":
            return np.asarray(x, dtype=np.float64)
        reason = "complex numbers: Complex data not supported" if kind.kind == "c" else str(kind)
    except (TypeError, ValueError) as error:
        reason = " ".join(str(error).split())
    raise InputError(f"{name}: expected an array of real numbers, got {reason}; convert it")
