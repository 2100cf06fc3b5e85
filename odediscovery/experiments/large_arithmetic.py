"""Sec. 4.3 of Neural Power Units: two sums of 50 of 100 inputs, an operation (Table 1, Fig. 7).

    a, b = sums of two overlapping subsets;    y = a + b,  a b,  1 / a  or  sqrt a

All runs of a model are members of one batch and see the same Sobol points, each with subsets of
its own. `as-run` tests on twice the training range, for the division on [-0.5, 0]; the paper
prints [-4, 4] and [-0.5, 0.5], where 1 / a has poles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from matplotlib import rc_context
from matplotlib.figure import Figure
from torch import Tensor, nn

from odediscovery.experiments.base import (
    Arrays,
    Experiment,
    Plan,
    Ran,
    Row,
    find,
    markdown,
    median_deviation,
    number,
)
from odediscovery.experiments.regression import Training, errors, flat, l1, layers, train
from odediscovery.monitor import Monitor
from odediscovery.plots import COLOURS, STYLE, empty_figure
from odediscovery.units import NALU, NAU, NMU, NPU, AbstractUnit, NaiveNPU, RealNPU

INPUTS, SUBSET, OVERLAP = 100, 50, 12
RUNS, STEPS, BATCH, TEST = 10, 100_000, 128, 10_000
MODELS = ("NPU", "RealNPU", "NMU", "NALU", "NaiveNPU")
# Sobol numbers drawn at once: many more than a batch, for the engine is slow to start.
CHUNK = 64


@dataclass(frozen=True)
class Task:
    """One operation: ranges, learning rate and the L1 schedule of Table A6."""

    sign: str
    operation: Callable[[Tensor, Tensor], Tensor]
    train: tuple[float, float]
    test: tuple[float, float]
    printed_test: tuple[float, float]
    rate: float
    beta: tuple[float, float]
    published: tuple[tuple[float, float], ...]


TASKS = {
    "add": Task("+", lambda a, b: a + b, (-1, 1), (-2, 2), (-4, 4), 1e-2, (1e-5, 1e-4),
                ((0.092, 0.031), (0.063, 0.014), (0.00602, 0.00019), (740, 330), (161.65, 0.11))),
    "mult": Task("×", lambda a, b: a * b, (-1, 1), (-2, 2), (-4, 4), 5e-3, (1e-5, 1e-4),
                 ((4.28, 0.9), (3.09, 0.74), (1.7, 1.4), (2.9e83, 2.9e83), (3750, 870))),
    "div": Task("÷", lambda a, b: 1 / a, (0, 0.5), (-0.5, 0), (-0.5, 0.5), 5e-3, (1e-9, 1e-7),
                ((1e-7, 1e-7), (1.4e-6, 4e-7), (1.622, 0.081), (530, 200), (5.4e17, 5.4e17))),
    "sqrt": Task("√", lambda a, b: a.sqrt(), (0, 2), (0, 4), (0, 4), 5e-3, (1e-6, 1e-4),
                 ((0.054, 0.0078), (0.017, 0.011), (10.96, 0.89), (7300, 7200), (9.3e8, 9.3e8))),
}  # fmt: skip


class LargeArithmetic(Experiment):
    """Four tasks, five models, ten runs each."""

    name = "large-arithmetic"
    title = "Large arithmetic (Fig. 7, Table 1): test error (MSE)"
    on_gpu = True

    def batches(self, plan: Plan) -> list[dict[str, str]]:
        # The three that the paper recommends come first: they are what is compared.
        return [{"model": m, "task": t} for part in (MODELS[:3], MODELS[3:]) for t in TASKS
                for m in part]  # fmt: skip

    def run(self, plan: Plan, batch: dict[str, str], monitor: Monitor) -> tuple[list[Row], Arrays]:
        model, task = batch["model"], TASKS[batch["task"]]
        runs = RUNS if plan.full else 2
        steps = _steps(model, batch["task"]) if plan.full else 25
        source = plan.generator(batch)
        network = _network(model, runs, plan, source).float().to(plan.device)
        first, second = _subsets(runs, source, plan.device)
        points = _sobol(*task.train, plan)

        def targets(x: Tensor) -> Tensor:
            return task.operation(x @ first, x @ second)

        def draw() -> tuple[Tensor, Tensor]:
            x = next(points)
            return x, targets(x)

        training = Training(steps, task.rate, "rmsprop", project=plan.preset == "paper")
        train(
            network, draw, training, monitor, name=f"{model} {task.sign}",
            penalty=lambda step: _beta(task, model, step) * l1(network),
        )  # fmt: skip
        low, high = task.test if plan.preset == "as-run" else task.printed_test
        inside, outside = (_points(a, b, TEST, plan) for a, b in (task.train, (low, high)))
        trained, tested = (errors(network, x, targets(x))[:, 0] for x in (inside, outside))
        sizes = (flat(network).abs() > 1e-3).sum(dim=1)
        return [
            {"test mse": float(tested[k]), "train mse": float(trained[k]),
             "parameters": int(sizes[k]), "steps": steps, "rate": task.rate}
            for k in range(runs)
        ], {}  # fmt: skip

    def table(self, plan: Plan, ran: Sequence[Ran]) -> str:
        rows = []
        for r in ran:
            task = TASKS[r.batch["task"]]
            value, spread = task.published[MODELS.index(r.batch["model"])]
            ours, deviation = median_deviation(r.column("test mse"))
            rows.append((
                f"{r.batch['model']} {task.sign}", f"{number(value)} ± {number(spread)}",
                f"{number(ours)} ± {number(deviation)}", number(ours / value),
                number(float(np.median(r.column("train mse")))),
                number(float(np.median(r.column("parameters"))), 4), f"{r.seconds:.0f}",
            ))  # fmt: skip
        return markdown(
            ("model and task", "published, median ± MAD", "ours, median ± MAD",
             "ours / published", "our training MSE", "parameters above 0.001", "seconds"), rows,
        )  # fmt: skip

    def figure(self, plan: Plan, ran: Sequence[Ran]) -> Figure:
        """Fig. 7: test error over the number of parameters, every run a point."""
        with rc_context(STYLE):
            figure = empty_figure(11, 7)
            for axis, (key, task) in zip(figure.subplots(2, 2).flat, TASKS.items(), strict=True):
                for colour, model in zip(COLOURS, MODELS, strict=False):
                    r = find(ran, model=model, task=key)
                    if r is not None:
                        mse = r.column("test mse").clip(1e-9, 1e9)
                        axis.scatter(r.column("parameters"), mse, color=colour, label=model, s=26)
                axis.set(title=task.sign, xscale="log", yscale="log", ylabel="test MSE",
                         xlabel="parameters above 0.001")  # fmt: skip
                if axis.collections:
                    axis.legend()
        return figure


def _steps(model: str, task: str) -> int:
    return {"add": 10_000, "mult": 20_000}.get(task, STEPS) if model == "NMU" else STEPS


def _beta(task: Task, model: str, step: int) -> float:
    """Grows by a factor of ten every 10 000 steps from start to end."""
    low, high = task.beta
    if model == "NMU" and task.sign == "×":
        low = 1e-9
    return min(low * 10.0 ** (step // 10_000), high)


def _network(model: str, runs: int, plan: Plan, source: torch.Generator) -> nn.Sequential:
    gate = "zero" if plan.preset == "as-run" else "through"
    make: dict[str, Callable[[], tuple[AbstractUnit, AbstractUnit]]] = {
        "NPU": lambda: (NAU(100, 100, **base), NPU(100, 1, gate_gradient=gate, **base)),
        "RealNPU": lambda: (NAU(100, 100, **base), RealNPU(100, 1, gate_gradient=gate, **base)),
        "NMU": lambda: (NAU(100, 100, **base), NMU(100, 1, **base)),
        "NALU": lambda: (NALU(100, 100, **base), NALU(100, 1, **base)),
        "NaiveNPU": lambda: (NAU(100, 100, **base), NaiveNPU(100, 1, **base)),
    }
    base: dict[str, Any] = {"members": runs, "generator": source}
    network = nn.Sequential(*make[model]())
    for unit in layers(network):
        for name, value in unit.named_parameters():
            if name == "gate" and model in ("NPU", "RealNPU"):
                value.data.fill_(1.0)
            elif name != "imaginary":
                value.data.uniform_(0.0, 0.1, generator=source)
    return network


def _subsets(runs: int, source: torch.Generator, device: str) -> tuple[Tensor, Tensor]:
    """Which inputs the two sums take, [runs, inputs, 1] of zeros and ones."""
    first, second = torch.zeros(2, runs, INPUTS, 1)
    room = INPUTS - 2 * SUBSET + OVERLAP
    for k in range(runs):
        begin = int(torch.randint(room + 1, (1,), generator=source))
        first[k, begin : begin + SUBSET] = 1.0
        second[k, begin + SUBSET - OVERLAP : begin + 2 * SUBSET - OVERLAP] = 1.0
    return first.to(device), second.to(device)


def _sobol(low: float, high: float, plan: Plan) -> Iterator[Tensor]:
    """Batches [1, batch, inputs] of one endless scrambled Sobol sequence."""
    engine = _engine(plan.seed)
    while True:
        chunk = (low + (high - low) * engine.draw(CHUNK * BATCH)).to(plan.device)
        yield from chunk.reshape(CHUNK, 1, BATCH, INPUTS)


def _points(low: float, high: float, count: int, plan: Plan) -> Tensor:
    draw: Tensor = _engine(plan.seed + 1).draw(count)
    return (low + (high - low) * draw)[None].to(plan.device)


def _engine(seed: int) -> Any:
    make: Any = torch.quasirandom.SobolEngine  # torch gives it no types
    return make(INPUTS, scramble=True, seed=seed)
