"""The fit, several laws, and the choice of a pruned network as matplotlib axes for further drawing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib import rc_context
from matplotlib.text import Text

from odediscovery.data.frames import Frame
from odediscovery.errors import InputError
from odediscovery.neural.prune import PruningPath
from odediscovery.plots.axes import COLOURS, HEIGHT, INK, LEAST_WIDTH, NAMES, STYLE, WIDTH, rings, set_times, with_unit
from odediscovery.plots.figures import draw_front
from odediscovery.plots.fit import course_of, courses, draw_state
from odediscovery.result.discovery import Discovery

# Most panels of full width in a row, and most columns of a legend; more panels are narrower.
MAX_WIDE = 4


def plot_fit(found: Discovery, axes: Any = None) -> Any:
    """Draw data, curves and 95 % bands, one panel per state.

    Args:
        found: a result.
        axes: matplotlib axes to draw in, one per state; None: a new figure of pyplot.

    Returns:
        The axes [states].

    Raises:
        InputError: the number of axes differs from the number of states.

    >>> from odediscovery import discover, settings_for, simulate_system
    >>> axes = plot_fit(discover(simulate_system("logistic"), settings_for(members=0)))
    >>> len(axes), axes[0].get_xlabel()
    (1, 't')
    >>> plt.close(axes[0].figure)
    """
    with _drawn_in(axes, found.series.n_states) as given:
        runs = courses(found)
        for k, (ax, state) in enumerate(zip(given, found.series.states, strict=True)):
            draw_state([ax], found, runs, k)
            ax.set_title(state)
    return given


def plot_laws(results: Sequence[Discovery], names: Sequence[str], axes: Any = None) -> Any:
    """Draw the data and the curves of several results, one panel per state.

    Args:
        results: results for the same data.
        names: names of the laws for the legend.
        axes: matplotlib axes to draw in, one per state; None: a new figure of pyplot.

    Returns:
        The axes [states].

    Raises:
        InputError: the number of axes differs from the number of states.

    >>> from odediscovery import fit_constants, simulate_system
    >>> series = simulate_system("logistic")
    >>> laws = ["r*N", "r*N - b*N^2"]
    >>> axes = plot_laws([fit_constants(series, f"N' = {law}") for law in laws], laws)
    >>> len(axes[0].lines)
    3
    >>> plt.close(axes[0].figure)
    """
    series = results[0].series
    with _drawn_in(axes, series.n_states) as given:
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
    return given


def pareto(path: PruningPath, axes: Any = None) -> tuple[Any, Any]:
    """Draw the error of all networks of a pruning path over their number of parameters, the chosen one marked.

    Args:
        path: from `prune`.
        axes: matplotlib axes to draw in; None: a new figure of pyplot.

    Returns:
        A DataFrame with a row for each network (parameters, mean_square, bic, chosen) and the axes.

    Raises:
        InputError: `path` is not a `PruningPath`.

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
    best = path.chosen
    rows = [(step.parameters, step.mean_square, step.criterion, step is best) for step in path]
    table = Frame(rows, columns=["parameters", "mean_square", "bic", "chosen"])
    with rc_context(STYLE):
        if axes is None:
            _, axes = plt.subplots(figsize=(LEAST_WIDTH, HEIGHT), layout="constrained")
        told = f"chosen: {best.parameters} parameters, mean square {best.mean_square:.2g}"
        size, error, _, chosen = np.array(rows, dtype=float).T
        draw_front(axes, size, error, int(chosen.argmax()), meaning=("pruned network", told))
        axes.set(xlabel="parameters", ylabel="mean square of the residuals", title="Pareto front")
        axes.legend()
    return table, axes


@contextmanager
def _drawn_in(axes: Any, count: int) -> Iterator[Any]:
    """Provide axes to draw in, one per state, in our style, without names read as mathematics.

    A new figure gets one legend below it; given axes get none.
    """
    # Load the backend before the context, whose end would reset its settings, such as `interactive` in notebooks.
    plt.draw_if_interactive()  # type: ignore[no-untyped-call] # loads it
    with rc_context(NAMES):
        own = axes is None
        if own:
            size = WIDTH * min(count, MAX_WIDE), 3.5
            _, axes = plt.subplots(1, count, figsize=size, layout="constrained", squeeze=False)
        given = np.atleast_1d(np.asarray(axes, dtype=object)).ravel()
        if len(given) != count:
            raise InputError(f"axes: expected {count}, one a state, got {len(given)}")
        yield given
        for text in (text for ax in given for text in ax.findobj(Text)):
            text.set_parse_math(False)
        if own:
            handles, labels = given[0].get_legend_handles_labels()
            given[0].figure.legend(handles, labels, loc="outside lower left", ncols=min(2 * count, MAX_WIDE))
