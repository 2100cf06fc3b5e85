"""`odediscovery reproduce NAME`: an experiment of the papers as a folder of rows, table and figure."""

# Imports inside the command let help appear before torch is loaded.
# ruff: noqa: PLC0415

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from odediscovery.command.console import opened, say, sayer
from odediscovery.command.flags import Where, argument, flag
from odediscovery.errors import InputError, unknown_name

if TYPE_CHECKING:
    from odediscovery.experiments.base import Experiment, Plan
    from odediscovery.runtime.monitor import Monitor
    from odediscovery.runtime.workers import Backend

PRESETS = ("paper", "as-run")
WHERE = Where()
EVERY = "all"
# Listed here, so that help imports no experiment.
EXPERIMENT_HELP = (
    "experiment: fsir, networks, gradient-surface, simple-arithmetic, large-arithmetic, static-arithmetic, "
    "division, extrapolation, operands, comparisons, digits, simple-functions, autoencoder, stacked-units, "
    "product-sweeps, status-registers or expectations; all: every one, each in a folder of its own"
)


def reproduce(
    name: Annotated[str, argument("NAME", EXPERIMENT_HELP)],
    preset: Annotated[str, flag("as the paper prints it or as its code ran: paper or as-run", "as-run")] = "as-run",
    full: Annotated[bool, flag("the paper's sizes, minutes to hours", "quick, seconds", "--full/--quick")] = False,
    seed: Annotated[int, flag("random seed", 0)] = 0,
    device: Annotated[str, flag("where networks are trained: cpu, or cuda for a GPU", "cpu")] = "cpu",
    where: Where = WHERE,
    out: Annotated[Path | None, flag("folder to write; one begun before is continued", "NAME-PRESET-MODE")] = None,
    quiet: Annotated[bool, flag("no progress on standard error")] = False,
) -> None:
    """Repeat an experiment of the papers beside its published figures."""
    plan = _plan(name, preset, full, seed, device)
    from dataclasses import replace

    from odediscovery.command.progress import TerminalMonitor
    from odediscovery.experiments.studies.registry import EXPERIMENTS

    folder = out or Path(f"{name}-{preset}-{'full' if full else 'quick'}")
    monitor = TerminalMonitor(quiet=quiet)
    with opened(where, sayer(quiet)) as place, monitor.shown():
        # A single job runs in this process, to show its own progress.
        backend = None if where.backend == "processes" and where.jobs == 1 else place
        if name != EVERY:
            _reproduce_one(EXPERIMENTS[name], plan, folder, monitor, backend)
            return
        for each in EXPERIMENTS.values():
            own = plan if each.trains else replace(plan, device="cpu")
            _reproduce_one(each, own, folder / each.name, monitor, backend)
            say()
    _say_times(folder, list(EXPERIMENTS))


def _reproduce_one(experiment: Experiment, plan: Plan, folder: Path, monitor: Monitor, backend: Backend | None) -> None:
    """Run or continue an experiment in its folder, and print its table."""
    from odediscovery.experiments.study import reproduce as run

    folder.parent.mkdir(parents=True, exist_ok=True)
    ran = run(experiment, plan, folder, monitor, backend)
    if not ran:
        say(f"{experiment.name}: stopped before the first batch was done; nothing is kept")
        return
    say((folder / "table.md").read_text(encoding="utf-8"), end="")
    total = len(experiment.batches(plan))
    more = "" if len(ran) == total else f"; {len(ran)} of {total} batches, the same command goes on"
    say(f"\nwritten to {folder}{more}")


def _say_times(folder: Path, names: list[str]) -> None:
    """Print the time of each experiment, and of all together."""
    import json

    files = {name: folder / name / "study.json" for name in names}
    done = {name: json.loads(file.read_text(encoding="utf-8")) for name, file in files.items() if file.is_file()}
    seconds = {name: float(about["seconds"]) for name, about in done.items()}
    for name, value in seconds.items():
        say(f"{value:>9.1f} s  {name}")
    say(f"{sum(seconds.values()):>9.1f} s  {len(seconds)} of {len(names)} experiments, in {folder}")


def _plan(name: str, preset: str, full: bool, seed: int, device: str) -> Plan:
    """Build the plan of a reproduction, or raise an `InputError` that names the invalid option."""
    if preset not in PRESETS:
        raise unknown_name("preset", preset, PRESETS)
    if seed < 0:
        raise InputError(f"--seed must be at least 0, got {seed}")
    import torch

    from odediscovery.bench.systems import check_names
    from odediscovery.experiments.base import Plan
    from odediscovery.experiments.studies.registry import EXPERIMENTS
    from odediscovery.runtime.device import device_of

    check_names("experiment", [name] * (name != EVERY), EXPERIMENTS)
    if name != EVERY and not EXPERIMENTS[name].trains and device != "cpu":
        raise InputError(f"--device {device}: {name} trains nothing; leave --device out")
    device_of(device)
    # One thread is faster than two at these tensor sizes.
    torch.set_num_threads(1)
    return Plan(preset, full, seed, device)
