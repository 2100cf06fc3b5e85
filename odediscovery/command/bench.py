"""`odediscovery bench SUITE`: systems with a known answer, and measurements of the project itself.

Every measurement writes a folder of rows and a summary. The commands import heavy modules when they
run, so that help is instant.
"""

# Imports inside the commands let help appear before torch is loaded.
# ruff: noqa: PLC0415

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from typer.core import TyperGroup

from odediscovery.command.console import opened, say, sayer
from odediscovery.command.flags import RunOptions, TaskOptions, argument, flag, names_in, with_groups
from odediscovery.errors import InputError, unknown_name

if TYPE_CHECKING:
    from odediscovery.bench.suites import Method

# The suites of `suites.SUITES` with their help.
SUITES = {
    "fractional": "25 systems with fractional and negative powers.",
    "odebench": "34 systems of ODEBench, its development half.",
    "classics": "The known systems of `simulate`.",
}
METHODS = ("ours", "pysindy", "pyoperon")

RUN, MINUTE, SERIES_RUN = TaskOptions(), TaskOptions(max_seconds=60.0), TaskOptions(max_seconds=0.0)
SPEED_RUN = RunOptions(max_seconds=600.0)
Digits = Annotated[int | None, flag("round the values to so many significant digits (default: all)")]
Noise = Annotated[
    float, flag("noise: a share of each state's standard deviation (default: 0.05; fsir-gaps and coverage: 0.02)")
]
Count = Annotated[int, flag("draws of the noise (default: 20; fsir-gaps: 10)")]
# The rows of a measurement, in any order.
Rows = TypeVar("Rows")


class _Suites(TyperGroup):
    """Lists existing names after an unknown one."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        try:
            return super().resolve_command(ctx, args)
        except typer.TyperException as error:
            known = InputError(f"{error} Known: {', '.join(self.commands)}")
            raise known from None


bench = typer.Typer(
    name="bench", cls=_Suites, help="Measure how often the found equations are the true ones, and how fast they come."
)


def _measurement(command: Callable[..., None]) -> Callable[..., None]:
    """Add a command whose arguments may be groups of options."""
    return bench.command()(with_groups(command))


def _keep(work: Callable[..., Rows], summary: Callable[[Rows], str], name: str, run: RunOptions) -> None:
    """Run a measurement that saves its rows in a folder; print its summary and save it beside them.

    The work receives the folder, the `monitor` of its progress, `say` for a line per finished row, and the `backend`
    of its tasks, if any.
    """
    from odediscovery.command.progress import TerminalMonitor
    from odediscovery.runtime.files import write_whole

    folder, monitor, hears = run.out or Path(f"bench-{name}"), TerminalMonitor(quiet=run.quiet), sayer(run.quiet)
    with ExitStack() as stack:
        place = {"backend": stack.enter_context(opened(run, hears))} if isinstance(run, TaskOptions) else {}
        stack.enter_context(monitor.shown())
        rows = work(folder, **place, monitor=monitor, say=hears)
    if not rows:
        return hears("stopped before the first system was done; nothing is kept")
    text, more = summary(rows), "; stopped early, the same command goes on" * bool(monitor.stopping())
    write_whole(folder / "summary.md", text.encode())
    say(f"{text}\nwritten to {folder}{more}")


def _command() -> str:
    return shlex.join(["odediscovery", *sys.argv[1:]])


def _rough(digits: int | None) -> str:
    return "" if digits is None else f"-digits{digits}"


@_measurement
def series(
    ids: Annotated[str | None, flag("series with commas between, such as gause,yeast (default: all)")] = None,
    data: Annotated[Path, flag("folder of the measured tables", "data")] = Path("data"),
    run: TaskOptions = SERIES_RUN,
) -> None:
    """Fit measured series beside the models that people use for them."""
    chosen = names_in(ids, "--ids")
    from odediscovery.bench.series import markdown, run_cases

    work = partial(run_cases, ids=chosen, data=data, seed=run.seed, max_seconds=run.max_seconds)
    _keep(work, lambda rows: markdown(rows, run.seed, run.max_seconds), f"series-seed{run.seed}", run)


@_measurement
def moves(
    names: Annotated[str | None, flag("moves, with commas (default: all)")] = None,
    sigma: Annotated[float, flag("noise of the noisy fits", 0.02)] = 0.02,
    each: Annotated[int, flag("so many random laws of each family", 3)] = 3,
    run: TaskOptions = MINUTE,
) -> None:
    """Leave out each move of the search: what changes in random laws."""
    chosen = names_in(names, "--names")
    from odediscovery.bench.moves import markdown, run_moves

    work = partial(run_moves, names=chosen, sigma=sigma, each=each, seed=run.seed, max_seconds=run.max_seconds)
    _keep(work, lambda rows: markdown(rows, _command()), f"moves-sigma{sigma:g}-seed{run.seed}", run)


@bench.command()
def page(
    folders: Annotated[list[Path], typer.Argument(help="folders that suites wrote, or a folder of these")],
) -> None:
    """Print kept rows of suites as tables: development, public and random ones apart, methods side by side."""
    from odediscovery.bench.suites import side_by_side
    from odediscovery.bench.systems import load_suite

    say(side_by_side(folders, {name: len(load_suite(name)) for name in SUITES}))


def _suite(
    context: typer.Context,
    sigma: Annotated[
        float, flag("noise: a share of each state's standard deviation, in odebench of each value (default: 0)")
    ] = 0.0,
    drop: Annotated[float, flag("share of the samples left out at random (default: 0)")] = 0.0,
    trajectories: Annotated[int, flag("how many starts to train on", 1)] = 1,
    digits: Digits = None,
    method: Annotated[str, flag("ours, pysindy, pyoperon or all", "ours")] = "ours",
    ids: Annotated[str | None, flag("systems, with commas between (default: all)")] = None,
    run: TaskOptions = RUN,
) -> None:
    """Run a suite: one row for each system in rows.jsonl, tables in summary.md."""
    suite = str(context.info_name)
    chosen = names_in(ids, "--ids")
    from odediscovery.bench.suites import markdown, study_of
    from odediscovery.bench.systems import Protocol, load_suite

    protocol = Protocol(sigma, drop, trajectories, run.seed, digits)
    study = study_of(suite, protocol, run.max_seconds, methods_named(method), ids=chosen)
    name = f"{suite}-sigma{sigma:g}-drop{drop:g}{_rough(digits)}-trajectories{trajectories}-seed{run.seed}"
    _keep(study.run, lambda rows: markdown(study.shared, rows, len(load_suite(suite))), name, run)


for _name, _help in SUITES.items():
    bench.command(_name, help=_help)(with_groups(_suite))


@_measurement
def random(
    family: Annotated[
        list[str] | None,
        flag(
            "power-sums, mass-action, lotka-volterra, oscillators, saturating, trigonometric, compartments or "
            "mechanisms; may be given several times (default: all but mechanisms)"
        ),
    ] = None,
    each: Annotated[int, flag("systems of each family", 20)] = 20,
    sigma: Annotated[float, flag("noise: a share of each state's standard deviation (default: 0)")] = 0.0,
    digits: Digits = None,
    trajectories: Annotated[int, flag("how many starts to train on, 1 or 2", 2)] = 2,
    method: Annotated[str, flag("ours, untrained (without networks), pysindy, pyoperon or all", "ours")] = "ours",
    ids: Annotated[str | None, flag("systems as FAMILY-NUMBER, with commas between, instead of --each")] = None,
    run: TaskOptions = MINUTE,
) -> None:
    """Count the random laws that are found: seven families, each accepted only if its samples identify it."""
    chosen = names_in(ids, "--ids")
    from odediscovery.bench.random_laws import SUITE, markdown, random_systems
    from odediscovery.bench.suites import study_of
    from odediscovery.bench.systems import Protocol

    protocol = Protocol(sigma, 0.0, trajectories, run.seed, digits)
    methods = methods_named(method)
    sayer(run.quiet)("drawing the laws")
    systems = random_systems(run.seed, names_in(",".join(family or []) or None, "--family"), each, chosen)
    study = study_of(SUITE, protocol, run.max_seconds, methods, systems=systems)
    name = f"{SUITE}-sigma{sigma:g}{_rough(digits)}-trajectories{trajectories}-seed{run.seed}"
    _keep(study.run, lambda rows: markdown(study.shared, rows, systems), name, run)


@_measurement
def chaos(
    noise: Annotated[
        str | None, flag("levels as shares of the root mean square, with commas between (default: 0,0.001,0.01)")
    ] = None,
    method: Annotated[
        str | None, flag("ours, weak-stlsq, with commas between (default: all that are installed)")
    ] = None,
    ids: Annotated[str | None, flag("systems, with commas between (default: all 46)")] = None,
    run: TaskOptions = MINUTE,
) -> None:
    """Find chaotic systems from five trajectories each, beside sparse regression by pysindy."""
    chosen, levels, asked = names_in(ids, "--ids"), names_in(noise, "--noise"), names_in(method, "--method")
    try:
        shares = tuple(map(float, levels or ()))
    except ValueError:
        raise InputError(f"--noise expects numbers with commas between, got {', '.join(levels or ())!r}") from None
    from odediscovery.bench import chaos as of

    work = partial(
        of.run_chaos,
        methods=of.methods_named(asked),
        noise=shares or of.NOISE,
        ids=chosen,
        seed=run.seed,
        max_seconds=run.max_seconds,
    )
    _keep(work, lambda rows: of.markdown(rows, _command()), f"chaos-seed{run.seed}", run)


@_measurement
def speed(
    parts: Annotated[str | None, flag("units, fits, with commas between (default: all)")] = None,
    quick: Annotated[bool, flag("few rounds and one fit, for a first look")] = False,
    run: RunOptions = SPEED_RUN,
) -> None:
    """Time default fits, and the forward pass of each unit beside one written by hand."""
    chosen = names_in(parts, "--parts")
    from odediscovery.bench import speed as of

    work = partial(of.run_speed, parts=chosen or of.PARTS, seed=run.seed, max_seconds=run.max_seconds, quick=quick)
    name = f"speed{'-quick' if quick else ''}-seed{run.seed}"
    _keep(work, lambda rows: of.markdown(rows, _command()), name, run)


@_measurement
def fsir_noise(
    sigma: Noise = 0.05,
    trajectories: Annotated[int, flag("measured from different starts, 1 to 5", 1)] = 1,
    draws: Count = 20,
    run: TaskOptions = RUN,
) -> None:
    """Count the draws of noise in which exactly the terms of fSIR are found."""
    _draw("fsir-noise", draws, run, sigma=sigma, trajectories=trajectories)


@_measurement
def fsir_gaps(
    sigma: Noise = 0.02,
    missing: Annotated[float, flag("share of missing values", 0.2)] = 0.2,
    trajectories: Annotated[int, flag("number of short runs", 8)] = 8,
    draws: Count = 10,
    run: TaskOptions = RUN,
) -> None:
    """Count the draws in which short, irregular runs with gaps give exactly the terms of fSIR."""
    _draw("fsir-gaps", draws, run, sigma=sigma, missing=missing, trajectories=trajectories)


@_measurement
def coverage(
    system: Annotated[str, argument("SYSTEM", "name of a known system, see `simulate`")] = "fsir",
    sigma: Noise = 0.02,
    draws: Count = 20,
    run: TaskOptions = RUN,
) -> None:
    """Count the draws of noise in which 95 % intervals contain the true constants."""
    _draw("coverage", draws, run, system=system, sigma=sigma)


@_measurement
def lawless(
    kind: Annotated[str, flag("white-noise, random-walk, splines or rationals", "white-noise")] = "white-noise",
    draws: Count = 20,
    run: TaskOptions = RUN,
) -> None:
    """Count the draws of white noise or random walks for which a law is claimed."""
    _draw("lawless", draws, run, kind=kind)


@_measurement
def textbook(
    draws: Annotated[
        int, flag("draws: twelve laws one after the other, with five faults in turn (default: 120)")
    ] = 120,
    run: TaskOptions = RUN,
) -> None:
    """Give made-up series of textbook laws with realistic faults a verdict, and count constants in their intervals."""
    _draw("textbook", draws, run)


@_measurement
def reliability(
    each: Annotated[int, flag("so many random laws of each family at each level")] = 4, run: TaskOptions = RUN
) -> None:
    """Compare the probabilities of laws with the share of right ones, and fit the weights of the evidence."""
    from odediscovery.bench import reliability as of

    study = of.study(each, run.seed, run.max_seconds)
    _keep(study.run, lambda rows: of.markdown(rows, _command()), f"reliability-each{each}-seed{run.seed}", run)


@_measurement
def populations(
    designs: Annotated[Path | None, argument("DESIGNS.json", "file of designs (default: those of the package)")] = None,
    draws: Count = 10,
    only: Annotated[str | None, flag("designs, with commas between (default: all)")] = None,
    peers: Annotated[bool, flag("pysindy and separate fits of each group on the same draws, instead of ours")] = False,
    run: TaskOptions = RUN,
) -> None:
    """Count the draws of simulated populations in which law, varying constants and spreads are found."""
    chosen = names_in(only, "--only") or ()
    from odediscovery.bench import populations as of

    study = of.study(designs or of.DESIGNS, draws, chosen, run.seed, run.max_seconds, peers)
    _keep(study.run, of.summary_of_peers if peers else of.summary, f"populations{'-peers' * peers}", run)


def _draw(measure: str, count: int, run: RunOptions, **options: Any) -> None:
    """Run draws; print and save their tables."""
    from odediscovery.bench.textbook import MEASURES

    about = MEASURES[measure](seed=run.seed, max_seconds=run.max_seconds, **options)
    told = "-".join(v if isinstance(v, str) else f"{k}{v:g}" for k, v in options.items()) or "laws"
    _keep(about.study(count).run, about.markdown, f"{measure}-{told}-seed{run.seed}", run)


def methods_named(name: str) -> dict[str, Method]:
    """The functions of a method, or of "all" methods; peers need their packages."""
    if name not in (names := (*METHODS, "untrained", "all")):
        raise unknown_name("method", name, names)
    from odediscovery.bench.suites import ours, untrained

    methods: dict[str, Method] = {"ours": ours, "untrained": untrained}
    asked = METHODS if name == "all" else (name,)
    if name not in methods:
        from odediscovery.bench import peers

        for one in [one for one in asked if one not in methods]:
            peers.check_installed(one)
        methods |= {"pysindy": peers.sindy, "pyoperon": peers.operon}
    return {one: methods[one] for one in asked}
