"""What a critical reader asks for: terms over time, what is left, where the law rests, how groups differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup
from matplotlib import rc_context
from matplotlib.axes import Axes

from odediscovery.laws.printing import constant
from odediscovery.plots.diagnostics.contributions import correlations, draw_contributions, draw_correlations
from odediscovery.plots.diagnostics.groups import GroupFit, draw_forest, draw_group, group_fits
from odediscovery.plots.diagnostics.residuals import draw_autocorrelation, draw_normal, draw_rates, residuals_of
from odediscovery.plots.diagnostics.resting import Resting
from odediscovery.plots.theme import LETTERS, SIZES
from odediscovery.report.drawing import DRAWN, PANEL, inline, panel
from odediscovery.report.tables import typeset
from odediscovery.result.discovery import Discovery

# States and groups that are drawn.
MAX_STATES, MAX_GROUPS, MAX_FORESTS = 4, 60, 6
# Labels of a forest plot that stand one above the other.
MAX_LABELS = 36


@dataclass(frozen=True)
class StateChecks:
    """Drawings of one state, None where there is too little to draw.

    Args:
        state: its name.
        terms: the terms of its equation in the order of their colours.
        contributions, rates, autocorrelation, normal: as `<svg>`.
    """

    state: str
    terms: list[str]
    contributions: Markup
    rates: Markup | None
    autocorrelation: Markup | None
    normal: Markup | None


def state_checks(found: Discovery) -> list[StateChecks]:
    """The drawings of the first states."""
    left, made = residuals_of(found), []
    for k, state in enumerate(found.equations.states[:MAX_STATES]):
        own = [one[:, k] for one in left]
        terms: list[str] = []
        contributions = _drawn(
            lambda axes, k=k, terms=terms: bool(terms.extend(draw_contributions(axes, found, k)) or True),
            f"terms{k}",
            f"the terms of {state} over time",
        )
        # A single state has its rate among the portraits.
        rates = _drawn(lambda axes, k=k: draw_rates(axes, found, k), f"rates{k}", f"rate of {state} against {state}")
        made.append(
            StateChecks(
                state,
                terms,
                contributions or Markup(""),
                rates if len(found.equations.states) > 1 else None,
                _drawn(lambda axes, own=own: draw_autocorrelation(axes, own), f"acf{k}", f"autocorrelation of {state}"),
                _drawn(lambda axes, own=own: draw_normal(axes, own), f"normal{k}", f"normal plot of {state}"),
            )
        )
    return made


def _drawn(draw: Callable[..., bool], name: str, label: str) -> Markup | None:
    with rc_context(DRAWN):
        figure, (axes,) = panel(height=PANEL.small, width=PANEL.narrow)
        return inline(figure, name, label) if draw(axes) else None


@dataclass(frozen=True)
class Correlations:
    """The constants by their numbers, and the drawing of their correlations."""

    names: list[str]
    svg: Markup


def correlation_drawing(found: Discovery) -> Correlations | None:
    """How the constants hang together; None where that is not known."""
    known = correlations(found)
    if known is None:
        return None
    names, r = known
    with rc_context(DRAWN):
        figure, (axes,) = panel(height=SIZES.stack(len(names), SIZES.cell))
        draw_correlations(axes, names, r)
        return Correlations(names, inline(figure, "correlations", "correlations of the constants"))


def resting_rows(found: Discovery, points: Sequence[Resting]) -> list[tuple[list[Markup], str]]:
    """Every resting point near the data: its states as text, and its kind."""
    return [([typeset(constant(float(x))) for x in one.point], one.kind) for one in points]


@dataclass(frozen=True)
class Groups:
    """Groups side by side.

    Args:
        forests: a drawing a constant that differs.
        panels: label, drawing and fit of every group that is drawn.
        apart: labels of the groups that do not follow the law.
        count: of all groups.
        of: the state that is drawn.
    """

    forests: list[Markup]
    panels: list[tuple[GroupFit, Markup]]
    apart: list[str]
    count: int
    of: str


def groups_of(found: Discovery) -> Groups | None:
    """The forest plots and the panels of groups with their own constants; None without such."""
    population = found.population
    if population is None:
        return None
    fits, series = group_fits(found), found.series
    seen = [k for k in range(series.n_states) if any(np.isfinite(t.values[:, k]).any() for t in series.trajectories)]
    k = seen[0] if seen else 0
    apart = [g for g, one in enumerate(fits) if not one.follows]
    shown = sorted([*apart, *[g for g in range(len(fits)) if g not in apart]][:MAX_GROUPS])
    forests = []
    for place, one in enumerate([one for one in population.constants if one.varies][:MAX_FORESTS]):
        with rc_context(DRAWN):
            figure, (axes,) = panel(height=SIZES.stack(len(fits), SIZES.group))
            draw_forest(axes, found, one)
            _text_ticks(axes)
            forests.append(inline(figure, f"forest{place}", f"{one.name} of every group"))
    panels = []
    for g in shown:
        with rc_context(DRAWN):
            figure, (axes,) = panel(height=PANEL.small, width=PANEL.narrow)
            draw_group(axes, found, g, k, fits[g], alone=True)
            panels.append((fits[g], inline(figure, f"group{g}", f"data and curve of {fits[g].label}")))
    return Groups(forests, panels, [fits[g].label for g in apart], len(fits), series.states[k])


def _text_ticks(axes: Axes) -> Any:
    """Fewer labels where lines would run into each other."""
    ticks, texts = axes.get_yticks(), [label.get_text() for label in axes.get_yticklabels()]
    step = -(-len(ticks) // MAX_LABELS)
    axes.set_yticks(ticks[::step], texts[::step], fontsize=LETTERS.small)
