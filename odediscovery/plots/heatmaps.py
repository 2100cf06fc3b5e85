"""Heat maps of the weights of a chain of arithmetic units, as in Fig. 5 of the paper.

Read from left to right: the states enter as columns of the first matrix, its rows are the
hidden products, which enter as columns of the next matrix, whose rows are the rates. Every
weight is printed in its cell; colour only guides the eye: blue is positive, red negative.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from odediscovery.networks.chain import Layer, Network
from odediscovery.plots.axes import COLOURS, GRID, INK, MUTED, NOTE, NOTE_TEXT, PAGE_TEXT, STRONG, empty_figure
from odediscovery.runtime.arrays import Array

# Inches: width of a cell for seven letters, height of a row, and width of a letter.
CELL, ROW, LETTER = 0.68, 0.40, 0.085
MEANING = {"real": "exponents", "imaginary": "imaginary exponents", "weight": "weights"}


@dataclass(frozen=True)
class _Panel:
    """A layer with the names of its inputs and outputs, used outputs, and formulas of the rows."""

    layer: Layer
    inputs: list[str]
    outputs: list[str]
    used: list[bool]
    readings: list[str]

    @property
    def strips(self) -> dict[str, Array]:
        """Arrays with one value per input, such as gates, drawn above the matrices."""
        return {n: a for n, a in self.layer.arrays.items() if _is_strip(self.layer, n)}

    @property
    def blocks(self) -> dict[str, Array]:
        """Matrices, then arrays with one value per output, such as biases, as columns."""
        own = sorted(self.layer.arrays.items(), key=lambda item: -item[1].ndim)
        return {n: a.reshape(len(a), -1) for n, a in own if n not in self.strips}

    @property
    def width(self) -> float:
        """Width in inches."""
        cells = sum(a.shape[1] for a in self.blocks.values()) or len(self.inputs)
        letters = max(map(len, (*self.outputs, *self.strips))) + max(map(len, self.readings), default=0)
        return CELL * cells + LETTER * letters + 0.5


def network_figure(network: Network, states: Sequence[str], time_name: str, title: str = "") -> Figure:
    """Draw the layers of a network side by side, from states (first columns) to rates (last rows)."""
    states = network.sees(states)
    panels = _panels(network, states, time_name)
    pairs = list(zip((*states, time_name), (*network.scale.size, network.scale.time), strict=True))
    scales = "Weights are dimensionless; scales: " + ", ".join(f"{name} {value:.4g}" for name, value in pairs)
    notes = [scales if any(value != 1.0 for _, value in pairs) else "Weights in the units of the data"]
    for panel in panels:
        for k, gate in mixed_inputs(panel.layer):
            name, share, rest = panel.inputs[k], _number(gate), _number(1.0 - gate)
            mixed = f"{share} {name} + {rest} is raised to the exponent, not {name}"
            notes.append(f"A gate between 0 and 1 mixes its input with 1: rows are no products of powers,\n{mixed}")
    rows = max(len(panel.outputs) + 1.5 * len(panel.strips) for panel in panels)
    names = max(len(name) for panel in panels for name in panel.inputs) * LETTER
    widths = [panel.width for panel in panels]
    figure = empty_figure(max(sum(widths), 5.0), ROW * rows + 1.5 + 0.7 * names * (names > CELL))
    grid = figure.add_gridspec(1, len(panels), width_ratios=widths)
    for i, panel in enumerate(panels):
        _draw_panel(figure.add_subplot(grid[i]), panel)
    figure.suptitle(title, x=0.01, ha="left", fontsize=PAGE_TEXT)
    figure.supxlabel("\n".join(notes[:2]), x=0.01, ha="left", **NOTE)
    return figure


def mixed_inputs(layer: Layer) -> list[tuple[int, float]]:
    """Inputs that a gate strictly between 0 and 1 mixes with 1, each with its gate."""
    gates = np.clip(layer.arrays.get("gate", ()), 0.0, 1.0)
    return [(k, float(gate)) for k, gate in enumerate(gates) if 0.0 < gate < 1.0]


def _panels(network: Network, states: Sequence[str], time_name: str) -> list[_Panel]:
    panels, names, kept = [], list(states), np.ones(len(states), dtype=bool)
    for i, layer in enumerate(network.layers):
        used = keep = np.ones(layer.n_out, dtype=bool)
        outputs = [f"d{_one(s)}/d{_one(time_name)}" for s in states[: layer.n_out]]
        after = network.layers[i + 1].arrays.values() if i + 1 < len(network.layers) else ()
        if after:
            used = np.any([np.any(a != 0, axis=0) for a in after if a.ndim == 2], axis=0)
            # If there are many hidden features, draw only those that the next layer uses.
            keep = used if layer.n_out > 8 and used.any() else keep
            outputs = [f"h{j + 1}" for j in range(layer.n_out)]
        if layer.functions:
            outputs = [*names, *(f"{name}({names[k]})" for name, k in layer.functions)]
        outputs = [outputs[j] for j in np.flatnonzero(keep)]
        arrays = {
            name: a[np.ix_(keep, kept)] if a.ndim == 2 else a[kept if _is_strip(layer, name) else keep]
            for name, a in layer.arrays.items()
        }
        part = replace(layer, n_out=int(keep.sum()), n_in=int(kept.sum()), arrays=arrays)
        panels.append(_Panel(part, names, outputs, used[keep].tolist(), _readings(part, names, outputs)))
        names, kept = outputs, keep
    return panels


def _is_strip(layer: Layer, name: str) -> bool:
    return layer.arrays[name].shape == (layer.n_in,) and name != "bias"


def _readings(layer: Layer, names: Sequence[str], outputs: Sequence[str]) -> list[str]:
    """Formula of each row of a power unit, "h1 = S^0.5*I^0.5"; empty if rows are not products of powers."""
    if "real" not in layer.arrays or np.any(layer.arrays.get("imaginary", 0.0)) or mixed_inputs(layer):
        return []
    powers = layer.arrays["real"] * (layer.arrays.get("gate", np.ones(layer.n_in)) > 0.5)
    # The base of a mirrored state is (−x).
    bases = [f"({name})" if name.startswith("\N{MINUS SIGN}") else name for name in names]
    readings = []
    for output, row in zip(outputs, powers, strict=True):
        raised = zip(names, bases, map(_number, row), row, strict=True)
        factors = [name if text == "1" else f"{base}^{text}" for name, base, text, w in raised if w]
        readings.append(f"{output} = {'*'.join(factors) or '1'}")
    # Longer formulas would shift the next matrix too far.
    return readings if max(map(len, readings)) <= 44 else []


def _draw_panel(axes: Axes, panel: _Panel) -> None:
    """Draw strips of gates, and below them matrices, columns of biases and formulas side by side."""
    x, y, columns, rows = 0.0, 0.0, [], []
    for name, strip in panel.strips.items():
        _draw_cells(axes, strip[None], x, y, gates=True)
        rows.append((y + 0.5, name, True))
        y += 1.35
    rows += [(y + j + 0.5, name, panel.used[j]) for j, name in enumerate(panel.outputs)]
    for name, block in panel.blocks.items():
        _draw_cells(axes, block, x, y)
        middle = x + block.shape[1] / 2
        axes.text(middle, y + len(block) + 0.15, MEANING.get(name, name), ha="center", va="top", **NOTE)
        if panel.layer.arrays[name].ndim == 2:
            columns += [(x + k + 0.5, input_name) for k, input_name in enumerate(panel.inputs)]
        x += block.shape[1] + 0.25
    for (at, _, used), reading in zip(rows[len(panel.strips) :], panel.readings, strict=False):
        told, hue = (reading, INK) if used else ("unused", MUTED)
        axes.text(x, at, told, va="center", fontsize=PAGE_TEXT, color=hue)
    columns = columns or [(k + 0.5, name) for k, name in enumerate(panel.inputs)]
    slanted = max(map(len, panel.inputs)) * LETTER > CELL
    look: dict[str, Any] = {"rotation": 45, "ha": "left", "rotation_mode": "anchor"} if slanted else {}
    axes.set(xlim=(0, max(x - 0.25, len(panel.inputs))), ylim=(rows[-1][0] + 0.5, 0), title=panel.layer.unit)
    axes.set_aspect(ROW / CELL, anchor="W")
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0, labelsize=PAGE_TEXT, labelcolor=INK)
    axes.xaxis.tick_top()
    axes.set_xticks([at for at, _ in columns], [name for _, name in columns], **look)
    axes.set_yticks([at for at, *_ in rows], [name for _, name, _ in rows])
    for label, (*_, used) in zip(axes.get_yticklabels(), rows, strict=True):
        label.set_color(INK if used else MUTED)


def _draw_cells(axes: Axes, values: Array, x: float, y: float, *, gates: bool = False) -> None:
    """Draw cells with numbers, coloured by sign and size (square root, to show small ones)."""
    largest = max(float(np.nanmax(np.abs(values), initial=0.0)), np.finfo(float).tiny)
    for (i, j), value in np.ndenumerate(values):
        hue, shade = COLOURS[0 if value > 0 else 1], STRONG * math.sqrt(abs(value) / largest)
        if gates:
            hue, shade = MUTED, 0.5 * min(max(value, 0.0), 1.0)
        if value == 0:
            hue, shade = GRID, 0.3
        axes.add_patch(Rectangle((x + j, y + i), 0.97, 0.95, facecolor=hue, alpha=shade, lw=0))
        text, ink = _number(value) if value or gates else "\N{MIDDLE DOT}", INK if value else MUTED
        axes.text(x + j + 0.5, y + i + 0.5, text, ha="center", va="center", fontsize=NOTE_TEXT, color=ink)


def _number(value: float) -> str:
    """Write a number in at most seven letters to fit its cell."""
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
