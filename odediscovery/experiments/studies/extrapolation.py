"""Sec. 2 of the project report on NAC and NALU: dense nets learn y = x and fail outside.

    y = x,    trained on x ~ U(-10, 10), tested on the grid -10, -9.9 ... 20

An MLP 1 -> 8 -> 8 -> 1 with one of nine activations on both hidden layers, squared loss and
plain gradient descent; beside them one NAC and one NALU, 1 -> 1, which the report does not put
into this test, with its smooth L1 loss and RMSProp. The report prints a figure, no number, and
neither rate, batch nor steps: ours are constants below, and gradients are clipped entry by entry
because descent at inputs up to 10 is unstable otherwise. Both presets are the same.

Source: nac_nalu_project.md, Sec. 2, after Fig. 1 of Trask et al. (2018).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn

from odediscovery.experiments.activations import ACTIVATIONS
from odediscovery.experiments.base import Arrays, Experiment, Plan, Ran, Row, markdown, median_deviation, number
from odediscovery.experiments.drawing import LOOK, STYLE, aside, draw_runs, line_of, page
from odediscovery.experiments.regression import Training, rows_of, train, uniform
from odediscovery.plots.figures import COLOURS, GRID, MUTED
from odediscovery.runtime.monitor import Monitor
from odediscovery.units import NAC, NALU, Dense

UNITS = ("NAC", "NALU")
# Training range, and the end of the test range.
LOW, HIGH, FARTHEST = -10.0, 10.0, 20.0


@dataclass(frozen=True)
class Setting:
    """The report gives width, losses and methods; it is silent on the rest, which is ours.

    Args:
        rate, clip: of the dense nets: learning rate, and largest entry of a gradient.
        unit_rate: learning rate of the arithmetic units.
        points: of the grid of the test.
    """

    runs: int = 20
    steps: int = 20_000
    batch: int = 64
    width: int = 8
    rate: float = 1e-3
    clip: float = 1.0
    unit_rate: float = 1e-2
    points: int = 301

    def training(self, model: str) -> Training:
        """How a model is trained."""
        if model in UNITS:
            return Training(self.steps, self.unit_rate, "rmsprop", "smooth-l1")
        return Training(self.steps, self.rate, "sgd", clip=self.clip)


FULL = Setting()
QUICK = replace(FULL, runs=3, steps=400)
# The report's words "fail outside" as a number: so many times the error inside.
FAILS = 10.0


MODELS = (*ACTIVATIONS, *UNITS)


class Extrapolation(Experiment):
    """Nine activations and two arithmetic units, 20 runs each, on the identity."""

    name = "extrapolation"
    title = "Numerical extrapolation failures (NAC/NALU report, Sec. 2): y = x beyond the training"

    def batches(self, plan: Plan) -> list[dict[str, str]]:
        return [{"model": model} for model in MODELS]

    def run(self, plan: Plan, batch: dict[str, str], monitor: Monitor) -> tuple[list[Row], Arrays]:
        model = batch["model"]
        how, source = plan.pick(FULL, QUICK), plan.generator(batch)
        network, training = _network(model, how, source), how.training(model)

        def draw() -> tuple[Tensor, Tensor]:
            x = uniform((how.runs, how.batch, 1), LOW, HIGH, source)
            return x, x

        train(network, draw, training, monitor, name=model, device=plan.device)
        return _tested(network, how, training)

    def table(self, plan: Plan, ran: Sequence[Ran]) -> str:
        rows = []
        for r in ran:
            model = r.batch["model"]
            inside, outside = r.column("error inside"), r.column("error outside")
            ratio = float(np.median(outside)) / float(np.median(inside))
            failed = int((outside > FAILS * inside).sum())
            published = {"PReLU": "fails, the least"}.get(model, "fails")
            rows.append(
                (
                    model,
                    "-" if model in UNITS else published,
                    " ± ".join(map(number, median_deviation(inside))),
                    " ± ".join(map(number, median_deviation(outside))),
                    number(ratio),
                    f"{failed} of {len(r.rows)}",
                    "-" if model in UNITS else "yes" if ratio > FAILS else "no",
                )
            )
        text = markdown(
            (
                "model",
                "published",
                "ours inside, median ± MAD",
                "ours outside, median ± MAD",
                "outside / inside",
                "runs above 10 x",
                "agrees",
            ),
            rows,
        )
        return f"{text}\n{_remarks(ran)}\n"

    def figure(self, plan: Plan, ran: Sequence[Ran]) -> Figure:
        """Left the curve of the median run of every model, right its error outside."""
        with rc_context(STYLE):
            figure = page()
            left, right = figure.subplots(1, 2, width_ratios=(3, 2))
            left.axvspan(LOW, HIGH, color=GRID, lw=0)
            left.plot([LOW, FARTHEST], [LOW, FARTHEST], color=MUTED, lw=LOOK.broad, alpha=LOOK.faint, label="y = x")
            done = [r for r in ran if "median run" in r.arrays]
            for r in done:
                model = r.batch["model"]
                left.plot(r.arrays["x"], r.arrays["median run"], label=model, **line_of(MODELS.index(model)))
            left.set(
                xlabel="x",
                ylabel="prediction",
                xlim=(LOW, FARTHEST),
                ylim=(LOW - 2, FARTHEST + 2),
                title="median run; grey: training range",
            )
            left.legend(ncols=2, loc="upper left")
            _draw_errors(right, done)
        return figure


def _network(model: str, how: Setting, source: torch.Generator) -> nn.Sequential:
    base: dict[str, Any] = {"members": how.runs, "generator": source, "dtype": torch.float64}
    if model in UNITS:
        return nn.Sequential(NAC(1, 1, **base) if model == "NAC" else NALU(1, 1, **base))
    activation = ACTIVATIONS[model]
    return nn.Sequential(
        Dense(1, how.width, **base),
        activation(how.runs),
        Dense(how.width, how.width, **base),
        activation(how.runs),
        Dense(how.width, 1, **base),
    )


def _tested(network: nn.Sequential, how: Setting, training: Training) -> tuple[list[Row], Arrays]:
    """A row of mean absolute errors for each run, and the curve of the run of median error outside."""
    x = np.linspace(LOW, FARTHEST, how.points)
    points = torch.tensor(x)[None, :, None].expand(how.runs, -1, -1)
    with torch.no_grad():
        curves = network(points)[..., 0].numpy()
    off = np.nan_to_num(np.abs(curves - x), nan=np.inf)
    inside, outside = off[:, x <= HIGH].mean(axis=1), off[:, x > HIGH].mean(axis=1)
    middle = np.argsort(outside, kind="stable")[how.runs // 2]
    columns = {"error inside": inside.tolist(), "error outside": outside.tolist()}
    rows = rows_of(columns, training.row() | {"loss": training.loss, "batch": how.batch})
    arrays = {"x": x, "median run": curves[middle], "median": np.median(curves, axis=0)}
    return rows, arrays


def _remarks(ran: Sequence[Ran]) -> str:
    """What the report says in words, next to what was found."""
    median = {r.batch["model"]: float(np.median(r.column("error outside"))) for r in ran}
    dense = {m: e for m, e in median.items() if m not in UNITS}
    said = [
        'Published as a figure only: "all nonlinear functions fail to learn to represent numbers '
        f'outside", PReLU the least. Failing is taken as an error above {FAILS:.0f} times that '
        "inside."
    ]
    if "PReLU" in dense and len(dense) > 1:
        order = ", ".join(f"{m} {number(e)}" for m, e in sorted(dense.items(), key=lambda x: x[1]))
        place = sorted(dense, key=lambda m: dense[m]).index("PReLU") + 1
        said.append(f"Ours, by error outside: {order}; PReLU is number {place} of {len(dense)}.")
    return " ".join(said)


def _draw_errors(axis: Axes, ran: Sequence[Ran]) -> None:
    """Mean absolute errors of every model: each run a point, the median a line."""
    for i, r in enumerate(ran):
        for k, (name, colour) in enumerate((("inside", MUTED), ("outside", COLOURS[1]))):
            values = r.column(f"error {name}").clip(*LOOK.errors)
            draw_runs(axis, i + aside(k, 2), values, colour, name if i == 0 else None, lying=True)
    axis.set(xscale="log", xlabel="mean absolute error", title="inside and outside, every run")
    axis.set_yticks(range(len(ran)), [r.batch["model"] for r in ran])
    axis.invert_yaxis()
    if ran:
        axis.legend(loc="lower right")
