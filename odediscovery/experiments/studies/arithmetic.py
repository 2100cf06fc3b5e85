"""Arithmetic by power units: simple and large tasks of Neural Power Units, division with redundant inputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any, ClassVar

import numpy as np
import torch
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor, nn

from odediscovery.experiments import training as nets
from odediscovery.experiments.base import OURS, Arrays, Experiment, Job, Plan, Ran, Row, find, having
from odediscovery.experiments.figures import SHARES, Panel, draw_surface, page
from odediscovery.experiments.tables import beside, counted, markdown, median_deviation, number, share, spread
from odediscovery.plots.axes import COLOURS
from odediscovery.runtime.device import device_of
from odediscovery.units import NALU, NAU, UNITS, Dense, RealNPU

# Column of a table that compares an error with the published one.
WITHIN = "within 2 MAD, better or worse"
# Eq. 15 clips gates: they have no gradient outside [0, 1].
CLIPPED = {"gate_gradient": "zero"}


# Simple arithmetic: hidden width, that of dense nets; training range of both inputs; learning rates.
SIMPLE_MODELS = ("NPU", "RealNPU", "NMU", "NALU", "iNALU", "Dense")
SIMPLE_TASKS = ("+", "×", "÷", "√")
WIDTH, DENSE_WIDTH = 6, {"paper": 10, "as-run": 50}
LOW, HIGH = 0.1, {"paper": 2.0, "as-run": 2.1}
RATE = {"paper": 1e-3, "as-run": 5e-3}
# Table A2: median and median absolute deviation of 20 models.
SIMPLE_PUBLISHED = {
    "NPU": ((0.2, 0.11), (0.37, 0.23), (0.23, 0.13), (0.031, 0.025)),
    "RealNPU": ((0.08, 0.021), (0.066, 0.026), (0.085, 0.038), (0.004, 0.001)),
    "NMU": ((0.2, 0.18), (0.005, 0.004), (11.399, 0.035), (0.16, 0.002)),
    "NALU": ((2.69, 0.22), (4.55, 0.2), (3.33, 0.18), (0.034, 0.006)),
    "iNALU": ((2.18, 0.13), (3.453, 0.065), (2.54, 0.26), (0.049, 0.011)),
    "Dense": ((2.103, 0.04), (3.546, 0.035), (14.16, 0.23), (0.084, 0.007)),
}
# Test grid of either input: from, to, step; printed as -4.1:0.2:4, for the root as 0.1:0.1:4.
LINES = {task: (-4.1, 3.9, 0.2) for task in SIMPLE_TASKS} | {"√": (0.1, 4.0, 0.1)}
# Range of the colour scale of errors.
ERRORS = (1e-3, 1e2)


class SimpleArithmetic(Experiment):
    """Sec. 4.2 of Neural Power Units: six models, 20 runs each, four operations in one network (Fig. 6, Table A2).

        f(x, y) = (x + y, x y, x / y, sqrt x),    x, y ~ U(0.1, 2)

    The test is the mean absolute error on a grid that includes negative numbers. Details that the paper omits follow
    the code: NALU's biases start with Glorot's values for a matrix of one column, and iNALU's regulariser is a sum over
    all parameters, not a mean.
    """

    name = "simple-arithmetic"
    title = "Simple arithmetic (Fig. 6, Table A2): mean absolute error on the test grid"
    full = nets.Setting(steps=20_000, batch=100)
    quick = replace(full, runs=3, steps=300)
    axes: ClassVar = {"model": SIMPLE_MODELS}

    def run(self, job: Job) -> tuple[list[Row], Arrays]:
        model, how, preset = job.model, self.how(job.plan), job.plan.preset
        as_run = preset == "as-run"
        network = simple_network(model, how.runs, preset, job.source)
        rate = RATE["paper" if model == "iNALU" else preset]
        method = "rmsprop" if as_run and model in ("NALU", "iNALU") else "adam"
        training = replace(how, rate=rate, method=method, project=not as_run)
        draw = nets.sampler((how.runs, how.batch, 2), (LOW, HIGH[preset]), job.source, targets)
        penalty = partial(nets.inalu_penalty, network, steps=how.steps, summed=True) if model == "iNALU" else None
        nets.train(network, draw, training, job, penalty=penalty)
        columns, surfaces = dict[str, Tensor](), Arrays()
        for i, task in enumerate(SIMPLE_TASKS):
            line = np.arange(LINES[task][0], LINES[task][1] + LINES[task][2] / 2, LINES[task][2])
            grid = torch.cartesian_prod(*[torch.tensor(line)] * 2)[None]
            with torch.no_grad():
                off = (network(grid) - targets(grid)).abs()[..., i].nan_to_num(torch.inf)
            columns[f"error {task}"] = nets.errors(network, grid, targets(grid), 1)[:, i]
            # The surface is that of the best run at this task.
            surfaces[f"surface {i}"] = off[off.mean(dim=1).argmin()].reshape(len(line), -1).numpy()
        return nets.rows_of(columns | {"parameters": nets.count_parameters(network)}, training.row()), surfaces

    def table(self, plan: Plan, ran: Sequence[Ran]) -> str:
        rows = []
        for r, (i, task) in product(ran, enumerate(SIMPLE_TASKS)):
            published, error = SIMPLE_PUBLISHED[r.model][i], r.column(f"error {task}")
            ours = median_deviation(error)
            cells = {"model and task": f"{r.model} {task}", "published, median ± MAD": spread(*published)}
            cells |= {"ours, median ± MAD": spread(*ours), "our best run": number(float(error.min()))}
            rows.append(cells | {WITHIN: beside(ours[0], *published)})
        return f"{counted([row[WITHIN] for row in rows])}\n\n{markdown(rows)}"

    def draw(self, plan: Plan, ran: Sequence[Ran]) -> Figure:
        """Draw Fig. 6: the error surface of the best run of each model at each task."""
        # Four rows of square panels are no taller than three rows of other panels.
        figure = page(rows=len(SIMPLE_TASKS) - 1, wide=True)
        axes = figure.subplots(len(SIMPLE_TASKS), len(SIMPLE_MODELS), squeeze=False)
        for (i, task), (j, model) in product(enumerate(SIMPLE_TASKS), enumerate(SIMPLE_MODELS)):
            axis, r = axes[i, j], find(ran, model=model)
            axis.set(title=model if i == 0 else "", xticks=[], yticks=[])
            axis.set_ylabel(task if j == 0 else "", rotation=0, ha="right", va="center")
            if r is not None:
                box = (*LINES[task][:2], *LINES[task][:2])
                image = draw_surface(axis, r.arrays[f"surface {i}"], box, LogNorm(*ERRORS), cmap="viridis_r")
                side = HIGH["paper"] - LOW
                axis.add_patch(Rectangle((LOW, LOW), side, side, ec=COLOURS[1], fc="none"))
        figure.colorbar(image, ax=axes, label="absolute error")
        figure.suptitle("Best of the runs; x to the right, y upwards; red: training range")
        return figure


def targets(x: Tensor) -> Tensor:
    """(x + y, x y, x / y, sqrt |x|) of [..., 2]; the root is tested on positive x only."""
    a, b = x[..., 0], x[..., 1]
    return torch.stack([a + b, a * b, a / b, a.abs().sqrt()], dim=-1)


def simple_network(model: str, runs: int, preset: str, source: torch.Generator) -> nn.Sequential:
    """Build a network for simple arithmetic in the variant of a preset."""
    outputs, wide = len(SIMPLE_TASKS), DENSE_WIDTH[preset]
    if model == "Dense":
        sigmoid = {"activation": "sigmoid"}
        return nets.chain(runs, source, (Dense, 2, wide, sigmoid), (Dense, wide, wide, sigmoid), (Dense, wide, outputs))
    unit: Any = UNITS[model]
    if model in ("NALU", "iNALU"):
        biases = {"init_bias": _as_a_column} if model == "NALU" else {}
        return nets.chain(runs, source, (unit, 2, WIDTH, biases), (unit, WIDTH, outputs, biases))
    gates = CLIPPED if model in ("NPU", "RealNPU") else {}
    if preset == "paper":
        return nets.chain(runs, source, (NAU, 2, WIDTH), (unit, WIDTH, outputs, gates))
    return nets.chain(runs, source, (unit, 2, WIDTH, gates), (NAU, WIDTH, outputs))


def _as_a_column(bias: Tensor, generator: torch.Generator | None = None) -> None:
    """Initialise a vector by Glorot's rule for a matrix of one column, as the authors' code does."""
    nn.init.xavier_uniform_(bias[:, None], generator=generator)


# Large arithmetic: numbers of inputs, of those in a sum and in both sums; batch and test samples; number of best runs
# on the test points in Table 1, and of the code's runs of the product; batches of Sobol numbers drawn at once, since
# each call of the engine is slow.
INPUTS, SUBSET, OVERLAP, BATCH, TEST, REPORTED, MULT_RUNS, CHUNK = 100, 50, 12, 128, 10_000, 10, 20, 64
MODELS = ("NPU", "RealNPU", "NMU", "NALU", "NaiveNPU")
RECOMMENDED = ("NPU", "RealNPU", "NMU")


@dataclass(frozen=True)
class Operation:
    """One operation: ranges, learning rate, and the L1 weights of the code and of Table A6, if they differ; for the NMU
    the code has fewer steps and a smaller first L1 weight."""

    sign: str
    operation: Callable[[Tensor, Tensor], Tensor]
    train: tuple[float, float]
    test: tuple[float, float]
    printed_test: tuple[float, float]
    rate: float
    beta: tuple[float, float]
    printed_beta: tuple[float, float] | None = None
    nmu_steps: int | None = None
    nmu_beta: float | None = None

    def targets(self, x: Tensor) -> Tensor:
        """Compute y [1, batch, 1] from inputs x [1, batch, inputs]."""
        second = SUBSET - OVERLAP
        a = x[..., :SUBSET].sum(dim=-1, keepdim=True)
        return self.operation(a, x[..., second : second + SUBSET].sum(dim=-1, keepdim=True))


TASKS = {
    "add": Operation("+", torch.add, (-1, 1), (-2, 2), (-4, 4), 1e-2, (1e-5, 1e-4), None, 10_000, 1e-7),
    "mult": Operation("×", torch.mul, (-1, 1), (-2, 2), (-4, 4), 5e-3, (1e-5, 1e-4), (1e-5, 1e-7), 20_000, 1e-9),
    "div": Operation("÷", lambda a, b: 1 / a, (0, 0.5), (-0.5, 0), (-0.5, 0.5), 5e-3, (1e-9, 1e-7)),
    "sqrt": Operation("√", lambda a, b: a.sqrt(), (0, 2), (0, 4), (0, 4), 5e-3, (1e-6, 1e-4)),
}
# Table 1: median and deviation of every model.
PUBLISHED = {
    "add": ((0.092, 0.031), (0.063, 0.014), (0.00602, 0.00019), (740, 330), (161.65, 0.11)),
    "mult": ((4.28, 0.9), (3.09, 0.74), (1.7, 1.4), (2.9e83, 2.9e83), (3750, 870)),
    "div": ((1e-7, 1e-7), (1.4e-6, 4e-7), (1.622, 0.081), (530, 200), (5.4e17, 5.4e17)),
    "sqrt": ((0.054, 0.0078), (0.017, 0.011), (10.96, 0.89), (7300, 7200), (9.3e8, 9.3e8)),
}
# Range of the code's initial weights. Ours: starts per run, from these weights and from the units' own; share of the
# steps after which the rate falls; successive numbers of hidden units; tolerance of the refits; mean squared error
# [mean square of y] that counts as exact.
FIRST = (0.0, 0.1)
STARTS, ANNEAL, KEPT, TOLERANCE, EXACT = (2, 2), 0.4, (4, 2, 1), 1e-9, 1e-20


class LargeArithmetic(Experiment):
    """Sec. 4.3 of Neural Power Units: an operation on two sums of 50 of 100 inputs (Table 1, Fig. 7).

        a, b = sums of two overlapping subsets;    y = a + b,  a b,  1 / a  or  sqrt a

    All runs of a model are members of one batch, with the same endless Sobol sequence; they differ only in their
    initial weights. The sequence must not be scrambled: its first, strongly structured batches move an NMU off the
    plateau of the product.

    Ours is one recipe for every task and unit: four starts per run, two from the code's weights and two from the units'
    own, with 2000 steps of Adam at a rate that falls to 0, under the L1 norm at its final weight. This gives products
    of many hidden units with gates between 0 and 1, which do not extrapolate. So every start is reduced to the 4, then
    2, then 1 hidden units whose factors vary most (gates 1, no imaginary part), and refitted by Levenberg-Marquardt
    each time; the start and size with the least BIC on the training points are kept.
    """

    name = "large-arithmetic"
    title = "Large arithmetic (Fig. 7, Table 1): test error (MSE)"
    across = 2
    full = nets.Setting(runs=REPORTED, steps=100_000, our_steps=2000)
    quick = replace(full, runs=2, steps=25, our_steps=25, refit_samples=128, refit_steps=3)

    def batches(self, plan: Plan) -> list[dict[str, str]]:
        # The three units that the paper recommends come first, since they are compared.
        groups = (tuple(m + OURS for m in RECOMMENDED), RECOMMENDED, MODELS[3:])
        return [{"model": m, "task": t} for part in groups for t in TASKS for m in part]

    def run(self, job: Job) -> tuple[list[Row], Arrays]:
        task, how = TASKS[job.batch["task"]], self.how(job.plan)
        network, steps = (_train_ours if job.ours else _train_published)(job.model, task, how, job)
        test = task.test if job.plan.preset == "as-run" else task.printed_test
        dtype = nets.flat(network).dtype
        inside, outside = (_points(*ends, TEST).to(dtype) for ends in (task.train, test))
        trained_to, tested = (nets.errors(network, x, task.targets(x))[:, 0] for x in (inside, outside))
        columns = {"test mse": tested, "train mse": trained_to, "parameters": nets.count_parameters(network)}
        return nets.rows_of(columns, {"steps": steps, "rate": task.rate}), {}

    def line(self, r: Ran) -> dict[str, str]:
        model, task = r.batch["model"], TASKS[r.batch["task"]]
        published = PUBLISHED[r.batch["task"]][MODELS.index(r.model)]
        ours = median_deviation(np.sort(r.column("test mse"))[:REPORTED])
        return {
            "model and task": f"{model}{' (ends as RealNPU)' * (model == 'NPU' + OURS)} {task.sign}",
            "published, median ± MAD": spread(*published),
            f"ours, best {REPORTED}, median ± MAD": spread(*ours),
            "ours / published": number(ours[0] / published[0]),
            WITHIN: beside(ours[0], *published),
            "median of all runs": number(r.median("test mse")),
            "of their training MSE": number(r.median("train mse")),
            "parameters above 0.001": number(r.median("parameters"), 4),
            "seconds": f"{r.seconds:.0f}",
        }

    def table(self, plan: Plan, ran: Sequence[Ran]) -> str:
        verdicts = [self.line(r)[WITHIN] for r in ran if not r.ours]
        return f"As run: {counted(verdicts)}\n\n{super().table(plan, ran)}"

    def panels(self, ran: Sequence[Ran]) -> Iterable[Panel]:
        """Fig. 7: test error over the number of parameters, one point per run."""
        axis = dict.fromkeys(("xscale", "yscale"), "log") | {"ylabel": "test MSE", "xlabel": "parameters above 0.001"}
        look = {"marker": "x", "ls": ""}
        for key, task in TASKS.items():
            points = {r.batch["model"]: (r.column("parameters"), r.column("test mse")) for r in having(ran, task=key)}
            yield Panel(task.sign, curves=points, ends=(1e-9, 1e9), look=look, axis=axis)


def _train_published(model: str, task: Operation, how: nets.Setting, job: Job) -> tuple[nn.Sequential, int]:
    """Train by RMSProp at a constant rate under a growing penalty; return the networks and the number of steps."""
    runs, steps, norm = how.runs, how.steps, nets.l1
    # If Table A6 prints a last weight below the first, the last one applies to all steps.
    first, last = task.printed_beta or task.beta
    as_run = job.plan.preset == "as-run"
    if as_run:
        norm, (first, last) = nets.group_norm, task.beta
        if task.sign == "×" and job.plan.full:
            runs = MULT_RUNS
        if model == "NMU":
            steps, first = min(task.nmu_steps or steps, steps), task.nmu_beta or first
    network = large_network(model, runs, job.source)
    training = replace(how, steps=steps, rate=task.rate, method="rmsprop", project=not as_run)
    penalty = lambda step: nets.grown_tenfold(step, first, last) * norm(network)  # noqa: E731
    nets.train(network, _draw(task, job.plan), training, job, penalty=penalty)
    return network, steps


def _train_ours(model: str, task: Operation, how: nets.Setting, job: Job) -> tuple[nn.Sequential, int]:
    """Train several starts of every run by Adam at a falling rate, thin and refit them, and keep the
    size and start with the least BIC of every run."""
    count = sum(STARTS)
    runs = how.runs * count
    network = large_network(model, runs, job.source)
    own = _units(model, runs, job.source)
    own_start = torch.arange(runs) % count >= STARTS[0]
    for value, drawn in zip(network.parameters(), own.parameters(), strict=True):
        value.data[own_start] = drawn.data[own_start].to(value)
    training = replace(how, steps=how.our_steps, rate=task.rate, anneal=ANNEAL)
    nets.train(network, _draw(task, job.plan), training, job, penalty=lambda _step: task.beta[1] * nets.l1(network))
    job.monitor.stage("Levenberg-Marquardt", len(KEPT))
    final, network, samples = _units(model, how.runs, job.source), network.double(), how.refit_samples
    x = _points(*task.train, samples).double()
    y = task.targets(x)
    floor, chains, criteria = EXACT * float(y.square().mean()), [], []
    for kept in KEPT:
        network = nets.thinned(network, x, y, kept)
        chains.append(network)
        shared, target = (part.expand(len(nets.flat(network)), -1, -1) for part in (x, y))
        left = nets.refit(network, shared, target, torch.ones_like(target), how.refit_steps, TOLERANCE)
        free = sum(p[0].numel() for p in network.parameters() if p.requires_grad)
        # Errors below `floor` are rounding and do not justify a larger network.
        error = (left / samples).clamp_min(floor).nan_to_num(torch.inf)
        criteria.append(samples * error.log() + free * math.log(samples))
    # [runs, sizes x starts]
    best = torch.stack(criteria).reshape(len(KEPT), -1, count).movedim(0, 1).flatten(1).argmin(dim=1)
    for size, small in enumerate(chains):
        into = (best // count == size).nonzero()[:, 0]
        nets.embed(small, into * count + best[into] % count, final, into)
    return final, how.our_steps * count


def _units(model: str, runs: int, source: torch.Generator) -> nn.Sequential:
    """Build a network of a model with the units' own initial weights."""
    first, gates = NALU if model == "NALU" else NAU, CLIPPED if model in ("NPU", "RealNPU") else {}
    return nets.chain(runs, source, (first, INPUTS, INPUTS), (UNITS[model], INPUTS, 1, gates))


def large_network(model: str, runs: int, source: torch.Generator) -> nn.Sequential:
    """Build a network with the code's initial weights: matrices uniform in FIRST, the NPU's gates 1."""
    network = _units(model, runs, source)
    for unit in nets.layers(network):
        for name, value in unit.named_parameters():
            if name == "gate" and model == "NPU":
                value.data.fill_(1.0)
            elif value.dim() > 2 and name != "imaginary":
                value.data.uniform_(*FIRST, generator=source)
    return network.float()


def _draw(task: Operation, plan: Plan) -> nets.Draw:
    """Draw batches from one endless Sobol sequence."""
    low, high = task.train

    def batches() -> Iterator[tuple[Tensor, Tensor]]:
        engine = _engine()
        while True:
            chunk = (low + (high - low) * engine.draw(CHUNK * BATCH)).to(device_of(plan.device))
            yield from ((x, task.targets(x)) for x in chunk.reshape(CHUNK, 1, BATCH, INPUTS))

    return batches().__next__


def _points(low: float, high: float, count: int) -> Tensor:
    draw: Tensor = _engine().draw(count)
    return (low + (high - low) * draw)[None]


def _engine() -> Any:
    make: Any = torch.quasirandom.SobolEngine  # torch gives it no types
    return make(INPUTS).fast_forward(1)  # the first point is 0


# Training range of division with its two test ranges, or twice the only one.
RANGES: dict[str, tuple[tuple[float, float], ...]] = {
    "[-20, -10]": ((-20, -10), (-40, -20), (-40, -20)),
    "[-2, -1]": ((-2, -1), (-6, -2), (-6, -2)),
    "[-1.2, -1.1]": ((-1.2, -1.1), (-6.1, -1.2), (-6.1, -1.2)),
    "[-0.2, -0.1]": ((-0.2, -0.1), (-2, -0.2), (-2, -0.2)),
    "[-2, 2]": ((-2, 2), (-6, -2), (2, 6)),
    "[0.1, 0.2]": ((0.1, 0.2), (0.2, 2), (0.2, 2)),
    "[1, 2]": ((1, 2), (2, 6), (2, 6)),
    "[1.1, 1.2]": ((1.1, 1.2), (1.2, 6), (1.2, 6)),
    "[10, 20]": ((10, 20), (20, 40), (20, 40)),
}
QUICK_RANGES = ("[1, 2]", "[-2, -1]")
DIVIDERS = ("RealNPU" + OURS, "RealNPU", "NPU", "NALU", "iNALU")
# Average success over all ranges (Mistry et al.); for the other units there are only figures.
PUBLISHED_RATE = 0.702
DIVISION_PUBLISHED = {"RealNPU": "70.2 % (85.3 % modified)", "RealNPU" + OURS: "91.6 % (NMRU, the best unit)"}
# Number of inputs; first and last published L1 weight; our learning rate.
TERMS, L1, OUR_RATE = 10, (1e-11, 1e-9), 0.02


@dataclass(frozen=True, eq=False)
class Quotients:
    """Ranges of the inputs of all members, [members, 2], and their pairs: numerator and denominator, [members, 2]."""

    ends: Tensor
    chosen: Tensor

    def draw(self, count: int, source: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw x [members, count, inputs] and compute x_i / x_j [members, count, 1]."""
        low, high = self.ends[:, :, None, None].unbind(dim=1)
        x = nets.uniform((len(self.chosen), count, TERMS), low, high, source)
        return x, self.of(x)

    def of(self, x: Tensor) -> Tensor:
        """x_i / x_j of every member's own pair, [members, batch, 1]."""
        pair = x.gather(2, self.chosen[:, None, :].expand(-1, x.shape[1], 2))
        return pair[..., :1] / pair[..., 1:]

    def threshold(self, x: Tensor) -> Tensor:
        """Test error of the exact solution with all weights off by 1e-5, [members]."""
        exponents = torch.full((len(x), TERMS), nets.WEIGHT_ERROR, dtype=x.dtype)
        exponents.scatter_(1, self.chosen[:, :1], 1.0 - nets.WEIGHT_ERROR)
        exponents.scatter_(1, self.chosen[:, 1:], -1.0 + nets.WEIGHT_ERROR)
        near = (torch.log(x.abs()) * exponents[:, None, :]).sum(dim=-1).exp()
        return (near - self.of(x).abs()[..., 0]).square().mean(dim=1)


class Division(Experiment):
    """Division with redundant inputs: y = x_i / x_j out of ten inputs, by one unit.

    Nine ranges of inputs times 25 seeds are the members of one batch. Success: the test error (MSE) lies below that of
    the exact solution whose weights are all off by 1e-5. Ours, the same for every range, is the schedule of this
    package's fits: several random starts per seed, Adam, then Levenberg-Marquardt without penalty, and the start with
    the least training error.

    Source: Mistry, Farrahi, Hare, Learning division with neural arithmetic logic modules (2021).
    """

    name = "division"
    title = "Division with ten inputs: success rate over nine ranges"
    # Sizes of Table 1 and the appendix.
    full = nets.Setting(
        25, 50_000, batch=128, rate=5e-3, points=10_000, project=False, our_steps=600, refit_samples=512, refit_steps=80
    )
    quick = replace(full, runs=3, steps=100, our_steps=100)
    axes: ClassVar = {"model": DIVIDERS}

    def run(self, job: Job) -> tuple[list[Row], Arrays]:
        how, ours = self.how(job.plan), job.ours
        names = [name for name in (RANGES if job.plan.full else QUICK_RANGES) for _ in range(how.runs)]
        pairs = torch.stack([torch.randperm(TERMS, generator=job.source)[:2] for _ in names])
        ends = torch.tensor([RANGES[name] for name in names], dtype=torch.float64).unbind(dim=1)
        data, *halves = (Quotients(each, pairs) for each in ends)
        network = (_divide_ours if ours else _divide_published)(data, how, job)
        test = torch.cat([half.draw(how.points // 2, job.source)[0] for half in halves], dim=1)
        tested, limit = nets.errors(network, test, data.of(test))[:, 0], data.threshold(test)
        columns = {"range": names, "success": (tested < limit).int(), "test mse": tested, "threshold": limit}
        return nets.rows_of(columns, {"steps": how.our_steps if ours else how.steps}), {}

    def line(self, r: Ran) -> dict[str, str]:
        return {
            "model": r.batch["model"],
            "published average": DIVISION_PUBLISHED.get(r.batch["model"], "-"),
            "success": f"{r.column('success').mean():.1%}",
            "95 % interval": share(r.column("success")),
            **{name: f"{rate:.0%}" for name, rate in _rates(r).items()},
            "seconds": f"{r.seconds:.0f}",
        }

    def panels(self, ran: Sequence[Ran]) -> Iterable[Panel]:
        """The success rate of every model in every range."""
        rates = {(name, r.batch["model"]): np.array(rate) for r in ran for name, rate in _rates(r).items()}
        published = {(name, "RealNPU"): PUBLISHED_RATE for name in RANGES}
        axis = {"ylabel": "success rate", "ylim": (0.0, SHARES[1]), "xlabel": "training range"}
        yield Panel("RealNPU: published average", rates, kind="bars", published=published, axis=axis)


def _rates(r: Ran) -> dict[str, float]:
    """Success rates by range."""
    won: dict[str, list[int]] = {}
    for row in r.rows:
        won.setdefault(str(row["range"]), []).append(int(row["success"]))
    return {name: float(np.mean(each)) for name, each in won.items()}


def _divide_published(data: Quotients, how: nets.Setting, job: Job) -> nn.Sequential:
    """Train by Adam at a constant rate under a growing L1 norm, or iNALU's own regulariser."""
    network = nets.chain(len(data.chosen), job.source, (UNITS[job.model], TERMS, 1))

    def penalty(step: int) -> Tensor:
        if job.model == "iNALU":
            return nets.inalu_penalty(network, step, how.steps)
        return nets.grown_tenfold(step, *L1) * nets.l1(network)

    nets.train(network, lambda: data.draw(how.batch, job.source), how, job, penalty=penalty)
    return network


def _divide_ours(data: Quotients, how: nets.Setting, job: Job) -> nn.Sequential:
    """Train several starts by Adam, refit them, and keep the best; gates are 1 throughout."""
    runs, starts = len(data.chosen), how.starts
    many = Quotients(*(part.repeat_interleave(starts, dim=0) for part in (data.ends, data.chosen)))
    network = nets.chain(runs * starts, job.source, (RealNPU, TERMS, 1))
    nets.open_gates(network[0])
    training = replace(how, steps=how.our_steps, rate=OUR_RATE, loss="relative", project=True)
    nets.train(network, lambda: many.draw(how.batch, job.source), training, job)
    job.monitor.stage("Levenberg-Marquardt", 1)
    x, y = many.draw(how.refit_samples, job.source)
    left = nets.refit(network, x, y, 1.0 / nets.relative_scale(y), how.refit_steps, TOLERANCE)
    final, every = nets.chain(runs, None, (RealNPU, TERMS, 1)), torch.arange(runs)
    nets.embed(network, every * starts + left.reshape(runs, starts).argmin(dim=1), final, every)
    return final
