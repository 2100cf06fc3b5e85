"""Phase portraits: one state against another, with the vector field of the equations.

For a pair (x_i, x_k) arrows point along (dx_i/dt, dx_k/dt). Other states and inputs have their
values at the nearest point of the drawn curves, so that arrows near a curve follow it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from scipy.optimize import root

from odediscovery.data.series import pooled
from odediscovery.laws.equations import Equations
from odediscovery.plots.axes import COLOURS, HAIR, INK, LINE_WIDTH, PAPER, POINT, STRONG, Depth, ends_of, with_unit
from odediscovery.plots.fit import Course, colour, samples_look
from odediscovery.result.discovery import Discovery
from odediscovery.runtime.arrays import Array

# Arrows per row and per column, in cells of equal size.
ACROSS, UPWARDS = 13, 11


def portrait_pairs(equations: Equations) -> list[tuple[int, int]]:
    """At most six pairs of states to draw, coupled ones first."""
    symbols = equations.symbols[: len(equations.states)]
    free = [side.free_symbols for side in equations.right_hand_sides]

    def links(pair: tuple[int, int]) -> int:
        i, k = pair
        return int(symbols[k] in free[i]) + int(symbols[i] in free[k])

    return sorted(combinations(range(len(symbols)), 2), key=links, reverse=True)[:6]


def draw_portrait(
    axes: Axes, found: Discovery, runs: Sequence[Course], pair: tuple[int, int], rest: Sequence[Resting] = ()
) -> None:
    """Draw two states against each other; for a system of two states with nullclines and resting points."""
    states, chosen = found.equations.states, list(pair)
    alone = len(states) == 2
    at = np.concatenate([one.visited for one in runs])
    points = np.concatenate([one.points[:, chosen] for one in runs])
    both = np.concatenate([at[:, chosen], points[np.isfinite(points).all(axis=1)]])
    box = np.array([ends_of(column) for column in both.T])
    axes.set(xlim=box[0], ylim=box[1])
    _draw_field(axes, found.equations, at, chosen, box)
    if alone and not found.equations.controls and found.population is None:
        _draw_nullclines(axes, found.equations, chosen, box)
    for one in rest if alone else ():
        x, y = np.array(one.point)[chosen]
        face = INK if one.stable else PAPER
        axes.plot(x, y, "s", ms=POINT, color=INK, mfc=face, mew=LINE_WIDTH, zorder=Depth.FRONT)
    for n, run in enumerate(runs):
        x, y = run.visited[:, chosen].T
        hue = colour(n, len(runs))
        axes.plot(x, y, color=hue, zorder=Depth.CURVE)
        axes.plot(*run.points[:, chosen].T, zorder=Depth.POINT, **samples_look(runs, n))
        axes.plot(x[:1], y[:1], "o", ms=POINT, color=hue, mec=PAPER, zorder=Depth.MARK)
    axes.grid(visible=False)
    x_name, y_name = (with_unit(states[k], found.series.units) for k in pair)
    axes.set(xlabel=x_name, ylabel=y_name)


def _draw_field(axes: Axes, equations: Equations, at: Array, pair: list[int], box: Array) -> None:
    """Draw arrows as one line with gaps, which takes a few kilobytes for a hundred arrows."""
    # In units of cells, to preserve right angles on the page.
    cells, size = np.array([ACROSS, UPWARDS]), box[:, 1] - box[:, 0]
    middle = np.stack(np.meshgrid(np.arange(ACROSS) + 0.5, np.arange(UPWARDS) + 0.5), axis=-1).reshape(-1, 2)
    grid = box[:, 0] + size * middle / cells
    apart = (grid[:, None, :] - at[None, :, pair]) / size
    x = at[np.argmin((apart**2).sum(axis=2), axis=1)].copy()
    x[:, pair] = grid
    rates = equations.rhs(x)[:, pair] / size * cells
    speed = np.hypot(*rates.T)
    moving = np.isfinite(speed) & (speed > 0)
    if not moving.any():
        return
    along = rates[moving] / speed[moving, None]
    # Speeds differ by orders of magnitude, so lengths are logarithmic.
    rank = np.log(speed[moving])
    rank = (rank - rank.min()) / (np.ptp(rank) or 1.0)
    along *= (0.3 + (0.85 - 0.3) * rank)[:, None]
    tip, tail = middle[moving] + along / 2.0, middle[moving] - along / 2.0
    back, wing = tip - 0.32 * along, 0.16 * np.stack([-along[:, 1], along[:, 0]], axis=1)
    gap = np.full_like(tip, np.nan)
    line = np.stack([tail, tip, gap, back + wing, tip, back - wing, gap], axis=1).reshape(-1, 2)
    axes.plot(*(line / cells).T, alpha=STRONG, transform=axes.transAxes, solid_joinstyle="miter", **HAIR)


def _draw_nullclines(axes: Axes, equations: Equations, pair: list[int], box: Array) -> None:
    x, y = np.meshgrid(*np.linspace(box[:, 0], box[:, 1], 160).T)
    points = np.zeros((x.size, 2))
    points[:, pair] = np.stack([x.ravel(), y.ravel()], axis=1)
    rates = equations.rhs(points)
    for j, hue in zip(pair, (COLOURS[2], COLOURS[5]), strict=True):
        rate = np.where(np.isfinite(rates[:, j]), rates[:, j], np.nan).reshape(x.shape)
        if np.nanmin(rate, initial=0.0) < 0 < np.nanmax(rate, initial=0.0):
            axes.contour(x, y, rate, [0.0], colors=[hue], linewidths=LINE_WIDTH, linestyles="dashed", zorder=Depth.DATA)


# Starts per direction in the search for resting points, for one, two and three states.
STARTS = (25, 6, 4)
# Closer points are identical, or lie on the edge [size of the box].
SAME = 1e-4
# Kind of a point whose neighbours are resting points too, as if a sum is conserved; such points are not reported.
LINE = "one of a line of points"


class Resting(NamedTuple):
    """A point at which all rates are 0, its kind in words, and whether it is stable."""

    point: tuple[float, ...]
    kind: str
    stable: bool


def box_of(found: Discovery) -> Array:
    """Bounds of the search for resting points [states, 2]: half a range beyond the data, but at least 0 for amounts."""
    ends = []
    for values in pooled(found.series).T:
        seen = values[np.isfinite(values)]
        low, high = (float(seen.min()), float(seen.max())) if seen.size else (0.0, 1.0)
        room = 0.5 * ((high - low) or abs(high) or 1.0)
        ends.append((0.0 if low >= 0 > low - room else low - room, high + room))
    return np.array(ends)


def resting_points(found: Discovery) -> list[Resting]:
    """Find the isolated resting points of the law near the data, sorted by the first state.

    The list is empty for laws with inputs, with more than three states or of groups, and if the range overflows.
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
        # On the edge a power may have an infinite slope.
        edge = 1e-3 * size
        inside = np.clip(np.array(start), box[:, 0] + edge, box[:, 1] - edge)
        x = root(rates, inside, options={"xtol": 1e-12}).x
        # Beyond an edge a power may be undefined.
        x = np.where(np.abs(x - box[:, 0]) < SAME * size, box[:, 0], x)
        x = np.where(np.abs(x) < 1e-9 * size, 0.0, x)
        known = any(np.abs((np.array(one.point) - x) / size).max() < SAME for one in made)
        within = np.all((x >= box[:, 0]) & (x <= box[:, 1]))
        if within and not known and np.abs(rates(x)).max() < 1e-7:
            made.append(_described(equations, x, size))
    made = [one for one in made if one.kind != LINE]
    return sorted(made, key=lambda one: one.point)


def _typical_rate(found: Discovery) -> Array:
    """Largest size of every rate at the data [states]."""
    values = pooled(found.series)
    rates = np.abs(found.equations.rhs(values[np.isfinite(values).all(axis=1)]))
    typical = np.max(rates, axis=0, initial=0.0, where=np.isfinite(rates))
    return np.where(typical > 0, typical, 1.0)


def _described(equations: Equations, x: Array, size: Array) -> Resting:
    """Classify a point by the eigenvalues of the Jacobian."""
    n, steps = len(x), np.diag(1e-6 * size)
    # Central differences [of, by], with amounts at least 0.
    ends = np.array([x + steps, np.where(x >= 0, np.maximum(x - steps, 0.0), x - steps)])
    ahead, behind = equations.rhs(ends.reshape(2 * n, n)).reshape(2, n, n)
    jacobian = ((ahead - behind) / np.diag(ends[0] - ends[1])[:, None]).T
    point = tuple(x.tolist())
    if not np.isfinite(jacobian).all():
        return Resting(point, "not known", False)
    values = np.linalg.eigvals(jacobian)
    # The error of differences is proportional to the largest eigenvalue.
    largest = np.abs(values).max() or 1.0
    real, turns = values.real, bool(np.any(np.abs(values.imag) > 1e-9 * largest))
    near = np.abs(real) <= 1e-3 * largest
    shape = "focus" if turns else "node"
    if near.any():
        kind = "centre, to first order" if turns and near.all() else LINE
    elif (real < 0).all():
        return Resting(point, f"stable {shape}", True)
    else:
        kind = f"unstable {shape}" if (real > 0).all() else "saddle"
    return Resting(point, kind, False)
