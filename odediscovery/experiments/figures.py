"""What the figures of all experiments share, so that they look like pages of one book.

A figure has rows of panels; methods stand side by side at a tick; every run is a point and the median
a short line; errors that no axis can show stand at its ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from odediscovery.plots.figures import COLOURS, empty_figure
from odediscovery.plots.figures import STYLE as PLAIN


@dataclass(frozen=True)
class Look:
    """Sizes: of figures in inches, of marks, lines and letters in points."""

    # Of a figure, and of one with three panels or more side by side; with one row of panels, and for each further one.
    width: float = 11.0
    wide: float = 14.0
    height: float = 4.8
    row: float = 2.2
    # Marks on a line, of a run, of the median of the runs, of a solution.
    marker: float = 4.0
    point: float = 6.0
    median: float = 14.0
    cross: float = 9.0
    # Lines that are no data, the line of a median, a line that others are drawn on; letters of a legend.
    thin: float = 0.8
    thick: float = 2.4
    broad: float = 5.0
    legend: float = 8.0
    # What remains of a colour where marks or lines lie on each other, and of that of an area.
    faint: float = 0.6
    area: float = 0.15
    # Degrees of names at ticks that are too long to lie.
    slant: float = 30.0
    # Part of the room between two ticks that methods share; `scatter` of it belongs to the runs of a method.
    group: float = 0.8
    scatter: float = 0.12
    # Ends of logarithmic axes of errors and of their squares; of axes of per cents and shares, with room for marks;
    # and of answers of which half are right by chance.
    errors: tuple[float, float] = (1e-7, 1e4)
    squares: tuple[float, float] = (1e-9, 1e9)
    per_cents: tuple[float, float] = (-4.0, 104.0)
    shares: tuple[float, float] = (-0.02, 1.04)
    accuracies: tuple[float, float] = (0.2, 1.04)


LOOK = Look()
STYLE: dict[Any, Any] = PLAIN | {"legend.fontsize": LOOK.legend, "lines.markersize": LOOK.marker}

Values: TypeAlias = NDArray[np.float64]


def page(rows: int = 1, *, wide: bool = False) -> Figure:
    """An empty figure with room for so many rows of panels."""
    return empty_figure(LOOK.wide if wide else LOOK.width, LOOK.height + LOOK.row * (rows - 1))


def aside(k: int, of: int) -> float:
    """Where the k-th of so many methods stands beside their common tick.

    >>> [round(aside(k, 3), 2) for k in range(3)]
    [-0.27, 0.0, 0.27]
    """
    return LOOK.group * (k - (of - 1) / 2) / of


def draw_runs(
    axis: Axes, at: float, values: Values, colour: str, label: str | None = None, *, lying: bool = False
) -> None:
    """Every run a point, side by side, and their median a short line.

    Args:
        at: their place on the axis of methods.
        lying: methods stand at the vertical axis, values at the other.
    """
    last = len(values) - 1
    beside = at + LOOK.scatter * (np.arange(len(values)) - last / 2) / max(last, 1)
    points: tuple[Any, Any] = (beside, np.sort(values))
    middle: tuple[Any, Any] = (at, np.median(values))
    if lying:
        points, middle = points[::-1], middle[::-1]
    axis.plot(*points, ".", ms=LOOK.point, color=colour, alpha=LOOK.faint, label=label)
    axis.plot(*middle, "|" if lying else "_", ms=LOOK.median, mew=LOOK.thick, color=colour)


def line_of(i: int) -> dict[str, Any]:
    """Colour and dash of the i-th of more lines than there are colours that can be told apart."""
    return {"color": COLOURS[i % len(COLOURS)], "ls": "-" if i < len(COLOURS) else "--"}


def draw_groups(
    axis: Axes,
    groups: Sequence[str],
    methods: Sequence[str],
    values: Callable[[str, str], Values | None],
    *,
    colours: Sequence[str] = COLOURS,
    bars: bool = False,
    lying: bool = False,
    first: int = 0,
) -> None:
    """Methods side by side at the tick of every group, which bear their names.

    Args:
        values: the runs of a group and a method, None where there are none.
        bars: a bar of the mean in place of points and a median.
        lying: groups stand at the vertical axis, values at the other.
        first: place of the first group.
    """
    for k, method in enumerate(methods):
        label: str | None = method
        for i, group in enumerate(groups, start=first):
            runs = values(group, method)
            if runs is None:
                continue
            at = i + aside(k, len(methods))
            if bars:
                axis.bar(at, float(np.mean(runs)), LOOK.group / len(methods), color=colours[k], label=label)
            else:
                draw_runs(axis, at, runs, colours[k], label, lying=lying)
            label = None
    (axis.set_yticks if lying else axis.set_xticks)(range(first, first + len(groups)), groups)


def draw_surface(axis: Axes, values: Values, box: tuple[float, float, float, float], norm: Any, **look: Any) -> Any:
    """Values over two quantities [first, second] as colours, the first to the right; what lies outside is clipped."""
    axis.grid(False)
    shown = values.T.clip(norm.vmin, norm.vmax)
    return axis.imshow(shown, origin="lower", extent=box, norm=norm, **look)


def legend_below(figure: Figure, axis: Axes, columns: int = 0) -> None:
    """One legend for all panels, of the names of one, below them."""
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns or len(labels) or 1)
