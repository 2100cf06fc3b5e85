"""Where a law rests near the data, how it behaves there, and the lines along which one rate is 0.

f(x*) = 0;   the eigenvalues of df/dx at x* say whether the system comes back after a push
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.optimize import root

from odediscovery.laws.equations import Equations
from odediscovery.result.discovery import Discovery
from odediscovery.runtime.arrays import Array

# How far beyond the data points are sought, in ranges of the data, and from how many starts in each direction, for
# one, two and three states.
BEYOND, STARTS = 0.5, (25, 6, 4)
# Of the size of the box: points that are closer are one, or lie on the edge; and the step of central differences.
SAME, STEP = 1e-4, 1e-6
# Rates below it are 0, where rates at the data are 1.
NO_RATE = 1e-7
# Real parts below it are 0, imaginary ones above it turn, where the largest eigenvalue is 1.
CENTRE, TURNING = 1e-3, 1e-9
# What a point is that has neighbours at which the system rests too, as where a sum is conserved: there is no one
# place to name.
LINE = "one of a line of points"


@dataclass(frozen=True)
class Resting:
    """A point at which all rates are 0.

    Args:
        point: [states].
        kind: in words.
        stable: whether the system comes back after a push.
    """

    point: tuple[float, ...]
    kind: str
    stable: bool


def box_of(found: Discovery) -> Array:
    """Least and greatest value of every state in which points are sought [states, 2]; not below 0 for amounts."""
    ends = []
    for k in range(found.series.n_states):
        seen = np.concatenate([run.values[:, k] for run in found.series.trajectories])
        seen = seen[np.isfinite(seen)]
        low, high = (float(seen.min()), float(seen.max())) if seen.size else (0.0, 1.0)
        room = BEYOND * ((high - low) or abs(high) or 1.0)
        ends.append((0.0 if low >= 0 > low - room else low - room, high + room))
    return np.array(ends)


def resting_points(found: Discovery) -> list[Resting]:
    """The points near the data at which the law rests, by the first state.

    Points of a whole line of them are left out. Nothing for laws with inputs, of more than three states,
    with constants that differ by group, or for data whose range leaves that of numbers.

    >>> from odediscovery import discover, settings_for, simulate_system
    >>> found = discover(simulate_system("logistic"), settings_for(members=0))
    >>> [(round(one.point[0], 3), one.kind) for one in resting_points(found)]
    [(0.0, 'unstable node'), (100.0, 'stable node')]
    """
    equations, n = found.equations, len(found.equations.states)
    if equations.controls or found.population is not None or n > len(STARTS) or n != found.series.n_states:
        return []
    with np.errstate(over="ignore"):
        box = box_of(found)
        size = box[:, 1] - box[:, 0]
    if not np.isfinite(size).all():
        return []
    grid = [np.linspace(low, high, STARTS[n - 1]) for low, high in box]
    typical = _typical_rate(found)
    made: list[Resting] = []

    def rates(x: Array) -> Array:
        with np.errstate(all="ignore"):
            value: Array = equations.rhs(x[None])[0] / typical
        return np.where(np.isfinite(value), value, 1e6)

    for start in product(*grid):
        # On the edge a power may have no slope.
        edge = 1e-3 * size
        inside = np.clip(np.array(start), box[:, 0] + edge, box[:, 1] - edge)
        x = root(rates, inside, options={"xtol": 1e-12}).x
        # On an edge a power may have no value beyond it.
        x = np.where(np.abs(x - box[:, 0]) < SAME * size, box[:, 0], x)
        x = np.where(np.abs(x) < 1e-9 * size, 0.0, x)
        known = any(np.abs((np.array(one.point) - x) / size).max() < SAME for one in made)
        within = np.all((x >= box[:, 0]) & (x <= box[:, 1]))
        if within and not known and np.abs(rates(x)).max() < NO_RATE:
            made.append(_described(equations, x, size))
    made = [one for one in made if one.kind != LINE]
    return sorted(made, key=lambda one: one.point)


def _typical_rate(found: Discovery) -> Array:
    """The size of every rate at the data [states]."""
    values = np.concatenate([run.values for run in found.series.trajectories])
    values = values[np.isfinite(values).all(axis=1)]
    with np.errstate(all="ignore"):
        rates = np.abs(found.equations.rhs(values)) if len(values) else np.ones((1, values.shape[1]))
    typical = np.nanmax(np.where(np.isfinite(rates), rates, np.nan), axis=0)
    return np.where(np.isfinite(typical) & (typical > 0), typical, 1.0)


def _described(equations: Equations, x: Array, size: Array) -> Resting:
    """The point with the kind that its eigenvalues tell."""
    n, steps = len(x), STEP * size
    jacobian = np.zeros((n, n))
    for k in range(n):
        ahead, behind = x.copy(), x.copy()
        ahead[k] += steps[k]
        behind[k] = max(behind[k] - steps[k], 0.0) if x[k] >= 0 else behind[k] - steps[k]
        with np.errstate(all="ignore"):
            both = equations.rhs(np.stack([ahead, behind]))
        jacobian[:, k] = (both[0] - both[1]) / (ahead[k] - behind[k])
    point = tuple(x.tolist())
    if not np.isfinite(jacobian).all():
        return Resting(point, "not known", False)
    values = np.linalg.eigvals(jacobian)
    # Differences of rates are exact to a share of the largest eigenvalue only.
    largest = np.abs(values).max() or 1.0
    real, turns = values.real, bool(np.any(np.abs(values.imag) > TURNING * largest))
    near = np.abs(real) <= CENTRE * largest
    shape = "focus" if turns else "node"
    if near.any():
        kind = "centre, to first order" if turns and near.all() else LINE
    elif (real < 0).all():
        return Resting(point, f"stable {shape}", True)
    else:
        kind = f"unstable {shape}" if (real > 0).all() else "saddle"
    return Resting(point, kind, False)
