"""Arithmetic units: layers that a person can read. The only registry of them.

A new unit is one file with `compute` and `symbolic`, and one line here; every test over the
registry then finds it.
"""

from odediscovery.units.base import AbstractUnit
from odediscovery.units.dense import Dense
from odediscovery.units.nau import NAU
from odediscovery.units.npu import NPU, NaiveNPU, RealNaiveNPU, RealNPU

UNITS: dict[str, type[AbstractUnit]] = {
    unit.__name__: unit for unit in (NAU, NPU, RealNPU, NaiveNPU, RealNaiveNPU, Dense)
}

__all__ = ["NAU", "NPU", "UNITS", "AbstractUnit", "Dense", "NaiveNPU", "RealNPU", "RealNaiveNPU"]
