"""Phase portraits: one state against another, with the vector field of the equations.

For a pair (x_i, x_k) arrows point along (dx_i/dt, dx_k/dt). Where there are other states or inputs,
an arrow takes them as they are at the nearest point of the drawn curves, so that along a curve the
arrows follow it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from matplotlib.axes import Axes

from odediscovery.laws.equations import Equations
from odediscovery.plots.axes import ends_of, with_unit
from odediscovery.plots.fit import Course, colour, samples_look
from odediscovery.plots.resting import Resting
from odediscovery.plots.theme import COLOURS, HAIR, INK, LINE_WIDTH, PAPER, POINT, STRONG, Depth
from odediscovery.result.discovery import Discovery
from odediscovery.runtime.arrays import Array

MAX_PORTRAITS = 6
# Arrows in a row and in a column, and how long they are, in cells.
ACROSS, UPWARDS = 13, 11
LONGEST_ARROW, SHORTEST_ARROW, ARROW_HEAD = 0.85, 0.3, 0.32
NULLCLINE_POINTS = 160


def portrait_pairs(equations: Equations) -> list[tuple[int, int]]:
    """The pairs of states that are drawn, those that act on each other first."""
    symbols = equations.symbols[: len(equations.states)]
    free = [side.free_symbols for side in equations.right_hand_sides]

    def links(pair: tuple[int, int]) -> int:
        i, k = pair
        return int(symbols[k] in free[i]) + int(symbols[i] in free[k])

    return sorted(combinations(range(len(symbols)), 2), key=links, reverse=True)[:MAX_PORTRAITS]


def draw_portrait(
    axes: Axes, found: Discovery, runs: Sequence[Course], pair: tuple[int, int], rest: Sequence[Resting] = ()
) -> None:
    """Two states against each other; of a system of just two with its nullclines and resting points.

    Args:
        runs: trajectories that visit something.
        rest: points at which the law rests.
    """
    states, alone = found.equations.states, len(found.equations.states) == 2
    chosen = list(pair)
    at = np.concatenate([one.visited for one in runs])
    points = np.concatenate([one.points[:, chosen] for one in runs])
    both = np.concatenate([at[:, chosen], points[np.isfinite(points).all(axis=1)]])
    box = [ends_of(both[:, 0]), ends_of(both[:, 1])]
    axes.set(xlim=box[0], ylim=box[1])
    _draw_field(axes, found.equations, at, chosen, box)
    if alone and not found.equations.controls and found.population is None:
        _draw_nullclines(axes, found.equations, chosen, box)
    for one in rest if alone else ():
        face = INK if one.stable else PAPER
        place = np.array(one.point)[chosen]
        axes.plot(*place, "s", ms=POINT, color=INK, mfc=face, mew=LINE_WIDTH, zorder=Depth.FRONT)
    for n, run in enumerate(runs):
        x, y = run.visited[:, chosen].T
        hue = colour(n, len(runs))
        axes.plot(x, y, color=hue, zorder=Depth.CURVE)
        axes.plot(*run.points[:, chosen].T, zorder=Depth.POINT, **samples_look(runs, n))
        axes.plot(x[:1], y[:1], "o", ms=POINT, color=hue, mec=PAPER, zorder=Depth.MARK)
    axes.grid(visible=False)
    axes.set_xlabel(with_unit(states[pair[0]], found.series.units))
    axes.set_ylabel(with_unit(states[pair[1]], found.series.units))


def _draw_field(
    axes: Axes, equations: Equations, at: Array, pair: list[int], box: Sequence[tuple[float, float]]
) -> None:
    """Arrows as one line with gaps: a hundred arrows in a few kilobytes."""
    centres = [
        low + (high - low) * (np.arange(n) + 0.5) / n for (low, high), n in zip(box, (ACROSS, UPWARDS), strict=True)
    ]
    grid = np.stack(np.meshgrid(*centres), axis=-1).reshape(-1, 2)
    size = np.array([high - low for low, high in box])
    apart = (grid[:, None, :] - at[None, :, pair]) / size
    x = at[np.argmin((apart**2).sum(axis=2), axis=1)].copy()
    x[:, pair] = grid
    # In cells, so that a right angle on the page is one here.
    rates = equations.rhs(x)[:, pair] / size * (ACROSS, UPWARDS)
    speed = np.hypot(*rates.T)
    moving = np.isfinite(speed) & (speed > 0)
    if not moving.any():
        return
    along = rates[moving] / speed[moving, None]
    # Speeds differ by orders of magnitude: lengths follow their rank on a logarithmic scale.
    rank = np.log(speed[moving])
    rank = (rank - rank.min()) / (np.ptp(rank) or 1.0)
    along *= (SHORTEST_ARROW + (LONGEST_ARROW - SHORTEST_ARROW) * rank)[:, None]
    middle = (grid[moving] - [low for low, _ in box]) / size * (ACROSS, UPWARDS)
    tip, tail = middle + along / 2.0, middle - along / 2.0
    back, wing = tip - ARROW_HEAD * along, 0.5 * ARROW_HEAD * np.stack([-along[:, 1], along[:, 0]], axis=1)
    gap = np.full_like(tip, np.nan)
    line = np.stack([tail, tip, gap, back + wing, tip, back - wing, gap], axis=1).reshape(-1, 2)
    axes.plot(*(line / (ACROSS, UPWARDS)).T, alpha=STRONG, transform=axes.transAxes, solid_joinstyle="miter", **HAIR)


def _draw_nullclines(axes: Axes, equations: Equations, pair: list[int], box: Sequence[tuple[float, float]]) -> None:
    """Where the rate of each of two states is 0."""
    x, y = np.meshgrid(*(np.linspace(low, high, NULLCLINE_POINTS) for low, high in box))
    points = np.zeros((x.size, 2))
    points[:, pair] = np.stack([x.ravel(), y.ravel()], axis=1)
    with np.errstate(all="ignore"):
        rates = equations.rhs(points)
    for j, hue in zip(pair, (COLOURS[2], COLOURS[5]), strict=True):
        rate = np.where(np.isfinite(rates[:, j]), rates[:, j], np.nan).reshape(x.shape)
        if np.nanmin(rate, initial=0.0) < 0 < np.nanmax(rate, initial=0.0):
            axes.contour(x, y, rate, [0.0], colors=[hue], linewidths=LINE_WIDTH, linestyles="dashed", zorder=Depth.DATA)
