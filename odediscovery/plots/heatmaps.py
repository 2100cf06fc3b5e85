"""A chain of arithmetic units drawn as the paper draws it (its Fig. 5): weights as heat maps.

Read from left to right: the states enter as columns of the first matrix, its rows are the
hidden products, which enter as columns of the next matrix, whose rows are the rates. Every
weight stands in its cell, so colour only leads the eye: blue is positive, red negative. Places
are computed in inches, since every cell has to be large enough for its number.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from numpy.typing import NDArray

from odediscovery.networks.layers import Layer, Network
from odediscovery.plots.theme import BY_EYE, INK, LETTERS, MUTED, NOTE, PAPER
from odediscovery.runtime.thresholds import threshold

Array = NDArray[np.float64]


@dataclass(frozen=True)
class HeatSizes:
    """Cells and what stands around them."""

    width: float = threshold(0.68, "cell", unit="inches", origin="seven letters of a number")
    height: float = threshold(0.40, "cell", unit="inches", origin=BY_EYE)
    gap: float = threshold(0.14, "between matrices, and between a name and its row", unit="inches", origin=BY_EYE)
    letter: float = threshold(0.085, "letter of a name", unit="inches", origin="chosen: about its mean width")
    header: float = threshold(0.62, "title and names of columns", unit="inches", origin=BY_EYE)
    margin: float = threshold(0.3, "around everything, and the line of scales below", unit="inches", origin=BY_EYE)
    arrow: float = threshold(0.55, "between layers", unit="inches", origin=BY_EYE)
    least: float = threshold(5.0, "width of a picture: the line of scales", unit="inches", origin=BY_EYE)
    slant: float = threshold(45.0, "of names that are wider than a cell", unit="degrees", origin=BY_EYE)


@dataclass(frozen=True)
class HeatShades:
    """Colours of cells, within those of a map."""

    gate: float = threshold(0.45, "grey of an open gate", origin=BY_EYE)
    weight: float = threshold(
        0.36, "reach of the largest weight on both sides of white", origin="chosen: dark cells keep their hue"
    )
    dark: float = threshold(0.8, "size of a weight on whose cell letters are white", origin=BY_EYE)


HEAT, HUES = HeatSizes(), HeatShades()
PRUNED = "#f9f9f9"
# With more hidden features than this only those are drawn that the next layer uses.
MAX_PRODUCTS = 8
# Readings beside the rows are left out where they would push the next matrix far away.
MAX_READING_LETTERS = 44
MEANING = {"real": "exponents", "imaginary": "imaginary exponents", "weight": "weights"}


@dataclass(frozen=True)
class _Panel:
    """One layer with the names of what enters and leaves it; `used` outputs are in ink."""

    layer: Layer
    inputs: Sequence[str]
    outputs: Sequence[str]
    used: Sequence[bool]
    readings: Sequence[str]

    @property
    def matrices(self) -> dict[str, Array]:
        return {name: a for name, a in self.layer.arrays.items() if a.ndim == 2}

    @property
    def strips(self) -> dict[str, Array]:
        """Arrays with one value an input, e.g. gates: drawn above the matrix."""
        vectors = {name: a for name, a in self.layer.arrays.items() if a.ndim == 1}
        return {n: a for n, a in vectors.items() if len(a) == len(self.inputs) and n != "bias"}

    @property
    def columns(self) -> dict[str, Array]:
        """Arrays with one value an output, e.g. biases: drawn beside the matrix."""
        return {name: a for name, a in self.layer.arrays.items() if a.ndim == 1 and name not in self.strips}

    @property
    def left(self) -> float:
        return HEAT.letter * max(len(s) for s in (*self.outputs, *self.strips)) + HEAT.gap

    @property
    def body(self) -> float:
        matrices = len(self.matrices) * (len(self.inputs) * HEAT.width + HEAT.gap)
        return matrices + len(self.columns) * (HEAT.width + HEAT.gap) - HEAT.gap

    @property
    def width(self) -> float:
        return self.left + self.body + HEAT.letter * max(map(_letters, self.readings), default=0) + HEAT.gap

    @property
    def height(self) -> float:
        rows = len(self.outputs) * HEAT.height
        return self.head + rows + len(self.strips) * (HEAT.height + HEAT.gap)

    @property
    def head(self) -> float:
        """Room above the cells: the title and the names of the columns, slanted if long."""
        longest = max(map(len, self.inputs))
        rise = math.sin(math.radians(HEAT.slant)) if _slanted(self.inputs) else 0.0
        return HEAT.header + rise * HEAT.letter * longest


def network_figure(network: Network, states: Sequence[str], time_name: str, title: str = "") -> Figure:
    """The layers of a network side by side, input left, output right.

    Args:
        network: dimensionless weights.
        states: names of the columns of the first layer; the first of them of the rows of the last.
        time_name: name of the time column.
        title: what is drawn.
    """
    states = network.sees(states)
    panels = _panels(network, [_literal(s) for s in states], _literal(time_name))
    sizes = (*network.scale.size, network.scale.time)
    notes = [_scales(list(zip((*states, time_name), sizes, strict=True))), *_mixtures(panels)]
    foot, head = HEAT.margin * len(notes), HEAT.margin * bool(title)
    height = max(panel.height for panel in panels) + 2 * HEAT.margin + foot + head
    width = sum(p.width for p in panels) + HEAT.arrow * (len(panels) - 1) + 2 * HEAT.margin
    figure = Figure(figsize=(max(width, HEAT.least), height), facecolor=PAPER)
    FigureCanvasAgg(figure)
    x, middle = HEAT.margin, (height + foot - head) / 2
    figure.text(x / figure.get_figwidth(), 1.0 - HEAT.gap / height, title, va="top", color=INK, fontsize=LETTERS.note)
    for i, panel in enumerate(panels):
        if i:
            figure.text(
                (x - HEAT.arrow / 2) / figure.get_figwidth(),
                (middle - HEAT.header / 2) / height,
                "\N{RIGHTWARDS ARROW}",
                ha="center",
                va="center",
                fontsize="xx-large",
                color=MUTED,
            )
        _draw_panel(figure, panel, x, middle + panel.height / 2)
        x += panel.width + HEAT.arrow
    figure.text(HEAT.margin / figure.get_figwidth(), HEAT.gap / height, s="\n".join(notes), **NOTE)
    return figure


def _scales(pairs: Sequence[tuple[str, float]]) -> str:
    """What the weights were fitted to: the data divided by these, or as they are."""
    if all(value == 1.0 for _, value in pairs):
        return "Weights in the units of the data"
    return "Weights are dimensionless; scales: " + ", ".join(f"{_literal(name)} {value:.4g}" for name, value in pairs)


def mixed_inputs(layer: Layer) -> list[tuple[int, float]]:
    """Inputs that a gate between 0 and 1 mixes with 1, each with its gate: what is raised there is no input."""
    gates = np.clip(layer.arrays.get("gate", ()), 0.0, 1.0)
    return [(k, float(gate)) for k, gate in enumerate(gates) if 0.0 < gate < 1.0]


def _mixtures(panels: Sequence[_Panel]) -> list[str]:
    """What gates between 0 and 1 mean for the rows, with the first of them as the example."""
    mixed = [(panel.inputs[k], gate) for panel in panels for k, gate in mixed_inputs(panel.layer)]
    return [
        f"A gate between 0 and 1 mixes its input with 1: rows are no products of powers,\n{_number(gate)} {name}"
        f" + {_number(1.0 - gate)} is raised to the exponent, not {name}"
        for name, gate in mixed[:1]
    ]


def _panels(network: Network, states: Sequence[str], time_name: str) -> list[_Panel]:
    layers, panels = network.layers, []
    names = list(states)
    kept: NDArray[np.bool_] = np.ones(len(states), dtype=bool)
    for i, layer in enumerate(layers):
        if i + 1 < len(layers):
            used = _used_inputs(layers[i + 1])
            keep = used if layer.n_out > MAX_PRODUCTS and used.any() else np.full(used.shape, True)
            outputs = [f"h{j + 1}" for j in np.flatnonzero(keep)]
            if layer.functions:
                of = [*names, *(f"{name}({names[k]})" for name, k in layer.functions)]
                outputs = [of[j] for j in np.flatnonzero(keep)]
        else:
            used = keep = np.ones(layer.n_out, dtype=bool)
            outputs = [f"d{_one(s)}/d{_one(time_name)}" for s in states[: layer.n_out]]
        part = _part(layer, kept, keep)
        readings = _readings(part, names, outputs) if i + 1 < len(layers) else []
        panels.append(_Panel(part, names, outputs, used[keep].tolist(), readings))
        names, kept = outputs, keep
    return panels


def _part(layer: Layer, inputs: NDArray[np.bool_], outputs: NDArray[np.bool_]) -> Layer:
    """The layer with only some of its inputs and outputs."""
    arrays = {}
    for name, a in layer.arrays.items():
        if a.ndim == 2:
            arrays[name] = a[np.ix_(outputs, inputs)]
        else:
            of_inputs = len(a) == layer.n_in and name != "bias"
            arrays[name] = a[inputs] if of_inputs else a[outputs]
    return dataclasses.replace(layer, n_out=int(outputs.sum()), n_in=int(inputs.sum()), arrays=arrays)


def _used_inputs(layer: Layer) -> NDArray[np.bool_]:
    used = np.zeros(layer.n_in, dtype=bool)
    for a in layer.arrays.values():
        if a.ndim == 2:
            used |= np.any(a != 0, axis=0)
    return used


def _readings(layer: Layer, names: Sequence[str], outputs: Sequence[str]) -> list[str]:
    """What each row of a power unit says: "h1 = S^0.5 I^0.5"; nothing for other units.

    Nothing either while a gate is between 0 and 1: then a row is no product of powers.
    """
    if "real" not in layer.arrays or np.any(layer.arrays.get("imaginary", 0.0)) or mixed_inputs(layer):
        return []
    gates = np.clip(layer.arrays.get("gate", np.ones(layer.n_in)), 0.0, 1.0)
    readings = []
    for output, row in zip(outputs, layer.arrays["real"], strict=True):
        factors = [
            name if _number(w) == "1" else f"{_base(name)}$^{{{_number(w)}}}$"
            for name, w, gate in zip(names, row, gates, strict=True)
            if w != 0 and gate > 0.5
        ]
        readings.append(f"{output} = {' '.join(factors) or '1'}")
    return readings if max(map(_letters, readings)) <= MAX_READING_LETTERS else []


def _base(name: str) -> str:
    """What is raised to a power: (−x) of a mirrored state."""
    return f"({name})" if name.startswith("\N{MINUS SIGN}") else name


def _letters(reading: str) -> int:
    """Width of a reading in letters: the marks of mathematics are not seen."""
    return len(reading) - len("$^{}$") * reading.count("$^{")


def _draw_panel(figure: Figure, panel: _Panel, x: float, top: float) -> None:
    """Draw a layer whose upper left corner is at (x, top) inches."""
    x0, y = x + panel.left, top - panel.head
    figure.text(
        x0 / figure.get_figwidth(),
        top / figure.get_figheight(),
        panel.layer.unit,
        va="top",
        fontsize="large",
        fontweight="bold",
        color=INK,
    )
    first = True
    for name, strip in panel.strips.items():
        axes = _axes(figure, x0, y, len(strip), 1)
        _heat(axes, strip[None, :], gates=True)
        _label(axes, panel.inputs if first else None, [name])
        first, y = False, y - HEAT.height - HEAT.gap
    for i, (name, matrix) in enumerate(panel.matrices.items()):
        axes = _axes(figure, x0, y, matrix.shape[1], matrix.shape[0])
        _heat(axes, matrix)
        _label(axes, panel.inputs if first or i else None, panel.outputs if i == 0 else None, panel.used)
        axes.set_xlabel(MEANING.get(name, name), **NOTE)
        x0 += matrix.shape[1] * HEAT.width + HEAT.gap
    for name, column in panel.columns.items():
        axes = _axes(figure, x0, y, 1, len(column))
        _heat(axes, column[:, None])
        _label(axes, None, None if panel.matrices else panel.outputs, panel.used)
        axes.set_xlabel(name, **NOTE)
        x0 += HEAT.width + HEAT.gap
    for j, (reading, used) in enumerate(zip(panel.readings, panel.used, strict=False)):
        figure.text(
            x0 / figure.get_figwidth(),
            (y - (j + 0.5) * HEAT.height) / figure.get_figheight(),
            reading if used else "unused",
            va="center",
            fontsize=LETTERS.text,
            color=INK if used else MUTED,
        )


def _axes(figure: Figure, x: float, top: float, columns: int, rows: int) -> Axes:
    wide, high = figure.get_figwidth(), figure.get_figheight()
    width, height = columns * HEAT.width, rows * HEAT.height
    return figure.add_axes((x / wide, (top - height) / high, width / wide, height / high))


def _heat(axes: Axes, values: Array, *, gates: bool = False) -> None:
    """Cells coloured by sign and size (square root, so that small ones show), with numbers."""
    largest = max(float(np.nanmax(np.abs(values), initial=0.0)), np.finfo(float).tiny)
    size = np.sign(values) * np.sqrt(np.abs(values) / largest)
    grey, blue = HUES.gate * np.clip(values, 0, 1), 0.5 + HUES.weight * size
    colours = colormaps["Greys"](grey) if gates else colormaps["RdBu"](blue)
    colours[values == 0] = to_rgba(PRUNED)
    axes.imshow(colours, aspect="auto", interpolation="nearest")
    rows, columns = values.shape
    for edge in (axes.hlines, axes.vlines):
        count, across = (rows, columns) if edge == axes.hlines else (columns, rows)
        edge(np.arange(1, count) - 0.5, -0.5, across - 0.5, color=PAPER, lw=2)
    for (i, j), value in np.ndenumerate(values):
        pruned = value == 0
        dark = not gates and abs(size[i, j]) > HUES.dark
        axes.text(
            j,
            i,
            "\N{MIDDLE DOT}" if pruned and not gates else _number(value),
            ha="center",
            va="center",
            fontsize=LETTERS.note,
            color=MUTED if pruned else PAPER if dark else INK,
        )


def _label(
    axes: Axes, above: Sequence[str] | None, left: Sequence[str] | None, used: Sequence[bool] | None = None
) -> None:
    """Names of the columns above and of the rows at the left; those not used in grey."""
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0, labelsize=LETTERS.text, labelcolor=INK)
    axes.xaxis.tick_top()
    axes.set_xticks(range(len(above or ())), above or ())
    axes.set_yticks(range(len(left or ())), left or ())
    axes.xaxis.set_label_position("bottom")
    if above and _slanted(above):
        for label in axes.get_xticklabels():
            label.set(rotation=HEAT.slant, ha="left", rotation_mode="anchor")
    if left and used:
        for label, ink in zip(axes.get_yticklabels(), used, strict=True):
            label.set_color(INK if ink else MUTED)


def _slanted(names: Sequence[str]) -> bool:
    return max(map(len, names)) * HEAT.letter > HEAT.width


def _number(value: float) -> str:
    """At most seven letters, so that it fits its cell."""
    size = abs(value)
    if 1e-3 <= size < 1e3 or size == 0:
        text = f"{value:.3g}"
    elif 1e3 <= size < 1e5:
        text = f"{value:.0f}"
    else:
        text = f"{value:.1e}".replace("e+0", "e").replace("e-0", "e-").replace("e+", "e")
    return text.replace("-", "\N{MINUS SIGN}")


def _one(name: str) -> str:
    return name if name.isidentifier() else f"({name})"


def _literal(name: str) -> str:
    """A column name as it is: without this a pair of `$` would be read as mathematics."""
    return name.replace("$", r"\$")
