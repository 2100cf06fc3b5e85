"""How pictures look: colours, widths of lines, sizes of marks and letters, what covers what.

Lines, marks and letters are measured in points, panels in inches; all were chosen by eye.
"""

from __future__ import annotations

from enum import IntEnum, auto
from typing import Any

INK, MUTED, GRID, PAPER = "#222222", "#707070", "#e6e6e6", "#ffffff"
# Okabe and Ito (2008): blue, vermilion, green, orange, sky blue, purple, black.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#E69F00", "#56B4E9", "#CC79A7", "#000000")
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


# Lines: curves of the equations; fronts, sums and intervals; axes, arrows and edges.
CURVE_WIDTH, LINE_WIDTH, HAIR_WIDTH = 1.6, 1.2, 0.8
# Marks: one of many samples, a sample, a row of a front, a row with a name, the chosen row, the ring around a row.
SMALL_MARK, SAMPLE, POINT, NAMED, CHOSEN, RING = 2.8, 4.2, 6.5, 8.0, 16.0, 22.0
# Letters: panels side by side, remarks (8 pixels on a telephone), pages, files, titles.
SMALL_TEXT, NOTE_TEXT, PAGE_TEXT, TEXT, TITLE = 7.5, 8.5, 9.5, 10.0, 11.0
# Opacity of areas: wide bands, the band of the curve itself, cells and arrows.
FAINT, SHADED, STRONG = 0.15, 0.30, 0.75
# Samples of a panel; more as large rings would hide the curve.
MANY = 120
# Ticks of low axes and of others, at most.
FEW_TICKS, MAX_TICKS = 3, 6
# Room around curves, as a share of their range, and how far they may leave the range of the data.
ROOM, BEYOND = 0.06, 0.3
# Pictures in files: a panel, its height with residuals, the least width.
WIDTH, HEIGHT, LEAST_WIDTH = 4.2, 4.3, 6.0

STYLE: dict[Any, Any] = {
    "font.size": TEXT,
    "lines.linewidth": CURVE_WIDTH,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": HAIR_WIDTH,
    "axes.grid": True,
    "grid.color": GRID,
    "grid.linewidth": HAIR_WIDTH,
    "axes.axisbelow": True,
    "axes.titlesize": TITLE,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "legend.frameon": False,
    "figure.dpi": 150.0,
    "axes.formatter.limits": (-3, 4),
    "axes.formatter.useoffset": False,
}
# No name of a column is mathematics.
NAMES: dict[Any, Any] = STYLE | {"text.parse_math": False}
# Pictures of many panels.
DENSE = NAMES | {
    "font.size": NOTE_TEXT,
    "axes.titlesize": PAGE_TEXT,
    "legend.fontsize": SMALL_TEXT,
    "figure.labelsize": "medium",
}
# Drawings within a page, whose letters stay letters.
PAGE = NAMES | {
    "svg.fonttype": "none",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": PAGE_TEXT,
    "axes.labelsize": PAGE_TEXT,
    "xtick.labelsize": 9.0,
    "ytick.labelsize": 9.0,
    "xtick.major.size": 3.0,
    "ytick.major.size": 3.0,
    "path.simplify_threshold": 0.15,
}

# Remarks.
NOTE: dict[str, Any] = {"color": MUTED, "fontsize": NOTE_TEXT}
# Bands: areas without an edge, behind everything.
LIGHT: dict[str, Any] = {"alpha": FAINT, "lw": 0, "zorder": Depth.BEHIND}
DARK: dict[str, Any] = LIGHT | {"alpha": SHADED}
# Lines that are read beside the curves, and those that only help the eye.
LINE: dict[str, Any] = {"lw": LINE_WIDTH}
HAIR: dict[str, Any] = {"lw": HAIR_WIDTH, "color": MUTED, "zorder": Depth.BEHIND}
# Measured values are rings, small and open where they are many.
RINGS: dict[str, Any] = {
    "marker": "o",
    "ls": "none",
    "markersize": SAMPLE,
    "markerfacecolor": PAPER,
    "markeredgewidth": HAIR_WIDTH,
}
SMALL_RINGS = RINGS | {"markersize": SMALL_MARK, "markerfacecolor": "none"}


def rings(count: int) -> dict[str, Any]:
    """How so many measured values of one panel are drawn.

    >>> rings(9)["markersize"] > rings(900)["markersize"]
    True
    """
    return SMALL_RINGS if count > MANY else RINGS
