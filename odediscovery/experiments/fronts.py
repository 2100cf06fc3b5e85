"""Several methods in one Pareto picture, and their curves over the data beside it.

Drawn like everything in `plots`: size against error, both logarithmic, one colour for each method,
earlier results pale behind, each front a staircase, the answer a star.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, LogLocator, NullLocator, ScalarFormatter

from odediscovery.data.series import TimeSeries
from odediscovery.plots.figures import INK, MUTED, STYLE, empty_figure
from odediscovery.runtime.arrays import Array

PALE = 0.33
# Share of the axis that a label needs beside its star.
ROOM = 0.3
# Where an inset stands: left, bottom, width, height, as shares of the axes.
INSET = (0.3, 0.36, 0.67, 0.3)
# So many models of a method are drawn large.
FEW = 20
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
    with rc_context(STYLE):
        figure = empty_figure(11.0, 6.6 if closer else 5.0)
        left, right = figure.subplots(1, 2, width_ratios=(1.25, 1.0))
        for depth, cloud in enumerate(clouds):
            _draw_cloud(left, cloud, 2 + depth)
        _frame(left, errors)
        for cloud in clouds:
            _label_star(left, cloud)
        if closer is not None:
            _draw_inset(left, clouds, closer)
        _draw_curves(right, series, curves)
        left.legend(handles=_handles(clouds), loc="lower right", fontsize=8.5)
    return figure


def _draw_cloud(axes: Axes, cloud: Cloud, depth: int) -> None:
    x, y = cloud.parameters, cloud.errors
    alpha = PALE if cloud.pale else 1.0
    edge = "none" if cloud.pale else "white"
    axes.plot(
        x,
        y,
        cloud.marker,
        color=cloud.colour,
        alpha=alpha,
        mec=edge,
        mew=0.7,
        ms=4.5 if cloud.pale else 7.5 if len(x) <= FEW else 5.5,
        zorder=depth,
    )
    if cloud.front:
        order = np.lexsort((y, x))
        least = np.minimum.accumulate(y[order])
        axes.step(
            x[order], least, where="post", color=cloud.colour, lw=1.4, alpha=0.6 if cloud.pale else 1.0, zorder=depth
        )
    if cloud.star is not None:
        at = x[cloud.star], y[cloud.star]
        axes.plot(*at, "*", color=cloud.colour, mec="white", ms=19, zorder=depth + 1)


def _draw_inset(axes: Axes, clouds: Sequence[Cloud], errors: tuple[float, float]) -> None:
    """The same clouds between two errors, in the gap between published models and the answer."""
    inset = axes.inset_axes(INSET, zorder=20)
    for depth, cloud in enumerate(clouds):
        _draw_cloud(inset, cloud, 2 + depth)
    _frame(inset, errors)
    inset.set(title="", xlabel="", ylabel="", xlim=axes.get_xlim())
    inset.tick_params(labelsize=8)
    axes.indicate_inset_zoom(inset, edgecolor=MUTED, alpha=0.6)


def _label_star(axes: Axes, cloud: Cloud) -> None:
    """What the chosen model is, on the side of its star where there is room."""
    if cloud.star is None:
        return
    at = cloud.parameters[cloud.star], cloud.errors[cloud.star]
    place = axes.transAxes.inverted().transform(axes.transData.transform(at))[0]
    shift, side = (12, "left") if place < ROOM else (-12, "right")
    axes.annotate(
        f"{at[0]:.0f} parameters\nMSE {at[1]:.1e}",
        at,
        xytext=(shift, 0),
        ha=side,
        va="center",
        textcoords="offset points",
        color=cloud.colour,
        fontsize=9,
        fontweight="bold",
    )


def _frame(axes: Axes, errors: tuple[float, float]) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_ylim(*errors)
    axes.yaxis.set_major_locator(LogLocator(numticks=12))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_locator(FixedLocator(SIZES))
    axes.xaxis.set_major_formatter(ScalarFormatter())
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("number of parameters")
    axes.set_ylabel("mean squared error")
    axes.set_title("Pareto fronts")


def _handles(clouds: Sequence[Cloud]) -> list[Line2D]:
    """One entry a cloud, those in front first."""
    return [
        Line2D(
            [],
            [],
            color=c.colour,
            marker="*" if c.star is not None else c.marker,
            ls="-" if c.front else "none",
            lw=1.4,
            alpha=0.6 if c.pale else 1.0,
            mec="white",
            ms=13 if c.star is not None else 5.5 if c.pale else 7.5,
            label=c.label,
        )
        for c in reversed(clouds)
    ]


def _draw_curves(axes: Axes, series: TimeSeries, curves: Sequence[Curve]) -> None:
    run = series.trajectories[0]
    for k, state in enumerate(series.states):
        colour = STATES[k % len(STATES)]
        axes.plot(run.time, run.values[:, k], "o", ms=4.5, mfc="white", mec=colour, zorder=3)
        for curve in curves:
            axes.plot(curve.times, curve.values[:, k], curve.style, color=colour, lw=1.7)
        axes.annotate(
            state,
            (run.time[-1], run.values[-1, k]),
            xytext=(8, 0),
            va="center",
            textcoords="offset points",
            color=colour,
            fontweight="bold",
        )
    low, high = np.nanmin(run.values), np.nanmax(run.values)
    axes.set_ylim(low - 0.05 * (high - low), high + 0.05 * (high - low))
    axes.set_xlabel(series.time_name)
    axes.set_title("Data and fitted curves")
    marks = [Line2D([], [], ls="none", marker="o", ms=4.5, mfc="white", mec=INK, label="data")]
    marks += [Line2D([], [], ls=c.style, color=MUTED, lw=1.7, label=c.label) for c in curves]
    axes.legend(handles=marks, loc="upper right", fontsize=8.5)
