"""What commands share: flags with their defaults, NAME=NUMBER, a result as text."""

# Imports inside the functions are the point: help has to come before torch could be loaded.
# ruff: noqa: PLC0415

from __future__ import annotations

import dataclasses
import logging
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from odediscovery.errors import InputError, unknown_name

if TYPE_CHECKING:
    from odediscovery.result.discovery import Discovery
    from odediscovery.runtime.workers import Backend

# Longer equations are cut in the Pareto table; above it, and in result.json, they are whole.
MOST_LETTERS = 160
BACKENDS = ("processes", "dask")


def flag(text: str, default: object = None) -> Any:
    """An option with this help, and what it is without it."""
    shown = text if default is None else f"{text} (default: {default})"
    return typer.Option(help=shown, show_default=False)


def argument(name: str, text: str) -> Any:
    """An argument with this help."""
    return typer.Argument(metavar=name, help=text, show_default=False)


def assignments(texts: Sequence[str], option: str) -> dict[str, float]:
    """["S=100", ...] as numbers by name."""
    values = {}
    for text in texts:
        name, sign, number = text.rpartition("=")
        try:
            value = float(number)
        except ValueError:
            value = math.nan
        if not sign or not math.isfinite(value):
            raise InputError(f"{option} expects NAME=NUMBER, got {text.strip()!r}")
        values[name.strip()] = value
    return values


BackendName = Annotated[str, flag("where: processes of this machine or dask", "processes")]
Scheduler = Annotated[str | None, flag("address of a dask scheduler: tcp://node1:8786")]


@contextmanager
def opened(backend: str, scheduler: str | None, jobs: int, say: Callable[[str], None]) -> Iterator[Backend]:
    """Where tasks run, for as long as there are any.

    Args:
        backend: "processes" or "dask".
        scheduler: address of the scheduler of a dask cluster.
        jobs: processes side by side.
        say: hears when a cluster has no workers.

    Raises:
        InputError: an option is wrong or does not go with the others, dask is not installed, or
            the scheduler does not answer.
    """
    from odediscovery.runtime.workers import Processes

    if backend not in BACKENDS:
        raise unknown_name("backend", backend, BACKENDS)
    local = Processes(jobs)
    if backend == "processes":
        if scheduler is not None:
            raise InputError("--scheduler is the address of a dask cluster: it needs --backend dask")
        yield local
        return
    if scheduler is None:
        raise InputError(
            "--backend dask needs --scheduler ADDRESS, such as tcp://node1:8786; "
            "`dask scheduler` starts one and tells its address"
        )
    if jobs != 1:
        raise InputError(
            f"--jobs {jobs} counts processes of this machine; with --backend dask the "
            "threads of the workers count: leave it out"
        )
    from odediscovery.runtime.cluster import connected

    # What its client would say with a traceback is said in one line here.
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
    with connected(scheduler, say) as cluster:
        yield cluster


def print_discovery(found: Discovery) -> None:
    """Equations, starts, notes and the Pareto front, on standard output."""
    """Equations with error bars, messages, then the Pareto table with the chosen row marked."""
    print(found.equations_text())
    for text in (found.starts_text(), found.stability_text()):
        print(text, end="\n" if text else "")
    for message in found.messages:
        print(f"note: {message}")
    print()
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("")
    for title in ("complexity", "MSE", "R2"):
        table.add_column(title, justify="right")
    table.add_column("equations", overflow="fold")
    for row in found.front:
        plain = dataclasses.replace(row.equations, standard_errors=None)
        table.add_row(
            "*" if row.selected else "",
            str(row.complexity),
            f"{row.mse:.3g}",
            f"{row.r2:.6f}",
            Text(_shortened(plain.pretty(3))),
        )
    console = Console(width=None if sys.stdout.isatty() else 1000, highlight=False)
    with console.capture() as captured:
        console.print(table)
    print("\n".join(line.rstrip() for line in captured.get().splitlines()))


def _shortened(equations: str) -> str:
    lines = equations.splitlines()
    return "\n".join(x if len(x) <= MOST_LETTERS else f"{x[: MOST_LETTERS - 3]}..." for x in lines)
