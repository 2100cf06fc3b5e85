"""Sec. 4.3 of Neural Power Units: two sums of 50 of 100 inputs, an operation (Table 1, Fig. 7).

    a, b = sums of two overlapping subsets;    y = a + b,  a b,  1 / a  or  sqrt a

All runs of a model are members of one batch; they see the same endless Sobol sequence and differ
in their initial weights alone. What the code behind Table 1 did (`as-run`): of the product twenty
runs, of which the ten with the least test error are reported; tests on twice the training range, for
the division on [-0.5, 0]; and Julia's `norm(params, 1)`, which sums the Euclidean norms of the weight
arrays. The paper prints ten runs, the L1 norm, and tests on [-4, 4] and [-0.5, 0.5], where 1 / a has
poles. Gates begin at 1 in the NPU, but at 0.5, as the paper recommends, in the RealNPU.
The Sobol sequence must not be scrambled: its first, strongly structured batches are what brings
an NMU off the plateau of the product.

Ours is one recipe for every task and unit and spends a twelfth of the gradient steps: each run
has four starts, two from the code's weights and two from the units' own, 2000 steps of Adam each
at a rate that falls to 0, under the L1 norm at its final weight. That ends in products of many
hidden units with gates between 0 and 1, which fit inside the training range and nowhere else. So
every start is thinned to the 4, then 2, then 1 hidden units whose factors vary most (gates 1, no
imaginary part), each time refitted by Levenberg-Marquardt without penalty, and the start and size
with the least BIC on the training points are kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
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
    beside,
    counted,
    markdown,
    median_deviation,
    number,
)
from odediscovery.experiments.drawing import LOOK, STYLE, page
from odediscovery.experiments.refit import embed, refit, thinned
from odediscovery.experiments.regression import (
    Draw,
    Training,
    count_parameters,
    errors,
    flat,
    group_norm,
    grown_tenfold,
    l1,
    layers,
    rows_of,
    train,
)
from odediscovery.plots.figures import COLOURS
from odediscovery.runtime.device import device_of
from odediscovery.runtime.monitor import Monitor
from odediscovery.units import NALU, NAU, NMU, NPU, AbstractUnit, NaiveNPU, RealNPU

INPUTS, SUBSET, OVERLAP = 100, 50, 12
BATCH, TEST = 128, 10_000
# How many runs, the best on the test points, Table 1 is about.
REPORTED = 10
MODELS = ("NPU", "RealNPU", "NMU", "NALU", "NaiveNPU")
OURS = ", ours"
RECOMMENDED = ("NPU", "RealNPU", "NMU")
# Sobol numbers drawn at once: many more than a batch, for the engine is slow to start.
CHUNK = 64


@dataclass(frozen=True)
class Operation:
    """One operation: ranges, learning rate and the L1 schedule of the code; `printed_beta` is Table A6's."""

    sign: str
    operation: Callable[[Tensor, Tensor], Tensor]
    train: tuple[float, float]
    test: tuple[float, float]
    printed_test: tuple[float, float]
    rate: float
    beta: tuple[float, float]
    published: tuple[tuple[float, float], ...]
    printed_beta: tuple[float, float] | None = None


@dataclass(frozen=True)
class Setting:
    """Sec. 4.3 and Table A6 of the paper, and its code; fields from `our_steps` on are this package's.

    Args:
        runs: of a model; the code ran `mult_runs` on the product.
        first: ends of the first weights.
        nmu_steps: of the NMU, by task, where they are fewer than `steps`.
        nmu_beta: first L1 weights of the NMU, by task, where they are less than its.
        starts: of each run, from the code's weights and from the units' own.
        anneal: share of the steps after which the rate falls.
        kept: hidden units that are left, one count after the other.
        refit_samples, refit_steps, refit_tolerance: of the Levenberg-Marquardt refits.
        exact: mean squared error, relative to that of y, which counts as exact.
    """

    runs: int = REPORTED
    mult_runs: int = 20
    steps: int = 100_000
    first: tuple[float, float] = (0.0, 0.1)
    nmu_steps: tuple[tuple[str, int], ...] = (("+", 10_000), ("×", 20_000))
    nmu_beta: tuple[tuple[str, float], ...] = (("+", 1e-7), ("×", 1e-9))
    our_steps: int = 2000
    starts: tuple[int, int] = (2, 2)
    anneal: float = 0.4
    kept: tuple[int, ...] = (4, 2, 1)
    refit_samples: int = 1024
    refit_steps: int = 60
    refit_tolerance: float = 1e-9
    exact: float = 1e-20

    def steps_of(self, model: str, task: Operation, preset: str) -> int:
        """Gradient steps of the published training; the paper prints one number for all."""
        fewer = dict(self.nmu_steps) if model == "NMU" and preset == "as-run" else {}
        return min(fewer.get(task.sign, self.steps), self.steps)

    def beta(self, model: str, task: Operation, step: int, preset: str) -> float:
        """L1 weight of the published training at a step.

        Table A6 prints an end below the start for the product: the end holds from the first step.
        """
        if preset == "paper":
            return grown_tenfold(step, *(task.printed_beta or task.beta))
        low, high = task.beta
        return grown_tenfold(step, dict(self.nmu_beta).get(task.sign, low) if model == "NMU" else low, high)


FULL = Setting()
QUICK = replace(FULL, runs=2, mult_runs=2, steps=25, our_steps=25, refit_samples=128, refit_steps=3)


TASKS = {
    "add": Operation(
        "+",
        lambda a, b: a + b,
        (-1, 1),
        (-2, 2),
        (-4, 4),
        1e-2,
        (1e-5, 1e-4),
        ((0.092, 0.031), (0.063, 0.014), (0.00602, 0.00019), (740, 330), (161.65, 0.11)),
    ),
    "mult": Operation(
        "×",
        lambda a, b: a * b,
        (-1, 1),
        (-2, 2),
        (-4, 4),
        5e-3,
        (1e-5, 1e-4),
        ((4.28, 0.9), (3.09, 0.74), (1.7, 1.4), (2.9e83, 2.9e83), (3750, 870)),
        (1e-5, 1e-7),
    ),
    "div": Operation(
        "÷",
        lambda a, b: 1 / a,
        (0, 0.5),
        (-0.5, 0),
        (-0.5, 0.5),
        5e-3,
        (1e-9, 1e-7),
        ((1e-7, 1e-7), (1.4e-6, 4e-7), (1.622, 0.081), (530, 200), (5.4e17, 5.4e17)),
    ),
    "sqrt": Operation(
        "√",
        lambda a, b: a.sqrt(),
        (0, 2),
        (0, 4),
        (0, 4),
        5e-3,
        (1e-6, 1e-4),
        ((0.054, 0.0078), (0.017, 0.011), (10.96, 0.89), (7300, 7200), (9.3e8, 9.3e8)),
    ),
}


class LargeArithmetic(Experiment):
    """Four tasks, five models, ten runs each, of the product twenty."""

    name = "large-arithmetic"
    title = "Large arithmetic (Fig. 7, Table 1): test error (MSE)"

    def batches(self, plan: Plan) -> list[dict[str, str]]:
        # The three that the paper recommends come first: they are what is compared.
        groups = (tuple(m + OURS for m in RECOMMENDED), RECOMMENDED, MODELS[3:])
        return [{"model": m, "task": t} for part in groups for t in TASKS for m in part]

    def run(self, plan: Plan, batch: dict[str, str], monitor: Monitor) -> tuple[list[Row], Arrays]:
        task, source = TASKS[batch["task"]], plan.generator(batch)
        model = batch["model"].removesuffix(OURS)
        if model == batch["model"]:
            network, steps = _train_published(model, task, plan, source, monitor)
        else:
            network, steps = _train_ours(model, task, plan, source, monitor)
        low, high = task.test if plan.preset == "as-run" else task.printed_test
        dtype = flat(network).dtype
        inside, outside = (_points(a, b, TEST).to(dtype) for a, b in (task.train, (low, high)))
        trained, tested = (errors(network, x, _targets(task, x))[:, 0] for x in (inside, outside))
        columns = {"test mse": tested, "train mse": trained, "parameters": count_parameters(network)}
        return rows_of(columns, {"steps": steps, "rate": task.rate}), {}

    def table(self, plan: Plan, ran: Sequence[Ran]) -> str:
        rows = []
        for r in ran:
            task = TASKS[r.batch["task"]]
            value, spread = task.published[MODELS.index(r.batch["model"].removesuffix(OURS))]
            ours, deviation = median_deviation(np.sort(r.column("test mse"))[:REPORTED])
            rows.append(
                (
                    f"{r.batch['model']}{' (ends as RealNPU)' * (r.batch['model'] == 'NPU' + OURS)} {task.sign}",
                    f"{number(value)} ± {number(spread)}",
                    f"{number(ours)} ± {number(deviation)}",
                    number(ours / value),
                    beside(ours, value, spread),
                    *(number(float(np.median(r.column(name)))) for name in ("test mse", "train mse")),
                    number(float(np.median(r.column("parameters"))), 4),
                    f"{r.seconds:.0f}",
                )
            )
        return f"As run: {counted([row[4] for row in rows if OURS not in row[0]])}\n\n" + markdown(
            (
                "model and task",
                "published, median ± MAD",
                f"ours, best {REPORTED}, median ± MAD",
                "ours / published",
                "within 2 MAD, better or worse",
                "median of all runs",
                "of their training MSE",
                "parameters above 0.001",
                "seconds",
            ),
            rows,
        )

    def figure(self, plan: Plan, ran: Sequence[Ran]) -> Figure:
        """Fig. 7: test error over the number of parameters, every run a point."""
        with rc_context(STYLE):
            figure, labelled = page(rows=2), dict[str, Any]()
            for axis, (key, task) in zip(figure.subplots(2, 2).flat, TASKS.items(), strict=True):
                for r in (r for r in ran if r.batch["task"] == key):
                    model = r.batch["model"]
                    colour = COLOURS[MODELS.index(model.removesuffix(OURS))]
                    mse = r.column("test mse").clip(*LOOK.squares)
                    marker = "x" if model.endswith(OURS) else "o"
                    (labelled[model],) = axis.plot(r.column("parameters"), mse, marker, color=colour)
                axis.set(
                    title=task.sign, xscale="log", yscale="log", ylabel="test MSE", xlabel="parameters above 0.001"
                )
            figure.legend(labelled.values(), labelled.keys(), loc="outside lower left", ncols=len(RECOMMENDED) + 1)
        return figure


def _train_published(
    model: str, task: Operation, plan: Plan, source: torch.Generator, monitor: Monitor
) -> tuple[nn.Sequential, int]:
    """RMSProp at a constant rate under a penalty that grows; the networks and their steps."""
    how, as_run = plan.pick(FULL, QUICK), plan.preset == "as-run"
    steps = how.steps_of(model, task, plan.preset)
    runs = how.mult_runs if as_run and task.sign == "×" else how.runs
    network = _network(model, runs, how.first, source)
    size = group_norm if as_run else l1
    training = Training(steps, task.rate, "rmsprop", project=plan.preset == "paper")
    train(
        network,
        _draw(task, plan),
        training,
        monitor,
        name=f"{model} {task.sign}",
        device=plan.device,
        penalty=lambda step: how.beta(model, task, step, plan.preset) * size(network),
    )
    return network, steps


def _train_ours(
    model: str, task: Operation, plan: Plan, source: torch.Generator, monitor: Monitor
) -> tuple[nn.Sequential, int]:
    """The best of several starts of every run: Adam at a falling rate, thinned, refitted."""
    how = plan.pick(FULL, QUICK)
    runs, steps, count = how.runs, how.our_steps, sum(how.starts)
    network = _network(model, runs * count, how.first, source)
    own = _units(model, runs * count, source)
    own_start = torch.arange(runs * count) % count >= how.starts[0]
    for value, fresh in zip(network.parameters(), own.parameters(), strict=True):
        value.data[own_start] = fresh.data[own_start].to(value)

    training = Training(steps, task.rate, anneal=how.anneal)
    train(
        network,
        _draw(task, plan),
        training,
        monitor,
        name=f"{model}{OURS} {task.sign}",
        device=plan.device,
        penalty=lambda _step: task.beta[1] * l1(network),
    )
    monitor.stage("Levenberg-Marquardt", len(how.kept))
    final = _units(model, runs, source)
    _finish(network.double(), final, task, how)
    return final, steps * count


def _finish(network: nn.Sequential, final: nn.Sequential, task: Operation, how: Setting) -> None:
    """Thin and refit all starts; the size and start of least BIC of every run go into `final`."""
    samples = how.refit_samples
    x = _points(*task.train, samples).double()
    y = _targets(task, x)
    floor = how.exact * float(y.square().mean())
    count, chains, criteria = sum(how.starts), [], []
    for kept in how.kept:
        network = thinned(network, x, y, kept)
        chains.append(network)
        members = len(flat(network))
        shared, target = (part.expand(members, -1, -1) for part in (x, y))
        left = refit(network, shared, target, torch.ones_like(target), how.refit_steps, how.refit_tolerance)
        free = sum(p[0].numel() for p in network.parameters() if p.requires_grad)
        # Less than `floor` is rounding and no reason for a larger network.
        error = (left / samples).clamp_min(floor).nan_to_num(torch.inf)
        criteria.append(samples * error.log() + free * math.log(samples))
    # [runs, sizes x starts]
    table = torch.stack(criteria).reshape(len(how.kept), -1, count).movedim(0, 1).flatten(1)
    best = table.argmin(dim=1)
    for size, chain in enumerate(chains):
        runs = (best // count == size).nonzero()[:, 0]
        embed(chain, runs * count + best[runs] % count, final, runs)


def _units(model: str, runs: int, source: torch.Generator) -> nn.Sequential:
    """A network of a model as its units begin by themselves."""
    base: dict[str, Any] = {"members": runs, "generator": source}
    make: dict[str, Callable[[], tuple[AbstractUnit, AbstractUnit]]] = {
        "NPU": lambda: (NAU(INPUTS, INPUTS, **base), NPU(INPUTS, 1, gate_gradient="zero", **base)),
        "RealNPU": lambda: (NAU(INPUTS, INPUTS, **base), RealNPU(INPUTS, 1, gate_gradient="zero", **base)),
        "NMU": lambda: (NAU(INPUTS, INPUTS, **base), NMU(INPUTS, 1, **base)),
        "NALU": lambda: (NALU(INPUTS, INPUTS, **base), NALU(INPUTS, 1, **base)),
        "NaiveNPU": lambda: (NAU(INPUTS, INPUTS, **base), NaiveNPU(INPUTS, 1, **base)),
    }
    return nn.Sequential(*make[model]())


def _network(model: str, runs: int, first: tuple[float, float], source: torch.Generator) -> nn.Sequential:
    """The same with the code's weights: matrices uniform between the ends `first`, the NPU's gates 1."""
    network = _units(model, runs, source)
    for unit in layers(network):
        for name, value in unit.named_parameters():
            if name == "gate" and model == "NPU":
                value.data.fill_(1.0)
            elif value.dim() > 2 and name != "imaginary":
                value.data.uniform_(*first, generator=source)
    return network.float()


def _draw(task: Operation, plan: Plan) -> Draw:
    points = _batches(*task.train, plan)

    def draw() -> tuple[Tensor, Tensor]:
        x = next(points)
        return x, _targets(task, x)

    return draw


def _targets(task: Operation, x: Tensor) -> Tensor:
    """y of inputs x [1, batch, inputs], [1, batch, 1]."""
    second = SUBSET - OVERLAP
    a = x[..., :SUBSET].sum(dim=-1, keepdim=True)
    b = x[..., second : second + SUBSET].sum(dim=-1, keepdim=True)
    return task.operation(a, b)


def _batches(low: float, high: float, plan: Plan) -> Iterator[Tensor]:
    """Batches [1, batch, inputs] of one endless Sobol sequence."""
    engine = _engine()
    while True:
        chunk = (low + (high - low) * engine.draw(CHUNK * BATCH)).to(device_of(plan.device))
        yield from chunk.reshape(CHUNK, 1, BATCH, INPUTS)


def _points(low: float, high: float, count: int) -> Tensor:
    draw: Tensor = _engine().draw(count)
    return (low + (high - low) * draw)[None]


def _engine() -> Any:
    make: Any = torch.quasirandom.SobolEngine  # torch gives it no types
    return make(INPUTS).fast_forward(1)  # the first point is 0
