"""Trajectories, checked once: times that increase, enough values, standard deviations that fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse

from odediscovery.data.signals import Trajectory
from odediscovery.errors import InputError, InputTypeError, unknown_name
from odediscovery.runtime.arrays import Array


@dataclass(frozen=True)
class SeriesThresholds:
    """What a series needs to be fitted."""

    least_values: int = 4  # values of a state: fewer determine no law, not even a straight line with a check


SERIES = SeriesThresholds()
# What arrays of other kinds hold; scikit-learn looks for some of the words.
_OTHER = {"c": "complex numbers: Complex data not supported", "U": "text", "S": "text"}


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

    An `InputTypeError` says where numpy has a TypeError.

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


def checked_trajectories(
    runs: Sequence[tuple[str, Array, Array, tuple[str, Sequence[int]]]],
    states: Sequence[str],
    time_name: str,
    hint: str = "",
) -> list[Trajectory]:
    """Trajectories whose times are finite and increase, with as many values of every state as a fit needs.

    Args:
        runs: label, times [n], values [n, states], and what samples are called and the number of each, such as
            ("line", [2, 3, 4]), of every trajectory.
    """
    for label, time, values, (called, numbers) in runs:
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
    for name, count in zip(states, sum(np.isfinite(values).sum(axis=0) for _, _, values, _ in runs), strict=True):
        if count < SERIES.least_values:
            raise InputError(
                f"state {name!r} has {count} values in all; at least {SERIES.least_values} are needed to fit it"
            )
    return [Trajectory(time, values, label) for label, time, values, _ in runs]


def with_sigma(
    runs: Sequence[Trajectory], names: Sequence[str], sigma: Sequence[Array], noise: Mapping[str, float] | None
) -> tuple[Trajectory, ...]:
    """Trajectories with their standard deviations, None where nothing is known of them.

    Args:
        runs: of the states `names`.
        sigma: standard deviations [samples, states] a trajectory, nan where unknown; filled in.
        noise: standard deviation by state, of those that have the same everywhere.
    """
    for name, level in (noise or {}).items():
        if name not in names:
            raise unknown_name("state with a noise level", name, names)
        if not isinstance(level, Real) or not 0.0 < float(level) < np.inf:
            raise InputError(
                f"noise level of {name!r}: expected a positive number in its unit, got {level!r}; "
                "give its standard deviation"
            )
        i = list(names).index(name)
        if any(np.isfinite(block[:, i]).any() for block in sigma):
            raise InputError(f"state {name!r} has both standard deviations and a noise level; give one of them")
        for run, block in zip(runs, sigma, strict=True):
            block[np.isfinite(run.values[:, i]), i] = float(level)
    return tuple(
        replace(run, sigma=None if np.isnan(block).all() else block) for run, block in zip(runs, sigma, strict=True)
    )


def check_deviations(sigma: Array, values: Array, places: Sequence[str], state: str) -> Array:
    """Standard deviations of the values of a state [samples], nan where it has no value; `places` names every sample.

    >>> sigma, values = np.array([0.1, 0.2]), np.array([5.0, np.nan])
    >>> check_deviations(sigma, values, ["line 2", "line 3"], "S").tolist()
    [0.1, nan]
    """
    seen = np.isfinite(values)
    for k in map(int, np.flatnonzero(seen & ~((sigma > 0) & np.isfinite(sigma)))):
        got = "none" if np.isnan(sigma[k]) else f"{sigma[k]:.10g}"
        raise InputError(
            f"{places[k]}: expected a positive standard deviation of the {state!r} measured there, "
            f"got {got}; give one, or leave that value of {state!r} out"
        )
    known: Array = np.where(seen, sigma, np.nan)
    return known


def array_deviations(given: Sequence[Any], runs: Sequence[Trajectory], names: Sequence[str]) -> list[Array]:
    """Standard deviations that came as arrays, or None, [samples, states] a trajectory, nan where unknown.

    A state with any has one for every value.
    """
    if len(given) != len(runs):
        raise InputError(
            f"{len(runs)} trajectories, but {len(given)} arrays of standard "
            "deviations: give one a trajectory, None where unknown"
        )
    blocks = []
    for sigma, shape in zip(given, [run.values.shape for run in runs], strict=True):
        try:
            # A copy, in which samples without a value become nan below.
            block = np.array(np.full(shape, np.nan) if sigma is None else sigma, dtype=float)
        except (TypeError, ValueError) as error:
            raise InputError(f"sigma should be arrays of numbers: {error}") from None
        block = block[:, None] if block.ndim == 1 else block
        if block.shape != shape:
            raise InputError(
                f"sigma: expected arrays shaped like the values {shape}, got {block.shape}; "
                "give nan for a state whose noise is unknown"
            )
        blocks.append(block)
    for i in map(int, np.flatnonzero(~np.isnan(np.concatenate(blocks)).all(axis=0))):
        for run, block in zip(runs, blocks, strict=True):
            where = f" of trajectory {run.label!r}" if run.label else ""
            places = [f"sample {k}{where}, state {names[i]!r}" for k in range(len(block))]
            block[:, i] = check_deviations(block[:, i], run.values[:, i], places, names[i])
    return blocks
