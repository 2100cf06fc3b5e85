"""Options that commands of `bench` share, how they run, and how they tell what came out."""

# Imports inside the functions are the point: help has to come before torch could be loaded.
# ruff: noqa: PLC0415

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from odediscovery.command.console import opened

NOTHING = "stopped before the first system was done; nothing is kept"
Measured = TypeVar("Measured")


def flag(text: str) -> Any:
    """An option with this help."""
    return typer.Option(help=text, show_default=False)


Seed = Annotated[int, flag("random seed (default: 0)")]
JsonOut = Annotated[Path | None, flag("JSON file to write (default: none)")]
Ids = Annotated[str | None, flag("systems, with commas between (default: all)")]
Jobs = Annotated[int, flag("systems run side by side, one thread each (default: 1)")]
MaxSeconds = Annotated[float, flag("time limit of a system (default: 180)")]
Folder = Annotated[
    Path | None, flag("folder to write; one begun before is continued (default: bench-NAME-... named by the options)")
]
Quiet = Annotated[bool, flag("no progress on standard error")]


def run_shown(
    run: Callable[..., Measured], quiet: bool, where: tuple[str, str | None, int] | None = None
) -> tuple[Measured, bool]:
    """Run a measurement while its progress is shown: its rows, and whether it was stopped early.

    Args:
        run: called with the `monitor` that hears its progress, with `say`, which hears a line a
            finished row, and with the `backend` of its tasks if it has one.
        quiet: no progress.
        where: name of the backend, address of its scheduler, processes side by side.
    """
    from odediscovery.command.progress import TerminalMonitor

    monitor, say = TerminalMonitor(quiet=quiet), sayer(quiet)
    with ExitStack() as stack:
        place = {} if where is None else {"backend": stack.enter_context(opened(*where, say))}
        stack.enter_context(monitor.shown())
        rows = run(**place, monitor=monitor, say=say)
    if not rows:
        print(NOTHING)
    return rows, bool(monitor.stopping())


def sayer(quiet: bool) -> Callable[[str], None]:
    """What hears one line a finished row: standard error, or nothing."""
    return (lambda _: None) if quiet else progress


def tell(text: str, folder: Path, stopped: bool) -> None:
    """Print a summary and keep it beside its rows."""
    from odediscovery.runtime.files import write_whole

    write_whole(folder / "summary.md", text.encode())
    print(text, end="")
    written(folder, stopped)


def written(folder: Path, stopped: bool) -> None:
    """Say where a measurement is kept."""
    more = "; stopped early, the same command goes on" if stopped else ""
    print(f"\nwritten to {folder}{more}")


def progress(line: str) -> None:
    """A line on standard error, at once."""
    print(line, file=sys.stderr, flush=True)
