"""The pruned network behind the equations, as plain arrays.

A fitted chain of units is kept as what it computes with: the name of each unit and its arrays,
input first. That is enough to draw it, to read it and to build the live network again, and it
lies in one npz file that is read without pickle, so that a file from a stranger can hold
numbers only.

Chains as laws and laws as chains: powers and sums with gates at 1 are a sum of powers.

A law with functions and sums among its features is a longer chain of the same layers, see `chain`, whose first pair
passes the states and their functions on beside the sums. The network that a law is has them as units:

    Functions -> RealNPU -> NAU -> RealNPU -> NAU
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from odediscovery.data.scale import Scale
from odediscovery.families import Function, power_is_rate
from odediscovery.laws.power_sum import NO_SUMS, Features, PowerSum, Sums, expanded
from odediscovery.networks.chain import Chain, Pair
from odediscovery.runtime.archives import pack, unpack
from odediscovery.runtime.arrays import Array, Indices, Mask


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


@runtime_checkable
class Trained(Protocol):
    """A trained chain of two units, RealNPU or NPU and NAU; a `VectorField` is one."""

    @property
    def stoichiometry(self) -> Any:
        """What outputs are multiplied by, or None."""

    @property
    def members(self) -> int:
        """Number of networks side by side."""

    def arrays(self, member: int) -> list[dict[str, Array]]:
        """One member's parameters by name, a dictionary a unit."""


def laws_of(chain: Chain) -> list[PowerSum]:
    """The law that each member of a chain is, equal monomials summed."""
    laws = []
    for member in range(chain.members):
        *before, (exponents, weight) = [(real[member], w[member]) for real, w in chain.unpack(chain.theta)]
        features = _features_of(chain, before) if before or chain.functions else None
        if features is not None and len(features.sums):
            # A sum without weights is 1, whatever its power.
            used = np.any(features.sums.weights != 0, axis=1)
            exponents = exponents.copy()
            exponents[:, features.simple :][:, ~used] = 0.0
        laws.append(PowerSum(weight.copy(), exponents.copy(), features, chain.stoichiometry).merged().compact())
    return laws


def trained_laws_of(field: Trained) -> list[PowerSum]:
    """The law that each trained member with gates at 1 is, equal monomials summed.

    Of an NPU -> NAU chain it is what is left without the imaginary exponents.
    """
    mix, laws = None if field.stoichiometry is None else np.asarray(field.stoichiometry), []
    for member in range(field.members):
        power, total = field.arrays(member)
        laws.append(PowerSum(total["weight"], power["real"], None, mix).merged().compact())
    return laws


def _features_of(chain: Chain, before: Sequence[tuple[Array, Array]]) -> Features:
    """What the last layer of powers of a member sees."""
    sums, simple = NO_SUMS, chain.n_states + len(chain.functions)
    if before:
        ((inner, adding),) = before
        sums = Sums(adding[simple:, simple + 1 :].copy(), inner[simple + 1 :].copy())
    return Features(chain.n_states, chain.functions, sums)


def chain_of(
    laws: Sequence[PowerSum], nonnegative: Mask, *, whole: bool = False, held: Sequence[tuple[Mask, Mask]] | None = None
) -> Chain:
    """Members of one chain, as small as the laws allow, that compute the laws.

    What a law lacks is not free; exponents of features that change sign are rounded and not free
    either, since only whole powers of them are real.

    Args:
        nonnegative: which states never change sign, [states].
        whole: round and hold the exponents of all features but exponentials, whose exponents are
            their rates.
        held: coefficients [states, monomials] and exponents [monomials, features] of each law that
            are known and not free.
    """
    n, width = len(nonnegative), max(1, *(law.n_monomials for law in laws))
    features = [law.features or Features(n) for law in laws]
    functions = tuple(dict.fromkeys(f for own in features for f in own.functions))
    of_functions = [power_is_rate(f) for f in functions]
    positive = np.concatenate([nonnegative, np.array(of_functions, dtype=bool)])
    fitted = np.concatenate([nonnegative & (not whole), np.array(of_functions, dtype=bool)])
    sums = max(len(own.sums) for own in features)
    inner = max(own.sums.exponents.shape[0] for own in features)
    simple = n + len(functions)
    pairs = [Pair(positive, simple + 1 + inner, simple + sums)] if sums else []
    pairs.append(Pair(np.append(positive, np.ones(sums, dtype=bool)), width, n))
    theta, free = [], []
    for i, (law, own) in enumerate(zip(laws, features, strict=True)):
        layers = _layers(law, own, functions, fitted, (sums, inner, width), whole)
        if held is not None:
            _hold(layers, *held[i])
        theta.append(np.concatenate([values.ravel() for values, _ in layers]))
        free.append(np.concatenate([mask.ravel() for _, mask in layers]))
    return Chain(n, functions, tuple(pairs), np.stack(theta), np.stack(free), laws[0].stoichiometry)


def _hold(layers: list[tuple[Array, Mask]], coefficients: Mask, exponents: Mask) -> None:
    """Constants of the last pair of units are no longer free, in the order of the law's terms.

    Features are states: known terms have no others.
    """
    rows, states = len(exponents), len(coefficients)
    layers[-1][1][:, :rows] &= ~coefficients
    layers[-2][1][:rows, :states] &= ~exponents[:, :states]


def _layers(
    law: PowerSum,
    own: Features,
    functions: tuple[Function, ...],
    fitted: Mask,
    sizes: tuple[int, int, int],
    whole: bool,
) -> list[tuple[Array, Mask]]:
    """Parameters of one law in the order in which a chain keeps them, and which are free."""
    sums, inner, width = sizes
    n, simple = own.states, own.states + len(functions)
    places = np.array([*range(n), *(n + functions.index(f) for f in own.functions)], dtype=int)
    real = np.zeros((width, simple + sums))
    columns = np.append(places, simple + np.arange(len(own.sums)))
    real[np.ix_(np.arange(law.n_monomials), columns)] = law.exponents
    of_sums = np.full(sums, not whole)
    powers = _powers(real, np.broadcast_to(np.concatenate([fitted, of_sums]), real.shape))
    weight = np.zeros((n, width))
    weight[:, : law.n_monomials] = law.coefficients
    before = _layers_of_sums(own.sums, places, fitted, (sums, inner)) if sums else []
    return [*before, powers, (weight, weight != 0)]


def _powers(real: Array, free: Mask) -> tuple[Array, Mask]:
    """Exponents of a layer of powers, whole where they are not free, and which are fitted: those of 0 are not."""
    return np.where(free, real, np.round(real)), free & (real != 0)


def _layers_of_sums(own: Sums, places: Indices, fitted: Mask, sizes: tuple[int, int]) -> list[tuple[Array, Mask]]:
    """The pair of units that hands on all simple features and adds sums 1 + B y^V of them.

    Args:
        own: of one law.
        places: of the law's features among all simple ones.
        fitted: whether exponents of a simple feature are fitted.
        sizes: how many sums, and monomials in them, the chain has room for.
    """
    (sums, inner), simple = sizes, len(fitted)
    real = np.zeros((simple + 1 + inner, simple))
    real[:simple] = np.eye(simple)
    rows = np.arange(len(own.exponents))
    if len(rows):
        real[np.ix_(simple + 1 + rows, places)] = own.exponents
    own_rows = np.arange(len(real))[:, None] > simple
    weight = np.zeros((simple + sums, len(real)))
    weight[:simple, :simple], weight[simple:, simple] = np.eye(simple), 1.0
    b = np.zeros((sums, inner))
    b[: len(own), : len(rows)] = own.weights
    weight[simple:, simple + 1 :] = b
    free = np.zeros(weight.shape, dtype=bool)
    free[simple:, simple + 1 :] = b != 0
    return [_powers(real, own_rows & fitted), (weight, free)]


def network_of(law: PowerSum, scale: Scale, equations: int | None = None) -> Network:
    """The pruned chain of units that a law is, up to so many equations (features have none)."""
    chain = chain_of([expanded(law)], np.ones(law.n_states, dtype=bool))
    n, functions, layers = chain.n_states, chain.functions, []
    if functions:
        # The features pass as they are: one rate for every output.
        rates = np.array([*[1.0] * n, *(f.rate for f in functions)])
        names = tuple((f.name, f.state) for f in functions)
        layers.append(Layer("Functions", n + len(functions), n, {"rate": rates}, names))
    for k, (pair, (real, weight)) in enumerate(zip(chain.pairs, chain.unpack(chain.theta), strict=True), start=1):
        gate = np.ones(pair.n_in)
        layers.append(Layer("RealNPU", pair.width, pair.n_in, {"real": real[0], "gate": gate}))
        total = weight[0][:equations] if k == len(chain.pairs) else weight[0]
        layers.append(Layer("NAU", len(total), pair.width, {"weight": total}))
    return Network(tuple(layers), scale)
