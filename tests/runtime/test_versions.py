"""The versions that a result names are those that are installed."""

from __future__ import annotations

import platform
from importlib import metadata

import numpy
import pytest
import torch

import odediscovery
from odediscovery.runtime import versions


def test_versions_are_the_installed_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    known = versions.versions()
    assert known["python"] == platform.python_version()
    assert known["odediscovery"] == odediscovery.__version__
    assert (known["numpy"], known["torch"]) == (numpy.__version__, torch.__version__)
    assert set(known) == {"python", "odediscovery", "torch", "torchdiffeq", "scipy", "numpy", "sympy"}

    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    assert versions.versions()["scipy"] == "unknown"
