"""The choice of a pruned network as a table and a picture."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib import rc_context
from matplotlib.ticker import MaxNLocator

from odediscovery.data.frames import records_frame
from odediscovery.errors import InputError
from odediscovery.neural.prune import PruningPath
from odediscovery.plots.theme import COLOURS, LINE, MARKS, MUTED, PAPER, ROOM, SIZES, STYLE, Depth


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
    size = np.array([step.parameters for step in path])
    error = np.array([step.mean_square for step in path])
    with rc_context(STYLE):
        if axes is None:
            _, axes = plt.subplots(figsize=(SIZES.least, SIZES.height), layout="constrained")
        axes.set_yscale("log")
        dots: dict[str, Any] = {"mec": PAPER, "zorder": Depth.MARK}
        axes.step(size[::-1], np.minimum.accumulate(error[::-1]), where="post", color=MUTED, **LINE)
        axes.plot(size, error, "o", ms=MARKS.point, color=COLOURS[0], label="pruned network", **dots)
        told = f"chosen: {path.chosen.parameters} parameters, mean square {path.chosen.mean_square:.2g}"
        at = path.chosen.parameters, path.chosen.mean_square
        axes.plot(*at, "*", ms=MARKS.chosen, color=COLOURS[1], label=told, **dots)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.margins(ROOM.marks)
        axes.set_xlabel("parameters")
        axes.set_ylabel("mean square of the residuals")
        axes.set_title("Pareto front")
        axes.legend()
    return records_frame(rows, ["parameters", "mean_square", "bic", "chosen"]), axes
