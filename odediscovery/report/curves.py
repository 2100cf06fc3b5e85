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

from odediscovery.data.series import TimeSeries, Trajectory
from odediscovery.errors import InputError
from odediscovery.plots.pieces import draw_band, frame_residuals
from odediscovery.plots.theme import CURVE_POINTS, DARK, INK, LIGHT, NOTE, ROOM, Depth, rings
from odediscovery.plots.times import set_times
from odediscovery.report.drawing import DRAWN, MAX_RUNS, PANEL, Places, colour, inline, limited, panel, thinned
from odediscovery.result.discovery import Discovery
from odediscovery.runtime.arrays import Array
from odediscovery.uncertainty.bands import Band, band

# The bands of more curves would hide each other.
MAX_BANDS = 3
# Points in all panels together, and in one of them at least and at most; and states that have a panel.
MAX_POINTS, MIN_POINTS_OF_PANEL, MAX_POINTS_OF_PANEL, MAX_STATES = 8000, 25, 400, 12


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
    most = int(np.clip(MAX_POINTS // panels, MIN_POINTS_OF_PANEL, MAX_POINTS_OF_PANEL))
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
    return rings(count) | {"color": INK if runs == 1 else colour(index)}


def fit_panel(found: Discovery, runs: Sequence[Drawn], k: int) -> Markup:
    """Data, curves and bands of state k, and the residuals beneath."""
    series = found.series
    measured = any(np.isfinite(d.points[:, k]).any() for d in runs)
    known = found.estimates
    within = (-np.inf, np.inf) if known is None else known.within(k)
    with rc_context(DRAWN):
        figure, axes = panel(below=PANEL.residuals if measured else 0.0)
        top = axes[0]
        for i, d in enumerate(runs):
            hue = colour(i)
            if len(runs) <= MAX_BANDS:
                _draw_band(top, d, k, hue, within, len(runs) == 1)
            top.plot(d.times, d.band.curve[:, k], color=hue, zorder=Depth.CURVE)
            top.plot(d.run.time[d.samples], d.points[:, k], **ring(len(runs), i, len(d.samples)))
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
        limited(top, edges, seen, beyond=ROOM.beyond)
        if series.units.get(series.states[k]):
            top.set_ylabel(f"[{series.units[series.states[k]]}]", **NOTE)
        if measured:
            _draw_residuals(axes[1], runs, k)
        set_times(axes[-1], series)
        state = series.states[k]
        return inline(figure, f"fit{k}", f"{state} over {series.time_name}: data and curve")


def _draw_band(axes: Axes, d: Drawn, k: int, hue: str, within: tuple[float, float], alone: bool) -> None:
    """95 % of new measurements, light, and of the curve, darker; of many curves only this one."""
    # A band is wide and smooth: half the points are enough.
    half = slice(None, None, 2)
    curve, times = d.band.curve[half, k], d.times[half]
    if alone:
        ends = min(within[0], float(np.nanmin(d.points[:, k], initial=0.0))), np.inf
        draw_band(axes, times, curve, d.band.prediction[half, k], ends, color=hue, **LIGHT)
    draw_band(axes, times, curve, d.band.confidence[half, k], within, color=hue, **(DARK if alone else LIGHT))


def _draw_residuals(axes: Axes, runs: Sequence[Drawn], k: int) -> None:
    left = [d.points[:, k] - d.fitted[:, k] for d in runs]
    for i, (d, own) in enumerate(zip(runs, left, strict=True)):
        axes.plot(d.run.time[d.samples], own, **ring(len(runs), i, len(d.samples)))
    frame_residuals(axes, left, "residual")
