"""How the samples of a trajectory came about, where that is more than a value with noise.

    O(x)_j = max(x_j, L_j)             for a value that is known to lie below L_j
    O(x)_j = x_j - x_(j-1)             for a cumulative count, whose increments have independent noise

What a law leaves of the data is O(curve) - O(data), also where it is judged. A start that is known is no
unknown of a fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odediscovery.runtime.arrays import Array, Mask


def spread_columns(values: NDArray[Any], places: Sequence[int], n: int, fill: float = np.nan) -> NDArray[Any]:
    """Values [..., k] in some of n columns, `fill` in the others.

    >>> spread_columns(np.array([1.0, 2.0]), [2, 0], 3).tolist()
    [2.0, nan, 1.0]
    """
    wide = np.full((*values.shape[:-1], n), fill, dtype=np.result_type(values, type(fill)))
    wide[..., list(places)] = values
    return wide


@dataclass(frozen=True, eq=False)
class Recorded:
    """What is known of the samples of one trajectory.

    Args:
        start: known first values [states], nan where unknown.
        limit: below which the values lie that could not be measured [samples, states], nan elsewhere.
        seen: which values there are [samples, states].
        counted: states that are cumulative counts [states].
        given: what was added to a state by doses up to each sample [samples, states]; None for nothing.

    >>> limit, seen = np.full((3, 1), np.nan), np.ones((3, 1), bool)
    >>> counts = Recorded(np.array([0.0]), limit, seen, np.array([True]))
    >>> counts.observed(np.array([[2.0], [5.0], [9.0]])).ravel().tolist()
    [2.0, 3.0, 4.0]
    """

    start: Array
    limit: Array
    seen: Mask
    counted: Mask
    given: Array | None = None

    @property
    def censored(self) -> Mask:
        """Values that lie below a limit [samples, states]."""
        return np.isfinite(self.limit)

    def part(self, samples: Any) -> Recorded:
        """Of some of the samples; the start is that of the first one."""
        first = np.arange(len(self.seen))[samples][:1]
        start = self.start if len(first) and first[0] == 0 else np.full_like(self.start, np.nan)
        given = None if self.given is None else self.given[samples]
        return Recorded(start, self.limit[samples], self.seen[samples], self.counted, given)

    def scaled(self, size: Array) -> Recorded:
        """For x' = x / size [states]."""
        given = None if self.given is None else self.given / size
        return Recorded(self.start / size, self.limit / size, self.seen, self.counted, given)

    def spread(self, places: Sequence[int], n: int) -> Recorded:
        """In some of n columns, nothing known of the others."""
        start, limit = (spread_columns(values, places, n) for values in (self.start, self.limit))
        seen, counted = (spread_columns(values, places, n, False) for values in (self.seen, self.counted))
        given = None if self.given is None else spread_columns(self.given, places, n, 0.0)
        return Recorded(start, limit, seen, counted, given)

    def select(self, columns: Any) -> Recorded:
        """Of some of the states."""
        start, limit, seen = self.start[columns], self.limit[:, columns], self.seen[:, columns]
        given = None if self.given is None else self.given[:, columns]
        return Recorded(start, limit, seen, self.counted[columns], given)

    def observed(self, x: Array) -> Array:
        """O of curves or data [samples, states, ...]."""
        if self.censored.any():
            limit = self.limit.reshape(*self.limit.shape, *[1] * (x.ndim - 2))
            x = np.where(np.isfinite(limit), np.fmax(x, limit), x)
        return self._increments(x)

    def linearised(self, slopes: Array, x: Array) -> Array:
        """Derivatives of O(x) [samples, states, unknowns], from those of x along the curve x [samples, states]."""
        return self._increments(np.where((self.censored & ~(x > self.limit))[..., None], 0.0, slopes))

    def _increments(self, x: Array) -> Array:
        found = x.copy() if self.counted.any() else x
        for i, rows in self._counts():
            found[rows[1:], i] = x[rows[1:], i] - x[rows[:-1], i]
        return found

    def summed(self, left: Array) -> Array:
        """Curve - data [samples, states] of what is left of the increments."""
        found = left.copy() if self.counted.any() else left
        for i, rows in self._counts():
            found[rows, i] = np.cumsum(left[rows, i])
        return found

    def _counts(self) -> list[tuple[int, Any]]:
        """States that are cumulative counts, and their samples."""
        return [(int(i), np.flatnonzero(self.seen[:, i])) for i in np.flatnonzero(self.counted)]

    def filled(self, values: Array) -> Array:
        """Values that are smoothed: half the limit where nothing could be measured, doses taken away."""
        filled: Array = np.where(self.censored, 0.5 * np.nan_to_num(self.limit), values)
        return filled if self.given is None else filled - self.given
