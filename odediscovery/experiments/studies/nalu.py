"""What NAC and NALU can do: by operands, in stacks, and beside other nets on simple functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.nn.functional import smooth_l1_loss

from odediscovery.experiments.base import Arrays, Experiment, Job, Plan, Ran, Row, find, markdown, number, wilson
from odediscovery.experiments.figures import LOOK, Values, aside, draw_groups, draw_runs, legend_below, page
from odediscovery.experiments.studies.digits import SMALL, Images, divided, handwritten
from odediscovery.experiments.training import (
    Draw,
    Setting,
    Training,
    chain,
    errors,
    fresh,
    layers,
    rows_of,
    sampler,
    train,
    uniform,
)
from odediscovery.plots.figures import COLOURS, INK, MUTED
from odediscovery.units import NAC, NALU, NAU, NMU, NPU, AbstractUnit, Dense, iNALU
from odediscovery.units.base import redraw
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


# What the report does not say, which is nearly everything: how many operands a unit gets (the report's own), samples of
# the test and of the losses by which members are drawn anew.
OPERANDS = {"NAC": tuple(range(1, 11)), "NALU": (2, 5)}
SAMPLES, HELD_OUT = 10_000, 1_000
# Steps between two looks at the members, looks without a fall of the loss below `FALL` times the lowest after which a
# member is drawn anew, and its loss, as a share of the best constant's, below which it is not.
WATCH_EVERY, PATIENCE, FALL, GOOD_ENOUGH = 200, 5, 0.9, 1e-3


@dataclass(frozen=True)
class OperandsSetting(Setting):
    """Gradient steps of each unit, variants of the NALU, and after which share of the steps the rate falls."""

    runs: int = 10
    nac_steps: int = 4_000
    nalu_steps: int = 8_000
    variants: tuple[str, ...] = VARIANTS
    anneal: float = 1.0


class Operands(Experiment):
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

    name = "operands"
    title = "NAC and NALU by operation and number of operands (NAC/NALU report, Secs. 3 to 5)"
    full = OperandsSetting()
    # At a higher rate, which falls, a minute is enough for what each unit can and cannot do.
    quick = replace(full, variants=("plain", "both"), runs=3, nac_steps=1_500, nalu_steps=2_400, rate=3e-2, anneal=0.5)

    def batches(self, plan: Plan) -> list[dict[str, str]]:
        how = self.how(plan)
        nac = [*((t, n) for t in ("+", "-") for n in OPERANDS["NAC"]), ("signed", len(SIGNED))]
        nalu = [(t, n) for n in OPERANDS["NALU"] for t in NALU_TASKS]
        return [{"unit": "NAC", "task": t, "operands": str(n)} for t, n in nac] + [
            {"unit": "NALU", "variant": v, "task": t, "operands": str(n)} for v in how.variants for t, n in nalu
        ]

    def run(self, job: Job) -> tuple[list[Row], Arrays]:
        kind, variant = job.batch["unit"], job.batch.get("variant", "plain")
        how, task, operands = self.how(job.plan), TASKS[job.batch["task"]], int(job.batch["operands"])
        inside, outside = RANGES[kind]
        options = {"independent": variant in ("independent", "both")} if kind == "NALU" else {}
        unit = fresh(how.runs, job.source, NAC if kind == "NAC" else NALU, operands, 1, **options)

        def draw(runs: int, count: int, ends: tuple[float, float], source: torch.Generator) -> Draw:
            return sampler((runs, count, operands), *ends, source, lambda x: task(x)[..., None])

        again = None
        if variant in ("reinitialised", "both"):
            again = Reinitialisation(unit, *draw(1, HELD_OUT, inside, job.source)(), job.source)
        steps = how.nac_steps if kind == "NAC" else how.nalu_steps
        training = Training(steps, how.rate, "rmsprop", "smooth-l1", anneal=how.anneal, watch_every=WATCH_EVERY)
        train(nn.Sequential(unit), draw(how.runs, how.batch, inside, job.source), training, job, watch=again)
        if again is not None:
            again.finish()
        x, y = draw(1, SAMPLES, outside, job.fresh("test"))()
        with torch.no_grad():
            off = ((unit(x) - y) / y).abs()[..., 0].nan_to_num(torch.inf, torch.inf)
        accuracy = 100.0 * (off < TOLERANCE).double().mean(dim=1)
        columns = {"accuracy": accuracy, "median relative error": off.median(dim=1).values}
        if kind == "NAC":
            weights = accumulator(unit.weight.detach(), unit.mask.detach())
            truth = task(torch.eye(operands, dtype=torch.float64))
            columns["weight error"] = (weights[:, 0] - truth).abs().amax(dim=1)
        if again is not None:
            columns["redrawn"] = again.redrawn
        return rows_of(columns, training.row() | {"loss": training.loss, "batch": how.batch}), {}

    def table(self, plan: Plan, ran: Sequence[Ran]) -> str:
        return (
            f"Accuracy: test samples in per cent whose error is below {100 * TOLERANCE:.0f} % of "
            f"the true value, median of the runs; solved: runs of at least {SOLVED:.0f} %, behind "
            "it the 95 % interval of their share.\n\n"
            f"{_nac_table(ran)}\nNALU: median, best run and solved runs of each variant.\n\n"
            f"{_nalu_table(ran)}\nThe exponents of one NALU are below 1 in size: the square is "
            "beyond it, and how the report came to its accuracy there is not said.\n"
        )

    def draw(self, plan: Plan, ran: Sequence[Ran]) -> Figure:
        """Accuracy of every run by task, number of operands and variant; published as bars."""
        counts = OPERANDS["NALU"]
        figure = page(rows=1 + len(counts))
        top, *below = figure.subplots(1 + len(counts), 1)
        _draw_nac(top, ran, OPERANDS["NAC"])
        for axis, n in zip(below, counts, strict=True):
            _draw_nalu(axis, ran, n)
        for axis in (top, *below):
            axis.set(ylim=LOOK.per_cents, ylabel="accuracy, %")
        legend_below(figure, next((a for a in below if a.get_legend_handles_labels()[0]), top))
        return figure


class Reinitialisation:
    """Draws members anew that are stuck, and remembers the best each member has been.

    Args:
        unit: the network.
        x, y: held-out samples [1, samples, ...] of the training range, to measure the loss on.
        source: of the new parameters.
    """

    def __init__(self, unit: AbstractUnit, x: Tensor, y: Tensor, source: torch.Generator) -> None:
        self.unit, self.x, self.y, self.source = unit, x, y, source
        middle = y.median().expand_as(y)
        self.threshold = GOOD_ENOUGH * float(smooth_l1_loss(middle, y))
        self.best = torch.full((unit.members,), torch.inf, dtype=torch.float64)
        self.kept = {name: p.detach().clone() for name, p in unit.named_parameters()}
        self.lowest = self.best.clone()
        self.waited = torch.zeros(unit.members, dtype=torch.int64)
        self.redrawn = torch.zeros(unit.members, dtype=torch.int64)

    def __call__(self, step: int, losses: Tensor) -> None:
        """Look at all members; the losses of one small batch are too noisy to judge by."""
        loss = self._keep()
        fell = loss < FALL * self.lowest
        self.lowest = torch.where(fell, loss, self.lowest)
        self.waited = torch.where(fell, 0, self.waited + 1)
        stuck = (self.waited >= PATIENCE) & (loss > self.threshold)
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


def _solved(r: Ran) -> int:
    return int((r.column("accuracy") >= SOLVED).sum())


def _per_cent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _nac_table(ran: Sequence[Ran]) -> str:
    """NAC: a line for each task and number of operands."""
    rows = []
    for r in (r for r in ran if r.batch["unit"] == "NAC"):
        task, solved, runs = r.batch["task"], _solved(r), len(r.rows)
        low, high = wilson(solved, runs)
        published = NAC_PUBLISHED.get((task, int(r.batch["operands"])))
        rows.append(
            {
                "unit, task, operands": r.name,
                "published, %": "weights ±1" if task == "signed" else _per_cent(published),
                "ours, %": _per_cent(r.median("accuracy")),
                "solved": f"{solved} of {runs} ({100 * low:.0f} to {100 * high:.0f} %)",
                "largest weight error": number(r.median("weight error")),
            }
        )
    return markdown(rows)


def _nalu_table(ran: Sequence[Ran]) -> str:
    """NALU: a line for each task and number of operands, a column for each variant."""
    rows = []
    nalu = [r for r in ran if r.batch["unit"] == "NALU"]
    for task, n in dict.fromkeys((r.batch["task"], r.batch["operands"]) for r in nalu):
        published = _per_cent(NALU_PUBLISHED.get((task, int(n))))
        cells = dict.fromkeys(VARIANTS, "-")
        for r in (r for r in nalu if (r.batch["task"], r.batch["operands"]) == (task, n)):
            best, solved = r.column("accuracy").max(), f"{_solved(r)} of {len(r.rows)}"
            cells[r.batch["variant"]] = f"{r.median('accuracy'):.1f}, {best:.1f}, {solved}"
        rows.append({"unit, task, operands": f"NALU {task} {n}", "published, %": published, **cells})
    return markdown(rows)


def _accuracy(ran: Sequence[Ran], **batch: str) -> Values | None:
    r = find(ran, **batch)
    return None if r is None else r.column("accuracy")


def _mark(axis: Axes, at: float, width: float, published: float | None, label: str | None = None) -> None:
    """A published accuracy as a dotted line across what stands there."""
    if published is not None:
        ends = [at - width / 2, at + width / 2]
        axis.plot(ends, [published] * 2, color=INK, lw=LOOK.thin, ls=":", label=label)


def _draw_nac(axis: Axes, ran: Sequence[Ran], counts: Sequence[int]) -> None:
    tasks, behind = ("+", "-"), max(counts) + 1
    draw_groups(
        axis, [*map(str, counts)], tasks, lambda n, task: _accuracy(ran, unit="NAC", task=task, operands=n), first=1
    )
    for n in counts:
        for k, task in enumerate(tasks):
            _mark(axis, n + aside(k, len(tasks)), LOOK.group / len(tasks), NAC_PUBLISHED.get((task, n)))
    signed = _accuracy(ran, unit="NAC", task="signed")
    if signed is not None:
        draw_runs(axis, behind, signed, COLOURS[2])
    axis.set_xticks([*counts, behind], [*map(str, counts), f"signed\n{len(SIGNED)}"])
    axis.set(title="NAC by operands: + left, \N{MINUS SIGN} right", xlim=(0.5, behind + 0.5))


def _draw_nalu(axis: Axes, ran: Sequence[Ran], operands: int) -> None:
    shown = {"unit": "NALU", "operands": str(operands)}
    draw_groups(axis, NALU_TASKS, VARIANTS, lambda task, variant: _accuracy(ran, task=task, variant=variant, **shown))
    for i, task in enumerate(NALU_TASKS):
        _mark(axis, i, LOOK.group, NALU_PUBLISHED.get((task, operands)), "published" if i == 0 else None)
    axis.set(title=f"NALU, {operands} operands", xlim=(-0.5, len(NALU_TASKS) - 0.5))


STACKED: dict[str, type[AbstractUnit]] = {"NALU": NALU, "iNALU": iNALU, "NAU": NAU}
SIGNED_UNITS: dict[str, type[AbstractUnit]] = {"NALU": NALU, "iNALU": iNALU, "NMU": NMU, "NPU": NPU}
# What reads digits; a dense net beside the units.
READERS: dict[str, type[AbstractUnit]] = {**STACKED, "dense": Dense}
DEPTHS = (1, 2, 3, 4, 5)
WIDTH = 4
INSIDE, SIGNS = (1.0, 10.0), (-2.0, 2.0)
# Relative error (of the target's mean size) below which a run has learned its task.
LEARNED = 0.01
# A parameter whose sigmoid and tanh are 1 in single precision.
OPEN = 30.0
# What is written down for a run without a number.
LOST = float("inf")
# Sizes of the nets that read digits.
HIDDEN, CLASSES = 16, 10


@dataclass(frozen=True)
class Stacking(Setting):
    """Ours, but for loss and method; the losses are looked at so many times."""

    points: int = 500
    checks: int = 50

    def training(self, loss: str) -> Training:
        """How a network is trained on a loss."""
        return Training(self.steps, self.rate, "rmsprop", loss, watch_every=max(self.steps // self.checks, 1))


class StackedUnits(Experiment):
    """Stacked units whose intermediate results explode, and products of inputs of both signs.

        sum:      y_j = x1 + x2 + x3 + x4, j = 1 ... 4, by 1 to 5 layers of 4 x 4 units, x ~ U(1, 10)
        product:  y = x1 x2 by one unit, x ~ U(-2, 2)
        digits:   which of ten digits an image shows, by three layers of 16, 16 and 10 units on its pixels

    Four layers of NALU "could calculate x^4 for each output, the following layer (x^4)^4, ultimately
    x^(4^l)": the worst case below is that, all gates closed and all weights 1, at x = 10. Everything is
    single precision, the default of torch, where numbers end at 3.4e38. A run is lost once
    its loss is no number; it gets no step from then on.

    The digits are the largest of ten outputs, trained on the cross-entropy of their softmax, pixels from
    0 to 1; layers of NAU are one linear map, those of a dense net have a ReLU between them.

    Source: nac_nalu_project.md, Secs. 6.1 and 6.2; after Schloer, Ring, Hotho, iNALU (2020). Both give
    no number; ranges, sizes, rate and steps are ours, loss (but for the digits) and method those of the
    report. At a constant rate stacks end where the steps of RMSProp leave them, a few per cent from the
    sum. The NALU here computes (1 - g) m as one exponential, so that a closed gate silences a product
    that would overflow: one reason less for a run to be lost.
    """

    name = "stacked-units"
    title = "Stacked NALUs and signed products (NAC/NALU report, Sec. 6)"
    # Of the digits `points` images are held out.
    full, full_digits = Stacking(steps=10_000), Stacking(runs=10, steps=500, batch=32, rate=1e-3, checks=500)
    quick, quick_digits = replace(full, runs=3, steps=100), replace(full_digits, runs=2, steps=10)

    def batches(self, plan: Plan) -> list[dict[str, str]]:
        depths = DEPTHS if plan.full else DEPTHS[::2]
        sums = [{"task": "sum", "model": model, "layers": str(depth)} for model in STACKED for depth in depths]
        signed = [{"task": "product", "model": model, "layers": "1"} for model in SIGNED_UNITS]
        return sums + signed + [{"task": "digits", "model": model, "layers": "3"} for model in READERS]

    def run(self, job: Job) -> tuple[list[Row], Arrays]:
        task, model, depth = job.batch["task"], job.batch["model"], int(job.batch["layers"])
        if task == "digits":
            return _read_digits(self.full_digits if job.plan.full else self.quick_digits, job), {}
        how = self.how(job.plan)
        sizes: Any = [(SIGNED_UNITS[model], 2, 1)] if task == "product" else [(STACKED[model], WIDTH, WIDTH)] * depth
        network = chain(how.runs, job.source, *sizes).float()
        test = _samples(task, how.points, job.source)
        before = _sizes(network, test[0])

        def draw() -> tuple[Tensor, Tensor]:
            x, y = _samples(task, how.batch, job.source)
            return x, y.expand(how.runs, -1, -1)

        lost = _lost_at(network, draw, "smooth-l1", how, job).isfinite()
        error = _relative_error(network, *test)
        columns = {
            "largest at first": before,
            "lost": (lost | ~error.isfinite()).int(),
            "relative error": error.nan_to_num(LOST, LOST),
        }
        worst = worst_case(model, depth) if task == "sum" else LOST
        return rows_of(columns, how.training("smooth-l1").row() | {"worst case": worst}), {}

    def table(self, plan: Plan, ran: Sequence[Ran]) -> str:
        rows = []
        for r in (r for r in ran if r.batch["task"] != "digits"):
            lost, error = r.column("lost"), r.column("relative error")
            sums = r.batch["task"] == "sum"
            rows.append(
                {
                    "model and task": f"{r.batch['model']}, {r.batch['task']}" + f", {r.batch['layers']} layers" * sums,
                    "published": _published(r.batch),
                    "worst case": number(float(r.rows[0]["worst case"])) if sums else "-",
                    "largest output of fresh weights": number(float(r.column("largest at first").max())),
                    "runs lost": f"{int(lost.sum())} of {len(lost)}",
                    f"learned (error below {LEARNED:.0%})": f"{int((error < LEARNED).sum())} of {len(error)}",
                    "median relative error": number(float(np.median(error))),
                }
            )
        digits = [r for r in ran if r.batch["task"] == "digits"]
        return markdown(rows) + (_table_of_digits(digits) if digits else "")

    def draw(self, plan: Plan, ran: Sequence[Ran]) -> Figure:
        """Errors of every run over the number of layers, of the signed product, and digits that were read."""

        def shown(task: str, model: str, depth: str) -> Values | None:
            r = find(ran, task=task, model=model, layers=depth)
            if r is None:
                return None
            return 100.0 * r.column("accuracy") if task == "digits" else r.column("relative error").clip(*LOOK.errors)

        figure = page(wide=True)
        axes = figure.subplots(1, 3, width_ratios=(3, 2, 2))
        least, most = LOOK.errors
        draw_groups(axes[0], [*map(str, DEPTHS)], [*STACKED], lambda depth, model: shown("sum", model, depth), first=1)
        for axis, task, depth, models in ((axes[1], "product", "1", SIGNED_UNITS), (axes[2], "digits", "3", READERS)):
            for i, model in enumerate(models):
                runs = shown(task, model, depth)
                if runs is not None:
                    draw_runs(axis, i, runs, COLOURS[i])
            axis.set_xticks(range(len(models)), [*models])
        axes[0].set(xlabel="layers", title="sum of four inputs; lost runs at the top")
        axes[0].legend()
        axes[1].set(title="product of inputs of both signs")
        for axis in axes[:2]:
            axis.set(yscale="log", ylabel="relative error", ylim=(least / 2, 2 * most))
        axes[2].set(title="digits by three layers", ylabel="read right, %; lost runs at 0", ylim=LOOK.per_cents)
        return figure


def _lost_at(network: nn.Sequential, draw: Draw, loss: str, how: Stacking, job: Job) -> Tensor:
    """Train, and at which step each run had left the numbers when it was looked at, [members]; inf where none did."""
    lost = torch.full((how.runs,), LOST, dtype=torch.float64)

    def watch(step: int, losses: Tensor) -> None:
        lost[~losses.isfinite().cpu() & lost.isinf()] = float(step)

    train(network, draw, how.training(loss), job, watch=watch)
    return lost


def _read_digits(how: Stacking, job: Job) -> list[Row]:
    """Rows of one model that reads digits: accuracy on images never seen, 0 for a run that is lost."""
    # The layers of a batch are left out of its source.
    model, source = job.batch["model"], job.plan.generator({"task": "digits", "model": job.batch["model"]})
    # One division into images for learning and for testing, whatever the model.
    seen, held_out = divided(handwritten(), how.points, job.plan.generator({"task": "digits"}, "division"))
    network = reader(model, seen.pixels[0].numel(), how.runs, source)
    test = _inputs(held_out)
    before = _sizes(network, test)

    def draw() -> tuple[Tensor, Tensor]:
        part = seen.of(torch.randint(0, len(seen.digits), (how.batch,), generator=source))
        return _inputs(part), nn.functional.one_hot(part.digits.long(), CLASSES).float().expand(how.runs, -1, -1)

    lost = _lost_at(network, draw, "cross-entropy", how, job)
    with torch.no_grad():
        answers: Tensor = network(test)
        right = (answers.argmax(dim=-1) == held_out.digits).double().mean(dim=-1)
        gone = lost.isfinite() | ~answers.isfinite().all(dim=-1).all(dim=-1)
    columns = {
        "largest at first": before,
        "lost": gone.int(),
        "lost at": lost,
        "accuracy": torch.where(gone, 0.0, right),
    }
    return rows_of(columns, how.training("cross-entropy").row() | {"images": seen.name})


def reader(model: str, pixels: int, runs: int, source: torch.Generator) -> nn.Sequential:
    """Three layers of a model on the pixels of an image, in single precision."""
    parts: list[Any] = []
    for n_in, n_out in ((pixels, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, CLASSES)):
        parts += [nn.ReLU()] if parts and model == "dense" else []
        parts.append((READERS[model], n_in, n_out))
    return chain(runs, source, *parts).float()


def _inputs(images: Images) -> Tensor:
    """Pixels from 0 to 1, [1, N, pixels]."""
    return (0.5 + 0.5 * images.pixels).flatten(1)[None]


def _table_of_digits(ran: Sequence[Ran]) -> str:
    rows = []
    for r in ran:
        lost, right, at = (r.column(name) for name in ("lost", "accuracy", "lost at"))
        known = at[np.isfinite(at)]
        middle, worst, best = (100 * float(of(right)) for of in (np.median, np.min, np.max))
        since = f", from step {known.min():.0f} on" if len(known) else ""
        rows.append(
            {
                "model and task": f"{r.batch['model']}, digits, 3 layers",
                "published": "fails after the first steps" if r.batch["model"] == "NALU" else "-",
                "largest output of fresh weights": number(float(r.column("largest at first").max())),
                "runs lost": f"{int(lost.sum())} of {len(lost)}{since}",
                "held-out digits read right, median (worst to best; 0 for a lost run)": (
                    f"{middle:.1f} % ({worst:.1f} to {best:.1f})"
                ),
            }
        )
    names = "; ".join(sorted({str(r.rows[0].get("images", SMALL.name)) for r in ran}))
    return f"\n{markdown(rows)}\nImages: {names}.\n"


def worst_case(model: str, depth: int) -> float:
    """Largest output of a stack at x = 10 whose sums are open for NAU and closed for the others."""
    network = nn.Sequential(*(STACKED[model](WIDTH, WIDTH) for _ in range(depth))).float()
    for unit in layers(network):
        for name, value in unit.named_parameters():
            closed = name in ("gate", "bias")
            value.data.fill_(-OPEN if closed else 1.0 if model == "NAU" else OPEN)
    with torch.no_grad():
        found: Tensor = network(torch.full((1, 1, WIDTH), INSIDE[1])).max()
    return float(found.nan_to_num(LOST, LOST))


def _published(batch: dict[str, str]) -> str:
    if batch["model"] != "NALU":
        return "-"
    if batch["task"] == "product":
        return "fails"
    return "x^(4^l), may fail" if int(batch["layers"]) > 1 else "-"


def _samples(task: str, count: int, source: torch.Generator) -> tuple[Tensor, Tensor]:
    """Inputs [1, count, inputs] and targets [1, count, outputs] in single precision."""
    if task == "product":
        x = uniform((1, count, 2), *SIGNS, source).float()
        return x, x[..., :1] * x[..., 1:]
    x = uniform((1, count, WIDTH), *INSIDE, source).float()
    return x, x.sum(dim=-1, keepdim=True).expand(-1, -1, WIDTH)


def _sizes(network: nn.Sequential, x: Tensor) -> Tensor:
    """Largest absolute output of every member, [members]."""
    with torch.no_grad():
        found: Tensor = network(x).abs().amax(dim=(-1, -2))
        return found.nan_to_num(LOST, LOST)


def _relative_error(network: nn.Sequential, x: Tensor, y: Tensor) -> Tensor:
    """Median absolute error over the target's mean size, [members]; nan where nothing is a number."""
    with torch.no_grad():
        off: Tensor = (network(x) - y).abs().flatten(1)
        return off.median(dim=1).values / y.abs().mean()


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
# Per cent: above the most one table prints "> 999", below the least the other prints 0.0.
MOST, NOTHING = 999.0, 0.05
# Inputs at once or a step, those that a and b take, ranges, and steps of a sequence.
INPUTS = {"static": 10, "recurrent": 4}
SUBSETS = {"static": (slice(0, 5), slice(3, 8)), "recurrent": (slice(0, 2), slice(1, 3))}
LIMITS = {"static": ((1.0, 2.0), (2.0, 6.0)), "recurrent": ((0.1, 0.2), (0.1, 0.2))}
LENGTHS = {"static": (1, 1), "recurrent": (10, 100)}


@dataclass(frozen=True)
class FunctionSetting(Setting):
    """Ours throughout: the documents give no training.

    Args:
        recurrent_steps, recurrent_clip: steps over sequences, and largest entry of a gradient there.
        drawn: random nets that set the 100 %.
    """

    runs: int = 10
    points: int = 500
    recurrent_steps: int = 2000
    recurrent_clip: float = 0.1
    width: int = 8
    drawn: int = 30


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

    name = "simple-functions"
    title = "Simple functions, static and recurrent (seminar; Trask et al., Table 1)"
    full = FunctionSetting()
    quick = replace(full, runs=2, steps=40, recurrent_steps=4, batch=16, points=40, drawn=4)

    def batches(self, plan: Plan) -> list[dict[str, str]]:
        return [
            {"kind": kind, "model": model, "task": task}
            for kind, models in FUNCTION_MODELS.items()
            for model in models
            for task in FUNCTIONS
        ]

    def run(self, job: Job) -> tuple[list[Row], Arrays]:
        how, kind, task = self.how(job.plan), job.batch["kind"], job.batch["task"]
        network = build(kind, job.batch["model"], how.width, how.runs, job.source)
        tests = [drawn(kind, task, far, how.points, job.fresh("test")) for far in (0, 1)]
        simplest = "ReLU6" if kind == "static" else "LSTM"
        random = build(kind, simplest, how.width, how.drawn, job.plan.generator({}, kind))

        def draw() -> tuple[Tensor, Tensor]:
            x, y = drawn(kind, task, 0, how.batch, job.source)
            return x, y.expand(how.runs, -1, -1)

        training = Training(how.steps, how.rate, anneal=0.5)
        if kind == "recurrent":
            # Rectified sums over many steps explode once; entries of gradients are clipped.
            training = replace(training, steps=how.recurrent_steps, clip=how.recurrent_clip)
        scale = [errors(random, *test)[:, 0].median() for test in tests]
        train(network, draw, training, job)
        ours = [100.0 * errors(network, *test)[:, 0] / one for test, one in zip(tests, scale, strict=True)]
        return rows_of(dict(zip(REACHES, ours, strict=True)), training.row()), {}

    def table(self, plan: Plan, ran: Sequence[Ran]) -> str:
        text = "Error in per cent of a random dense net's: published / ours (median run; best run).\n"
        for kind, models in FUNCTION_MODELS.items():
            rows = []
            for far, name in enumerate(REACHES):
                for i, task in enumerate(FUNCTIONS):
                    cells = {}
                    for model in models:
                        r, published = find(ran, kind=kind, model=model, task=task), FUNCTIONS_PUBLISHED[kind, model]
                        ours = "-" if r is None else f"{_shown(r.median(name))}; {_shown(float(r.column(name).min()))}"
                        cells[model] = f"{_shown(published[far][i])} / {ours}"
                    rows.append({"task": f"{kind}, {name}, {task}", **cells})
            text += "\n" + markdown(rows)
        return text

    def draw(self, plan: Plan, ran: Sequence[Ran]) -> Figure:
        """Errors of every run inside (left) and outside (right), at once above, sequences below."""
        figure = page(rows=2)
        axes = figure.subplots(2, 2, sharey=True)
        for row, (kind, models) in zip(axes, FUNCTION_MODELS.items(), strict=True):
            for axis, name in zip(row, REACHES, strict=True):
                done = {(r.batch["task"], r.batch["model"]): r for r in ran if r.batch["kind"] == kind}
                clipped = {key: r.column(name).clip(*LOOK.errors) for key, r in done.items()}
                draw_groups(axis, [*FUNCTIONS], models, lambda *key, clipped=clipped: clipped.get(key))
                axis.axhline(NOTHING, color=MUTED, lw=LOOK.thin, ls=":")
                axis.set(yscale="log", title=f"{kind}, {name}; dotted: prints as 0.0")
            if row[0].get_legend_handles_labels()[0]:
                row[0].legend(ncols=len(models))
            row[0].set_ylabel("error, % of random")
        return figure


def build(kind: str, model: str, width: int, runs: int, source: torch.Generator) -> nn.Sequential:
    """A network of `FUNCTION_MODELS`, as the one module or the layers of a chain."""
    units: dict[str, Callable[..., AbstractUnit]] = {"NAC": NAC, "NALU": NALU}
    unit, inputs = units.get(model, Dense), INPUTS[kind]
    if kind == "static":
        between = [nn.ReLU6()] if model == "ReLU6" else []
        return chain(runs, source, (unit, inputs, width), *between, (unit, width, 1))
    if model not in units:
        # A rectified cell is drawn behind an LSTM that is not used: so the kept runs began.
        cell: nn.Module = LSTM(inputs + width, width, members=runs, generator=source, dtype=torch.float64)
    if model != "LSTM":
        cell = chain(runs, source, (unit, inputs + width, width), *([nn.ReLU()] if model == "ReLU" else []))
    return nn.Sequential(Recurrent(cell, fresh(runs, source, unit, width, 1), inputs))


def drawn(kind: str, task: str, far: int, count: int, source: torch.Generator) -> tuple[Tensor, Tensor]:
    """Inputs [1, count, steps * inputs] and the function's values [1, count, 1].

    Args:
        far: 0 for the training range, 1 beyond it.
    """
    steps, inputs = LENGTHS[kind][far], INPUTS[kind]
    x = uniform((1, count, steps, inputs), *LIMITS[kind][far], source)
    a, b = (x[..., subset].sum(dim=(-1, -2)) for subset in SUBSETS[kind])
    return x.flatten(2), FUNCTIONS[task](a, b)[..., None]


def _shown(value: float) -> str:
    return "> 999" if not value <= MOST else f"{value:.1f}"
