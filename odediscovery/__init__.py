"""Differential equations behind measured time series, found by regression and by arithmetic neural networks.

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
    from odediscovery.data.series import TimeSeries, Trajectory, load_csv, load_with_controls, with_controls, write_csv
    from odediscovery.data.signals import Signal
    from odediscovery.discovery.discover import discover
    from odediscovery.discovery.fit_constants import fit_constants
    from odediscovery.errors import FitError, InputError, OdeDiscoveryError
    from odediscovery.estimator.estimator import ODEDiscovery
    from odediscovery.knowledge.constraints import term_library
    from odediscovery.laws.equations import Equations
    from odediscovery.laws.systems import SYSTEMS, get_system, simulate_system
    from odediscovery.neural.equations import equations
    from odediscovery.neural.field import Field
    from odediscovery.neural.prune import prune
    from odediscovery.neural.train import train
    from odediscovery.plots.show import pareto, plot_fit, plot_laws
    from odediscovery.report import notebook_html
    from odediscovery.result.compare import Comparison, compare
    from odediscovery.result.discovery import Discovery
    from odediscovery.runtime.monitor import Monitor
    from odediscovery.settings import Settings, settings_for
    from odediscovery.uncertainty.bootstrap import bootstrap

__version__ = "0.1.0"

__all__ = ["SYSTEMS", "Comparison", "Discovery", "Equations", "Field", "FitError", "InputError", "Monitor"]
__all__ += ["ODEDiscovery", "OdeDiscoveryError", "Settings", "Signal", "TimeSeries", "Trajectory", "bootstrap"]
__all__ += ["compare", "discover", "equations", "fit_constants", "get_system", "load_csv", "load_with_controls"]
__all__ += ["notebook_html", "pareto", "plot_fit", "plot_laws", "prune", "settings_for", "simulate_system"]
__all__ += ["term_library", "train", "with_controls", "write_csv"]

_HOME = {
    "data.series": ("TimeSeries", "Trajectory", "load_csv", "load_with_controls", "with_controls", "write_csv"),
    "data.signals": ("Signal",),
    "discovery.discover": ("discover",),
    "discovery.fit_constants": ("fit_constants",),
    "knowledge.constraints": ("term_library",),
    "errors": ("FitError", "InputError", "OdeDiscoveryError"),
    "estimator.estimator": ("ODEDiscovery",),
    "laws.equations": ("Equations",),
    "laws.systems": ("SYSTEMS", "get_system", "simulate_system"),
    "neural.equations": ("equations",),
    "neural.field": ("Field",),
    "neural.prune": ("prune",),
    "neural.train": ("train",),
    "plots.show": ("pareto", "plot_fit", "plot_laws"),
    "report": ("notebook_html",),
    "result.compare": ("Comparison", "compare"),
    "result.discovery": ("Discovery",),
    "runtime.monitor": ("Monitor",),
    "settings": ("Settings", "settings_for"),
    "uncertainty.bootstrap": ("bootstrap",),
}


def __getattr__(name: str) -> Any:
    for module, names in _HOME.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
