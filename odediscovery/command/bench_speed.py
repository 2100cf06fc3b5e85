"""The commands of `bench` that measure time and memory: see `speed` and `growth`."""

# Imports inside the commands are the point: help has to come before torch could be loaded.
# ruff: noqa: PLC0415

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from odediscovery.command.console import keep_summary, measure, print_folder, print_table, run_shown
from odediscovery.command.flags import RunOptions, flag, names_in
from odediscovery.command.streams import say

if TYPE_CHECKING:
    from odediscovery.bench.rows import Row

RUN = RunOptions(max_seconds=600.0)
Quick = Annotated[bool, flag("small sizes and few rounds, for a first look")]


def speed(
    parts: Annotated[
        str | None,
        flag("units, members, gradients, fsir, polynomials, sizes, profile, with commas between (default: all)"),
    ] = None,
    quick: Quick = False,
    run: RunOptions = RUN,
) -> None:
    """Time ours beside diffrax, a plain torchdiffeq loop and pysindy; ratios first."""
    from odediscovery.bench.speed import speed as of

    chosen = names_in(parts, "--parts") or list(of.PARTS)
    folder = _folder("speed", quick, run)
    work = partial(of.run_speed, chosen, folder, seed=run.seed, max_seconds=run.max_seconds, quick=quick)
    rows, stopped = run_shown(work, run.quiet)
    if not rows:
        return
    keep_summary(of.markdown(rows, _command()), folder)
    if found := of.ratios(rows):
        print_table(of.HEADER, of.lines(found))
    if many := of.throughput(rows):
        print_table(of.MEMBERS_HEADER, many)
        if all(line[-1] == "-" for line in many):
            say(of.NO_GPU)
    for row in rows:
        if row["failed"]:
            say(f"{row['id']}, {row['method']}: {row['failed']}")
    print_folder(folder, stopped)


def growth(
    axes: Annotated[
        str | None, flag("members, hidden, states, samples, noisy samples, with commas between (default: all)")
    ] = None,
    quick: Quick = False,
    run: RunOptions = RUN,
) -> None:
    """Time and peak memory against members, hidden size, states and samples: table and picture."""
    from odediscovery.bench.speed import growth as of
    from odediscovery.plots.figures import save_figure

    chosen = names_in(axes, "--axes") or list(of.AXES)
    folder = _folder("growth", quick, run)

    def summary(rows: list[Row]) -> str:
        save_figure(of.growth_figure(rows), folder / "growth.png")
        return of.markdown(rows, _command())

    work = partial(of.run_growth, chosen, folder, seed=run.seed, max_seconds=run.max_seconds, quick=quick)
    measure(work, summary, folder, run.quiet)


def _folder(name: str, quick: bool, run: RunOptions) -> Path:
    return run.out or Path(f"bench-{name}{'-quick' if quick else ''}-seed{run.seed}")


def _command() -> str:
    return " ".join(["odediscovery", *sys.argv[1:]])


COMMANDS: dict[str, Callable[..., None]] = {"speed": speed, "growth": growth}
