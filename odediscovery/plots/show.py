"""The fit as axes of matplotlib, for people who go on drawing: notebooks and figures of their own."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib import rc_context

from odediscovery.errors import InputError
from odediscovery.plots.figures import STYLE, curve_through, draw_state, with_unit
from odediscovery.result.discovery import Discovery


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
    with rc_context(STYLE):
        own = axes is None
        if own:
            size = (4.2 * min(series.n_states, 4), 3.5)
            _, axes = plt.subplots(1, series.n_states, figsize=size, layout="constrained", squeeze=False)
        given = np.atleast_1d(np.asarray(axes, dtype=object)).ravel()
        if len(given) != series.n_states:
            raise InputError(f"axes: expected {series.n_states}, one a state, got {len(given)}")
        curves = [curve_through(found, j, run) for j, run in enumerate(series.trajectories)]
        for k, (ax, state) in enumerate(zip(given, series.states, strict=True)):
            draw_state(ax, None, found, curves, k)
            ax.set_title(with_unit(state, series.units))
            ax.set_xlabel(with_unit(series.time_name, series.units))
        if own:
            handles, labels = given[0].get_legend_handles_labels()
            given[0].figure.legend(handles, labels, loc="outside lower left", ncols=4, fontsize=9)
    return given
