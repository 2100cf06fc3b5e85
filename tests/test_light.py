"""What is slow to load waits until it is needed: a fit that trains no network loads no torch."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from test_architecture import ROOT, tree_of

# Seconds each, and nothing that a usual fit computes needs them.
WAITS = ("torch", "torchdiffeq", "scipy.signal", "scipy.stats", "pint", "sklearn", "matplotlib.pyplot")


def ran(code: str, *arguments: str) -> tuple[set[str], str]:
    """The modules that are there after some code ran in a process of its own, and what that said on standard error."""
    told = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys\nprint('loaded', *sorted(sys.modules))", *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert told.returncode == 0, told.stderr
    return set(told.stdout.splitlines()[-1].split()[1:]), told.stderr


def test_the_package_alone_loads_nothing() -> None:
    assert not ran("import odediscovery")[0] & {*WAITS, "numpy", "scipy", "sympy", "pandas", "matplotlib"}


@pytest.mark.slow
def test_a_fit_that_trains_no_network_loads_no_torch(tmp_path: Path) -> None:
    """From the table to the pictures and the page; where digits are few laws are pruned on the way."""
    digits = 4
    times = np.linspace(0.0, 10.0, 41)
    rows = [f"{t:.{digits}g},{np.exp(-0.5 * t):.{digits}g}" for t in times]
    (tmp_path / "exp.csv").write_text("\n".join(["t,x", *rows]), encoding="utf-8")
    run = "import sys\nfrom odediscovery.cli import main\nassert main(sys.argv[1:]) == 0"
    found, said = ran(run, "fit", str(tmp_path / "exp.csv"), "--out", str(tmp_path / "out"))
    assert "matplotlib.figure" in found and (tmp_path / "out" / "report.html").exists()
    assert (" prune\n" in said) is (digits == 4)
    assert not found & {*WAITS}


# The same for every path through the code, read from the sources.


def at_import(node: ast.AST) -> Iterator[str]:
    """What a module imports when it is imported itself: not in functions, not for types alone."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            yield child.module or ""
            yield from (f"{child.module}.{alias.name}" for alias in child.names)
        elif isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        elif not isinstance(child, ast.FunctionDef | ast.Lambda):
            yield from at_import(child)


@cache
def own_and_others(module: str) -> tuple[frozenset[str], frozenset[str]]:
    """Modules of the package and other names that a module imports when it is imported."""
    own, others = set(), set()
    for name in at_import(tree_of(module)):
        if not name.startswith("odediscovery."):
            others.add(name)
            continue
        parts = name.split(".")[1:]
        own |= {".".join(parts[:k]) for k in range(1, len(parts) + 1)}
    folder = ROOT / "odediscovery"
    paths = {name: folder.joinpath(*name.split(".")) for name in own}
    known = {name for name, path in paths.items() if path.is_dir() or path.with_suffix(".py").exists()}
    return frozenset(known), frozenset(others)


def way_to(library: str, start: str) -> list[str]:
    """Modules from `start` to one that imports a library; empty where none does."""
    came: dict[str, str | None] = {start: None}
    for module in (queue := [start]):
        own, others = own_and_others(module)
        if any(name == library or name.startswith(f"{library}.") for name in others):
            way, at = list[str](), module
            while at is not None:
                way.insert(0, at)
                at = came[at]
            return way
        for name in sorted(own - came.keys()):
            came[name] = module
            queue.append(name)
    return []


@pytest.mark.parametrize("library", [name for name in WAITS if name != "sklearn"])
@pytest.mark.parametrize("start", ["discovery.discover", "uncertainty.bootstrap", "many.run", "report", "plots"])
def test_no_module_of_a_fit_imports_what_waits(start: str, library: str) -> None:
    assert way_to(library, start) == []


def test_what_trains_is_found_by_this_reading() -> None:
    assert way_to("torch", "neural.train")[0] == "neural.train"
    assert way_to("torch", "search.published.recipes")
