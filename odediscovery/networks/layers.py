"""The pruned network behind the equations, as plain arrays.

A fitted chain of units is kept as what it computes with: the name of each unit and its arrays,
input first. That is enough to draw it, to read it and to build the live network again, and it
lies in one npz file that is read without pickle, so that a file from a stranger can hold
numbers only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odediscovery.data.scale import Scale
from odediscovery.runtime.archives import pack, unpack


@dataclass(frozen=True, eq=False)
class Layer:
    """One arithmetic unit: y [n_out] = unit(x [n_in]).

    Args:
        unit: name in the registry of units, e.g. "RealNPU".
        n_out, n_in: widths of the output and the input.
        arrays: the weights by name, e.g. {"real": [n_out, n_in], "gate": [n_in]}.
        functions: of a layer of functions: name and feature of each output behind the features.
    """

    unit: str
    n_out: int
    n_in: int
    arrays: Mapping[str, NDArray[np.float64]]
    functions: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, eq=False)
class Network:
    """A chain of units between dimensionless states and their dimensionless rates.

    Args:
        layers: input first.
        scale: what the data were divided by before the network saw them.
    """

    layers: tuple[Layer, ...]
    scale: Scale

    def sees(self, names: Sequence[str]) -> list[str]:
        """What states are called before the network: a mirrored one, of negative scale, is −x."""
        below = self.scale.state < 0.0
        return [f"\N{MINUS SIGN}{name}" if k < len(below) and below[k] else name for k, name in enumerate(names)]

    @staticmethod
    def to_bytes(network: Network | None) -> bytes:
        """The content of `model.npz`; no layers when there is no network."""
        arrays: dict[str, NDArray[np.float64]] = {}
        chain = []
        for i, layer in enumerate(network.layers if network else ()):
            chain.append(
                {"unit": layer.unit, "outputs": layer.n_out, "inputs": layer.n_in, "functions": layer.functions}
            )
            arrays |= {f"{i}.{name}": np.asarray(a, float) for name, a in layer.arrays.items()}
        if network:
            arrays["scale.state"] = np.asarray(network.scale.state, float)
            arrays["scale.time"] = np.array(float(network.scale.time))
        return pack("layers", chain, arrays)

    @classmethod
    def from_bytes(cls, content: bytes, path: Path) -> Network | None:
        """The network in an npz file that `to_bytes` made, None if it holds no layers.

        Args:
            content: of the file.
            path: of the file, for messages.

        Raises:
            InputError: cut short, or anything but the expected arrays.
        """
        return unpack(content, path, "layers", _assembled)


def _assembled(chain: Any, arrays: Mapping[str, NDArray[np.float64]]) -> Network | None:
    layers = []
    for i, entry in enumerate(chain):
        own = {
            name.partition(".")[2]: np.asarray(array, float)
            for name, array in arrays.items()
            if name.partition(".")[0] == str(i)
        }
        functions = tuple((str(name), int(k)) for name, k in entry.get("functions", ()))
        layers.append(Layer(str(entry["unit"]), int(entry["outputs"]), int(entry["inputs"]), own, functions))
    if not layers:
        return None
    _check_widths(layers)
    return Network(tuple(layers), Scale.from_arrays(arrays["scale.state"], arrays["scale.time"]))


def _check_widths(layers: Sequence[Layer]) -> None:
    """Whether a chain of layers fits together.

    Raises:
        ValueError: it does not, or it holds numbers that are not finite.
    """
    for layer, before in zip(layers, (None, *layers), strict=False):
        n_out, n_in = layer.n_out, layer.n_in
        shapes = {(n_out, n_in), (n_in,), (n_out,), (len(layer.functions),)}
        fits = min(n_out, n_in) > 0 and (before is None or before.n_out == n_in)
        fits = fits and {array.shape for array in layer.arrays.values()} <= shapes
        if not (fits and all(np.isfinite(array).all() for array in layer.arrays.values())):
            raise ValueError("its layers do not fit each other")
