"""Pictures in a notebook that was told nothing of matplotlib."""

from __future__ import annotations

import warnings

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")

FOUND = """
from odediscovery import compare, fit_constants, simulate_system
found = fit_constants(simulate_system("logistic"), "N' = r*N - b*N^2")
"""
OWN = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nNone"


def pictures_of(cells: list[str]) -> list[int]:
    """How many pictures each cell shows, run in a kernel of its own."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the ways of the kernel's messages
        nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    return [sum("image/png" in output.get("data", {}) for output in cell.outputs) for cell in notebook.cells]


@pytest.mark.slow
@pytest.mark.parametrize("first", [[], [OWN], ["import matplotlib.pyplot"]])
def test_every_plot_shows_and_so_do_figures_of_ones_own(first: list[str]) -> None:
    cells = [FOUND, "found.plot();", "found.plot();\nfound.plot();", OWN, "compare(found, found).plot();", OWN]
    shown = pictures_of([*first, *cells])
    assert shown[len(first) :] == [0, 1, 2, 1, 1, 1]
    assert shown[: len(first)] == [cell.count("plt.plot") for cell in first]


@pytest.mark.slow
def test_figures_of_ones_own_show_after_a_cell_that_drew_into_ours() -> None:
    assert pictures_of([FOUND, f"found.plot()\n{OWN}", "plt.subplots()\nNone"]) == [0, 1, 1]
