"""Style and axes of pictures: colours, lines, marks, letters, labels with units, dates, limits, bands.

Lines, marks and letters are measured in points, panels in inches; all were chosen by eye.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import IntEnum
from typing import Any

import numpy as np
from matplotlib import dates
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from odediscovery.data.dates import UNITS
from odediscovery.data.series import TimeSeries
from odediscovery.runtime.arrays import Array

INK, MUTED, GRID, PAPER = "#222222", "#707070", "#e6e6e6", "#ffffff"
# Okabe and Ito (2008): blue, vermilion, green, orange, sky blue, purple, black.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#E69F00", "#56B4E9", "#CC79A7", "#000000")
# Points of a curve in a picture, and in a small panel.
CURVE_POINTS, PANEL_POINTS = 500, 300


# Layers from back to front; by default matplotlib draws areas in the first layer, lines in the second.
Depth = IntEnum("Depth", ["BEHIND", "DATA", "CURVE", "POINT", "MARK", "FRONT"])


# Lines: fronts, sums and intervals; axes, arrows and edges.
LINE_WIDTH, HAIR_WIDTH = 1.2, 0.8
# Marks: one of many samples, a sample, a row of a front.
SMALL_MARK, SAMPLE, POINT = 2.8, 4.2, 6.5
# Letters: panels side by side, remarks (8 pixels on a telephone), pages.
SMALL_TEXT, NOTE_TEXT, PAGE_TEXT = 7.5, 8.5, 9.5
# Opacity of cells and arrows.
STRONG = 0.75
# Largest numbers of ticks of low axes and of others.
FEW_TICKS, MAX_TICKS = 3, 6
# Margin around curves, and how far they may exceed the range of the data, as shares of the range.
ROOM, BEYOND = 0.06, 0.3
# Pictures in files: a panel, its height with residuals, the least width.
WIDTH, HEIGHT, LEAST_WIDTH = 4.2, 4.3, 6.0

STYLE: dict[Any, Any] = {
    "font.size": 10.0,
    "lines.linewidth": 1.6,
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
    "axes.titlesize": 11.0,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "legend.frameon": False,
    "figure.dpi": 150.0,
    "axes.formatter.limits": (-3, 4),
    "axes.formatter.useoffset": False,
}
# Column names are not read as mathematics.
NAMES: dict[Any, Any] = STYLE | {"text.parse_math": False}
# Pictures of many panels.
DENSE = NAMES | {
    "font.size": NOTE_TEXT,
    "axes.titlesize": PAGE_TEXT,
    "legend.fontsize": SMALL_TEXT,
    "figure.labelsize": "medium",
}
# Drawings within a page, with text as text.
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
LIGHT: dict[str, Any] = {"alpha": 0.15, "lw": 0, "zorder": Depth.BEHIND}
DARK: dict[str, Any] = LIGHT | {"alpha": 0.30}
# Lines with a meaning of their own, and guides for the eye.
LINE: dict[str, Any] = {"lw": LINE_WIDTH}
HAIR: dict[str, Any] = {"lw": HAIR_WIDTH, "color": MUTED, "zorder": Depth.BEHIND}
# Measured values are rings, small and open if there are many.
RINGS: dict[str, Any] = {
    "marker": "o",
    "ls": "none",
    "markersize": SAMPLE,
    "markerfacecolor": PAPER,
    "markeredgewidth": HAIR_WIDTH,
}
SMALL_RINGS = RINGS | {"markersize": SMALL_MARK, "markerfacecolor": "none"}


def rings(count: int) -> dict[str, Any]:
    """Style of `count` measured values in one panel: more than 120 large rings would hide the curve."""
    return SMALL_RINGS if count > 120 else RINGS


# Its functions are untyped.
_DATES: Any = dates


def empty_figure(width: float, height: float) -> Figure:
    """An empty figure, measured in inches, drawn by Agg and laid out without overlaps."""
    figure = Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.1), facecolor=PAPER)
    FigureCanvasAgg(figure)
    return figure


def with_unit(name: str, units: Mapping[str, str]) -> str:
    """A name with its unit in brackets, if known."""
    return f"{name} [{units[name]}]" if units.get(name) else name


def set_times(axes: Axes, series: TimeSeries) -> None:
    """Label the horizontal axis, whose limits are final, as the time of a series, with dates if it has any."""
    name, unit = series.time_name, series.units.get(series.time_name, "")
    axes.set_xlabel(with_unit(name, series.units))
    # Without steps of 2.5, since 1902.5 would be too long a label.
    axes.xaxis.set_major_locator(MaxNLocator(MAX_TICKS, steps=[1, 2, 4, 5, 10]))
    if not series.since or unit not in UNITS:
        return
    days = UNITS[unit] / UNITS["days"]
    low, high = sorted(axes.get_xlim())
    locator = _DATES.AutoDateLocator(minticks=FEW_TICKS, maxticks=MAX_TICKS)
    formatter = _DATES.ConciseDateFormatter(locator)
    try:
        since = float(_DATES.date2num(datetime.fromisoformat(series.since)))
        ticks = np.array(locator.tick_values(*(_DATES.num2date(since + days * t) for t in (low, high))), dtype=float)
        ticks = ticks[(ticks >= since + days * low) & (ticks <= since + days * high)]
        texts = formatter.format_ticks(ticks)
    except (ValueError, OverflowError):
        return
    axes.set_xticks((ticks - since) / days, texts)
    axes.set_xlabel(f"{name} {formatter.get_offset()}".strip())


def frame(axes: Axes, curves: Iterable[Array], seen: Array) -> None:
    """Set vertical limits by the data; curves and bands may exceed them a little, and decide without data."""
    drawn = np.concatenate([np.ravel(v) for v in curves] or [np.zeros(0)])
    drawn, known = drawn[np.isfinite(drawn)], seen[np.isfinite(seen)]
    base = known if known.size else drawn
    if not base.size:
        return
    low, high = float(base.min()), float(base.max())
    room = (high - low) or abs(high) or 1.0
    if drawn.size:
        low = min(low, max(float(drawn.min()), low - BEYOND * room))
        high = max(high, min(float(drawn.max()), high + BEYOND * room))
    axes.set_ylim(low - ROOM * room, high + ROOM * room)


def ends_of(values: Array) -> tuple[float, float]:
    """Range of the finite values, with some margin."""
    known = values[np.isfinite(values)]
    low, high = float(known.min()), float(known.max())
    room = ROOM * ((high - low) or abs(high) or 1.0)
    return low - room, high + room


def draw_band(axes: Axes, times: Array, curve: Array, half: Array, ends: tuple[Any, Any], **look: Any) -> None:
    """Draw a band around a curve where its half width is known, clipped to two ends unless the curve exceeds them."""
    if np.isfinite(half).any():
        low = np.maximum(curve - half, np.minimum(curve, ends[0]))
        high = np.minimum(curve + half, np.maximum(curve, ends[1]))
        axes.fill_between(times, low, high, **look)


def frame_residuals(axes: Axes, residuals: Sequence[Array]) -> None:
    """Centre an axis of residuals on a line at 0, in the colour of the curve if there is only one."""
    axes.axhline(0.0, color=COLOURS[0] if len(residuals) == 1 else MUTED, zorder=Depth.BEHIND, **LINE)
    largest = max((float(np.nanmax(np.abs(left), initial=0.0)) for left in residuals), default=0.0)
    reach = 1.3 * (largest if np.isfinite(largest) and largest > 0 else 1.0)
    axes.set_ylim(-reach, reach)
    axes.yaxis.set_major_locator(MaxNLocator(FEW_TICKS, symmetric=True))
    axes.set_ylabel("residual", **NOTE)


def label_decades(axes: Axes, low: float, high: float) -> None:
    """Set ticks of a logarithmic axis between two values: every decade, or more if there are fewer than three."""
    for steps in ((1.0,), (1.0, 3.0), (1.0, 2.0, 5.0)):
        ticks = [tick for tick in LogLocator(subs=steps).tick_values(low, high) if low <= tick <= high]
        if len(ticks) > 2:
            break
    axes.set_yticks(ticks, list(map(power_of_ten, ticks)))
    axes.yaxis.set_minor_locator(NullLocator())


def power_of_ten(value: float) -> str:
    """Write one, two, three or five times a power of ten for an axis: 100, 10⁻¹², 2·10⁷."""
    first, _, power = f"{value:.0e}".partition("e")
    least, most = STYLE["axes.formatter.limits"]
    if least <= int(power) < most:
        return f"{value:g}"
    raised = str(int(power)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{f'{first}·' if first != '1' else ''}10{raised}"
