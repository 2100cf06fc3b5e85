"""The Pareto front: complexity against error as a staircase, the choice marked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator, ScalarFormatter
from numpy.typing import NDArray

import odediscovery.plots.axes as style
from odediscovery.plots.axes import label_decades
from odediscovery.result.discovery import Discovery
from odediscovery.result.front import FrontRow
from odediscovery.runtime.arrays import Array

# Distance of errors below the cut of the axis, as a factor.
CUT_STEP = 2.5


def front_of(found: Discovery) -> tuple[list[FrontRow], Array, Array, int]:
    """The rows of a front, simplest first, their complexities and errors, and the index of the chosen one."""
    rows = sorted(found.front, key=lambda row: row.complexity)
    cost, error = (np.array([getattr(row, name) for row in rows], float) for name in ("complexity", "mse"))
    return rows, cost, error, next(i for i, row in enumerate(rows) if row.selected)


def draw_front(
    axes: Axes,
    cost: Array,
    error: Array,
    chosen: int,
    names: Mapping[int, str] | None = None,
    meaning: tuple[str, str] = ("candidate equations", "chosen"),
) -> None:
    """Draw a point per row, the staircase of the best so far, and a star for the chosen row.

    The first rows with names get marks of their own and entries in the legend; `meaning` labels plain points and star.
    """
    names, own, plain = names or {}, zip(style.COLOURS[2:], "sD^vP", strict=False), meaning[0]
    drawn, floor, lower = cut_axis(error)
    axes.set_yscale("log")
    places = np.argsort(cost, kind="stable")
    places = places[np.isfinite(drawn[places])]
    axes.step(cost[places], np.minimum.accumulate(drawn[places]), where="post", color=style.MUTED, **style.LINE)

    for i in places.tolist():
        look: dict[str, Any] = {"ms": style.POINT, "mec": style.PAPER, "zorder": style.Depth.MARK, "gid": f"point-{i}"}
        if i == chosen:
            look |= {"marker": "*", "ms": 16.0, "color": style.COLOURS[1], "label": meaning[1]}
            look |= {"zorder": style.Depth.FRONT}
        elif i in names and (mark := next(own, None)):
            look |= {"marker": mark[1], "ms": 8.0, "color": mark[0], "label": names[i]}
        else:
            look |= {"marker": "o", "color": style.COLOURS[0], "label": plain}
            plain = ""
        axes.plot(cost[i], drawn[i], ls="none", **look)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    if len(places) and cost[places].max() > 3.0 * np.median(cost[places]):  # on a linear axis, small laws would overlap
        axes.set_xscale("log")
        sizes = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 200, 300, 500, 1000, 2000, 5000)
        axes.xaxis.set_major_locator(FixedLocator(sizes))
        axes.xaxis.set_major_formatter(ScalarFormatter())
        axes.xaxis.set_minor_locator(NullLocator())
    axes.margins(0.12)
    if lower.any():
        _draw_cut(axes, cost[lower], error[lower], drawn[lower], floor)
    else:
        label_decades(axes, *axes.get_ylim())


def cut_axis(error: Array) -> tuple[Array, float, NDArray[np.bool_]]:
    """Drawn positions of errors, the cut of the axis, and the errors below it, of nearly perfect laws."""
    known = error[np.isfinite(error)]
    positive = np.sort(known[known > 0])
    if not positive.size:
        return np.where(np.isfinite(error), 1.0, np.nan), 0.1, np.zeros(len(error), bool)
    gaps = positive[1:] / positive[:-1]
    # If the widest gap is wide enough, it separates nearly perfect laws from the others.
    wide = int(np.argmax(gaps)) if gaps.size else 0
    cut = positive[wide + 1] if gaps.size and gaps[wide] > 1e4 else positive[0]
    floor = float(cut) / 10.0
    lower = np.isfinite(error) & (error < floor)
    ranks = np.zeros(len(error))
    ranks[lower] = np.argsort(np.argsort(-error[lower]))
    return np.where(lower, floor * CUT_STEP ** -(ranks + 1.0), error), floor, lower


def _draw_cut(axes: Axes, cost: Array, error: Array, drawn: Array, floor: float) -> None:
    """Draw the line at which the axis is cut, and the errors below it as text."""
    axes.axhline(floor, ls=":", **style.HAIR)
    low, high = axes.get_ylim()
    label_decades(axes, floor, high)
    axes.set_ylim(min(low, float(drawn.min()) / CUT_STEP**3), high)
    # At the left, away from the staircase.
    left: dict[str, Any] = {"textcoords": "offset points", "va": "top", **style.NOTE}
    axes.annotate(
        "below: not to scale", (0.0, floor), (style.SAMPLE, 0.0), axes.get_yaxis_transform(), ha="left", **left
    )
    for x, y, value in zip(cost, drawn, error, strict=True):
        axes.annotate(f"{value:.2g}", (x, y), (-style.POINT, -style.SAMPLE), ha="right", **left)


def meaning_of_complexity(found: Discovery) -> str:
    """Label of the axis of complexities, with their definition."""
    if found.settings.recipe != "default":
        return "complexity (parameters above 0.001, gates included)"
    if found.equations.power_sum is not None:
        return "complexity (constants + states used)"
    return "complexity (nodes of the expression tree)"
