"""Trajectories, checked once: times that increase, enough values, standard deviations that fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse

from odediscovery.data.deviations import with_levels
from odediscovery.data.signals import Trajectory
from odediscovery.errors import InputError, InputTypeError
from odediscovery.runtime.arrays import Array
from odediscovery.runtime.thresholds import Thresholds, threshold


@dataclass(frozen=True)
class SeriesThresholds(Thresholds):
    """What a series needs to be fitted."""

    least_values: int = threshold(
        4, "values of a state", origin="fewer determine no law, not even a straight line with a check"
    )


SERIES = SeriesThresholds()
# What arrays of other kinds hold; scikit-learn looks for some of the words.
_OTHER = {"c": "complex numbers: Complex data not supported", "U": "text", "S": "text"}


def as_lists(time: Any, values: Any, several: bool) -> tuple[list[Any], list[Any]]:
    """Times and values of the trajectories, one entry each, also where there are not `several`.

    >>> as_lists([0, 1], [5.0, 6.0], several=False)
    ([[0, 1]], [[5.0, 6.0]])
    """
    times, blocks = (list(time), list(values)) if several else ([time], [values])
    if len(times) != len(blocks):
        raise InputError(
            f"{len(times)} arrays of times, but {len(blocks)} of values: give one of each for every trajectory"
        )
    return times, blocks


def float_arrays(time: ArrayLike, values: ArrayLike) -> tuple[Array, Array]:
    """Times [n] and values [n, states] as arrays."""
    t, v = real_numbers(time, "times").copy(), real_numbers(values, "values").copy()
    if v.ndim == 1:
        v = v[:, None]
    if t.ndim != 1 or v.ndim != 2 or len(t) != len(v) or v.shape[1] == 0:
        raise InputError(f"expected times [n] and values [n, states], got shapes {t.shape} and {v.shape}")
    return t, v


def real_numbers(x: Any, name: str) -> Array:
    """Anything that holds real numbers as an array of floats, missing and masked ones as nan.

    >>> real_numbers(np.ma.masked_equal([1, 2], 2), "X").tolist()
    [1.0, nan]
    """
    if issparse(x):
        raise InputError(f"{name}: expected a dense array, got a sparse one; use {name}.toarray()")
    try:
        held = np.ma.asarray(x) if isinstance(x, np.ma.MaskedArray) else np.asarray(x)
        if held.dtype.kind in "biufO":
            return np.ma.filled(held.astype(np.float64, copy=False), np.nan)
        reason, wrong = _OTHER.get(held.dtype.kind, str(held.dtype)), InputError
    except (TypeError, ValueError) as error:
        reason = " ".join(str(error).split())
        wrong = InputTypeError if isinstance(error, TypeError) else InputError
    raise wrong(f"{name}: expected an array of real numbers, got {reason}; convert it")


def deviations_of(trajectory: Trajectory) -> Array:
    """Standard deviations [n, states], nan where unknown."""
    known = trajectory.sigma
    return np.full(trajectory.values.shape, np.nan) if known is None else known


def with_sigma(
    trajectories: Sequence[Trajectory], names: Sequence[str], sigma: Sequence[Array], noise: Mapping[str, float] | None
) -> tuple[Trajectory, ...]:
    """Trajectories with their standard deviations, None where nothing is known of them."""
    known = with_levels(sigma, [run.values for run in trajectories], names, noise)
    return tuple(
        replace(run, sigma=None if np.isnan(block).all() else block)
        for run, block in zip(trajectories, known, strict=True)
    )


def checked_trajectory(
    time: Array, values: Array, label: str, rows: tuple[str, Sequence[int]], time_name: str, hint: str = ""
) -> Trajectory:
    """A trajectory whose times are finite and increase.

    Args:
        rows: what samples are called, and the number of each: ("line", [2, 3, 4]).
    """
    called, numbers = rows
    for k in map(int, np.flatnonzero(~np.isfinite(time))):
        raise InputError(f"{called} {numbers[k]}: the time {time_name!r} is missing or infinite")
    for k in map(int, np.flatnonzero(np.diff(time) <= 0)):
        how = "repeats" if time[k + 1] == time[k] else "goes back:"
        after = f"{time[k + 1]:.10g} after {time[k]:.10g} in {called} {numbers[k]}"
        where = f" of trajectory {label!r}" if label else ""
        raise InputError(f"{called} {numbers[k + 1]}{where}: the time {time_name!r} {how} {after}{hint}")
    samples = int(np.isfinite(values).any(axis=1).sum())
    if samples < 2:
        name = f"trajectory {label!r}" if label else "the series"
        raise InputError(f"{name} has {samples} sample{'s'[: samples != 1]} with a value; at least 2 are needed")
    return Trajectory(time, values, label)


def check_enough(trajectories: Sequence[Trajectory], states: Sequence[str]) -> None:
    """Whether every state has as many values as a fit needs."""
    for i, name in enumerate(states):
        count = sum(int(np.isfinite(t.values[:, i]).sum()) for t in trajectories)
        if count < SERIES.least_values:
            raise InputError(
                f"state {name!r} has {count} values in all; at least {SERIES.least_values} are needed to fit it"
            )
