"""Modules that had another name: what was documented under it still works, with a warning."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

# Old name: new name, both inside the package.
MOVED = {
    "bootstrap": "uncertainty.bootstrap",
    "equations": "laws.equations",
    "experiments.fsir": "experiments.studies.fsir",
    "field": "networks.vector_field",
    "inputs": "data.controls",
    "monitor": "runtime.monitor",
    "powersum": "laws.power_sum",
    "profile": "uncertainty.profile",
    "series": "data.series",
    "signals": "data.signals",
    "survival": "result.survival",
    "systems": "laws.systems",
    "terms": "laws.records",
    "windows": "fitting.windows",
}
_PACKAGE = __name__.rpartition(".")[0]


class _Moved(MetaPathFinder, Loader):
    """Finds the old names, behind all other finders."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, _, name = fullname.partition(".")
        return ModuleSpec(fullname, self) if package == _PACKAGE and name in MOVED else None

    def exec_module(self, module: ModuleType) -> None:
        new = f"{_PACKAGE}.{MOVED[module.__name__.partition('.')[2]]}"
        warnings.warn(f"{module.__name__} is now {new}", DeprecationWarning, stacklevel=2)
        own = {name for name in vars(module) if name.startswith("__")}
        found = vars(importlib.import_module(new))
        vars(module).update({name: value for name, value in found.items() if name not in own})


def keep_old_names() -> None:
    """Makes the old names importable."""
    if not any(isinstance(finder, _Moved) for finder in sys.meta_path):
        sys.meta_path.append(_Moved())
