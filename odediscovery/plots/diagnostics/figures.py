"""The pictures of this room as files: checks.png and groups.png."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from odediscovery.plots.diagnostics.contributions import correlations, draw_contributions, draw_correlations
from odediscovery.plots.diagnostics.groups import GroupFit, draw_forest, draw_group, group_fits
from odediscovery.plots.diagnostics.residuals import draw_autocorrelation, draw_normal, draw_rates, residuals_of
from odediscovery.plots.figures import MUTED, STYLE, empty_figure, with_unit
from odediscovery.result.discovery import Discovery

# States, groups and constants that are drawn.
MAX_STATES, MAX_GROUPS, MAX_FORESTS = 4, 48, 4
ACROSS = 6
# Room above the curves for the names of their terms, in heights of the curves.
ROOM = 0.3


def checks_figure(found: Discovery) -> Figure:
    """A row a state: contributions of the terms, rates, autocorrelation and normal plot of the residuals.

    Below them the correlations of the constants, where they are known.
    """
    series, states = found.series, found.series.states[:MAX_STATES]
    left, known = residuals_of(found), correlations(found)
    rows = len(states) + (known is not None)
    with rc_context(STYLE | {"font.size": 8.5, "axes.titlesize": 9.5}):
        below = min(1.2 + 0.34 * len(known[0]), 3.2) if known is not None else 0.0
        figure = empty_figure(13.5, 2.9 * len(states) + below)
        heights = [2.9] * len(states) + [below] * (known is not None)
        grid = figure.add_gridspec(rows, 4, width_ratios=(1.5, 1.1, 1.0, 1.0), height_ratios=heights)
        for k, state in enumerate(states):
            first, *others = (figure.add_subplot(grid[k, column]) for column in range(4))
            draw_contributions(first, found, k)
            first.set_title(f"{with_unit(state, series.units)}: terms over time")
            # Above the curves, so that the names cover none of them.
            low, high = first.get_ylim()
            first.set_ylim(low, high + ROOM * (high - low))
            first.legend(fontsize=7.5, loc="upper right", frameon=False, ncols=2)
            own = [one[:, k] for one in left]
            _titled(others[0], "rate against state", draw_rates(others[0], found, k))
            _titled(others[1], "residuals: autocorrelation", draw_autocorrelation(others[1], own))
            _titled(others[2], "residuals: normal plot", draw_normal(others[2], own))
        if known is not None:
            axes = figure.add_subplot(grid[-1, :2])
            draw_correlations(axes, *known)
            axes.set_title("correlations of the constants")
            listed = "\n".join(f"{i + 1}  {name}" for i, name in enumerate(known[0]))
            beside = figure.add_subplot(grid[-1, 2:])
            beside.axis("off")
            beside.text(0.0, 1.0, listed.replace("$", r"\$"), va="top", fontsize=8.5)
    return figure


def _titled(axes: Axes, title: str, drawn: bool) -> None:
    axes.set_title(title)
    if not drawn:
        axes.text(0.5, 0.5, "too few samples", transform=axes.transAxes, ha="center", color=MUTED)


def groups_figure(found: Discovery) -> Figure:
    """Forest plots of the constants that differ, and below them every group's data and curve."""
    population = found.population
    assert population is not None  # Callers ask.
    fits, series = group_fits(found), found.series
    varying = [one for one in population.constants if one.varies][:MAX_FORESTS]
    seen = [k for k in range(series.n_states) if any(np.isfinite(t.values[:, k]).any() for t in series.trajectories)]
    shown = _chosen(fits)
    # Of several states the first that was measured: the page has them all.
    k = seen[0] if seen else 0
    rows = math.ceil(len(shown) / ACROSS)
    above = min(0.24 * len(fits) + 0.9, 9.0) if varying else 0.0
    with rc_context(STYLE | {"font.size": 8.5}):
        figure = empty_figure(12.5, above + 1.7 * rows + 0.4)
        upper, lower = (0, 1) if varying else (0, 0)
        heights = (above, 1.7 * rows + 0.4) if varying else (1.0,)
        parts = np.atleast_1d(np.asarray(figure.subfigures(len(heights), 1, height_ratios=heights), dtype=object))
        for column, one in enumerate(varying):
            axes = parts[upper].add_subplot(1, len(varying), column + 1)
            draw_forest(axes, found, one)
            axes.set_title(one.name)
        if varying:
            alone = "; crosses: fits of each group alone" if np.isfinite(varying[0].apart).any() else ""
            told = f"constants of each group, 95 % intervals; line and band: the mean and its interval{alone}"
            parts[upper].suptitle(told, x=0.02, ha="left", fontsize=9)
        across = min(ACROSS, max(len(shown), 1))
        drawn = [parts[lower].add_subplot(rows, across, place + 1) for place in range(len(shown))]
        for axes, g in zip(drawn, shown, strict=True):
            draw_group(axes, found, g, k, fits[g])
        ends = [axes.get_ylim() for axes in drawn]
        for axes in drawn:  # One scale, so that groups are compared by sight.
            axes.set_ylim(min(low for low, _ in ends), max(high for _, high in ends))
        parts[lower].supxlabel(with_unit(series.time_name, series.units), fontsize=9)
        parts[lower].supylabel(with_unit(series.states[k], series.units), fontsize=9)
    return figure


def _chosen(fits: Sequence[GroupFit]) -> list[int]:
    """Groups that are drawn: all, or the first ones and those that do not follow the law."""
    apart = [g for g, one in enumerate(fits) if not one.follows]
    rest = [g for g in range(len(fits)) if g not in apart]
    return sorted([*apart, *rest][:MAX_GROUPS])
