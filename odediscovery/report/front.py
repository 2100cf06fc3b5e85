"""The Pareto front, whose points are buttons, and the curves of every row over the data.

All rows are drawn; what is not chosen is hidden, and the page's script shows it when its point is
clicked. So a click needs no network and no computing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup
from matplotlib import rc_context
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator, ScalarFormatter

from odediscovery.plots.figures import cut_axis, draw_cut, meaning_of_complexity
from odediscovery.plots.theme import COLOURS, INK, LINE, MARKS, MUTED, PANEL_POINTS, ROOM, STROKES, Depth
from odediscovery.plots.times import set_times
from odediscovery.report.curves import MAX_STATES, Drawn, ring
from odediscovery.report.drawing import DRAWN, PANEL, inline, limited, logarithmic, panel
from odediscovery.result.discovery import Discovery
from odediscovery.result.front import FrontRow
from odediscovery.runtime.arrays import Array

# Tolerances for a picture; a row that needs more evaluations grows without bound.
TOLERANCES, MAX_EVALUATIONS = (1e-6, 1e-9), 10_000
# Where the largest law is this many times the median, the axis of complexity is logarithmic.
WIDE = 3.0
# Differences of the criterion that are strong and weak evidence: likelihood ratios of 20 and 3.
STRONG, WEAK = 6.0, 2.2
_BUTTON: dict[str, Any] = {"ms": MARKS.named, "mec": "none", "zorder": Depth.FRONT}
# The ring around the row that is shown.
_MARK: dict[str, Any] = {"ms": MARKS.chosen, "mfc": "none", "mec": INK, "mew": STROKES.line, "zorder": Depth.MARK}
SIZES = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 200, 300, 500, 1000, 2000, 5000)


@dataclass(frozen=True)
class Front:
    """What the page needs: rows by complexity, the chosen one's place, drawings.

    Args:
        rows: simplest first.
        chosen: index of the one that is claimed.
        points: the front as `<svg>`.
        panels: name of a state and its curves, one a state that is drawn.
        differences: of the criterion of each row to the smallest one, nan where unknown.
        reason: why the chosen row was chosen.
        borrowed: whether rows were kept without their own starts, as earlier versions did, and
            are drawn from the chosen row's.
    """

    rows: tuple[FrontRow, ...]
    chosen: int
    points: Markup
    panels: list[tuple[str, Markup]]
    borrowed: bool
    differences: list[float]
    reason: str


def front(found: Discovery, runs: Sequence[Drawn]) -> Front:
    """The front of a result; curves are those of the first trajectory."""
    rows = tuple(sorted(found.front, key=lambda row: row.complexity))
    chosen = next((i for i, row in enumerate(rows) if row.selected), 0)
    curves = [_curve(found, row, runs[0]) for row in rows]
    panels = [
        (state, _panel(found, runs[0], curves, k, chosen))
        for k, state in enumerate(found.equations.states[:MAX_STATES])
    ]
    # Published recipes fit no starts: theirs are the same for all rows.
    lost = any(row.initial_values is None for row in rows if not row.selected)
    borrowed = lost and found.settings.recipe == "default"
    scores = np.array([row.criterion for row in rows], dtype=float)
    least = float(np.min(scores[np.isfinite(scores)], initial=np.inf))
    differences = [float(x) - least if np.isfinite(x) else float("nan") for x in scores]
    reason = _reason(found, rows, differences, chosen)
    return Front(rows, chosen, _points(found, rows, chosen), panels, borrowed, differences, reason)


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


def _curve(found: Discovery, row: FrontRow, d: Drawn) -> tuple[Array, Array]:
    """Times and the row's solution, [n, states], from its own fitted start."""
    times = np.linspace(d.run.time[0], d.run.time[-1], PANEL_POINTS)
    starts = found.initial_values if row.initial_values is None else row.initial_values
    equations = found.equations_of(d.index) if row.selected else row.equations
    return times, equations.simulate(
        starts[d.index], times, *TOLERANCES, most_evaluations=MAX_EVALUATIONS, controls=d.run.controls
    )


def _points(found: Discovery, rows: Sequence[FrontRow], chosen: int) -> Markup:
    error = np.array([row.mse for row in rows])
    error, floor, lower = cut_axis(error)
    cost = np.array([row.complexity for row in rows], dtype=float)
    seen = np.isfinite(error)
    with rc_context(DRAWN):
        figure, (axes,) = panel(height=PANEL.tall)
        axes.step(cost[seen], np.minimum.accumulate(error[seen]), where="post", color=MUTED, **LINE)
        for i, row in enumerate(rows):
            if not seen[i]:
                continue
            at = [cost[i]], [error[i]]
            hue = COLOURS[1] if row.selected else COLOURS[0]
            axes.plot(*at, "o", gid=f"mark-{i}", **_MARK)
            axes.plot(*at, "D" if row.selected else "o", color=hue, gid=f"point-{i}", **_BUTTON)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        if seen.any() and cost[seen].max() > WIDE * np.median(cost[seen]):
            axes.set_xscale("log")
            axes.xaxis.set_major_locator(FixedLocator(SIZES))
            axes.xaxis.set_major_formatter(ScalarFormatter())
            axes.xaxis.set_minor_locator(NullLocator())
        axes.margins(ROOM.marks)
        logarithmic(axes)
        if lower.any():
            draw_cut(axes, cost, np.array([row.mse for row in rows]), error, floor, lower)
        axes.set_xlabel(meaning_of_complexity(found))
        axes.set_ylabel("mean squared error")
        return inline(figure, "front", "Pareto front: complexity against mean squared error", ["front"], chosen)


def _panel(found: Discovery, d: Drawn, curves: Sequence[tuple[Array, Array]], k: int, chosen: int) -> Markup:
    series = found.series
    with rc_context(DRAWN):
        figure, (axes,) = panel()
        axes.plot(d.run.time[d.samples], d.points[:, k], **ring(1, 0, len(d.samples)))
        times, values = curves[chosen]
        axes.plot(times, values[:, k], color=COLOURS[1], ls="--", zorder=Depth.CURVE, **LINE)
        for i, (times, values) in enumerate(curves):
            axes.plot(times, values[:, k], color=COLOURS[0], zorder=Depth.CURVE, gid=f"row-{i}")
        limited(axes, [values[:, k] for _, values in curves], d.points[:, k], beyond=ROOM.beyond)
        set_times(axes, series)
        return inline(figure, f"row{k}", f"{series.states[k]}: data and curve of the shown row", shown=chosen)
