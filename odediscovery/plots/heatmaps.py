"""A chain of arithmetic units drawn as the paper draws it (its Fig. 5): weights as heat maps.

Read from left to right: the states enter as columns of the first matrix, its rows are the
hidden products, which enter as columns of the next matrix, whose rows are the rates. Every
weight stands in its cell, so colour only leads the eye: blue is positive, red negative. Places
are computed in inches, since every cell has to be large enough for its number.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from odediscovery.networks.layers import Layer, Network

Array = NDArray[np.float64]

CELL_WIDTH, CELL_HEIGHT, GAP = 0.68, 0.40, 0.14
LETTER, HEADER, MARGIN, ARROW = 0.085, 0.62, 0.3, 0.55
INK, MUTED = "#222222", "#8a8a8a"
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
        return LETTER * max(len(s) for s in (*self.outputs, *self.strips)) + 0.12

    @property
    def body(self) -> float:
        matrices = len(self.matrices) * (len(self.inputs) * CELL_WIDTH + GAP)
        return matrices + len(self.columns) * (CELL_WIDTH + GAP) - GAP

    @property
    def width(self) -> float:
        return self.left + self.body + LETTER * max(map(_letters, self.readings), default=0) + 0.1

    @property
    def height(self) -> float:
        rows = len(self.outputs) * CELL_HEIGHT
        return self.head + rows + len(self.strips) * (CELL_HEIGHT + GAP)

    @property
    def head(self) -> float:
        """Room above the cells: the title and the names of the columns, slanted if long."""
        longest = max(map(len, self.inputs))
        return HEADER + (0.7 * LETTER * longest if _slanted(self.inputs) else 0.0)


def network_figure(network: Network, states: Sequence[str], time_name: str) -> Figure:
    """The layers of a network side by side, input left, output right.

    Args:
        network: dimensionless weights.
        states: names of the columns of the first layer; the first of them of the rows of the last.
        time_name: name of the time column.
    """
    states = network.sees(states)
    panels = _panels(network, [_literal(s) for s in states], _literal(time_name))
    height = max(panel.height for panel in panels) + 2 * MARGIN + 0.35
    width = sum(p.width for p in panels) + ARROW * (len(panels) - 1) + 2 * MARGIN
    figure = Figure(figsize=(max(width, 5.0), height), facecolor="white")
    FigureCanvasAgg(figure)
    x, middle = MARGIN, (height + 0.35) / 2
    for i, panel in enumerate(panels):
        if i:
            figure.text(
                (x - ARROW / 2) / figure.get_figwidth(),
                (middle - HEADER / 2) / height,
                "\N{RIGHTWARDS ARROW}",
                ha="center",
                va="center",
                fontsize=20,
                color=MUTED,
            )
        _draw_panel(figure, panel, x, middle + panel.height / 2)
        x += panel.width + ARROW
    sizes = (*network.scale.size, network.scale.time)
    pairs = list(zip((*states, time_name), sizes, strict=True))
    figure.text(MARGIN / figure.get_figwidth(), 0.12 / height, fontsize=8, color=MUTED, s=_scales(pairs))
    return figure


def _scales(pairs: Sequence[tuple[str, float]]) -> str:
    """What the weights were fitted to: the data divided by these, or as they are."""
    if all(value == 1.0 for _, value in pairs):
        return "Weights in the units of the data"
    return "Weights are dimensionless; scales: " + ", ".join(f"{_literal(name)} {value:.4g}" for name, value in pairs)


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

    Nothing either while a gate is between 0 and 1: it mixes its input with 1, and then a row is
    no product of powers.
    """
    if "real" not in layer.arrays or np.any(layer.arrays.get("imaginary", 0.0)):
        return []
    gates = np.clip(layer.arrays.get("gate", np.ones(layer.n_in)), 0.0, 1.0)
    if not np.isin(gates, (0.0, 1.0)).all():
        return []
    readings = []
    for output, row in zip(outputs, layer.arrays["real"], strict=True):
        factors = [
            name if round(w, 3) == 1 else f"{_base(name)}$^{{{_number(w)}}}$"
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
    return len(reading) - 5 * reading.count("$^{")


def _draw_panel(figure: Figure, panel: _Panel, x: float, top: float) -> None:
    """Draw a layer whose upper left corner is at (x, top) inches."""
    x0, y = x + panel.left, top - panel.head
    figure.text(
        x0 / figure.get_figwidth(),
        top / figure.get_figheight(),
        panel.layer.unit,
        va="top",
        fontsize=12,
        fontweight="bold",
        color=INK,
    )
    first = True
    for name, strip in panel.strips.items():
        axes = _axes(figure, x0, y, len(strip), 1)
        _heat(axes, strip[None, :], gates=True)
        _label(axes, panel.inputs if first else None, [name])
        first, y = False, y - CELL_HEIGHT - GAP
    for i, (name, matrix) in enumerate(panel.matrices.items()):
        axes = _axes(figure, x0, y, matrix.shape[1], matrix.shape[0])
        _heat(axes, matrix)
        _label(axes, panel.inputs if first or i else None, panel.outputs if i == 0 else None, panel.used)
        axes.set_xlabel(MEANING.get(name, name), fontsize=8.5, color=MUTED, labelpad=3)
        x0 += matrix.shape[1] * CELL_WIDTH + GAP
    for name, column in panel.columns.items():
        axes = _axes(figure, x0, y, 1, len(column))
        _heat(axes, column[:, None])
        _label(axes, None, None if panel.matrices else panel.outputs, panel.used)
        axes.set_xlabel(name, fontsize=8.5, color=MUTED, labelpad=3)
        x0 += CELL_WIDTH + GAP
    for j, (reading, used) in enumerate(zip(panel.readings, panel.used, strict=False)):
        figure.text(
            (x0 - GAP + 0.1) / figure.get_figwidth(),
            (y - (j + 0.5) * CELL_HEIGHT) / figure.get_figheight(),
            reading if used else "unused",
            va="center",
            fontsize=9.5,
            color=INK if used else MUTED,
        )


def _axes(figure: Figure, x: float, top: float, columns: int, rows: int) -> Axes:
    wide, high = figure.get_figwidth(), figure.get_figheight()
    width, height = columns * CELL_WIDTH, rows * CELL_HEIGHT
    return figure.add_axes((x / wide, (top - height) / high, width / wide, height / high))


def _heat(axes: Axes, values: Array, *, gates: bool = False) -> None:
    """Cells coloured by sign and size (square root, so that small ones show), with numbers."""
    largest = max(float(np.nanmax(np.abs(values), initial=0.0)), 1e-300)
    size = np.sign(values) * np.sqrt(np.abs(values) / largest)
    colours = colormaps["Greys"](0.45 * np.clip(values, 0, 1)) if gates else colormaps["RdBu"](0.5 + 0.36 * size)
    colours[values == 0] = (0.975, 0.975, 0.975, 1.0)
    axes.imshow(colours, aspect="auto", interpolation="nearest")
    rows, columns = values.shape
    for edge in (axes.hlines, axes.vlines):
        count, across = (rows, columns) if edge == axes.hlines else (columns, rows)
        edge(np.arange(1, count) - 0.5, -0.5, across - 0.5, color="white", lw=2)
    for (i, j), value in np.ndenumerate(values):
        pruned = value == 0
        dark = not gates and abs(size[i, j]) > 0.8
        axes.text(
            j,
            i,
            "\N{MIDDLE DOT}" if pruned and not gates else _number(value),
            ha="center",
            va="center",
            fontsize=9,
            color=MUTED if pruned else "white" if dark else INK,
        )


def _label(
    axes: Axes, above: Sequence[str] | None, left: Sequence[str] | None, used: Sequence[bool] | None = None
) -> None:
    """Names of the columns above and of the rows at the left; those not used in grey."""
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0, labelsize=9.5, labelcolor=INK)
    axes.xaxis.tick_top()
    axes.set_xticks(range(len(above or ())), above or ())
    axes.set_yticks(range(len(left or ())), left or ())
    axes.xaxis.set_label_position("bottom")
    if above and _slanted(above):
        for label in axes.get_xticklabels():
            label.set(rotation=40, ha="left", rotation_mode="anchor")
    if left and used:
        for label, ink in zip(axes.get_yticklabels(), used, strict=True):
            label.set_color(INK if ink else MUTED)


def _slanted(names: Sequence[str]) -> bool:
    return max(map(len, names)) * LETTER > CELL_WIDTH


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
