"""Draws README's picture, a fit with its equations, from the folder that `make demo` wrote.

python .ci/picture.py demo/lynx_hare_1900_1920 docs/assets/lynx_hare.png
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt

from odediscovery import Discovery

matplotlib.use("agg")


def draw(folder: Path, path: Path) -> None:
    """The fit in `folder`, one picture a state, with the equations above."""
    found = Discovery.load(folder)
    axes = found.plot()
    equations = [text.replace("*", "\N{MIDDLE DOT}") for text in found.equations_text().splitlines()]
    figure = axes[0].figure
    figure.suptitle("\n".join(equations), x=0.02, ha="left", fontsize=11)
    axes[0].set_ylabel("thousands of pelts")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(figure)


if __name__ == "__main__":
    draw(Path(sys.argv[1]), Path(sys.argv[2]))
