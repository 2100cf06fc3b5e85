"""Sums, differences and products of two subset sums of a hundred inputs (slides, Table 2).

    a, b = sums of two overlapping subsets of x;    t = a + b,  a - b,  a b
    and of four inputs:    t = (x1 + x2)(x1 + x2 + x3 + x4)

A network has two layers, an adding one and that of the operation. A run succeeds when its error
(MSE) on [2, 6], outside the training range [1, 2], falls below that of the exact solution whose
weights are all off by 1e-5; the first check where it does is its solved-at step, and its sparsity
error, max min(|W|, |1 - |W||), is taken there. The authors trained 100 seeds for 5e6 steps at a
rate of 1e-3; here it is 50 seeds and 60 000 steps at a rate of 1e-2 that falls to 0 over the
second half, and the regulariser grows between a fifth and two fifths of them, as theirs does.

Source: Madsen and Johansen, Neural Arithmetic Units (ICLR 2020), Table 2 and Sec. 4.1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    number,
    wilson,
)
from odediscovery.experiments.regression import (
    Training,
    errors,
    layers,
    parameters_of,
    regulariser,
    train,
)
from odediscovery.monitor import Monitor
from odediscovery.plots import COLOURS, STYLE, empty_figure
from odediscovery.units import NAC, NALU, NAU, NMU, AbstractUnit, Linear, MultiplicativeNAC
from odediscovery.units.nac import accumulator

SUBSET, OVERLAP = 0.25, 0.5
TRAIN, TEST = (1.0, 2.0), (2.0, 6.0)
RUNS, STEPS, RATE, BATCH, POINTS = 50, 60_000, 1e-2, 128, 1000
QUICK_RUNS, QUICK_STEPS = 3, 200
# Weight of the sparsity regulariser, and the shares of training between which it grows.
SPARSE, GROWTH = 10.0, (0.2, 0.4)
EPSILON = 1e-5
CHECKS = 200
OPERATIONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "×": lambda a, b: a * b,
    "(x1+x2)(x1+x2+x3+x4)": lambda a, b: a * b,
}
FOUR = "(x1+x2)(x1+x2+x3+x4)"
# Success rate, median solved-at step and sparsity error of 100 seeds; 5e6 steps.
PUBLISHED: dict[tuple[str, str], tuple[str, str, str]] = {
    ("NAC", "+"): ("100 %", "2.5e5", "0.23"), ("Linear", "+"): ("100 %", "6.1e4", "0.25"),
    ("NALU", "+"): ("14 %", "1.5e6", "0.17"), ("NAU", "+"): ("100 %", "1.8e4", "3.2e-5"),
    ("NAC", "-"): ("100 %", "9.0e3", "0.23"), ("Linear", "-"): ("7 %", "3.3e6", "0.18"),
    ("NALU", "-"): ("14 %", "1.9e6", "0.21"), ("NAU", "-"): ("100 %", "5.0e3", "0.066"),
    ("MultiplicativeNAC", "×"): ("31 %", "2.8e6", "5.8e-4"), ("NALU", "×"): ("0 %", "-", "-"),
    ("NMU", "×"): ("98 %", "1.4e6", "4.2e-7"),
    ("MultiplicativeNAC", FOUR): ("13 %", "5.5e4", "7.5e-6"),
    ("NALU", FOUR): ("26 %", "7.0e4", "9.2e-6"), ("NMU", FOUR): ("94 %", "1.4e4", "2.6e-8"),
}  # fmt: skip


class StaticArithmetic(Experiment):
    """Every published pair of unit and operation; the seeds are members."""

    name = "static-arithmetic"
    title = "Static arithmetic (slides, Table 2)"

    def batches(self, plan: Plan) -> list[dict[str, str]]:
        best = [key for key in PUBLISHED if key[0] in ("NAU", "NMU")]
        rest = [key for key in PUBLISHED if key not in best]
        return [{"model": model, "task": task} for model, task in best + rest]

    def run(self, plan: Plan, batch: dict[str, str], monitor: Monitor) -> tuple[list[Row], Arrays]:
        model, task = batch["model"], batch["task"]
        runs, steps = (RUNS, STEPS) if plan.full else (QUICK_RUNS, QUICK_STEPS)
        source = plan.generator(batch)
        first = _subsets(task, runs, source)
        network = _network(model, first.shape[1], runs, source)
        targets = _targets(task, first)
        test = _points(TEST, POINTS, first.shape[1], source)
        limit = _threshold(task, test, first)
        solved = torch.full((runs,), torch.nan, dtype=torch.float64)
        sparse = solved.clone()

        def draw() -> tuple[Tensor, Tensor]:
            x = _points(TRAIN, BATCH, first.shape[1], source)
            return x, targets(x)

        def penalty(step: int) -> Tensor:
            low, high = GROWTH
            share = min(max((step / steps - low) / (high - low), 0.0), 1.0)
            return SPARSE * share * regulariser(network)

        def watch(step: int, _loss: Tensor) -> None:
            fresh = solved.isnan() & (errors(network, test, targets(test))[:, 0] < limit)
            solved[fresh] = float(step)
            sparse[fresh] = sparsity(network)[fresh]

        every = max(steps // CHECKS, 1)
        training = Training(steps, RATE, anneal=0.5, watch_every=every)
        train(network, draw, training, monitor, name=f"{model} {task}", penalty=penalty,
              watch=watch)  # fmt: skip
        final = errors(network, test, targets(test))[:, 0]
        return [
            {"success": int(not solved[k].isnan()), "solved at": float(solved[k]),
             "sparsity error": float(sparse[k]), "test mse": float(final[k]),
             "threshold": float(limit[k]), "steps": steps, "rate": RATE}
            for k in range(runs)
        ], {}  # fmt: skip

    def table(self, plan: Plan, ran: Sequence[Ran]) -> str:
        rows = []
        for r in sorted(ran, key=lambda r: list(PUBLISHED).index(_key(r))):
            won = r.column("success")
            low, high = wilson(int(won.sum()), len(won))
            solved = r.column("solved at")[won > 0]
            sparse = r.column("sparsity error")[won > 0]
            rate, step, error = PUBLISHED[_key(r)]
            rows.append((
                f"{r.batch['model']} {r.batch['task']}", rate,
                f"{won.mean():.0%} ({low:.0%} to {high:.0%})", step,
                number(float(np.median(solved))) if len(solved) else "-", error,
                number(float(sparse.mean())) if len(sparse) else "-", f"{r.seconds:.0f}",
            ))  # fmt: skip
        return markdown(
            ("model and task", "success, published (100 seeds, 5e6 steps)",
             f"success, ours ({len(ran[0].rows)} seeds, {ran[0].rows[0]['steps']} steps; 95 %)",
             "solved at, published", "solved at, ours (median)", "sparsity error, published",
             "sparsity error, ours (mean)", "seconds"), rows,
        )  # fmt: skip

    def figure(self, plan: Plan, ran: Sequence[Ran]) -> Figure:
        """Share of runs that are solved, over the steps."""
        models = ("NAU", "NMU", "NAC", "MultiplicativeNAC", "NALU", "Linear")
        with rc_context(STYLE):
            figure = empty_figure(11, 7)
            for axis, task in zip(figure.subplots(2, 2).flat, OPERATIONS, strict=True):
                for colour, model in zip(COLOURS, models, strict=False):
                    r = find(ran, model=model, task=task)
                    if r is None:
                        continue
                    solved = np.sort(np.nan_to_num(r.column("solved at"), nan=np.inf))
                    done = solved[np.isfinite(solved)]
                    steps = float(r.rows[0]["steps"])
                    axis.step(np.append(np.insert(done, 0, 0.0), steps),
                              np.append(np.arange(len(done) + 1), len(done)) / len(solved),
                              where="post", color=colour, label=model)  # fmt: skip
                axis.set(title=task, xlabel="step", ylabel="share solved", ylim=(-0.02, 1.04))
                if axis.lines:
                    axis.legend()
        return figure


def sparsity(network: nn.Sequential) -> Tensor:
    """max over all weights of min(|W|, |1 - |W||), [members]; gates of the NALU left aside."""
    parts = []
    for unit in layers(network):
        p = parameters_of(unit)
        weight = accumulator(p["weight"], p["mask"]) if "mask" in p else p["weight"]
        size = weight.detach().abs()
        parts.append(torch.minimum(size, (1.0 - size).abs()).amax(dim=(-1, -2)))
    return torch.stack(parts).amax(dim=0)


def _key(r: Ran) -> tuple[str, str]:
    return r.batch["model"], r.batch["task"]


def _network(model: str, inputs: int, runs: int, source: torch.Generator) -> nn.Sequential:
    base: dict[str, Any] = {"members": runs, "generator": source}
    make: dict[str, Callable[[], tuple[AbstractUnit, AbstractUnit]]] = {
        "NAC": lambda: (NAC(inputs, 2, **base), NAC(2, 1, **base)),
        "Linear": lambda: (Linear(inputs, 2, **base), Linear(2, 1, **base)),
        "NALU": lambda: (NALU(inputs, 2, **base), NALU(2, 1, **base)),
        "NAU": lambda: (NAU(inputs, 2, clip=True, **base), NAU(2, 1, clip=True, **base)),
        "MultiplicativeNAC": lambda: (NAC(inputs, 2, **base), MultiplicativeNAC(2, 1, **base)),
        "NMU": lambda: (NAU(inputs, 2, clip=True, **base), NMU(2, 1, low=0.25, high=0.75, **base)),
    }
    return nn.Sequential(*make[model]())


def _subsets(task: str, runs: int, source: torch.Generator) -> Tensor:
    """Which inputs the two sums take, [runs, inputs, 2] of zeros and ones."""
    if task == FOUR:
        pair = torch.tensor([[1, 1], [1, 1], [0, 1], [0, 1]], dtype=torch.float64)
        return pair.expand(runs, 4, 2).clone()
    size = round(100 * SUBSET)
    shift = size - round(size * OVERLAP)
    chosen = torch.zeros(runs, 100, 2, dtype=torch.float64)
    for k in range(runs):
        begin = int(torch.randint(100 - size - shift + 1, (1,), generator=source))
        chosen[k, begin : begin + size, 0] = 1.0
        chosen[k, begin + shift : begin + shift + size, 1] = 1.0
    return chosen


def _targets(task: str, chosen: Tensor) -> Callable[[Tensor], Tensor]:
    def targets(x: Tensor) -> Tensor:
        sums = x @ chosen
        return OPERATIONS[task](sums[..., :1], sums[..., 1:])

    return targets


def _points(
    inside: tuple[float, float], count: int, inputs: int, source: torch.Generator
) -> Tensor:
    low, high = inside
    return low + (high - low) * torch.rand(1, count, inputs, generator=source, dtype=torch.float64)


def _threshold(task: str, x: Tensor, chosen: Tensor) -> Tensor:
    """Error of the exact solution whose weights are all off by 1e-5, [members]."""
    near = (1.0 - EPSILON) * chosen + EPSILON * (1.0 - chosen)
    sums = x @ near
    a, b = sums[..., :1], sums[..., 1:]
    if task in ("+", "-"):
        y = (1.0 - EPSILON) * OPERATIONS[task](a, b)
    else:
        y = (a * (1.0 - EPSILON) + EPSILON) * (b * (1.0 - EPSILON) + EPSILON)
    return (y - _targets(task, chosen)(x)).square().mean(dim=(-1, -2))
