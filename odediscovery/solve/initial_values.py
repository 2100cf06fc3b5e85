"""Start values and the numbers q through which they are fitted without bounds.

    x_i = q_i^2 where x_i cannot be negative, else x_i = q_i;    then, for a sum with its value,
    x_i <- x_i V / (c . x)   for all its states, so that  c . x = V

A start of 0 is then no wall, and start values keep what is conserved whatever q is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from jaxtyping import Float

from odediscovery.data.series import TimeSeries
from odediscovery.runtime.arrays import Array, Mask


@dataclass(frozen=True)
class InitialValueThresholds:
    """How near to 0 a start may be."""

    # Least start of a nonnegative state: from exactly 0 a law with sqrt(x) may move or stay [rms of the state]
    least_start: float = 1e-8


INITIAL_VALUES = InitialValueThresholds()

# Weights c [states] and value V of sums that share no state; all their weights are positive and
# their states nonnegative.
Sums: TypeAlias = tuple[tuple[Array, float], ...]


@dataclass(frozen=True, eq=False)
class Starts:
    """Which starts are bounded, and which sums they keep.

    Args:
        nonnegative: states that do not start below 0 [states].
        sums: conserved sums with their values.
        known: first values that are known [trajectories, states], nan elsewhere; None for none.

    >>> starts = Starts(np.array([True, True]), ((np.array([1.0, 1.0]), 10.0),))
    >>> starts.values(np.array([[1.0, 2.0]])).tolist()
    [[2.0, 8.0]]
    """

    nonnegative: Mask
    sums: Sums = ()
    known: Array | None = None

    def roots(
        self, initial: Float[Array, "*rest states"], awake: Float[Array, " states"]
    ) -> Float[Array, "*rest states"]:
        """q of start values [trajectories, states], as if they were at least `awake` [states]."""
        least = np.maximum(initial, np.maximum(awake, INITIAL_VALUES.least_start))
        return np.where(self.nonnegative, np.sqrt(least), initial)

    def values(self, q: Float[Array, "*rest states"]) -> Float[Array, "*rest states"]:
        """Start values [..., states] of q."""
        x = self._unbound(q)
        for c, value in self.sums:
            x = np.where(c != 0, x * (value / (x @ c))[..., None], x)
        return x if self.known is None else np.where(np.isfinite(self.known), self.known, x)

    def slopes(self, q: Float[Array, " states"], trajectory: int = 0) -> Float[Array, "states states"]:
        """dx/dq of one trajectory's q [states] -> [states, states]."""
        x = self._unbound(q)
        slopes: Array = np.diag(np.where(self.nonnegative, 2.0 * q, 1.0))
        for c, value in self.sums:
            whole = c @ x
            scaled = value / whole * (slopes - np.outer(x, c @ slopes) / whole)
            slopes = np.where((c != 0)[:, None], scaled, slopes)
        if self.known is not None:
            slopes = np.where(np.isfinite(self.known[trajectory])[:, None], 0.0, slopes)
        return slopes

    def _unbound(self, q: Array) -> Array:
        """Start values that no sum binds yet."""
        return np.where(self.nonnegative, np.maximum(q * q, INITIAL_VALUES.least_start), q)


def known_starts(series: TimeSeries) -> Array | None:
    """First values of states, controls left out, that are known [trajectories, states]; None for none."""
    if all(run.recorded is None for run in series.trajectories):
        return None
    found: Array = np.stack([run.known_start for run in series.trajectories])[:, ~series.is_control]
    return found if np.isfinite(found).any() else None
