"""Versions of the software that numbers depend on."""

from __future__ import annotations

import sys
from importlib import metadata

from odediscovery import __version__


def versions() -> dict[str, str]:
    """Versions of Python, this package and the libraries that numbers depend on."""
    known = {"python": sys.version.split()[0], "odediscovery": __version__}
    for library in ("torch", "torchdiffeq", "scipy", "numpy", "sympy"):
        try:
            known[library] = metadata.version(library)
        except metadata.PackageNotFoundError:
            known[library] = "unknown"
    return known
