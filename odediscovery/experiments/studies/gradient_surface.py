"""Where gradients vanish: Figs. 1 to 3 of Neural Power Units, and the loss surface of Madsen's slides.

Figs. 1 and 2: the units themselves. Fig. 3: the identity on x1 beside an irrelevant small x2.
Slides: (x1 + x2)(x1 + x2 + x3 + x4) by NAC+ then the multiplicative NAC, whose division makes poles,
against NAU then NMU. Every point of a surface is a member: the whole picture is one batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from matplotlib import rc_context
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from torch import Tensor

from odediscovery.experiments.base import Arrays, Experiment, Plan, Ran, Row, Stopped, find, markdown, number
from odediscovery.experiments.diagram import diagram_figure
from odediscovery.experiments.drawing import LOOK, STYLE, page
from odediscovery.plots.figures import COLOURS
from odediscovery.runtime.arrays import ABOVE_ZERO
from odediscovery.runtime.monitor import Monitor
from odediscovery.units import NMU, NPU, NaiveNPU, RealNPU

# Points of a side of the surface, in full and for a quick look.
SIDE, QUICK_SIDE = 141, 41
# Weights that are scanned in Fig. 3, the batch of the code, the size of the irrelevant input, and from
# which w2 on the plateau begins.
W1, W2, BATCH, SMALL, PLATEAU = (-1.0, 2.5), (-0.2, 1.0), 32, 0.05, 0.75
# Gradients are shown from 0 to twice the NPU's median beyond PLATEAU: a scale of decades makes a plateau of a
# seventh of it look like the rest. The paper's loss is a sum of absolute values, the code's a mean of squares.
GRADIENT_SCALE = {"paper": (0.0, 18.0), "as-run": (0.0, 1.9)}
LOSS_SCALE = (1e-2, 1e3)
# Weights that are scanned in the slides.
WEIGHTS = (-1.5, 1.5)
GATES = {"NaiveNPU": None, "NPU, gates 0.5": (0.5, 0.5), "NPU, gates (1, 0)": (1.0, 0.0)}
# Epsilons of the multiplicative NAC in the slides, and the one input they draw it for.
EPSILONS = {"NAC, eps 1e-7": 1e-7, "NAC, eps 0.1": 0.1, "NAC, eps 1": 1.0, "NMU": None}
POINT = (1.0, 1.2, 1.8, 2.0)
PUBLISHED = {
    "NaiveNPU": "next to no gradient for w2 > 0.75",
    "NPU, gates 0.5": "no plateau",
    "NPU, gates (1, 0)": "gradient independent of w2",
    "NAC, eps 1e-7": "many unstable alternatives to (1, 1)",
    "NAC, eps 0.1": "the same, smoother",
    "NAC, eps 1": "wrong solution",
    "NMU": "no poles",
}


class GradientSurface(Experiment):
    """Three panels of gradient norms, four of losses."""

    name = "gradient-surface"
    title = "Gradient and loss surfaces (Fig. 3; slides, Fig. 2)"
    trains = False

    def batches(self, plan: Plan) -> list[dict[str, str]]:
        return [{"panel": panel} for panel in (*GATES, *EPSILONS)]

    def run(self, plan: Plan, batch: dict[str, str], monitor: Monitor) -> tuple[list[Row], Arrays]:
        side = plan.pick(SIDE, QUICK_SIDE)
        if monitor.stopping():
            raise Stopped
        panel = batch["panel"]
        if panel in GATES:
            surface, rows = _gradients(panel, plan, side)
        else:
            surface, rows = _losses(panel, side)
        return rows, {"surface": surface}

    def table(self, plan: Plan, ran: Sequence[Ran]) -> str:
        rows = [
            (
                r.batch["panel"],
                PUBLISHED[r.batch["panel"]],
                *(
                    number(float(r.rows[0].get(key, np.nan)), 3)
                    for key in ("plateau", "spread along w2", "largest", "loss at solution")
                ),
            )
            for r in ran
        ]
        return markdown(
            (
                "panel",
                "published",
                f"median gradient where w2 > {PLATEAU}",
                "spread of the gradient along w2",
                "largest value drawn",
                "loss at the solution",
            ),
            rows,
        )

    def figure(self, plan: Plan, ran: Sequence[Ran]) -> Figure:
        with rc_context(STYLE | {"axes.grid": False}):
            figure = page(rows=2, wide=True)
            parts: Any = figure.subfigures(2, 1)
            above, below = parts
            top, bottom = above.subplots(1, len(GATES)), below.subplots(1, len(EPSILONS))
            for axis, panel in zip((*top, *bottom), (*GATES, *EPSILONS), strict=True):
                r = find(ran, panel=panel)
                axis.set_title(panel)
                if r is None:
                    continue
                gradient = panel in GATES
                low, high = GRADIENT_SCALE[plan.preset] if gradient else LOSS_SCALE
                box = (*W1, *W2) if gradient else (*WEIGHTS, *WEIGHTS)
                image = axis.imshow(
                    r.arrays["surface"].T.clip(low, high),
                    origin="lower",
                    extent=box,
                    aspect="auto",
                    norm=(Normalize if gradient else LogNorm)(low, high),
                    cmap="viridis",
                )
                axis.set(xlabel="w1", ylabel="w2")
                axis.plot(1, 0 if gradient else 1, "x", color=COLOURS[1], ms=LOOK.cross, mew=LOOK.thick)
                (above if gradient else below).colorbar(
                    image, ax=axis, extend="max", label="gradient norm" if gradient else "RMS loss"
                )
                if gradient:
                    axis.axhline(PLATEAU, color="white", ls=":")
                    axis.set_title(f"{panel}\nmedian {number(float(r.rows[0]['plateau']))} above the line")
        return figure

    def more_figures(self, plan: Plan, ran: Sequence[Ran]) -> dict[str, Figure]:
        """Figs. 1 and 2, and the NPU without imaginary weights."""
        return {f"diagram-{unit.__name__}": diagram_figure(unit(2, 3)) for unit in (NaiveNPU, NPU, RealNPU)}


def _lines(side: int, first: tuple[float, float], second: tuple[float, float]) -> Tensor:
    """Grid points (w1, w2) as members, [side * side, 2]."""
    a = torch.linspace(*first, side, dtype=torch.float64)
    b = torch.linspace(*second, side, dtype=torch.float64)
    return torch.cartesian_prod(a, b)


def _gradients(panel: str, plan: Plan, side: int) -> tuple[np.ndarray, list[Row]]:
    """Norm of dL/dRe on the grid: squared loss as the code has it, absolute as the paper."""
    weights = _lines(side, W1, W2)[:, None, :].requires_grad_(True)
    p = {"real": weights, "imaginary": torch.zeros_like(weights.detach())}
    unit = NaiveNPU(2, 1)
    gates = GATES[panel]
    if gates is not None:
        unit = NPU(2, 1)  # type: ignore[assignment]
        p["gate"] = torch.tensor(gates, dtype=torch.float64).expand(len(weights), 2)
    source = plan.generator({}, "gradient surface")
    draw = torch.rand(1, BATCH, 2, generator=source, dtype=torch.float64)
    small = SMALL * (draw[..., 1] if plan.preset == "paper" else 2 * draw[..., 1] - 1)
    x = torch.stack([2.0 * draw[..., 0], small], dim=-1)
    off = unit.compute(p, x)[..., 0] - x[..., 0]
    loss = off.abs().sum() if plan.preset == "paper" else off.square().mean(dim=1).sum()
    (gradient,) = torch.autograd.grad(loss, weights)
    norm = gradient[:, 0].norm(dim=1).reshape(side, side).numpy()
    high = np.linspace(*W2, side) > PLATEAU
    middle = norm.mean(axis=1, keepdims=True)
    nearest = int(np.abs(np.linspace(*W1, side) - 1).argmin()), int(np.abs(np.linspace(*W2, side)).argmin())
    spread = float(np.median(norm.std(axis=1) / np.maximum(middle[:, 0], ABOVE_ZERO)))
    return norm, [
        {
            "plateau": float(np.median(norm[:, high])),
            "spread along w2": spread,
            "largest": float(norm.max()),
            "gradient at solution": float(norm[nearest]),
        }
    ]


def _losses(panel: str, side: int) -> tuple[np.ndarray, list[Row]]:
    """RMS loss of (x1 + x2)(x1 + x2 + x3 + x4) for weights w1 of the sums, w2 of the product."""
    w = _lines(side, WEIGHTS, WEIGHTS)
    x = torch.tensor(POINT, dtype=torch.float64)
    truth = (x[0] + x[1]) * x.sum()
    w = torch.cat([w, torch.ones(1, 2, dtype=torch.float64)])  # and the solution itself
    hidden = w[:, :1] * torch.stack([x[0] + x[1], x.sum()])
    epsilon = EPSILONS[panel]
    if epsilon is None:
        weight = w[:, 1:, None].expand(-1, 1, 2)
        y = NMU(2, 1).compute({"weight": weight}, hidden[:, None, :])[:, 0, 0]
    else:
        y = torch.exp((w[:, 1:] * torch.log(hidden.abs() + epsilon)).sum(dim=1))
    loss = (y - truth).abs().numpy()
    surface = loss[:-1].reshape(side, side)
    return surface, [{"largest": float(surface.max()), "loss at solution": float(loss[-1])}]
