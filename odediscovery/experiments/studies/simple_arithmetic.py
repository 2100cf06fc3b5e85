"""Sec. 4.2 of Neural Power Units: four operations learned at once (Fig. 6, Table A2).

    f(x, y) = (x + y, x y, x / y, sqrt x),    x, y ~ U(0.1, 2)

The test is the mean absolute error on a grid that reaches into the negative numbers. The paper
prints the order NAU -> NPU and a dense net of 10; the code ran NPU -> NAU and 50 (`as-run`). What
the paper leaves open is as the code has it: NALU's biases begin by Glorot, as for a matrix of one
column, and iNALU's regulariser is a sum over all parameters, not a mean.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from matplotlib import rc_context
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor, nn

from odediscovery.experiments.base import (
    Arrays,
    Experiment,
    Plan,
    Ran,
    Row,
    beside,
    counted,
    find,
    markdown,
    median_deviation,
    number,
)
from odediscovery.experiments.drawing import STYLE, page
from odediscovery.experiments.regression import (
    Training,
    count_parameters,
    errors,
    inalu_penalty,
    rows_of,
    train,
    uniform,
)
from odediscovery.plots.figures import COLOURS
from odediscovery.runtime.monitor import Monitor
from odediscovery.units import NAU, UNITS, Dense
from odediscovery.units.base import glorot

MODELS = ("NPU", "RealNPU", "NMU", "NALU", "iNALU", "Dense")
TASKS = ("+", "×", "÷", "√")
# Table A2: median and median absolute deviation of 20 models.
PUBLISHED = {
    "NPU": ((0.2, 0.11), (0.37, 0.23), (0.23, 0.13), (0.031, 0.025)),
    "RealNPU": ((0.08, 0.021), (0.066, 0.026), (0.085, 0.038), (0.004, 0.001)),
    "NMU": ((0.2, 0.18), (0.005, 0.004), (11.399, 0.035), (0.16, 0.002)),
    "NALU": ((2.69, 0.22), (4.55, 0.2), (3.33, 0.18), (0.034, 0.006)),
    "iNALU": ((2.18, 0.13), (3.453, 0.065), (2.54, 0.26), (0.049, 0.011)),
    "Dense": ((2.103, 0.04), (3.546, 0.035), (14.16, 0.23), (0.084, 0.007)),
}


@dataclass(frozen=True)
class Setting:
    """Sec. 4.2 and Table A5 of the paper; fields named `as_run` are those of its code.

    Args:
        width: units between the layers; dense nets have `dense_width`.
        low, high: training range of both inputs.
        rate: learning rate of Adam; as the code ran, of the iNALU only.
    """

    runs: int = 20
    steps: int = 20_000
    batch: int = 100
    width: int = 6
    dense_width: int = 10
    as_run_dense_width: int = 50
    low: float = 0.1
    high: float = 2.0
    as_run_high: float = 2.1
    rate: float = 1e-3
    as_run_rate: float = 5e-3


FULL = Setting()
QUICK = replace(FULL, runs=3, steps=300)


@dataclass(frozen=True)
class Line:
    """Values of either input in a test of the paper: from `low` to `high`, `step` apart."""

    low: float = -4.1
    high: float = 3.9
    step: float = 0.2

    @property
    def values(self) -> np.ndarray:
        """All of them; rounding neither adds nor drops the last."""
        return np.arange(self.low, self.high + self.step / 2, self.step)


# The paper's -4.1:0.2:4, for the root 0.1:0.1:4.
LINES = {task: Line() for task in TASKS} | {"√": Line(0.1, 4.0, 0.1)}
# Errors that have a colour.
ERRORS = (1e-3, 1e2)


class SimpleArithmetic(Experiment):
    """Six models, 20 runs each, four operations in one network."""

    name = "simple-arithmetic"
    title = "Simple arithmetic (Fig. 6, Table A2): mean absolute error on the test grid"

    def batches(self, plan: Plan) -> list[dict[str, str]]:
        return [{"model": model} for model in MODELS]

    def run(self, plan: Plan, batch: dict[str, str], monitor: Monitor) -> tuple[list[Row], Arrays]:
        model = batch["model"]
        how, as_run, source = plan.pick(FULL, QUICK), plan.preset == "as-run", plan.generator(batch)
        network = _network(model, how, plan.preset, source)
        high = how.as_run_high if as_run else how.high
        rate = how.as_run_rate if as_run and model != "iNALU" else how.rate
        rms = as_run and model in ("NALU", "iNALU")
        training = Training(how.steps, rate, "rmsprop" if rms else "adam", project=not as_run)

        def draw() -> tuple[Tensor, Tensor]:
            x = uniform((how.runs, how.batch, 2), how.low, high, source)
            return x, targets(x)

        penalty = partial(inalu_penalty, network, steps=how.steps, summed=True) if model == "iNALU" else None
        train(network, draw, training, monitor, name=model, penalty=penalty, device=plan.device)
        return _rows(network, training), _surfaces(network)

    def table(self, plan: Plan, ran: Sequence[Ran]) -> str:
        rows = []
        for r in ran:
            for task, (value, spread) in zip(TASKS, PUBLISHED[r.batch["model"]], strict=True):
                ours, deviation = median_deviation(r.column(f"error {task}"))
                rows.append(
                    (
                        f"{r.batch['model']} {task}",
                        f"{number(value)} ± {number(spread)}",
                        f"{number(ours)} ± {number(deviation)}",
                        number(float(r.column(f"error {task}").min())),
                        beside(ours, value, spread),
                    )
                )
        return f"{counted([row[-1] for row in rows])}\n\n" + markdown(
            (
                "model and task",
                "published, median ± MAD",
                "ours, median ± MAD",
                "our best run",
                "within 2 MAD, better or worse",
            ),
            rows,
        )

    def figure(self, plan: Plan, ran: Sequence[Ran]) -> Figure:
        """Fig. 6: error surfaces, each of the best run of its model at its task."""
        with rc_context(STYLE | {"axes.grid": False}):
            # Squares: four rows of them are no taller than three of other panels.
            figure = page(rows=len(TASKS) - 1, wide=True)
            axes = figure.subplots(len(TASKS), len(MODELS), squeeze=False)
            for i, task in enumerate(TASKS):
                for j, model in enumerate(MODELS):
                    axis, r = axes[i, j], find(ran, model=model)
                    axis.set_title(model if i == 0 else "")
                    axis.set_xticks([])
                    axis.set_yticks([])
                    if j == 0:
                        axis.set_ylabel(task, rotation=0, ha="right", va="center")
                    if r is None:
                        continue
                    low, high = LINES[task].low, LINES[task].high
                    image = axis.imshow(
                        r.arrays[f"surface {i}"].T.clip(*ERRORS),
                        origin="lower",
                        extent=(low, high, low, high),
                        norm=LogNorm(*ERRORS),
                        cmap="viridis_r",
                    )
                    side = FULL.high - FULL.low
                    axis.add_patch(Rectangle((FULL.low, FULL.low), side, side, ec=COLOURS[1], fc="none"))
            figure.colorbar(image, ax=axes, label="absolute error")
            figure.suptitle("Best of the runs; x to the right, y upwards; red: training range")
        return figure


def targets(x: Tensor) -> Tensor:
    """(x + y, x y, x / y, sqrt |x|) of [..., 2]; the root is tested on positive x only."""
    a, b = x[..., 0], x[..., 1]
    return torch.stack([a + b, a * b, a / b, a.abs().sqrt()], dim=-1)


def _network(model: str, how: Setting, preset: str, source: torch.Generator) -> nn.Sequential:
    base: dict[str, Any] = {"members": how.runs, "generator": source}
    outputs = len(TASKS)
    if model == "Dense":
        wide = how.as_run_dense_width if preset == "as-run" else how.dense_width
        return nn.Sequential(
            Dense(2, wide, activation="sigmoid", **base),
            Dense(wide, wide, activation="sigmoid", **base),
            Dense(wide, outputs, **base),
        )
    unit: Callable[..., nn.Module] = UNITS[model]
    if model in ("NALU", "iNALU"):
        network = nn.Sequential(unit(2, how.width, **base), unit(how.width, outputs, **base))
        for bias in (value for name, value in network.named_parameters() if name.endswith("bias")):
            members, width = bias.shape
            bias.data = glorot(members, width, 1, source)[..., 0]
        return network
    # Eq. 15 clips gates: they have no gradient outside [0, 1].
    gates = {"gate_gradient": "zero"} if model in ("NPU", "RealNPU") else {}
    if preset == "paper":
        return nn.Sequential(NAU(2, how.width, **base), unit(how.width, outputs, **gates, **base))
    return nn.Sequential(unit(2, how.width, **gates, **base), NAU(how.width, outputs, **base))


def _grid(task: str) -> Tensor:
    """All pairs of a task's values, [1, points, 2]."""
    x, y = np.meshgrid(LINES[task].values, LINES[task].values, indexing="ij")
    return torch.tensor(np.stack([x.ravel(), y.ravel()], axis=1))[None]


def _rows(network: nn.Sequential, training: Training) -> list[Row]:
    grids = map(_grid, TASKS)
    tested = {f"error {TASKS[i]}": errors(network, grid, targets(grid), 1)[:, i] for i, grid in enumerate(grids)}
    return rows_of({**tested, "parameters": count_parameters(network)}, training.row())


def _surfaces(network: nn.Sequential) -> Arrays:
    """|error| on the grid of each task, of the run that is best at it."""
    surfaces = {}
    for i, task in enumerate(TASKS):
        grid = _grid(task)
        with torch.no_grad():
            off = (network(grid) - targets(grid)).abs()[..., i].nan_to_num(torch.inf)
        side = round(grid.shape[1] ** 0.5)
        surfaces[f"surface {i}"] = off[off.mean(dim=1).argmin()].reshape(side, side).numpy()
    return surfaces
