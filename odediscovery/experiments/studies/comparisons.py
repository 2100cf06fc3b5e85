"""Comparisons learned on integers from -10 to 9, asked about integers up to 1e13.

    y = 1 if x1 R x2 else 0,    R one of  >  <  >=  <=  =  !=

A Neural Status Register (`units/nsr.py`) against a dense net 2 -> 16 -> 16 -> 1 with tanh and a
sigmoid at the end, both trained on mean squared error with Adam. Half of the test pairs are
equal; of the others half are neighbours (x2 = x1 + 1 or x1 - 1) and half are drawn at random, all
uniform on the integers of magnitude up to 1e2 ... 1e13 (exact in double precision).

Source: Faber and Wattenhofer, Neural Status Registers (2020), "Learning comparisons on data from
[-10; 9]". How its pairs are drawn is not printed; a third of our training pairs for the
inequalities and half for = and != are equal, a sixth and a quarter are neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import sympy
import torch
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn

from odediscovery.experiments.base import Arrays, Experiment, Plan, Ran, Row, find, markdown, number
from odediscovery.experiments.drawing import LOOK, STYLE, page
from odediscovery.experiments.pairs import HIGH, LOW, SIGNS, TASKS, equal_share, pairs, truth
from odediscovery.experiments.regression import Training, layers, parameters_of, rows_of, train
from odediscovery.plots.figures import COLOURS
from odediscovery.runtime.monitor import Monitor
from odediscovery.units import NSR, Dense

MODELS = ("NSR", "MLP")
POWERS = tuple(range(2, 14))
RANGES = ("train", *(f"1e{power}" for power in POWERS))
# Those of the table.
SHOWN = ("train", "1e4", "1e13")
# Accuracies on the training range and at 1e2 ... 1e13; all end in a plateau.
PUBLISHED: dict[tuple[str, str], tuple[float, ...]] = {
    ("MLP", ">"): (1.0, 1.0, 0.96, 0.71, 0.49, *[0.48] * 8),
    ("MLP", "<"): (1.0, 1.0, 0.93, 0.7, 0.49, *[0.48] * 8),
    ("MLP", ">="): (1.0, 1.0, 0.94, 0.71, 0.49, *[0.48] * 8),
    ("MLP", "<="): (1.0, 1.0, 0.94, 0.68, 0.49, *[0.48] * 8),
    ("MLP", "="): (0.95, *[0.5] * 12),
    ("MLP", "!="): (0.95, *[0.5] * 12),
    **{("NSR", task): (1.0,) * 13 for task in TASKS[:4]},
    ("NSR", "="): (0.99, *[0.93] * 12),
    ("NSR", "!="): (0.99, *[0.92] * 12),
}


@dataclass(frozen=True)
class Setting:
    """One setting for all six tasks; the paper names the dense net's layers, the rest is ours.

    Args:
        test: pairs of each range of the test.
        scale, redundancy, rate: of the register.
        width, mlp_rate: of the dense net.
    """

    runs: int = 10
    steps: int = 5000
    batch: int = 128
    test: int = 4000
    scale: float = 3.0
    redundancy: int = 8
    rate: float = 0.05
    width: int = 16
    mlp_rate: float = 0.005


FULL = Setting()
QUICK = replace(FULL, runs=2, steps=120)


class Comparisons(Experiment):
    """Two models, six comparisons, 10 runs each."""

    name = "comparisons"
    title = "Comparisons (Neural Status Registers): accuracy far outside the training range"

    def batches(self, plan: Plan) -> list[dict[str, str]]:
        return [{"model": model, "task": task} for model in MODELS for task in TASKS]

    def run(self, plan: Plan, batch: dict[str, str], monitor: Monitor) -> tuple[list[Row], Arrays]:
        model, task = batch["model"], batch["task"]
        how, source = plan.pick(FULL, QUICK), plan.generator(batch)
        network = _network(model, how, source)

        def draw() -> tuple[Tensor, Tensor]:
            x = pairs((how.runs, how.batch), LOW, HIGH, equal_share(task), source)
            return x, truth(task, x)

        training = Training(how.steps, how.rate if model == "NSR" else how.mlp_rate)
        train(network, draw, training, monitor, name=f"{model} {task}", device=plan.device)
        return _rows(network, task, training, how, plan.generator(batch, "test")), {}

    def table(self, plan: Plan, ran: Sequence[Ran]) -> str:
        rows = []
        for r in ran:
            model, task = r.batch["model"], r.batch["task"]
            published = PUBLISHED[model, task]
            ours = {name: r.column(f"accuracy {name}") for name in RANGES}
            far = ours[RANGES[-1]]
            said = {str(row["relation"]) for row in r.rows} - {""}
            rows.append(
                (
                    f"{model} {SIGNS.get(task, task)}",
                    *(f"{_shown(published[RANGES.index(n)])} / {_shown(ours[n].mean())}" for n in SHOWN),
                    _shown(far.min()),
                    f"{int((far == 1.0).sum())} of {len(far)}",
                    "; ".join(sorted(said)) or "-",
                    "-" if model == "MLP" else "yes" if round(float(far.mean()), 2) >= published[-1] else "no",
                )
            )
        return markdown(
            (
                "model and task",
                "training range, published / ours (mean)",
                *SHOWN[1:],
                "1e13, our worst run",
                "perfect at 1e13",
                "read off",
                "at 1e13 as published or better",
            ),
            rows,
        )

    def figure(self, plan: Plan, ran: Sequence[Ran]) -> Figure:
        """Accuracy over magnitude, one panel a task: mean and range of the runs."""
        with rc_context(STYLE):
            figure = page(rows=2)
            axes = figure.subplots(2, len(TASKS) // 2, sharex=True, sharey=True)
            for axis, task in zip(axes.flat, TASKS, strict=True):
                axis.set_title(f"x1 {SIGNS.get(task, task)} x2")
                for model, colour in zip(MODELS, COLOURS, strict=False):
                    _draw_model(axis, find(ran, model=model, task=task), model, task, colour)
            axes[0, 0].set_ylim(*LOOK.accuracies)
            axes[0, 0].set_xticks(range(len(RANGES))[::2], RANGES[::2])
            for axis in axes[1]:
                axis.set_xlabel("largest magnitude of the integers")
            for axis in axes[:, 0]:
                axis.set_ylabel("accuracy")
            handles, labels = axes[0, 0].get_legend_handles_labels()
            figure.legend(handles, labels, loc="outside lower left", ncols=2 * len(MODELS))
        return figure


def _shown(accuracy: float) -> str:
    return number(float(accuracy), 3)


def _network(model: str, how: Setting, source: torch.Generator) -> nn.Sequential:
    base: dict[str, Any] = {"members": how.runs, "generator": source, "dtype": torch.float64}
    if model == "NSR":
        return nn.Sequential(NSR(2, 1, scale=how.scale, redundancy=how.redundancy, **base))
    return nn.Sequential(
        Dense(2, how.width, activation="tanh", **base),
        Dense(how.width, how.width, activation="tanh", **base),
        Dense(how.width, 1, activation="sigmoid", **base),
    )


def _rows(network: nn.Sequential, task: str, training: Training, how: Setting, source: torch.Generator) -> list[Row]:
    found: dict[str, Tensor] = {}
    limits = [(LOW, HIGH), *((-(10**power), 10**power) for power in POWERS)]
    for name, (low, high) in zip(RANGES, limits, strict=True):
        x = pairs((1, how.test), low, high, 1 / 2, source)
        with torch.no_grad():
            right = (network(x) > 0.5) == (truth(task, x) > 0.5)
        found[name] = right.to(torch.float64).mean(dim=(-1, -2))
    shared = training.row() | {"batch": how.batch}
    if isinstance(layers(network)[0], NSR):
        shared |= {"scale": how.scale, "redundancy": how.redundancy}
    columns = {f"accuracy {name}": values for name, values in found.items()}
    return rows_of({**columns, "relation": _relations(network)}, shared)


def _relations(network: nn.Sequential) -> list[str]:
    """What each run has learned, as a relation; empty where the model has none to show."""
    unit = layers(network)[0]
    if not isinstance(unit, NSR):
        return [""] * unit.members
    x = [sympy.Symbol("x1", real=True), sympy.Symbol("x2", real=True)]
    values = {name: p.detach().numpy() for name, p in parameters_of(unit).items()}
    members = [{name: v[k] for name, v in values.items()} for k in range(unit.members)]
    return [_plain(unit.snapped(member, x)[0]) for member in members]


def _plain(relation: sympy.Basic) -> str:
    """A relation as it is typed; sympy prints = and != as function calls."""
    for kind, sign in ((sympy.Eq, "="), (sympy.Ne, "!=")):
        if isinstance(relation, kind):
            return f"{relation.lhs} {sign} {relation.rhs}"
    return str(relation)


def _draw_model(axis: Axes, r: Ran | None, model: str, task: str, colour: str) -> None:
    place = range(len(RANGES))
    axis.plot(place, PUBLISHED[model, task], color=colour, lw=LOOK.thin, ls="--", label=f"{model}, published")
    if r is None:
        return
    ours = np.stack([r.column(f"accuracy {name}") for name in RANGES])
    axis.fill_between(place, ours.min(axis=1), ours.max(axis=1), color=colour, alpha=LOOK.area, lw=0)
    axis.plot(place, ours.mean(axis=1), "o-", color=colour, label=f"{model}, mean and range of {len(r.rows)} runs")
