"""Clear maxima: how often a state turns, as scipy.signal counts it, without loading all of that."""

from __future__ import annotations

import numpy as np

from odediscovery.runtime.arrays import Array


def count_peaks(values: Array, prominence: float) -> int:
    """How many local maxima stand out by at least `prominence`; a plateau is one, an end is none.

    A maximum stands out from the higher one of its two bases: the lowest values on either side, each before
    anything is higher than the maximum.

    >>> count_peaks(np.array([0.0, 3.0, 2.5, 2.6, 0.0, 1.0, 1.0, 0.5]), 0.5)
    2
    """
    if not len(values):
        return 0
    z = values[np.append(True, values[1:] != values[:-1])]
    peaks = np.flatnonzero((z[1:-1] > z[:-2]) & (z[1:-1] > z[2:])) + 1
    if not len(peaks):
        return 0
    # Before, between and behind maxima there is a single valley.
    tops, lows = z[peaks].tolist(), np.minimum.reduceat(z, np.append(0, peaks)).tolist()
    left, right = _bases(tops, lows[:-1]), _bases(tops[::-1], lows[:0:-1])[::-1]
    return sum(top - max(bases) >= prominence for top, *bases in zip(tops, left, right, strict=True))


def _bases(tops: list[float], lows: list[float]) -> list[float]:
    """The lowest value before each maximum, back to one that is higher; lows[i] is that just before tops[i]."""
    bases, higher = [], list[tuple[float, float]]()
    for top, low in zip(tops, lows, strict=True):
        while higher and higher[-1][0] <= top:
            low = min(low, higher.pop()[1])
        higher.append((top, low))
        bases.append(low)
    return bases
