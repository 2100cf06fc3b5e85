"""Networks as laws and laws as networks: RealNPU -> NAU with gates at 1 is a sum of powers.

A law with functions and sums among its features is a longer chain of the same units:

    Functions -> RealNPU -> NAU -> RealNPU -> NAU
    x -> z = (x, f(x)) -> (z, 1, m) -> (z, u = 1 + B m) -> monomials -> dx/dt

whose first pair passes z on beside the sums u.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from odediscovery.data.scale import Scale
from odediscovery.families import Function, power_is_rate
from odediscovery.laws.power_sum import NO_SUMS, Features, PowerSum, Sums, expanded
from odediscovery.networks.layers import Layer, Network
from odediscovery.networks.vector_field import VectorField
from odediscovery.runtime.arrays import Array, Mask
from odediscovery.runtime.thresholds import Thresholds, threshold
from odediscovery.units import NAU, NPU, AbstractUnit, Functions, RealNPU


@dataclass(frozen=True)
class NetworkThresholds(Thresholds):
    """How the networks of the search begin, and how their imaginary part ends."""

    gain: float = threshold(
        0.2, "factor on the Glorot weights of both layers", origin="code of the fSIR study, Heim et al. (2020)"
    )
    imaginary_l1: float = threshold(
        10.0,
        "weight of the imaginary exponents of an NPU in the L1 norm",
        unit="weight of the real ones",
        origin="strong enough to drive them out, as the closing words of Heim et al. propose",
    )


NETWORKS = NetworkThresholds()


def power_units(
    nonnegative: Sequence[bool], width: int, unit: str = "RealNPU", *, n_out: int | None = None
) -> tuple[RealNPU | NPU, NAU]:
    """The chain RealNPU -> NAU (or NPU -> NAU) for these features.

    Args:
        nonnegative: which features never change sign, one flag a feature.
        width: number of products of powers.
        unit: "RealNPU" or "NPU", whose imaginary exponents are penalised `NETWORKS.imaginary_l1` times.
        n_out: number of sums (default: as many as features).
    """
    n, flags = len(nonnegative), [bool(f) for f in nonnegative]
    power = (
        NPU(n, width, nonnegative=flags, gain=NETWORKS.gain, imaginary_l1=NETWORKS.imaginary_l1)
        if unit == "NPU"
        else RealNPU(n, width, nonnegative=flags, gain=NETWORKS.gain)
    )
    return power, NAU(width, n if n_out is None else n_out, gain=NETWORKS.gain)


def laws_of(field: VectorField) -> list[PowerSum]:
    """The law that each member of a chain with gates at 1 is, equal monomials summed.

    Of an NPU -> NAU chain it is what is left without the imaginary exponents.
    """
    laws = []
    for member in range(field.members):
        *before, power, total = field.arrays(member)
        features = _features_of(field, before) if before else None
        exponents = power["real"]
        if features is not None and len(features.sums):
            # A sum without weights is 1, whatever its power.
            used = np.any(features.sums.weights != 0, axis=1)
            exponents = exponents.copy()
            exponents[:, features.simple :][:, ~used] = 0.0
        stoichiometry = None if field.stoichiometry is None else field.stoichiometry.numpy()
        laws.append(PowerSum(total["weight"], exponents, features, stoichiometry).merged().compact())
    return laws


def _features_of(field: VectorField, layers: Sequence[Mapping[str, Array]]) -> Features:
    """What the last power unit of a member sees."""
    first, functions = field.units[0], tuple[Function, ...]()
    if isinstance(first, Functions):
        functions = tuple(
            Function(name, state, float(rate))
            for (name, state), rate in zip(first.functions, layers[0]["rate"], strict=True)
        )
        layers = layers[1:]
    sums, simple = NO_SUMS, field.n_states + len(functions)
    if layers:
        inner, adding = layers
        sums = Sums(adding["weight"][simple:, simple + 1 :], inner["real"][simple + 1 :])
    return Features(field.n_states, functions, sums)


def members_of(
    laws: Sequence[PowerSum], nonnegative: Mask, *, whole: bool = False, held: Sequence[tuple[Mask, Mask]] | None = None
) -> VectorField:
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
    units: list[AbstractUnit] = []
    if functions:
        units.append(Functions(n, simple, functions=[(f.name, f.state) for f in functions]))
    if sums:
        units += power_units(positive.tolist(), simple + 1 + inner, n_out=simple + sums)
    units += power_units([*positive.tolist(), *[True] * sums], width, n_out=n)
    theta, free = [], []
    for i, (law, own) in enumerate(zip(laws, features, strict=True)):
        layers = _layers(law, own, functions, fitted, (sums, inner, width), whole)
        if held is not None:
            _hold(layers, *held[i])
        theta.append(np.concatenate([values.ravel() for values, _ in layers]))
        free.append(np.concatenate([mask.ravel() for _, mask in layers]))
    stoichiometry = laws[0].stoichiometry
    return VectorField(
        tuple(units),
        torch.as_tensor(np.stack(theta)),
        torch.as_tensor(np.stack(free)),
        None if stoichiometry is None else torch.as_tensor(stoichiometry),
    )


def _hold(layers: list[tuple[Array, Mask]], coefficients: Mask, exponents: Mask) -> None:
    """Constants of the last pair of units are no longer free, in the order of the law's terms.

    Features are states: known terms have no others.
    """
    rows, states = len(exponents), len(coefficients)
    layers[-1][1][:, :rows] &= ~coefficients
    layers[-3][1][:rows, :states] &= ~exponents[:, :states]


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
    layers: list[tuple[Array, Mask]] = []

    def powers(real: Array, free: Mask) -> None:
        rounded = np.where(free, real, np.round(real))
        layers.append((rounded, free & (real != 0)))
        layers.append((np.ones(real.shape[1]), np.zeros(real.shape[1], dtype=bool)))

    if functions:
        layers.append((np.array([f.rate for f in functions]), np.zeros(len(functions), bool)))
    if sums:
        real = np.zeros((simple + 1 + inner, simple))
        real[:simple] = np.eye(simple)
        rows = np.arange(len(own.sums.exponents))
        if len(rows):
            real[np.ix_(simple + 1 + rows, places)] = own.sums.exponents
        own_rows = np.arange(len(real))[:, None] > simple
        powers(real, own_rows & fitted)
        weight = np.zeros((simple + sums, len(real)))
        weight[:simple, :simple], weight[simple:, simple] = np.eye(simple), 1.0
        b = np.zeros((sums, inner))
        b[: len(own.sums), : len(rows)] = own.sums.weights
        weight[simple:, simple + 1 :] = b
        free = np.zeros(weight.shape, dtype=bool)
        free[simple:, simple + 1 :] = b != 0
        layers.append((weight, free))
    real = np.zeros((width, simple + sums))
    columns = np.append(places, simple + np.arange(len(own.sums)))
    real[np.ix_(np.arange(law.n_monomials), columns)] = law.exponents
    of_sums = np.full(sums, not whole)
    powers(real, np.broadcast_to(np.concatenate([fitted, of_sums]), real.shape))
    weight = np.zeros((n, width))
    weight[:, : law.n_monomials] = law.coefficients
    layers.append((weight, weight != 0))
    return layers


def network_of(law: PowerSum, scale: Scale, equations: int | None = None) -> Network:
    """The pruned chain of units that a law is, up to so many equations (features have none)."""
    field = members_of([expanded(law)], np.ones(law.n_states, dtype=bool))
    layers = []
    for unit, arrays in zip(field.units, field.arrays(0), strict=True):
        functions = unit.functions if isinstance(unit, Functions) else ()
        if functions:
            # The features pass as they are: one rate for every output.
            arrays = {"rate": np.concatenate([np.ones(unit.n_in), arrays["rate"]])}
        layers.append(Layer(unit.name, unit.n_out, unit.n_in, arrays, functions))
    weight = layers[-1].arrays["weight"][:equations]
    layers[-1] = dataclasses.replace(layers[-1], n_out=len(weight), arrays={"weight": weight})
    return Network(tuple(layers), scale)
