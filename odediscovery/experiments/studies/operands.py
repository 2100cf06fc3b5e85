"""Secs. 3 to 5 of the project report on NAC and NALU: accuracy over the number of operands.

    NAC:   + : x1 + ... + xn,   - : x1 - x2 - ... - xn,             n = 1 ... 10
           signed : x1 + x2 - x3 + x4 - x5 + x6 - x7 - x8,          x ~ U(20, 40), test U(0, 60)
    NALU:  +, - as above, * : x1 x2 ... xn, / : x1 / x2 / ... / xn, sqrt x1, x1^2, n = 2 and 5,
           plain, with reinitialisation (Sec. 5.1), with independent weights (Sec. 7.1), with both

One unit n -> 1, smooth L1 loss, RMSProp of decay 0.9. The report is silent on the rest, ours is:

- inputs of the NALU U(1, 5), tested on U(0.5, 8), so that five factors stay in reason;
- accuracy (undefined there): the share of test samples whose error is below 1 % of the true value;
- a member is drawn anew when its loss on 1000 samples of the training range has not fallen by
  a tenth in 1000 steps and is above 0.1 % of the loss of the best constant; the best is kept.

All |W| < 1, so one NALU has no exponent 2: the square is beyond it, whatever the training.
Both presets are the same. Source: nac_nalu_project.md; Schloer, Ring, Hotho, iNALU (2020).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.nn.functional import smooth_l1_loss

from odediscovery.experiments.base import Arrays, Experiment, Plan, Ran, Row, find, markdown, number, wilson
from odediscovery.experiments.drawing import LOOK, STYLE, aside, draw_runs, page
from odediscovery.experiments.regression import Training, rows_of, train, uniform
from odediscovery.plots.figures import COLOURS, INK
from odediscovery.runtime.monitor import Monitor
from odediscovery.units import NAC, NALU
from odediscovery.units.base import AbstractUnit, redraw
from odediscovery.units.nac import accumulator

SIGNED = (1.0, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0, -1.0)
TASKS: dict[str, Callable[[Tensor], Tensor]] = {
    "+": lambda x: x.sum(dim=-1),
    "-": lambda x: 2.0 * x[..., 0] - x.sum(dim=-1),
    "*": lambda x: x.prod(dim=-1),
    "/": lambda x: x[..., 0] ** 2 / x.prod(dim=-1),
    "sqrt": lambda x: x[..., 0].sqrt(),
    "square": lambda x: x[..., 0] ** 2,
    "signed": lambda x: x @ x.new_tensor(SIGNED),
}
NALU_TASKS = ("+", "-", "*", "/", "sqrt", "square")
VARIANTS = ("plain", "reinitialised", "independent", "both")
# Secs. 3.1, 3.2, 4.1 and 4.2, in per cent; what the report leaves out is missing here.
NAC_PUBLISHED = {("+", n): 100.0 for n in range(1, 10)} | {("-", n): 100.0 for n in range(1, 11)}
NALU_PUBLISHED = {
    ("+", 2): 99.8,
    ("-", 2): 87.3,
    ("*", 2): 92.3,
    ("/", 2): 98.6,
    ("sqrt", 2): 99.1,
    ("square", 2): 91.6,
    ("+", 5): 100.0,
    ("-", 5): 98.9,
    ("*", 5): 93.9,
    ("/", 5): 18.7,
}
# Training and test range of the inputs.
RANGES = {"NAC": ((20.0, 40.0), (0.0, 60.0)), "NALU": ((1.0, 5.0), (0.5, 8.0))}
# Relative error of a test sample that is right, and per cent of right samples that solve a task.
TOLERANCE, SOLVED = 0.01, 99.0


@dataclass(frozen=True)
class Setting:
    """What the report does not say, which is nearly everything.

    Args:
        nac_operands, nalu_operands: how many a unit gets (the report's own).
        nalu_tasks, variants: of the NALU.
        nac_steps, nalu_steps: gradient steps of each unit.
        anneal: share of the steps after which the rate falls; 1: never.
        samples, held_out: of the test, and of the losses by which members are drawn anew.
        watch_every: steps between two looks at the members.
        patience: looks without a fall of the loss below `fall` times the lowest, after which a
            member is drawn anew.
        good_enough: loss, as a share of the best constant's, below which it is not.
    """

    nac_operands: tuple[int, ...] = tuple(range(1, 11))
    nalu_operands: tuple[int, ...] = (2, 5)
    nalu_tasks: tuple[str, ...] = NALU_TASKS
    variants: tuple[str, ...] = VARIANTS
    runs: int = 10
    nac_steps: int = 4_000
    nalu_steps: int = 8_000
    rate: float = 1e-2
    anneal: float = 1.0
    batch: int = 64
    samples: int = 10_000
    held_out: int = 1_000
    watch_every: int = 200
    patience: int = 5
    fall: float = 0.9
    good_enough: float = 1e-3


FULL = Setting()
# At a higher rate, which falls, a minute is enough for what each unit can and cannot do.
QUICK = replace(FULL, variants=("plain", "both"), runs=3, nac_steps=1_500, nalu_steps=2_400, rate=3e-2, anneal=0.5)


class Operands(Experiment):
    """NAC with 1 to 10 operands, NALU with 2 and 5 in four variants, 10 runs each."""

    name = "operands"
    title = "NAC and NALU by operation and number of operands (NAC/NALU report, Secs. 3 to 5)"

    def batches(self, plan: Plan) -> list[dict[str, str]]:
        how = plan.pick(FULL, QUICK)
        nac = [*((t, n) for t in ("+", "-") for n in how.nac_operands), ("signed", len(SIGNED))]
        nalu = [(t, n) for n in how.nalu_operands for t in how.nalu_tasks]
        return [{"unit": "NAC", "task": t, "operands": str(n)} for t, n in nac] + [
            {"unit": "NALU", "variant": v, "task": t, "operands": str(n)} for v in how.variants for t, n in nalu
        ]

    def run(self, plan: Plan, batch: dict[str, str], monitor: Monitor) -> tuple[list[Row], Arrays]:
        kind, variant, operands = batch["unit"], batch.get("variant", "plain"), batch["operands"]
        how, task, source = plan.pick(FULL, QUICK), TASKS[batch["task"]], plan.generator(batch)
        unit = _unit(kind, int(operands), variant, how.runs, source)
        network = nn.Sequential(unit)
        again = None
        if variant in ("reinitialised", "both"):
            again = _Reinitialisation(unit, *_samples(batch, RANGES[kind][0], how.held_out, source), source, how)
        steps = how.nac_steps if kind == "NAC" else how.nalu_steps
        training = Training(steps, how.rate, "rmsprop", "smooth-l1", anneal=how.anneal, watch_every=how.watch_every)

        def draw() -> tuple[Tensor, Tensor]:
            x = uniform((how.runs, how.batch, unit.n_in), *RANGES[kind][0], source)
            return x, task(x)[..., None]

        train(network, draw, training, monitor, name=" ".join(batch.values()), device=plan.device, watch=again)
        if again is not None:
            again.finish()
        test = _samples(batch, RANGES[kind][1], how.samples, plan.generator(batch, "test"))
        shared = training.row() | {"loss": training.loss, "batch": how.batch}
        return _rows(unit, batch["task"], test, shared, again), {}

    def table(self, plan: Plan, ran: Sequence[Ran]) -> str:
        return (
            f"Accuracy: test samples in per cent whose error is below {100 * TOLERANCE:.0f} % of "
            f"the true value, median of the runs; solved: runs of at least {SOLVED:.0f} %, behind "
            "it the 95 % interval of their share.\n\n"
            f"{_nac_table(ran)}\nNALU: median, best run and solved runs of each variant.\n\n"
            f"{_nalu_table(ran)}\nThe exponents of one NALU are below 1 in size: the square is "
            "beyond it, and how the report came to its accuracy there is not said.\n"
        )

    def figure(self, plan: Plan, ran: Sequence[Ran]) -> Figure:
        """Accuracy of every run by task, number of operands and variant; published as bars."""
        with rc_context(STYLE):
            figure = page(rows=1 + len(FULL.nalu_operands))
            top, *below = figure.subplots(1 + len(FULL.nalu_operands), 1)
            _draw_nac(top, ran)
            for axis, n in zip(below, FULL.nalu_operands, strict=True):
                _draw_nalu(axis, ran, n)
            for axis in (top, *below):
                axis.set(ylim=LOOK.per_cents, ylabel="accuracy, %")
            named = next((a for a in below if a.get_legend_handles_labels()[0]), top)
            handles, labels = named.get_legend_handles_labels()
            figure.legend(handles, labels, loc="outside lower center", ncols=len(labels) or 1)
        return figure


class _Reinitialisation:
    """Draws members anew that are stuck, and remembers the best each member has been.

    Args:
        unit: the network.
        x, y: held-out samples [1, samples, ...] of the training range, to measure the loss on.
        source: of the new parameters.
        how: when a member is stuck.
    """

    def __init__(self, unit: AbstractUnit, x: Tensor, y: Tensor, source: torch.Generator, how: Setting) -> None:
        self.unit, self.x, self.y, self.source, self.how = unit, x, y, source, how
        middle = y.median().expand_as(y)
        self.threshold = how.good_enough * float(smooth_l1_loss(middle, y))
        self.best = torch.full((unit.members,), torch.inf, dtype=torch.float64)
        self.kept = {name: p.detach().clone() for name, p in unit.named_parameters()}
        self.lowest = self.best.clone()
        self.waited = torch.zeros(unit.members, dtype=torch.int64)
        self.redrawn = torch.zeros(unit.members, dtype=torch.int64)

    def __call__(self, step: int, losses: Tensor) -> None:
        """Look at all members; the losses of one small batch are too noisy to judge by."""
        loss = self._keep()
        fell = loss < self.how.fall * self.lowest
        self.lowest = torch.where(fell, loss, self.lowest)
        self.waited = torch.where(fell, 0, self.waited + 1)
        stuck = (self.waited >= self.how.patience) & (loss > self.threshold)
        if stuck.any():
            redraw(self.unit, stuck, self.source)
            self.lowest[stuck], self.waited[stuck] = torch.inf, 0
            self.redrawn += stuck

    @torch.no_grad()
    def finish(self) -> None:
        """Give every member back the best parameters it had."""
        self._keep()
        for name, p in self.unit.named_parameters():
            p.copy_(self.kept[name])

    def _keep(self) -> Tensor:
        own = {name: p.detach().cpu() for name, p in self.unit.named_parameters()}
        predicted = self.unit.compute(own, self.x)
        loss = smooth_l1_loss(predicted, self.y.expand_as(predicted), reduction="none")
        loss = loss.mean(dim=(-1, -2)).nan_to_num(torch.inf, torch.inf)
        better = loss < self.best
        self.best = torch.where(better, loss, self.best)
        for name, p in own.items():
            self.kept[name][better] = p[better]
        return loss


def _unit(kind: str, operands: int, variant: str, runs: int, source: torch.Generator) -> AbstractUnit:
    if kind == "NAC":
        return NAC(operands, 1, members=runs, generator=source)
    independent = variant in ("independent", "both")
    return NALU(operands, 1, independent=independent, members=runs, generator=source)


def _samples(
    batch: dict[str, str], limits: tuple[float, float], count: int, source: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Inputs [1, count, operands] in the limits and the task's values [1, count, 1]."""
    x = uniform((1, count, int(batch["operands"])), *limits, source)
    return x, TASKS[batch["task"]](x)[..., None]


def _rows(
    unit: AbstractUnit, task: str, test: tuple[Tensor, Tensor], shared: Row, again: _Reinitialisation | None
) -> list[Row]:
    x, y = test
    with torch.no_grad():
        off = ((unit(x) - y) / y).abs()[..., 0].nan_to_num(torch.inf, torch.inf)
    accuracy = 100.0 * (off < TOLERANCE).double().mean(dim=1)
    own = {name: p.detach() for name, p in unit.named_parameters()}
    weights = accumulator(own["weight"], own["mask"])
    columns = {"accuracy": accuracy, "median relative error": off.median(dim=1).values}
    if type(unit) is NAC:
        truth = TASKS[task](torch.eye(unit.n_in, dtype=torch.float64))
        columns["weight error"] = (weights[:, 0] - truth).abs().amax(dim=1)
    if again is not None:
        columns["redrawn"] = again.redrawn
    return rows_of(columns, shared)


def _solved(r: Ran) -> int:
    return int((r.column("accuracy") >= SOLVED).sum())


def _per_cent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _nac_table(ran: Sequence[Ran]) -> str:
    """NAC: a line for each task and number of operands."""
    rows = []
    for r in (r for r in ran if r.batch["unit"] == "NAC"):
        task, n = r.batch["task"], int(r.batch["operands"])
        low, high = wilson(_solved(r), len(r.rows))
        rows.append(
            (
                f"NAC {task} {n}",
                "weights ±1" if task == "signed" else _per_cent(NAC_PUBLISHED.get((task, n))),
                _per_cent(float(np.median(r.column("accuracy")))),
                f"{_solved(r)} of {len(r.rows)} ({100 * low:.0f} to {100 * high:.0f} %)",
                number(float(np.median(r.column("weight error")))),
            )
        )
    return markdown(("unit, task, operands", "published, %", "ours, %", "solved", "largest weight error"), rows)


def _nalu_table(ran: Sequence[Ran]) -> str:
    """NALU: a line for each task and number of operands, a column for each variant."""
    rows = []
    nalu = [r for r in ran if r.batch["unit"] == "NALU"]
    for task, n in dict.fromkeys((r.batch["task"], r.batch["operands"]) for r in nalu):
        cells = []
        for variant in VARIANTS:
            r = find(nalu, variant=variant, task=task, operands=n)
            if r is None:
                cells.append("-")
                continue
            accuracy = r.column("accuracy")
            cells.append(f"{np.median(accuracy):.1f}, {accuracy.max():.1f}, {_solved(r)} of {len(r.rows)}")
        published = _per_cent(NALU_PUBLISHED.get((task, int(n))))
        rows.append((f"NALU {task} {n}", published, *cells))
    return markdown(("unit, task, operands", "published, %", *VARIANTS), rows)


def _mark(axis: Axes, at: float, width: float, published: float | None, label: str | None) -> None:
    """A published accuracy as a dotted line across what stands there."""
    if published is not None:
        ends = [at - width / 2, at + width / 2]
        axis.plot(ends, [published] * 2, color=INK, lw=LOOK.thin, ls=":", label=label)


def _draw_nac(axis: Axes, ran: Sequence[Ran]) -> None:
    tasks = ("+", "-")
    for n in FULL.nac_operands:
        for k, task in enumerate(tasks):
            at, r = n + aside(k, len(tasks)), find(ran, unit="NAC", task=task, operands=str(n))
            if r is not None:
                draw_runs(axis, at, r.column("accuracy"), COLOURS[k])
            _mark(axis, at, LOOK.group / len(tasks), NAC_PUBLISHED.get((task, n)), None)
    signed, behind = find(ran, unit="NAC", task="signed"), max(FULL.nac_operands) + 1
    if signed is not None:
        draw_runs(axis, behind, signed.column("accuracy"), COLOURS[2])
    axis.set_xticks([*FULL.nac_operands, behind], [*map(str, FULL.nac_operands), f"signed\n{len(SIGNED)}"])
    axis.set(title="NAC by operands: + left, \N{MINUS SIGN} right", xlim=(0.5, behind + 0.5))


def _draw_nalu(axis: Axes, ran: Sequence[Ran], operands: int) -> None:
    for i, task in enumerate(NALU_TASKS):
        for j, variant in enumerate(VARIANTS):
            r = find(ran, unit="NALU", variant=variant, task=task, operands=str(operands))
            if r is not None:
                named = variant if not any(variant == line.get_label() for line in axis.lines) else None
                draw_runs(axis, i + aside(j, len(VARIANTS)), r.column("accuracy"), COLOURS[j], named)
        _mark(axis, i, LOOK.group, NALU_PUBLISHED.get((task, operands)), "published" if i == 0 else None)
    axis.set_xticks(range(len(NALU_TASKS)), NALU_TASKS)
    axis.set(title=f"NALU, {operands} operands", xlim=(-0.5, len(NALU_TASKS) - 0.5))
