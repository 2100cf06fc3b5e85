"""The fit of a state: data, the curves of the equations with their bands, and the residuals below."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from numpy.typing import NDArray

import odediscovery.plots.axes as style
from odediscovery.data.signals import Trajectory
from odediscovery.errors import InputError
from odediscovery.plots.axes import draw_band, frame, frame_residuals, rings, set_times
from odediscovery.result.discovery import Discovery, curve_of
from odediscovery.runtime.arrays import Array
from odediscovery.uncertainty.bands import Band, band

# More bands, or more names in a legend, would hide each other.
MAX_BANDS, MAX_NAMES = 3, 7


@dataclass(frozen=True, eq=False)
class Course:
    """One trajectory and the curve of the equations from its start."""

    index: int  # in the series
    run: Trajectory
    samples: NDArray[np.int_]  # indices of the samples to draw
    times: Array  # of the curve, including those of the samples [n]
    band: Band  # the curve with its half widths, nan where unknown

    @property
    def label(self) -> str:
        """Name of the trajectory; a bare number is prefixed."""
        label = self.run.label or str(self.index + 1)
        return f"trajectory {label}" if label.isdigit() else label

    @property
    def seen(self) -> Array:
        """Times of the drawn samples."""
        return self.run.time[self.samples]

    @cached_property
    def points(self) -> Array:
        """Measured values of the drawn samples [samples, states]."""
        return self.run.values[self.samples]

    @cached_property
    def residuals(self) -> Array:
        """Data minus curve at the drawn samples [samples, states]."""
        fitted: Array = self.points - self.band.curve[np.searchsorted(self.times, self.seen)]
        return fitted

    @cached_property
    def visited(self) -> Array:
        """Finite values of states and inputs along the curve [n, variables]."""
        inputs = [] if self.run.controls is None else [self.run.controls.at(self.times)]
        x = np.hstack([self.band.curve, *inputs])
        return x[np.isfinite(x).all(axis=1)]


def thinned(count: int, most: int) -> NDArray[np.int_]:
    """Indices of at most `most` of `count` samples, including the first and the last."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int))


def course_of(found: Discovery, j: int, most: int | None = None) -> Course:
    """Compute curve and bands of trajectory j, with at most `most` of its samples."""
    run = found.series.trajectories[j]
    samples = thinned(len(run.time), most or len(run.time))
    times = np.union1d(np.linspace(run.time[0], run.time[-1], style.CURVE_POINTS), run.time[samples])
    try:
        curve = band(found, times, trajectory=j)
    except InputError:  # no covariance, as from a published recipe
        values = curve_of(found, j, times)
        curve = Band(values, *[np.full_like(values, np.nan)] * 2)
    return Course(j, run, samples, times, curve)


def courses(found: Discovery) -> list[Course]:
    """Compute the curves of all trajectories."""
    return [course_of(found, j) for j in range(len(found.series.trajectories))]


def colour(index: int, count: int) -> Any:
    """Colour of a trajectory, one of `count`."""
    return style.COLOURS[index] if count <= len(style.COLOURS) else colormaps["viridis"](0.9 * index / (count - 1))


def samples_look(runs: Sequence[Course], i: int) -> dict[str, Any]:
    """Style of the measured values of trajectory i."""
    return rings(len(runs[i].samples)) | {"color": style.INK if len(runs) == 1 else colour(i, len(runs))}


def draw_state(axes: Sequence[Axes], found: Discovery, runs: Sequence[Course], k: int) -> None:
    """Draw data, curves and bands of state k in the first axes, and residuals in the second, if any."""
    top, below = axes[0], axes[1:]
    for i, one in enumerate(runs):
        look, name = samples_look(runs, i), one.label if 1 < len(runs) <= MAX_NAMES else "equations" * (not i)
        top.plot(one.seen, one.points[:, k], **look, label=None if i else "data")
        top.plot(
            one.times, one.band.curve[:, k], color=colour(i, len(runs)), zorder=style.Depth.CURVE, label=name or None
        )
        for ax in below:
            ax.plot(one.seen, one.residuals[:, k], **look)
    _draw_bands(top, found, runs, k)
    unit = found.series.units.get(found.series.states[k])
    if unit:
        top.set_ylabel(f"[{unit}]", **style.NOTE)
    for ax in below:
        top.tick_params(labelbottom=False)
        frame_residuals(ax, [one.residuals[:, k] for one in runs])
    set_times(axes[-1], found.series)


def _draw_bands(top: Axes, found: Discovery, runs: Sequence[Course], k: int) -> None:
    """Draw 95 % bands behind the curves; very wide bands are clipped, so that the data stay visible."""
    within = (-np.inf, np.inf) if found.estimates is None else found.estimates.within(k)
    seen = np.concatenate([one.points[:, k] for one in runs])
    least = min(within[0], float(np.nanmin(seen, initial=0.0)))
    most = max(within[1], float(np.nanmax(seen, initial=0.0)))
    edges = [one.band.curve[:, k] for one in runs]
    for i, one in enumerate(runs if len(runs) <= MAX_BANDS else ()):
        # Bands are smooth, so half the points suffice.
        curve, inner, outer = (x[::2, k] for x in (one.band.curve, one.band.confidence, one.band.prediction))
        times, hue = one.times[::2], colour(i, len(runs))
        name = None if i else "95 % band of the curve"
        if len(runs) == 1:
            draw_band(
                top, times, curve, outer, (least, np.inf), color=hue, label="95 % of new measurements", **style.LIGHT
            )
            edges += [curve - np.nan_to_num(inner), curve + np.nan_to_num(inner)]
        draw_band(
            top, times, curve, inner, within, color=hue, label=name, **(style.DARK if len(runs) == 1 else style.LIGHT)
        )
    frame(top, [np.clip(edge, least, most) for edge in edges], seen)
