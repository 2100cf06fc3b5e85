"""The pictures of the page: the functions that draw the pictures in files, each in a small drawing of its own.

Of many samples, trajectories or states only some are drawn, evenly chosen, and what is left out
is stated beneath. Each curve is integrated once and serves every drawing of the page.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from markupsafe import Markup
from matplotlib import rc_context
from matplotlib.axes import Axes

from odediscovery.data.series import TimeSeries
from odediscovery.plots.axes import frame, set_times
from odediscovery.plots.checks import checks_of, correlations, draw_correlations, draw_rates, residuals_of
from odediscovery.plots.figures import CELL, GROUP, MAX_CHECKED, MAX_PANELS, stack
from odediscovery.plots.fit import Course, course_of, draw_state, thinned
from odediscovery.plots.front import cut_axis, draw_front, meaning_of_complexity
from odediscovery.plots.groups import MAX_FORESTS, draw_forest, draw_group, drawn_groups, drawn_state, group_fits
from odediscovery.plots.heatmaps import network_figure
from odediscovery.plots.portraits import draw_portrait, portrait_pairs
from odediscovery.plots.resting import Resting
from odediscovery.plots.theme import COLOURS, INK, LINE, LINE_WIDTH, PAGE, PANEL_POINTS, RING, Depth, rings
from odediscovery.report.svg import NARROW, RESIDUALS, SMALL, TALL, inline, svg
from odediscovery.result.discovery import Discovery
from odediscovery.result.front import FrontRow
from odediscovery.result.shown import describe_chain
from odediscovery.runtime.arrays import Array

# Trajectories in one drawing: the colours of more could not be distinguished.
MAX_RUNS = 6
# Points in all panels together, and in one of them at least and at most.
MAX_POINTS, MIN_POINTS_OF_PANEL, MAX_POINTS_OF_PANEL = 8000, 25, 400
# Weights of a chain of units that is drawn.
MAX_WEIGHTS = 400
# Tolerances for a picture; a row that needs more evaluations grows without bound.
TOLERANCES, MAX_EVALUATIONS = (1e-6, 1e-9), 10_000
# Differences of the criterion that are strong and weak evidence: likelihood ratios of 20 and 3.
STRONG, WEAK = 6.0, 2.2


def drawn_runs(found: Discovery) -> list[Course]:
    """The trajectories that are drawn, with their curves."""
    series = found.series
    chosen = thinned(len(series.trajectories), MAX_RUNS).tolist()
    panels = max(min(series.n_states, MAX_PANELS), 1) * len(chosen)
    most = int(np.clip(MAX_POINTS // panels, MIN_POINTS_OF_PANEL, MAX_POINTS_OF_PANEL))
    return [course_of(found, j, most) for j in chosen]


def left_out(series: TimeSeries, runs: Sequence[Course]) -> str:
    """What is not drawn, in one sentence; nothing where everything is."""
    parts = []
    if series.n_states > MAX_PANELS:
        parts.append(f"the first {MAX_PANELS} of {series.n_states} states")
    if len(runs) < len(series.trajectories):
        parts.append(f"{len(runs)} of {len(series.trajectories)} trajectories")
    drawn, all_of = sum(len(one.samples) for one in runs), sum(len(one.run.time) for one in runs)
    if drawn < all_of:
        parts.append(f"every {round(all_of / drawn)}th sample, {drawn} of {all_of}")
    return f"Drawn are {', and '.join(parts)}." if parts else ""


def fits(found: Discovery, runs: Sequence[Course]) -> list[tuple[str, bool, Markup | None]]:
    """Data, curves and residuals: state, whether it was measured, and drawing."""
    made = []
    for k, state in enumerate(found.series.states[:MAX_PANELS]):
        measured = any(np.isfinite(one.values[:, k]).any() for one in found.series.trajectories)
        label = f"{state} over {found.series.time_name}: data and curve"
        drawing = svg(lambda *axes, k=k: draw_state(axes, found, runs, k), f"fit{k}", label, below=RESIDUALS * measured)
        made.append((state, measured, drawing))
    return made


# The Pareto front: all rows are drawn, and the page's script shows the one whose point is clicked, without computing.


def front(found: Discovery, run: Course) -> dict[str, Any]:
    """The rows of the front, simplest first, its drawing, and the rows' curves over the data of one trajectory.

    Returns:
        `rows`, the place of the `chosen` one, drawings of the `points` and of `panels`, one a state;
        `differences` of the rows' criteria to the smallest one, nan where unknown, and the `reason` why
        the row was chosen; and whether rows were kept without starts of their own, as earlier versions
        did, and are drawn from `borrowed` ones.
    """
    rows = tuple(sorted(found.front, key=lambda row: row.complexity))
    chosen = next((i for i, row in enumerate(rows) if row.selected), 0)
    curves = [_curve(found, row, run) for row in rows]

    def draw(axes: Axes, k: int) -> None:
        axes.plot(run.seen, run.points[:, k], color=INK, **rings(len(run.samples)))
        for i, (times, values) in enumerate(curves):
            if i == chosen:
                axes.plot(times, values[:, k], color=COLOURS[1], ls="--", zorder=Depth.CURVE, **LINE)
            axes.plot(times, values[:, k], color=COLOURS[0], zorder=Depth.CURVE, gid=f"row-{i}" + "-on" * (i == chosen))
        frame(axes, [values[:, k] for _, values in curves], run.points[:, k])
        set_times(axes, found.series)

    panels = [
        (state, svg(lambda axes, k=k: draw(axes, k), f"row{k}", f"{state}: data and curve of the shown row"))
        for k, state in enumerate(found.equations.states[:MAX_PANELS])
    ]
    scores = np.array([row.criterion for row in rows], dtype=float)
    least = float(np.min(scores[np.isfinite(scores)], initial=np.inf))
    differences = [float(x) - least if np.isfinite(x) else float("nan") for x in scores]
    # Published recipes fit no starts: theirs are the same for all rows.
    lost = any(row.initial_values is None for row in rows if not row.selected)
    return {
        "rows": rows,
        "chosen": chosen,
        "points": _points(found, rows, chosen),
        "panels": panels,
        "differences": differences,
        "reason": _reason(found, rows, differences, chosen),
        "borrowed": lost and found.settings.recipe == "default",
    }


def _reason(found: Discovery, rows: Sequence[FrontRow], differences: Sequence[float], chosen: int) -> str:
    """Why a row was chosen, in a sentence or two."""
    if any("was chosen by hand" in text for text in found.messages):
        return "This row was chosen by hand."
    own = differences[chosen] if rows else float("nan")
    if not np.isfinite(own):
        return ""
    own_row = f"The row of complexity {rows[chosen].complexity}"
    if own > 0:
        elsewhere = "elsewhere: those rows were passed over for what stands under What to know."
        return f"{own_row} was chosen although the criterion is smaller by {own:.1f} {elsewhere}"
    others = sorted(x for i, x in enumerate(differences) if i != chosen and np.isfinite(x))
    if not others:
        return "There is no other row."
    strength = "strong" if others[0] > STRONG else "some" if others[0] > WEAK else "hardly any"
    return (
        f"{own_row} was chosen because its criterion is the smallest: the next one is larger by "
        f"{others[0]:.1f}, {strength} evidence (a likelihood ratio of exp(difference / 2))."
    )


def _curve(found: Discovery, row: FrontRow, one: Course) -> tuple[Array, Array]:
    """Times and the row's solution, [n, states], from its own fitted start."""
    times = np.linspace(one.run.time[0], one.run.time[-1], PANEL_POINTS)
    starts = found.initial_values if row.initial_values is None else row.initial_values
    equations = found.equations_of(one.index) if row.selected else row.equations
    return times, equations.simulate(
        starts[one.index], times, *TOLERANCES, most_evaluations=MAX_EVALUATIONS, controls=one.run.controls
    )


def _points(found: Discovery, rows: Sequence[FrontRow], chosen: int) -> Markup | None:
    cost, error = np.array([row.complexity for row in rows], float), np.array([row.mse for row in rows], float)

    def draw(axes: Axes) -> None:
        draw_front(axes, cost, error, chosen)
        # Rings around the points, of which the script shows one.
        for i, y in enumerate(cut_axis(error)[0].tolist()):
            ring: dict[str, Any] = {"ms": RING, "mfc": "none", "mec": INK, "mew": LINE_WIDTH}
            axes.plot(cost[i], y, "o", gid=f"mark-{i}" + "-on" * (i == chosen), zorder=Depth.MARK, **ring)
        axes.set_xlabel(meaning_of_complexity(found))
        axes.set_ylabel("mean squared error")

    return svg(draw, "front", "Pareto front: complexity against mean squared error", height=TALL)


def portraits(
    found: Discovery, runs: Sequence[Course], rest: Sequence[Resting]
) -> list[tuple[tuple[str, ...], Markup | None]]:
    """Names of the axes, and phase portrait; of a single state its rate."""
    states, runs = found.equations.states, [one for one in runs if len(one.visited)]
    if not runs:
        return []
    if len(states) == 1:
        label = f"the rate of {states[0]} against {states[0]}"
        return [(states, svg(partial(draw_rates, found=found, k=0), "rate", label, height=TALL))]
    made: list[tuple[tuple[str, ...], Markup | None]] = []
    for i, k in portrait_pairs(found.equations):
        label = f"{states[k]} against {states[i]} with the vector field"
        draw = partial(draw_portrait, found=found, runs=runs, pair=(i, k), rest=rest)
        made.append(((states[i], states[k]), svg(draw, f"phase{i}x{k}", label, height=TALL)))
    return made


def state_checks(found: Discovery) -> list[dict[str, Any]]:
    """Of the first states the terms in the order of their colours, and drawings by title."""
    residuals, made = residuals_of(found), []
    for k, state in enumerate(found.equations.states[:MAX_CHECKED]):
        terms: list[str] = []
        drawings = {}
        for place, (title, draw) in enumerate(checks_of(found, k, residuals).items()):

            def draw_named(axes: Axes, draw: Any = draw, terms: list[str] = terms) -> Any:
                drawn = draw(axes)
                terms.extend(axes.get_legend_handles_labels()[1])
                return drawn

            # A single state has its rate among the portraits.
            if place != 1 or len(found.equations.states) > 1:
                drawings[title] = svg(draw_named, f"check{k}x{place}", f"{title}: {state}", width=NARROW, height=SMALL)
        shown = {title: drawing for title, drawing in drawings.items() if drawing}
        made.append({"state": state, "terms": terms[:-1], "drawings": shown})
    return made


def correlation_drawing(found: Discovery) -> dict[str, Any] | None:
    """The constants by their numbers, and how they hang together; None where that is not known."""
    known = correlations(found)
    if known is None:
        return None
    names, r = known
    draw = partial(draw_correlations, r=r)
    return {
        "names": names,
        "svg": svg(draw, "correlations", "correlations of the constants", height=stack(len(names), CELL)),
    }


def groups(found: Discovery) -> dict[str, Any] | None:
    """Groups side by side: forest plots, and a panel for every group; None without such."""
    population, fits, k = found.population, group_fits(found), drawn_state(found)
    if population is None:
        return None
    forests = [
        svg(
            partial(draw_forest, found=found, one=one),
            f"forest{place}",
            f"{one.name} of every group",
            height=stack(len(fits), GROUP),
        )
        for place, one in enumerate([one for one in population.constants if one.varies][:MAX_FORESTS])
    ]
    panels = []
    for g in drawn_groups(fits):
        draw = partial(draw_group, found=found, g=g, k=k, fit=fits[g])
        label = f"data and curve of {fits[g].label}"
        panels.append((fits[g], svg(draw, f"group{g}", label, width=NARROW, height=SMALL)))
    apart = [one.label for one in fits if not one.follows]
    return {"forests": forests, "panels": panels, "apart": apart, "count": len(fits), "of": found.series.states[k]}


def network(found: Discovery) -> Markup | None:
    """The chain of units as heat maps; None without one that is small enough."""
    chain = found.network
    if chain is None or not 0 < sum(layer.n_in * layer.n_out for layer in chain.layers) <= MAX_WEIGHTS:
        return None
    with rc_context(PAGE):
        figure = network_figure(chain, found.equations.variables, found.series.time_name)
        return inline(figure, "network", f"{describe_chain(found)}, from states to rates", shares=(1.0, 1.4))
