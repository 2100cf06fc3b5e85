"""Registry of the arithmetic units, layers with a readable formula.

A new unit is one file with `compute` and `symbolic`, imported and listed here; every test over the
registry then finds it.
"""

from odediscovery.units.base import AbstractUnit, glorot
from odediscovery.units.connectives import And, Implies, Not, Or
from odediscovery.units.dense import Dense, Linear
from odediscovery.units.functions import Functions
from odediscovery.units.nac import NAC, MultiplicativeNAC
from odediscovery.units.nalu import NALU, iNALU
from odediscovery.units.nau import NAU
from odediscovery.units.nmu import NMU
from odediscovery.units.npu import NPU, NaiveNPU, RealNaiveNPU, RealNPU
from odediscovery.units.nsr import NSR

UNITS: dict[str, type[AbstractUnit]] = {
    unit.__name__: unit
    for unit in (
        NAC,
        MultiplicativeNAC,
        NALU,
        iNALU,
        NAU,
        NMU,
        NPU,
        RealNPU,
        NaiveNPU,
        RealNaiveNPU,
        NSR,
        And,
        Or,
        Not,
        Implies,
        Linear,
        Dense,
        Functions,
    )
}

__all__ = [
    "NAC",
    "NALU",
    "NAU",
    "NMU",
    "NPU",
    "NSR",
    "UNITS",
    "AbstractUnit",
    "And",
    "Dense",
    "Functions",
    "Implies",
    "Linear",
    "MultiplicativeNAC",
    "NaiveNPU",
    "Not",
    "Or",
    "RealNPU",
    "RealNaiveNPU",
    "glorot",
    "iNALU",
]
