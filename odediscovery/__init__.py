"""Differential equations read off from measured time series by arithmetic neural networks.

    from odediscovery import discover, load_csv

    found = discover(load_csv("measurements.csv"))
    print(found.equations_text())

The public names are imported when they are first used, so that `import odediscovery` (and with
it the command's help) costs nothing: torch, scipy and sympy come with the work that needs them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from odediscovery.constants import fit_constants
    from odediscovery.discovery import discover
    from odediscovery.equations import Equations
    from odediscovery.errors import FitError, InputError, OdeDiscoveryError
    from odediscovery.estimator import ODEDiscovery
    from odediscovery.inputs import load_driven, with_inputs
    from odediscovery.monitor import Monitor
    from odediscovery.result import Discovery
    from odediscovery.series import TimeSeries, Trajectory, load_csv, write_csv
    from odediscovery.settings import Settings, settings_for
    from odediscovery.signals import Signal
    from odediscovery.systems import SYSTEMS, get_system, simulate_system

__version__ = "0.1.0"

__all__ = [
    "SYSTEMS", "Discovery", "Equations", "FitError", "InputError", "Monitor",
    "ODEDiscovery", "OdeDiscoveryError", "Settings", "Signal", "TimeSeries", "Trajectory",
    "discover", "fit_constants", "get_system", "load_csv", "load_driven", "settings_for",
    "simulate_system", "with_inputs", "write_csv",
]  # fmt: skip

_HOME = {
    "constants": ("fit_constants",),
    "discovery": ("discover",),
    "equations": ("Equations",),
    "errors": ("FitError", "InputError", "OdeDiscoveryError"),
    "estimator": ("ODEDiscovery",),
    "inputs": ("load_driven", "with_inputs"),
    "monitor": ("Monitor",),
    "result": ("Discovery",),
    "series": ("TimeSeries", "Trajectory", "load_csv", "write_csv"),
    "settings": ("Settings", "settings_for"),
    "signals": ("Signal",),
    "systems": ("SYSTEMS", "get_system", "simulate_system"),
}


def __getattr__(name: str) -> Any:
    for module, names in _HOME.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
