"""The units that networks of the search are made of, and how they begin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from odediscovery.units import NAU, NPU, RealNPU, glorot


@dataclass(frozen=True)
class NetworkThresholds:
    """How the networks of the search begin, and how their imaginary part ends."""

    gain: float = 0.2  # factor on the Glorot weights of both layers; code of the fSIR study, Heim et al. (2020)
    # weight of the imaginary exponents of an NPU in the L1 norm [weight of the real ones]; strong enough to drive
    # them out, as the closing words of Heim et al. propose
    imaginary_l1: float = 10.0


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
    n, flags, begin = len(nonnegative), [bool(f) for f in nonnegative], glorot(NETWORKS.gain)
    power = (
        NPU(n, width, nonnegative=flags, init_re=begin, imaginary_l1=NETWORKS.imaginary_l1)
        if unit == "NPU"
        else RealNPU(n, width, nonnegative=flags, init_re=begin)
    )
    return power, NAU(width, n if n_out is None else n_out, init_weight=begin)
