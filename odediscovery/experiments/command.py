"""`odediscovery reproduce NAME`: an experiment of the papers as a folder of rows, table, figure."""

# Imports inside the command are the point: help has to come before torch could be loaded.
# ruff: noqa: PLC0415

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from odediscovery.errors import InputError, unknown_name

PRESETS = ("paper", "as-run")


def reproduce(
    name: Annotated[str, typer.Argument(metavar="NAME", help="experiment: fsir, gradient-surface, "
        "simple-arithmetic, large-arithmetic, static-arithmetic, division, extrapolation, "
        "operands, comparisons or digits", show_default=False)],
    preset: Annotated[str, typer.Option(help="as the paper prints it or as its code ran: paper or "
        "as-run (default: as-run)", show_default=False)] = "as-run",
    full: Annotated[bool, typer.Option("--full/--quick", help="the paper's sizes, minutes to hours "
        "(default: quick, seconds)", show_default=False)] = False,
    seed: Annotated[int, typer.Option(help="random seed (default: 0)", show_default=False)] = 0,
    device: Annotated[str, typer.Option(help="torch device, cpu or cuda (default: cpu)",
        show_default=False)] = "cpu",
    out: Annotated[Path | None, typer.Option(help="folder to write; one begun before is continued "
        "(default: NAME-PRESET-MODE)", show_default=False)] = None,
    quiet: Annotated[bool, typer.Option(help="no progress on standard error",
        show_default=False)] = False,
) -> None:  # fmt: skip
    """Repeat an experiment of the papers beside its published figures."""
    if preset not in PRESETS:
        raise unknown_name("preset", preset, PRESETS)
    if seed < 0:
        raise InputError(f"--seed must be at least 0, got {seed}")
    import torch

    from odediscovery.experiments.base import Plan
    from odediscovery.experiments.registry import get_experiment
    from odediscovery.experiments.study import reproduce as run
    from odediscovery.progress import TerminalMonitor

    experiment = get_experiment(name)
    if device not in ("cpu", "cuda"):
        raise unknown_name("device", device, ("cpu", "cuda"))
    if device == "cuda" and not experiment.on_gpu:
        raise InputError(f"--device cuda: {name} runs on the CPU only; leave --device out")
    if device == "cuda" and not torch.cuda.is_available():
        raise InputError("--device cuda: torch finds no GPU here; use --device cpu")
    # Faster than two at these tensor sizes.
    torch.set_num_threads(1)
    plan = Plan(preset, full, seed, device)
    folder = out or Path(f"{name}-{preset}-{'full' if full else 'quick'}")
    monitor = TerminalMonitor(quiet=quiet)
    with monitor.shown():
        ran = run(experiment, plan, folder, monitor)
    table = folder / "table.md"
    if not ran:
        print("stopped before the first batch was done; nothing is kept")
        return
    print(table.read_text(encoding="utf-8"), end="")
    total = len(experiment.batches(plan))
    more = "" if len(ran) == total else f"; {len(ran)} of {total} batches, the same command goes on"
    print(f"\nwritten to {folder}{more}")
