"""Properties of units before training: gradients, losses, expectations, and diagrams of the units."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize, to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from torch import Tensor

from odediscovery.experiments.base import Arrays, Experiment, Job, Plan, Ran, Row, find, having
from odediscovery.experiments.figures import STYLE, THICK, THIN, Panel, draw_surface, page
from odediscovery.experiments.tables import markdown, number
from odediscovery.experiments.training import fresh, parameters_of, uniform
from odediscovery.plots.axes import COLOURS, INK, MUTED, empty_figure
from odediscovery.runtime.arrays import ABOVE_ZERO, Array
from odediscovery.units import NAC, NAU, NMU, NPU, UNITS, AbstractUnit, NaiveNPU, RealNPU
from odediscovery.units.nac import EPSILON, accumulator
from odediscovery.units.npu import AbstractPowerUnit

# Ranges of the weights in Fig. 3, batch size of the code, size of the irrelevant input, and the w2 at which the plateau
# begins.
W1, W2, BATCH, SMALL, PLATEAU = (-1.0, 2.5), (-0.2, 1.0), 32, 0.05, 0.75
# Range of the weights in the slides.
WEIGHTS = (-1.5, 1.5)
GATES = {"NaiveNPU": None, "NPU, gates 0.5": (0.5, 0.5), "NPU, gates (1, 0)": (1.0, 0.0)}
# Epsilons of the multiplicative NAC in the slides, and the input of their loss surface.
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
    """Where gradients vanish: Figs. 1 to 3 of Neural Power Units, and the loss surface of Madsen's slides.

    Figs. 1 and 2: diagrams of the units. Fig. 3: the identity on x1 with a small irrelevant x2. Slides: NAC+ and
    multiplicative NAC, whose division has poles, beside NAU and NMU on (x1 + x2)(x1 + x2 + x3 + x4). Every point of a
    surface is a member.
    """

    name = "gradient-surface"
    title = "Gradient and loss surfaces (Fig. 3; slides, Fig. 2)"
    trains = False
    # Points per side of the surface.
    full, quick = 141, 41
    axes: ClassVar = {"panel": (*GATES, *EPSILONS)}

    def run(self, job: Job) -> tuple[list[Row], Arrays]:
        job.check()
        panel, side = job.batch["panel"], self.how(job.plan)
        surface, row = gradients(panel, job.plan, side) if panel in GATES else losses(panel, side)
        return [row], {"surface": surface}

    def line(self, r: Ran) -> dict[str, str]:
        columns = {
            f"median gradient where w2 > {PLATEAU}": "plateau",
            "spread of the gradient along w2": "spread along w2",
            "largest value drawn": "largest",
            "loss at the solution": "loss at solution",
        }
        cells = {head: number(r.column(name)[0], 3) for head, name in columns.items()}
        return {"panel": r.name, "published": PUBLISHED[r.name], **cells}

    def draw(self, plan: Plan, ran: Sequence[Ran]) -> Figure:
        """Draw three panels of gradient norms and four of losses."""
        figure = page(rows=2, wide=True)
        axes: Any = figure.subplots(2, 4)
        axes[0, 3].set_axis_off()
        # Up to twice the NPU's median gradient beyond PLATEAU: on a logarithmic scale a seventh of it would look alike.
        steep = Normalize(0.0, 18.0 if plan.preset == "paper" else 1.9)
        for axis, panel in zip([*axes[0, :3], *axes[1]], (*GATES, *EPSILONS), strict=True):
            r, gradient = find(ran, panel=panel), panel in GATES
            axis.set(title=panel, xlabel="w1", ylabel="w2")
            if r is None:
                continue
            box, norm = ((*W1, *W2), steep) if gradient else ((*WEIGHTS, *WEIGHTS), LogNorm(1e-2, 1e3))
            image = draw_surface(axis, r.arrays["surface"], box, norm, aspect="auto", cmap="viridis")
            axis.plot(1, 0 if gradient else 1, "x", color=COLOURS[1], ms=9.0, mew=THICK)
            figure.colorbar(image, ax=axis, extend="max", label="gradient norm" if gradient else "RMS loss")
            if gradient:
                axis.axhline(PLATEAU, color="white", ls=":")
                axis.set_title(f"{panel}\nmedian {number(r.column('plateau')[0])} above the line")
        return figure

    def more_figures(self, plan: Plan, ran: Sequence[Ran]) -> dict[str, Figure]:
        """Figs. 1 and 2, and a diagram of the NPU without imaginary weights."""
        return {f"diagram-{unit.__name__}": diagram_figure(unit(2, 3)) for unit in (NaiveNPU, NPU, RealNPU)}


def _lines(side: int, *ends: tuple[float, float]) -> Tensor:
    """Grid points (w1, w2) as members, [side * side, 2]."""
    return torch.cartesian_prod(*(torch.linspace(*each, side, dtype=torch.float64) for each in ends))


def gradients(panel: str, plan: Plan, side: int) -> tuple[Array, Row]:
    """Norm of dL/dRe on the grid, of the squared loss (as the code ran) or the absolute one (as the paper prints)."""
    weights = _lines(side, W1, W2)[:, None, :].requires_grad_(True)
    p = {"real": weights, "imaginary": torch.zeros_like(weights.detach())}
    unit: AbstractUnit = NaiveNPU(2, 1)
    gates = GATES[panel]
    if gates is not None:
        unit = NPU(2, 1)
        p["gate"] = torch.tensor(gates, dtype=torch.float64).expand(len(weights), 2)
    printed = plan.preset == "paper"
    draw = uniform((1, BATCH, 2), 0.0, 1.0, plan.generator({}, "gradient surface"))
    small = SMALL * (draw[..., 1] if printed else 2 * draw[..., 1] - 1)
    x = torch.stack([2.0 * draw[..., 0], small], dim=-1)
    off = unit.compute(p, x)[..., 0] - x[..., 0]
    loss = off.abs().sum() if printed else off.square().mean(dim=1).sum()
    norm = torch.autograd.grad(loss, weights)[0][:, 0].norm(dim=1).reshape(side, side).numpy()
    first, second = (np.linspace(*ends, side) for ends in (W1, W2))
    return norm, {
        "plateau": float(np.median(norm[:, second > PLATEAU])),
        "spread along w2": float(np.median(norm.std(axis=1) / np.maximum(norm.mean(axis=1), ABOVE_ZERO))),
        "largest": float(norm.max()),
        "gradient at solution": float(norm[np.abs(first - 1).argmin(), np.abs(second).argmin()]),
    }


def losses(panel: str, side: int) -> tuple[Array, Row]:
    """RMS loss of (x1 + x2)(x1 + x2 + x3 + x4) for weights w1 of the sums, w2 of the product."""
    x, epsilon = torch.tensor(POINT, dtype=torch.float64), EPSILONS[panel]
    sums = torch.stack([x[0] + x[1], x.sum()])
    w = torch.cat([_lines(side, WEIGHTS, WEIGHTS), torch.ones(1, 2, dtype=torch.float64)])  # and the solution itself
    hidden = w[:, :1] * sums
    if epsilon is None:
        y = NMU(2, 1).compute({"weight": w[:, 1:, None].expand(-1, 1, 2)}, hidden[:, None, :])[:, 0, 0]
    else:
        y = torch.exp((w[:, 1:] * torch.log(hidden.abs() + epsilon)).sum(dim=1))
    loss = (y - sums.prod()).abs().numpy()
    surface = loss[:-1].reshape(side, side)
    return surface, {"largest": float(surface.max()), "loss at solution": float(loss[-1])}


VECTOR, TRAINED, FUNCTION = COLOURS[2], COLOURS[3], COLOURS[4]
# Width of a column and height of the figure in inches; positions of the rows and of the edge of the hatched area
# [half the height]; offset of two weights in one column from its middle; opacity of a colour inside a box.
COLUMN, HEIGHT, ROW, EDGE, ASIDE, FILL = 1.4, 3.2, 0.62, 0.95, 0.4, 0.35
# Position, text and colour of a box.
Box = tuple[float, float, str, str]


def diagram_figure(unit: AbstractPowerUnit) -> Figure:
    """Draw the `diagram` of a power unit from input to output, in the paper's colours (Figs. 1 and 2)."""
    boxes, arrows = diagram(unit)
    last = max(x for x, *_ in boxes.values())
    with rc_context(STYLE):
        figure = empty_figure(COLUMN * (last + 1.0), HEIGHT)
        axes = figure.add_subplot()
        axes.set(xlim=(-0.5, last + 0.5), ylim=(-1.0, 1.0))
        axes.set_title(f"{type(unit).__name__}: {unit.n_in} inputs, {unit.n_out} outputs")
        axes.set_axis_off()
        if "gate" in boxes:
            corner = boxes["gate"][0] - 0.5, -EDGE
            axes.add_patch(Rectangle(corner, 1.0, 2 * EDGE, fill=False, hatch="///", ec=to_rgba(MUTED, FILL), lw=0.0))
        outlines = {name: _draw_box(axes, name, *box) for name, box in boxes.items()}
        for start, end in arrows:
            one, other = outlines[start], outlines[end]
            arrow = {"arrowstyle": "->", "color": MUTED, "lw": THIN, "shrinkA": 0.0, "shrinkB": 0.0}
            arrow |= {"patchA": one.get_bbox_patch(), "patchB": other.get_bbox_patch()}
            axes.annotate("", other.get_position(), one.get_position(), arrowprops=arrow)
    return figure


def diagram(unit: AbstractPowerUnit) -> tuple[Mapping[str, Box], list[tuple[str, str]]]:
    """The boxes of a unit by name, and the arrows from box to box."""
    shapes = {name: " \N{MULTIPLICATION SIGN} ".join(map(str, shape)) for name, shape in unit.shapes().items()}
    gated, imaginary = "gate" in shapes, "imaginary" in shapes
    exponent, angle = r"$W_r \log r$", r"$\pi\, W_r k$"
    if imaginary:
        exponent, angle = rf"{exponent}$\,-\,\pi\, W_i k$", rf"$W_i \log r\,+\,${angle}"
    boxes: dict[str, Box] = {
        "x": (0, 0, f"$x$\n{unit.n_in}", VECTOR),
        "size": (1, ROW, r"$|x| + \varepsilon$" if gated else r"$r = |x| + \varepsilon$", FUNCTION),
        "sign": (1, -ROW, ("" if gated else r"$k =\,$") + "1 if $x < 0$,\nelse 0", FUNCTION),
    }
    arrows = [("x", "size"), ("x", "sign")]
    size, sign, at = "size", "sign", 2
    if gated:
        boxes["gate"] = (2, 0, f"$\\hat g$ = $g$ in [0, 1]\n$g$: {shapes['gate']}", TRAINED)
        boxes["mixed"] = (2, ROW, "$r = \\hat g\\,(|x| + \\varepsilon)$\n$+\\,1 - \\hat g$", FUNCTION)
        boxes["weighed"] = (2, -ROW, "$k = \\hat g$ if $x < 0$,\nelse 0", FUNCTION)
        arrows += [("size", "mixed"), ("sign", "weighed"), ("gate", "mixed"), ("gate", "weighed")]
        size, sign, at = "mixed", "weighed", 3
    boxes |= {
        "log": (at, ROW, r"$\log r$", FUNCTION),
        "real": (at + 2 - ASIDE * imaginary, 0, f"$W_r$: {shapes['real']}", TRAINED),
        "exponent": (at + 2, ROW, exponent, FUNCTION),
        "angle": (at + 2, -ROW, angle, FUNCTION),
        "exp": (at + 3, ROW, "exp", FUNCTION),
        "cos": (at + 3, -ROW, "cos", FUNCTION),
        "product": (at + 3.5, 0, r"$\odot$", FUNCTION),
        "y": (at + 4, 0, f"$y$\n{unit.n_out}", VECTOR),
    }
    arrows += [(size, "log"), ("log", "exponent"), (sign, "angle"), ("real", "exponent"), ("real", "angle")]
    arrows += [("exponent", "exp"), ("angle", "cos"), ("exp", "product"), ("cos", "product"), ("product", "y")]
    if imaginary:
        boxes["imaginary"] = (at + 2 + ASIDE, 0, f"$W_i$: {shapes['imaginary']}", TRAINED)
        arrows += [("imaginary", "exponent"), ("imaginary", "angle"), ("log", "angle"), (sign, "exponent")]
    return boxes, arrows


def _draw_box(axes: Axes, name: str, x: float, y: float, words: str, colour: str) -> Text:
    # A white box below hides the hatching.
    for face, edge in (("white", "none"), (to_rgba(colour, FILL), colour)):
        box = {"boxstyle": "round,pad=0.4", "fc": face, "ec": edge}
        drawn = axes.text(x, y, words, ha="center", va="center", color=INK, bbox=box, gid=name)
    return drawn


SIZES = (1, 2, 4, 8, 16, 32, 64)
# The parameters whose gradients are measured, and the parts of the squared loss.
GRADIENTS: dict[str, tuple[type[AbstractUnit], str]] = {
    "NAC, M": (NAC, "mask"),
    "NAC, W_hat": (NAC, "weight"),
    "NAU, W": (NAU, "weight"),
}
PARTS = ("target", "own output")
PRODUCTS = ("MultiplicativeNAC", "NMU")
# Inputs of the products: around 0, as a network should start, and away from it.
RANGES = {"around 0": (-1.0, 1.0), "1 to 2": (1.0, 2.0)}
# Standard errors from 0 within which an expectation counts as 0; inputs for each random initialisation.
ZERO, SAMPLES = 4.0, 8


class Expectations(Experiment):
    """Expected gradients of sums and expected outputs of products at initialisation; nothing is trained.

        NAC:  E[dL/dM] = E[dL/dW] E[tanh(W_hat)] E[sigmoid'(M_hat)] = 0,  for E[W_hat] = 0
        multiplicative NAC:  E[z] ~ (1 + Var[W] log(|E[x]| + eps)^2 / 2)^H  > 1
        NMU:  E[z] = ((E[x] + 1) / 2)^H

    The first holds if dL/dW does not depend on W. With a squared loss it does: dL/dW = 2 (W x - t) x.
    The part with the target t still has the expectation 0, so that M learns nothing of the task; the
    part with the unit's own output W x has not: it shrinks M for any task. Both are measured, relative
    to the mean size of the gradient, for t = sum of all inputs and x ~ U(1, 2).

    Source: Madsen and Johansen, Neural Arithmetic Units (2020), slides "Weight issues" and
    "Multiplication issues"; the seminar, "Expectation of the gradient".
    """

    name = "expectations"
    title = "Expectations where training begins (slides on Neural Arithmetic Units)"
    across = 2
    trains = False
    # Random initialisations of every size: blocks, and members of each.
    full, quick = (25, 4000), (2, 1000)

    def batches(self, plan: Plan) -> list[dict[str, str]]:
        gradients = [{"what": "gradient", "of": name, "part": part} for name in GRADIENTS for part in PARTS]
        return gradients + [{"what": "output", "of": unit, "part": name} for unit in PRODUCTS for name in RANGES]

    def run(self, job: Job) -> tuple[list[Row], Arrays]:
        (blocks, members), measure = self.how(job.plan), {"gradient": gradient, "output": output}[job.batch["what"]]
        rows: list[Row] = []
        for size in SIZES:
            job.check()
            drawn = [measure(job.batch["of"], job.batch["part"], size, members, job.source) for _ in range(blocks)]
            values, formulas = zip(*drawn, strict=True)
            every = torch.cat(values)
            rows.append(
                {
                    "inputs": size,
                    "draws": len(every),
                    "mean": float(every.mean()),
                    "standard error": float(every.std()) / math.sqrt(len(every)),
                    "mean size": float(every.abs().mean()),
                    "median": float(every.median()),
                    # Blocks differ only by the drawn weights in the formula.
                    "formula": float(np.mean(formulas)),
                }
            )
        return rows, {}

    def table(self, plan: Plan, ran: Sequence[Ran]) -> str:
        gradients = map(_gradient_line, having(ran, what="gradient"))
        outputs = [_output_line(r, row) for r in having(ran, what="output") for row in r.rows[::3]]
        return (
            "Mean of the gradient in per cent of its mean size, with its standard error; zero: within "
            f"{ZERO:.0f} standard errors for every number of inputs.\n\n{markdown(gradients)}\n{markdown(outputs)}"
        )

    def panels(self, ran: Sequence[Ran]) -> Iterable[Panel]:
        """Means of gradients (left) and of outputs (right) with their errors over the number of inputs."""
        gradients, outputs, formulas = ({} for _ in range(3))
        for r in ran:
            named, errors = f"{r.batch['of']}, {r.batch['part']}", ZERO * r.column("standard error")
            for i, (size, mean, error) in enumerate(zip(map(str, SIZES), r.column("mean"), errors, strict=True)):
                if r.batch["what"] == "gradient":
                    gradients[size, named] = (mean + error * np.array([-1.0, 0.0, 1.0])) / r.column("mean size")[i]
                else:
                    # Means that are not significant are not drawn.
                    outputs[size, named] = np.array([mean if abs(mean) > error else np.nan])
                    formulas[size, named] = r.column("formula")[i]
        left = {"xlabel": "inputs", "ylabel": "mean gradient / mean size"}
        right = {"xlabel": "inputs", "ylabel": "E[z]; dotted: its formula", "yscale": "log", "ylim": (1e-9, 1e12)}
        yield Panel("does the gradient know the task?", gradients, kind="lines", axis=left)
        yield Panel("outputs of fresh products", outputs, kind="lines", published=formulas, axis=right)


def gradient(name: str, part: str, size: int, members: int, source: torch.Generator) -> tuple[Tensor, float]:
    """Gradient d/dp of one part of mean (z - t)^2, averaged over the entries of p, [members], and 0 by the formula."""
    kind, parameter = GRADIENTS[name]
    unit = fresh(members, source, kind, size, 1)
    x = uniform((members, SAMPLES, size), 1.0, 2.0, source)
    z, t = unit(x), x.sum(dim=-1, keepdim=True)
    loss = (-2.0 * t * z if part == "target" else z.square()).mean(dim=(-1, -2)).sum()
    (found,) = torch.autograd.grad(loss, parameters_of(unit)[parameter])
    return found.flatten(1).mean(dim=1), 0.0


def output(name: str, part: str, size: int, members: int, source: torch.Generator) -> tuple[Tensor, float]:
    """Outputs z [members] of a product with fresh weights at random x, and E[z] by the formula."""
    inside = RANGES[part]
    unit = fresh(members, source, UNITS[name], size, 1)
    z = unit(uniform((members, 1, size), *inside, source)).detach().flatten()
    middle = sum(inside) / 2
    if name == "NMU":
        return z, ((middle + 1.0) / 2.0) ** size
    p = parameters_of(unit)
    variance = float(accumulator(p["weight"], p["mask"]).detach().var())
    return z, (1.0 + variance * math.log(abs(middle) + EPSILON) ** 2 / 2.0) ** size


def _gradient_line(r: Ran) -> dict[str, str]:
    mean, error = (100.0 * r.column(name) / r.column("mean size") for name in ("mean", "standard error"))
    zero = bool((np.abs(mean) <= ZERO * error).all())
    published = "0" if r.batch["of"] == "NAC, M" else "not 0" if r.batch["part"] == "target" else "-"
    return {
        "gradient, part of the loss": f"{r.batch['of']}, {r.batch['part']}",
        "published": published,
        **{f"{size} inputs": f"{m:+.1f} ± {e:.1f}" for size, m, e in zip(SIZES, mean, error, strict=True)},
        "zero": "yes" if zero else "no",
    }


def _output_line(r: Ran, row: Row) -> dict[str, str]:
    formula, mean, error, median = (float(row[name]) for name in ("formula", "mean", "standard error", "median"))
    above, around = r.batch["of"] == "MultiplicativeNAC", r.batch["part"] == "around 0"
    agrees = mean > 1.0 if above else abs(mean - formula) <= ZERO * error
    return {
        "output, inputs": f"{r.batch['of']}, {r.batch['part']}, {row['inputs']} inputs",
        "published": "above 1" if above else "towards 0" if around else "-",
        "formula": number(formula, 3),
        "ours, mean": f"{number(mean, 3)} ± {number(error)}",
        "ours, median": number(median, 3),
        "agrees": "yes" if agrees else "no",
    }
