"""A power unit as a diagram from input to output (Figs. 1 and 2 of Neural Power Units).

Which boxes there are follows from the parameters of the unit: without imaginary weights nothing crosses
between size and angle, and without gates the input is taken as it is. Colours are the paper's: vectors
green, trained arrays orange, functions blue, the gate on hatched ground.
"""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from odediscovery.experiments.drawing import LOOK, STYLE
from odediscovery.plots.figures import COLOURS, INK, MUTED, empty_figure
from odediscovery.units.npu import AbstractPowerUnit

VECTOR, TRAINED, FUNCTION = COLOURS[2], COLOURS[3], COLOURS[4]
# Of a column and of the figure, in inches; where the rows and the edge of the hatched ground are, as shares of
# half its height; how far weights that stand side by side are from the middle of their column.
COLUMN, HEIGHT, ROW, EDGE, ASIDE = 1.4, 3.2, 0.62, 0.95, 0.4
# What is left of a colour inside a box.
FILL = 0.35
# A box: its place, its words and its colour.
Box = tuple[float, float, str, str]


def diagram_figure(unit: AbstractPowerUnit) -> Figure:
    """The diagram of a NaiveNPU, an NPU or one of their forms without imaginary weights."""
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
        for name, box in boxes.items():
            _draw_box(axes, name, *box)
        for start, end in arrows:
            _draw_arrow(axes, start, end)
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


def _draw_box(axes: Axes, name: str, x: float, y: float, words: str, colour: str) -> None:
    fill = {"boxstyle": "round,pad=0.4", "fc": to_rgba(colour, FILL), "ec": colour}
    white = {"boxstyle": "round,pad=0.4", "fc": "white", "ec": "none"}
    # The hatching must not be seen through a box.
    for box in (white, fill):
        axes.text(x, y, words, ha="center", va="center", color=INK, bbox=box, gid=name)


def _draw_arrow(axes: Axes, start: str, end: str) -> None:
    one, other = (next(t for t in reversed(axes.texts) if t.get_gid() == name) for name in (start, end))
    axes.annotate(
        "",
        other.get_position(),
        one.get_position(),
        arrowprops={
            "arrowstyle": "->",
            "color": MUTED,
            "lw": LOOK.thin,
            "patchA": one.get_bbox_patch(),
            "patchB": other.get_bbox_patch(),
            "shrinkA": 0.0,
            "shrinkB": 0.0,
        },
    )
