"""What the equations leave, examined: its autocorrelation, its distribution, and the rates behind it.

autocorrelation at lag l:  r_l = sum_n e_n e_{n+l} / sum_n e_n^2,   95 % of noise within 1.96 / sqrt(N)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from scipy.special import ndtri

from odediscovery.laws.records import LEVEL
from odediscovery.plots.figures import with_unit
from odediscovery.plots.pieces import draw_zero
from odediscovery.plots.theme import COLOURS, INK, LIGHT, LINE, MARKS, PANEL_POINTS, ROOM, SMALL_RINGS, TICKS
from odediscovery.plots.times import literal
from odediscovery.result.discovery import Discovery
from odediscovery.result.units import rate_label
from odediscovery.runtime.arrays import Array

MAX_LAGS = 20
# Fewer residuals than this show no pattern.
MIN_RESIDUALS = 8
# Trajectories that are integrated for these pictures.
MAX_RUNS = 30
# Rings in a picture, of a trajectory or of all.
MAX_POINTS = 300
# Intervals reach so many standard errors to each side.
REACH = float(ndtri(0.5 + LEVEL / 2.0))


def residuals_of(found: Discovery) -> list[Array]:
    """Data - curve of the first trajectories, [n, states] each, nan where nothing was measured."""
    runs = found.series.trajectories[:MAX_RUNS]
    made = []
    for k, run in enumerate(runs):
        curve = found.equations_of(k).simulate(found.initial_values[k], run.time, controls=run.controls)
        made.append(run.values - curve)
    return made


def autocorrelation(runs: Sequence[Array]) -> tuple[Array, int]:
    """Correlation of residuals [n] a trajectory with those some samples later, and their number.

    >>> autocorrelation([np.tile([1.0, -1.0], 8)])[0][:2].round(2).tolist()
    [-0.94, 0.88]
    """
    known = [np.where(np.isfinite(e), e, 0.0) for e in runs]
    count = int(sum(np.isfinite(e).sum() for e in runs))
    whole = sum(float(e @ e) for e in known)
    lags = min(MAX_LAGS, max((len(e) for e in known), default=0) // 2)
    if not whole > 0 or not lags:
        return np.zeros(0), count
    products = [sum(float(e[lag:] @ e[:-lag]) for e in known if len(e) > lag) for lag in range(1, lags + 1)]
    return np.array(products) / whole, count


def draw_autocorrelation(axes: Axes, runs: Sequence[Array]) -> bool:
    """Bars of the autocorrelation, and the band in which 95 % of them lie if the residuals are noise.

    Returns:
        Whether there was anything to draw.
    """
    found, count = autocorrelation(runs)
    if count < MIN_RESIDUALS or not found.size:
        return False
    lags, bound = np.arange(1, len(found) + 1), REACH / np.sqrt(count)
    axes.axhspan(-bound, bound, color=COLOURS[0], **LIGHT)
    axes.vlines(lags, 0.0, found, color=INK, **LINE)
    axes.plot(lags, found, "o", color=INK, ms=MARKS.small)
    draw_zero(axes)
    axes.set_ylim(min(-0.5, float(found.min())) - ROOM.curves, max(1.0, float(found.max())) + ROOM.curves)
    axes.xaxis.set_major_locator(MaxNLocator(TICKS.some, integer=True))
    axes.set_xlabel("samples later")
    axes.set_ylabel("autocorrelation")
    return True


def draw_normal(axes: Axes, runs: Sequence[Array]) -> bool:
    """Residuals in order against those of a normal distribution: noise lies on the line.

    Returns:
        Whether there was anything to draw.
    """
    left = np.concatenate([e[np.isfinite(e)] for e in runs] or [np.zeros(0)])
    spread = float(left.std()) if left.size else 0.0
    if left.size < MIN_RESIDUALS or not spread > 0:
        return False
    ordered = np.sort(left - left.mean()) / spread
    expected = ndtri((np.arange(len(ordered)) + 0.5) / len(ordered))
    ends = np.array([min(expected[0], ordered[0]), max(expected[-1], ordered[-1])])
    axes.plot(ends, ends, color=COLOURS[0], **LINE)
    step = max(len(ordered) // MAX_POINTS, 1)
    axes.plot(expected[::step], ordered[::step], color=INK, **SMALL_RINGS)
    axes.set_xlabel("normal quantile")
    axes.set_ylabel("residual / spread")
    return True


def draw_rates(axes: Axes, found: Discovery, k: int) -> bool:
    """Slopes between neighbouring samples of state k, and the rate by the equation along the curve.

    Returns:
        Whether there was anything to draw.
    """
    drawn = False
    runs = found.series.trajectories[: len(COLOURS)]
    for j, run in enumerate(runs):
        own, seen = found.equations_of(j), np.isfinite(run.values[:, k])
        time, x = run.time[seen], run.values[seen, k]
        if len(x) < 3:
            continue
        colour = COLOURS[j]
        step = max(len(x) // MAX_POINTS, 1)
        middle, slopes = ((x[1:] + x[:-1]) / 2)[::step], (np.diff(x) / np.diff(time))[::step]
        axes.plot(middle, slopes, color=INK if len(runs) == 1 else colour, **SMALL_RINGS)
        dense = np.linspace(run.time[0], run.time[-1], PANEL_POINTS)
        curve = own.simulate(found.initial_values[j], dense, controls=run.controls)
        variables = curve if run.controls is None else np.hstack([curve, run.controls.at(dense)])
        axes.plot(curve[:, k], own.rhs(variables)[:, k], color=colour)
        drawn = True
    draw_zero(axes)
    axes.set_xlabel(with_unit(found.series.states[k], found.series.units))
    axes.set_ylabel(literal(rate_label(found.series, found.series.states[k])))
    return drawn
