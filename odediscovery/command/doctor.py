"""`odediscovery doctor`: a check of the installation and its resources."""

# Imports inside the functions let help appear before torch is loaded.
# ruff: noqa: PLC0415

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from importlib import util
from pathlib import Path

import typer

from odediscovery.command.console import say

# Extras of the package: their purposes and modules.
EXTRAS = {
    "tables": (".xlsx, .xls and .parquet", ("openpyxl", "xlrd", "pyarrow")),
    "bench": ("benchmarks beside pysindy and others", ("pysindy", "pyoperon")),
    "units": ("units of what you state, checked", ("pint",)),
    "dask": ("many machines", ("distributed",)),
}


def doctor() -> None:
    """Check this installation: versions, device, threads, folders, a small fit."""
    bad = False
    for name, check in (("versions", _versions), ("device", _device), ("folders", _folders), ("fit", _fit)):
        bad |= not _told(name, check)
    for extra, (purpose, modules) in EXTRAS.items():
        lacking = [module for module in modules if util.find_spec(module) is None]
        state = f'lacks {", ".join(lacking)}: pip install "odediscovery[{extra}]"' if lacking else "installed"
        say(f"extra    {extra} ({purpose}): {state}")
    if bad:
        say("something is wrong: see the lines that begin with BAD")
        raise typer.Exit(1)
    say("all is well")


def _told(name: str, check: Callable[[], Iterator[str]]) -> bool:
    """Print the results of a check, and return whether it passed."""
    try:
        for line in check():
            say(f"{name:<8} {line}")
    except Exception as error:
        say(f"BAD      {name}: {type(error).__name__}: {' '.join(str(error).split())[:300]}")
        return False
    return True


def _versions() -> Iterator[str]:
    from odediscovery.runtime.versions import versions

    yield ", ".join(f"{name} {version}" for name, version in versions().items())


def _device() -> Iterator[str]:
    import torch

    yield f"{os.cpu_count()} processors, {torch.get_num_threads()} threads of torch (a fit uses one: --threads)"
    if torch.cuda.is_available():
        yield f"GPU {torch.cuda.get_device_name()}: --device cuda"
    else:
        yield "no GPU that torch can use: --device cpu, the default"


def _folders() -> Iterator[str]:
    for purpose, folder in (("here", Path.cwd()), ("temporary files", Path(tempfile.gettempdir()))):
        with tempfile.TemporaryFile(dir=folder):
            yield f"{folder} can be written ({purpose})"


def _fit() -> Iterator[str]:
    from odediscovery.discovery.discover import discover
    from odediscovery.laws.systems import simulate_system
    from odediscovery.settings import settings_for

    found = discover(simulate_system("torricelli"), settings_for(members=0))
    if found.outcome != "converged" or found.r2 < 0.999:
        raise RuntimeError(f"a known law was not found: {found.equations_text()} ({found.outcome})")
    yield f"{found.equations_text()} found in {found.seconds:.1f} s"
