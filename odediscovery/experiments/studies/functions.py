"""Extrapolation of simple functions, including the identity, by dense nets and arithmetic units."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from odediscovery.experiments import training as nets
from odediscovery.experiments.base import Arrays, Experiment, Job, Plan, Ran, Row, columns, find
from odediscovery.experiments.figures import ERROR_ENDS, Panel
from odediscovery.experiments.tables import number, pivot, tally
from odediscovery.units import UNITS, AbstractUnit, Dense

# Ratio of the errors outside and inside the training range above which a model fails outside, and errors up to which
# it is rounding.
FAILS, ROUNDING = 10.0, 1e-6


class Identity(Experiment):
    """The identity y = x, trained on `inside` and tested on a grid between the ends `tested`."""

    inside: tuple[float, float]
    tested: tuple[float, float]

    @abstractmethod
    def begun(self, model: str, how: nets.Setting, source: torch.Generator) -> tuple[nn.Sequential, nets.Setting, Row]:
        """A fresh network of a model, how it is trained, and what its rows say of that."""

    def run(self, job: Job) -> tuple[list[Row], Arrays]:
        how = self.how(job.plan)
        network, training, told = self.begun(job.model, how, job.source)
        draw = nets.sampler((how.runs, how.batch, 1), self.inside, job.source, lambda x: x)
        nets.train(network, draw, training, job)
        x = np.linspace(*self.tested, how.points)
        with torch.no_grad():
            curves = network(torch.tensor(x)[None, :, None].expand(how.runs, -1, -1))[..., 0].numpy()
        off = np.nan_to_num(np.abs(curves - x), nan=np.inf)
        within = (self.inside[0] <= x) & (x <= self.inside[1])
        errors = {f"error {name}": off[:, at].mean(axis=1) for name, at in (("inside", within), ("outside", ~within))}
        middle = np.argsort(errors["error outside"], kind="stable")[how.runs // 2]
        arrays = {"x": x, "median run": curves[middle], "mean error": off.mean(axis=0)}
        return nets.rows_of(errors, training.row() | told | {"batch": how.batch}), arrays

    def panel(self, ran: Sequence[Ran], name: str, title: str, **axis: Any) -> Panel:
        """A panel of one array of every model over x, which exceeds the training range."""
        curves = {r.model: (r.arrays["x"], r.arrays[name]) for r in ran}
        return Panel(f"{title}; trained from {self.inside[0]:.0f} to {self.inside[1]:.0f}", curves=curves, axis=axis)


class Extrapolation(Identity):
    """Sec. 2 of the project report on NAC and NALU: dense nets learn y = x but do not extrapolate; 20 runs each.

    An MLP 1 -> 8 -> 8 -> 1 with one of nine activations is trained on the squared loss by gradient descent, clipped for
    stability; single NAC and NALU units on the smooth L1 loss by RMSProp. The report shows a figure without numbers and
    states no learning rate, batch size or number of steps.

    Source: nac_nalu_project.md, Sec. 2, after Fig. 1 of Trask et al. (2018).
    """

    name = "extrapolation"
    title = "Numerical extrapolation failures (NAC/NALU report, Sec. 2): y = x beyond the training"
    across = 2
    full = nets.Setting(steps=20_000, points=301)
    quick = replace(full, runs=3, steps=400)
    inside, tested = (-10.0, 10.0), (-10.0, 20.0)
    axes: ClassVar = {"model": (*nets.ACTIVATIONS, "NAC", "NALU")}

    def begun(self, model: str, how: nets.Setting, source: torch.Generator) -> tuple[nn.Sequential, nets.Setting, Row]:
        training = replace(how, rate=1e-3, method="sgd", clip=1.0)
        widths: tuple[int, ...] = (1, 8, 8, 1)
        if model in UNITS:
            widths, training = (1, 1), replace(how, rate=1e-2, method="rmsprop", loss="smooth-l1")
        return nets.stack(how.runs, source, model, *widths), training, {"loss": training.loss}

    def line(self, r: Ran) -> dict[str, str]:
        ratio = r.median("error outside") / r.median("error inside")
        published = "fails, the least" if r.model == "PReLU" else "fails"
        return {
            "model": r.model,
            "published": "-" if r.model in UNITS else published,
            "ours inside, median ± MAD": r.spread("error inside"),
            "ours outside, median ± MAD": r.spread("error outside"),
            "outside / inside": number(ratio),
            "runs above 10 x": tally(r.column("error outside") > FAILS * r.column("error inside")),
            "agrees": "-" if r.model in UNITS else "yes" if ratio > FAILS else "no",
        }

    def table(self, plan: Plan, ran: Sequence[Ran]) -> str:
        text = (
            f"{super().table(plan, ran)}\n"
            'Published as a figure only: "all nonlinear functions fail to learn to represent numbers outside", PReLU '
            f"the least. Failing is taken as an error above {FAILS:.0f} times that inside."
        )
        dense = {r.model: r.median("error outside") for r in ran if r.model not in UNITS}
        order = sorted(dense, key=dense.__getitem__)
        if "PReLU" in order and len(order) > 1:
            listed = ", ".join(f"{model} {number(dense[model])}" for model in order)
            text += f" Ours, by error outside: {listed}; PReLU is number {order.index('PReLU') + 1} of {len(order)}."
        return text + "\n"

    def panels(self, ran: Sequence[Ran]) -> Iterable[Panel]:
        """The median run of every model (left), and the errors of all runs inside and outside (right)."""
        limits = dict.fromkeys(("xlim", "ylim"), self.tested)
        done = {(where, r.model): r.column(f"error {where}") for where in ("inside", "outside") for r in ran}
        errors = {"yscale": "log", "ylabel": "mean absolute error"}
        yield self.panel(ran, "median run", "median run", xlabel="x", ylabel="prediction", **limits)
        yield Panel("every run", done, ends=ERROR_ENDS, axis=errors)


class Autoencoder(Identity):
    """Autoencoders 1 -> 8 -> 8 -> 8 -> 1 on y = x, which dense nets learn only in the training range.

    All models have the same sizes, optimiser (Adam) and data, and differ only in the nonlinearity: the nine of the
    report, none, or NAC, NAU or NALU layers instead of dense ones.

    Source: the seminar, "NN fail at Extrapolation", a figure after Fig. 1 of Trask et al. (2018).
    """

    name = "autoencoder"
    title = "Autoencoders of the same size on y = x (seminar; Trask et al., Fig. 1)"
    full = nets.Setting(points=201, anneal=0.5)
    quick = replace(full, runs=3, steps=100)
    inside, tested = (-5.0, 5.0), (-20.0, 20.0)
    axes: ClassVar = {"model": (*nets.ACTIVATIONS, "None", "NAC", "NAU", "NALU")}

    def begun(self, model: str, how: nets.Setting, source: torch.Generator) -> tuple[nn.Sequential, nets.Setting, Row]:
        return nets.stack(how.runs, source, model, 1, 8, 8, 8, 1), how, {}

    def line(self, r: Ran) -> dict[str, str]:
        outside = r.column("error outside")
        failed = (outside > FAILS * r.column("error inside")) & (outside > ROUNDING)
        dense = r.model in nets.ACTIVATIONS
        return {
            "model": r.model,
            "published": "fails" if dense else "-",
            "inside, median ± MAD": r.spread("error inside"),
            "outside, median ± MAD": r.spread("error outside"),
            "runs above 10 x": tally(failed),
            "agrees": "-" if not dense else "yes" if failed.mean() > 0.5 else "no",
        }

    def panels(self, ran: Sequence[Ran]) -> Iterable[Panel]:
        """The mean absolute error over x, as in the paper, but on a logarithmic scale."""
        limits = {"yscale": "log", "ylim": ERROR_ENDS}
        yield self.panel(ran, "mean error", "mean absolute error", xlabel="x", **limits)


FUNCTIONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "a + b": lambda a, b: a + b,
    "a - b": lambda a, b: a - b,
    "a b": lambda a, b: a * b,
    "a / b": lambda a, b: a / b,
    "a^2": lambda a, b: a * a,
    "sqrt a": lambda a, b: a.sqrt(),
}
FUNCTION_MODELS = {"static": ("ReLU6", "None", "NAC", "NALU"), "recurrent": ("LSTM", "ReLU", "NAC", "NALU")}
REACHES = ("interpolation", "extrapolation")
# Interpolation, then extrapolation, of every operation in the order above; 1000 stands for "> 999".
FUNCTIONS_PUBLISHED: dict[tuple[str, str], tuple[tuple[float, ...], tuple[float, ...]]] = {
    ("static", "ReLU6"): ((0.2, 0.0, 3.2, 4.2, 0.7, 0.5), (42.6, 29.0, 10.1, 37.2, 47.0, 10.3)),
    ("static", "None"): ((0.0, 0.0, 20.9, 35.0, 4.3, 2.2), (0.0, 0.0, 29.5, 52.3, 25.1, 20.0)),
    ("static", "NAC"): ((0.0, 0.0, 21.4, 37.1, 22.4, 3.6), (0.0, 0.0, 33.3, 61.3, 53.3, 16.4)),
    ("static", "NALU"): ((0.0, 0.0, 0.0, 5.3, 0.0, 0.0), (0.0, 0.0, 0.0, 0.7, 0.0, 0.0)),
    ("recurrent", "LSTM"): ((0.0,) * 6, (96.1, 97.0, 98.2, 95.6, 98.0, 95.8)),
    ("recurrent", "ReLU"): ((0.0,) * 6, (85.5, 70.9, 97.9, 863.5, 98.0, 34.1)),
    ("recurrent", "NAC"): ((0.0, 0.0, 1.5, 1.2, 2.3, 2.1), (0.0, 0.0, 88.4, 1000.0, 123.7, 1000.0)),
    ("recurrent", "NALU"): ((0.0,) * 6, (0.0, 0.0, 0.0, 1000.0, 0.0, 0.0)),
}
# Number of inputs (per step), inputs summed in a and b, and ranges and lengths inside and outside.
INPUTS = {"static": 10, "recurrent": 4}
SUBSETS = {"static": (slice(0, 5), slice(3, 8)), "recurrent": (slice(0, 2), slice(1, 3))}
LIMITS = {"static": ((1.0, 2.0), (2.0, 6.0)), "recurrent": ((0.1, 0.2), (0.1, 0.2))}
LENGTHS = {"static": (1, 1), "recurrent": (10, 100)}
# Hidden width, and largest entry of a gradient on sequences; quick and in full: gradient steps on sequences, and number
# of untrained nets, whose median error is 100 %. All are our own, since the sources do not describe the training.
WIDTH, CLIP, RECURRENT_STEPS, UNTRAINED = 8, 0.1, (4, 2000), (4, 30)


class Recurrent(nn.Module):
    """h_t = cell([x_t, h_{t-1}]), h_0 = 0, y = output(h_T); x [members, batch, steps * inputs]."""

    def __init__(self, cell: nn.Module, output: AbstractUnit, inputs: int) -> None:
        super().__init__()
        self.cell, self.output, self.inputs = cell, output, inputs

    def forward(self, x: Tensor) -> Tensor:
        """The output after the last step."""
        state = memory = x.new_zeros(self.output.members, x.shape[1], self.output.n_in)
        for step in x.reshape(*x.shape[:2], -1, self.inputs).expand(len(state), -1, -1, -1).unbind(dim=-2):
            if isinstance(self.cell, LSTM):
                state, memory = self.cell(torch.cat([step, state], dim=-1), memory)
            else:
                state = self.cell(torch.cat([step, state], dim=-1))
        found: Tensor = self.output(state)
        return found


class LSTM(nn.Module):
    """c' = sigmoid(f) c + sigmoid(i) tanh(g), h' = sigmoid(o) tanh(c'); (f, i, g, o) = W [x, h] + b."""

    def __init__(self, n_in: int, width: int, **base: Any) -> None:
        super().__init__()
        self.gates = Dense(n_in, 4 * width, **base)

    def forward(self, x: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """State and memory after a step."""
        forget, take, fresh, give = self.gates(x).chunk(4, dim=-1)
        memory = forget.sigmoid() * memory + take.sigmoid() * fresh.tanh()
        return give.sigmoid() * memory.tanh(), memory


class SimpleFunctions(Experiment):
    """Simple functions of two sums of inputs, static and over a sequence: the seminar's NALU table.

        a = sum of one subset of the inputs, b = sum of another;   a + b, a - b, a b, a / b, a^2, sqrt(a)

    Static: 10 inputs and a hidden layer of 8. Recurrent: 4 inputs in each of 10 steps, a and b are sums over all steps,
    a state of 8 and one output layer on the last state; that of ReLU, NAC and NALU is unit([inputs, state]). Errors are
    in per cent of the median error of untrained nets. Extrapolation is to larger inputs (static) or longer sequences
    (recurrent). The sources state no subsets, ranges, sizes, learning rate or steps.

    Source: the seminar, table of the NALU; Trask et al. (2018), Sec. 4.1, Table 1.
    """

    name = "simple-functions"
    title = "Simple functions, static and recurrent (seminar; Trask et al., Table 1)"
    across = 2
    layout: ClassVar = {"sharey": True}
    full = nets.Setting(runs=10, points=500, anneal=0.5)
    quick = replace(full, runs=2, steps=40, batch=16, points=40)

    def batches(self, plan: Plan) -> list[dict[str, str]]:
        return [
            {"kind": kind, "model": model, "task": task}
            for kind, models in FUNCTION_MODELS.items()
            for model in models
            for task in FUNCTIONS
        ]

    def run(self, job: Job) -> tuple[list[Row], Arrays]:
        how, full, kind, task = self.how(job.plan), job.plan.full, job.batch["kind"], job.batch["task"]
        network = build(kind, job.model, WIDTH, how.runs, job.source)
        tests = [drawn(kind, task, far, how.points, job.test_source()) for far in (0, 1)]
        simplest = "ReLU6" if kind == "static" else "LSTM"
        random = build(kind, simplest, WIDTH, UNTRAINED[full], job.plan.generator({}, kind))
        if kind == "recurrent":
            # Gradients are clipped, since rectified sums over many steps may explode.
            how = replace(how, steps=RECURRENT_STEPS[full], clip=CLIP)
        scale = [nets.errors(random, *test)[:, 0].median() for test in tests]
        nets.train(network, lambda: drawn(kind, task, 0, how.batch, job.source), how, job)
        ours = [100.0 * nets.errors(network, *test)[:, 0] / one for test, one in zip(tests, scale, strict=True)]
        return nets.rows_of(dict(zip(REACHES, ours, strict=True)), how.row()), {}

    def table(self, plan: Plan, ran: Sequence[Ran]) -> str:
        text = "Error in per cent of a random dense net's: published / ours (median run; best run).\n"
        for kind, models in FUNCTION_MODELS.items():
            cells = {}
            for (far, name), (i, task), model in product(enumerate(REACHES), enumerate(FUNCTIONS), models):
                r, published = find(ran, kind=kind, model=model, task=task), FUNCTIONS_PUBLISHED[kind, model][far][i]
                ours = "-" if r is None else f"{_shown(r.median(name))}; {_shown(r.column(name).min())}"
                cells[f"{kind}, {name}, {task}", model] = f"{_shown(published)} / {ours}"
            text += "\n" + pivot("task", cells)
        return text

    def panels(self, ran: Sequence[Ran]) -> Iterable[Panel]:
        """The errors of every run inside (left) and outside (right), static above, recurrent below."""
        axis = {"yscale": "log", "ylabel": "error, % of random"}
        for kind, reach in product(FUNCTION_MODELS, REACHES):
            values = columns(ran, reach, "task", "model", kind=kind)
            yield Panel(f"{kind}, {reach}", values, ends=ERROR_ENDS, axis=axis)


def build(kind: str, model: str, width: int, runs: int, source: torch.Generator) -> nn.Sequential:
    """Build a network of `FUNCTION_MODELS`: a chain of layers, or a chain of one recurrent module."""
    unit, inputs = UNITS.get(model, Dense), INPUTS[kind]
    if kind == "static":
        return nets.stack(runs, source, model, inputs, width, 1)
    if model not in UNITS:
        # For ReLU the LSTM is unused; drawing it keeps the random numbers of the kept runs.
        cell: nn.Module = LSTM(inputs + width, width, members=runs, generator=source, dtype=torch.float64)
    if model != "LSTM":
        cell = nets.chain(runs, source, (unit, inputs + width, width), *([nn.ReLU()] if model == "ReLU" else []))
    return nn.Sequential(Recurrent(cell, nets.fresh(runs, source, unit, width, 1), inputs))


def drawn(kind: str, task: str, far: int, count: int, source: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw inputs [1, count, steps * inputs] and compute the function's values [1, count, 1]."""
    steps, inputs = LENGTHS[kind][far], INPUTS[kind]
    x = nets.uniform((1, count, steps, inputs), *LIMITS[kind][far], source)
    a, b = (x[..., subset].sum(dim=(-1, -2)) for subset in SUBSETS[kind])
    return x.flatten(2), FUNCTIONS[task](a, b)[..., None]


def _shown(value: float) -> str:
    return "> 999" if not value <= 999.0 else f"{value:.1f}"
