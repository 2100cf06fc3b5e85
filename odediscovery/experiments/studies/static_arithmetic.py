"""Sums, differences and products of two subset sums of a hundred inputs (slides, Table 2).

    a, b = sums of two overlapping subsets of x;    t = a + b,  a - b,  a b
    and of four inputs:    t = (x1 + x2)(x1 + x2 + x3 + x4)

A network has two layers, an adding one and that of the operation. A run succeeds when its error
(MSE) on [2, 6], outside the training range [1, 2], falls below that of the exact solution whose
weights are all off by 1e-5; the first check where it does is its solved-at step, and its sparsity
error, max min(|W|, |1 - |W||), is taken there. The authors trained 100 seeds for 5e6 steps at a
rate of 1e-3; here it is 50 seeds and 20 000 steps at a rate of 1e-2 that falls to 0 over the
second half, and the regulariser grows from the half to three quarters of them.

Ours, for NAU and NMU: 2000 Adam steps on relative errors, the second layer's regulariser growing
over the second fifth, then Levenberg-Marquardt on 400 samples without it; a run that has not
fitted them begins anew, eight times at most. Nothing in it makes the weights sparse.

Source: Madsen and Johansen, Neural Arithmetic Units (ICLR 2020), Table 2 and Sec. 4.1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from matplotlib import rc_context
from matplotlib.figure import Figure
from torch import Tensor, nn

from odediscovery.experiments.base import Arrays, Experiment, Plan, Ran, Row, markdown, number, wilson
from odediscovery.experiments.refit import refit
from odediscovery.experiments.regression import (
    WEIGHT_ERROR,
    Training,
    errors,
    layers,
    parameters_of,
    regulariser,
    rows_of,
    train,
    uniform,
)
from odediscovery.plots.figures import COLOURS, STYLE, empty_figure
from odediscovery.runtime.monitor import Monitor
from odediscovery.units import NAC, NALU, NAU, NMU, AbstractUnit, Linear, MultiplicativeNAC
from odediscovery.units.nac import accumulator

SUBSET, OVERLAP = 0.25, 0.5
TRAIN, TEST = (1.0, 2.0), (2.0, 6.0)
OURS = ", ours"


@dataclass(frozen=True)
class Setting:
    """Sec. 4.1 of Madsen and Johansen, shortened as said above; `our` fields are this package's.

    Args:
        points: samples of the test.
        anneal: share of the steps after which the rate falls.
        sparse: weight of the sparsity regulariser, which grows between the shares `growth` of the steps.
        checks: how often a run is tested.
        starts: most starts of each of our runs.
        refit_samples, refit_steps, refit_tolerance: of the Levenberg-Marquardt refit.
        fitted: relative error below which a start has fitted.
    """

    runs: int = 50
    steps: int = 20_000
    rate: float = 1e-2
    anneal: float = 0.5
    batch: int = 128
    points: int = 1000
    sparse: float = 10.0
    growth: tuple[float, float] = (0.5, 0.75)
    checks: int = 200
    starts: int = 8
    our_steps: int = 2000
    our_growth: tuple[float, float] = (0.2, 0.4)
    refit_samples: int = 400
    refit_steps: int = 150
    refit_tolerance: float = 1e-12
    fitted: float = 1e-7

    def weight(self, step: int, steps: int, growth: tuple[float, float]) -> float:
        """Weight of the regulariser at a step: 0, then linearly to `sparse`."""
        low, high = growth
        return self.sparse * min(max((step / steps - low) / (high - low), 0.0), 1.0)


FULL = Setting()
QUICK = replace(FULL, runs=3, steps=40, our_steps=200)
OPERATIONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "×": lambda a, b: a * b,
    "(x1+x2)(x1+x2+x3+x4)": lambda a, b: a * b,
}
FOUR = "(x1+x2)(x1+x2+x3+x4)"
# Success rate, median solved-at step and sparsity error of 100 seeds; 5e6 steps.
PUBLISHED: dict[tuple[str, str], tuple[str, str, str]] = {
    ("NAC", "+"): ("100 %", "2.5e5", "0.23"),
    ("Linear", "+"): ("100 %", "6.1e4", "0.25"),
    ("NALU", "+"): ("14 %", "1.5e6", "0.17"),
    ("NAU", "+"): ("100 %", "1.8e4", "3.2e-5"),
    ("NAC", "-"): ("100 %", "9.0e3", "0.23"),
    ("Linear", "-"): ("7 %", "3.3e6", "0.18"),
    ("NALU", "-"): ("14 %", "1.9e6", "0.21"),
    ("NAU", "-"): ("100 %", "5.0e3", "0.066"),
    ("MultiplicativeNAC", "×"): ("31 %", "2.8e6", "5.8e-4"),
    ("NALU", "×"): ("0 %", "-", "-"),
    ("NMU", "×"): ("98 %", "1.4e6", "4.2e-7"),
    ("MultiplicativeNAC", FOUR): ("13 %", "5.5e4", "7.5e-6"),
    ("NALU", FOUR): ("26 %", "7.0e4", "9.2e-6"),
    ("NMU", FOUR): ("94 %", "1.4e4", "2.6e-8"),
}


@dataclass(frozen=True, eq=False)
class Data:
    """One task and which inputs the two sums of every run take, [runs, inputs, 2]."""

    task: str
    chosen: Tensor

    def targets(self, x: Tensor) -> Tensor:
        """[runs, batch, 1] of inputs [1 or runs, batch, inputs]."""
        sums = x @ self.chosen
        return OPERATIONS[self.task](sums[..., :1], sums[..., 1:])

    def draw(self, inside: tuple[float, float], count: int, source: torch.Generator) -> tuple[Tensor, Tensor]:
        """The same x [1, count, inputs] for every run, and the runs' targets."""
        inputs = self.chosen.shape[1]
        x = uniform((1, count, inputs), *inside, source)
        return x, self.targets(x)


class StaticArithmetic(Experiment):
    """Every published pair of unit and operation; the seeds are members."""

    name = "static-arithmetic"
    title = "Static arithmetic (slides, Table 2)"

    def batches(self, plan: Plan) -> list[dict[str, str]]:
        best = [key for key in PUBLISHED if key[0] in ("NAU", "NMU")]
        rest = [key for key in PUBLISHED if key not in best]
        ours = [(model + OURS, task) for model, task in best]
        return [{"model": model, "task": task} for model, task in ours + best + rest]

    def run(self, plan: Plan, batch: dict[str, str], monitor: Monitor) -> tuple[list[Row], Arrays]:
        model, task = batch["model"].removesuffix(OURS), batch["task"]
        how, source = plan.pick(FULL, QUICK), plan.generator(batch)
        data = Data(task, _subsets(task, how.runs, source))
        network = _network(model, data.chosen.shape[1], how.runs, source)
        test = data.draw(TEST, how.points, source)
        limit = _threshold(task, test[0], data.chosen)
        if model == batch["model"]:
            steps = how.steps
            solved, sparse = _train_published(network, data, how, test, limit, source, monitor, plan.device)
        else:
            steps = how.our_steps
            network, taken = _train_ours(model, data, how, source, monitor, plan.device)
            won = errors(network, *test)[:, 0] < limit
            solved, sparse = torch.where(won, taken, torch.nan), sparsity(network)
        columns = {
            "success": (~solved.isnan()).int(),
            "solved at": solved,
            "sparsity error": sparse,
            "test mse": errors(network, *test)[:, 0],
            "threshold": limit,
        }
        return rows_of(columns, {"steps": steps, "rate": how.rate}), {}

    def table(self, plan: Plan, ran: Sequence[Ran]) -> str:
        rows = []
        for r in sorted(ran, key=lambda r: (list(PUBLISHED).index(_key(r)), *r.batch.values())):
            won = r.column("success")
            low, high = wilson(int(won.sum()), len(won))
            solved = r.column("solved at")[won > 0]
            sparse = r.column("sparsity error")[won > 0]
            rate, step, error = PUBLISHED[_key(r)]
            rows.append(
                (
                    f"{r.batch['model']} {r.batch['task']}",
                    rate,
                    f"{won.mean():.0%} ({low:.0%} to {high:.0%})",
                    str(r.rows[0]["steps"]),
                    step,
                    number(float(np.median(solved))) if len(solved) else "-",
                    error,
                    number(float(sparse.mean())) if len(sparse) else "-",
                    f"{r.seconds:.0f}",
                )
            )
        return markdown(
            (
                "model and task",
                "success, published (100 seeds, 5e6 steps)",
                f"success, ours ({len(ran[0].rows)} seeds; 95 %)",
                "our steps",
                "solved at, published",
                "solved at, ours (median)",
                "sparsity error, published",
                "sparsity error, ours (mean)",
                "seconds",
            ),
            rows,
        )

    def figure(self, plan: Plan, ran: Sequence[Ran]) -> Figure:
        """Share of runs that are solved, over the steps."""
        colours = dict(zip(("NAU", "NMU", "NAC", "MultiplicativeNAC", "NALU", "Linear"), COLOURS, strict=False))
        with rc_context(STYLE):
            figure = empty_figure(11, 7)
            for axis, task in zip(figure.subplots(2, 2).flat, OPERATIONS, strict=True):
                for r in (r for r in ran if r.batch["task"] == task):
                    model = r.batch["model"]
                    solved = np.sort(np.nan_to_num(r.column("solved at"), nan=np.inf))
                    done = solved[np.isfinite(solved)]
                    steps = float(r.rows[0]["steps"])
                    axis.step(
                        np.append(np.insert(done, 0, 0.0), steps),
                        np.append(np.arange(len(done) + 1), len(done)) / len(solved),
                        where="post",
                        label=model,
                        color=colours[model.removesuffix(OURS)],
                        ls="--" if model.endswith(OURS) else "-",
                    )
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
    return r.batch["model"].removesuffix(OURS), r.batch["task"]


def _train_published(
    network: nn.Sequential,
    data: Data,
    how: Setting,
    test: tuple[Tensor, Tensor],
    limit: Tensor,
    source: torch.Generator,
    monitor: Monitor,
    device: str,
) -> tuple[Tensor, Tensor]:
    """Adam under the sparsity regulariser; the step that solved each run and its sparsity there."""
    solved = torch.full_like(limit, torch.nan)
    sparse = solved.clone()

    def watch(step: int, _loss: Tensor) -> None:
        fresh = solved.isnan() & (errors(network, *test)[:, 0] < limit)
        solved[fresh] = float(step)
        sparse[fresh] = sparsity(network).cpu()[fresh]

    training = Training(how.steps, how.rate, anneal=how.anneal, watch_every=max(how.steps // how.checks, 1))
    train(
        network,
        lambda: data.draw(TRAIN, how.batch, source),
        training,
        monitor,
        name=f"{layers(network)[1].name} {data.task}",
        device=device,
        watch=watch,
        penalty=lambda step: how.weight(step, how.steps, how.growth) * regulariser(network),
    )
    return solved, sparse


def _train_ours(
    model: str, data: Data, how: Setting, source: torch.Generator, monitor: Monitor, device: str
) -> tuple[nn.Sequential, Tensor]:
    """Adam, then Levenberg-Marquardt, from new weights for the runs that have not fitted.

    Returns:
        The best start of every run, and the Adam steps it came after.
    """
    runs, inputs = data.chosen.shape[:2]
    final = _network(model, inputs, runs, source, clip=False)
    least = torch.full((runs,), torch.inf, dtype=torch.float64)
    taken = torch.zeros(runs, dtype=torch.float64)
    for start in range(1, how.starts + 1):
        left = (least > how.fitted).nonzero()[:, 0]
        if not len(left):
            break
        part = Data(data.task, data.chosen[left])
        network = _network(model, inputs, len(left), source, clip=False)
        missed = _fit_once(network, part, how, source, monitor, f"{model}{OURS}, start {start}", device)
        better = missed < least[left]
        least[left[better]] = missed[better]
        taken[left[better]] = float(start * how.our_steps)
        for kept, value in zip(final.parameters(), network.parameters(), strict=True):
            kept.data[left[better]] = value.data[better]
    return final, taken


def _fit_once(
    network: nn.Sequential, data: Data, how: Setting, source: torch.Generator, monitor: Monitor, name: str, device: str
) -> Tensor:
    """One start of every run, in place; the relative error that is left, [members]."""
    last = layers(network)[1]
    train(
        network,
        lambda: data.draw(TRAIN, how.batch, source),
        Training(how.our_steps, how.rate, loss="relative", anneal=how.anneal),
        monitor,
        name=f"{name}: Adam",
        device=device,
        penalty=lambda s: how.weight(s, how.our_steps, how.our_growth) * last.regulariser(parameters_of(last)),
    )
    monitor.stage(f"{name}: Levenberg-Marquardt", 1)
    x, y = data.draw(TRAIN, how.refit_samples, source)
    weight = torch.ones_like(y) / y.abs().mean(dim=1, keepdim=True)
    x = x.expand(len(y), -1, -1)
    left = refit(network, x, y, weight, how.refit_steps, tolerance=how.refit_tolerance)
    return (left / how.refit_samples).sqrt()


def _network(model: str, inputs: int, runs: int, source: torch.Generator, *, clip: bool = True) -> nn.Sequential:
    base: dict[str, Any] = {"members": runs, "generator": source}
    make: dict[str, Callable[[], tuple[AbstractUnit, AbstractUnit]]] = {
        "NAC": lambda: (NAC(inputs, 2, **base), NAC(2, 1, **base)),
        "Linear": lambda: (Linear(inputs, 2, **base), Linear(2, 1, **base)),
        "NALU": lambda: (NALU(inputs, 2, **base), NALU(2, 1, **base)),
        "NAU": lambda: (NAU(inputs, 2, clip=clip, **base), NAU(2, 1, clip=clip, **base)),
        "MultiplicativeNAC": lambda: (NAC(inputs, 2, **base), MultiplicativeNAC(2, 1, **base)),
        "NMU": lambda: (NAU(inputs, 2, clip=clip, **base), NMU(2, 1, low=0.25, high=0.75, **base)),
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


def _threshold(task: str, x: Tensor, chosen: Tensor) -> Tensor:
    """Error of the exact solution whose weights are all off by 1e-5, [members]."""
    near = (1.0 - WEIGHT_ERROR) * chosen + WEIGHT_ERROR * (1.0 - chosen)
    sums = x @ near
    a, b = sums[..., :1], sums[..., 1:]
    if task in ("+", "-"):
        y = (1.0 - WEIGHT_ERROR) * OPERATIONS[task](a, b)
    else:
        y = (a * (1.0 - WEIGHT_ERROR) + WEIGHT_ERROR) * (b * (1.0 - WEIGHT_ERROR) + WEIGHT_ERROR)
    return (y - Data(task, chosen).targets(x)).square().mean(dim=(-1, -2))
