"""A solution by `predict` as panels and a short table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes

from odediscovery.data.signals import Signal
from odediscovery.errors import InputError
from odediscovery.laws.expressions import constant
from odediscovery.plots.axes import COLOURS, CURVE_POINTS, HAIR, INK, LIGHT, Depth, frame, rings, set_times
from odediscovery.plots.fit import thinned
from odediscovery.report.drawings import panels
from odediscovery.report.words import typeset
from odediscovery.result.discovery import Discovery, start_values
from odediscovery.runtime.arrays import Array
from odediscovery.uncertainty.bands import band


@dataclass(frozen=True, eq=False)
class Forecast:
    """A solution of the equations at requested times."""

    asked: Array  # requested times, at most `CURVE_POINTS`
    times: Array  # these and times between them for a smooth curve, increasing [n]
    values: Array  # states at these times [n, states], nan after divergence
    half: Array | None  # half widths of 95 % intervals of new measurements [n, states]; None if unknown
    start: Mapping[str, float]  # start values given by the user; empty for the fitted ones
    own_controls: bool = False  # whether the user gave controls
    notes: tuple[str, ...] = ()  # remarks for the reader

    @property
    def goes_on(self) -> bool:
        """Whether it continues the data; otherwise they belong to another experiment and are not drawn."""
        return not self.start and not self.own_controls


def forecast_of(
    found: Discovery, asked: Array, start: Mapping[str, float] | None = None, controls: Signal | None = None
) -> Forecast:
    """Integrate the equations for a page, as in `Discovery.simulate`, with intervals if these are known."""
    given, notes = dict(start or {}), []
    initial = start_values(given, found.initial_values[0], found.equations.states) if given else None
    shown = asked[thinned(len(asked), CURVE_POINTS)]
    times = np.union1d(np.linspace(asked[0], asked[-1], CURVE_POINTS), shown)
    values = found.simulate(initial, times, controls)
    if not np.isfinite(values).all():
        notes.append("The solution grows without bound; what lies behind is not drawn.")
    try:
        half = band(found, times, initial, controls=controls).prediction
    except InputError:
        half = None
        notes.append("The covariance of the constants is not known, so there are no intervals.")
    return Forecast(shown, times, values, half, given, controls is not None, tuple(notes))


def forecast_panels(found: Discovery, forecast: Forecast) -> list[tuple[str, Markup | None]]:
    """Draw the curve of each state, with the data of the first trajectory if it continues them."""
    series, run, times = found.series, found.series.trajectories[0], forecast.times

    def draw(axes: Axes, k: int) -> None:
        values, seen = forecast.values[:, k], np.zeros(0)
        half = np.zeros_like(values) if forecast.half is None else forecast.half[:, k]
        if forecast.half is not None:
            axes.fill_between(times, values - half, values + half, color=COLOURS[0], **LIGHT)
        if forecast.goes_on:
            samples = thinned(len(run.time), 400)
            seen = run.values[samples, k]
            axes.plot(run.time[samples], seen, color=INK, **rings(len(samples)))
            axes.axvline(run.time[-1], ls="--", **HAIR)
        axes.plot(times, values, "o" if len(times) == 1 else "-", color=COLOURS[0], zorder=Depth.CURVE)
        frame(axes, [values - half, values + half], np.concatenate([seen, values]))
        set_times(axes, series)

    return panels(found, draw, "forecast", " as predicted")


def forecast_rows(found: Discovery, forecast: Forecast) -> list[tuple[Markup, list[tuple[Markup, Markup]]]]:
    """At most eight times, with value and half width of the interval of every state."""
    rows = []
    for when in forecast.asked[thinned(len(forecast.asked), 8)].tolist():
        i = int(np.searchsorted(forecast.times, when))
        halves = np.full(len(found.equations.states), np.nan) if forecast.half is None else forecast.half[i]
        cells = [_cell(x, h) for x, h in zip(forecast.values[i].tolist(), halves, strict=True)]
        rows.append((typeset(f"{when:.6g}"), cells))
    return rows


def _cell(value: float, half: float) -> tuple[Markup, Markup]:
    if not np.isfinite(value):
        return Markup(""), Markup("")
    if not np.isfinite(half) or half == 0.0:
        return typeset(constant(value)), Markup("")
    return typeset(constant(value, half)), typeset(constant(half, digits=2))
