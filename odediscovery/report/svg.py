"""Pictures of the page: small SVG drawings that take their colours and letters from it.

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
from collections.abc import Callable
from typing import Any

from markupsafe import Markup, escape
from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from odediscovery.plots.theme import COLOURS, GRID, INK, MAX_TICKS, MUTED, PAGE, PAPER

# Inches: a drawing, one of many, residuals beneath, portraits and the front; and the margins for numbers and labels.
WIDTH, HEIGHT, NARROW, SMALL, RESIDUALS, TALL = 4.2, 2.4, 3.1, 2.1, 0.85, 3.3
LEFT, RIGHT, BOTTOM, TOP = 0.62, 0.1, 0.44, 0.2

_COLOURS = {INK: "ink", MUTED: "muted", GRID: "grid", PAPER: "paper"}
_COLOURS |= {colour.lower(): f"c{i}" for i, colour in enumerate(COLOURS)}
_COLOUR = re.compile("|".join(_COLOURS))
# The page says the family and the colour of letters, the drawing only how large they are.
_FONT = re.compile(r"font: (?:\w+ )*?([\d.]+px) .*?sans-serif")
_PLACES = re.compile(r' (?:d|x|y|width|height|transform)="[^"]*"')
# Parts with a name of this kind are what clicking shows or hides; they share a class and a row, and some are on.
_ROW = re.compile(r' id="(mark|point|row)-(\d+)(-on)?"')
_MARKS = re.compile(r"<g([^>]*)>((?:<use [^>]*/>){2,})")


def svg(draw: Callable[..., Any], name: str, label: str, **size: float) -> Markup | None:
    """What is drawn into a new figure of one axes, or two, as an `<svg>` element.

    Args:
        draw: draws into the axes that it gets; False: there is nothing to be drawn, and the answer is None.
        name: of letters and digits; no other drawing of the page has it.
        label: what is seen, for those who cannot see it.
        size: `width`, `height` and height `below` of a second axes beneath, in inches.
    """
    with rc_context(PAGE):
        figure, axes = panel(**size)
        return None if draw(*axes) is False else inline(figure, name, label)


def panel(width: float = WIDTH, height: float = HEIGHT, below: float = 0.0) -> tuple[Figure, list[Any]]:
    """An empty figure with one axes, or a second one under it."""
    high = height + below
    figure = Figure(figsize=(width, high), facecolor="none")
    FigureCanvasAgg(figure)
    inner = LEFT / width, (width - LEFT - RIGHT) / width
    boxes = [(BOTTOM + below, height - BOTTOM - TOP), (BOTTOM, below - TOP)][: 1 + bool(below)]
    axes: list[Any] = []
    for bottom, tall in boxes:
        box = (inner[0], bottom / high, inner[1], tall / high)
        axes.append(figure.add_axes(box, facecolor="none", sharex=axes[0] if axes else None))
        for axis in (axes[-1].xaxis, axes[-1].yaxis):
            axis.set_major_locator(MaxNLocator(MAX_TICKS))
    return figure, axes


def inline(figure: Figure, name: str, label: str, shares: tuple[float, float] | None = None) -> Markup:
    """A figure as an `<svg>` element; its style is that of the page, and so are its colours.

    Args:
        name, label: as in `svg`.
        shares: bounds of its width, as shares of its own, where the style sheet has none.
    """
    stream = io.StringIO()
    # Names that it refers to are hashes with the name of the drawing: one result gives one page, and no two are alike.
    # Letters that matplotlib's font lacks are the browser's to find.
    with warnings.catch_warnings(), rc_context(PAGE | {"svg.hashsalt": name}):
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        nobody = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(stream, format="svg", transparent=True, metadata=nobody)
    head, _, drawing = stream.getvalue().partition("</style>\n </defs>")
    box = re.search(r'viewBox="([^"]*)"', head)
    assert box is not None and drawing
    drawing = re.sub(r">\s+<", "><", re.sub(r"<!--.*?-->", "", drawing, flags=re.DOTALL))
    drawing = _MARKS.sub(_share_style, re.sub(r"<[^>]+>", _adopt, drawing))
    width = float(box[1].split()[2])
    bounds = f' style="min-width: {shares[0] * width:.0f}px; max-width: {shares[1] * width:.0f}px"' if shares else ""
    start = f'<svg viewBox="{box[1]}" role="img" aria-label="{escape(label)}" class="drawing {name}"{bounds}>'
    return Markup(start + drawing.strip())


def _adopt(found: re.Match[str]) -> str:
    """A tag of a file as one of the page: without names that nobody refers to, in the colours of the page."""
    tag = found[0].replace("xlink:href", "href")
    if row := _ROW.search(tag):
        tag = tag.replace(row[0], f' class="{row[1]}{" on" * bool(row[3])}" data-row="{row[2]}"')
    if tag.startswith("<g "):
        tag = re.sub(r' id="[^"]*"', "", tag)
    if "style=" in tag:
        tag = _COLOUR.sub(lambda hue: f"var(--{_COLOURS[hue[0]]})", _FONT.sub(r"font-size: \1", tag))
    # Tenths of a point are exact enough.
    return _PLACES.sub(
        lambda place: re.sub(r"-?\d+\.\d+", lambda x: f"{float(x[0]):.1f}".removesuffix(".0"), place[0]), tag
    )


def _share_style(found: re.Match[str]) -> str:
    """What many marks have in common is said once, by what holds them."""
    styles = set(re.findall(r' style="[^"]*"', found[2]))
    if len(styles) != 1 or "style=" in found[1]:
        return found[0]
    style = styles.pop()
    return f"<g{found[1]}{style}>{found[2].replace(style, '')}"
