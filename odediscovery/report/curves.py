"""The data, the curves of the equations with their bands, and what is left: a panel a state.

Of many samples, trajectories or states only some are drawn, evenly chosen, and what is left out
is stated beneath. Each curve is integrated once and serves every drawing of the page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from markupsafe import Markup
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from odediscovery.data.series import TimeSeries, Trajectory
from odediscovery.errors import InputError
from odediscovery.plots.figures import COLOURS, INK, MUTED
from odediscovery.plots.times import set_times
from odediscovery.report.drawing import DRAWN, MAX_RUNS, PAPER, Places, colour, inline, limited, panel, thinned
from odediscovery.result.discovery import Discovery
from odediscovery.runtime.arrays import Array
from odediscovery.uncertainty.bands import Band, band

CURVE_POINTS = 500
# The bands of more curves would hide each other.
MAX_BANDS = 3
# With more values than this in a panel rings would hide the curve.
MAX_LARGE_RINGS = 120
# Points in all panels together, and in one of them; and states that have a panel.
MAX_POINTS, MAX_POINTS_OF_PANEL, MAX_STATES = 8000, 400, 12


@dataclass(frozen=True, eq=False)
class Drawn:
    """One trajectory as it is drawn.

    Args:
        index: its place in the series.
        run: the trajectory.
        samples: places of the samples that are drawn.
        times: of the curve [n], those of the samples among them.
        band: the curve with its half widths, nan where unknown.
    """

    index: int
    run: Trajectory
    samples: Places
    times: Array
    band: Band

    @cached_property
    def points(self) -> Array:
        """Measured values of the samples that are drawn [samples, states]."""
        return self.run.values[self.samples]

    @cached_property
    def fitted(self) -> Array:
        """The curve at these samples [samples, states]."""
        return self.band.curve[np.searchsorted(self.times, self.run.time[self.samples])]

    @cached_property
    def visited(self) -> Array:
        """Finite values of states and inputs along the curve, [n, variables]."""
        columns = [self.band.curve]
        if self.run.controls is not None:
            columns.append(self.run.controls.at(self.times))
        x = np.hstack(columns)
        return x[np.isfinite(x).all(axis=1)]


def drawn_runs(found: Discovery) -> list[Drawn]:
    """The trajectories that are drawn, with their curves."""
    series = found.series
    chosen = thinned(len(series.trajectories), MAX_RUNS)
    panels = max(min(series.n_states, MAX_STATES), 1) * len(chosen)
    most = int(np.clip(MAX_POINTS // panels, 25, MAX_POINTS_OF_PANEL))
    made = []
    for j in chosen.tolist():
        run = series.trajectories[j]
        samples = thinned(len(run.time), most)
        grid = np.linspace(run.time[0], run.time[-1], CURVE_POINTS)
        times = np.union1d(grid, run.time[samples])
        made.append(Drawn(j, run, samples, times, _band(found, times, j)))
    return made


def _band(found: Discovery, times: Array, j: int) -> Band:
    try:
        return band(found, times, trajectory=j)
    except InputError:  # no covariance, as of a published recipe
        run = found.series.trajectories[j]
        curve = found.equations_of(j).simulate(found.initial_values[j], times, controls=run.controls)
        unknown = np.full_like(curve, np.nan)
        return Band(curve, unknown, unknown)


def left_out(series: TimeSeries, runs: Sequence[Drawn]) -> str:
    """What is not drawn, in one sentence; nothing where everything is."""
    parts = []
    if series.n_states > MAX_STATES:
        parts.append(f"the first {MAX_STATES} of {series.n_states} states")
    if len(runs) < len(series.trajectories):
        parts.append(f"{len(runs)} of {len(series.trajectories)} trajectories")
    drawn, all_of = sum(len(d.samples) for d in runs), sum(len(d.run.time) for d in runs)
    if drawn < all_of:
        parts.append(f"every {round(all_of / drawn)}th sample, {drawn} of {all_of}")
    return f"Drawn are {', and '.join(parts)}." if parts else ""


def with_unit(series: TimeSeries, name: str) -> str:
    """The name of a column with its unit, where that is known."""
    unit = series.units.get(name)
    return f"{name} [{unit}]" if unit else name


def ring(runs: int, index: int, count: int) -> dict[str, Any]:
    """How `count` measured values are drawn: open rings, small ones where they are many."""
    many = count > MAX_LARGE_RINGS
    return {
        "color": INK if runs == 1 else colour(index),
        "marker": "o",
        "ls": "none",
        "markersize": 2.6 if many else 3.8,
        "markerfacecolor": "none" if many else PAPER,
        "markeredgewidth": 0.5 if many else 0.9,
    }


def fit_panel(found: Discovery, runs: Sequence[Drawn], k: int) -> Markup:
    """Data, curves and bands of state k, and the residuals beneath."""
    series = found.series
    measured = any(np.isfinite(d.points[:, k]).any() for d in runs)
    known = found.estimates
    within = (-np.inf, np.inf) if known is None else known.within(k)
    with rc_context(DRAWN):
        figure, axes = panel(height=2.4, below=0.85 if measured else 0.0)
        top = axes[0]
        for i, d in enumerate(runs):
            hue = colour(i)
            if len(runs) <= MAX_BANDS:
                _draw_band(top, d, k, hue, within, len(runs) == 1)
            top.plot(d.times, d.band.curve[:, k], color=hue, lw=1.6, zorder=3)
            top.plot(d.run.time[d.samples], d.points[:, k], zorder=2, **ring(len(runs), i, len(d.samples)))
        seen = np.concatenate([d.points[:, k] for d in runs])
        edges = [
            d.band.curve[:, k] + side * np.nan_to_num(d.band.confidence[:, k])
            for d in runs
            for side in (-1.0, 0.0, 1.0)
            if not side or len(runs) == 1
        ]
        least = min(within[0], float(np.nanmin(seen, initial=0.0)))
        most = max(within[1], float(np.nanmax(seen, initial=0.0)))
        edges = [np.clip(edge, least, most) for edge in edges]
        limited(top, edges, seen, beyond=0.3)
        if series.units.get(series.states[k]):
            top.set_ylabel(f"[{series.units[series.states[k]]}]", color=MUTED, fontsize=8.5)
        if measured:
            _draw_residuals(axes[1], runs, k)
        set_times(axes[-1], series)
        state = series.states[k]
        return inline(figure, f"fit{k}", f"{state} over {series.time_name}: data and curve")


def _draw_band(axes: Axes, d: Drawn, k: int, hue: str, within: tuple[float, float], alone: bool) -> None:
    """95 % of new measurements, light, and of the curve, darker; of many curves only this one."""
    # A band is wide and smooth: half the points are enough.
    curve, times = d.band.curve[::2, k], d.times[::2]
    bands = [(d.band.confidence[::2, k], within, 0.30 if alone else 0.12)]
    if alone:
        measured = float(np.nanmin(d.points[:, k], initial=0.0))
        bands.insert(0, (d.band.prediction[::2, k], (min(within[0], measured), np.inf), 0.15))
    for half, (least, most), alpha in bands:
        if np.isfinite(half).any():
            low = np.maximum(curve - half, np.minimum(curve, least))
            high = np.minimum(curve + half, np.maximum(curve, most))
            axes.fill_between(times, low, high, lw=0, color=hue, alpha=alpha, zorder=1)


def _draw_residuals(axes: Axes, runs: Sequence[Drawn], k: int) -> None:
    largest = 0.0
    for i, d in enumerate(runs):
        left = d.points[:, k] - d.fitted[:, k]
        largest = max(largest, float(np.nanmax(np.abs(left), initial=0.0)))
        axes.plot(d.run.time[d.samples], left, zorder=2, **ring(len(runs), i, len(d.samples)))
    axes.axhline(0.0, color=COLOURS[0] if len(runs) == 1 else MUTED, lw=1.1, zorder=1)
    largest = largest if np.isfinite(largest) and largest > 0 else 1.0
    axes.set_ylim(-1.3 * largest, 1.3 * largest)
    axes.yaxis.set_major_locator(MaxNLocator(3, symmetric=True))
    axes.set_ylabel("residual", color=MUTED, fontsize=8.5)
