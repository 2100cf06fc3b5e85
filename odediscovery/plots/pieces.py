"""Pieces of several pictures: bands, axes of residuals, headlines, and powers of ten at an axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, FigureBase
from matplotlib.ticker import MaxNLocator

from odediscovery.plots.theme import COLOURS, HAIR, LINE, MUTED, NOTE, ROOM, SIZES, STYLE, TICKS, Depth
from odediscovery.runtime.arrays import Array


def draw_band(axes: Axes, times: Array, curve: Array, half: Array, ends: tuple[Any, Any], **look: Any) -> None:
    """What lies within half a width of a curve, and between two ends, where the width is known.

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


def frame_residuals(axes: Axes, residuals: Sequence[Array], label: str) -> None:
    """An axis on which residuals lie around 0: in the colour of the curve, if there is but one."""
    axes.axhline(0.0, color=COLOURS[0] if len(residuals) == 1 else MUTED, zorder=Depth.BEHIND, **LINE)
    largest = max((float(np.nanmax(np.abs(left), initial=0.0)) for left in residuals), default=0.0)
    reach = ROOM.residuals * (largest if np.isfinite(largest) and largest > 0 else 1.0)
    axes.set_ylim(-reach, reach)
    axes.yaxis.set_major_locator(MaxNLocator(TICKS.few, symmetric=True))
    axes.set_ylabel(label, **NOTE)


def headline(figure: FigureBase, text: str) -> None:
    """A muted line above all panels, at the left."""
    figure.suptitle(text, x=0.01, ha="left", color=MUTED, fontsize="medium")


def draw_legend(figure: Figure, axes: Axes) -> None:
    """What the marks of a panel are, below it, in two columns where there is room for them."""
    handles, labels = axes.get_legend_handles_labels()
    widths = [max(map(len, label.split("\n"))) for label in labels]
    half = -(-len(labels) // 2)
    letters = max(widths[:half], default=0) + max(widths[half:], default=0)
    figure.legend(handles, labels, loc="outside lower left", ncols=1 if letters > SIZES.letters else 2)


def power_of_ten(value: float) -> str:
    """How one, two, three or five times a power of ten is written on an axis.

    >>> power_of_ten(100.0), power_of_ten(1e-12), power_of_ten(2e7)
    ('100', '10⁻¹²', '2·10⁷')
    """
    first, _, power = f"{value:.0e}".partition("e")
    least, most = STYLE["axes.formatter.limits"]
    if least <= int(power) < most:
        return f"{value:g}"
    return f"{f'{first}·' if first != '1' else ''}10{raised(int(power))}"


def raised(exponent: int) -> str:
    """An exponent as letters that are set high."""
    return str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
