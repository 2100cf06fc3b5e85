"""Simple functions of two sums of inputs, at once and over a sequence: the seminar's NALU table.

    a = sum of one subset of the inputs, b = sum of another;   a + b, a - b, a b, a / b, a^2, sqrt(a)

Static: 10 inputs at once, one hidden layer of 8: dense with ReLU6, dense without (None), NAC, NALU.
Recurrent: 4 inputs a step for 10 steps, a and b are sums over all steps, a state of 8, one output
layer on the last state: LSTM, ReLU, NAC, NALU, whose state is unit([inputs, state]).

Errors are in per cent of a dense net's that was just drawn: 0 is exact, 100 is random. Interpolation
is the training range, extrapolation beyond it: static inputs U(1, 2), then U(2, 6); recurrent
sequences of 10 steps U(0.1, 0.2), then of 100. The documents print neither subsets nor ranges,
sizes, rate and steps: these are ours. a is a sum of five inputs (recurrent: two), b as well, they
share half of them.

Source: the seminar, table of the NALU; Trask et al. (2018), Sec. 4.1, Table 1.
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

from odediscovery.experiments.base import Arrays, Experiment, Plan, Ran, Row, find, markdown
from odediscovery.experiments.drawing import LOOK, STYLE, aside, draw_runs, page
from odediscovery.experiments.regression import Training, errors, rows_of, train, uniform
from odediscovery.plots.figures import COLOURS, MUTED
from odediscovery.runtime.monitor import Monitor
from odediscovery.units import NAC, NALU, AbstractUnit, Dense

OPERATIONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "a + b": lambda a, b: a + b,
    "a - b": lambda a, b: a - b,
    "a b": lambda a, b: a * b,
    "a / b": lambda a, b: a / b,
    "a^2": lambda a, b: a * a,
    "sqrt a": lambda a, b: a.sqrt(),
}
MODELS = {"static": ("ReLU6", "None", "NAC", "NALU"), "recurrent": ("LSTM", "ReLU", "NAC", "NALU")}
RANGES = ("interpolation", "extrapolation")
# Interpolation, then extrapolation, of every operation in the order above; 1000 stands for "> 999".
PUBLISHED: dict[tuple[str, str], tuple[tuple[float, ...], tuple[float, ...]]] = {
    ("static", "ReLU6"): ((0.2, 0.0, 3.2, 4.2, 0.7, 0.5), (42.6, 29.0, 10.1, 37.2, 47.0, 10.3)),
    ("static", "None"): ((0.0, 0.0, 20.9, 35.0, 4.3, 2.2), (0.0, 0.0, 29.5, 52.3, 25.1, 20.0)),
    ("static", "NAC"): ((0.0, 0.0, 21.4, 37.1, 22.4, 3.6), (0.0, 0.0, 33.3, 61.3, 53.3, 16.4)),
    ("static", "NALU"): ((0.0, 0.0, 0.0, 5.3, 0.0, 0.0), (0.0, 0.0, 0.0, 0.7, 0.0, 0.0)),
    ("recurrent", "LSTM"): ((0.0,) * 6, (96.1, 97.0, 98.2, 95.6, 98.0, 95.8)),
    ("recurrent", "ReLU"): ((0.0,) * 6, (85.5, 70.9, 97.9, 863.5, 98.0, 34.1)),
    ("recurrent", "NAC"): ((0.0, 0.0, 1.5, 1.2, 2.3, 2.1), (0.0, 0.0, 88.4, 1000.0, 123.7, 1000.0)),
    ("recurrent", "NALU"): ((0.0,) * 6, (0.0, 0.0, 0.0, 1000.0, 0.0, 0.0)),
}
# Per cent: above the most one table prints "> 999", below the least the other prints 0.0.
MOST, NOTHING = 999.0, 0.05
# Inputs at once or a step, those that a and b take, ranges, and steps of a sequence.
INPUTS = {"static": 10, "recurrent": 4}
SUBSETS = {"static": (slice(0, 5), slice(3, 8)), "recurrent": (slice(0, 2), slice(1, 3))}
LIMITS = {"static": ((1.0, 2.0), (2.0, 6.0)), "recurrent": ((0.1, 0.2), (0.1, 0.2))}
LENGTHS = {"static": (1, 1), "recurrent": (10, 100)}


@dataclass(frozen=True)
class Setting:
    """Ours throughout: the documents give no training.

    Args:
        recurrent_steps, recurrent_clip: steps over sequences, and largest entry of a gradient there.
        drawn: random nets that set the 100 %.
    """

    runs: int = 10
    steps: int = 10_000
    recurrent_steps: int = 2000
    recurrent_clip: float = 0.1
    batch: int = 64
    rate: float = 1e-2
    width: int = 8
    points: int = 500
    drawn: int = 30


FULL = Setting()
QUICK = replace(FULL, runs=2, steps=40, recurrent_steps=4, batch=16, points=40, drawn=4)


class Recurrent(nn.Module):
    """h_t = cell([x_t, h_{t-1}]), h_0 = 0, y = output(h_T); x [members, batch, steps * inputs].

    Args:
        cell: the LSTM, a dense layer (a rectifier follows) or a unit, from inputs and state to state.
        output: from the state to y.
        inputs: of a step.
    """

    def __init__(self, cell: nn.Module, output: AbstractUnit, inputs: int) -> None:
        super().__init__()
        self.cell, self.output, self.inputs = cell, output, inputs

    def forward(self, x: Tensor) -> Tensor:
        """The output after the last step."""
        state = x.new_zeros(self.output.members, x.shape[1], self.output.n_in)
        memory = state
        for step in x.reshape(*x.shape[:2], -1, self.inputs).expand(len(state), -1, -1, -1).unbind(dim=-2):
            if isinstance(self.cell, LSTM):
                state, memory = self.cell(torch.cat([step, state], dim=-1), memory)
            else:
                state = self.cell(torch.cat([step, state], dim=-1))
        found: Tensor = self.output(state)
        return found


class LSTM(nn.Module):
    """c' = sigmoid(f) c + sigmoid(i) tanh(g), h' = sigmoid(o) tanh(c'); (f, i, g, o) = W [x, h] + b.

    Args:
        n_in: inputs and state together.
        width: of the state.
    """

    def __init__(self, n_in: int, width: int, **base: Any) -> None:
        super().__init__()
        self.gates = Dense(n_in, 4 * width, **base)

    def forward(self, x: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """State and memory after a step."""
        forget, take, fresh, give = self.gates(x).chunk(4, dim=-1)
        memory = forget.sigmoid() * memory + take.sigmoid() * fresh.tanh()
        return give.sigmoid() * memory.tanh(), memory


class SimpleFunctions(Experiment):
    """Six functions, four models at once and four over sequences."""

    name = "simple-functions"
    title = "Simple functions, static and recurrent (seminar; Trask et al., Table 1)"

    def batches(self, plan: Plan) -> list[dict[str, str]]:
        return [
            {"kind": kind, "model": model, "task": task}
            for kind, models in MODELS.items()
            for model in models
            for task in OPERATIONS
        ]

    def run(self, plan: Plan, batch: dict[str, str], monitor: Monitor) -> tuple[list[Row], Arrays]:
        how, source, kind = plan.pick(FULL, QUICK), plan.generator(batch), batch["kind"]
        network = build(kind, batch["model"], how.width, how.runs, source)
        tests = [drawn(kind, batch["task"], far, how.points, plan.generator(batch, "test")) for far in (0, 1)]
        random = build(kind, "ReLU6" if kind == "static" else "LSTM", how.width, how.drawn, plan.generator({}, kind))
        scale = [errors(random, *test)[:, 0].median() for test in tests]

        def draw() -> tuple[Tensor, Tensor]:
            x, y = drawn(kind, batch["task"], 0, how.batch, source)
            return x, y.expand(how.runs, -1, -1)

        steps = how.steps if kind == "static" else how.recurrent_steps
        training = Training(steps, how.rate, anneal=0.5)
        # Rectified sums over many steps explode once; entries of gradients are clipped.
        training = replace(training, clip=how.recurrent_clip) if kind == "recurrent" else training
        train(network, draw, training, monitor, name=" ".join(batch.values()), device=plan.device)
        columns = {
            name: 100.0 * errors(network, *test)[:, 0] / one
            for name, test, one in zip(RANGES, tests, scale, strict=True)
        }
        return rows_of(columns, training.row()), {}

    def table(self, plan: Plan, ran: Sequence[Ran]) -> str:
        text = "Error in per cent of a random dense net's: published / ours (median run; best run).\n"
        for kind, models in MODELS.items():
            rows = []
            for far, name in enumerate(RANGES):
                for i, task in enumerate(OPERATIONS):
                    cells = [_cell(find(ran, kind=kind, model=m, task=task), kind, m, far, i) for m in models]
                    rows.append((f"{kind}, {name}, {task}", *cells))
            text += "\n" + markdown(("task", *models), rows)
        return text

    def figure(self, plan: Plan, ran: Sequence[Ran]) -> Figure:
        """Errors of every run inside (left) and outside (right), at once above, sequences below."""
        with rc_context(STYLE):
            figure = page(rows=2)
            axes = figure.subplots(2, 2, sharey=True)
            for row, (kind, models) in zip(axes, MODELS.items(), strict=True):
                for axis, name in zip(row, RANGES, strict=True):
                    for j, model in enumerate(models):
                        for i, task in enumerate(OPERATIONS):
                            r = find(ran, kind=kind, model=model, task=task)
                            if r is None:
                                continue
                            error = r.column(name).clip(*LOOK.errors)
                            at, label = i + aside(j, len(models)), model if i == 0 else None
                            draw_runs(axis, at, error, COLOURS[j], label)
                    axis.axhline(NOTHING, color=MUTED, lw=LOOK.thin, ls=":")
                    axis.set_xticks(range(len(OPERATIONS)), OPERATIONS)
                    axis.set(yscale="log", title=f"{kind}, {name}; dotted: prints as 0.0")
                if row[0].lines:
                    row[0].legend(ncols=len(models))
                row[0].set_ylabel("error, % of random")
        return figure


def build(kind: str, model: str, width: int, runs: int, source: torch.Generator) -> nn.Sequential:
    """A network of `MODELS`, as the one module or the layers of a chain."""
    base: dict[str, Any] = {"members": runs, "generator": source, "dtype": torch.float64}
    units: dict[str, Callable[..., AbstractUnit]] = {"NAC": NAC, "NALU": NALU}
    unit = units.get(model)
    if kind == "static":
        if unit is not None:
            return nn.Sequential(unit(INPUTS[kind], width, **base), unit(width, 1, **base))
        first, last = Dense(INPUTS[kind], width, **base), Dense(width, 1, **base)
        return nn.Sequential(first, nn.ReLU6(), last) if model == "ReLU6" else nn.Sequential(first, last)
    inputs = INPUTS[kind]
    if unit is not None:
        return nn.Sequential(Recurrent(unit(inputs + width, width, **base), unit(width, 1, **base), inputs))
    cell: nn.Module = LSTM(inputs + width, width, **base)
    if model == "ReLU":
        cell = nn.Sequential(Dense(inputs + width, width, **base), nn.ReLU())
    return nn.Sequential(Recurrent(cell, Dense(width, 1, **base), inputs))


def drawn(kind: str, task: str, far: int, count: int, source: torch.Generator) -> tuple[Tensor, Tensor]:
    """Inputs [1, count, steps * inputs] and the function's values [1, count, 1].

    Args:
        far: 0 for the training range, 1 beyond it.
    """
    steps, inputs = LENGTHS[kind][far], INPUTS[kind]
    x = uniform((1, count, steps, inputs), *LIMITS[kind][far], source)
    a, b = (x[..., subset].sum(dim=(-1, -2)) for subset in SUBSETS[kind])
    return x.flatten(2), OPERATIONS[task](a, b)[..., None]


def _cell(r: Ran | None, kind: str, model: str, far: int, task: int) -> str:
    published = _shown(PUBLISHED[kind, model][far][task])
    if r is None:
        return f"{published} / -"
    ours = r.column(RANGES[far])
    return f"{published} / {_shown(float(np.median(ours)))}; {_shown(float(ours.min()))}"


def _shown(value: float) -> str:
    return "> 999" if not value <= MOST else f"{value:.1f}"
