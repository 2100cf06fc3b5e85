"""The figures of all experiments: panels of runs by tick and method, surfaces, and Pareto fronts beside curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
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


@dataclass(frozen=True, eq=False)
class Panel:
    """One panel: values of all runs by (tick, method), in their order, and curves (x, y) by method."""

    title: str
    values: Mapping[Any, Array] = field(default_factory=dict)
    curves: Mapping[str, tuple[Array, Array]] = field(default_factory=dict)
    # A point for every run and a line for their median, side by side; "bars" of means, side by side; or "lines" through
    # the means, within the range of the runs.
    kind: str = "runs"
    published: Mapping[Any, float] = field(default_factory=dict)
    ends: tuple[float, float] = (-np.inf, np.inf)  # values beyond are drawn there
    look: dict[str, Any] = field(default_factory=dict)  # of the curves
    axis: Mapping[str, Any] = field(default_factory=dict)  # labels, scales and limits

    @property
    def ticks(self) -> list[str]:
        """The ticks in their order."""
        return list(dict.fromkeys(tick for tick, _ in self.values))

    @property
    def methods(self) -> list[str]:
        """The methods with values or curves, in their order."""
        return list(dict.fromkeys([method for _, method in self.values] + list(self.curves)))

    def draw(self, axis: Axes, looks: Mapping[str, dict[str, Any]]) -> None:
        """Draw all methods, each with its colour and dash."""
        width = GROUP / max(len(self.methods), 1)
        for k, method in enumerate(self.methods):
            if method in self.curves:
                x, y = self.curves[method]
                axis.plot(x, y.clip(*self.ends), label=method, **looks[method] | self.look)
            else:
                shift = width * (k - (len(self.methods) - 1) / 2) if self.kind != "lines" else 0.0
                self._draw_runs(axis, method, shift, width, looks[method])
        if self.values:
            axis.set_xticks(range(len(self.ticks)), self.ticks)
        if self.published:  # for the legend
            axis.plot([], [], color=INK, lw=THIN, ls=":", label="published")
        axis.set(title=self.title, **self.axis)

    def _draw_runs(self, axis: Axes, method: str, shift: float, width: float, look: dict[str, Any]) -> None:
        colour, keys = look["color"], {i + shift: (tick, method) for i, tick in enumerate(self.ticks)}
        runs = {at: self.values[key].clip(*self.ends) for at, key in keys.items() if key in self.values}
        known = {at: self.published[key] for at, key in keys.items() if key in self.published}
        statistics = (np.min, np.max, np.mean, np.median)
        low, high, means, medians = ([float(of(own)) for own in runs.values()] for of in statistics)
        if self.kind == "lines":
            axis.fill_between([*runs], low, high, color=colour, alpha=0.15, lw=0)
            axis.plot([*runs], means, marker="o", label=method, **look)
            axis.plot([*known], [*known.values()], color=colour, lw=THIN, ls=":")
            return
        if self.kind == "bars":
            axis.bar([*runs], means, width, color=colour, label=method)
        else:
            places = [at + np.linspace(-0.06, 0.06, len(own)) * (len(own) > 1) for at, own in runs.items()]
            values = [np.sort(own) for own in runs.values()]
            axis.plot(np.hstack(places), np.hstack(values), ".", ms=6.0, alpha=FAINT, color=colour, label=method)
            axis.plot([*runs], medians, "_", ms=14.0, mew=THICK, color=colour)
        left = np.array([*known], float) - width / 2
        axis.hlines([*known.values()], left, left + width, colors=INK, linestyles=":", lw=THIN)


def panels_figure(panels: Sequence[Panel], across: int = 1, **options: Any) -> Figure:
    """Draw panels in rows, with one colour for each method and one legend below; dotted is what was published.

    Beyond the number of colours, lines are dashed.
    """
    down = -(-len(panels) // across)
    figure, methods = page(down), dict.fromkeys(method for panel in panels for method in panel.methods)
    colours = (*COLOURS, MUTED)
    count = len(colours)
    looks = {m: {"color": colours[i % count], "ls": "-" if i < count else "--"} for i, m in enumerate(methods)}
    shown = dict[str, Any]()
    for axis, panel in zip(figure.subplots(down, across, squeeze=False, **options).flat, panels, strict=False):
        panel.draw(axis, looks)
        handles, labels = axis.get_legend_handles_labels()
        shown |= dict(zip(labels, handles, strict=True))
    across = min(len(shown), 150 // (8 + max(map(len, shown), default=0)))
    figure.legend(shown.values(), shown.keys(), loc="outside lower center", ncols=max(across, 1))
    return figure


def draw_surface(axis: Axes, values: Array, box: tuple[float, float, float, float], norm: Any, **look: Any) -> Any:
    """Draw values over two quantities [first, second] as clipped colours, the first one to the right."""
    axis.grid(False)
    shown = values.T.clip(norm.vmin, norm.vmax)
    return axis.imshow(shown, origin="lower", extent=box, norm=norm, **look)


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


def fronts_figure(
    clouds: Sequence[Cloud],
    series: TimeSeries,
    curves: Mapping[str, tuple[Array, Array]],
    errors: tuple[float, float],
    closer: tuple[float, float],
) -> Figure:
    """Draw size against error of all models at the left, with a staircase for each front and a star for the answer,
    and those between two `closer` errors in an inset; at the right data and fitted curves, times and values [times,
    states] by name, the first one drawn through."""
    figure = page(rows=2)
    left, right = figure.subplots(1, 2, width_ratios=(1.25, 1.0))
    _draw_clouds(left, clouds, errors)
    left.set(title="Pareto fronts", xlabel="number of parameters", ylabel="mean squared error")
    for cloud in clouds:
        if cloud.star is not None:
            _label_star(left, cloud, cloud.star)
    inset = left.inset_axes((0.3, 0.36, 0.67, 0.3), zorder=2 * len(clouds) + 2)
    _draw_clouds(inset, clouds, closer)
    inset.set(xlim=left.get_xlim())
    inset.tick_params(labelsize=8.0)
    left.indicate_inset_zoom(inset, edgecolor=MUTED, alpha=FAINT)
    _draw_curves(right, series, curves)
    # Those in front first.
    handles, labels = left.get_legend_handles_labels()
    left.legend(handles[::-1], labels[::-1], loc="lower right")
    return figure


def _draw_clouds(axes: Axes, clouds: Sequence[Cloud], errors: tuple[float, float]) -> None:
    for depth, cloud in enumerate(clouds, start=2):
        x, y, colour = cloud.parameters, cloud.errors, cloud.colour
        size = 4.5 if cloud.pale else LARGE if len(x) <= 20 else PLAIN
        look: dict[str, Any] = {"alpha": 0.33, "mec": "none"} if cloud.pale else {"alpha": 1.0, "mec": "white"}
        name = cloud.label if cloud.star is None else None
        axes.plot(x, y, cloud.marker, color=colour, mew=0.7, ms=size, zorder=depth, label=name, **look)
        if cloud.front:
            order = np.lexsort((y, x))
            least = np.minimum.accumulate(y[order])
            axes.step(x[order], least, where="post", color=colour, alpha=FAINT if cloud.pale else 1.0, zorder=depth)
        if cloud.star is not None:
            at = x[cloud.star], y[cloud.star]
            axes.plot(*at, "*", color=colour, mec="white", ms=19.0, zorder=depth + 1, label=cloud.label)
    axes.set(xscale="log", yscale="log", ylim=errors)
    axes.yaxis.set_major_locator(LogLocator(numticks=12))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_locator(FixedLocator((1, 2, 5, 10, 20, 50, 100, 200, 500)))
    axes.xaxis.set_major_formatter(ScalarFormatter())
    axes.xaxis.set_minor_locator(NullLocator())


def _label_star(axes: Axes, cloud: Cloud, star: int) -> None:
    """Label the chosen model, on the side of its star with more space."""
    at = cloud.parameters[star], cloud.errors[star]
    place = axes.transAxes.inverted().transform(axes.transData.transform(at))[0]
    shift, side = (APART, "left") if place < 0.3 else (-APART, "right")
    told = cloud.label.replace(", ", ",\n") + f"\n{at[0]:.0f} parameters\nMSE {at[1]:.1e}"
    axes.annotate(told, at, xytext=(shift, 0), ha=side, color=cloud.colour, fontsize=9.0, **BESIDE)


def _draw_curves(axes: Axes, series: TimeSeries, curves: Mapping[str, tuple[Array, Array]]) -> None:
    run = series.trajectories[0]
    for k, state in enumerate(series.states):
        look: dict[str, Any] = {"color": STATES[k % len(STATES)]}
        axes.plot(run.time, run.values[:, k], "o", mfc="white", zorder=3, label=None if k else "data", **look)
        for i, (name, (times, values)) in enumerate(curves.items()):
            axes.plot(times, values[:, k], "--" if i else "-", label=None if k else name, **look)
        axes.annotate(state, (run.time[-1], run.values[-1, k]), xytext=(APART, 0), **look, **BESIDE)
    low, high = np.nanmin(run.values), np.nanmax(run.values)
    margin = 0.05 * (high - low)  # curves may exceed it
    axes.set(ylim=(low - margin, high + margin), xlabel=series.time_name, title="Data and fitted curves")
    axes.legend(loc="upper right")
