"""Trajectories, checked once: times that increase, enough values, standard deviations that fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from odediscovery.data.deviations import with_levels
from odediscovery.data.signals import Trajectory
from odediscovery.errors import InputError
from odediscovery.runtime.arrays import Array
from odediscovery.runtime.thresholds import Thresholds, threshold


@dataclass(frozen=True)
class SeriesThresholds(Thresholds):
    """What a series needs to be fitted."""

    least_values: int = threshold(
        4, "values of a state", origin="fewer determine no law, not even a straight line with a check"
    )


SERIES = SeriesThresholds()


def float_arrays(time: ArrayLike, values: ArrayLike) -> tuple[Array, Array]:
    """Times [n] and values [n, states] as arrays.

    Raises:
        InputError: no numbers, or shapes that do not fit.
    """
    try:
        t, v = np.array(time, dtype=np.float64), np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"times and values should be arrays of numbers: {error}") from None
    if v.ndim == 1:
        v = v[:, None]
    if t.ndim != 1 or v.ndim != 2 or len(t) != len(v) or v.shape[1] == 0:
        raise InputError(f"expected times [n] and values [n, states], got shapes {t.shape} and {v.shape}")
    return t, v


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
    """Whether every state has as many values as a fit needs.

    Raises:
        InputError: one has not.
    """
    for i, name in enumerate(states):
        count = sum(int(np.isfinite(t.values[:, i]).sum()) for t in trajectories)
        if count < SERIES.least_values:
            raise InputError(
                f"state {name!r} has {count} values in all; at least {SERIES.least_values} are needed to fit it"
            )
