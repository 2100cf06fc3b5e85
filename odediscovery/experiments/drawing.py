"""What the figures of all experiments share, so that they look like pages of one book.

A figure has rows of panels; methods stand side by side at a tick; every run is a point and the median
a short line; errors that no axis can show stand at its ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from odediscovery.plots.figures import COLOURS, empty_figure
from odediscovery.plots.figures import STYLE as PLAIN


@dataclass(frozen=True)
class Look:
    """Sizes: of figures in inches, of marks, lines and letters in points.

    Args:
        width, wide: of a figure, and of one with three panels or more side by side.
        height, row: of a figure with one row of panels, and of each further row.
        marker, point, median, cross: marks on a line, of a run, of the median of the runs, of a solution.
        thin, thick, broad: lines that are no data, the line of a median, a line that others are drawn on.
        faint: what is left of a colour where marks or lines lie on each other.
        legend: letters of a legend.
        area: what is left of the colour of an area.
        slant: degrees of names at ticks that are too long to lie.
        group: part of the room between two ticks that methods share, `scatter` of it is a method's runs'.
        errors, squares: ends of logarithmic axes of errors and of their squares.
        per_cents, shares: ends of an axis of per cents and of shares, with room for marks.
        accuracies: of answers of which half are right by chance.
    """

    width: float = 11.0
    wide: float = 14.0
    height: float = 4.8
    row: float = 2.2
    marker: float = 4.0
    point: float = 6.0
    median: float = 14.0
    cross: float = 9.0
    thin: float = 0.8
    thick: float = 2.4
    broad: float = 5.0
    faint: float = 0.6
    area: float = 0.15
    legend: float = 8.0
    slant: float = 30.0
    group: float = 0.8
    scatter: float = 0.12
    errors: tuple[float, float] = (1e-7, 1e4)
    squares: tuple[float, float] = (1e-9, 1e9)
    per_cents: tuple[float, float] = (-4.0, 104.0)
    shares: tuple[float, float] = (-0.02, 1.04)
    accuracies: tuple[float, float] = (0.2, 1.04)


LOOK = Look()
STYLE: dict[Any, Any] = PLAIN | {"legend.fontsize": LOOK.legend, "lines.markersize": LOOK.marker}


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
    axis: Axes, at: float, values: NDArray[np.float64], colour: str, label: str | None = None, *, lying: bool = False
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
