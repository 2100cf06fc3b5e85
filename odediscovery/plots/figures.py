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
from matplotlib.figure import Figure, FigureBase

import odediscovery.plots.axes as style
import odediscovery.plots.checks as checks
from odediscovery.data.series import measured
from odediscovery.errors import InputError
from odediscovery.plots.axes import empty_figure, with_unit
from odediscovery.plots.fit import courses, draw_state
from odediscovery.plots.front import draw_front, front_of, meaning_of_complexity
from odediscovery.plots.heatmaps import network_figure
from odediscovery.result.discovery import Discovery, describe_chain
from odediscovery.runtime.files import write_whole

PICTURES = ("png", "svg", "pdf")
# Groups per row.
ACROSS = 6
# Largest number of states of a fit to draw.
MAX_PANELS = 12
# Inches: the width of checks and groups; a row of panels, a constant in a matrix, a group in a forest; headline and
# legend.
WIDE, ROW, CELL, GROUP, LEGEND = 13.0, 2.9, 0.34, 0.22, 0.7


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
        axes.set_xlabel(meaning_of_complexity(discovery))
        axes.set_ylabel("mean squared error\nof the integrated equations")
        axes.set_title("Pareto front")
        handles, labels = axes.get_legend_handles_labels()
        widths = [max(map(len, label.split("\n"))) for label in labels]
        half = -(-len(labels) // 2)
        letters = max(widths[:half], default=0) + max(widths[half:], default=0)
        figure.legend(handles, labels, loc="outside lower left", ncols=1 if letters > 64 else 2)
    return figure


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
    fits, k = checks.group_fits(discovery), checks.drawn_state(discovery)
    shown, varying = checks.drawn_groups(fits), population.varying[: checks.MAX_FORESTS]
    rows = math.ceil(len(shown) / ACROSS)
    heights = [stack(len(fits), GROUP)] * bool(varying) + [1.7 * rows + LEGEND]
    with rc_context(style.DENSE):
        figure = empty_figure(WIDE, sum(heights))
        parts = np.atleast_1d(np.asarray(figure.subfigures(len(heights), 1, height_ratios=heights), dtype=object))
        for column, one in enumerate(varying):
            axes = parts[0].add_subplot(1, len(varying), column + 1)
            checks.draw_forest(axes, discovery, one)
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
