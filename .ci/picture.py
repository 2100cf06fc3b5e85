"""Draws README's pictures from what it shows: the front of its first example, and a fit with its equations.

python .ci/picture.py demo/lynx_hare_1900_1920 docs/assets
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import torch

from odediscovery import Discovery, equations, pareto, prune, simulate_system, train
from odediscovery.units import NAU, RealNPU

matplotlib.use("agg")


def draw_front() -> Any:
    """The front of the fifteen lines, the equations of the chosen network above."""
    torch.manual_seed(0)
    series = simulate_system("fsir")
    path = prune(train(torch.nn.Sequential(RealNPU(3, 6), NAU(6, 3)), series), series)
    _, axes = pareto(path)
    told = equations(path.best, series.states, snapped=True, digits=3)
    axes.set_title("\n".join(f"{state}' = {rate}" for state, rate in told.items()).replace("**", "^").replace("*", " "))
    return axes.figure


def draw_fit(folder: Path) -> Any:
    """The fit in `folder`, one picture a state, with the equations above."""
    found = Discovery.load(folder)
    axes = found.plot()
    told = [text.replace("*", "\N{MIDDLE DOT}") for text in found.equations_text().splitlines()]
    axes[0].figure.suptitle("\n".join(told), x=0.02, ha="left", fontsize=11)
    axes[0].set_ylabel("thousands of pelts")
    return axes[0].figure


if __name__ == "__main__":
    folder, assets = map(Path, sys.argv[1:])
    assets.mkdir(parents=True, exist_ok=True)
    for figure, name in ((draw_front(), "fsir_front"), (draw_fit(folder), "lynx_hare")):
        figure.savefig(assets / f"{name}.png", dpi=100, metadata={"Software": None})
        plt.close(figure)
