"""Even times that were rounded when they were written: 0.1724, 0.3448, 0.5172 were 0.17241..., 0.34482..., 0.51724...

    |t_k - t_0 - m_k h| < last digit / 2

for some t_0 and h and whole numbers m_k. The last digit of the times is often larger than the noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog

from odediscovery.data.recorded.digits import DIGITS, rounding_step
from odediscovery.runtime.arrays import Array
from odediscovery.runtime.thresholds import Thresholds, threshold


@dataclass(frozen=True)
class EvenTimesThresholds(Thresholds):
    """When times are taken for even ones that were rounded."""

    least: int = 8  # samples of a trajectory that shows the step
    coarsest: float = 10.0  # least step [last digits]
    within: float = threshold(
        0.499, "most that a time is off", unit="last digits", origin="rounding; what is off by just a half was counted"
    )
    half: float = threshold(
        0.5001, "the same of a grid from the first to the last time", unit="last digits", origin="rounding"
    )
    compared: int = 2000  # samples by which the step is found


EVEN_TIMES = EvenTimesThresholds()


def even_times(times: Sequence[Array]) -> tuple[list[Array], float] | None:
    """All times on one even grid, and its step, where rounding explains how far they are off it.

    Args:
        times: of every trajectory, increasing [samples].

    Returns:
        None where times are even as they are written, or uneven.

    >>> grid, step = even_times([np.linspace(0.0, 1.0, 8).round(3)])
    >>> round(step, 3), grid[0].round(5).tolist()[:3]
    (0.143, [0.0, 0.14286, 0.28571])
    >>> even_times([np.array([0.0, 14, 29, 42, 56, 71, 84, 98, 112])]) is None
    True
    """
    longest = max(times, key=len)
    if len(longest) < EVEN_TIMES.least:
        return None
    pooled = np.concatenate(list(times))
    step, digit = float(longest[-1] - longest[0]) / (len(longest) - 1), rounding_step(pooled)
    if not (digit > 0.0).all() or step < EVEN_TIMES.coarsest * digit.max():
        return None
    anchored = (float(longest[0]), step)
    place = np.round((pooled - longest[0]) / step)

    def off(first: float, step: float) -> Array:
        """How far the times are off a grid, in last digits."""
        distance: Array = np.abs(pooled - first - step * place) / digit
        return distance

    nearest = _nearest_grid(place, pooled, digit)
    already = off(*anchored) * digit <= DIGITS.same_digit * np.abs(pooled).max()
    if already.all() or off(*nearest).max() > EVEN_TIMES.within:
        return None
    # The first and the last time are most often as they were meant.
    first, step = anchored if off(*anchored).max() <= EVEN_TIMES.half else nearest
    ends = np.cumsum([len(t) for t in times])[:-1]
    return np.split(first + step * place, ends), step


def _nearest_grid(place: Array, times: Array, digit: Array) -> tuple[float, float]:
    """First time and step of the grid of which the largest error, in last digits, is least."""
    some = np.unique(np.linspace(0, len(times) - 1, min(len(times), EVEN_TIMES.compared)).astype(int))
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
