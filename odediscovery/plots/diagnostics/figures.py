"""The pictures of this room as files: checks.png and groups.png."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from odediscovery.plots.diagnostics.contributions import correlations, draw_contributions, draw_correlations
from odediscovery.plots.diagnostics.groups import GroupFit, draw_forest, draw_group, group_fits
from odediscovery.plots.diagnostics.residuals import draw_autocorrelation, draw_normal, draw_rates, residuals_of
from odediscovery.plots.figures import empty_figure, with_unit
from odediscovery.plots.pieces import headline
from odediscovery.plots.theme import BY_EYE, DENSE, MUTED, SIZES
from odediscovery.result.discovery import Discovery
from odediscovery.runtime.thresholds import threshold

# States, groups and constants that are drawn.
MAX_STATES, MAX_GROUPS, MAX_FORESTS = 4, 48, 4
ACROSS = 6


@dataclass(frozen=True)
class CheckSizes:
    """Rows and columns of these pictures."""

    width: float = threshold(13.0, "four panels, or six groups", unit="inches", origin=BY_EYE)
    row: float = threshold(2.9, "panels of a state", unit="inches", origin=BY_EYE)
    group: float = threshold(1.7, "panels of groups", unit="inches", origin=BY_EYE)
    names: float = threshold(0.3, "for the names of terms, above curves", unit="heights of these", origin=BY_EYE)


CHECKS = CheckSizes()


def checks_figure(found: Discovery) -> Figure:
    """A row a state: contributions of the terms, rates, autocorrelation and normal plot of the residuals.

    Below them the correlations of the constants, where they are known.
    """
    series, states = found.series, found.series.states[:MAX_STATES]
    left, known = residuals_of(found), correlations(found)
    heights = [CHECKS.row] * len(states)
    if known is not None:
        heights.append(min(SIZES.stack(len(known[0]), SIZES.cell), CHECKS.row))
    with rc_context(DENSE):
        figure = empty_figure(CHECKS.width, sum(heights))
        # Terms have names, so their panel is wider than the three others.
        grid = figure.add_gridspec(len(heights), 4, width_ratios=(1.5, 1.0, 1.0, 1.0), height_ratios=heights)
        for k, state in enumerate(states):
            first, *others = (figure.add_subplot(grid[k, column]) for column in range(grid.ncols))
            draw_contributions(first, found, k)
            first.set_title(f"{with_unit(state, series.units)}: terms over time")
            # Above the curves, so that the names cover none of them.
            low, high = first.get_ylim()
            first.set_ylim(low, high + CHECKS.names * (high - low))
            first.legend(loc="upper right", ncols=2)
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
            beside.text(0.0, 1.0, listed.replace("$", r"\$"), va="top")
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
    heights = [SIZES.stack(len(fits), SIZES.group)] * bool(varying) + [CHECKS.group * rows + SIZES.legend]
    with rc_context(DENSE):
        figure = empty_figure(CHECKS.width, sum(heights))
        parts = np.atleast_1d(np.asarray(figure.subfigures(len(heights), 1, height_ratios=heights), dtype=object))
        for column, one in enumerate(varying):
            axes = parts[0].add_subplot(1, len(varying), column + 1)
            draw_forest(axes, found, one)
            axes.set_title(one.name)
        if varying:
            alone = "; crosses: fits of each group alone" if np.isfinite(varying[0].apart).any() else ""
            told = f"constants of each group, 95 % intervals; line and band: the mean and its interval{alone}"
            headline(parts[0], told)
        across = min(ACROSS, max(len(shown), 1))
        drawn = [parts[-1].add_subplot(rows, across, place + 1) for place in range(len(shown))]
        for axes, g in zip(drawn, shown, strict=True):
            draw_group(axes, found, g, k, fits[g])
        ends = [axes.get_ylim() for axes in drawn]
        for axes in drawn:  # One scale, so that groups are compared by sight.
            axes.set_ylim(min(low for low, _ in ends), max(high for _, high in ends))
        parts[-1].supxlabel(with_unit(series.time_name, series.units))
        parts[-1].supylabel(with_unit(series.states[k], series.units))
    return figure


def _chosen(fits: Sequence[GroupFit]) -> list[int]:
    """Groups that are drawn: all, or the first ones and those that do not follow the law."""
    apart = [g for g, one in enumerate(fits) if not one.follows]
    rest = [g for g in range(len(fits)) if g not in apart]
    return sorted([*apart, *rest][:MAX_GROUPS])
