"""Networks as laws and laws as networks: RealNPU -> NAU with gates at 1 is a sum of powers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from odediscovery.field import VectorField
from odediscovery.network import Layer, Network
from odediscovery.powersum import PowerSum
from odediscovery.series import Scale
from odediscovery.units import NAU, NPU, RealNPU

# Initial weights of both layers as the fSIR study drew them.
GAIN = 0.2


# Weight of the imaginary exponents of an NPU in the L1 norm: so strong that they are driven out,
# as the closing words of the paper propose.
IMAGINARY_L1 = 10.0


def power_units(
    nonnegative: Sequence[bool], hidden: int, unit: str = "RealNPU"
) -> tuple[RealNPU | NPU, NAU]:
    """The chain RealNPU -> NAU (or NPU -> NAU) for these states.

    Args:
        nonnegative: which states never change sign, one flag a state.
        hidden: number of products of powers.
        unit: "RealNPU" or "NPU", whose imaginary exponents are penalised `IMAGINARY_L1` times.
    """
    n, flags = len(nonnegative), [bool(f) for f in nonnegative]
    power = (
        NPU(n, hidden, nonnegative=flags, gain=GAIN, imaginary_l1=IMAGINARY_L1)
        if unit == "NPU"
        else RealNPU(n, hidden, nonnegative=flags, gain=GAIN)
    )
    return power, NAU(hidden, n, gain=GAIN)


def laws_of(field: VectorField) -> list[PowerSum]:
    """The sum of powers that each member of a RealNPU -> NAU chain with gates at 1 is.

    Of an NPU -> NAU chain it is what is left without the imaginary exponents.
    """
    laws = []
    for member in range(field.members):
        power, total = field.arrays(member)
        laws.append(PowerSum(total["weight"], power["real"]).merged())
    return laws


def members_of(
    laws: Sequence[PowerSum], nonnegative: NDArray[np.bool_], *, whole: bool = False
) -> VectorField:
    """Members of a RealNPU -> NAU chain, as small as the laws allow, that compute the laws.

    What a law lacks is not free; exponents of states that change sign are rounded and not free
    either, since only whole powers of them are real.

    Args:
        nonnegative: which states never change sign, [states].
        whole: round and hold the exponents of all states.
    """
    fitted = nonnegative & (not whole)
    hidden = max(1, *(law.n_monomials for law in laws))
    units = power_units(nonnegative.tolist(), hidden)
    n = len(nonnegative)
    real = torch.zeros(len(laws), hidden, n, dtype=torch.float64)
    weight = torch.zeros(len(laws), n, hidden, dtype=torch.float64)
    for i, law in enumerate(laws):
        exponents = np.where(fitted, law.exponents, np.round(law.exponents))
        real[i, : law.n_monomials] = torch.as_tensor(exponents)
        weight[i, :, : law.n_monomials] = torch.as_tensor(law.coefficients)
    gate = torch.ones(len(laws), n, dtype=torch.float64)
    theta = torch.cat([real.flatten(1), gate, weight.flatten(1)], dim=1)
    free_real = (real != 0) & torch.as_tensor(fitted)
    free = torch.cat([free_real.flatten(1), gate == 0, (weight != 0).flatten(1)], dim=1)
    return VectorField(units, theta, free)


def network_of(law: PowerSum, scale: Scale) -> Network | None:
    """The pruned chain of units that a law is: RealNPU -> NAU, twice where it has sums.

    The first pair then passes the states on beside the sums. None for functions of states, which
    are no arithmetic units.
    """
    n, m = law.n_states, law.n_monomials
    layers: tuple[Layer, ...] = ()
    inputs = n
    if law.inputs is not None:
        if law.inputs.functions:
            return None
        sums = law.inputs.sums
        real = np.vstack([np.eye(n), np.zeros((1, n)), sums.exponents])
        weight = np.zeros((n + len(sums), len(real)))
        weight[:n, :n], weight[n:, n], weight[n:, n + 1 :] = np.eye(n), 1.0, sums.weights
        inputs = len(weight)
        layers = (
            Layer("RealNPU", len(real), n, {"real": real, "gate": np.ones(n)}),
            Layer("NAU", inputs, len(real), {"weight": weight}),
        )
    return Network(
        (*layers, Layer("RealNPU", m, inputs, {"real": law.exponents, "gate": np.ones(inputs)}),
         Layer("NAU", n, m, {"weight": law.coefficients})),
        scale,
    )  # fmt: skip
