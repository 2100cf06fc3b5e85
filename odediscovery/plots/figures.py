"""What was found, as pictures: the fit, the Pareto front and the law as a chain of units.

Figures are made with matplotlib's object-oriented API: no global state, no window, nothing that
meddles with a caller's own plots. Colours are told apart by everybody (Okabe and Ito), and no
column name is read as mathematics: a `$` or `_` in it is just a letter.
"""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps, rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator
from numpy.typing import NDArray

from odediscovery.data.series import Trajectory
from odediscovery.errors import InputError
from odediscovery.plots.heatmaps import network_figure
from odediscovery.plots.pieces import draw_band, draw_legend, frame_residuals, headline, power_of_ten
from odediscovery.plots.theme import (
    COLOURS,
    CURVE_POINTS,
    DARK,
    GRID,
    HAIR,
    INK,
    LIGHT,
    LINE,
    MARKS,
    MUTED,
    NOTE,
    PAPER,
    ROOM,
    SIZES,
    STYLE,
    Depth,
    rings,
)
from odediscovery.plots.times import literal, set_times
from odediscovery.result.discovery import Discovery
from odediscovery.result.shown import describe_chain
from odediscovery.runtime.files import write_whole
from odediscovery.uncertainty.bands import Band, band

__all__ = ["COLOURS", "GRID", "INK", "MUTED", "STYLE", "empty_figure", "save_figure"]  # for experiments, too
__all__ += ["FIGURES", "fit_figure", "pareto_figure", "save_figures", "weights_figure"]
__all__ += ["curve_through", "cut_axis", "draw_cut", "draw_state", "label_ticks", "meaning_of_complexity", "with_unit"]

PICTURES = ("png", "svg", "pdf")
MAX_LEGEND_ENTRIES = 7
# Errors this many times smaller than the next ones stand below a cut of the axis, each so much below the other.
CUT_FACTOR, CUT_STEP = 1e4, 2.5
MAX_COLUMNS = 3
# States of a fit that are drawn, and cells of a network's layer.
MAX_PANELS, MAX_CELLS = 12, 1000


def fit_figure(discovery: Discovery) -> Figure:
    """Data and integrated curves of every state, the residuals below, all trajectories."""
    series = discovery.series
    n = min(series.n_states, MAX_PANELS)
    rows = -(-n // MAX_COLUMNS)
    # As few columns as these rows need: four states stand two by two.
    columns = -(-n // rows)
    with rc_context(STYLE):
        figure = empty_figure(max(SIZES.least, SIZES.width * columns), SIZES.height * rows + SIZES.legend)
        grid = figure.add_gridspec(rows, columns)
        curves = [curve_through(discovery, j, run) for j, run in enumerate(series.trajectories)]
        for k, state in enumerate(series.states[:n]):
            cell = grid[k // columns, k % columns].subgridspec(2, 1, height_ratios=(3, 1))
            top = figure.add_subplot(cell[0])
            below = figure.add_subplot(cell[1], sharex=top)
            draw_state(top, below, discovery, curves, k)
            seen = any(np.isfinite(run.values[:, k]).any() for run in series.trajectories)
            top.set_title(literal(state) + " (not measured)" * (not seen))
            if series.units.get(state):
                top.set_ylabel(with_unit(state, series.units))
            set_times(below, series)
        headline(figure, _quality(discovery))
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower left", ncols=min(len(labels), 2 * columns))
    return figure


def curve_through(discovery: Discovery, j: int, run: Trajectory) -> tuple[NDArray[np.float64], Band]:
    """Times of a smooth curve through a trajectory's start, the samples' among them, and it."""
    dense = np.union1d(np.linspace(run.time[0], run.time[-1], CURVE_POINTS), run.time)
    if discovery.estimates is not None:
        return dense, band(discovery, dense, trajectory=j)
    curve = discovery.equations_of(j).simulate(discovery.initial_values[j], dense, controls=run.controls)
    unknown = np.full_like(curve, np.nan)
    return dense, Band(curve, unknown, unknown)


def draw_state(
    top: Axes, below: Axes | None, discovery: Discovery, curves: list[tuple[NDArray[np.float64], Band]], k: int
) -> None:
    """Data and curves of state k with their bands, and the residuals below where there are axes for them."""
    runs = discovery.series.trajectories
    named = 1 < len(runs) <= MAX_LEGEND_ENTRIES
    left = []
    for j, (run, (dense, found)) in enumerate(zip(runs, curves, strict=True)):
        colour, curve = _colour(j, len(runs)), found.curve[:, k]
        name = (run.label or f"trajectory {j + 1}") if named else "equations"
        dots = rings(len(run.time)) | {"color": colour if len(runs) > 1 else INK}
        first = j == 0
        top.plot(run.time, run.values[:, k], **dots, label="data" if first else None)
        top.plot(dense, curve, color=colour, label=name if named or first else None)
        left.append(run.values[:, k] - curve[np.searchsorted(dense, run.time)])
        if below is not None:
            below.plot(run.time, left[-1], **dots)
    known = discovery.estimates
    least = float(np.nanmin([np.nanmin(run.values[:, k], initial=0.0) for run in runs]))
    _draw_bands(top, curves, k, (-np.inf, np.inf) if known is None else known.within(k), least)
    if below is not None:
        top.tick_params(labelbottom=False)
        frame_residuals(below, left, "data \N{MINUS SIGN} fit")


def _draw_bands(
    top: Axes,
    curves: list[tuple[NDArray[np.float64], Band]],
    k: int,
    within: tuple[float, float],
    measured: float = -np.inf,
) -> None:
    """95 % bands of the curves, dark, and of new measurements, light, behind what is drawn.

    Args:
        within: least and greatest value of the state.
        measured: least value that was measured: below it, and below what the state can be, no band goes.
    """
    low, high = top.get_ylim()
    for j, (dense, found) in enumerate(curves):
        curve, colour = found.curve[:, k], _colour(j, len(curves))
        for half, ends, shade, meaning in (
            (found.prediction[:, k], (min(within[0], measured), np.inf), LIGHT, "95 % of new measurements"),
            (found.confidence[:, k], within, DARK, "95 % band of the curve"),
        ):
            draw_band(top, dense, curve, half, ends, color=colour, label=None if j else meaning, **shade)
    # A band that says no more than that nothing is known must not flatten the data.
    beyond = ROOM.beyond * (high - low)
    wide = top.get_ylim()
    top.set_ylim(max(wide[0], low - beyond), min(wide[1], high + beyond))


def pareto_figure(discovery: Discovery) -> Figure:
    """Complexity against mean squared error: the front as a staircase, the choice marked."""
    rows = sorted(discovery.front, key=lambda row: row.complexity)
    cost = np.array([row.complexity for row in rows], dtype=float)
    error = np.array([row.mse for row in rows])
    error, floor, lower = cut_axis(error)
    with rc_context(STYLE):
        figure = empty_figure(SIZES.least, SIZES.height)
        axes = figure.add_subplot()
        seen = np.isfinite(error)
        axes.set_yscale("log")
        axes.step(cost[seen], np.minimum.accumulate(error[seen]), where="post", color=MUTED, **LINE)
        dots: dict[str, Any] = {"mec": PAPER, "zorder": Depth.MARK}
        # A row's own mark lies over the others, which come first.
        axes.plot(cost[seen], error[seen], "o", ms=MARKS.point, color=COLOURS[0], label="candidate equations", **dots)
        named = [row for row in rows if row.name and not row.selected and np.isfinite(row.mse)]
        for hue, mark, row in zip(COLOURS[2:], "sD^vP", named, strict=False):
            y = error[rows.index(row)]
            axes.plot(row.complexity, y, mark, ms=MARKS.named, color=hue, label=literal(row.name), **dots)
        for row, y in zip(rows, error, strict=True):
            if row.selected and np.isfinite(y):
                told = f"chosen: complexity {row.complexity}, MSE {row.mse:.3g}"
                name = f",\n{literal(row.name)}" * bool(row.name)
                axes.plot(row.complexity, y, "*", ms=MARKS.chosen, color=COLOURS[1], label=told + name, **dots)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        axes.margins(ROOM.marks)
        if lower.any():
            draw_cut(axes, cost, np.array([row.mse for row in rows]), error, floor, lower)
        axes.set_xlabel(meaning_of_complexity(discovery))
        axes.set_ylabel("mean squared error\nof the integrated equations")
        axes.set_title("Pareto front")
        draw_legend(figure, axes)
    return figure


def cut_axis(error: NDArray[np.float64]) -> tuple[NDArray[np.float64], float, NDArray[np.bool_]]:
    """Errors as they are drawn: below an axis of a few decades, those of nearly perfect laws stand at its foot.

    Args:
        error: mean squared errors [rows], nan where unknown.

    Returns:
        Errors in their places, the foot of the axis, and which of them lie below it.

    >>> drawn, floor, lower = cut_axis(np.array([300.0, 20.0, 1e-14]))
    >>> floor, lower.tolist()
    (2.0, [False, False, True])
    """
    known = error[np.isfinite(error)]
    positive = np.sort(known[known > 0])
    if not positive.size:
        return np.where(np.isfinite(error), 1.0, np.nan), 0.1, np.zeros(len(error), bool)
    gaps = positive[1:] / positive[:-1]
    # The widest gap parts nearly perfect laws from the others, where it is wide enough.
    wide = int(np.argmax(gaps)) if gaps.size else 0
    cut = positive[wide + 1] if gaps.size and gaps[wide] > CUT_FACTOR else positive[0]
    floor = float(cut) / 10.0
    lower = np.isfinite(error) & (error < floor)
    ranks = np.zeros(len(error))
    ranks[lower] = np.argsort(np.argsort(-error[lower]))
    return np.where(lower, floor * CUT_STEP ** -(ranks + 1.0), error), floor, lower


def draw_cut(
    axes: Axes,
    cost: NDArray[np.float64],
    told: NDArray[np.float64],
    drawn: NDArray[np.float64],
    floor: float,
    lower: NDArray[np.bool_],
) -> None:
    """The line below which the axis is cut, with the errors that lie there as text."""
    axes.axhline(floor, ls=":", **HAIR)
    low, high = axes.get_ylim()
    # At the left, where the staircase does not go.
    at, beside = axes.get_yaxis_transform(), (MARKS.sample, 0.0)
    axes.annotate(
        "below: not to scale", (0.0, floor), beside, at, textcoords="offset points", ha="left", va="top", **NOTE
    )
    label_ticks(axes, floor, high)
    axes.set_ylim(min(low, float(drawn[lower].min()) / CUT_STEP**3), high)
    # Below its mark, for the same reason.
    aside = (-MARKS.point, -MARKS.sample)
    for x, y, value in zip(cost[lower], drawn[lower], told[lower], strict=True):
        axes.annotate(f"{value:.2g}", (x, y), aside, textcoords="offset points", ha="right", va="top", **NOTE)


def label_ticks(axes: Axes, low: float, high: float) -> None:
    """Ticks of a logarithmic axis between two values alone: every decade, or more where there are fewer than three."""
    for steps in ((1.0,), (1.0, 3.0), (1.0, 2.0, 5.0)):
        ticks = [tick for tick in LogLocator(subs=steps).tick_values(low, high) if low <= tick <= high]
        if len(ticks) > 2:
            break
    axes.set_yticks(ticks, list(map(power_of_ten, ticks)))
    axes.yaxis.set_minor_locator(NullLocator())


def meaning_of_complexity(discovery: Discovery) -> str:
    """What the complexities of a front count, for the label of its axis."""
    if discovery.settings.recipe != "default":
        return "complexity (parameters above 0.001, gates included)"
    if discovery.equations.power_sum is not None:
        return "complexity (constants + states used)"
    return "complexity (nodes of the expression tree)"


def weights_figure(discovery: Discovery) -> Figure:
    """The law's units as annotated heat maps, input left, output right; the title says if a network was trained."""
    with rc_context(STYLE | {"axes.grid": False}):
        layers = () if discovery.network is None else discovery.network.layers
        missing = "" if layers else "These equations were read from no network."
        if any(layer.n_in * layer.n_out > MAX_CELLS for layer in layers):
            missing = "Too many weights to be drawn: model.npz has them."
        if missing or discovery.network is None:
            figure = empty_figure(SIZES.least, SIZES.notice)
            figure.text(0.5, 0.5, missing, ha="center")
            return figure
        states, time_name = discovery.equations.variables, discovery.series.time_name
        return network_figure(discovery.network, states, time_name, describe_chain(discovery))


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
    """Write pictures into `folder`, each whole or not at all.

    Args:
        discovery: a result.
        folder: that is there.
        kinds: other kinds of files beside PNG: "svg", "pdf".
        pictures: by the names of their files (default: fit, pareto and weights).

    Raises:
        InputError: the folder cannot be written.
    """
    for name, draw in pictures.items():
        figure = draw(discovery)
        for kind in dict.fromkeys(("png", *kinds)):
            save_figure(figure, Path(folder) / f"{name}.{kind}")


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure as PNG, SVG or PDF, by the ending of `path`, whole or not at all.

    Raises:
        InputError: another ending, or the file cannot be written.
    """
    kind = path.suffix.lower().removeprefix(".")
    if kind not in PICTURES:
        raise InputError(f"{path}: expected a picture that ends in .{', .'.join(PICTURES)}; name it so")
    stream = io.BytesIO()
    # A letter that the font lacks is no reason to fail.
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(stream, format=kind)
    try:
        write_whole(path, stream.getvalue())
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from error


def empty_figure(width: float, height: float) -> Figure:
    """An empty figure of so many inches, drawn by Agg and laid out so that nothing overlaps."""
    layout = ConstrainedLayoutEngine(w_pad=SIZES.pad, h_pad=SIZES.pad)
    figure = Figure(figsize=(width, height), layout=layout, facecolor=PAPER)
    FigureCanvasAgg(figure)
    return figure


def _colour(index: int, count: int) -> str | tuple[float, float, float, float]:
    if count <= MAX_LEGEND_ENTRIES:
        return COLOURS[index]
    return colormaps["viridis"](0.9 * index / (count - 1))


def with_unit(name: str, units: Mapping[str, str]) -> str:
    """A name with its unit in brackets, where one is known, as it is: no mathematics."""
    return literal(f"{name} [{units[name]}]" if units.get(name) else name)


def _quality(discovery: Discovery) -> str:
    r2 = f"R\N{SUPERSCRIPT TWO} = {discovery.r2:z.6f}"
    n = discovery.series.n_states
    shown = f"    the first {MAX_PANELS} of {n} states" if n > MAX_PANELS else ""
    return f"{r2}    MSE = {discovery.mse:.3g}    {discovery.outcome}{shown}"
