"""How many digits measured values and times were written with, and what that leaves out.

    y = x + e,    e uniform within half a unit of the last digit:    sigma = unit / sqrt(12)

m neighbours that were written alike share one error: each counts as 1 / m of a sample, sigma sqrt(m).

Values are written with as many decimal places (3.25, 0.07) or with as many significant digits
(97.47, 0.01234) throughout. Which one shows where small values have finer digits than large ones.

Even times that were rounded, 0.1724, 0.3448, 0.5172 for 0.17241..., 0.34482..., 0.51724..., lie on a grid:

    |t_k - t_0 - m_k h| < last digit / 2

for some t_0 and h and whole numbers m_k. The last digit of the times is often larger than the noise.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import linprog

from odediscovery.runtime.arrays import Array

# Which digits are looked for, and when times are taken for even ones that were rounded.
DECIMALS = (-6, 16)  # range of decimal places that are tried
SIGNIFICANT = 12  # most significant digits that are tried
SAME_DIGIT = 1e-14  # a number equals its rounded value to this [largest value]
LEAST = 8  # samples of a trajectory that shows the step of its times
COARSEST = 10.0  # least step [last digits]
WITHIN = 0.499  # most that a time is off, since what is off by just a half was counted [last digits]
HALF = 0.5001  # the same of a grid from the first to the last time: rounding [last digits]
COMPARED = 2000  # samples by which the step is found


def resolution(values: Array) -> float:
    """The last decimal place written, as a number: 0.01 for 3.25 and 4.1; 0 where there is none.

    >>> resolution(np.array([3.25, 4.1]))
    0.01
    """
    seen = values[np.isfinite(values)]
    largest = np.max(np.abs(seen), initial=0.0)
    for digits in range(*DECIMALS):
        if np.all(np.abs(np.round(seen, digits) - seen) <= SAME_DIGIT * largest):
            return float(10.0**-digits)
    return 0.0


def significant_digits(values: Array) -> int | None:
    """With how many significant digits values are written; None if with all that a float has.

    >>> significant_digits(np.array([97.47, 0.01234]))
    4
    """
    seen = values[np.isfinite(values) & (values != 0)]
    place = np.floor(np.log10(np.abs(seen)))
    for digits in range(1, SIGNIFICANT + 1):
        unit = 10.0 ** (place + 1 - digits)
        if np.all(np.abs(np.round(seen / unit) * unit - seen) <= SAME_DIGIT * np.abs(seen)):
            return digits
    return None


def rounding_step(values: Array) -> Array:
    """The last digit written of every value, as a number: 0 where there is none.

    The likelier of decimal places and significant digits: every zero at the end of a number that had to be no
    zero is a chance of one in ten.

    >>> rounding_step(np.array([97.47, 9.013, 0.5012])).round(6).tolist()
    [0.01, 0.001, 0.0001]
    >>> rounding_step(np.array([97.47, 9.01, 0.5])).tolist()
    [0.01, 0.01, 0.01]
    """
    unit, digits = resolution(values), significant_digits(values)
    step = np.full(values.shape, unit)
    if digits is not None:
        size = np.where(np.isfinite(values), np.abs(values), 0.0)
        least = np.min(size, initial=np.inf, where=size > 0)
        of_digits = 10.0 ** (np.floor(np.log10(np.maximum(size, least))) + 1 - digits)
        finer = np.log10(of_digits[size > 0] / unit) if unit else np.ones(1)
        step = of_digits if finer.sum() > 0 else step
    return step


def rounding_sigma(values: Array) -> Array:
    """Standard deviation of what rounding to the written digits left out, of every value; 0 if of none."""
    result: Array = rounding_step(values) / np.sqrt(12.0)
    return result


def lengths_of_runs(values: Array) -> Array:
    """How many neighbours of every value equal it, itself included; 1 where nothing was measured.

    >>> lengths_of_runs(np.array([3.2, 3.1, 3.1, 3.1, 3.2])).tolist()
    [1.0, 3.0, 3.0, 3.0, 1.0]
    """
    # nan differs from itself.
    run = np.cumsum(np.append(True, values[1:] != values[:-1])) - 1
    found: Array = np.bincount(run)[run].astype(float)
    return found


def even_times(times: Sequence[Array]) -> tuple[list[Array], float] | None:
    """Times [samples] of all trajectories on one even grid, and its step, where rounding explains how far they are off.

    None where times are even as they are written, or uneven.

    >>> grid, step = even_times([np.linspace(0.0, 1.0, 8).round(3)])
    >>> round(step, 3), grid[0].round(5).tolist()[:3]
    (0.143, [0.0, 0.14286, 0.28571])
    >>> even_times([np.array([0.0, 14, 29, 42, 56, 71, 84, 98, 112])]) is None
    True
    """
    longest = max(times, key=len)
    if len(longest) < LEAST:
        return None
    pooled = np.concatenate(list(times))
    step, digit = float(longest[-1] - longest[0]) / (len(longest) - 1), rounding_step(pooled)
    if not (digit > 0.0).all() or step < COARSEST * digit.max():
        return None
    anchored = (float(longest[0]), step)
    place = np.round((pooled - longest[0]) / step)

    def off(first: float, step: float) -> Array:
        """How far the times are off a grid, in last digits."""
        distance: Array = np.abs(pooled - first - step * place) / digit
        return distance

    nearest = _nearest_grid(place, pooled, digit)
    already = off(*anchored) * digit <= SAME_DIGIT * np.abs(pooled).max()
    if already.all() or off(*nearest).max() > WITHIN:
        return None
    # The first and the last time are most often as they were meant.
    first, step = anchored if off(*anchored).max() <= HALF else nearest
    ends = np.cumsum([len(t) for t in times])[:-1]
    return np.split(first + step * place, ends), step


def _nearest_grid(place: Array, times: Array, digit: Array) -> tuple[float, float]:
    """First time and step of the grid of which the largest error, in last digits, is least."""
    some = np.unique(np.linspace(0, len(times) - 1, min(len(times), COMPARED)).astype(int))
    rows = np.column_stack([np.ones(len(some)), place[some]]) / digit[some, None]
    y, one = times[some] / digit[some], np.ones((len(some), 1))
    found = linprog(
        [0.0, 0.0, 1.0],
        A_ub=np.vstack([np.hstack([rows, -one]), np.hstack([-rows, -one])]),
        b_ub=np.concatenate([y, -y]),
        bounds=[(None, None), (None, None), (0.0, None)],
    )
    # Without a solution, times stay as they are.
    return (float(found.x[0]), float(found.x[1])) if found.success else (float("inf"), 0.0)
