"""`odediscovery reproduce NAME`: an experiment of the papers as a folder of rows, table, figure."""

# Imports inside the command are the point: help has to come before torch could be loaded.
# ruff: noqa: PLC0415

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from odediscovery.command.console import opened, sayer
from odediscovery.command.flags import Where, argument, flag
from odediscovery.command.streams import say
from odediscovery.errors import InputError, unknown_name

if TYPE_CHECKING:
    from odediscovery.experiments.base import Plan

PRESETS = ("paper", "as-run")
WHERE = Where()


# Written out, so that help needs no experiment.
EXPERIMENT_HELP = (
    "experiment: fsir, networks, gradient-surface, simple-arithmetic, large-arithmetic, static-arithmetic, "
    "division, extrapolation, operands, comparisons, digits, simple-functions, autoencoder, stacked-units, "
    "product-sweeps, status-registers or expectations"
)


def reproduce(
    name: Annotated[str, argument("NAME", EXPERIMENT_HELP)],
    preset: Annotated[str, flag("as the paper prints it or as its code ran: paper or as-run", "as-run")] = "as-run",
    full: Annotated[
        bool,
        typer.Option(
            "--full/--quick", help="the paper's sizes, minutes to hours (default: quick, seconds)", show_default=False
        ),
    ] = False,
    seed: Annotated[int, flag("random seed", 0)] = 0,
    device: Annotated[str, flag("where networks are trained: cpu, or cuda for a GPU", "cpu")] = "cpu",
    where: Where = WHERE,
    out: Annotated[Path | None, flag("folder to write; one begun before is continued", "NAME-PRESET-MODE")] = None,
    quiet: Annotated[bool, flag("no progress on standard error")] = False,
) -> None:
    """Repeat an experiment of the papers beside its published figures."""
    plan = _plan(name, preset, full, seed, device)
    from odediscovery.command.progress import TerminalMonitor
    from odediscovery.experiments.studies.registry import get_experiment
    from odediscovery.experiments.study import reproduce as run

    experiment = get_experiment(name)
    folder = out or Path(f"{name}-{preset}-{'full' if full else 'quick'}")
    monitor = TerminalMonitor(quiet=quiet)
    with opened(where, sayer(quiet)) as place, monitor.shown():
        # One job runs here, where its own progress is seen.
        here = where.backend == "processes" and where.jobs == 1
        ran = run(experiment, plan, folder, monitor, None if here else place)
    table = folder / "table.md"
    if not ran:
        say("stopped before the first batch was done; nothing is kept")
        return
    say(table.read_text(encoding="utf-8"), end="")
    total = len(experiment.batches(plan))
    more = "" if len(ran) == total else f"; {len(ran)} of {total} batches, the same command goes on"
    say(f"\nwritten to {folder}{more}")


def _plan(name: str, preset: str, full: bool, seed: int, device: str) -> Plan:
    """What is to be reproduced, or an `InputError` that names the option that is wrong."""
    if preset not in PRESETS:
        raise unknown_name("preset", preset, PRESETS)
    if seed < 0:
        raise InputError(f"--seed must be at least 0, got {seed}")
    import torch

    from odediscovery.experiments.base import Plan
    from odediscovery.experiments.studies.registry import get_experiment
    from odediscovery.runtime.device import device_of

    if not get_experiment(name).trains and device != "cpu":
        raise InputError(f"--device {device}: {name} trains nothing; leave --device out")
    device_of(device)
    # Faster than two at these tensor sizes.
    torch.set_num_threads(1)
    return Plan(preset, full, seed, device)
