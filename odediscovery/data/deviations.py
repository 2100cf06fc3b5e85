"""Standard deviations that a user gives: by columns, arrays or one level a state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

from odediscovery.errors import InputError, unknown_name
from odediscovery.runtime.arrays import Array


def check_deviations(sigma: Array, values: Array, places: Sequence[str], state: str) -> Array:
    """Standard deviations of the values of a state [samples], nan where it has no value.

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


def with_levels(
    sigma: Sequence[Array], values: Sequence[Array], names: Sequence[str], noise: Mapping[str, float] | None
) -> list[Array]:
    """Standard deviations [samples, states] a trajectory, those of some states the same everywhere.

    >>> with_levels([np.full((1, 1), np.nan)], [np.ones((1, 1))], ["S"], {"S": 2.0})[0].tolist()
    [[2.0]]
    """
    blocks = list(sigma)
    for name, level in (noise or {}).items():
        if name not in names:
            raise unknown_name("state with a noise level", name, names)
        if not isinstance(level, Real) or not 0.0 < float(level) < np.inf:
            raise InputError(
                f"noise level of {name!r}: expected a positive number in its unit, got {level!r}; "
                "give its standard deviation"
            )
        i = list(names).index(name)
        if any(np.isfinite(block[:, i]).any() for block in blocks):
            raise InputError(f"state {name!r} has both standard deviations and a noise level; give one of them")
        here = np.arange(len(names)) == i
        blocks = [
            np.where(here & np.isfinite(value), float(level), block)
            for block, value in zip(blocks, values, strict=True)
        ]
    return blocks


def array_deviations(
    given: Sequence[Any], values: Sequence[Array], labels: Sequence[str], names: Sequence[str]
) -> list[Array]:
    """Standard deviations that came as arrays, [samples, states] a trajectory, nan where unknown."""
    if len(given) != len(values):
        raise InputError(
            f"{len(values)} trajectories, but {len(given)} arrays of standard "
            "deviations: give one a trajectory, None where unknown"
        )
    blocks = []
    for sigma, value in zip(given, values, strict=True):
        try:
            # A copy, in which samples without a value become nan below.
            block = np.array(np.full(value.shape, np.nan) if sigma is None else sigma, dtype=float)
        except (TypeError, ValueError) as error:
            raise InputError(f"sigma should be arrays of numbers: {error}") from None
        block = block[:, None] if block.ndim == 1 else block
        if block.shape != value.shape:
            raise InputError(
                f"sigma: expected arrays shaped like the values {value.shape}, got {block.shape}; "
                "give nan for a state whose noise is unknown"
            )
        blocks.append(block)
    for i in map(int, np.flatnonzero(~np.isnan(np.concatenate(blocks)).all(axis=0))):
        for label, block, value in zip(labels, blocks, values, strict=True):
            where = f" of trajectory {label!r}" if label else ""
            places = [f"sample {k}{where}, state {names[i]!r}" for k in range(len(block))]
            block[:, i] = check_deviations(block[:, i], value[:, i], places, names[i])
    return blocks
