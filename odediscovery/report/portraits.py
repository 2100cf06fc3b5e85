"""Phase portraits: one state against another, with the vector field of the equations.

For a pair (x_i, x_k) arrows point along (dx_i/dt, dx_k/dt). Where there are other states or inputs,
an arrow takes them as they are at the nearest point of the drawn curves, so that along a curve the
arrows follow it. A single state is drawn as its rate against itself: where the rate crosses 0 it
rests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from markupsafe import Markup
from matplotlib import rc_context
from matplotlib.axes import Axes

from odediscovery.laws.equations import Equations
from odediscovery.plots.diagnostics.resting import Resting
from odediscovery.plots.pieces import draw_zero
from odediscovery.plots.theme import COLOURS, HAIR, INK, MARKS, PANEL_POINTS, PAPER, ROOM, SHADES, STROKES, Depth
from odediscovery.report.curves import Drawn, ring, with_unit
from odediscovery.report.drawing import DRAWN, PANEL, colour, inline, panel
from odediscovery.result.discovery import Discovery
from odediscovery.result.units import rate_label
from odediscovery.runtime.arrays import Array

MAX_PORTRAITS = 6
# Arrows in a row and in a column, and how long they are, in cells.
ACROSS, UPWARDS = 13, 11
LONGEST_ARROW, SHORTEST_ARROW, ARROW_HEAD = 0.85, 0.3, 0.32
NULLCLINE_POINTS = 160
_REST: dict[str, Any] = {"ms": MARKS.point, "color": INK, "mew": STROKES.line, "zorder": Depth.FRONT}
_NULLCLINE: dict[str, Any] = {"linewidths": STROKES.line, "linestyles": "dashed", "zorder": Depth.DATA}


@dataclass(frozen=True)
class Portrait:
    """A drawing with what stands beneath it; `of` are the names of its axes."""

    of: tuple[str, ...]
    svg: Markup


def portraits(found: Discovery, runs: Sequence[Drawn], rest: Sequence[Resting] = ()) -> list[Portrait]:
    """Phase portraits of pairs of states, those that act on each other first; of two states with nullclines.

    Args:
        found: a result.
        runs: the trajectories that are drawn.
        rest: points at which the law rests.
    """
    runs = [d for d in runs if len(d.visited)]
    if not runs:
        return []
    states = found.equations.states
    if len(states) == 1:
        return [Portrait(states, _rate(found, runs))]
    links = _links(found.equations)
    pairs = sorted(combinations(range(len(states)), 2), key=lambda p: -int(links[p] + links[p[::-1]]))
    return [Portrait((states[i], states[k]), _pair(found, runs, i, k, rest)) for i, k in pairs[:MAX_PORTRAITS]]


def _links(equations: Equations) -> Array:
    """Whether a state stands in an equation, 1 or 0 [equations, states]."""
    symbols = equations.symbols[: len(equations.states)]
    free = [side.free_symbols for side in equations.right_hand_sides]
    return np.array([[float(symbol in names) for symbol in symbols] for names in free])


def _pair(found: Discovery, runs: Sequence[Drawn], i: int, k: int, rest: Sequence[Resting]) -> Markup:
    states, series = found.equations.states, found.series
    with rc_context(DRAWN):
        figure, (axes,) = panel(height=PANEL.tall)
        at = np.concatenate([d.visited for d in runs])
        points = np.concatenate([d.points[:, [i, k]] for d in runs])
        points = points[np.isfinite(points).all(axis=1)]
        box = [_ends(at[:, j], points[:, c]) for c, j in enumerate((i, k))]
        axes.set_xlim(*box[0])
        axes.set_ylim(*box[1])
        _draw_field(axes, found.equations, at, (i, k), box)
        if len(states) == 2 and not found.equations.controls and found.population is None:
            _draw_nullclines(axes, found.equations, (i, k), box)
        for one in rest if len(states) == 2 else ():
            face = INK if one.stable else PAPER
            axes.plot(*np.array(one.point)[[i, k]], "s", mfc=face, **_REST)
        for n, d in enumerate(runs):
            x, y = d.visited[:, i], d.visited[:, k]
            axes.plot(x, y, color=colour(n), zorder=Depth.CURVE)
            axes.plot(d.points[:, i], d.points[:, k], zorder=Depth.POINT, **ring(len(runs), n, len(d.samples)))
            axes.plot(x[:1], y[:1], "o", ms=MARKS.point, color=colour(n), mec=PAPER, zorder=Depth.MARK)
        axes.grid(visible=False)
        axes.set_xlabel(with_unit(series, states[i]))
        axes.set_ylabel(with_unit(series, states[k]))
        label = f"{states[k]} against {states[i]} with the vector field"
        return inline(figure, f"phase{i}x{k}", label)


def _ends(curve: Array, points: Array) -> tuple[float, float]:
    both = np.concatenate([curve, points])
    low, high = float(both.min()), float(both.max())
    room = (high - low) or abs(high) or 1.0
    return low - ROOM.curves * room, high + ROOM.curves * room


def _draw_field(
    axes: Axes, equations: Equations, at: Array, pair: tuple[int, int], box: Sequence[tuple[float, float]]
) -> None:
    """Arrows as one line with gaps: a hundred arrows in a few kilobytes."""
    centres = [
        low + (high - low) * (np.arange(n) + 0.5) / n for (low, high), n in zip(box, (ACROSS, UPWARDS), strict=True)
    ]
    grid = np.stack(np.meshgrid(*centres), axis=-1).reshape(-1, 2)
    size = np.array([high - low for low, high in box])
    apart = (grid[:, None, :] - at[None, :, list(pair)]) / size
    x = at[np.argmin((apart**2).sum(axis=2), axis=1)].copy()
    x[:, list(pair)] = grid
    # In cells, so that a right angle on the page is one here.
    rates = equations.rhs(x)[:, list(pair)] / size * (ACROSS, UPWARDS)
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
    side = np.stack([-along[:, 1], along[:, 0]], axis=1)
    gap = np.full_like(tip, np.nan)
    wing = 0.5 * ARROW_HEAD * side
    strokes = np.stack(
        [tail, tip, gap, tip - ARROW_HEAD * along + wing, tip, tip - ARROW_HEAD * along - wing, gap], axis=1
    )
    line = strokes.reshape(-1, 2) / (ACROSS, UPWARDS)
    axes.plot(*line.T, alpha=SHADES.strong, transform=axes.transAxes, solid_joinstyle="miter", **HAIR)


def _draw_nullclines(
    axes: Axes, equations: Equations, pair: tuple[int, int], box: Sequence[tuple[float, float]]
) -> None:
    """Where the rate of each of two states is 0."""
    x, y = np.meshgrid(*(np.linspace(low, high, NULLCLINE_POINTS) for low, high in box))
    points = np.zeros((x.size, 2))
    points[:, pair[0]], points[:, pair[1]] = x.ravel(), y.ravel()
    with np.errstate(all="ignore"):
        rates = equations.rhs(points)
    for j, hue in zip(pair, (COLOURS[2], COLOURS[5]), strict=True):
        rate = np.where(np.isfinite(rates[:, j]), rates[:, j], np.nan).reshape(x.shape)
        if np.nanmin(rate, initial=0.0) < 0 < np.nanmax(rate, initial=0.0):
            axes.contour(x, y, rate, levels=[0.0], colors=[hue], **_NULLCLINE)


def _rate(found: Discovery, runs: Sequence[Drawn]) -> Markup:
    """dx/dt against x along the curves, and slopes between neighbouring samples."""
    state, series = found.equations.states[0], found.series
    with rc_context(DRAWN):
        figure, (axes,) = panel(height=PANEL.tall)
        free = not found.equations.controls
        for n, d in enumerate(runs):
            with np.errstate(all="ignore"):
                slopes = np.diff(d.points[:, 0]) / np.diff(d.run.time[d.samples])
            middle = (d.points[1:, 0] + d.points[:-1, 0]) / 2.0
            axes.plot(middle, slopes, **ring(len(runs), n, len(d.samples)))
            x = d.visited
            if free:
                x = np.linspace(*_ends(x[:, 0], middle[np.isfinite(middle)]), PANEL_POINTS)[:, None]
            axes.plot(x[:, 0], found.equations_of(d.index).rhs(x)[:, 0], color=colour(n), zorder=Depth.CURVE)
        draw_zero(axes)
        axes.set_xlabel(with_unit(series, state))
        axes.set_ylabel(rate_label(series, state).replace("\n", " "))
        return inline(figure, "rate", f"the rate of {state} against {state}")
