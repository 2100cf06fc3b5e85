"""The fit as axes of matplotlib, for people who go on drawing: notebooks and figures of their own."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib import rc_context

from odediscovery.errors import InputError
from odediscovery.plots.figures import curve_through, draw_state, with_unit
from odediscovery.plots.theme import COLOURS, INK, SIZES, STYLE, rings
from odediscovery.plots.times import set_times
from odediscovery.result.discovery import Discovery

# Panels of full width side by side, and columns of a legend; panels of more states are narrower.
MAX_WIDE = 4


def plot_fit(found: Discovery, axes: Any = None) -> Any:
    """Data, curves and 95 % bands, one picture a state.

    Args:
        found: a result.
        axes: matplotlib axes to draw in, one a state; None: a new figure of pyplot.

    Returns:
        The axes [states].

    Raises:
        InputError: another number of axes.

    >>> from odediscovery import discover, settings_for, simulate_system
    >>> axes = plot_fit(discover(simulate_system("logistic"), settings_for(members=0)))
    >>> len(axes), axes[0].get_xlabel()
    (1, 't')
    >>> plt.close(axes[0].figure)
    """
    series = found.series
    with _style():
        given, own = _given(axes, series.n_states)
        curves = [curve_through(found, j, run) for j, run in enumerate(series.trajectories)]
        for k, (ax, state) in enumerate(zip(given, series.states, strict=True)):
            draw_state(ax, None, found, curves, k)
            ax.set_title(with_unit(state, series.units))
            set_times(ax, series)
        _legend(given, own)
    return given


def plot_laws(results: Sequence[Discovery], names: Sequence[str], axes: Any = None) -> Any:
    """The data and the curves of several results for them, one picture a state.

    Args:
        results: of the same data.
        names: of the laws, for the legend.
        axes: matplotlib axes to draw in, one a state; None: a new figure of pyplot.

    Returns:
        The axes [states].

    Raises:
        InputError: another number of axes.

    >>> from odediscovery import fit_constants, simulate_system
    >>> series = simulate_system("logistic")
    >>> laws = ["r*N", "r*N - b*N^2"]
    >>> axes = plot_laws([fit_constants(series, f"N' = {law}") for law in laws], laws)
    >>> len(axes[0].lines)
    3
    >>> plt.close(axes[0].figure)
    """
    series = results[0].series
    with _style():
        given, own = _given(axes, series.n_states)
        for k, (ax, state) in enumerate(zip(given, series.states, strict=True)):
            for j, run in enumerate(series.trajectories):
                dots = rings(len(run.time))
                ax.plot(run.time, run.values[:, k], color=INK, label=None if j else "data", **dots)
                for i, (found, name) in enumerate(zip(results, names, strict=True)):
                    dense, drawn = curve_through(found, j, run)
                    colour = COLOURS[i % len(COLOURS)]
                    ax.plot(dense, drawn.curve[:, k], color=colour, label=None if j else name)
            ax.set_title(with_unit(state, series.units))
            set_times(ax, series)
        _legend(given, own)
    return given


def _style() -> AbstractContextManager[None]:
    """The style of our pictures, while they are drawn.

    A backend that pyplot loads meanwhile would lose its settings at the end: notebooks show what is `interactive`.
    """
    plt.draw_if_interactive()  # type: ignore[no-untyped-call] # loads it
    return rc_context(STYLE)


def _given(axes: Any, count: int) -> tuple[Any, bool]:
    """Axes to draw in, one a state, and whether they are of a figure of our own."""
    own = axes is None
    if own:
        size = SIZES.width * min(count, MAX_WIDE), SIZES.plain
        _, axes = plt.subplots(1, count, figsize=size, layout="constrained", squeeze=False)
    given = np.atleast_1d(np.asarray(axes, dtype=object)).ravel()
    if len(given) != count:
        raise InputError(f"axes: expected {count}, one a state, got {len(given)}")
    return given, own


def _legend(axes: Any, own: bool) -> None:
    """One legend below a figure of our own; those of others are theirs."""
    if own:
        handles, labels = axes[0].get_legend_handles_labels()
        axes[0].figure.legend(handles, labels, loc="outside lower left", ncols=min(2 * len(axes), MAX_WIDE))
