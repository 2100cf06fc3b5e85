"""Axes of all pictures: labels with units, times and dates, powers of ten, limits, bands, zero lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np
from matplotlib import dates
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from odediscovery.data.dates import UNITS
from odediscovery.data.series import TimeSeries
from odediscovery.plots.theme import (
    BEYOND,
    COLOURS,
    FEW_TICKS,
    HAIR,
    LINE,
    MAX_TICKS,
    MUTED,
    NOTE,
    PAPER,
    ROOM,
    STYLE,
    Depth,
)
from odediscovery.runtime.arrays import Array

# Its functions have no types.
_DATES: Any = dates


def empty_figure(width: float, height: float) -> Figure:
    """An empty figure of so many inches, drawn by Agg and laid out so that nothing overlaps."""
    figure = Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.1), facecolor=PAPER)
    FigureCanvasAgg(figure)
    return figure


def with_unit(name: str, units: Mapping[str, str]) -> str:
    """A name with its unit in brackets, where one is known.

    >>> with_unit("x", {"x": "g"}), with_unit("x", {})
    ('x [g]', 'x')
    """
    return f"{name} [{units[name]}]" if units.get(name) else name


def set_times(axes: Axes, series: TimeSeries) -> None:
    """Label the horizontal axis, whose limits are final, as the time of a series, with dates where it has any."""
    name, unit = series.time_name, series.units.get(series.time_name, "")
    axes.set_xlabel(with_unit(name, series.units))
    # No steps of 2.5: 1902.5 would be too long a label.
    axes.xaxis.set_major_locator(MaxNLocator(MAX_TICKS, steps=[1, 2, 4, 5, 10]))
    if not series.since or unit not in UNITS:
        return
    days = UNITS[unit] / UNITS["days"]
    low, high = sorted(axes.get_xlim())
    locator = _DATES.AutoDateLocator(minticks=FEW_TICKS, maxticks=MAX_TICKS)
    formatter = _DATES.ConciseDateFormatter(locator)
    try:
        since = float(_DATES.date2num(datetime.fromisoformat(series.since)))
        ticks = np.array(locator.tick_values(*(_DATES.num2date(since + days * t) for t in (low, high))), dtype=float)
        ticks = ticks[(ticks >= since + days * low) & (ticks <= since + days * high)]
        texts = formatter.format_ticks(ticks)
    except (ValueError, OverflowError):
        return
    axes.set_xticks((ticks - since) / days, texts)
    axes.set_xlabel(f"{name} {formatter.get_offset()}".strip())


def frame(axes: Axes, curves: Iterable[Array], seen: Array) -> None:
    """Vertical limits by what was measured; curves may go a little beyond it, and decide where nothing was.

    Args:
        curves: values of curves and edges of bands.
        seen: measured values.
    """
    drawn = np.concatenate([np.ravel(v) for v in curves] or [np.zeros(0)])
    drawn, known = drawn[np.isfinite(drawn)], seen[np.isfinite(seen)]
    base = known if known.size else drawn
    if not base.size:
        return
    low, high = float(base.min()), float(base.max())
    room = (high - low) or abs(high) or 1.0
    if drawn.size:
        low = min(low, max(float(drawn.min()), low - BEYOND * room))
        high = max(high, min(float(drawn.max()), high + BEYOND * room))
    axes.set_ylim(low - ROOM * room, high + ROOM * room)


def ends_of(values: Array) -> tuple[float, float]:
    """Least and greatest value with some room around them."""
    low, high = float(values.min()), float(values.max())
    room = ROOM * ((high - low) or abs(high) or 1.0)
    return low - room, high + room


def draw_band(axes: Axes, times: Array, curve: Array, half: Array, ends: tuple[Any, Any], **look: Any) -> None:
    """An area of half a width around a curve, between two ends, where the width is known.

    Args:
        half: nan where it is unknown.
        ends: least and greatest value that the band may have, where the curve itself goes no farther.
    """
    if np.isfinite(half).any():
        low = np.maximum(curve - half, np.minimum(curve, ends[0]))
        high = np.minimum(curve + half, np.maximum(curve, ends[1]))
        axes.fill_between(times, low, high, **look)


def draw_zero(axes: Axes) -> None:
    """The line at 0, behind everything."""
    axes.axhline(0.0, **HAIR)


def frame_residuals(axes: Axes, residuals: Sequence[Array]) -> None:
    """An axis on which residuals lie around 0: in the colour of the curve, if there is but one."""
    axes.axhline(0.0, color=COLOURS[0] if len(residuals) == 1 else MUTED, zorder=Depth.BEHIND, **LINE)
    largest = max((float(np.nanmax(np.abs(left), initial=0.0)) for left in residuals), default=0.0)
    reach = 1.3 * (largest if np.isfinite(largest) and largest > 0 else 1.0)
    axes.set_ylim(-reach, reach)
    axes.yaxis.set_major_locator(MaxNLocator(FEW_TICKS, symmetric=True))
    axes.set_ylabel("residual", **NOTE)


def label_decades(axes: Axes, low: float, high: float) -> None:
    """Ticks of a logarithmic axis between two values alone: every decade, or more where there are fewer than three."""
    for steps in ((1.0,), (1.0, 3.0), (1.0, 2.0, 5.0)):
        ticks = [tick for tick in LogLocator(subs=steps).tick_values(low, high) if low <= tick <= high]
        if len(ticks) > 2:
            break
    axes.set_yticks(ticks, list(map(power_of_ten, ticks)))
    axes.yaxis.set_minor_locator(NullLocator())


def power_of_ten(value: float) -> str:
    """How one, two, three or five times a power of ten is written on an axis.

    >>> power_of_ten(100.0), power_of_ten(1e-12), power_of_ten(2e7)
    ('100', '10⁻¹²', '2·10⁷')
    """
    first, _, power = f"{value:.0e}".partition("e")
    least, most = STYLE["axes.formatter.limits"]
    if least <= int(power) < most:
        return f"{value:g}"
    raised = str(int(power)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{f'{first}·' if first != '1' else ''}10{raised}"
