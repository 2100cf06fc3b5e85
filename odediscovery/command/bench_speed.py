"""The commands of `bench` that measure time and memory: see `speed` and `growth`."""

# Imports inside the commands are the point: help has to come before torch could be loaded.
# ruff: noqa: PLC0415

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

from rich import box
from rich.console import Console
from rich.table import Table

from odediscovery.command.flags import Folder, Quiet, Seed, flag, run_shown, tell, written
from odediscovery.errors import InputError

FitSeconds = Annotated[float, flag("time limit of a fit (default: 600)")]
Quick = Annotated[bool, flag("small sizes and few rounds, for a first look")]


def speed(
    parts: Annotated[
        str | None, flag("members, gradients, fsir, polynomials, sizes, profile, with commas between (default: all)")
    ] = None,
    quick: Quick = False,
    max_seconds: FitSeconds = 600.0,
    seed: Seed = 0,
    out: Folder = None,
    quiet: Quiet = False,
) -> None:
    """Time ours beside diffrax, a plain torchdiffeq loop and pysindy; ratios first."""
    from odediscovery.bench.speed import speed as of
    from odediscovery.runtime.files import write_whole

    chosen = named(parts, of.PARTS, "--parts")
    folder = out or Path(f"bench-speed{'-quick' if quick else ''}-seed{seed}")
    run = partial(of.run_speed, chosen, folder, seed=seed, max_seconds=max_seconds, quick=quick)
    rows, stopped = run_shown(run, quiet)
    if not rows:
        return
    write_whole(folder / "summary.md", of.markdown(rows, _command()).encode())
    if found := of.ratios(rows):
        print_table(of.HEADER, of.lines(found))
    if many := of.throughput(rows):
        print_table(of.MEMBERS_HEADER, many)
        if all(line[-1] == "-" for line in many):
            print(of.NO_GPU)
    for row in rows:
        if row["failed"]:
            print(f"{row['id']}, {row['method']}: {row['failed']}")
    written(folder, stopped)


def growth(
    axes: Annotated[
        str | None, flag("members, hidden, states, samples, noisy samples, with commas between (default: all)")
    ] = None,
    quick: Quick = False,
    max_seconds: FitSeconds = 600.0,
    seed: Seed = 0,
    out: Folder = None,
    quiet: Quiet = False,
) -> None:
    """Time and peak memory against members, hidden size, states and samples: table and picture."""
    from odediscovery.bench.speed.growth import AXES, growth_figure, markdown, run_growth
    from odediscovery.plots.figures import save_figure

    chosen = named(axes, AXES, "--axes")
    folder = out or Path(f"bench-growth{'-quick' if quick else ''}-seed{seed}")
    run = partial(run_growth, chosen, folder, seed=seed, max_seconds=max_seconds, quick=quick)
    rows, stopped = run_shown(run, quiet)
    if not rows:
        return
    save_figure(growth_figure(rows), folder / "growth.png")
    tell(markdown(rows, _command()), folder, stopped)


def named(text: str | None, known: Iterable[str], option: str) -> list[str]:
    """The names that were given, all if none were."""
    if text is None:
        return list(known)
    chosen = [name.strip() for name in text.split(",") if name.strip()]
    if not chosen:
        raise InputError(f"{option} expects names with commas between, got none")
    return chosen


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table on standard output, as wide as the terminal; numbers in the second column."""
    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for i, title in enumerate(header):
        shown.add_column(title, justify="right" if i == 1 else "left")
    for row in rows:
        shown.add_row(*row)
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    with console.capture() as captured:
        console.print(shown)
    print("\n".join(line.rstrip() for line in captured.get().splitlines()))


def _command() -> str:
    return " ".join(["odediscovery", *sys.argv[1:]])


COMMANDS: dict[str, Callable[..., None]] = {"speed": speed, "growth": growth}
