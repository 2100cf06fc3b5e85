"""What all pictures have in common: colours, widths of lines, sizes of marks and letters, what covers what.

A picture says what a thing is, a curve, a sample, a remark; how such a thing looks is said here. Each size is a
step of a short scale. They decide nothing about a fit, so they are no `Thresholds`, which a study halves and
doubles; but they say in the same way what they are for and in what they are measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, auto
from typing import Any

from odediscovery.runtime.thresholds import threshold

INK, MUTED, GRID, PAPER = "#222222", "#707070", "#e6e6e6", "#ffffff"
# Okabe and Ito (2008): blue, vermilion, green, orange, sky blue, purple, black.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#E69F00", "#56B4E9", "#CC79A7", "#000000")
BY_EYE = "chosen: by eye"
# Points of a curve that is integrated for a picture, and of one for a small panel of many.
CURVE_POINTS, PANEL_POINTS = 500, 300


class Depth(IntEnum):
    """What covers what, from behind; matplotlib itself draws areas in the first layer, lines in the second."""

    BEHIND = auto()
    DATA = auto()
    CURVE = auto()
    POINT = auto()
    MARK = auto()
    FRONT = auto()


@dataclass(frozen=True)
class Strokes:
    """Widths of lines."""

    curve: float = threshold(1.6, "curve of the equations", unit="points", origin=BY_EYE)
    line: float = threshold(1.2, "what is read beside curves: fronts, sums, intervals", unit="points", origin=BY_EYE)
    hair: float = threshold(0.8, "axes, zero lines, arrows, edges of marks", unit="points", origin=BY_EYE)


@dataclass(frozen=True)
class Marks:
    """Diameters of marks."""

    small: float = threshold(2.8, "one of many samples or residuals", unit="points", origin=BY_EYE)
    sample: float = threshold(4.2, "measured value", unit="points", origin=BY_EYE)
    point: float = threshold(6.5, "row of a front, start of a course, resting point", unit="points", origin=BY_EYE)
    named: float = threshold(8.0, "row of a front that has a name or is a button", unit="points", origin=BY_EYE)
    chosen: float = threshold(16.0, "star or ring that shows one row", unit="points", origin=BY_EYE)
    many: int = threshold(120, "samples of a panel; more as large rings hide the curve", origin=BY_EYE)


@dataclass(frozen=True)
class Letters:
    """Sizes of letters."""

    small: float = threshold(7.5, "labels in panels side by side", unit="points", origin=BY_EYE)
    note: float = threshold(
        8.5, "remarks", unit="points", origin="on a telephone the page shows no letter below 8 pixels"
    )
    text: float = threshold(9.5, "drawings of the page, heat maps", unit="points", origin=BY_EYE)
    picture: float = threshold(10.0, "pictures in files", unit="points", origin=BY_EYE)
    title: float = threshold(11.0, "above axes", unit="points", origin=BY_EYE)


@dataclass(frozen=True)
class Shades:
    """Opacity of areas."""

    light: float = threshold(0.15, "band of new measurements, of noise, of one curve of several", origin=BY_EYE)
    dark: float = threshold(0.30, "band of the curve itself", origin=BY_EYE)
    strong: float = threshold(0.75, "arrows, and the cell of a full correlation", origin=BY_EYE)


@dataclass(frozen=True)
class Room:
    """What is left free, as a share of what is shown."""

    curves: float = threshold(0.06, "around curves and points", origin=BY_EYE)
    marks: float = threshold(0.12, "around the large marks of a front", origin=BY_EYE)
    residuals: float = threshold(1.3, "height of an axis of residuals over the largest one", origin=BY_EYE)
    beyond: float = threshold(0.3, "how far curves and bands may leave the range of the data", origin=BY_EYE)


@dataclass(frozen=True)
class Ticks:
    """Steps between the numbers of an axis, at most."""

    few: int = threshold(3, "low axes", origin=BY_EYE)
    some: int = threshold(6, "others", origin="six labels of four digits stand side by side on a narrow axis")


@dataclass(frozen=True)
class Sizes:
    """Pictures in files, and what is stacked in them."""

    letters: int = threshold(64, "letters in two columns of a legend; with more there is one", origin=BY_EYE)

    width: float = threshold(4.2, "panel of a state", unit="inches", origin=BY_EYE)
    height: float = threshold(4.3, "panel with residuals below", unit="inches", origin=BY_EYE)
    plain: float = threshold(3.5, "panel without them", unit="inches", origin=BY_EYE)
    least: float = threshold(6.0, "width of a picture, whose headline is a line", unit="inches", origin=BY_EYE)
    legend: float = threshold(0.7, "headline and legend", unit="inches", origin=BY_EYE)
    notice: float = threshold(1.6, "picture of a sentence alone", unit="inches", origin=BY_EYE)
    pad: float = threshold(0.1, "between panels", unit="inches", origin=BY_EYE)
    cell: float = threshold(0.34, "constant in a matrix of correlations", unit="inches", origin=BY_EYE)
    group: float = threshold(0.22, "group in a forest plot", unit="inches", origin=BY_EYE)
    frame: float = threshold(0.9, "labels around such a stack", unit="inches", origin=BY_EYE)
    most: float = threshold(9.0, "the highest stack", unit="inches", origin=BY_EYE)

    def stack(self, count: int, each: float) -> float:
        """Height of a picture of so many rows, which stand closer where there are too many."""
        return min(self.frame + each * count, self.most)


STROKES, MARKS, LETTERS, SHADES, ROOM, TICKS, SIZES = Strokes(), Marks(), Letters(), Shades(), Room(), Ticks(), Sizes()

STYLE: dict[Any, Any] = {
    "font.size": LETTERS.picture,
    "lines.linewidth": STROKES.curve,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": STROKES.hair,
    "axes.grid": True,
    "grid.color": GRID,
    "grid.linewidth": STROKES.hair,
    "axes.axisbelow": True,
    "axes.titlesize": LETTERS.title,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "legend.frameon": False,
    "figure.dpi": 150.0,
    "axes.formatter.limits": (-3, 4),
    "axes.formatter.useoffset": False,
}
# Pictures of many panels.
DENSE = STYLE | {
    "font.size": LETTERS.note,
    "axes.titlesize": LETTERS.text,
    "legend.fontsize": LETTERS.small,
    "figure.labelsize": "medium",
}

# What is said by the way.
NOTE: dict[str, Any] = {"color": MUTED, "fontsize": LETTERS.note}
# Bands: areas without an edge, behind everything.
LIGHT: dict[str, Any] = {"alpha": SHADES.light, "lw": 0, "zorder": Depth.BEHIND}
DARK: dict[str, Any] = LIGHT | {"alpha": SHADES.dark}
# Lines that are read beside the curves, and those that only help the eye.
LINE: dict[str, Any] = {"lw": STROKES.line}
HAIR: dict[str, Any] = {"lw": STROKES.hair, "color": MUTED, "zorder": Depth.BEHIND}
# Measured values are rings, small and open where they are many.
RINGS: dict[str, Any] = {
    "marker": "o",
    "ls": "none",
    "markersize": MARKS.sample,
    "markerfacecolor": PAPER,
    "markeredgewidth": STROKES.hair,
}
SMALL_RINGS = RINGS | {"markersize": MARKS.small, "markerfacecolor": "none"}


def rings(count: int) -> dict[str, Any]:
    """How so many measured values of one panel are drawn.

    >>> rings(9)["markersize"] > rings(900)["markersize"]
    True
    """
    return SMALL_RINGS if count > MARKS.many else RINGS
