"""`odediscovery bench SUITE`: systems with a known answer, and measurements of the project itself.

Every measurement writes a folder of rows and a summary. The commands import what they measure when
they run, so that help is instant.
"""

# Imports inside the commands are the point: help has to come before torch could be loaded.
# ruff: noqa: PLC0415

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from odediscovery.command import bench_draws as draw_commands
from odediscovery.command import bench_laws as law_commands
from odediscovery.command import bench_speed as speed_commands
from odediscovery.command.bench_laws import methods_named
from odediscovery.command.console import measure
from odediscovery.command.flags import RunOptions, Where, flag, names_in, with_groups
from odediscovery.command.streams import say
from odediscovery.errors import InputError

if TYPE_CHECKING:
    pass

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


for _name, _help in SUITES.items():
    bench.command(_name, help=_help)(with_groups(_suite))
for _name, _command in (law_commands.COMMANDS | speed_commands.COMMANDS | draw_commands.COMMANDS).items():
    bench.command(_name)(with_groups(_command))
