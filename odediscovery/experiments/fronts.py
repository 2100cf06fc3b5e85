"""Several methods in one Pareto picture, and their curves over the data beside it.

Drawn like everything in `plots`: size against error, both logarithmic, one colour for each method,
earlier results pale behind, each front a staircase, the answer a star.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, LogLocator, NullLocator, ScalarFormatter

from odediscovery.data.series import TimeSeries
from odediscovery.experiments.figures import LOOK, page
from odediscovery.plots.figures import INK, MUTED
from odediscovery.runtime.arrays import Array

# Marks in points: of what is drawn behind, of a method's models and of no more than `FEW` of them; the answer, in the
# legend too; white lines around marks.
PALE, PLAIN, LARGE, FEW = 4.5, 5.5, 7.5, 20
STAR, STAR_IN_LEGEND, EDGE = 19.0, 13.0, 0.7
# What remains of the colour of what is drawn behind.
PALENESS = 0.33
# Letters beside a star, so many points apart from it; they need a share of the axis as room.
LABEL, APART, ROOM = 9.0, 10.0, 0.3
# Left, bottom, width and height of the inset as shares of the axes, and letters at its ticks.
INSET, INSET_LETTERS = (0.3, 0.36, 0.67, 0.3), 8.0
# Points of a curve; margin of the data above and below, as a share of their range: curves may leave it.
POINTS, MARGIN = 400, 0.05
# Of the states: none of the colours that methods usually have.
STATES = ("#0072B2", "#CC79A7", "#444444", "#56B4E9", "#E69F00", "#009E73", "#D55E00")
SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500)


@dataclass(frozen=True, eq=False)
class Cloud:
    """Models of one method: (parameters, error) of each, [models].

    Args:
        label: for the legend.
        colour: a matplotlib colour.
        marker: a matplotlib marker.
        parameters, errors: one of each a model.
        pale: results of others, drawn behind.
        front: draw the staircase of those that no other beats.
        star: index of the answer, or None.
    """

    label: str
    colour: str
    marker: str
    parameters: Array
    errors: Array
    pale: bool = False
    front: bool = True
    star: int | None = None


@dataclass(frozen=True, eq=False)
class Curve:
    """A solution to draw over the data: values [times, states], nan where it has none."""

    label: str
    times: Array
    values: Array
    style: str = "-"


def fronts_figure(
    clouds: Sequence[Cloud],
    series: TimeSeries,
    curves: Sequence[Curve],
    errors: tuple[float, float],
    closer: tuple[float, float] | None = None,
) -> Figure:
    """Pareto fronts at the left, data and fitted curves at the right.

    Args:
        clouds: what stands behind comes first.
        series: its first trajectory is shown.
        curves: solutions of that trajectory.
        errors: ends of the axis of errors; models outside are not seen.
        closer: errors that an inset shows once more, where methods lie close together.
    """
    figure = page(rows=2 if closer else 1)
    left, right = figure.subplots(1, 2, width_ratios=(1.25, 1.0))
    for depth, cloud in enumerate(clouds):
        _draw_cloud(left, cloud, 2 + depth)
    _frame(left, errors)
    for cloud in clouds:
        _label_star(left, cloud)
    if closer is not None:
        _draw_inset(left, clouds, closer)
    _draw_curves(right, series, curves)
    left.legend(handles=_handles(clouds), loc="lower right")
    return figure


def _draw_cloud(axes: Axes, cloud: Cloud, depth: int) -> None:
    x, y = cloud.parameters, cloud.errors
    size = PALE if cloud.pale else LARGE if len(x) <= FEW else PLAIN
    look: dict[str, Any] = {"alpha": PALENESS, "mec": "none"} if cloud.pale else {"alpha": 1.0, "mec": "white"}
    axes.plot(x, y, cloud.marker, color=cloud.colour, mew=EDGE, ms=size, zorder=depth, **look)
    if cloud.front:
        order = np.lexsort((y, x))
        least = np.minimum.accumulate(y[order])
        alpha = LOOK.faint if cloud.pale else 1.0
        axes.step(x[order], least, where="post", color=cloud.colour, alpha=alpha, zorder=depth)
    if cloud.star is not None:
        at = x[cloud.star], y[cloud.star]
        axes.plot(*at, "*", color=cloud.colour, mec="white", ms=STAR, zorder=depth + 1)


def _draw_inset(axes: Axes, clouds: Sequence[Cloud], errors: tuple[float, float]) -> None:
    """The same clouds between two errors, in the gap between published models and the answer."""
    inset = axes.inset_axes(INSET, zorder=2 * len(clouds) + 2)
    for depth, cloud in enumerate(clouds):
        _draw_cloud(inset, cloud, 2 + depth)
    _frame(inset, errors)
    inset.set(title="", xlabel="", ylabel="", xlim=axes.get_xlim())
    inset.tick_params(labelsize=INSET_LETTERS)
    axes.indicate_inset_zoom(inset, edgecolor=MUTED, alpha=LOOK.faint)


def _label_star(axes: Axes, cloud: Cloud) -> None:
    """What the chosen model is, on the side of its star where there is room."""
    if cloud.star is None:
        return
    at = cloud.parameters[cloud.star], cloud.errors[cloud.star]
    place = axes.transAxes.inverted().transform(axes.transData.transform(at))[0]
    shift, side = (APART, "left") if place < ROOM else (-APART, "right")
    axes.annotate(
        cloud.label.replace(", ", ",\n") + f"\n{at[0]:.0f} parameters\nMSE {at[1]:.1e}",
        at,
        xytext=(shift, 0),
        ha=side,
        va="center",
        textcoords="offset points",
        color=cloud.colour,
        fontsize=LABEL,
        fontweight="bold",
    )


def _frame(axes: Axes, errors: tuple[float, float]) -> None:
    axes.set(xscale="log", yscale="log", ylim=errors, title="Pareto fronts")
    axes.set(xlabel="number of parameters", ylabel="mean squared error")
    axes.yaxis.set_major_locator(LogLocator(numticks=12))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_locator(FixedLocator(SIZES))
    axes.xaxis.set_major_formatter(ScalarFormatter())
    axes.xaxis.set_minor_locator(NullLocator())


def _handles(clouds: Sequence[Cloud]) -> list[Line2D]:
    """One entry a cloud, those in front first."""
    return [
        Line2D(
            [],
            [],
            color=c.colour,
            marker="*" if c.star is not None else c.marker,
            ls="-" if c.front else "none",
            alpha=LOOK.faint if c.pale else 1.0,
            mec="white",
            ms=STAR_IN_LEGEND if c.star is not None else PLAIN if c.pale else LARGE,
            label=c.label,
        )
        for c in reversed(clouds)
    ]


def _draw_curves(axes: Axes, series: TimeSeries, curves: Sequence[Curve]) -> None:
    run = series.trajectories[0]
    for k, state in enumerate(series.states):
        colour = STATES[k % len(STATES)]
        axes.plot(run.time, run.values[:, k], "o", mfc="white", mec=colour, zorder=3)
        for curve in curves:
            axes.plot(curve.times, curve.values[:, k], curve.style, color=colour)
        axes.annotate(
            state,
            (run.time[-1], run.values[-1, k]),
            xytext=(APART, 0),
            va="center",
            textcoords="offset points",
            color=colour,
            fontweight="bold",
        )
    low, high = np.nanmin(run.values), np.nanmax(run.values)
    margin = MARGIN * (high - low)
    axes.set_ylim(low - margin, high + margin)
    axes.set_xlabel(series.time_name)
    axes.set_title("Data and fitted curves")
    marks = [Line2D([], [], ls="none", marker="o", mfc="white", mec=INK, label="data")]
    marks += [Line2D([], [], ls=c.style, color=MUTED, label=c.label) for c in curves]
    axes.legend(handles=marks, loc="upper right")
