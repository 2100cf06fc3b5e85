"""Neural Status Registers: comparisons of two numbers, learned near zero and tested far from it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import product
from typing import ClassVar

import numpy as np
import sympy
import torch
from sympy.core.relational import Relational
from torch import Tensor, nn

from odediscovery.experiments.base import Arrays, Experiment, Job, Plan, Ran, Row, having
from odediscovery.experiments.figures import Panel
from odediscovery.experiments.tables import number, tally
from odediscovery.experiments.training import Setting, chain, layers, parameters_of, rows_of, train, uniform
from odediscovery.units import NSR, Dense

TASKS = {">": torch.gt, "<": torch.lt, ">=": torch.ge, "<=": torch.le, "=": torch.eq, "!=": torch.ne}
INEQUALITIES, EQUALITIES = [*TASKS][:4], [*TASKS][4:]
SIGNS = {">=": "≥", "<=": "≤", "!=": "≠"}
# Range of the training integers.
LOW, HIGH = -10, 9


def equal_share(task: str) -> float:
    """Share of equal pairs in the training data of a task: half for = and !=, else a third."""
    return 1 / 2 if task in EQUALITIES else 1 / 3


def pairs(shape: tuple[int, ...], low: int, high: int, equal: float, source: torch.Generator) -> Tensor:
    """Draw pairs of integers from low to high, [*shape, 2]: a share `equal` is equal, half of the rest neighbours."""
    first = torch.randint(low, high + 1, shape, generator=source)
    kind = torch.rand(shape, generator=source)
    up = 2 * torch.randint(0, 2, shape, generator=source) - 1
    # If a neighbour is outside the range, take the one on the other side.
    up = torch.where((first + up < low) | (first + up > high), -up, up)
    width = high - low + 1
    shift = torch.randint(1, width, shape, generator=source)
    elsewhere = (first - low + shift) % width + low
    second = torch.where(kind < equal, first, elsewhere)
    near = (kind >= equal) & (kind < equal + (1.0 - equal) / 2)
    second = torch.where(near, first + up, second)
    return torch.stack([first, second], dim=-1).to(torch.float64)


def truth(task: str, x: Tensor) -> Tensor:
    """1 where the comparison of the two columns holds, else 0, [..., 1]."""
    holds: Tensor = TASKS[task](x[..., :1], x[..., 1:])
    return holds.to(x.dtype)


def accuracy(network: nn.Sequential, task: str, x: Tensor, scale: float | Tensor = 1.0) -> Tensor:
    """Share of correct answers of every member, [members]."""
    with torch.no_grad():
        right: Tensor = (network(scale * x) > 0.5) == (truth(task, x) > 0.5)
    return right.to(torch.float64).mean(dim=(-1, -2))


MODELS = ("NSR", "MLP")
POWERS = tuple(range(2, 14))
RANGES = ("train", *(f"1e{power}" for power in POWERS))
# Ranges in the table.
SHOWN = ("train", "1e4", "1e13")
# Accuracies on the training range and at 1e2 ... 1e13; all end in a plateau.
PUBLISHED: dict[tuple[str, str], tuple[float, ...]] = {
    ("MLP", ">"): (1.0, 1.0, 0.96, 0.71, 0.49, *[0.48] * 8),
    ("MLP", "<"): (1.0, 1.0, 0.93, 0.7, 0.49, *[0.48] * 8),
    ("MLP", ">="): (1.0, 1.0, 0.94, 0.71, 0.49, *[0.48] * 8),
    ("MLP", "<="): (1.0, 1.0, 0.94, 0.68, 0.49, *[0.48] * 8),
    ("MLP", "="): (0.95, *[0.5] * 12),
    ("MLP", "!="): (0.95, *[0.5] * 12),
    **{("NSR", task): (1.0,) * 13 for task in INEQUALITIES},
    ("NSR", "="): (0.99, *[0.93] * 12),
    ("NSR", "!="): (0.99, *[0.92] * 12),
}
# Width of the dense net.
WIDTH = 16


class Comparisons(Experiment):
    """Comparisons learned on integers from -10 to 9, tested on integers up to 1e13; 10 runs each.

        y = 1 if x1 R x2 else 0,    R one of  >  <  >=  <=  =  !=

    A Neural Status Register is compared with a dense net 2 -> 16 -> 16 -> 1 with tanh and a final sigmoid, both trained
    on the mean squared error by Adam.

    Source: Faber and Wattenhofer, Neural Status Registers (2020), "Learning comparisons on data from [-10; 9]", which
    does not state how its pairs are drawn.
    """

    name = "comparisons"
    title = "Comparisons (Neural Status Registers): accuracy far outside the training range"
    across = 3
    layout: ClassVar = {"sharex": True, "sharey": True}
    full = Setting(runs=10, steps=5000, batch=128, points=4000)
    quick = replace(full, runs=2, steps=120)
    axes: ClassVar = {"model": MODELS, "task": TASKS}

    def run(self, job: Job) -> tuple[list[Row], Arrays]:
        how, register, task = self.how(job.plan), job.model == "NSR", job.batch["task"]
        options: Row = {"scale": 3.0, "redundancy": 8} if register else {}
        tanh, sigmoid = {"activation": "tanh"}, {"activation": "sigmoid"}
        dense = (Dense, 2, WIDTH, tanh), (Dense, WIDTH, WIDTH, tanh), (Dense, WIDTH, 1, sigmoid)
        network = chain(how.runs, job.source, *([(NSR, 2, 1, options)] if register else dense))

        def draw() -> tuple[Tensor, Tensor]:
            x = pairs((how.runs, how.batch), LOW, HIGH, equal_share(task), job.source)
            return x, truth(task, x)

        how, source = replace(how, rate=0.05 if register else 0.005), job.test_source()
        train(network, draw, how, job)
        limits = [(LOW, HIGH), *((-(10**power), 10**power) for power in POWERS)]
        columns = {
            f"accuracy {name}": accuracy(network, task, pairs((1, how.points), *ends, 1 / 2, source))
            for name, ends in zip(RANGES, limits, strict=True)
        }
        return rows_of({**columns, "relation": _relations(network)}, how.row() | {"batch": how.batch} | options), {}

    def line(self, r: Ran) -> dict[str, str]:
        model, task = r.model, r.batch["task"]
        published, far = PUBLISHED[model, task], r.column("accuracy 1e13")
        cells = [
            f"{number(published[RANGES.index(name)], 3)} / {number(r.column(f'accuracy {name}').mean(), 3)}"
            for name in SHOWN
        ]
        read = "; ".join(sorted({str(row["relation"]) for row in r.rows} - {""}))
        reached = round(float(far.mean()), 2) >= published[-1]
        return {
            "model and task": f"{model} {SIGNS.get(task, task)}",
            "training range, published / ours (mean)": cells[0],
            **dict(zip(SHOWN[1:], cells[1:], strict=True)),
            "1e13, our worst run": number(far.min(), 3),
            "perfect at 1e13": tally(far == 1.0),
            "read off": read or "-",
            "at 1e13 as published or better": "-" if model == "MLP" else "yes" if reached else "no",
        }

    def panels(self, ran: Sequence[Ran]) -> Iterable[Panel]:
        """Accuracy over magnitude, a panel for each task."""
        axis = {"ylabel": "accuracy", "xlabel": "largest magnitude of the integers", "ylim": (0.2, 1.04)}
        axis["xticks"] = range(0, len(RANGES), 2)
        for task in TASKS:
            own = having(ran, task=task)
            values = {(name, r.model): r.column(f"accuracy {name}") for name in RANGES for r in own}
            published = {(RANGES[i], r.model): PUBLISHED[r.model, task][i] for i in range(len(RANGES)) for r in own}
            yield Panel(f"x1 {SIGNS.get(task, task)} x2", values, kind="lines", published=published, axis=axis)


def _relations(network: nn.Sequential) -> list[str]:
    """The relation that each run has learned; empty for models that have none."""
    unit = layers(network)[0]
    if not isinstance(unit, NSR):
        return [""] * unit.members
    x = [sympy.Symbol("x1", real=True), sympy.Symbol("x2", real=True)]
    values = {name: p.detach().numpy() for name, p in parameters_of(unit).items()}
    members = [{name: v[k] for name, v in values.items()} for k in range(unit.members)]
    return [as_typed(unit.snapped(member, x)[0]) for member in members]


def as_typed(relation: sympy.Basic) -> str:
    """Write a relation with its sign, since sympy prints = and != as function calls."""
    if isinstance(relation, Relational):
        return f"{relation.lhs} {'=' if relation.rel_op == '==' else relation.rel_op} {relation.rhs}"
    return str(relation)


SCALES = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
# Kinds of inputs and copies of the bits.
KINDS = [("whole", "1"), ("whole", "2"), ("whole", "4"), ("whole", "8"), ("real", "8")]
# Largest test numbers: integers are exact in double precision there, and differences of reals nearly so.
FAR = {"whole": 1e13, "real": 1e6}


class StatusRegisters(Experiment):
    """Sweeps of Neural Status Registers over lambda, redundancy, and real instead of whole inputs.

        B+ = tanh(lambda d),  B0 = 1 - 2 tanh(lambda d)^2,    lambda = 0.1, 0.3 ... 30

    Each comparison is learned from numbers between -10 and 9 and tested there and far away; real neighbours differ by
    0.1 to 1. All lambdas are members of one batch: tanh(lambda d) is the bit of the inputs lambda x.

    Source: Faber and Wattenhofer, Neural Status Registers (2020); the seminar, "Continuous Relaxation and Floating
    Point Comparison", which prints no table of these sweeps.
    """

    name = "status-registers"
    title = "Neural Status Registers: lambda, redundancy and real inputs (seminar)"
    across = 2
    full = Setting(runs=5, steps=3000, batch=128, rate=0.05, points=4000)
    quick = replace(full, runs=2, steps=40, points=1000)

    def batches(self, plan: Plan) -> list[dict[str, str]]:
        return [{"inputs": inputs, "copies": copies, "task": task} for inputs, copies in KINDS for task in TASKS]

    def run(self, job: Job) -> tuple[list[Row], Arrays]:
        how, inputs, task = self.how(job.plan), job.batch["inputs"], job.batch["task"]
        scale = torch.tensor(SCALES, dtype=torch.float64).repeat_interleave(how.runs)[:, None, None]
        network = chain(len(scale), job.source, (NSR, 2, 1, {"redundancy": int(job.batch["copies"])}))

        def draw() -> tuple[Tensor, Tensor]:
            x = drawn(inputs, how.batch, HIGH, equal_share(task), job.source)
            return scale * x, truth(task, x)

        train(network, draw, how, job)
        columns: dict[str, Tensor] = {"lambda": scale.flatten()}
        for name, limit in (("train", HIGH), ("far", FAR[inputs])):
            x = drawn(inputs, how.points, limit, 1 / 2, job.source)
            columns[f"accuracy {name}"] = accuracy(network, task, x, scale)
        return rows_of(columns, how.row()), {}

    def line(self, r: Ran) -> dict[str, str]:
        task = r.batch["task"]
        named = f"{r.batch['inputs']} numbers, {r.batch['copies']} copies, {SIGNS.get(task, task)}"
        return {"inputs, redundancy, task": named} | {
            f"lambda {number(s)}": " / ".join(number(_mean(r, name, s), 3) for name in ("train", "far")) for s in SCALES
        }

    def table(self, plan: Plan, ran: Sequence[Ran]) -> str:
        bits = ", ".join(f"{number(1.0 - 2.0 * np.tanh(0.5 * s) ** 2, 2)} at lambda {number(s)}" for s in SCALES)
        return (
            f"Accuracy in the training range / at 1e13 (real numbers: 1e6), mean of {len(ran[0].rows) // len(SCALES)} "
            f"runs.\n\n{super().table(plan, ran)}\n"
            f"The zero bit of a difference of 0.5 is {bits} (published: 0.57 at 1).\n"
        )

    def panels(self, ran: Sequence[Ran]) -> Iterable[Panel]:
        """Accuracy far outside over lambda for inequalities and equalities, one line per setting."""
        axis = {"ylim": (0.2, 1.04), "xlabel": "lambda", "ylabel": "accuracy far outside"}
        for title, tasks in (("inequalities", INEQUALITIES), ("= and ≠", EQUALITIES)):
            values = {}
            for scale, (inputs, copies) in product(SCALES, KINDS):
                done = [r for task in tasks for r in having(ran, inputs=inputs, copies=copies, task=task)]
                if done:
                    means = np.array([_mean(r, "far", scale) for r in done])
                    values[number(scale), f"{inputs}, {copies} {'copy' if copies == '1' else 'copies'}"] = means
            yield Panel(title, values, kind="lines", axis=axis)


def drawn(inputs: str, count: int, limit: float, equal: float, source: torch.Generator) -> Tensor:
    """Draw pairs [1, count, 2] of "whole" or "real" numbers from -limit, in training from -10, to limit."""
    low = LOW if limit == HIGH else -limit
    if inputs == "whole":
        return pairs((1, count), round(low), round(limit), equal, source)
    first = uniform((1, count), low, limit, source)
    other = uniform((1, count), low, limit, source)
    kind = uniform((1, count), 0.0, 1.0, source)
    side = 2.0 * (uniform((1, count), 0.0, 1.0, source) < 0.5) - 1.0
    near = first + side * 0.1 * 10.0 ** uniform((1, count), 0.0, 1.0, source)
    second = torch.where(kind < equal, first, torch.where(kind < equal + (1.0 - equal) / 2, near, other))
    return torch.stack([first, second], dim=-1)


def _mean(r: Ran, name: str, scale: float) -> float:
    """Mean accuracy of the runs of one lambda."""
    return float(r.column(f"accuracy {name}")[r.column("lambda") == scale].mean())
