"""Drawings of the page, made by the functions that also draw the pictures in files.

The numbers of samples, trajectories and states are limited. Each curve is integrated once for all drawings.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from markupsafe import Markup, escape
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

import odediscovery.plots.axes as style
import odediscovery.plots.checks as checks
import odediscovery.plots.figures as figures
from odediscovery.data.series import TimeSeries, measured
from odediscovery.plots.fit import Course, course_of, draw_state, thinned
from odediscovery.plots.heatmaps import network_figure
from odediscovery.plots.portraits import Resting, draw_portrait, portrait_pairs
from odediscovery.result.discovery import Discovery, describe_chain
from odediscovery.result.front import FrontRow


def drawn_runs(found: Discovery) -> list[Course]:
    """At most six trajectories to draw, with their curves: more colours could not be distinguished."""
    series = found.series
    chosen = thinned(len(series.trajectories), 6).tolist()
    panels = max(min(series.n_states, figures.MAX_PANELS), 1) * len(chosen)
    # Points per panel, of 8000 in all panels.
    most = int(np.clip(8000 // panels, 25, 400))
    return [course_of(found, j, most) for j in chosen]


def left_out(series: TimeSeries, runs: Sequence[Course]) -> str:
    """Describe which part is drawn in one sentence; "" if everything is."""
    parts = []
    if series.n_states > figures.MAX_PANELS:
        parts.append(f"the first {figures.MAX_PANELS} of {series.n_states} states")
    if len(runs) < len(series.trajectories):
        parts.append(f"{len(runs)} of {len(series.trajectories)} trajectories")
    drawn, all_of = sum(len(one.samples) for one in runs), sum(len(one.run.time) for one in runs)
    if drawn < all_of:
        parts.append(f"every {round(all_of / drawn)}th sample, {drawn} of {all_of}")
    return f"Drawn are {', and '.join(parts)}." if parts else ""


def fits(found: Discovery, runs: Sequence[Course]) -> list[tuple[str, bool, Markup | None]]:
    """Draw data, curves and residuals: state, whether it was measured, and drawing."""
    made = []
    seen = measured(found.series)[: figures.MAX_PANELS].tolist()
    for k, (state, there) in enumerate(zip(found.series.states, seen, strict=False)):
        label = f"{state} over {found.series.time_name}: data and curve"
        drawing = svg(lambda *axes, k=k: draw_state(axes, found, runs, k), f"fit{k}", label, below=RESIDUALS * there)
        made.append((state, there, drawing))
    return made


# The Pareto front: all rows are drawn in advance, and the script of the page shows the one whose point is clicked.


def front(found: Discovery, run: Course) -> dict[str, Any]:
    """Draw the front, and the curve of each row, simplest first, over the data of one trajectory."""
    rows, cost, error, chosen = figures.front_of(found)
    times = np.linspace(run.run.time[0], run.run.time[-1], style.PANEL_POINTS)
    curves = []
    for row in rows:
        # Published recipes fit no starts of single rows: all have the same.
        start = (found.initial_values if row.initial_values is None else row.initial_values)[run.index]
        law = found.equations_of(run.index) if row.selected else row.equations
        # Tolerances for a picture; a solution that needs more evaluations diverges.
        curves.append(law.simulate(start, times, 1e-6, 1e-9, most_evaluations=10_000, controls=run.run.controls))

    def draw(axes: Axes, k: int) -> None:
        axes.plot(run.seen, run.points[:, k], color=style.INK, **style.rings(len(run.samples)))
        for i, values in enumerate(curves):
            look: dict[str, Any] = {"zorder": style.Depth.CURVE}
            if i == chosen:
                axes.plot(times, values[:, k], color=style.COLOURS[1], ls="--", **look, **style.LINE)
            axes.plot(times, values[:, k], color=style.COLOURS[0], gid=f"row-{i}" + "-on" * (i == chosen), **look)
        style.frame(axes, [values[:, k] for values in curves], run.points[:, k])
        style.set_times(axes, found.series)

    def draw_points(axes: Axes) -> None:
        figures.draw_front(axes, cost, error, chosen)
        # Rings around the points; the script shows one of them.
        for i, y in enumerate(figures.cut_axis(error)[0].tolist()):
            ring: dict[str, Any] = {"ms": 22.0, "mfc": "none", "mec": style.INK, "mew": style.LINE_WIDTH}
            axes.plot(cost[i], y, "o", gid=f"mark-{i}" + "-on" * (i == chosen), zorder=style.Depth.MARK, **ring)
        axes.set(xlabel=figures.meaning_of_complexity(found), ylabel="mean squared error")

    label = "Pareto front: complexity against mean squared error"
    scores = np.array([row.criterion for row in rows], dtype=float)
    least = float(np.min(scores[np.isfinite(scores)], initial=np.inf))
    differences = [float(x) - least if np.isfinite(x) else float("nan") for x in scores]
    return {
        "rows": rows,
        "chosen": chosen,
        "points": svg(draw_points, "front", label, height=TALL),
        "panels": panels(found, draw, "row", ": data and curve of the shown row"),
        "differences": differences,
        "reason": _reason(found, rows, differences, chosen),
    }


def _reason(found: Discovery, rows: Sequence[FrontRow], differences: Sequence[float], chosen: int) -> str:
    """Explain the choice of a row in one or two sentences."""
    if any("was chosen by hand" in text for text in found.messages):
        return "This row was chosen by hand."
    own = differences[chosen]
    if not np.isfinite(own):
        return ""
    own_row = f"The row of complexity {rows[chosen].complexity}"
    if own > 0:
        elsewhere = "elsewhere: those rows were passed over for what stands under What to know."
        return f"{own_row} was chosen although the criterion is smaller by {own:.1f} {elsewhere}"
    others = sorted(x for i, x in enumerate(differences) if i != chosen and np.isfinite(x))
    if not others:
        return "There is no other row."
    # Likelihood ratios of 20 and 3.
    strength = "strong" if others[0] > 6.0 else "some" if others[0] > 2.2 else "hardly any"
    return (
        f"{own_row} was chosen because its criterion is the smallest: the next one is larger by "
        f"{others[0]:.1f}, {strength} evidence (a likelihood ratio of exp(difference / 2))."
    )


def portraits(
    found: Discovery, runs: Sequence[Course], rest: Sequence[Resting]
) -> list[tuple[tuple[str, ...], Markup | None]]:
    """Draw phase portraits, each with the names of its axes; for a single state its rate."""
    states, runs = found.equations.states, [one for one in runs if len(one.visited)]
    if not runs:
        return []
    if len(states) == 1:
        label = f"the rate of {states[0]} against {states[0]}"
        draw = partial(checks.draw_rates, found=found, k=0, solved=partial(checks.solution_of, found))
        return [(states, svg(draw, "rate", label, height=TALL))]
    made: list[tuple[tuple[str, ...], Markup | None]] = []
    for i, k in portrait_pairs(found.equations):
        label = f"{states[k]} against {states[i]} with the vector field"
        portrait = partial(draw_portrait, found=found, runs=runs, pair=(i, k), rest=rest)
        made.append(((states[i], states[k]), svg(portrait, f"phase{i}x{k}", label, height=TALL)))
    return made


def state_checks(found: Discovery) -> list[dict[str, Any]]:
    """Draw the checks of the first states: terms in the order of their colours, and drawings by title."""
    made = []
    for k, (state, pictures) in enumerate(checks.checks_of(found).items()):
        terms: list[str] = []
        drawings = {}

        def draw_named(axes: Axes, draw: Any, terms: list[str] = terms) -> Any:
            drawn = draw(axes)
            terms.extend(axes.get_legend_handles_labels()[1])
            return drawn

        for place, (title, draw) in enumerate(pictures.items()):
            # The rate of a single state is among the portraits.
            if place == 1 and len(found.equations.states) == 1:
                continue
            named, label = partial(draw_named, draw=draw), f"{title}: {state}"
            if drawing := svg(named, f"check{k}x{place}", label, width=NARROW, height=SMALL):
                drawings[title] = drawing
        made.append({"state": state, "terms": terms[:-1], "drawings": drawings})
    return made


def correlation_drawing(found: Discovery) -> dict[str, Any] | None:
    """Draw the correlations of the numbered constants; None if unknown."""
    known = checks.correlations(found)
    if known is None:
        return None
    names, r = known
    draw, height = partial(checks.draw_correlations, r=r), figures.stack(len(names), figures.CELL)
    return {"names": names, "svg": svg(draw, "correlations", "correlations of the constants", height=height)}


def groups(found: Discovery) -> dict[str, Any] | None:
    """Draw groups side by side: forest plots, and a panel for each group; None without groups."""
    population = found.population
    if population is None:
        return None
    fits, k = checks.group_fits(found), int(np.argmax(measured(found.series)))
    forests, drawn, height = [], [], figures.stack(len(fits), figures.GROUP)
    for place, one in enumerate(population.varying[: checks.MAX_FORESTS]):
        draw = partial(checks.draw_forest, labels=population.labels, one=one)
        forests.append(svg(draw, f"forest{place}", f"{one.name} of every group", height=height))
    for g in checks.drawn_groups(fits):
        draw = partial(checks.draw_group, found=found, g=g, k=k, fit=fits[g])
        label = f"data and curve of {fits[g].label}"
        drawn.append((fits[g], svg(draw, f"group{g}", label, width=NARROW, height=SMALL)))
    apart = [one.label for one in fits if not one.follows]
    return {"forests": forests, "panels": drawn, "apart": apart, "count": len(fits), "of": found.series.states[k]}


def network(found: Discovery) -> Markup | None:
    """Draw the chain of units as heat maps; None without a chain of at most 400 weights."""
    chain = found.network
    if chain is None or not 0 < sum(layer.n_in * layer.n_out for layer in chain.layers) <= 400:
        return None
    with rc_context(style.PAGE):
        figure = network_figure(chain, found.equations.variables, found.series.time_name)
        return inline(figure, "network", f"{describe_chain(found)}, from states to rates", shares=(1.0, 1.4))


# Inches: width and height of small drawings, height of residuals, and of portraits and the front.
NARROW, SMALL, RESIDUALS, TALL = 3.1, 2.1, 0.85, 3.3

_COLOURS = {style.INK: "ink", style.MUTED: "muted", style.GRID: "grid", style.PAPER: "paper"}
_COLOURS |= {colour.lower(): f"c{i}" for i, colour in enumerate(style.COLOURS)}
_COLOUR = re.compile("|".join(_COLOURS))
# The page sets family and colour of letters, the drawing only their size.
_FONT = re.compile(r"font: (?:\w+ )*?([\d.]+px) .*?sans-serif")
_PLACES = re.compile(r' (?:d|x|y|width|height|transform)="[^"]*"')
# Clicking shows or hides parts with these names; they share a class and a row, and some are on at first.
_ROW = re.compile(r' id="(mark|point|row)-(\d+)(-on)?"')
_MARKS = re.compile(r"<g([^>]*)>((?:<use [^>]*/>){2,})")


def svg(draw: Callable[..., Any], name: str, label: str, **size: float) -> Markup | None:
    """Draw into a new `panel`, and return an `<svg>` element of this unique name; None if `draw` returns False."""
    with rc_context(style.PAGE):
        figure, axes = panel(**size)
        return None if draw(*axes) is False else inline(figure, name, label)


def panels(found: Discovery, draw: Callable[..., Any], name: str, told: str) -> list[tuple[str, Markup | None]]:
    """The first states, each with its drawing by draw(k=k)."""
    states = found.equations.states[: figures.MAX_PANELS]
    return [(state, svg(partial(draw, k=k), f"{name}{k}", f"{state}{told}")) for k, state in enumerate(states)]


def panel(width: float = 4.2, height: float = 2.4, below: float = 0.0) -> tuple[Figure, list[Any]]:
    """An empty figure, measured in inches, with one axes, or with a second one below."""
    high = height + below
    figure = Figure(figsize=(width, high), facecolor="none")
    FigureCanvasAgg(figure)
    # Margins for numbers and labels.
    left, right, foot, top = 0.62, 0.1, 0.44, 0.2
    boxes = [(foot + below, height - foot - top), (foot, below - top)][: 1 + bool(below)]
    axes: list[Any] = []
    for bottom, tall in boxes:
        box = (left / width, bottom / high, (width - left - right) / width, tall / high)
        axes.append(figure.add_axes(box, facecolor="none", sharex=axes[0] if axes else None))
        for axis in (axes[-1].xaxis, axes[-1].yaxis):
            axis.set_major_locator(MaxNLocator(style.MAX_TICKS))
    return figure, axes


def inline(figure: Figure, name: str, label: str, shares: tuple[float, float] | None = None) -> Markup:
    """Convert a figure to an `<svg>` element in the style of the page; `shares` of its own width bound its width."""
    stream = io.StringIO()
    # Identifiers are hashes with the name of the drawing: unique in a page, and the same for the same result.
    with rc_context(style.PAGE | {"svg.hashsalt": name}):
        nobody = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figures.draw_into(stream, figure, format="svg", transparent=True, metadata=nobody)
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
    """Adapt a tag to the page: without unused names, in the colours of the page."""
    tag = found[0].replace("xlink:href", "href")
    if row := _ROW.search(tag):
        tag = tag.replace(row[0], f' class="{row[1]}{" on" * bool(row[3])}" data-row="{row[2]}"')
    if tag.startswith("<g "):
        tag = re.sub(r' id="[^"]*"', "", tag)
    if "style=" in tag:
        tag = _COLOUR.sub(lambda hue: f"var(--{_COLOURS[hue[0]]})", _FONT.sub(r"font-size: \1", tag))
    # Round to tenths of a point.
    return _PLACES.sub(
        lambda place: re.sub(r"-?\d+\.\d+", lambda x: f"{float(x[0]):.1f}".removesuffix(".0"), place[0]), tag
    )


def _share_style(found: re.Match[str]) -> str:
    """Move the common style of many marks to their group."""
    looks = set(re.findall(r' style="[^"]*"', found[2]))
    if len(looks) != 1 or "style=" in found[1]:
        return found[0]
    look = looks.pop()
    return f"<g{found[1]}{look}>{found[2].replace(look, '')}"
