"""`odediscovery bench SUITE`: measurements as a table and, on request, as a JSON file.

The commands import what they measure when they run, so that help is instant.
"""

# Imports inside the commands are the point: help has to come before torch could be loaded.
# ruff: noqa: PLC0415

from __future__ import annotations

import dataclasses
import json
import os
import platform
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from odediscovery.errors import InputError

if TYPE_CHECKING:
    from odediscovery.bench.success import Member

bench = typer.Typer(
    name="bench", help="Measure the project itself: how often it is right, how fast it is."
)  # fmt: skip


def _flag(text: str) -> Any:
    return typer.Option(help=text, show_default=False)


Seed = Annotated[int, _flag("random seed (default: 0)")]
JsonOut = Annotated[Path | None, _flag("JSON file to write (default: none)")]


@bench.command()
def speed(
    quick: Annotated[bool, _flag("a tenth of the as-run steps, extrapolated")] = False,
    seed: Seed = 0,
    out: JsonOut = None,
) -> None:
    """Time the default fit of clean fSIR against one training as the study's code ran."""
    _check(seed, out)
    from odediscovery.bench.speed import measure_speed

    measured = measure_speed(seed, quick, _progress)
    about = "extrapolated from a tenth of its steps" if quick else "3000 RMSProp steps, then LBFGS"
    _print_table(
        ("measure", "value", ""),
        [("as-run / default", f"{measured.ratio:.1f}", "ratio of wall times"),
         ("default fit", f"{measured.default_seconds:.1f} s",
          f"complexity {measured.default_complexity}, MSE {measured.default_mse:.2g}"),
         ("one as-run member", f"{measured.as_run_seconds:.1f} s", about),
         ("peak memory", f"{measured.peak_megabytes:.0f} MB", "of the default fit, with imports")],
    )  # fmt: skip
    _write(out, "speed", seed, [dataclasses.asdict(measured)])


@bench.command()
def success(
    each: Annotated[int, _flag("members of each hidden size 6, 9, 12, 15, 20 (default: 20)")] = 20,
    seed: Seed = 0,
    out: JsonOut = None,
) -> None:
    """Count the random RealNPU members that end with exactly the terms of fSIR."""
    _check(seed, out)
    if each < 1:
        raise InputError(f"--each must be at least 1, got {each}")
    from odediscovery.bench.success import success_rate

    members = success_rate(each, seed, _progress)
    _print_success(members)
    _write(out, "success", seed, [dataclasses.asdict(member) for member in members])


def _print_success(members: Sequence[Member]) -> None:
    of_size = Counter(m.hidden for m in members)
    exact = Counter(m.hidden for m in members if m.exact)
    rows = [(str(h), f"{exact[h]} of {n}", f"{exact[h] / n:.0%}") for h, n in of_size.items()]
    total = sum(exact.values())
    rows.append(("all", f"{total} of {len(members)}", f"{total / len(members):.0%}"))
    _print_table(("hidden", "exact", "share"), rows)


def _print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for i, title in enumerate(header):
        table.add_column(title, justify="right" if i == 1 else "left")
    for row in rows:
        table.add_row(*row)
    console = Console(width=None if sys.stdout.isatty() else 100, highlight=False)
    with console.capture() as captured:
        console.print(table)
    print("\n".join(line.rstrip() for line in captured.get().splitlines()))


def _progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _check(seed: int, out: Path | None) -> None:
    """Mistakes are told before a long measurement, not behind it."""
    from odediscovery.files import check_writable

    if seed < 0:
        raise InputError(f"--seed must be at least 0, got {seed}")
    if out is not None and out.is_dir():
        raise InputError(f"--out {out}: a folder of that name exists; choose a file")
    if out is not None:
        check_writable(out, "--out")


def _write(out: Path | None, suite: str, seed: int, rows: Sequence[dict[str, Any]]) -> None:
    """The rows with what is needed to repeat them."""
    if out is None:
        return
    from odediscovery.files import write_whole
    from odediscovery.result import versions

    document = {
        "suite": suite, "command": " ".join(["odediscovery", *sys.argv[1:]]), "seed": seed,
        "machine": {"processor": platform.machine(), "cores": os.cpu_count(),
                    "system": platform.system()},
        "versions": versions(), "rows": list(rows),
    }  # fmt: skip
    out.parent.mkdir(parents=True, exist_ok=True)
    write_whole(out, (json.dumps(document, indent=1) + "\n").encode())
    print(f"written to {out}")
