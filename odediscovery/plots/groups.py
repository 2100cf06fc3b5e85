"""Groups side by side: each constant that differs, and each group's curve (forest plot, small multiples)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

from odediscovery.plots.checks import REACH, curve_of, solution_of
from odediscovery.plots.theme import COLOURS, INK, LIGHT, LINE, ROOM, SAMPLE, SMALL_RINGS, SMALL_TEXT
from odediscovery.result.discovery import Discovery
from odediscovery.result.population import GroupConstant

# A group whose residuals are this many times as large as the typical group's does not follow the law; with a
# curve no better than the mean of its own data it does not either.
APART = 3.0
# Groups and constants that are drawn, and labels of a forest plot that stand one above the other.
MAX_GROUPS, MAX_FORESTS, MAX_LABELS = 60, 6, 36


@dataclass(frozen=True)
class GroupFit:
    """How the common law fits one group.

    Args:
        label: of the group.
        r2: share of its variance that its own curve explains, nan where it has none.
        ratio: root mean square of its residuals over the median of all groups.
        follows: whether the law is one for this group.
    """

    label: str
    r2: float
    ratio: float
    follows: bool


def group_fits(found: Discovery) -> list[GroupFit]:
    """How the common law fits each group, in their order; empty without groups of their own constants."""
    if found.population is None:
        return []
    spread = []
    size = found.noise if np.all(np.isfinite(found.noise) & (found.noise > 0)) else np.ones(found.series.n_states)
    for g, run in enumerate(found.series.trajectories):
        left = (run.values - curve_of(found, g, run.time)) / size
        known = np.isfinite(left)
        spread.append(float(np.sqrt(np.mean(left[known] ** 2))) if known.any() else np.nan)
    shares = np.full(len(spread), np.nan) if found.population.r2 is None else found.population.r2
    typical = float(np.nanmedian(spread)) if np.isfinite(spread).any() else 1.0
    return [
        GroupFit(label, r2, one / (typical or 1.0), not (one > APART * (typical or 1.0) or r2 < 0.0))
        for label, one, r2 in zip(found.population.labels, spread, shares.tolist(), strict=True)
    ]


def drawn_groups(fits: list[GroupFit]) -> list[int]:
    """Groups that are drawn: all, or those that do not follow the law and the first ones."""
    return sorted(sorted(range(len(fits)), key=lambda g: fits[g].follows)[:MAX_GROUPS])


def drawn_state(found: Discovery) -> int:
    """The state that panels of groups show: the first that was measured."""
    runs = found.series.trajectories
    seen = (k for k in range(found.series.n_states) if any(np.isfinite(run.values[:, k]).any() for run in runs))
    return next(seen, 0)


def draw_forest(axes: Axes, found: Discovery, one: GroupConstant) -> None:
    """A constant of every group with its 95 % interval, and the mean of all with its own as a band."""
    labels = [] if found.population is None else found.population.labels
    places = np.arange(len(labels), dtype=float)
    ends = np.array([[np.nan if end is None else end for end in one.interval(g)] for g in range(len(labels))])
    axes.hlines(places, ends[:, 0], ends[:, 1], color=INK, **LINE)
    axes.plot(one.values, places, "o", color=INK, ms=SAMPLE)
    if one.apart.size == len(labels) and np.isfinite(one.apart).any():
        axes.plot(one.apart, places, "x", color=COLOURS[1], ms=SAMPLE, label="each group alone")
    axes.axvline(one.mean, color=COLOURS[0], **LINE)
    if np.isfinite(one.mean_error) and one.mean_error > 0 and one.mean > 0:
        ratio = np.exp(REACH * one.mean_error / one.mean)
        axes.axvspan(one.mean / ratio, one.mean * ratio, color=COLOURS[0], **LIGHT)
    known = np.concatenate([one.values, ends[np.isfinite(ends)], one.apart[np.isfinite(one.apart)]])
    low, high = float(np.nanmin(known)), float(np.nanmax(known))
    room = ROOM * ((high - low) or abs(high) or 1.0)
    # A group that hardly tells its constant must not flatten the others.
    reach = 3.0 * (float(np.nanmax(one.values)) - float(np.nanmin(one.values)) or abs(high) or 1.0)
    middle = float(np.nanmedian(one.values))
    axes.set_xlim(max(low - room, middle - reach), min(high + room, middle + reach))
    # Fewer labels where lines would run into each other.
    step = -(-len(labels) // MAX_LABELS)
    axes.set_yticks(places[::step], [label[:14] for label in labels[::step]], fontsize=SMALL_TEXT)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.set_xlabel(one.name)


def draw_group(axes: Axes, found: Discovery, g: int, k: int, fit: GroupFit) -> None:
    """Data and curve of state k of one group; in another colour where it does not follow the law."""
    run = found.series.trajectories[g]
    times, curve = solution_of(found, g)
    axes.plot(times, curve[:, k], color=COLOURS[0 if fit.follows else 1])
    axes.plot(run.time, run.values[:, k], color=INK, **SMALL_RINGS)
