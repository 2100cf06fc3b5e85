"""Common style and parts of the figures of all experiments.

A figure has rows of panels with methods side by side at each tick. Every run is a point and the median a short
line; errors beyond an axis are drawn at its ends. A Pareto picture shows size against error, both logarithmic,
with one colour for each method, earlier results pale behind, each front as a staircase, the answer as a star,
and curves over the data at the side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, LogLocator, NullLocator, ScalarFormatter

from odediscovery.data.series import TimeSeries
from odediscovery.plots.axes import COLOURS, INK, MUTED, empty_figure
from odediscovery.plots.axes import STYLE as SHARED
from odediscovery.runtime.arrays import Array

# Widths of guide lines and of the line of a median, in points; opacity of overlapping marks.
THIN, THICK, FAINT = 0.8, 2.4, 0.6
# Share of the space between two ticks that the methods fill.
GROUP = 0.8
# Ends of logarithmic axes of errors, and of axes of per cents and shares, with room for marks.
ERROR_ENDS, PER_CENTS, SHARES = (1e-7, 1e4), (-4.0, 104.0), (-0.02, 1.04)
STYLE: dict[Any, Any] = SHARED | {"legend.fontsize": 8.0, "lines.markersize": 4.0}


def page(rows: int = 1, *, wide: bool = False) -> Figure:
    """An empty figure for some rows of panels."""
    return empty_figure(14.0 if wide else 11.0, 4.8 + 2.2 * (rows - 1))


def aside(k: int, of: int) -> float:
    """Position of the k-th of `of` methods relative to their common tick."""
    return GROUP * (k - (of - 1) / 2) / of


def draw_runs(
    axis: Axes, at: float, values: Array, colour: str, label: str | None = None, *, lying: bool = False
) -> None:
    """Draw every run as a point, side by side, and the median as a short line; `lying`: along the other axis."""
    last = len(values) - 1
    beside = at + 0.12 * (np.arange(len(values)) - last / 2) / max(last, 1)
    points: tuple[Any, Any] = (beside, np.sort(values))
    middle: tuple[Any, Any] = (at, np.median(values))
    if lying:
        points, middle = points[::-1], middle[::-1]
    axis.plot(*points, ".", ms=6.0, color=colour, alpha=FAINT, label=label)
    axis.plot(*middle, "|" if lying else "_", ms=14.0, mew=THICK, color=colour)


def line_of(i: int) -> dict[str, Any]:
    """Colour and dash of line i; lines beyond the number of colours are dashed."""
    return {"color": COLOURS[i % len(COLOURS)], "ls": "-" if i < len(COLOURS) else "--"}


def draw_groups(
    axis: Axes,
    groups: Sequence[str],
    methods: Sequence[str],
    values: Mapping[Any, Array],
    *,
    ends: tuple[float, float] = (-np.inf, np.inf),
    colours: Sequence[str] = COLOURS,
    bars: bool = False,
    lying: bool = False,
    first: int = 0,
) -> None:
    """Draw methods side by side at the tick of every group, from position `first` on: runs of values by (group,
    method), clipped to the `ends`, or `bars` of their mean."""
    for k, method in enumerate(methods):
        label: str | None = method
        for i, group in enumerate(groups, start=first):
            if (group, method) not in values:
                continue
            at, runs = i + aside(k, len(methods)), values[group, method].clip(*ends)
            if bars:
                axis.bar(at, float(np.mean(runs)), GROUP / len(methods), color=colours[k], label=label)
            else:
                draw_runs(axis, at, runs, colours[k], label, lying=lying)
            label = None
    (axis.set_yticks if lying else axis.set_xticks)(range(first, first + len(groups)), groups)


def draw_surface(axis: Axes, values: Array, box: tuple[float, float, float, float], norm: Any, **look: Any) -> Any:
    """Draw values over two quantities [first, second] as clipped colours, the first one to the right."""
    axis.grid(False)
    shown = values.T.clip(norm.vmin, norm.vmax)
    return axis.imshow(shown, origin="lower", extent=box, norm=norm, **look)


def legend_below(figure: Figure, axis: Axes) -> None:
    """Draw one legend for all panels below them, with the names of one panel."""
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels) or 1)


# Sizes of markers, of the markers of few models, and distance of labels from their points, in points.
PLAIN, LARGE, APART = 5.5, 7.5, 10.0
# Style of labels beside their points.
BESIDE: dict[str, Any] = {"va": "center", "textcoords": "offset points", "fontweight": "bold"}
# Number of points of a curve.
POINTS = 400
# Colours of the states, distinct from the usual ones of methods.
STATES = ("#0072B2", "#CC79A7", "#444444", "#56B4E9", "#E69F00", "#009E73", "#D55E00")


@dataclass(frozen=True, eq=False)
class Cloud:
    """Models of one method: (parameters, error) of each, [models]."""

    label: str
    colour: str
    marker: str
    parameters: Array
    errors: Array
    pale: bool = False  # results of others, drawn behind
    front: bool = True  # draw the staircase of the non-dominated models
    star: int | None = None  # index of the answer, or None


@dataclass(frozen=True, eq=False)
class Curve:
    """A solution to draw over the data: values [times, states], nan where undefined."""

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
    """Draw Pareto fronts at the left, data and fitted curves at the right."""
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
    size = 4.5 if cloud.pale else LARGE if len(x) <= 20 else PLAIN
    look: dict[str, Any] = {"alpha": 0.33, "mec": "none"} if cloud.pale else {"alpha": 1.0, "mec": "white"}
    axes.plot(x, y, cloud.marker, color=cloud.colour, mew=0.7, ms=size, zorder=depth, **look)
    if cloud.front:
        order = np.lexsort((y, x))
        least = np.minimum.accumulate(y[order])
        alpha = FAINT if cloud.pale else 1.0
        axes.step(x[order], least, where="post", color=cloud.colour, alpha=alpha, zorder=depth)
    if cloud.star is not None:
        at = x[cloud.star], y[cloud.star]
        axes.plot(*at, "*", color=cloud.colour, mec="white", ms=19.0, zorder=depth + 1)


def _draw_inset(axes: Axes, clouds: Sequence[Cloud], errors: tuple[float, float]) -> None:
    """Draw the clouds between two errors in an inset, in the gap between published models and the answer."""
    inset = axes.inset_axes((0.3, 0.36, 0.67, 0.3), zorder=2 * len(clouds) + 2)
    for depth, cloud in enumerate(clouds):
        _draw_cloud(inset, cloud, 2 + depth)
    _frame(inset, errors)
    inset.set(title="", xlabel="", ylabel="", xlim=axes.get_xlim())
    inset.tick_params(labelsize=8.0)
    axes.indicate_inset_zoom(inset, edgecolor=MUTED, alpha=FAINT)


def _label_star(axes: Axes, cloud: Cloud) -> None:
    """Label the chosen model, on the side of its star with more space."""
    if cloud.star is None:
        return
    at = cloud.parameters[cloud.star], cloud.errors[cloud.star]
    place = axes.transAxes.inverted().transform(axes.transData.transform(at))[0]
    shift, side = (APART, "left") if place < 0.3 else (-APART, "right")
    told = cloud.label.replace(", ", ",\n") + f"\n{at[0]:.0f} parameters\nMSE {at[1]:.1e}"
    axes.annotate(told, at, xytext=(shift, 0), ha=side, color=cloud.colour, fontsize=9.0, **BESIDE)


def _frame(axes: Axes, errors: tuple[float, float]) -> None:
    axes.set(xscale="log", yscale="log", ylim=errors, title="Pareto fronts")
    axes.set(xlabel="number of parameters", ylabel="mean squared error")
    axes.yaxis.set_major_locator(LogLocator(numticks=12))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_locator(FixedLocator((1, 2, 5, 10, 20, 50, 100, 200, 500)))
    axes.xaxis.set_major_formatter(ScalarFormatter())
    axes.xaxis.set_minor_locator(NullLocator())


def _handles(clouds: Sequence[Cloud]) -> list[Line2D]:
    """Legend entries, one per cloud, those in front first."""
    handles = []
    for c in reversed(clouds):
        marker, size = (c.marker, PLAIN if c.pale else LARGE) if c.star is None else ("*", 13.0)
        look: dict[str, Any] = {"color": c.colour, "alpha": FAINT if c.pale else 1.0, "ls": "-" if c.front else "none"}
        handles.append(Line2D([], [], marker=marker, ms=size, mec="white", label=c.label, **look))
    return handles


def _draw_curves(axes: Axes, series: TimeSeries, curves: Sequence[Curve]) -> None:
    run = series.trajectories[0]
    for k, state in enumerate(series.states):
        colour = STATES[k % len(STATES)]
        axes.plot(run.time, run.values[:, k], "o", mfc="white", mec=colour, zorder=3)
        for curve in curves:
            axes.plot(curve.times, curve.values[:, k], curve.style, color=colour)
        axes.annotate(state, (run.time[-1], run.values[-1, k]), xytext=(APART, 0), color=colour, **BESIDE)
    low, high = np.nanmin(run.values), np.nanmax(run.values)
    margin = 0.05 * (high - low)  # curves may exceed it
    axes.set_ylim(low - margin, high + margin)
    axes.set_xlabel(series.time_name)
    axes.set_title("Data and fitted curves")
    marks = [Line2D([], [], ls="none", marker="o", mfc="white", mec=INK, label="data")]
    marks += [Line2D([], [], ls=c.style, color=MUTED, label=c.label) for c in curves]
    axes.legend(handles=marks, loc="upper right")
