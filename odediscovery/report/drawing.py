"""Figures for the page: small SVG drawings that take their colours and letters from it.

Why SVG by matplotlib and no plotly: a drawing of a few kilobytes instead of a library of four
megabytes in every file, it prints as sharply as it shows, and all that has to move when somebody
clicks is what is hidden or seen, which a few lines of plain JavaScript can do. Text stays text,
so it is searched and read aloud, and every colour becomes a variable of the page's style sheet,
so that one drawing serves light, dark and paper.

A drawing is as wide as a phone; a wide screen shows several side by side. Margins are fixed, for
labels are short, and laying out by constraints takes longer than all the rest.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias
from xml.etree import ElementTree

import numpy as np
from markupsafe import Markup
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator
from numpy.typing import NDArray

from odediscovery.plots.pieces import power_of_ten, raised
from odediscovery.plots.theme import BY_EYE, COLOURS, GRID, INK, LETTERS, MUTED, NOTE, PAPER, ROOM, STYLE, TICKS
from odediscovery.plots.times import DateLocator
from odediscovery.runtime.arrays import Array
from odediscovery.runtime.thresholds import threshold

Places: TypeAlias = NDArray[np.int_]

# Trajectories in one drawing: the colours of more could not be distinguished.
MAX_RUNS = 6
# A logarithmic axis of less than this has numbers between the powers of ten.
NARROW = 300.0


@dataclass(frozen=True)
class PanelSizes:
    """Drawings of the page."""

    width: float = threshold(4.2, "drawing", unit="inches", origin="one that fills a telephone is magnified a little")
    height: float = threshold(2.4, "curves over time", unit="inches", origin=BY_EYE)
    residuals: float = threshold(0.85, "residuals beneath them", unit="inches", origin=BY_EYE)
    tall: float = threshold(3.3, "portraits, the front", unit="inches", origin=BY_EYE)
    small: float = threshold(2.1, "height of a drawing of many", unit="inches", origin=BY_EYE)
    narrow: float = threshold(3.1, "width of a drawing of many", unit="inches", origin=BY_EYE)
    left: float = threshold(0.62, "numbers and label", unit="inches", origin=BY_EYE)
    bottom: float = threshold(0.44, "numbers and label", unit="inches", origin=BY_EYE)
    top: float = threshold(0.15, "half a number, or a power of ten", unit="inches", origin=BY_EYE)
    right: float = threshold(0.1, "half a number", unit="inches", origin=BY_EYE)
    low: float = threshold(1.5, "axis that has no room for a power of ten in its label", unit="inches", origin=BY_EYE)


PANEL = PanelSizes()
# No name is mathematics, letters stay letters, and one input gives one file.
DRAWN: dict[Any, Any] = STYLE | {
    "text.parse_math": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "report",
    "font.size": LETTERS.text,
    "axes.labelsize": LETTERS.text,
    "xtick.labelsize": 9.0,
    "ytick.labelsize": 9.0,
    "xtick.major.size": 3.0,
    "ytick.major.size": 3.0,
    "path.simplify_threshold": 0.15,
}
_VARIABLES = {
    INK: "var(--ink)",
    MUTED: "var(--muted)",
    GRID: "var(--grid)",
    PAPER: "var(--paper)",
    **{colour.lower(): f"var(--c{i})" for i, colour in enumerate(COLOURS)},
}
_COLOUR = re.compile("|".join(map(re.escape, _VARIABLES)))
_DECIMALS = re.compile(r"-?\d+\.\d+")
_SVG = "{http://www.w3.org/2000/svg}"
_LINK = "{http://www.w3.org/1999/xlink}href"
# The page says the family and the colour of letters, the drawing only how large they are.
_FONT = re.compile(r"font: (?:\w+ )*?([\d.]+px) [^;]*;")
# Parts with a name of this kind are what clicking shows or hides; they share a class and a row.
_ROW = re.compile(r"(mark|point|row)-(\d+)")


def colour(index: int) -> str:
    """Of the trajectory or state with this index among those drawn."""
    return COLOURS[index % MAX_RUNS]


def panel(height: float = PANEL.height, below: float = 0.0, width: float = PANEL.width) -> tuple[Figure, list[Axes]]:
    """An empty figure with one axes, or a second one under it.

    Args:
        height: in inches, without the second one.
        below: height of the second one in inches; 0 for none.
        width: in inches.
    """
    high = height + below
    figure = Figure(figsize=(width, high), facecolor="none")
    FigureCanvasAgg(figure)
    left, inner = PANEL.left / width, (width - PANEL.left - PANEL.right) / width
    bottom, upper = PANEL.bottom / high, (height - PANEL.bottom - PANEL.top) / high
    first = figure.add_axes((left, bottom + below / high, inner, upper))
    axes = [first]
    if below:
        axes.append(figure.add_axes((left, bottom, inner, (below - PANEL.top) / high), sharex=first))
        first.tick_params(labelbottom=False)
    for one in axes:
        one.set_facecolor("none")
        for axis in (one.xaxis, one.yaxis):
            axis.set_major_locator(MaxNLocator(TICKS.some))
    return figure, axes


def thinned(count: int, most: int) -> Places:
    """Places of at most so many of `count` samples, the first and the last among them.

    >>> thinned(5, 9).tolist(), thinned(9, 3).tolist()
    ([0, 1, 2, 3, 4], [0, 4, 8])
    """
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int))


def logarithmic(axes: Axes) -> None:
    """A vertical axis of powers of ten for what was drawn, written without mathematics."""
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    within = (1.0, 2.0, 5.0) if high < NARROW * low else (1.0,)
    axes.yaxis.set_major_locator(LogLocator(subs=within))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: power_of_ten(value)))


def _write_numbers(axes: Axes) -> None:
    """Numbers of a few letters on both axes; a common power of ten stands in the label."""
    for axis, ends in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
        largest = max(map(abs, ends))
        fixed = isinstance(axis.get_major_locator(), (DateLocator, FixedLocator))
        if axis.get_scale() != "linear" or not largest > 0 or fixed:
            continue
        power = int(np.floor(np.log10(largest)))
        least, most = DRAWN["axes.formatter.limits"]
        power = 0 if least < power <= most else power
        ticks = [t for t in axis.get_majorticklocs() if min(ends) <= t <= max(ends)]
        digits = [f"{round(t / 10.0**power, 9):.6g}".partition(".")[2] for t in ticks]
        places = max((len(d) for d in digits if "e" not in d), default=0)
        axis.set_major_formatter(FuncFormatter(partial(_number, power=power, places=places)))
        label = axis.get_label_text()
        low = axes.get_position().height * axes.figure.get_figheight() < PANEL.low  # type: ignore[union-attr]
        if power and (axis is axes.xaxis or label):
            between = "\n" if low and axis is axes.yaxis else ", "
            axis.set_label_text(f"{label}{between}\N{MULTIPLICATION SIGN}10{raised(power)}")
        elif power:
            told = f"\N{MULTIPLICATION SIGN}10{raised(power)}"
            axes.text(0.0, 1.0, told, transform=axes.transAxes, ha="right", va="bottom", **NOTE)


def _number(value: float, _: int | None, power: int, places: int) -> str:
    # What is left of 0 by rounding is 0.
    written = f"{value / 10.0**power:.{places}f}"
    return written.replace("-", "\N{MINUS SIGN}") if float(written) else "0"


def limited(axes: Axes, values: Iterable[Array], seen: Array, beyond: float = 0.5) -> None:
    """Vertical limits by what was measured; curves may go beyond it by a share of its range.

    Args:
        values: curves.
        seen: measured values; where there are none the curves alone tell.
    """
    curves = np.concatenate([np.ravel(v) for v in values] or [np.zeros(0)])
    curves = curves[np.isfinite(curves)]
    known = seen[np.isfinite(seen)]
    base = known if known.size else curves
    if not base.size:
        return
    low, high = float(base.min()), float(base.max())
    room = (high - low) or abs(high) or 1.0
    if curves.size:
        low = min(low, max(float(curves.min()), low - beyond * room))
        high = max(high, min(float(curves.max()), high + beyond * room))
    axes.set_ylim(low - ROOM.curves * room, high + ROOM.curves * room)


def inline(
    figure: Figure,
    name: str,
    label: str,
    classes: Sequence[str] = (),
    shown: int | None = None,
    least: float | None = None,
    most: float | None = None,
) -> Markup:
    """A figure as an `<svg>` element for a page.

    Args:
        name: of letters and digits; no other drawing of the page has it.
        label: what is seen, for those who cannot see it.
        classes: of the element.
        shown: the row of a front whose parts are seen at first.
        least, most: bounds of its width, as shares of its own, where the style sheet has none.
    """
    for axes in figure.axes:
        _write_numbers(axes)
    stream = io.StringIO()
    # Letters that matplotlib's font lacks are the browser's to find.
    with warnings.catch_warnings(), rc_context(DRAWN):
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(
            stream, format="svg", transparent=True, metadata=dict.fromkeys(("Date", "Creator", "Format", "Type"))
        )
    root = ElementTree.fromstring(stream.getvalue())
    for parent in list(root.iter()):
        for child in list(parent):
            # Its style sheet would be the page's, where `*` is everything.
            if child.tag in (f"{_SVG}metadata", f"{_SVG}style"):
                parent.remove(child)
    for element in root.iter():
        _adopt(element, name, str(shown))
    _share_styles(root)
    box = root.attrib["viewBox"]
    root.attrib.clear()
    root.attrib.update({"viewBox": box, "role": "img", "aria-label": label, "class": " ".join(["drawing", *classes])})
    if least and most:
        wide = float(box.split()[2])
        root.set("style", f"min-width: {least * wide:.0f}px; max-width: {most * wide:.0f}px")
    return Markup(ElementTree.tostring(root, encoding="unicode", short_empty_elements=True))


def _adopt(element: ElementTree.Element, name: str, shown: str) -> None:
    """Make an element of a file one of the page: no namespaces, names of its own, its colours."""
    element.tag = element.tag.removeprefix(_SVG)
    given = dict(element.attrib)
    element.attrib.clear()
    for key, value in given.items():
        if key == _LINK:
            element.set("href", value.replace("#", f"#{name}-"))
        elif key == "id":
            row = _ROW.fullmatch(value)
            if row:
                element.set("class", f"{row[1]} on" if row[2] == shown else row[1])
                element.set("data-row", row[2])
            elif element.tag != "g":  # nobody refers to groups
                element.set("id", f"{name}-{value}")
        elif key == "style":
            value = _FONT.sub(r"font-size: \1;", value)
            element.set(key, _COLOUR.sub(lambda found: _VARIABLES[found[0]], value))
        elif key in ("d", "x", "y", "width", "height", "transform"):
            element.set(key, _DECIMALS.sub(_rounded, value))
        elif not key.startswith("{"):
            element.set(key, value.replace("url(#", f"url(#{name}-"))
    element.tail = None
    if element.tag not in ("text", "tspan"):
        element.text = None


def _rounded(found: re.Match[str]) -> str:
    return f"{float(found[0]):.1f}".removesuffix(".0")


def _share_styles(root: ElementTree.Element) -> None:
    """What many markers have in common is said once, by what holds them."""
    for group in root.iter("g"):
        own = [child for child in group if child.tag == "use"]
        styles = {child.get("style", "") for child in own}
        if len(own) > 1 and len(styles) == 1 and not group.get("style"):
            group.set("style", styles.pop())
            for child in own:
                del child.attrib["style"]
