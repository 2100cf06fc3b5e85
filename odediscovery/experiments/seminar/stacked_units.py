"""Stacked units whose intermediate results explode, and products of inputs of both signs.

    sum:      y_j = x1 + x2 + x3 + x4, j = 1 ... 4, by 1 to 5 layers of 4 x 4 units, x ~ U(1, 10)
    product:  y = x1 x2 by one unit, x ~ U(-2, 2)

Four layers of NALU "could calculate x^4 for each output, the following layer (x^4)^4, ultimately
x^(4^l)": the worst case below is that, all gates closed and all weights 1, at x = 10. Everything is
single precision, the default of torch, where numbers end at 3.4e38. A run is lost once
its loss is no number; it gets no step from then on.

Source: nac_nalu_project.md, Secs. 6.1 and 6.2; after Schloer, Ring, Hotho, iNALU (2020). Both give
no number; ranges, rate and steps are ours, loss and method those of the report. At a constant rate
stacks end where the steps of RMSProp leave them, a few per cent from the sum. The NALU here computes
(1 - g) m as one exponential, so that a closed gate silences a product that would overflow: one
reason less for a run to be lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from matplotlib import rc_context
from matplotlib.figure import Figure
from torch import Tensor, nn

from odediscovery.experiments.base import Arrays, Experiment, Plan, Ran, Row, find, markdown, number
from odediscovery.experiments.regression import Training, layers, rows_of, train, uniform
from odediscovery.plots.figures import COLOURS, STYLE, empty_figure
from odediscovery.runtime.monitor import Monitor
from odediscovery.units import NALU, NAU, NMU, NPU, AbstractUnit, iNALU

MODELS: dict[str, type[AbstractUnit]] = {"NALU": NALU, "iNALU": iNALU, "NAU": NAU}
SIGNED: dict[str, type[AbstractUnit]] = {"NALU": NALU, "iNALU": iNALU, "NMU": NMU, "NPU": NPU}
DEPTHS = (1, 2, 3, 4, 5)
WIDTH = 4
INSIDE, SIGNS = (1.0, 10.0), (-2.0, 2.0)
# Relative error (of the target's mean size) below which a run has learned its task.
LEARNED = 0.01
# What is written down for a run without a number.
LOST = float("inf")


@dataclass(frozen=True)
class Setting:
    """Ours, but for loss and method."""

    runs: int = 20
    steps: int = 10_000
    batch: int = 64
    rate: float = 1e-2
    points: int = 500
    checks: int = 50


FULL = Setting()
QUICK = replace(FULL, runs=3, steps=100)


class StackedUnits(Experiment):
    """Sums by stacks of three units, signed products by four single ones."""

    name = "stacked-units"
    title = "Stacked NALUs and signed products (NAC/NALU report, Sec. 6)"

    def batches(self, plan: Plan) -> list[dict[str, str]]:
        depths = plan.pick(DEPTHS, (1, 3, 5))
        sums = [{"task": "sum", "model": model, "layers": str(depth)} for model in MODELS for depth in depths]
        return sums + [{"task": "product", "model": model, "layers": "1"} for model in SIGNED]

    def run(self, plan: Plan, batch: dict[str, str], monitor: Monitor) -> tuple[list[Row], Arrays]:
        how, source = plan.pick(FULL, QUICK), plan.generator(batch)
        network = _network(batch, how.runs, source)
        test = _draw(batch["task"], how.points, source)
        before = _sizes(network, test[0])
        lost = torch.zeros(how.runs, dtype=torch.bool)

        def watch(_step: int, loss: Tensor) -> None:
            lost.logical_or_(~loss.isfinite().cpu())

        every = max(how.steps // how.checks, 1)
        training = Training(how.steps, how.rate, "rmsprop", "smooth-l1", watch_every=every)
        named = " ".join(batch.values())

        def draw() -> tuple[Tensor, Tensor]:
            x, y = _draw(batch["task"], how.batch, source)
            return x, y.expand(how.runs, -1, -1)

        train(network, draw, training, monitor, name=named, device=plan.device, watch=watch)
        error = _relative_error(network, *test)
        columns = {
            "largest at first": before,
            "lost": (lost | ~error.isfinite()).int(),
            "relative error": error.nan_to_num(LOST, LOST),
        }
        worst = worst_case(batch["model"], int(batch["layers"])) if batch["task"] == "sum" else LOST
        return rows_of(columns, training.row() | {"worst case": worst}), {}

    def table(self, plan: Plan, ran: Sequence[Ran]) -> str:
        rows = []
        for r in ran:
            lost, error = r.column("lost"), r.column("relative error")
            sums = r.batch["task"] == "sum"
            rows.append(
                (
                    f"{r.batch['model']}, {r.batch['task']}" + (f", {r.batch['layers']} layers" if sums else ""),
                    _published(r.batch),
                    number(float(r.rows[0]["worst case"])) if sums else "-",
                    number(float(r.column("largest at first").max())),
                    f"{int(lost.sum())} of {len(lost)}",
                    f"{int((error < LEARNED).sum())} of {len(error)}",
                    number(float(np.median(error))),
                )
            )
        head = (
            "model and task",
            "published",
            "worst case",
            "largest output of fresh weights",
            "runs lost",
            f"learned (error below {LEARNED:.0%})",
            "median relative error",
        )
        return markdown(head, rows)

    def figure(self, plan: Plan, ran: Sequence[Ran]) -> Figure:
        """Errors of every run over the number of layers, and of the signed product."""
        with rc_context(STYLE):
            figure = empty_figure(11, 4.6)
            left, right = figure.subplots(1, 2, width_ratios=(3, 2))
            for axis, task, models in ((left, "sum", MODELS), (right, "product", SIGNED)):
                for i, model in enumerate(models):
                    for depth in DEPTHS:
                        r = find(ran, task=task, model=model, layers=str(depth))
                        if r is None:
                            continue
                        error = r.column("relative error").clip(1e-7, 1e3)
                        at = depth + 0.2 * (i - 1) if task == "sum" else i
                        axis.plot(np.full(len(error), at), error, ".", color=COLOURS[i], alpha=0.5)
                        axis.plot(at, np.median(error), "_", ms=14, mew=2.4, color=COLOURS[i])
                axis.set(yscale="log", ylabel="relative error", ylim=(5e-8, 2e3))
            for i, model in enumerate(MODELS):
                left.plot([], [], "o", color=COLOURS[i], label=model)
            left.set(xlabel="layers", title="sum of four inputs; lost runs at the top", xticks=DEPTHS)
            left.legend()
            right.set_xticks(range(len(SIGNED)), list(SIGNED))
            right.set(title="product of inputs of both signs")
        return figure


def worst_case(model: str, depth: int) -> float:
    """Largest output of a stack at x = 10 whose sums are open for NAU and closed for the others."""
    network = nn.Sequential(*(MODELS[model](WIDTH, WIDTH) for _ in range(depth))).float()
    for unit in layers(network):
        for name, value in unit.named_parameters():
            closed = name in ("gate", "bias")
            value.data.fill_(-30.0 if closed else 1.0 if model == "NAU" else 30.0)
    with torch.no_grad():
        found: Tensor = network(torch.full((1, 1, WIDTH), INSIDE[1])).max()
    return float(found.nan_to_num(LOST, LOST))


def _published(batch: dict[str, str]) -> str:
    if batch["model"] != "NALU":
        return "-"
    if batch["task"] == "product":
        return "fails"
    return "x^(4^l), may fail" if int(batch["layers"]) > 1 else "-"


def _network(batch: dict[str, str], runs: int, source: torch.Generator) -> nn.Sequential:
    base: dict[str, Any] = {"members": runs, "generator": source}
    if batch["task"] == "product":
        return nn.Sequential(SIGNED[batch["model"]](2, 1, **base)).float()
    return nn.Sequential(*(MODELS[batch["model"]](WIDTH, WIDTH, **base) for _ in range(int(batch["layers"])))).float()


def _draw(task: str, count: int, source: torch.Generator) -> tuple[Tensor, Tensor]:
    """Inputs [1, count, inputs] and targets [1, count, outputs] in single precision."""
    if task == "product":
        x = uniform((1, count, 2), *SIGNS, source).float()
        return x, x[..., :1] * x[..., 1:]
    x = uniform((1, count, WIDTH), *INSIDE, source).float()
    return x, x.sum(dim=-1, keepdim=True).expand(-1, -1, WIDTH)


def _sizes(network: nn.Sequential, x: Tensor) -> Tensor:
    """Largest absolute output of every member, [members]."""
    with torch.no_grad():
        found: Tensor = network(x).abs().amax(dim=(-1, -2))
        return found.nan_to_num(LOST, LOST)


def _relative_error(network: nn.Sequential, x: Tensor, y: Tensor) -> Tensor:
    """Median absolute error over the target's mean size, [members]; nan where nothing is a number."""
    with torch.no_grad():
        off: Tensor = (network(x) - y).abs().flatten(1)
        return off.median(dim=1).values / y.abs().mean()
