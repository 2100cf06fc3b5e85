"""Autoencoders of the same size on the scalar identity: dense nets know only the range they saw.

    y = x,    1 -> 8 -> 8 -> 8 -> 1,    trained on x ~ U(-5, 5), tested on the grid -20, -19.8 ... 20

All models have the same layers, method and data, and differ in the nonlinearity alone: the nine of
the report, none at all, and layers of NAC, NAU and NALU in place of dense ones. `extrapolation` is
the report's own, smaller network; this is the seminar's "Autoencoder (same size)", with the figures
of the paper that it comes from: three hidden layers of 8, 10 000 steps at rate 0.01 on the squared
error, mean absolute error of 100 models. Batch and method (Adam) are ours.

Source: the seminar, "NN fail at Extrapolation", after Fig. 1 of Trask et al. (2018); a figure there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from matplotlib import rc_context
from matplotlib.figure import Figure
from torch import Tensor, nn

from odediscovery.experiments.activations import ACTIVATIONS
from odediscovery.experiments.base import Arrays, Experiment, Plan, Ran, Row, markdown, median_deviation, number
from odediscovery.experiments.drawing import LOOK, STYLE, line_of, page
from odediscovery.experiments.regression import Training, rows_of, train, uniform
from odediscovery.plots.figures import GRID
from odediscovery.runtime.monitor import Monitor
from odediscovery.units import NAC, NALU, NAU, AbstractUnit, Dense

ARITHMETIC: dict[str, Callable[..., AbstractUnit]] = {"NAC": NAC, "NAU": NAU, "NALU": NALU}
MODELS = (*ACTIVATIONS, "None", *ARITHMETIC)
WIDTH, HIDDEN = 8, 3
EDGE, FARTHEST = 5.0, 20.0
# An error outside so many times that inside is a failure, unless it is no more than rounding.
FAILS, ROUNDING = 10.0, 1e-6


@dataclass(frozen=True)
class Setting:
    """The paper's models, steps and rate; 20 models are enough for medians.

    Args:
        points: of the grid of the test.
    """

    runs: int = 20
    steps: int = 10_000
    batch: int = 64
    rate: float = 0.01
    points: int = 201


FULL = Setting()
QUICK = replace(FULL, runs=3, steps=100)


class Autoencoder(Experiment):
    """Thirteen autoencoders of one size."""

    name = "autoencoder"
    title = "Autoencoders of the same size on y = x (seminar; Trask et al., Fig. 1)"

    def batches(self, plan: Plan) -> list[dict[str, str]]:
        return [{"model": model} for model in MODELS]

    def run(self, plan: Plan, batch: dict[str, str], monitor: Monitor) -> tuple[list[Row], Arrays]:
        how, source = plan.pick(FULL, QUICK), plan.generator(batch)
        network, training = _network(batch["model"], how.runs, source), Training(how.steps, how.rate, anneal=0.5)

        def draw() -> tuple[Tensor, Tensor]:
            x = uniform((how.runs, how.batch, 1), -EDGE, EDGE, source)
            return x, x

        train(network, draw, training, monitor, name=batch["model"], device=plan.device)
        x = np.linspace(-FARTHEST, FARTHEST, how.points)
        with torch.no_grad():
            curves = network(torch.tensor(x)[None, :, None].expand(how.runs, -1, -1))[..., 0].numpy()
        off, inside = np.nan_to_num(np.abs(curves - x), nan=np.inf), np.abs(x) <= EDGE
        columns = {
            "error inside": off[:, inside].mean(axis=1).tolist(),
            "error outside": off[:, ~inside].mean(axis=1).tolist(),
        }
        return rows_of(columns, training.row() | {"batch": how.batch}), {"x": x, "mean error": off.mean(axis=0)}

    def table(self, plan: Plan, ran: Sequence[Ran]) -> str:
        rows = []
        for r in ran:
            inside, outside = r.column("error inside"), r.column("error outside")
            failed = (outside > FAILS * inside) & (outside > ROUNDING)
            published = "fails" if r.batch["model"] in ACTIVATIONS else "-"
            agrees = "-" if published == "-" else "yes" if failed.mean() > 0.5 else "no"
            middle = [" ± ".join(map(number, median_deviation(values))) for values in (inside, outside)]
            rows.append((r.batch["model"], published, *middle, f"{int(failed.sum())} of {len(failed)}", agrees))
        head = ("model", "published", "inside, median ± MAD", "outside, median ± MAD", "runs above 10 x", "agrees")
        return markdown(head, rows)

    def figure(self, plan: Plan, ran: Sequence[Ran]) -> Figure:
        """Mean absolute error over x, as the paper draws it, on a logarithmic scale."""
        with rc_context(STYLE):
            figure = page()
            axis = figure.subplots()
            axis.axvspan(-EDGE, EDGE, color=GRID, lw=0)
            for r in (r for r in ran if "mean error" in r.arrays):
                model, error = r.batch["model"], r.arrays["mean error"].clip(*LOOK.errors)
                axis.plot(r.arrays["x"], error, label=model, **line_of(MODELS.index(model)))
            least = f"mean absolute error, at least {LOOK.errors[0]:.0e}"
            axis.set(yscale="log", xlabel="x", ylabel=least, title="grey: training range")
            figure.legend(loc="outside right center")
        return figure


def _network(model: str, runs: int, source: torch.Generator) -> nn.Sequential:
    base: dict[str, Any] = {"members": runs, "generator": source, "dtype": torch.float64}
    sizes = [1, *[WIDTH] * HIDDEN, 1]
    parts: list[nn.Module] = []
    for i, (inputs, outputs) in enumerate(pairwise(sizes)):
        parts.append(ARITHMETIC.get(model, Dense)(inputs, outputs, **base))
        if model in ACTIVATIONS and i < HIDDEN:
            parts.append(ACTIVATIONS[model](runs))
    return nn.Sequential(*parts)
