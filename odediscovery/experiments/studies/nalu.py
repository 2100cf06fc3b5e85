"""NAC and NALU by number of operands, and stacked units on sums, signed products and digits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot, smooth_l1_loss

from odediscovery.experiments import training as nets
from odediscovery.experiments.base import Arrays, Experiment, Job, Plan, Ran, Row, columns, having
from odediscovery.experiments.figures import ERROR_ENDS, PER_CENTS, Panel
from odediscovery.experiments.studies.digits import divided, handwritten, origins
from odediscovery.experiments.tables import markdown, number, tally, wilson
from odediscovery.units import UNITS, AbstractUnit
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
# Secs. 3.1, 3.2, 4.1 and 4.2, in per cent; values that the report omits are missing.
NAC_PUBLISHED = {("+", n): 100.0 for n in range(1, 10)} | {("-", n): 100.0 for n in range(1, 11)}
NALU_PUBLISHED = {
    (task, operands): accuracy
    for operands, row in ((2, (99.8, 87.3, 92.3, 98.6, 99.1, 91.6)), (5, (100.0, 98.9, 93.9, 18.7)))
    for task, accuracy in zip(NALU_TASKS, row, strict=False)
}
# Training and test range of the inputs.
RANGES = {"NAC": ((20.0, 40.0), (0.0, 60.0)), "NALU": ((1.0, 5.0), (0.5, 8.0))}
# Relative error below which a test sample is correct, and per cent of correct samples that solve a task.
TOLERANCE, SOLVED = 0.01, 99.0


# Numbers of operands, as in the report; test samples, samples of the losses by which members are redrawn and steps
# between them, which the report does not state.
OPERANDS = {"NAC": tuple(range(1, 11)), "NALU": (2, 5)}
SAMPLES, HELD_OUT, CHECKED = 10_000, 1_000, 200
# Gradient steps, quick and in full.
STEPS = {"NAC": (1_500, 4_000), "NALU": (2_400, 8_000)}


class Operands(Experiment):
    """Secs. 3 to 5 of the project report on NAC and NALU: accuracy over the number of operands.

    One unit n -> 1, smooth L1 loss, RMSProp with decay 0.9; the report states nothing else. The NALU is trained as it
    is, with reinitialisation (Sec. 5.1), with independent weights (Sec. 7.1), and with both. Accuracy is the share of
    test samples whose error is below 1 % of the true value. Since all |W| < 1, a NALU cannot learn the square.

    Source: nac_nalu_project.md; Schloer, Ring, Hotho, iNALU (2020).
    """

    name = "operands"
    title = "NAC and NALU by operation and number of operands (NAC/NALU report, Secs. 3 to 5)"
    full = nets.Setting(runs=10)
    # At a higher, falling rate a minute is enough to show what each unit can and cannot learn.
    quick = replace(full, runs=3, rate=3e-2, anneal=0.5)

    def batches(self, plan: Plan) -> list[dict[str, str]]:
        variants = VARIANTS if plan.full else ("plain", "both")
        nac = [*((t, n) for t in ("+", "-") for n in OPERANDS["NAC"]), ("signed", len(SIGNED))]
        nalu = [(t, n) for n in OPERANDS["NALU"] for t in NALU_TASKS]
        return [{"unit": "NAC", "task": t, "operands": str(n)} for t, n in nac] + [
            {"unit": "NALU", "variant": v, "task": t, "operands": str(n)} for v in variants for t, n in nalu
        ]

    def run(self, job: Job) -> tuple[list[Row], Arrays]:
        kind, variant = job.batch["unit"], job.batch.get("variant", "plain")
        how, task, operands = self.how(job.plan), TASKS[job.batch["task"]], int(job.batch["operands"])
        inside, outside = RANGES[kind]
        options = {"independent": variant in ("independent", "both")} if kind == "NALU" else {}
        unit = nets.fresh(how.runs, job.source, UNITS[kind], operands, 1, **options)

        def draw(runs: int, count: int, ends: tuple[float, float], source: torch.Generator) -> nets.Draw:
            return nets.sampler((runs, count, operands), ends, source, lambda x: task(x)[..., None])

        again = None
        if variant in ("reinitialised", "both"):
            again = Reinitialisation(unit, *draw(1, HELD_OUT, inside, job.source)(), job.source)
        steps = STEPS[kind][job.plan.full]
        training = replace(how, steps=steps, method="rmsprop", loss="smooth-l1", checks=steps // CHECKED)
        nets.train(nn.Sequential(unit), draw(how.runs, how.batch, inside, job.source), training, job, watch=again)
        if again is not None:
            again.finish()
        x, y = draw(1, SAMPLES, outside, job.test_source())()
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
        return nets.rows_of(columns, training.row() | {"loss": training.loss, "batch": how.batch}), {}

    def table(self, plan: Plan, ran: Sequence[Ran]) -> str:
        nac = markdown(map(_nac_line, having(ran, unit="NAC")))
        return (
            f"Accuracy: test samples in per cent whose error is below {100 * TOLERANCE:.0f} % of "
            f"the true value, median of the runs; solved: runs of at least {SOLVED:.0f} %, behind "
            "it the 95 % interval of their share.\n\n"
            f"{nac}\nNALU: median, best run and solved runs of each variant.\n\n"
            f"{_nalu_table(ran)}\nThe exponents of one NALU are below 1 in size: the square is "
            "beyond it, and how the report came to its accuracy there is not said.\n"
        )

    def panels(self, ran: Sequence[Ran]) -> Iterable[Panel]:
        """The accuracy of every run by task, operands and variant."""
        axis = {"ylim": PER_CENTS, "ylabel": "accuracy, %"}
        published = {(str(n), task): accuracy for (task, n), accuracy in NAC_PUBLISHED.items()}
        nac = columns(ran, "accuracy", "operands", "task", unit="NAC")
        yield Panel("NAC by operands", nac, published=published, axis=axis)
        for n in OPERANDS["NALU"]:
            nalu = columns(ran, "accuracy", "task", "variant", unit="NALU", operands=str(n))
            published = {(t, v): NALU_PUBLISHED[t, n] for t, v in nalu if (t, n) in NALU_PUBLISHED}
            yield Panel(f"NALU, {n} operands", nalu, published=published, axis=axis)


class Reinitialisation:
    """Redraws members whose loss on held-out samples has not fallen by a tenth in five checks and exceeds 0.1 % of that
    of the best constant, and keeps the best parameters of each; the losses of single batches are too noisy."""

    def __init__(self, unit: AbstractUnit, x: Tensor, y: Tensor, source: torch.Generator) -> None:
        self.unit, self.x, self.y, self.source = unit, x, y, source
        middle = y.median().expand_as(y)
        self.threshold = 1e-3 * float(smooth_l1_loss(middle, y))
        self.best = torch.full((unit.members,), torch.inf, dtype=torch.float64)
        self.kept = {name: p.detach().clone() for name, p in unit.named_parameters()}
        self.lowest = self.best.clone()
        self.waited = torch.zeros(unit.members, dtype=torch.int64)
        self.redrawn = torch.zeros(unit.members, dtype=torch.int64)

    def __call__(self, step: int, losses: Tensor) -> None:
        """Check all members."""
        loss = self._keep()
        fell = loss < 0.9 * self.lowest
        self.lowest = torch.where(fell, loss, self.lowest)
        self.waited = torch.where(fell, 0, self.waited + 1)
        stuck = (self.waited >= 5) & (loss > self.threshold)
        if stuck.any():
            redraw(self.unit, stuck, self.source)
            self.lowest[stuck], self.waited[stuck] = torch.inf, 0
            self.redrawn += stuck

    @torch.no_grad()
    def finish(self) -> None:
        """Restore the best parameters of every member."""
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


def _per_cent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _nac_line(r: Ran) -> dict[str, str]:
    task, solved = r.batch["task"], r.column("accuracy") >= SOLVED
    low, high = wilson(solved)
    published = NAC_PUBLISHED.get((task, int(r.batch["operands"])))
    return {
        "unit, task, operands": r.name,
        "published, %": "weights ±1" if task == "signed" else _per_cent(published),
        "ours, %": _per_cent(r.median("accuracy")),
        "solved": f"{tally(solved)} ({100 * low:.0f} to {100 * high:.0f} %)",
        "largest weight error": number(r.median("weight error")),
    }


def _nalu_table(ran: Sequence[Ran]) -> str:
    rows: dict[str, dict[str, str]] = {}
    for (task, n, variant), right in columns(ran, "accuracy", "task", "operands", "variant", unit="NALU").items():
        named, published = f"NALU {task} {n}", _per_cent(NALU_PUBLISHED.get((task, int(n))))
        first = {"unit, task, operands": named, "published, %": published}
        row = rows.setdefault(named, first | dict.fromkeys(VARIANTS, "-"))
        row[variant] = f"{np.median(right):.1f}, {right.max():.1f}, {tally(right >= SOLVED)}"
    return markdown(rows.values())


# Units that are stacked for sums, units that multiply inputs of both signs, and models that read digits.
STACKED, SIGNED_UNITS = ("NALU", "iNALU", "NAU"), ("NALU", "iNALU", "NMU", "NPU")
READERS = (*STACKED, "dense")
DEPTHS = (1, 2, 3, 4, 5)
WIDTH = 4
INSIDE, SIGNS = (1.0, 10.0), (-2.0, 2.0)
# Error, relative to the target's mean size, below which a run has learned its task; a parameter whose sigmoid and tanh
# are 1 in single precision; the value recorded for a run without a finite result.
LEARNED, OPEN, LOST = 0.01, 30.0, float("inf")
# Columns of the tables.
FRESH = "largest output of fresh weights"
READ = "held-out digits read right, median (worst to best; 0 for a lost run)"
# Sizes of the nets that read digits.
HIDDEN, CLASSES = 16, 10


class StackedUnits(Experiment):
    """Stacked units whose intermediate results may explode, and products of inputs of both signs.

        sum:      y_j = x1 + x2 + x3 + x4, j = 1 ... 4, by 1 to 5 layers of 4 x 4 units, x ~ U(1, 10)
        product:  y = x1 x2 by one unit, x ~ U(-2, 2)
        digits:   which of ten digits an image shows, by three layers of 16, 16 and 10 units on its pixels

    A stack of l NALU layers computes up to x^(4^l); its worst case has closed gates and weights 1, at x = 10. All is
    in single precision, whose largest number is 3.4e38; a run is lost once its loss is not finite. The NALU here
    computes (1 - g) m as one exponential, so that a closed gate suppresses a product that would overflow.

    Source: nac_nalu_project.md, Secs. 6.1 and 6.2, without a number; after Schloer, Ring, Hotho, iNALU (2020).
    """

    name = "stacked-units"
    title = "Stacked NALUs and signed products (NAC/NALU report, Sec. 6)"
    across = 3
    layout: ClassVar = {"width_ratios": (3, 2, 2)}
    # For digits, `points` images are held out.
    full = nets.Setting(points=500, checks=50)
    full_digits = replace(full, runs=10, steps=500, batch=32, rate=1e-3, checks=500)
    quick, quick_digits = replace(full, runs=3, steps=100), replace(full_digits, runs=2, steps=10)

    def batches(self, plan: Plan) -> list[dict[str, str]]:
        depths = DEPTHS if plan.full else DEPTHS[::2]
        sums = [{"task": "sum", "model": model, "layers": str(depth)} for model in STACKED for depth in depths]
        signed = [{"task": "product", "model": model, "layers": "1"} for model in SIGNED_UNITS]
        return sums + signed + [{"task": "digits", "model": model, "layers": "3"} for model in READERS]

    def run(self, job: Job) -> tuple[list[Row], Arrays]:
        task, model, depth, source = job.batch["task"], job.model, int(job.batch["layers"]), job.source
        if digits := task == "digits":
            how = self.full_digits if job.plan.full else self.quick_digits
            # Neither the weights nor the division into training and test images depend on the number of layers.
            source = job.plan.generator({"task": task, "model": model})
            seen, held_out = divided(handwritten(), how.points, job.plan.generator({"task": task}, "division"))
            widths: tuple[int, ...] = (seen.pixels[0].numel(), HIDDEN, HIDDEN, CLASSES)
        else:
            how, widths = self.how(job.plan), (2, 1) if task == "product" else (WIDTH,) * (depth + 1)
        network = nets.stack(how.runs, source, "ReLU" if model == "dense" else model, *widths).float()

        def draw() -> tuple[Tensor, Tensor]:
            if not digits:
                return _samples(task, how.batch, source)
            part = seen.of(torch.randint(0, len(seen.digits), (how.batch,), generator=source))
            return part.inputs, one_hot(part.digits.long(), CLASSES).float()

        x, y = (held_out.inputs, held_out.digits) if digits else _samples(task, how.points, source)
        with torch.no_grad():
            first = network(x).abs().amax(dim=(-1, -2)).nan_to_num(LOST, LOST)
        # The step of the first check at which a loss was not finite.
        lost_at = torch.full((how.runs,), LOST, dtype=torch.float64)

        def watch(step: int, losses: Tensor) -> None:
            lost_at[~losses.isfinite().cpu() & lost_at.isinf()] = float(step)

        training = replace(how, method="rmsprop", loss="cross-entropy" if digits else "smooth-l1")
        nets.train(network, draw, training, job, watch=watch)
        with torch.no_grad():
            answers: Tensor = network(x)
        lost = lost_at.isfinite()
        if digits:
            lost |= ~answers.isfinite().flatten(1).all(dim=1)
            right = (answers.argmax(dim=-1) == y).double().mean(dim=-1)
            columns = {"lost at": lost_at, "accuracy": torch.where(lost, 0.0, right)}
            shared: Row = {"images": seen.name}
        else:
            error = (answers - y).abs().flatten(1).median(dim=1).values / y.abs().mean()
            lost |= ~error.isfinite()
            columns = {"relative error": error.nan_to_num(LOST, LOST)}
            shared = {"worst case": worst_case(model, depth) if task == "sum" else LOST}
        return nets.rows_of({"largest at first": first, "lost": lost.int()} | columns, training.row() | shared), {}

    def line(self, r: Ran) -> dict[str, str]:
        lost, error = r.column("lost"), r.column("relative error")
        task, layers = r.batch["task"], r.batch["layers"]
        sums, fails = task == "sum", "x^(4^l), may fail" if layers != "1" else "-"
        return {
            "model and task": f"{r.model}, {task}" + f", {layers} layers" * sums,
            "published": "-" if r.model != "NALU" else fails if sums else "fails",
            "worst case": number(r.column("worst case")[0]) if sums else "-",
            FRESH: number(r.column("largest at first").max()),
            "runs lost": tally(lost),
            f"learned (error below {LEARNED:.0%})": tally(error < LEARNED),
            "median relative error": number(r.median("relative error")),
        }

    def table(self, plan: Plan, ran: Sequence[Ran]) -> str:
        digits = having(ran, task="digits")
        text = super().table(plan, [r for r in ran if r not in digits])
        if digits:
            text += f"\n{markdown(map(_digits_line, digits))}\nImages: {origins(digits)}.\n"
        return text

    def panels(self, ran: Sequence[Ran]) -> Iterable[Panel]:
        """All runs: errors of sums over the number of layers, of signed products, and accuracy on digits."""
        errors = {"yscale": "log", "ylabel": "relative error"}
        right = {"ylabel": "read right, %; lost runs at 0", "ylim": PER_CENTS}
        sums = columns(ran, "relative error", "layers", "model", task="sum")
        products = columns(ran, "relative error", "task", "model", task="product")
        read = {key: 100.0 * own for key, own in columns(ran, "accuracy", "task", "model", task="digits").items()}
        yield Panel("sum of four inputs, by layers; lost runs at the top", sums, ends=ERROR_ENDS, axis=errors)
        yield Panel("product of inputs of both signs", products, ends=ERROR_ENDS, axis=errors)
        yield Panel("digits by three layers", read, axis=right)


def _digits_line(r: Ran) -> dict[str, str]:
    lost, right, at = (r.column(name) for name in ("lost", "accuracy", "lost at"))
    known = at[np.isfinite(at)]
    middle, worst, best = (100 * of(right) for of in (np.median, np.min, np.max))
    return {
        "model and task": f"{r.model}, digits, 3 layers",
        "published": "fails after the first steps" if r.model == "NALU" else "-",
        FRESH: number(r.column("largest at first").max()),
        "runs lost": tally(lost) + (f", from step {known.min():.0f} on" if len(known) else ""),
        READ: f"{middle:.1f} % ({worst:.1f} to {best:.1f})",
    }


def worst_case(model: str, depth: int) -> float:
    """Largest output at x = 10 of a stack with all weights 1 and all gates, if any, closed."""
    network = nn.Sequential(*(UNITS[model](WIDTH, WIDTH) for _ in range(depth))).float()
    for unit in nets.layers(network):
        for name, value in unit.named_parameters():
            closed = name in ("gate", "bias")
            value.data.fill_(-OPEN if closed else 1.0 if model == "NAU" else OPEN)
    with torch.no_grad():
        found: Tensor = network(torch.full((1, 1, WIDTH), INSIDE[1])).max()
    return float(found.nan_to_num(LOST, LOST))


def _samples(task: str, count: int, source: torch.Generator) -> tuple[Tensor, Tensor]:
    """Inputs [1, count, inputs] and targets [1, count, outputs] in single precision."""
    if task == "product":
        x = nets.uniform((1, count, 2), *SIGNS, source).float()
        return x, x[..., :1] * x[..., 1:]
    x = nets.uniform((1, count, WIDTH), *INSIDE, source).float()
    return x, x.sum(dim=-1, keepdim=True).expand(-1, -1, WIDTH)
