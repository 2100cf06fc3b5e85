"""The fit, laws side by side and the choice of a pruned network as axes of matplotlib, for people who go on drawing."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib import rc_context
from matplotlib.text import Text

from odediscovery.data.frames import records_frame
from odediscovery.errors import InputError
from odediscovery.neural.prune import PruningPath
from odediscovery.plots.axes import set_times, with_unit
from odediscovery.plots.fit import course_of, courses, draw_state
from odediscovery.plots.front import draw_front
from odediscovery.plots.theme import COLOURS, HEIGHT, INK, LEAST_WIDTH, NAMES, STYLE, WIDTH, rings
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
    with _style():
        given, own = _given(axes, found.series.n_states)
        runs = courses(found)
        for k, (ax, state) in enumerate(zip(given, found.series.states, strict=True)):
            draw_state([ax], found, runs, k)
            ax.set_title(state)
        _finish(given, own)
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
        for j, run in enumerate(series.trajectories):
            curves = [course_of(found, j) for found in results]
            for k, ax in enumerate(given):
                ax.plot(run.time, run.values[:, k], color=INK, label=None if j else "data", **rings(len(run.time)))
                for i, (one, name) in enumerate(zip(curves, names, strict=True)):
                    hue = COLOURS[i % len(COLOURS)]
                    ax.plot(one.times, one.band.curve[:, k], color=hue, label=None if j else name)
        for ax, state in zip(given, series.states, strict=True):
            ax.set_title(with_unit(state, series.units))
            set_times(ax, series)
        _finish(given, own)
    return given


def pareto(path: PruningPath, axes: Any = None) -> tuple[Any, Any]:
    """Number of parameters against error of all networks of a pruning path, the chosen one marked.

    Args:
        path: from `prune`.
        axes: matplotlib axes to draw in; None: a new figure of pyplot.

    Returns:
        A DataFrame with a row for each network (parameters, mean_square, bic, chosen) and the axes.

    Raises:
        InputError: no such path.

    >>> from odediscovery import prune, simulate_system
    >>> from odediscovery.units import NAU
    >>> import torch
    >>> path = prune(torch.nn.Sequential(NAU(2, 2)), simulate_system("pendulum", {"angle": 0.001}))
    >>> table, axes = pareto(path)
    >>> table[table.chosen].parameters.tolist(), axes.get_xlabel()
    ([2], 'parameters')
    >>> plt.close(axes.figure)
    """
    if not isinstance(path, PruningPath):
        raise InputError(f"a path of networks is expected, what prune returns, got {type(path).__name__}")
    rows = [
        {
            "parameters": step.parameters,
            "mean_square": step.mean_square,
            "bic": step.criterion,
            "chosen": step is path.chosen,
        }
        for step in path
    ]
    table = records_frame(rows, ["parameters", "mean_square", "bic", "chosen"])
    best = path.chosen
    with rc_context(STYLE):
        if axes is None:
            _, axes = plt.subplots(figsize=(LEAST_WIDTH, HEIGHT), layout="constrained")
        told = f"chosen: {best.parameters} parameters, mean square {best.mean_square:.2g}"
        size, error = (np.array([row[name] for row in rows], dtype=float) for name in ("parameters", "mean_square"))
        draw_front(axes, size, error, [row["chosen"] for row in rows].index(True), meaning=("pruned network", told))
        axes.set_xlabel("parameters")
        axes.set_ylabel("mean square of the residuals")
        axes.set_title("Pareto front")
        axes.legend()
    return table, axes


def _style() -> AbstractContextManager[None]:
    """The style of our pictures, while they are drawn.

    A backend that pyplot loads meanwhile would lose its settings at the end: notebooks show what is `interactive`.
    """
    plt.draw_if_interactive()  # type: ignore[no-untyped-call] # loads it
    return rc_context(NAMES)


def _given(axes: Any, count: int) -> tuple[Any, bool]:
    """Axes to draw in, one a state, and whether they are of a figure of our own."""
    own = axes is None
    if own:
        size = WIDTH * min(count, MAX_WIDE), 3.5
        _, axes = plt.subplots(1, count, figsize=size, layout="constrained", squeeze=False)
    given = np.atleast_1d(np.asarray(axes, dtype=object)).ravel()
    if len(given) != count:
        raise InputError(f"axes: expected {count}, one a state, got {len(given)}")
    return given, own


def _finish(axes: Any, own: bool) -> None:
    """One legend below a figure of our own, those of others are theirs; and no name is read as mathematics."""
    for text in (text for ax in axes for text in ax.findobj(Text)):
        text.set_parse_math(False)
    if own:
        handles, labels = axes[0].get_legend_handles_labels()
        axes[0].figure.legend(handles, labels, loc="outside lower left", ncols=min(2 * len(axes), MAX_WIDE))
