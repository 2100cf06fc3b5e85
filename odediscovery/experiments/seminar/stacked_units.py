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

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from matplotlib import rc_context
from matplotlib.figure import Figure
from torch import Tensor, nn

from odediscovery.experiments.base import Arrays, Experiment, Plan, Ran, Row, find, markdown, number
from odediscovery.experiments.drawing import LOOK, STYLE, aside, draw_runs, page
from odediscovery.experiments.images import SMALL, Images, divided, handwritten
from odediscovery.experiments.regression import Training, layers, rows_of, train, uniform
from odediscovery.plots.figures import COLOURS
from odediscovery.runtime.monitor import Monitor
from odediscovery.units import NALU, NAU, NMU, NPU, AbstractUnit, Dense, iNALU

MODELS: dict[str, type[AbstractUnit]] = {"NALU": NALU, "iNALU": iNALU, "NAU": NAU}
SIGNED: dict[str, type[AbstractUnit]] = {"NALU": NALU, "iNALU": iNALU, "NMU": NMU, "NPU": NPU}
# What reads digits; a dense net beside the units.
READERS: dict[str, type[AbstractUnit]] = {**MODELS, "dense": Dense}
DEPTHS = (1, 2, 3, 4, 5)
WIDTH = 4
INSIDE, SIGNS = (1.0, 10.0), (-2.0, 2.0)
# Relative error (of the target's mean size) below which a run has learned its task.
LEARNED = 0.01
# A parameter whose sigmoid and tanh are 1 in single precision.
OPEN = 30.0
# What is written down for a run without a number.
LOST = float("inf")


@dataclass(frozen=True)
class Setting:
    """Ours, but for loss and method."""

    runs: int = 20
    steps: int = 10_000
    batch: int = 64
    rate: float = 1e-2
    points: int = 500
    checks: int = 50


FULL = Setting()
QUICK = replace(FULL, runs=3, steps=100)
# Of the digits: `points` images are held out.
DIGITS = Setting(runs=10, steps=500, batch=32, rate=1e-3, points=500, checks=500)
QUICK_DIGITS = replace(DIGITS, runs=2, steps=10)
HIDDEN, CLASSES = 16, 10


class StackedUnits(Experiment):
    """Sums by stacks of three units, signed products by four single ones, digits by stacks of three layers."""

    name = "stacked-units"
    title = "Stacked NALUs and signed products (NAC/NALU report, Sec. 6)"

    def batches(self, plan: Plan) -> list[dict[str, str]]:
        depths = plan.pick(DEPTHS, DEPTHS[::2])
        sums = [{"task": "sum", "model": model, "layers": str(depth)} for model in MODELS for depth in depths]
        signed = [{"task": "product", "model": model, "layers": "1"} for model in SIGNED]
        return sums + signed + [{"task": "digits", "model": model, "layers": "3"} for model in READERS]

    def run(self, plan: Plan, batch: dict[str, str], monitor: Monitor) -> tuple[list[Row], Arrays]:
        if batch["task"] == "digits":
            return _read_digits(plan, batch["model"], monitor), {}
        how, source = plan.pick(FULL, QUICK), plan.generator(batch)
        network = _network(batch, how.runs, source)
        test = _draw(batch["task"], how.points, source)
        before = _sizes(network, test[0])
        lost = torch.zeros(how.runs, dtype=torch.bool)

        def watch(_step: int, loss: Tensor) -> None:
            lost.logical_or_(~loss.isfinite().cpu())

        every = max(how.steps // how.checks, 1)
        training = Training(how.steps, how.rate, "rmsprop", "smooth-l1", watch_every=every)
        named = " ".join(batch.values())

        def draw() -> tuple[Tensor, Tensor]:
            x, y = _draw(batch["task"], how.batch, source)
            return x, y.expand(how.runs, -1, -1)

        train(network, draw, training, monitor, name=named, device=plan.device, watch=watch)
        error = _relative_error(network, *test)
        columns = {
            "largest at first": before,
            "lost": (lost | ~error.isfinite()).int(),
            "relative error": error.nan_to_num(LOST, LOST),
        }
        worst = worst_case(batch["model"], int(batch["layers"])) if batch["task"] == "sum" else LOST
        return rows_of(columns, training.row() | {"worst case": worst}), {}

    def table(self, plan: Plan, ran: Sequence[Ran]) -> str:
        rows = []
        for r in (r for r in ran if r.batch["task"] != "digits"):
            lost, error = r.column("lost"), r.column("relative error")
            sums = r.batch["task"] == "sum"
            rows.append(
                (
                    f"{r.batch['model']}, {r.batch['task']}" + (f", {r.batch['layers']} layers" if sums else ""),
                    _published(r.batch),
                    number(float(r.rows[0]["worst case"])) if sums else "-",
                    number(float(r.column("largest at first").max())),
                    f"{int(lost.sum())} of {len(lost)}",
                    f"{int((error < LEARNED).sum())} of {len(error)}",
                    number(float(np.median(error))),
                )
            )
        head = (
            "model and task",
            "published",
            "worst case",
            "largest output of fresh weights",
            "runs lost",
            f"learned (error below {LEARNED:.0%})",
            "median relative error",
        )
        digits = [r for r in ran if r.batch["task"] == "digits"]
        return (markdown(head, rows) if rows else "") + (_table_of_digits(digits) if digits else "")

    def figure(self, plan: Plan, ran: Sequence[Ran]) -> Figure:
        """Errors of every run over the number of layers, and of the signed product."""
        with rc_context(STYLE):
            figure = page(wide=True)
            left, right, third = figure.subplots(1, 3, width_ratios=(3, 2, 2))
            for axis, task, models in ((left, "sum", MODELS), (right, "product", SIGNED)):
                for i, model in enumerate(models):
                    for depth in DEPTHS:
                        r = find(ran, task=task, model=model, layers=str(depth))
                        if r is None:
                            continue
                        at = depth + aside(i, len(models)) if task == "sum" else i
                        draw_runs(axis, at, r.column("relative error").clip(*LOOK.errors), COLOURS[i])
                least, most = LOOK.errors
                axis.set(yscale="log", ylabel="relative error", ylim=(least / 2, 2 * most))
            for i, model in enumerate(MODELS):
                left.plot([], [], "o", color=COLOURS[i], label=model)
            left.set(xlabel="layers", title="sum of four inputs; lost runs at the top", xticks=DEPTHS)
            left.legend()
            right.set_xticks(range(len(SIGNED)), list(SIGNED))
            right.set(title="product of inputs of both signs")
            for i, model in enumerate(READERS):
                r = find(ran, task="digits", model=model)
                if r is not None:
                    draw_runs(third, i, 100.0 * r.column("accuracy"), COLOURS[i])
            third.set_xticks(range(len(READERS)), list(READERS))
            third.set(title="digits by three layers", ylabel="read right, %; lost runs at 0", ylim=LOOK.per_cents)
        return figure


def _read_digits(plan: Plan, model: str, monitor: Monitor) -> list[Row]:
    """Rows of one model that reads digits: accuracy on images never seen, 0 for a run that is lost."""
    how, source = plan.pick(DIGITS, QUICK_DIGITS), plan.generator({"task": "digits", "model": model})
    # One division into images for learning and for testing, whatever the model.
    seen, held_out = divided(handwritten(), how.points, plan.generator({"task": "digits"}, "division"))
    network = _reader(model, seen.pixels[0].numel(), how.runs, source)
    test = _inputs(held_out)
    before, lost = _sizes(network, test), torch.full((how.runs,), LOST, dtype=torch.float64)

    def watch(step: int, loss: Tensor) -> None:
        lost[~loss.isfinite().cpu() & lost.isinf()] = float(step)

    def draw() -> tuple[Tensor, Tensor]:
        part = seen.of(torch.randint(0, len(seen.digits), (how.batch,), generator=source))
        return _inputs(part), nn.functional.one_hot(part.digits.long(), CLASSES).float().expand(how.runs, -1, -1)

    training = Training(how.steps, how.rate, "rmsprop", "cross-entropy", watch_every=max(how.steps // how.checks, 1))
    train(network, draw, training, monitor, name=f"digits {model}", device=plan.device, watch=watch)
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
    return rows_of(columns, training.row() | {"images": seen.name})


def _reader(model: str, pixels: int, runs: int, source: torch.Generator) -> nn.Sequential:
    base: dict[str, Any] = {"members": runs, "generator": source, "dtype": torch.float64}
    sizes = ((pixels, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, CLASSES))
    first, *rest = (READERS[model](n_in, n_out, **base) for n_in, n_out in sizes)
    between = [nn.ReLU()] if model == "dense" else []
    return nn.Sequential(first, *(part for unit in rest for part in (*between, unit))).float()


def _inputs(images: Images) -> Tensor:
    """Pixels from 0 to 1, [1, N, pixels]."""
    return (0.5 + 0.5 * images.pixels).flatten(1)[None]


def _table_of_digits(ran: Sequence[Ran]) -> str:
    rows = []
    for r in ran:
        lost, right, at = (r.column(name) for name in ("lost", "accuracy", "lost at"))
        known = at[np.isfinite(at)]
        middle, worst, best = (100 * float(of(right)) for of in (np.median, np.min, np.max))
        rows.append(
            (
                f"{r.batch['model']}, digits, 3 layers",
                "fails after the first steps" if r.batch["model"] == "NALU" else "-",
                number(float(r.column("largest at first").max())),
                f"{int(lost.sum())} of {len(lost)}" + (f", from step {known.min():.0f} on" if len(known) else ""),
                f"{middle:.1f} % ({worst:.1f} to {best:.1f})",
            )
        )
    head = (
        "model and task",
        "published",
        "largest output of fresh weights",
        "runs lost",
        "held-out digits read right, median (worst to best; 0 for a lost run)",
    )
    names = "; ".join(sorted({str(r.rows[0].get("images", SMALL.name)) for r in ran}))
    return f"\n{markdown(head, rows)}\nImages: {names}.\n"


def worst_case(model: str, depth: int) -> float:
    """Largest output of a stack at x = 10 whose sums are open for NAU and closed for the others."""
    network = nn.Sequential(*(MODELS[model](WIDTH, WIDTH) for _ in range(depth))).float()
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


def _network(batch: dict[str, str], runs: int, source: torch.Generator) -> nn.Sequential:
    base: dict[str, Any] = {"members": runs, "generator": source, "dtype": torch.float64}
    if batch["task"] == "product":
        return nn.Sequential(SIGNED[batch["model"]](2, 1, **base)).float()
    return nn.Sequential(*(MODELS[batch["model"]](WIDTH, WIDTH, **base) for _ in range(int(batch["layers"])))).float()


def _draw(task: str, count: int, source: torch.Generator) -> tuple[Tensor, Tensor]:
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
