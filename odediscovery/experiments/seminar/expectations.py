"""What gradients and outputs are expected to be where training begins: nothing is trained.

    NAC:  E[dL/dM] = E[dL/dW] E[tanh(W_hat)] E[sigmoid'(M_hat)] = 0,  for E[W_hat] = 0
    multiplicative NAC:  E[z] ~ (1 + Var[W] log(|E[x]| + eps)^2 / 2)^H  > 1
    NMU:  E[z] = ((E[x] + 1) / 2)^H

Both follow if dL/dW does not depend on W. With a squared loss it does: dL/dW = 2 (W x - t) x. Its
part with the target t keeps the expectation of 0, so M is told nothing of the task; the part with
the unit's own output W x does not, it shrinks M whatever the task. Both are measured, in units of
the mean size of the gradient, for t = sum of all inputs and x ~ U(1, 2).

Source: Madsen and Johansen, Neural Arithmetic Units (2020), slides "Weight issues" and
"Multiplication issues"; the seminar, "Expectation of the gradient".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from odediscovery.experiments.base import Arrays, Experiment, Plan, Ran, Row, Stopped, markdown, number
from odediscovery.experiments.drawing import LOOK, STYLE, aside, page
from odediscovery.experiments.regression import parameters_of, uniform
from odediscovery.plots.figures import COLOURS, INK
from odediscovery.runtime.monitor import Monitor
from odediscovery.units import NAC, NAU, NMU, AbstractUnit, MultiplicativeNAC
from odediscovery.units.nac import EPSILON, accumulator

SIZES = (1, 2, 4, 8, 16, 32, 64)
# The parameters whose gradients are looked at, and the parts of the squared loss.
GRADIENTS: dict[str, tuple[type[AbstractUnit], str]] = {
    "NAC, M": (NAC, "mask"),
    "NAC, W_hat": (NAC, "weight"),
    "NAU, W": (NAU, "weight"),
}
PARTS = ("target", "own output")
PRODUCTS: dict[str, type[AbstractUnit]] = {"MultiplicativeNAC": MultiplicativeNAC, "NMU": NMU}
# Inputs of the products: around 0, as a network should begin, and away from it.
RANGES = {"around 0": (-1.0, 1.0), "1 to 2": (1.0, 2.0)}
# Standard errors from 0 within which an expectation counts as 0.
ZERO = 4.0


@dataclass(frozen=True)
class Setting:
    """Random beginnings of every size, and inputs of each; they are drawn in blocks of members."""

    blocks: int = 25
    members: int = 4000
    samples: int = 8


FULL = Setting()
QUICK = replace(FULL, blocks=2, members=1000)


class Expectations(Experiment):
    """Gradients of sums, outputs of products, at the weights that training begins with."""

    name = "expectations"
    title = "Expectations where training begins (slides on Neural Arithmetic Units)"
    trains = False

    def batches(self, plan: Plan) -> list[dict[str, str]]:
        gradients = [{"what": "gradient", "of": name, "part": part} for name in GRADIENTS for part in PARTS]
        return gradients + [{"what": "output", "of": unit, "part": name} for unit in PRODUCTS for name in RANGES]

    def run(self, plan: Plan, batch: dict[str, str], monitor: Monitor) -> tuple[list[Row], Arrays]:
        how, source, rows = plan.pick(FULL, QUICK), plan.generator(batch), list[Row]()
        for size in SIZES:
            if monitor.stopping():
                raise Stopped
            drawn = [_drawn(batch, size, how, source) for _ in range(how.blocks)]
            values = torch.cat([values for values, _ in drawn])
            # What the formula says is the same for every block, but for the draws that it is from.
            formula = float(np.mean([formula for _, formula in drawn]))
            rows.append(_row(size, values, formula))
        return rows, {}

    def table(self, plan: Plan, ran: Sequence[Ran]) -> str:
        gradients = [_gradient_line(r) for r in ran if r.batch["what"] == "gradient"]
        outputs = [_output_line(r, row) for r in ran if r.batch["what"] == "output" for row in r.rows[::3]]
        head = ("gradient, part of the loss", "published", *(f"{size} inputs" for size in SIZES), "zero")
        text = (
            "Mean of the gradient in per cent of its mean size, with its standard error; zero: within "
            f"{ZERO:.0f} standard errors for every number of inputs.\n\n{markdown(head, gradients)}\n"
        )
        head = ("output, inputs", "published", "formula", "ours, mean", "ours, median", "agrees")
        return text + markdown(head, outputs)

    def figure(self, plan: Plan, ran: Sequence[Ran]) -> Figure:
        """Left means of gradients, right means of outputs, over the number of inputs."""
        with rc_context(STYLE):
            figure = page()
            left, right = figure.subplots(1, 2)
            _draw_gradients(left, [r for r in ran if r.batch["what"] == "gradient"])
            _draw_outputs(right, [r for r in ran if r.batch["what"] == "output"])
        return figure


def gradient(name: str, part: str, size: int, members: int, samples: int, source: torch.Generator) -> Tensor:
    """d/dp of one part of mean (z - t)^2, averaged over the entries of p, [members].

    Args:
        name: of `GRADIENTS`.
        part: "target" for -2 t z, "own output" for z^2.
        size: how many inputs; t is their sum.
    """
    kind, parameter = GRADIENTS[name]
    unit = kind(size, 1, members=members, generator=source, dtype=torch.float64)
    x = uniform((members, samples, size), 1.0, 2.0, source)
    z, t = unit(x), x.sum(dim=-1, keepdim=True)
    loss = (-2.0 * t * z if part == "target" else z.square()).mean(dim=(-1, -2)).sum()
    (found,) = torch.autograd.grad(loss, parameters_of(unit)[parameter])
    return found.flatten(1).mean(dim=1)


def output(
    name: str, inside: tuple[float, float], size: int, members: int, source: torch.Generator
) -> tuple[Tensor, float]:
    """Outputs z [members] of a product of fresh weights at random x, and E[z] by its formula."""
    unit = PRODUCTS[name](size, 1, members=members, generator=source, dtype=torch.float64)
    z = unit(uniform((members, 1, size), *inside, source)).detach().flatten()
    middle = sum(inside) / 2
    if name == "NMU":
        return z, ((middle + 1.0) / 2.0) ** size
    p = parameters_of(unit)
    variance = float(accumulator(p["weight"], p["mask"]).detach().var())
    return z, (1.0 + variance * math.log(abs(middle) + EPSILON) ** 2 / 2.0) ** size


def _drawn(batch: dict[str, str], size: int, how: Setting, source: torch.Generator) -> tuple[Tensor, float]:
    if batch["what"] == "gradient":
        return gradient(batch["of"], batch["part"], size, how.members, how.samples, source), 0.0
    return output(batch["of"], RANGES[batch["part"]], size, how.members, source)


def _row(size: int, values: Tensor, formula: float) -> Row:
    return {
        "inputs": size,
        "draws": len(values),
        "mean": float(values.mean()),
        "standard error": float(values.std()) / math.sqrt(len(values)),
        "mean size": float(values.abs().mean()),
        "median": float(values.median()),
        "formula": formula,
    }


def _gradient_line(r: Ran) -> list[str]:
    mean, error = (100.0 * r.column(name) / r.column("mean size") for name in ("mean", "standard error"))
    # One input of one sign: the own output's part has no other choice than its mean.
    zero = bool((np.abs(mean) <= ZERO * error).all())
    cells = [f"{m:+.1f} ± {e:.1f}" for m, e in zip(mean, error, strict=True)]
    published = "0" if r.batch["of"] == "NAC, M" else "not 0" if r.batch["part"] == "target" else "-"
    return [f"{r.batch['of']}, {r.batch['part']}", published, *cells, "yes" if zero else "no"]


def _output_line(r: Ran, row: Row) -> list[str]:
    formula, mean, error = (float(row[name]) for name in ("formula", "mean", "standard error"))
    published = (
        "above 1" if r.batch["of"] == "MultiplicativeNAC" else "towards 0" if r.batch["part"] == "around 0" else "-"
    )
    agrees = mean > 1.0 if published == "above 1" else abs(mean - formula) <= ZERO * error
    named = f"{r.batch['of']}, {r.batch['part']}, {row['inputs']} inputs"
    cells = [number(formula, 3), f"{number(mean, 3)} ± {number(error)}", number(float(row["median"]), 3)]
    return [named, published, *cells, "yes" if agrees else "no"]


def _draw_gradients(axis: Axes, ran: Sequence[Ran]) -> None:
    for i, r in enumerate(ran):
        mean, error = (r.column(name) / r.column("mean size") for name in ("mean", "standard error"))
        dashed = "--" if r.batch["part"] == "own output" else "-"
        look: dict[str, Any] = {"color": COLOURS[list(GRADIENTS).index(r.batch["of"])], "ls": dashed, "marker": "o"}
        # A little apart, so that zeros do not hide each other.
        place = r.column("inputs") * (1.0 + aside(i, len(ran)) / 2)
        axis.errorbar(place, mean, ZERO * error, label=f"{r.batch['of']}, {r.batch['part']}", capsize=3, **look)
    axis.axhline(0.0, color=INK, lw=LOOK.thin)
    axis.set_xscale("log", base=2)
    axis.set(xlabel="inputs", ylabel="mean gradient / mean size", title="does the gradient know the task?")
    axis.legend(ncols=2, loc="center", bbox_to_anchor=(0.5, 0.72))


def _draw_outputs(axis: Axes, ran: Sequence[Ran]) -> None:
    for i, r in enumerate(ran):
        inputs, named = r.column("inputs"), f"{r.batch['of']}, x {r.batch['part']}"
        mean = r.column("mean")
        # A mean within its error is not drawn.
        sure = np.where(np.abs(mean) > ZERO * r.column("standard error"), mean, np.nan)
        axis.plot(inputs, sure, "o-", color=COLOURS[i], label=named)
        axis.plot(inputs, r.column("formula"), ":", color=COLOURS[i], label="its formula")
    axis.axhline(1.0, color=INK, lw=LOOK.thin)
    axis.set_xscale("log", base=2)
    axis.set(yscale="log", ylim=(1e-9, 1e12), xlabel="inputs", ylabel="E[z]", title="outputs of fresh products")
    axis.legend(ncols=2, loc="upper right", bbox_to_anchor=(1.0, 0.2))
