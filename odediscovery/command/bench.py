"""`odediscovery bench SUITE`: systems with a known answer, and measurements of the project itself.

A suite (`fractional`, `odebench`, `classics`), `ablation`, the draws of `draw_commands` and the
measurements of `speed_commands` write a folder of rows and a summary; `success` prints a table and,
on request, writes a JSON file. The commands import what they measure when they run, so that help is
instant.
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
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from odediscovery.command import bench_draws as draw_commands
from odediscovery.command import bench_laws as law_commands
from odediscovery.command import bench_speed as speed_commands
from odediscovery.command.bench_laws import methods_named
from odediscovery.command.console import measure, print_table, progress
from odediscovery.command.flags import RunOptions, Where, flag, names_in, with_groups
from odediscovery.command.streams import say
from odediscovery.errors import InputError

if TYPE_CHECKING:
    from odediscovery.bench.suites.success import MemberOutcome

# The suites of `suites.SUITES`, with what their help says.
SUITES = {
    "fractional": "25 systems with fractional and negative powers.",
    "odebench": "34 systems of ODEBench, its development half.",
    "classics": "The known systems of `simulate`.",
}

Ids = Annotated[str | None, flag("systems, with commas between (default: all)")]
RUN, WHERE = RunOptions(), Where()
SERIES_RUN, THRESHOLDS_RUN = RunOptions(max_seconds=0.0), RunOptions(max_seconds=60.0)


class _Suites(TyperGroup):
    """Names what exists where a name does not."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        try:
            return super().resolve_command(ctx, args)
        except typer.TyperException as error:
            known = InputError(f"{error} Known: {', '.join(self.commands)}")
            raise known from None


bench = typer.Typer(
    name="bench", cls=_Suites, help="Measure how often the found equations are the true ones, and how fast they come."
)


@bench.command()
def success(
    each: Annotated[int, flag("members of each hidden size 6, 9, 12, 15, 20 (default: 20)")] = 20,
    seed: Annotated[int, flag("random seed (default: 0)")] = 0,
    out: Annotated[Path | None, flag("JSON file to write (default: none)")] = None,
) -> None:
    """Count the random RealNPU members that end with exactly the terms of fSIR."""
    _check(seed, out)
    if each < 1:
        raise InputError(f"--each must be at least 1, got {each}")
    from odediscovery.bench.suites.success import success_rate

    members = success_rate(each, seed, progress)
    _print_success(members)
    _write(out, "success", seed, [dataclasses.asdict(member) for member in members])


def _suite(
    context: typer.Context,
    sigma: Annotated[
        float, flag("noise: a share of each state's standard deviation, in odebench of each value (default: 0)")
    ] = 0.0,
    drop: Annotated[float, flag("share of the samples left out at random (default: 0)")] = 0.0,
    trajectories: Annotated[int, flag("how many starts to train on", 1)] = 1,
    digits: Annotated[int | None, flag("round the values to so many significant digits (default: all)")] = None,
    method: Annotated[str, flag("ours, pysindy, pyoperon or all", "ours")] = "ours",
    ids: Ids = None,
    where: Where = WHERE,
    run: RunOptions = RUN,
) -> None:
    """Run a suite: one row for each system in rows.jsonl, tables in summary.md."""
    suite = str(context.info_name)
    chosen = names_in(ids, "--ids")
    from odediscovery.bench.suites.problems import load_suite
    from odediscovery.bench.suites.protocol import Protocol
    from odediscovery.bench.suites.run import Study, run_suite
    from odediscovery.bench.summary import markdown

    study = Study(suite, Protocol(sigma, drop, trajectories, run.seed, digits), run.max_seconds).checked()
    methods = methods_named(method)
    rough = "" if digits is None else f"-digits{digits}"
    name = f"bench-{suite}-sigma{sigma:g}-drop{drop:g}{rough}-trajectories{trajectories}-seed{run.seed}"
    folder = run.out or Path(name)
    work = partial(run_suite, study, methods, folder, ids=chosen)
    measure(work, lambda rows: markdown(study.as_dict(), rows, len(load_suite(suite))), folder, run.quiet, where)


@bench.command()
@with_groups
def ablation(ids: Ids = None, where: Where = WHERE, run: RunOptions = RUN) -> None:
    """Show what each stage of a fit brings: the fractional suite without one at a time."""
    chosen = names_in(ids, "--ids")
    from odediscovery.bench.suites.ablation import markdown, run_ablation

    folder = run.out or Path(f"bench-ablation-seed{run.seed}")
    work = partial(run_ablation, folder, seed=run.seed, max_seconds=run.max_seconds, ids=chosen)
    measure(work, markdown, folder, run.quiet, where)


@bench.command()
@with_groups
def series(
    ids: Annotated[str | None, flag("series with commas between, such as gause,yeast (default: all)")] = None,
    data: Annotated[Path, flag("folder of the measured tables", "data")] = Path("data"),
    where: Where = WHERE,
    run: RunOptions = SERIES_RUN,
) -> None:
    """Fit measured series beside the models that people use for them."""
    chosen = names_in(ids, "--ids")
    from odediscovery.bench.series.study import markdown, run_cases

    seed, limit = run.seed, run.max_seconds
    folder = run.out or Path(f"bench-series-seed{seed}")
    work = partial(run_cases, chosen, data, folder, seed=seed, max_seconds=limit)
    measure(work, lambda rows: markdown(rows, seed, limit), folder, run.quiet, where)


@bench.command()
@with_groups
def thresholds(
    fields: Annotated[str | None, flag("thresholds as OWNER.FIELD, or owners, with commas (default: all)")] = None,
    ids: Annotated[
        str | None, flag("systems as SUITE/ID or random/ID, with commas (default: by --every and --quick)")
    ] = None,
    every: Annotated[int, flag("one of so many systems of each suite", 5)] = 5,
    quick: Annotated[float, flag("processor seconds that a clean fit may take", 3)] = 3.0,
    sigma: Annotated[float, flag("noise of the noisy fits", 0.02)] = 0.02,
    each: Annotated[int, flag("so many random laws of each family instead of the suites' systems", 0)] = 0,
    decisions: Annotated[bool, flag("fit once, and count decisions that would come out otherwise")] = False,
    where: Where = WHERE,
    run: RunOptions = THRESHOLDS_RUN,
) -> None:
    """Halve and double each threshold of the engine: what changes in a small battery of systems."""
    chosen, systems = names_in(fields, "--fields"), names_in(ids, "--ids") or ()
    if decisions and chosen:
        raise InputError("--decisions watches all thresholds at once; leave --fields out")
    from odediscovery.bench.thresholds import decisions as of_decisions
    from odediscovery.bench.thresholds.study import Battery, markdown, run_changes

    battery = Battery(sigma, every, quick, run.seed, run.max_seconds, tuple(systems), each)
    if decisions:
        folder = run.out or Path(f"bench-threshold-decisions-seed{run.seed}")
        watch = partial(of_decisions.run_decisions, battery, folder)
        return measure(watch, partial(of_decisions.markdown, battery), folder, run.quiet, where)
    folder = run.out or Path(f"bench-thresholds-seed{run.seed}")
    work = partial(run_changes, battery, folder, names=chosen)
    measure(work, partial(markdown, battery), folder, run.quiet, where)


@bench.command()
@with_groups
def rungs(
    names: Annotated[str | None, flag('rungs as "STRATEGY: RUNG", or strategies, with commas (default: all)')] = None,
    sigma: Annotated[float, flag("noise of the noisy fits", 0.02)] = 0.02,
    each: Annotated[int, flag("so many random laws of each family", 3)] = 3,
    where: Where = WHERE,
    run: RunOptions = THRESHOLDS_RUN,
) -> None:
    """Leave out each rung of the search: what changes in random laws."""
    chosen = names_in(names, "--names")
    if each < 1:
        raise InputError(f"--each must be at least 1, got {each}")
    from odediscovery.bench.thresholds.study import Battery, markdown, run_changes

    battery = Battery(sigma, quick=run.max_seconds, seed=run.seed, max_seconds=run.max_seconds, each=each)
    folder = run.out or Path(f"bench-rungs-sigma{sigma:g}-seed{run.seed}")
    work = partial(run_changes, battery, folder, kind="rungs", names=chosen)
    measure(work, partial(markdown, battery, kind="rungs"), folder, run.quiet, where)


@bench.command()
def page(
    folders: Annotated[list[Path], typer.Argument(help="folders that suites wrote, or a folder of these")],
) -> None:
    """Print kept rows of suites as tables: development, public and random ones apart, methods side by side."""
    from odediscovery.bench.suites.problems import load_suite
    from odediscovery.bench.summary import side_by_side

    say(side_by_side(folders, {name: len(load_suite(name)) for name in SUITES}))


@bench.command()
def stale(
    folders: Annotated[
        list[Path], typer.Argument(help="folders of rows, or a folder of these, such as data/results/bench")
    ],
    again: Annotated[bool, flag("measure again what is stale, and put it in its place")] = False,
) -> None:
    """Say which kept rows an older engine wrote, and the command for each; --again measures them again."""
    from odediscovery.bench.suites.stale import folders_of_rows, kept_in, measure_again

    kept = [kept_in(folder) for folder in folders_of_rows(folders)]
    print_table(("folder", "commit", "engine", "command"), [each.cells() for each in kept], numbers=(), width=1000)
    old = [each for each in kept if each.is_stale]
    say(f"{len(old)} of {len(kept)} are stale")
    # An ablation has two folders of rows, which one command writes.
    for each in {each.measured: each for each in old if again and each.command}.values():
        measure_again(each)
        say(f"{each.measured}: measured again")


for _name, _help in SUITES.items():
    bench.command(_name, help=_help)(with_groups(_suite))
for _name, _command in (law_commands.COMMANDS | speed_commands.COMMANDS | draw_commands.COMMANDS).items():
    bench.command(_name)(with_groups(_command))


def _print_success(members: Sequence[MemberOutcome]) -> None:
    of_size = Counter(m.hidden for m in members)
    exact = Counter(m.hidden for m in members if m.exact)
    rows = [(str(h), f"{exact[h]} of {n}", f"{exact[h] / n:.0%}") for h, n in of_size.items()]
    total = sum(exact.values())
    rows.append(("all", f"{total} of {len(members)}", f"{total / len(members):.0%}"))
    print_table(("hidden", "exact", "share"), rows)


def _check(seed: int, out: Path | None) -> None:
    """Find mistakes before a long measurement, not after it."""
    from odediscovery.runtime.files import check_writable

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
    from odediscovery.runtime.files import write_whole
    from odediscovery.runtime.versions import versions

    document = {
        "suite": suite,
        "command": " ".join(["odediscovery", *sys.argv[1:]]),
        "seed": seed,
        "machine": {"processor": platform.machine(), "cores": os.cpu_count(), "system": platform.system()},
        "versions": versions(),
        "rows": list(rows),
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    write_whole(out, (json.dumps(document, indent=1) + "\n").encode())
    say(f"written to {out}")
