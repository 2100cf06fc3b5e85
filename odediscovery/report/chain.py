"""The law as a chain of units, or what is left of a network: units as circles, weights as lines between them.

The picture that the paper draws as heat maps (Neural Power Units, 2020, Fig. 5), as a graph: a
line from a state to a product bears the exponent, a line from a product to a rate the factor, its
colour the sign and its width the size. What pruning has taken away is not there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from odediscovery.networks.layers import Layer, Network
from odediscovery.plots.theme import BY_EYE, COLOURS, INK, LETTERS, MUTED, NOTE, PAPER, STROKES, Depth
from odediscovery.report.drawing import DRAWN, inline
from odediscovery.result.discovery import Discovery
from odediscovery.result.shown import describe_chain
from odediscovery.runtime.arrays import Array
from odediscovery.runtime.thresholds import threshold


@dataclass(frozen=True)
class GraphSizes:
    """Nodes, the lines between them, and the numbers on these."""

    step: float = threshold(1.75, "from layer to layer", unit="inches", origin=BY_EYE)
    gap: float = threshold(0.52, "from node to node", unit="inches", origin=BY_EYE)
    letter: float = threshold(0.075, "letter of a name", unit="inches", origin="chosen: about its mean width")
    aside: float = threshold(0.35, "node beside its name, and titles above", unit="inches", origin=BY_EYE)
    source: float = threshold(9.0, "diameter of an input", unit="points", origin=BY_EYE)
    node: float = threshold(18.0, "diameter of other nodes, which hold a sign or a name", unit="points", origin=BY_EYE)
    pad: float = threshold(5.0, "between a node and its name", unit="points", origin=BY_EYE)
    widths: tuple[float, float] = threshold(
        (STROKES.hair, 2.8), "lines of the least and of the largest weight", unit="points", origin=BY_EYE
    )
    alphas: tuple[float, float] = threshold((0.45, 0.85), "opacity of these lines", origin=BY_EYE)
    number: tuple[float, float] = threshold((0.46, 0.17), "what a number needs", unit="inches", origin=BY_EYE)
    places: tuple[float, ...] = threshold(
        (0.5, 0.4, 0.6, 0.3, 0.7, 0.22, 0.78), "where a number may stand", unit="length of its line", origin=BY_EYE
    )
    shown: tuple[float, float] = threshold(
        (0.8, 1.4), "least and greatest width on the page", unit="own width", origin=BY_EYE
    )


GRAPH = GraphSizes()
# With more lines than this between two layers their numbers would hide each other.
MAX_NUMBERS = 16
# Nodes of a layer that can be told apart.
MAX_NODES = 24
SIGN = {"power": "\N{MULTIPLICATION SIGN}", "sum": "+", "function": "f", "dense": "tanh"}


@dataclass(frozen=True, eq=False)
class _Column:
    """The nodes of one layer's outputs: names, and weights [nodes, nodes before]."""

    unit: str
    names: list[str]
    weights: Array


def network_svg(found: Discovery) -> Markup | None:
    """The drawing, or None where the equations were read from no network."""
    network = found.network
    if network is None or not network.layers:
        return None
    columns = _columns(network, found)
    if max(len(column.names) for column in columns) > MAX_NODES:
        return None
    tallest = max(len(column.names) for column in columns)
    side = [GRAPH.aside + GRAPH.letter * max(map(len, column.names)) for column in (columns[0], columns[-1])]
    width = GRAPH.step * (len(columns) - 1) + sum(side)
    height = GRAPH.gap * tallest + GRAPH.aside
    with rc_context(DRAWN):
        figure = Figure(figsize=(width, height), facecolor="none")
        FigureCanvasAgg(figure)
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_axis_off()
        axes.set_xlim(0, width)
        axes.set_ylim(0, height)
        places = [_places(side[0] + GRAPH.step * i, len(column.names), height) for i, column in enumerate(columns)]
        for before, after, column in zip(places, places[1:], columns[1:], strict=False):
            _draw_lines(axes, before, after, column.weights)
        for i, (column, at) in enumerate(zip(columns, places, strict=True)):
            _draw_nodes(axes, column, at, first=i == 0, last=i == len(columns) - 1, top=height)
        least, most = GRAPH.shown
        return inline(figure, "network", f"{describe_chain(found)}, from states to rates", least=least, most=most)


def _columns(network: Network, found: Discovery) -> list[_Column]:
    """Inputs, then what is used of every layer's outputs."""
    variables, time = found.equations.variables, found.series.time_name
    layers = network.layers
    weights = [_weights(layer) for layer in layers]
    keep = [np.ones(layer.n_out, dtype=bool) for layer in layers]
    for i in range(len(layers) - 2, -1, -1):
        keep[i] = np.any(weights[i + 1][keep[i + 1]] != 0, axis=0)
        if not keep[i].any():
            keep[i][:] = True
    seen = network.sees(variables)
    names = [
        f"d{s if s == state else f'({s})'}/d{time}" for s, state in zip(seen, found.equations.states, strict=False)
    ]
    columns = [_Column("", seen[: layers[0].n_in], np.zeros((0, 0)))]
    before = np.ones(layers[0].n_in, dtype=bool)
    for i, layer in enumerate(layers):
        last = i == len(layers) - 1
        if last:
            keep[i] = np.arange(layer.n_out) < len(names)
        own = names[: layer.n_out] if last else _inner(layer, columns[-1].names, keep[i])
        columns.append(_Column(layer.unit, own, weights[i][np.ix_(keep[i], before)]))
        before = keep[i]
    return columns


def _inner(layer: Layer, before: list[str], keep: np.ndarray) -> list[str]:
    """What stands in the circles of a hidden layer."""
    if layer.functions:
        of = ["=" for _ in range(layer.n_out - len(layer.functions))]
        of += [name for name, _ in layer.functions]
        return [of[j] for j in np.flatnonzero(keep)]
    kind = "power" if "real" in layer.arrays else "dense" if layer.unit == "Dense" else "sum"
    return [SIGN[kind]] * int(keep.sum())


def _weights(layer: Layer) -> Array:
    """Weights [outputs, inputs]; an exponent counts as far as its gate lets it."""
    if layer.functions:
        passed = layer.n_out - len(layer.functions)
        found = np.zeros((layer.n_out, layer.n_in))
        found[np.arange(passed), np.arange(passed)] = 1.0
        for j, (_, k) in enumerate(layer.functions, start=passed):
            found[j, k] = 1.0
        return found
    matrices = [a for a in layer.arrays.values() if a.ndim == 2]
    if not matrices:
        return np.eye(layer.n_out, layer.n_in)
    main: Array = layer.arrays.get("real", layer.arrays.get("weight", matrices[0]))
    gate = layer.arrays.get("gate")
    return main if gate is None or gate.ndim != 1 else main * np.clip(gate, 0.0, 1.0)


def _places(x: float, count: int, height: float) -> Array:
    middle = (height - GRAPH.aside) / 2.0
    y = middle + GRAPH.gap * ((count - 1) / 2.0 - np.arange(count))
    return np.column_stack([np.full(count, x), y])


def _draw_lines(axes: Axes, before: Array, after: Array, weights: Array) -> None:
    largest = float(np.abs(weights).max(initial=0.0)) or 1.0
    lines = [(int(j), int(k)) for j, k in np.argwhere(weights != 0)]
    taken: list[Array] = []
    for j, k in lines:
        w, a, b = float(weights[j, k]), before[k], after[j]
        share = np.sqrt(abs(w) / largest)
        axes.plot(
            *np.array([a, b]).T,
            color=COLOURS[0] if w > 0 else COLOURS[1],
            lw=float(np.interp(share, (0, 1), GRAPH.widths)),
            alpha=float(np.interp(share, (0, 1), GRAPH.alphas)),
            zorder=Depth.BEHIND,
            solid_capstyle="butt",
        )
        if len(lines) <= MAX_NUMBERS:
            at = _free_place(a, b, taken)
            taken.append(at)
            axes.text(
                float(at[0]),
                float(at[1]),
                number(w),
                ha="center",
                va="center",
                fontsize=LETTERS.note,
                bbox={"boxstyle": "square,pad=0.12", "fc": PAPER, "ec": "none"},
                color=INK,
                zorder=Depth.CURVE,
            )


def _free_place(a: Array, b: Array, taken: Sequence[Array]) -> Array:
    """A point on the line from a to b that is as far as it needs to be from other numbers."""
    places = [a + share * (b - a) for share in GRAPH.places]

    def room(at: Array) -> float:
        return min((float(np.max(np.abs(at - other) / GRAPH.number)) for other in taken), default=np.inf)

    free = [at for at in places if room(at) >= 1.0]
    return free[0] if free else max(places, key=room)


def _draw_nodes(axes: Axes, column: _Column, at: Array, *, first: bool, last: bool, top: float) -> None:
    size = GRAPH.source if first else GRAPH.node
    aside = size / 2 + GRAPH.pad
    beside: dict[str, Any] = {"textcoords": "offset points", "va": "center", "zorder": Depth.FRONT}
    for place, name in zip(at, column.names, strict=True):
        axes.plot(*place[:, None], "o", ms=size, mfc=PAPER, mec=MUTED, mew=STROKES.line, zorder=Depth.POINT)
        if first:
            axes.annotate(name, place, (-aside, 0), ha="right", **beside)
            continue
        inside = SIGN["sum"] if last else name
        letters = "large" if len(inside) == 1 else LETTERS.small
        axes.text(place[0], place[1], inside, ha="center", va="center_baseline", zorder=Depth.FRONT, fontsize=letters)
        if last:
            axes.annotate(name, place, (aside, 0), ha="left", **beside)
    title = "input" if first else column.unit
    axes.text(float(at[0, 0]), top, title, ha="center", va="top", **NOTE)


def number(value: float) -> str:
    """Three digits.

    >>> number(-0.05)
    '−0.05'
    """
    return f"{value:.3g}".replace("e-0", "e-").replace("e+0", "e").replace("-", "\N{MINUS SIGN}")
