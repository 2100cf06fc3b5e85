"""Results as pictures in files: the fit, the Pareto front, the chain of units, checks and groups.

Figures are made with matplotlib's object-oriented API: no global state, no window, no effect on a caller's own plots.
"""

from __future__ import annotations

import io
import math
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure, FigureBase
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator, ScalarFormatter
from numpy.typing import NDArray

import odediscovery.plots.axes as style
import odediscovery.plots.checks as checks
from odediscovery.data.series import measured
from odediscovery.errors import InputError
from odediscovery.plots.axes import empty_figure, label_decades, with_unit
from odediscovery.plots.fit import courses, draw_state
from odediscovery.plots.heatmaps import network_figure
from odediscovery.result.discovery import Discovery, describe_chain
from odediscovery.result.front import FrontRow
from odediscovery.runtime.arrays import Array
from odediscovery.runtime.files import write_whole

PICTURES = ("png", "svg", "pdf")
# Groups per row.
ACROSS = 6
# Largest number of states of a fit to draw.
MAX_PANELS = 12
# Inches: the width of checks and groups; a row of panels, a constant in a matrix, a group in a forest; headline and
# legend.
WIDE, ROW, CELL, GROUP, LEGEND = 13.0, 2.9, 0.34, 0.22, 0.7
# Distance of errors below the cut of the axis, as a factor.
CUT_STEP = 2.5


def fit_figure(discovery: Discovery) -> Figure:
    """Draw data, integrated curves and residuals of the first states for all trajectories."""
    series = discovery.series
    n = min(series.n_states, MAX_PANELS)
    rows = -(-n // 3)
    # Use the fewest columns for these rows: four states form a square.
    columns = -(-n // rows)
    with rc_context(style.NAMES):
        figure = empty_figure(max(style.LEAST_WIDTH, style.WIDTH * columns), style.HEIGHT * rows + LEGEND)
        grid = figure.add_gridspec(rows, columns)
        runs, seen = courses(discovery), measured(series)
        for k, state in enumerate(series.states[:n]):
            cell = grid[k // columns, k % columns].subgridspec(2, 1, height_ratios=(3, 1))
            top = figure.add_subplot(cell[0])
            draw_state([top, figure.add_subplot(cell[1], sharex=top)], discovery, runs, k)
            top.set_title(state + " (not measured)" * (not seen[k]))
        shown = f"    the first {n} of {series.n_states} states" if n < series.n_states else ""
        r2 = f"R\N{SUPERSCRIPT TWO} = {discovery.r2:z.6f}"
        _headline(figure, f"{r2}    MSE = {discovery.mse:.3g}    {discovery.outcome}{shown}")
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower left", ncols=min(len(labels), 2 * columns))
    return figure


def pareto_figure(discovery: Discovery) -> Figure:
    """Draw the Pareto front, complexity against mean squared error, with the chosen row marked."""
    rows, cost, error, chosen = front_of(discovery)
    names = {i: row.name for i, row in enumerate(rows) if row.name and i != chosen}
    best = rows[chosen]
    star = f"chosen: complexity {best.complexity}, MSE {best.mse:.3g}" + f",\n{best.name}" * bool(best.name)
    with rc_context(style.NAMES):
        figure = empty_figure(style.LEAST_WIDTH, style.HEIGHT)
        axes = figure.add_subplot()
        draw_front(axes, cost, error, chosen, names, ("candidate equations", star))
        error_label = "mean squared error\nof the integrated equations"
        axes.set(xlabel=meaning_of_complexity(discovery), ylabel=error_label, title="Pareto front")
        handles, labels = axes.get_legend_handles_labels()
        widths = [max(map(len, label.split("\n"))) for label in labels]
        half = -(-len(labels) // 2)
        letters = max(widths[:half], default=0) + max(widths[half:], default=0)
        figure.legend(handles, labels, loc="outside lower left", ncols=1 if letters > 64 else 2)
    return figure


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


def weights_figure(discovery: Discovery) -> Figure:
    """Draw the chain of units as annotated heat maps, input left, output right; the title describes the chain."""
    network = discovery.network
    with rc_context(style.NAMES):
        if network is not None and all(layer.n_in * layer.n_out <= 1000 for layer in network.layers):
            states, time_name = discovery.equations.variables, discovery.series.time_name
            return network_figure(network, states, time_name, describe_chain(discovery))
        figure = empty_figure(style.LEAST_WIDTH, 1.6)
        missing = "Too many weights to be drawn: model.npz has them."
        figure.text(0.5, 0.5, missing if network else "These equations were read from no network.", ha="center")
    return figure


def checks_figure(discovery: Discovery) -> Figure:
    """Draw terms, rates, autocorrelation and normal plot of residuals of each state, and correlations of constants."""
    states, known = checks.checks_of(discovery), checks.correlations(discovery)
    heights = [ROW] * len(states) + ([] if known is None else [min(stack(len(known[0]), CELL), ROW)])
    with rc_context(style.DENSE):
        figure = empty_figure(WIDE, sum(heights))
        # The panel of terms is wider for their names.
        grid = figure.add_gridspec(len(heights), 4, width_ratios=(1.5, 1.0, 1.0, 1.0), height_ratios=heights)
        for k, (state, pictures) in enumerate(states.items()):
            for column, (title, draw) in enumerate(pictures.items()):
                axes = figure.add_subplot(grid[k, column])
                if not draw(axes):
                    axes.text(0.5, 0.5, "too few samples", transform=axes.transAxes, ha="center", color=style.MUTED)
                axes.set_title(title)
                if column == 0:
                    axes.set_title(f"{with_unit(state, discovery.series.units)}: {title}")
                    # Make room for the names above the curves.
                    low, high = axes.get_ylim()
                    axes.set_ylim(low, high + 0.3 * (high - low))
                    axes.legend(loc="upper right", ncols=2)
        if known is not None:
            axes = figure.add_subplot(grid[-1, :2])
            checks.draw_correlations(axes, known[1])
            axes.set_title("correlations of the constants")
            beside = figure.add_subplot(grid[-1, 2:])
            beside.axis("off")
            beside.text(0.0, 1.0, "\n".join(f"{i + 1}  {name}" for i, name in enumerate(known[0])), va="top")
    return figure


def groups_figure(discovery: Discovery) -> Figure:
    """Draw forest plots of the varying constants, and below data and curve of the first measured state per group."""
    population, series = discovery.population, discovery.series
    assert population is not None  # callers check
    fits, k = checks.group_fits(discovery), int(np.argmax(measured(series)))
    shown, varying = checks.drawn_groups(fits), population.varying[: checks.MAX_FORESTS]
    rows = math.ceil(len(shown) / ACROSS)
    heights = [stack(len(fits), GROUP)] * bool(varying) + [1.7 * rows + LEGEND]
    with rc_context(style.DENSE):
        figure = empty_figure(WIDE, sum(heights))
        parts = np.atleast_1d(np.asarray(figure.subfigures(len(heights), 1, height_ratios=heights), dtype=object))
        for column, one in enumerate(varying):
            axes = parts[0].add_subplot(1, len(varying), column + 1)
            checks.draw_forest(axes, population.labels, one)
            axes.set_title(one.name)
        if varying:
            alone = "; crosses: fits of each group alone" if np.isfinite(varying[0].apart).any() else ""
            told = f"constants of each group, 95 % intervals; line and band: the mean and its interval{alone}"
            _headline(parts[0], told)
        grid = parts[-1].add_gridspec(rows, min(ACROSS, max(len(shown), 1)))
        first = None
        for place, g in enumerate(shown):
            # A common scale makes groups comparable.
            axes = parts[-1].add_subplot(grid[place // ACROSS, place % ACROSS], sharey=first)
            first = first or axes
            checks.draw_group(axes, discovery, g, k, fits[g])
            share = f"R\N{SUPERSCRIPT TWO} {fits[g].r2:.2f}" if np.isfinite(fits[g].r2) else ""
            axes.set_title(fits[g].label[:16], fontsize=style.SMALL_TEXT + 1, pad=2)
            # Above the panel, since samples may fill any corner within.
            told, size = share + ", does not follow" * (not fits[g].follows), style.SMALL_TEXT
            axes.set_title(told, loc="right", pad=2, fontweight="normal", fontsize=size, color=style.MUTED)
            axes.tick_params(labelsize=style.SMALL_TEXT)
        parts[-1].supxlabel(with_unit(series.time_name, series.units))
        parts[-1].supylabel(with_unit(series.states[k], series.units))
    return figure


FIGURES: dict[str, Callable[[Discovery], Figure]] = {
    "fit": fit_figure,
    "pareto": pareto_figure,
    "weights": weights_figure,
}


def save_figures(
    discovery: Discovery,
    folder: str | os.PathLike[str],
    kinds: Sequence[str] = (),
    pictures: Mapping[str, Callable[[Discovery], Figure]] = FIGURES,
) -> None:
    """Write pictures into a folder, each completely or not at all, as PNG and in other `kinds`: "svg", "pdf"."""
    for name, draw in pictures.items():
        figure = draw(discovery)
        for kind in dict.fromkeys(("png", *kinds)):
            save_figure(figure, Path(folder) / f"{name}.{kind}")


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure as PNG, SVG or PDF, by the ending of `path`, completely or not at all."""
    kind = path.suffix.lower().removeprefix(".")
    if kind not in PICTURES:
        raise InputError(f"{path}: expected a picture that ends in .{', .'.join(PICTURES)}; name it so")
    stream = io.BytesIO()
    draw_into(stream, figure, format=kind)
    try:
        write_whole(path, stream.getvalue())
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from error


def draw_into(stream: IO[Any], figure: Figure, **options: Any) -> None:
    """Write a figure into a stream; a letter that the font lacks is no reason to fail."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(stream, **options)


def stack(count: int, each: float) -> float:
    """Height of a picture of `count` rows, in inches; many rows are packed more closely."""
    return min(0.9 + each * count, 9.0)


def _headline(figure: FigureBase, text: str) -> None:
    """A muted line above all panels, at the left."""
    figure.suptitle(text, x=0.01, ha="left", color=style.MUTED, fontsize="medium")
