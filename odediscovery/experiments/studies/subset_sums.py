"""Two sums of subsets of the inputs, added, subtracted or multiplied: the tasks of Neural Arithmetic Units.

    a, b = sums of two overlapping subsets of x;    t = a + b,  a - b,  a b

Networks of two layers are trained and scored as by their authors, and trained by this package.

Source: Madsen and Johansen, Neural Arithmetic Units (ICLR 2020): Sec. 4.1 and Table 2; Fig. 3, without numbers, and its
ranges in Appendix C.4; gates in Appendix C.5.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from odediscovery.experiments import training as nets
from odediscovery.experiments.base import OURS, Arrays, Experiment, Job, Plan, Ran, Row, having
from odediscovery.experiments.figures import PER_CENTS, SHARES, Panel
from odediscovery.experiments.tables import markdown, number, pivot, share
from odediscovery.experiments.training import WEIGHT_ERROR, ramp
from odediscovery.units import NAU, NMU, UNITS, Linear, glorot
from odediscovery.units.nac import accumulator

INPUTS, SUBSET, OVERLAP = 100, 0.25, 0.5
TRAIN, TEST = (1.0, 2.0), (2.0, 6.0)
FOUR = "(x1+x2)(x1+x2+x3+x4)"
Operation = Callable[[Tensor, Tensor], Tensor]
OPERATIONS: dict[str, Operation] = {"+": torch.add, "-": torch.sub, "×": torch.mul, FOUR: torch.mul}
# Initial weights of the NMU in this paper: in the middle half of [0, 1].
MIDDLE = partial(nn.init.uniform_, a=0.25, b=0.75)
# Final weight of the sparsity regulariser.
SPARSE = 10.0
# Ours: rate, and shares of the steps between which the regulariser grows.
OUR_RATE, OUR_GROWTH = 1e-2, (0.2, 0.4)
# Weights of the residuals of whole numbers in successive refits: an error of 0.5 in one weight of a hundred changes the
# relative residuals of 400 samples by 0.2 in all.
WHOLES = (0.003, 0.03, 0.1)


@dataclass(frozen=True)
class Setting(nets.Setting):
    """Settings of Sec. 4.1 of Madsen and Johansen, with their code's defaults, and of our training."""

    runs: int = 50
    hidden: int = 2  # width between the two layers
    steps: int = 20_000  # theirs are 5e6 at a constant rate
    rate: float = 1e-3
    batch: int = 128
    refit_samples: int = 400
    growth: tuple[float, float] = (1e6, 2e6)  # steps between which the sparsity regulariser grows
    checks: int = 200


@dataclass(frozen=True, eq=False)
class Data:
    """One task: the inputs in the two sums of every run, [runs, inputs, 2], and the training and test ranges."""

    task: str
    chosen: Tensor
    inside: tuple[float, float] = TRAIN
    outside: tuple[float, float] = TEST

    def targets(self, x: Tensor) -> Tensor:
        """Compute the targets [runs, batch, 1] of inputs [1 or runs, batch, inputs]."""
        sums = x @ self.chosen
        return OPERATIONS[self.task](sums[..., :1], sums[..., 1:])

    def draw(self, ends: tuple[float, float], count: int, source: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw x [1, count, inputs], shared by all runs, and compute the targets of each."""
        x = nets.uniform((1, count, self.chosen.shape[1]), *ends, source)
        return x, self.targets(x)


def sparsity(network: nn.Sequential) -> Tensor:
    """Sparsity error, the maximum of min(|W|, |1 - |W||) over all weights except gates, [members]."""
    parts = []
    for unit in nets.layers(network):
        p = nets.parameters_of(unit)
        weights = [accumulator(p["weight"], p["mask"])] if "mask" in p else [v for k, v in p.items() if k != "gate"]
        sizes = [weight.detach().abs() for weight in weights]
        parts += [torch.minimum(size, (1.0 - size).abs()).amax(dim=(-1, -2)) for size in sizes]
    return torch.stack(parts).amax(dim=0)


class Watched:
    """Scores of every member at the check with its least error inside the training range."""

    def __init__(self, inside: tuple[Tensor, Tensor], outside: tuple[Tensor, Tensor], limit: Tensor) -> None:
        self.inside, self.outside, self.limit = inside, outside, limit
        # The least error inside, [members], and there the sparsity error and the error outside; the first step at
        # which the error outside is small enough.
        self.least = torch.full_like(limit, torch.inf)
        unknown = torch.full_like(limit, torch.nan)
        self.sparse, self.error, self.solved = unknown, unknown.clone(), unknown.clone()

    @property
    def won(self) -> Tensor:
        """Whether the error outside is small enough, bool [members]."""
        return self.error < self.limit

    def look(self, step: int, network: nn.Sequential) -> None:
        """Check all members at a step."""
        inside, outside = (nets.errors(network, *samples)[:, 0] for samples in (self.inside, self.outside))
        self.solved[self.solved.isnan() & (outside < self.limit)] = float(step)
        better = inside < self.least
        self.least[better], self.error[better] = inside[better], outside[better]
        self.sparse[better] = sparsity(network).cpu()[better]


def judged(data: Data, how: Setting, job: Job, published: Callable[[], nn.Sequential], ours: str = "") -> Watched:
    """Train and score the runs of a batch: a published network as its authors do, or the unit `ours` as we do."""
    test = data.draw(data.outside, how.points, job.source)
    limit = threshold(data.task, test[0], data.chosen)
    network, taken = train_ours(ours, data, how, job) if ours else (published(), None)
    watched = Watched(data.draw(data.inside, how.points, job.source), test, limit)
    if taken is not None:
        watched.look(0, network)
        watched.solved = torch.where(watched.won, taken, torch.nan)
        return watched
    nets.train(
        network,
        lambda: data.draw(data.inside, how.batch, job.source),
        how,
        job,
        watch=lambda step, _loss: watched.look(step, network),
        penalty=lambda step: SPARSE * ramp(step, *how.growth) * nets.regulariser(network),
    )
    return watched


def train_ours(model: str, data: Data, how: Setting, job: Job) -> tuple[nn.Sequential, Tensor]:
    """Train by Adam and Levenberg-Marquardt, restart runs that do not fit; begin with the fewest hidden units."""
    runs, inputs = data.chosen.shape[:2]
    final = two_layers(model, inputs, runs, job.source, hidden=how.hidden)
    least = torch.full((runs,), torch.inf, dtype=torch.float64)
    taken = torch.zeros(runs, dtype=torch.float64)
    # A product of a single unit is a sum, so at least two are needed.
    tries = [(width, start) for width in range(2, how.hidden + 1) for start in range(1, how.starts + 1)]
    for count, (width, start) in enumerate(tries, start=1):
        left = (least > 1e-7).nonzero()[:, 0]
        if not len(left):
            break
        network = two_layers(model, inputs, len(left), job.source, clip=False, hidden=width)
        missed = _fit_once(network, replace(data, chosen=data.chosen[left]), how, job, f"{width} units, start {start}")
        better = missed < least[left]
        least[left[better]] = missed[better]
        taken[left[better]] = float(count * how.our_steps)
        nets.embed(network, better.nonzero()[:, 0], final, left[better])
    return final, taken


def _fit_once(network: nn.Sequential, data: Data, how: Setting, job: Job, name: str) -> Tensor:
    """Fit one start of every run in place; return the relative errors [members]."""
    last = nets.layers(network)[1]
    nets.train(
        network,
        lambda: data.draw(data.inside, how.batch, job.source),
        replace(how, steps=how.our_steps, rate=OUR_RATE, loss="relative", anneal=0.5),
        job,
        name=f"{job.name}, {name}: Adam",
        penalty=lambda s: SPARSE * ramp(s / how.our_steps, *OUR_GROWTH) * last.regulariser(nets.parameters_of(last)),
    )
    job.monitor.stage(f"{job.name}, {name}: Levenberg-Marquardt", len(WHOLES))
    x, y = data.draw(data.inside, how.refit_samples, job.source)
    x, weight = x.expand(len(y), -1, -1), torch.ones_like(y) / y.abs().mean(dim=1, keepdim=True)
    for i, whole in enumerate(WHOLES, start=1):
        nets.refit(network, x, y, weight, how.refit_steps, 1e-6, whole)
        job.monitor.step(i)
    for unit in nets.layers(network):
        for value in unit.parameters():
            value.data.copy_(value.data.round().clamp(-1.0, 1.0))
        unit.project_()
    with torch.no_grad():
        off: Tensor = ((network(x) - y) * weight).square().mean(dim=(-1, -2)).sqrt()
        return off.nan_to_num(torch.inf)


def two_layers(
    model: str, inputs: int, runs: int, source: torch.Generator, *, clip: bool = True, hidden: int = 2
) -> nn.Sequential:
    """Build an adding layer followed by the layer of the operation."""
    first = {"MultiplicativeNAC": "NAC", "NMU": "NAU"}.get(model, model)
    made = []
    for name, n_in, n_out in ((first, inputs, hidden), (model, hidden, 1)):
        options: dict[str, Any] = {"init_weight": MIDDLE} if name == "NMU" else {}
        if name == "NAU":
            # The largest initial weight in its authors' code is min(0.5, sqrt(3) std).
            scale = min(1.0, 0.5 / math.sqrt(6.0 / (n_in + n_out))) if clip else 1.0
            options = {"clip": clip, "init_weight": glorot(scale)}
        made.append((UNITS[name], n_in, n_out, options))
    return nets.chain(runs, source, *made)


def subsets(task: str, runs: int, source: torch.Generator, inputs: int = INPUTS, overlap: float = OVERLAP) -> Tensor:
    """Draw masks of the inputs in the two sums, a quarter each, [runs, inputs, 2]; a share `overlap` is in both."""
    if task == FOUR:
        pair = torch.tensor([[1, 1], [1, 1], [0, 1], [0, 1]], dtype=torch.float64)
        return pair.expand(runs, -1, -1).clone()
    size = round(inputs * SUBSET)
    shift = size - round(size * overlap)
    chosen = torch.zeros(runs, inputs, 2, dtype=torch.float64)
    for k in range(runs):
        begin = int(torch.randint(inputs - size - shift + 1, (1,), generator=source))
        chosen[k, begin : begin + size, 0] = 1.0
        chosen[k, begin + shift : begin + shift + size, 1] = 1.0
    return chosen


def threshold(task: str, x: Tensor, chosen: Tensor) -> Tensor:
    """Error of the exact solution whose weights are all off by 1e-5, [members]."""
    near = (1.0 - WEIGHT_ERROR) * chosen + WEIGHT_ERROR * (1.0 - chosen)
    sums = x @ near
    a, b = sums[..., :1], sums[..., 1:]
    if task in ("+", "-"):
        y = (1.0 - WEIGHT_ERROR) * OPERATIONS[task](a, b)
    else:
        y = (a * (1.0 - WEIGHT_ERROR) + WEIGHT_ERROR) * (b * (1.0 - WEIGHT_ERROR) + WEIGHT_ERROR)
    return (y - Data(task, chosen).targets(x)).square().mean(dim=(-1, -2))


# Steps of the published training: the first of ENOUGH that solves the authors' median run, FEW if none does.
ENOUGH, FEW = (20_000, 100_000), 2_000
# Success rate, median solved-at step and sparsity error of 100 seeds.
STATIC_PUBLISHED: dict[tuple[str, str], tuple[str, str, str]] = {
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


class StaticArithmetic(Experiment):
    """Sums, differences and products of two subset sums of a hundred inputs, or of four (slides, Table 2).

    As in the authors' evaluation, a run is scored at the check with its least error on separate samples of the training
    range [1, 2]: it succeeds if its error (MSE) on [2, 6] is below that of the exact solution with all weights off by
    1e-5. Solved-at is the first check with such an error. The authors trained 100 seeds for 5e6 steps, with a
    regulariser that grows between steps 1e6 and 2e6, and on four inputs for 2e5 steps without it; here 50 seeds are
    trained for the first of these steps.

    Ours, for NAU and NMU: 1000 Adam steps on relative errors, with the second layer's regulariser growing over the
    second fifth; Levenberg-Marquardt on 400 samples with an additional residual w (1 - w^2) of growing weight for every
    parameter w; rounding to weights that the unit allows. A run whose rounded weights do not fit the samples is
    restarted, with at most eight starts.
    """

    name = "static-arithmetic"
    title = "Static arithmetic (slides, Table 2)"
    across = 2
    full = Setting()
    quick = replace(full, runs=3, steps=40, our_steps=200)

    def batches(self, plan: Plan) -> list[dict[str, str]]:
        ours = [(model + OURS, task) for model, task in STATIC_PUBLISHED if model in ("NAU", "NMU")]
        # Batches of few steps that solve the task come first.
        place = lambda key: (steps_of(*key) != ENOUGH[0], key[1] != FOUR, steps_of(*key))  # noqa: E731
        published = sorted(STATIC_PUBLISHED, key=place)
        return [{"model": model, "task": task} for model, task in ours + published]

    def run(self, job: Job) -> tuple[list[Row], Arrays]:
        model, task, how, ours = job.model, job.batch["task"], self.how(job.plan), job.ours
        how = replace(how, steps=steps_of(model, task)) if job.plan.full else how
        data = Data(task, subsets(task, how.runs, job.source))
        # Drawn before the test samples.
        network = two_layers(model, data.chosen.shape[1], how.runs, job.source)
        watched = judged(data, how, job, lambda: network, model if ours else "")
        columns = {"success": watched.won.int(), "solved at": watched.solved, "sparsity error": watched.sparse}
        columns |= {"test mse": watched.error, "threshold": watched.limit}
        steps, rate = (how.our_steps, OUR_RATE) if ours else (how.steps, how.rate)
        return nets.rows_of(columns, {"steps": steps, "rate": rate}), {}

    def line(self, r: Ran) -> dict[str, str]:
        won = r.column("success")
        solved, sparse = (r.column(name)[won > 0] for name in ("solved at", "sparsity error"))
        rate, step, error = STATIC_PUBLISHED[r.model, r.batch["task"]]
        return {
            "model and task": r.name,
            "success, published (100 seeds; 5e6 steps, 2e5 on four inputs)": rate,
            f"success, ours ({len(won)} seeds; 95 %)": f"{won.mean():.0%} ({share(won)})",
            "our steps": str(r.rows[0]["steps"]),
            "solved at, published": step,
            "solved at, ours (median)": number(float(np.median(solved))) if len(solved) else "-",
            "sparsity error, published": error,
            "sparsity error, ours (mean)": number(float(sparse.mean())) if len(sparse) else "-",
            "seconds": f"{r.seconds:.0f}",
        }

    def table(self, plan: Plan, ran: Sequence[Ran]) -> str:
        order = list(STATIC_PUBLISHED)
        return super().table(plan, sorted(ran, key=lambda r: (order.index((r.model, r.batch["task"])), r.name)))

    def panels(self, ran: Sequence[Ran]) -> Iterable[Panel]:
        """The share of solved runs over the steps."""
        axis = {"xlabel": "step", "ylabel": "share solved", "ylim": SHARES}
        for task in OPERATIONS:
            curves = {}
            for r in having(ran, task=task):
                solved = r.column("solved at")
                done = np.sort(solved[np.isfinite(solved)])
                x = np.append(np.insert(done, 0, 0.0), float(r.rows[0]["steps"]))
                curves[r.batch["model"]] = x, np.append(np.arange(len(done) + 1), len(done)) / len(solved)
            yield Panel(task, curves=curves, look={"drawstyle": "steps-post"}, axis=axis)


def steps_of(model: str, task: str) -> int:
    """Steps of the published training here, by those after which the authors' median run is solved."""
    solved = STATIC_PUBLISHED[model, task][1]
    median = math.inf if solved == "-" else float(solved)
    return next((steps for steps in ENOUGH if median <= steps), FEW)


MODELS = ("NMU" + OURS, "NMU", "MultiplicativeNAC", "NALU")
# Test range for each training range.
OUTSIDE = {
    "-2 to -1": (-6.0, -2.0),
    "-2 to 2": (2.0, 6.0),
    "0 to 1": (1.0, 5.0),
    "0.1 to 0.2": (0.2, 2.0),
    "1 to 2": (2.0, 6.0),
    "10 to 20": (20.0, 40.0),
}
SWEEPS: dict[str, tuple[str, ...]] = {
    "range": tuple(OUTSIDE),
    "overlap": ("0", "0.25", "0.5", "0.75", "1"),
    "inputs": ("4", "10", "50", "100", "200"),
    "hidden size": ("2", "4", "6", "8", "10"),
}
GATING = {("gated", "+"): "37 %", ("gated", "×"): "62 %", ("alone", "+"): "100 %", ("alone", "×"): "98 %"}


class Gated(nn.Module):
    """A sum or a product, chosen by a gate: y = g NAU(x) + (1 - g) NMU(x), g = sigmoid(G x)."""

    def __init__(self, n_in: int, n_out: int, **base: Any) -> None:
        super().__init__()
        self.sums = NAU(n_in, n_out, clip=True, **base)
        self.products = NMU(n_in, n_out, init_weight=MIDDLE, **base)
        self.gate = Linear(n_in, n_out, **base)

    def forward(self, x: Tensor) -> Tensor:
        """The formula; x [members, batch, n_in]."""
        g = torch.sigmoid(self.gate(x))
        found: Tensor = g * self.sums(x) + (1.0 - g) * self.products(x)
        return found


class ProductSweeps(Experiment):
    """Products of two sums for different hidden sizes, inputs, overlaps and ranges; sums and products by a gate.

    One parameter at a time differs from its default: 2 hidden units, 100 inputs, overlap 1/2, trained on [1, 2] and
    tested on [2, 6]. Success is defined as in `static-arithmetic`. Ours tries two hidden units first, and more if these
    do not fit; unused units have weights of 0.
    """

    name = "product-sweeps"
    title = "Products when the task changes, and gates (slides, Fig. 3; Appendices C.4 and C.5)"
    across = 2
    # The published 5e6 steps in 10 000: ten times the rate, which falls to 0 over the second half.
    full = Setting(runs=10, steps=10_000, rate=1e-2, anneal=0.5, growth=(5000, 7500), checks=100, refit_steps=40)
    quick = replace(
        full, runs=2, steps=10, growth=(5, 7.5), our_steps=30, starts=2, points=200, refit_samples=150, refit_steps=20
    )

    def batches(self, plan: Plan) -> list[dict[str, str]]:
        sweeps = [
            {"sweep": name, "value": value, "model": model}
            for model in MODELS
            for name, values in SWEEPS.items()
            for value in (values if plan.full else values[:1])
        ]
        return sweeps + [{"sweep": "gate", "value": task, "model": model} for model, task in GATING]

    def run(self, job: Job) -> tuple[list[Row], Arrays]:
        how, ours = self.how(job.plan), job.ours
        data, hidden = posed(job.batch, how.runs, job.source)
        how = replace(how, hidden=hidden)
        watched = judged(data, how, job, lambda: _network(data, how, job), "NMU" if ours else "")
        columns = {"success": watched.won.int(), "solved at": watched.solved, "test mse": watched.error}
        return nets.rows_of(columns, {"steps": how.our_steps if ours else how.steps}), {}

    def table(self, plan: Plan, ran: Sequence[Ran]) -> str:
        text = f"Runs of {len(ran[0].rows)} that succeed; in parentheses the median step after which they do.\n"
        for name, values in SWEEPS.items():
            own = [r for value in values for model in MODELS for r in having(ran, sweep=name, value=value, model=model)]
            text += "\n" + pivot(name, {(f"{name} {r.batch['value']}", r.batch["model"]): _cell(r) for r in own})
        rows = []
        for (model, task), published in GATING.items():
            for r in having(ran, sweep="gate", value=task, model=model):
                named = "gate of NAU and NMU" if model == "gated" else "NMU" if task == "×" else "NAU"
                cells = {"second layer and task": f"{named}, {task}", "published (5e6 steps)": published}
                rows.append(cells | {"ours": _cell(r), "95 %": share(r.column("success"))})
        return text + "\n" + markdown(rows)

    def panels(self, ran: Sequence[Ran]) -> Iterable[Panel]:
        """Success over each parameter, as in Fig. 3."""
        axis = {"ylabel": "success, %", "ylim": PER_CENTS}
        for name, values in SWEEPS.items():
            done = [r for value in values for r in having(ran, sweep=name, value=value)]
            means = {(r.batch["value"], r.batch["model"]): np.array([100.0 * r.column("success").mean()]) for r in done}
            yield Panel(name, means, kind="lines", axis=axis)


def posed(batch: dict[str, str], runs: int, source: torch.Generator) -> tuple[Data, int]:
    """Draw the data of a batch, with its hidden size; parameters that are not swept have their defaults."""
    swept = {batch["sweep"]: batch["value"]}
    task, trained = swept.get("gate", "×"), swept.get("range", "1 to 2")
    inputs, overlap = int(swept.get("inputs", INPUTS)), float(swept.get("overlap", OVERLAP))
    low, high = map(float, trained.split(" to "))
    data = Data(task, subsets(task, runs, source, inputs, overlap), (low, high), OUTSIDE[trained])
    return data, int(swept.get("hidden size", ProductSweeps.full.hidden))


def _network(data: Data, how: Setting, job: Job) -> nn.Sequential:
    """Build the network of the published training: two layers, or a NAU before a gate."""
    inputs, model = data.chosen.shape[1], job.model
    if model == "gated":
        return nets.chain(how.runs, job.source, (NAU, inputs, how.hidden, {"clip": True}), (Gated, how.hidden, 1))
    model = {"+": "NAU", "×": "NMU"}[data.task] if model == "alone" else model
    return two_layers(model, inputs, how.runs, job.source, hidden=how.hidden)


def _cell(r: Ran) -> str:
    won = r.column("success") > 0
    after = f" ({number(float(np.median(r.column('solved at')[won])))})" if won.any() else ""
    return f"{int(won.sum())}{after}"
