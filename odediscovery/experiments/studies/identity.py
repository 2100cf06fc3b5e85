"""The identity function beyond the training range: dense nets, and arithmetic units beside them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import nn

from odediscovery.experiments.base import (
    Arrays,
    Experiment,
    Job,
    Plan,
    Ran,
    Row,
    find,
    markdown,
    median_deviation,
    number,
    spread,
)
from odediscovery.experiments.figures import LOOK, Values, draw_groups, line_of, page
from odediscovery.experiments.training import ACTIVATIONS, Setting, Training, chain, rows_of, sampler, train
from odediscovery.plots.figures import COLOURS, GRID, MUTED
from odediscovery.runtime.arrays import Mask
from odediscovery.units import NAC, NALU, NAU, AbstractUnit, Dense

ARITHMETIC: dict[str, Callable[..., AbstractUnit]] = {"NAC": NAC, "NAU": NAU, "NALU": NALU}
# The words "fail outside" as a number: so many times the error inside.
FAILS = 10.0


def measured(network: nn.Sequential, x: Values, inside: Mask, runs: int) -> tuple[Values, dict[str, list[float]]]:
    """The curves of all runs over x, [runs, points], and their mean absolute errors where x is inside and elsewhere."""
    with torch.no_grad():
        curves = network(torch.tensor(x)[None, :, None].expand(runs, -1, -1))[..., 0].numpy()
    off = np.nan_to_num(np.abs(curves - x), nan=np.inf)
    means = {name: off[:, where].mean(axis=1) for name, where in (("inside", inside), ("outside", ~inside))}
    return curves, {f"error {name}": mean.tolist() for name, mean in means.items()}


UNITS = ("NAC", "NALU")
# Width of the dense nets, their rate and largest entry of a gradient, and the rate of the units.
WIDTH, DENSE_RATE, CLIP, UNIT_RATE = 8, 1e-3, 1.0, 1e-2
# Training range, and the end of the test range.
LOW, HIGH, FARTHEST = -10.0, 10.0, 20.0


class Extrapolation(Experiment):
    """Sec. 2 of the project report on NAC and NALU: dense nets learn y = x and fail outside; 20 runs each.

        y = x,    trained on x ~ U(-10, 10), tested on the grid -10, -9.9 ... 20

    An MLP 1 -> 8 -> 8 -> 1 with one of nine activations on both hidden layers, squared loss and
    plain gradient descent; beside them one NAC and one NALU, 1 -> 1, which the report does not put
    into this test, with its smooth L1 loss and RMSProp. The report prints a figure, no number, and
    neither rate, batch nor steps: ours are constants above, and gradients are clipped entry by entry
    because descent at inputs up to 10 is unstable otherwise. Both presets are the same.

    Source: nac_nalu_project.md, Sec. 2, after Fig. 1 of Trask et al. (2018).
    """

    name = "extrapolation"
    title = "Numerical extrapolation failures (NAC/NALU report, Sec. 2): y = x beyond the training"
    full = Setting(steps=20_000, points=301)
    quick = replace(full, runs=3, steps=400)
    models = (*ACTIVATIONS, *UNITS)

    def batches(self, plan: Plan) -> list[dict[str, str]]:
        return [{"model": model} for model in self.models]

    def run(self, job: Job) -> tuple[list[Row], Arrays]:
        how, model = self.how(job.plan), job.batch["model"]
        if model in UNITS:
            network = chain(how.runs, job.source, (ARITHMETIC[model], 1, 1))
            training = Training(how.steps, UNIT_RATE, "rmsprop", "smooth-l1")
        else:
            first, second = (ACTIVATIONS[model](how.runs) for _ in range(2))
            layers = (Dense, 1, WIDTH), first, (Dense, WIDTH, WIDTH), second, (Dense, WIDTH, 1)
            network = chain(how.runs, job.source, *layers)
            training = Training(how.steps, DENSE_RATE, "sgd", clip=CLIP)
        train(network, sampler((how.runs, how.batch, 1), LOW, HIGH, job.source, lambda x: x), training, job)
        x = np.linspace(LOW, FARTHEST, how.points)
        curves, columns = measured(network, x, x <= HIGH, how.runs)
        middle = np.argsort(columns["error outside"], kind="stable")[how.runs // 2]
        rows = rows_of(columns, training.row() | {"loss": training.loss, "batch": how.batch})
        return rows, {"x": x, "median run": curves[middle], "median": np.median(curves, axis=0)}

    def table(self, plan: Plan, ran: Sequence[Ran]) -> str:
        rows = []
        for r in ran:
            model = r.batch["model"]
            inside, outside = r.column("error inside"), r.column("error outside")
            ratio = r.median("error outside") / r.median("error inside")
            published = {"PReLU": "fails, the least"}.get(model, "fails")
            rows.append(
                {
                    "model": model,
                    "published": "-" if model in UNITS else published,
                    "ours inside, median ± MAD": spread(*median_deviation(inside)),
                    "ours outside, median ± MAD": spread(*median_deviation(outside)),
                    "outside / inside": number(ratio),
                    "runs above 10 x": f"{int((outside > FAILS * inside).sum())} of {len(r.rows)}",
                    "agrees": "-" if model in UNITS else "yes" if ratio > FAILS else "no",
                }
            )
        return f"{markdown(rows)}\n{_remarks(ran)}\n"

    def draw(self, plan: Plan, ran: Sequence[Ran]) -> Figure:
        """Left the curve of the median run of every model, right its error outside."""
        figure = page()
        left, right = figure.subplots(1, 2, width_ratios=(3, 2))
        left.axvspan(LOW, HIGH, color=GRID, lw=0)
        left.plot([LOW, FARTHEST], [LOW, FARTHEST], color=MUTED, lw=LOOK.broad, alpha=LOOK.faint, label="y = x")
        for r in ran:
            model = r.batch["model"]
            left.plot(r.arrays["x"], r.arrays["median run"], label=model, **line_of(self.models.index(model)))
        limits = {"xlim": (LOW, FARTHEST), "ylim": (LOW - 2, FARTHEST + 2)}
        left.set(xlabel="x", ylabel="prediction", title="median run; grey: training range", **limits)
        left.legend(ncols=2, loc="upper left")

        def errors(model: str, where: str) -> Values | None:
            r = find(ran, model=model)
            return None if r is None else r.column(f"error {where}").clip(*LOOK.errors)

        models = [r.batch["model"] for r in ran]
        draw_groups(right, models, ("inside", "outside"), errors, colours=(MUTED, COLOURS[1]), lying=True)
        right.set(xscale="log", xlabel="mean absolute error", title="inside and outside, every run")
        right.invert_yaxis()
        right.legend(loc="lower right")
        return figure


def _remarks(ran: Sequence[Ran]) -> str:
    """What the report says in words, next to what was found."""
    dense = {r.batch["model"]: r.median("error outside") for r in ran if r.batch["model"] not in UNITS}
    said = [
        'Published as a figure only: "all nonlinear functions fail to learn to represent numbers '
        f'outside", PReLU the least. Failing is taken as an error above {FAILS:.0f} times that '
        "inside."
    ]
    if "PReLU" in dense and len(dense) > 1:
        order = sorted(dense, key=lambda model: dense[model])
        listed = ", ".join(f"{model} {number(dense[model])}" for model in order)
        place = order.index("PReLU") + 1
        said.append(f"Ours, by error outside: {listed}; PReLU is number {place} of {len(dense)}.")
    return " ".join(said)


# Sizes of the autoencoders, ends of their training and test ranges.
SIZES = (1, 8, 8, 8, 1)
EDGE, FAR_EDGE = 5.0, 20.0
# An error outside that is no more than rounding is no failure.
ROUNDING = 1e-6


class Autoencoder(Experiment):
    """Autoencoders of the same size on the scalar identity: dense nets know only the range they saw.

        y = x,    1 -> 8 -> 8 -> 8 -> 1,    trained on x ~ U(-5, 5), tested on the grid -20, -19.8 ... 20

    All models have the same layers, method and data, and differ in the nonlinearity alone: the nine of
    the report, none at all, and layers of NAC, NAU and NALU in place of dense ones. `extrapolation` is
    the report's own, smaller network; this is the seminar's "Autoencoder (same size)", with the figures
    of the paper that it comes from: three hidden layers of 8, 10 000 steps at rate 0.01 on the squared
    error, mean absolute error of 100 models (20 are enough for medians). Batch and method (Adam) are ours.

    Source: the seminar, "NN fail at Extrapolation", after Fig. 1 of Trask et al. (2018); a figure there.
    """

    name = "autoencoder"
    title = "Autoencoders of the same size on y = x (seminar; Trask et al., Fig. 1)"
    full = Setting(points=201)
    quick = replace(full, runs=3, steps=100)
    models = (*ACTIVATIONS, "None", *ARITHMETIC)

    def batches(self, plan: Plan) -> list[dict[str, str]]:
        return [{"model": model} for model in self.models]

    def run(self, job: Job) -> tuple[list[Row], Arrays]:
        how = self.how(job.plan)
        network = autoencoder(job.batch["model"], how.runs, job.source)
        training = Training(how.steps, how.rate, anneal=0.5)
        train(network, sampler((how.runs, how.batch, 1), -EDGE, EDGE, job.source, lambda x: x), training, job)
        x = np.linspace(-FAR_EDGE, FAR_EDGE, how.points)
        curves, columns = measured(network, x, np.abs(x) <= EDGE, how.runs)
        mean = np.nan_to_num(np.abs(curves - x), nan=np.inf).mean(axis=0)
        return rows_of(columns, training.row() | {"batch": how.batch}), {"x": x, "mean error": mean}

    def table(self, plan: Plan, ran: Sequence[Ran]) -> str:
        rows = []
        for r in ran:
            inside, outside = r.column("error inside"), r.column("error outside")
            failed = (outside > FAILS * inside) & (outside > ROUNDING)
            dense = r.batch["model"] in ACTIVATIONS
            rows.append(
                {
                    "model": r.batch["model"],
                    "published": "fails" if dense else "-",
                    "inside, median ± MAD": spread(*median_deviation(inside)),
                    "outside, median ± MAD": spread(*median_deviation(outside)),
                    "runs above 10 x": f"{int(failed.sum())} of {len(failed)}",
                    "agrees": "-" if not dense else "yes" if failed.mean() > 0.5 else "no",
                }
            )
        return markdown(rows)

    def draw(self, plan: Plan, ran: Sequence[Ran]) -> Figure:
        """Mean absolute error over x, as the paper draws it, on a logarithmic scale."""
        figure = page()
        axis = figure.subplots()
        axis.axvspan(-EDGE, EDGE, color=GRID, lw=0)
        for r in ran:
            model, error = r.batch["model"], r.arrays["mean error"].clip(*LOOK.errors)
            axis.plot(r.arrays["x"], error, label=model, **line_of(self.models.index(model)))
        least = f"mean absolute error, at least {LOOK.errors[0]:.0e}"
        axis.set(yscale="log", xlabel="x", ylabel=least, title="grey: training range")
        figure.legend(loc="outside right center")
        return figure


def autoencoder(model: str, runs: int, source: torch.Generator) -> nn.Sequential:
    """The layers of a model, its nonlinearity between them."""
    parts: list[Any] = []
    for i, (inputs, outputs) in enumerate(pairwise(SIZES)):
        parts += [ACTIVATIONS[model](runs)] if i and model in ACTIVATIONS else []
        parts.append((ARITHMETIC.get(model, Dense), inputs, outputs))
    return chain(runs, source, *parts)
