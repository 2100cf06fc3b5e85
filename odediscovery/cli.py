"""The command `odediscovery`: a CSV goes in, equations come out.

Every command is a page: read, compute, say. Heavy libraries are imported when a command runs,
so that help is instant; the flags of `fit` take their help from `Settings`. A person's mistake
ends in one line on standard error that starts with `error: ` and exit code 2, a fit that could
not be done in exit code 1, and nothing is written in either case.
"""

# Imports inside the commands are the point: help has to come before torch could be loaded.
# ruff: noqa: PLC0415

from __future__ import annotations

import csv
import dataclasses
import io
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from odediscovery.bench.command import bench
from odediscovery.errors import FitError, InputError, OdeDiscoveryError, unknown_name
from odediscovery.experiments.command import reproduce
from odediscovery.settings import Settings, settings_for

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from odediscovery.result import Discovery
    from odediscovery.series import TimeSeries

FORMATS = ("text", "latex", "python", "julia", "json")
# What a shell expects of a program that Ctrl-C ended; typer turns the exception into it.
INTERRUPTED = 130
# Longer equations are cut in the Pareto table; above it, and in result.json, they are whole.
MOST_LETTERS = 160

app = typer.Typer(
    name="odediscovery",
    help="Find the differential equations behind measured time series.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.add_typer(bench)
app.command()(reproduce)


def _flag(text: str, default: object = None) -> Any:
    shown = text if default is None else f"{text} (default: {default})"
    return typer.Option(help=shown, show_default=False)


def _setting(name: str) -> Any:
    """The flag of one field of `Settings`: its help and default stand there."""
    field = next(f for f in dataclasses.fields(Settings) if f.name == name)
    return _flag(field.metadata["help"], field.default)


def _argument(name: str, text: str) -> Any:
    return typer.Argument(metavar=name, help=text, show_default=False)


DataFile = Annotated[
    Path, _argument("DATA.csv", "table, one row a sample: .csv, .tsv, .xlsx or .parquet")
]
Folder = Annotated[Path, _argument("DIR", "folder that `fit` wrote")]
CsvOut = Annotated[Path | None, _flag("CSV file to write", "standard output")]


@app.command()
def fit(
    data: DataFile,
    time: Annotated[str | None, _flag("column of times", "t, time or the first")] = None,
    states: Annotated[str | None, _flag("columns to model: S,I,R", "all other numbers")] = None,
    group: Annotated[str | None, _flag("columns that tell trajectories apart: a,b")] = None,
    sigma_columns: Annotated[str | None, _flag("columns of error bars: S=S_sd,I=I_sd")] = None,
    noise_level: Annotated[str | None, _flag("known noise, in the states' units: S=2")] = None,
    inputs: Annotated[str | None, _flag("columns that act on the states: T,force; or t")] = None,
    held_inputs: Annotated[str | None, _flag("inputs that jump at samples: feed")] = None,
    recipe: Annotated[str, _setting("recipe")] = "default",
    seed: Annotated[int | None, _setting("seed")] = None,
    members: Annotated[int | None, _setting("members")] = None,
    hidden: Annotated[int | None, _setting("hidden")] = None,
    max_seconds: Annotated[float | None, _setting("max_seconds")] = None,
    holdout: Annotated[float | None, _setting("holdout")] = None,
    threads: Annotated[int | None, _setting("threads")] = None,
    unit: Annotated[str | None, _setting("unit")] = None,
    grow: Annotated[bool | None, _setting("grow")] = None,
    l1: Annotated[float | None, _setting("l1")] = None,
    adam_steps: Annotated[int | None, _setting("adam_steps")] = None,
    learning_rate: Annotated[float | None, _setting("learning_rate")] = None,
    lbfgs_steps: Annotated[int | None, _setting("lbfgs_steps")] = None,
    prune_long: Annotated[bool | None, _setting("prune_long")] = None,
    known: Annotated[list[str] | None, _setting("known")] = None,
    conserve: Annotated[list[str] | None, _setting("conserve")] = None,
    hidden_states: Annotated[str | None, _flag("states without a column: R,D")] = None,
    forbid: Annotated[list[str] | None, _setting("forbid")] = None,
    bounds: Annotated[str | None, _setting("bounds")] = None,
    integer_exponents: Annotated[bool | None, _setting("integer_exponents")] = None,
    bootstrap: Annotated[int | None, _flag("drawn data sets, for stability of terms")] = None,
    out: Annotated[Path | None, _flag("folder to write", "DATA.odediscovery")] = None,
    quiet: Annotated[bool, _flag("no progress on standard error")] = False,
) -> None:
    """Find equations for the series in a table (CSV, Excel, Parquet) and write a folder."""
    settings = settings_for(
        recipe, seed=seed, members=members, hidden=hidden, max_seconds=max_seconds,
        threads=threads, unit=unit, grow=grow, l1=l1, adam_steps=adam_steps,
        learning_rate=learning_rate, lbfgs_steps=lbfgs_steps, prune_long=prune_long, known=known,
        conserve=conserve, hidden_states=_names(hidden_states), forbid=forbid, bounds=bounds,
        integer_exponents=integer_exponents, holdout=holdout,
    )  # fmt: skip
    acting = _names(inputs), _names(held_inputs)
    series = _measured(data, time, states, group, sigma_columns, noise_level, acting)
    folder = _new_folder(out or Path(f"{data.stem}.odediscovery"))
    found = _discovered(series, settings, bootstrap, quiet=quiet)

    _keep(found, folder)


def _discovered(
    series: TimeSeries, settings: Settings, draws: int | None, *, quiet: bool
) -> Discovery:
    if draws is not None and draws < 1:
        raise InputError(f"--bootstrap must be at least 1, got {draws}")
    from odediscovery.bootstrap import with_survival
    from odediscovery.discovery import discover
    from odediscovery.progress import TerminalMonitor

    monitor = TerminalMonitor(settings.max_seconds, quiet=quiet)
    with monitor.shown():
        found = discover(series, settings, monitor)
        return found if draws is None else with_survival(found, draws, monitor)


def _keep(found: Discovery, folder: Path) -> None:
    """Write the folder and say what was found."""
    from odediscovery.plots import save_figures

    found.save(folder)
    save_figures(found, folder)
    _print_discovery(found)
    what = "the best so far is written" if found.outcome == "stopped" else "written"
    print(f"{what} to {folder} ({found.seconds:.1f} s)")


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",")]


def _measured(
    data: Path, time: str | None, states: str | None, group: str | None,
    sigma_columns: str | None, noise_level: str | None, inputs: Sequence[list[str] | None],
) -> TimeSeries:  # fmt: skip
    """The series in the table, with its inputs and the standard deviations that are known."""
    from odediscovery.inputs import load_driven

    noise = _assignments(noise_level.split(",") if noise_level else [], "--noise-level")
    linear, held = ([] if names is None else names for names in inputs)
    return load_driven(data, linear, held, time=time, states=_names(states), group=group,
                       sigma=sigma_columns, noise=noise)  # fmt: skip


@app.command()
def simulate(
    system: Annotated[str, _argument("SYSTEM", "name of a known system")],
    set: Annotated[list[str] | None, _flag("parameter or initial value: beta=0.1")] = None,
    samples: Annotated[int | None, _flag("number of samples", "the system's own")] = None,
    noise: Annotated[float, _flag("noise as a share of each state's spread", "0")] = 0.0,
    seed: Annotated[int, _flag("random seed of the noise", "0")] = 0,
    until: Annotated[float | None, _flag("last time", "the system's own")] = None,
    out: CsvOut = None,
) -> None:
    """Simulate a known system: a CSV of samples as if they had been measured."""
    from odediscovery.systems import simulate_system

    given = _assignments(set or [], "--set")
    series = simulate_system(
        system, set=given, samples=samples, noise=noise, seed=seed, until=until
    )
    run = series.trajectories[0]
    _write_table((series.time_name, *series.states), run.time, run.values, out)


@app.command()
def predict(
    folder: Folder,
    initial: Annotated[str | None, _flag("initial values: S=100,I=0.01", "the fitted ones")] = None,
    until: Annotated[float | None, _flag("last time, from the start of the data")] = None,
    times: Annotated[Path | None, _flag("CSV file with the times", "those of the data")] = None,
    intervals: Annotated[bool, _flag("95 % intervals of new measurements: S_low, S_high")] = False,
    inputs: Annotated[Path | None, _flag("table of time and inputs", "the data's")] = None,
    out: CsvOut = None,
) -> None:
    """Integrate the equations of a result: a CSV of states over time."""
    if until is not None and times is not None:
        raise InputError("--until and --times cannot be given together; choose one")
    import numpy as np

    from odediscovery.inputs import read_signal
    from odediscovery.result import Discovery
    from odediscovery.times import asked_times

    found = Discovery.load(folder)
    names = found.equations.states
    given = _assignments(initial.split(",") if initial else [], "--initial")
    for name in given:
        if name not in names:
            raise unknown_name("state", name, names)
    fitted = dict(zip(names, found.initial_values[0].tolist(), strict=True))
    acting = found.series.trajectories[0].inputs
    if inputs is not None:
        acting = read_signal(inputs, found.series)
    alone = inputs is not None and until is None and times is None
    when = acting.times if alone and acting is not None else asked_times(found.series, until, times)
    start = np.array([*(fitted | given).values()]) if given else None
    values = found.simulate(start, when, None if inputs is None else acting)
    others = set(found.series.inputs) - {found.series.time_name}
    if acting is not None and others and acting.times[-1] < when[-1]:
        print(f"note: inputs are known up to {acting.times[-1]:g}; later their last values are "
              "held", file=sys.stderr)  # fmt: skip
    if not np.isfinite(values).all():
        print("note: the solution grows without bound; later rows are empty", file=sys.stderr)
    if intervals:
        from odediscovery.uncertainty import with_intervals

        names, values = with_intervals(found, values, when, start, acting)
    _write_table((found.series.time_name, *names), when, values, out)


@app.command()
def show(
    folder: Folder,
    format: Annotated[str, _flag("text, latex, python, julia or json", "text")] = "text",
) -> None:
    """Print the equations of a result, as text or in another language."""
    if format not in FORMATS:
        raise unknown_name("format", format, FORMATS)
    from odediscovery.result import Discovery

    found = Discovery.load(folder)
    if format == "text":
        _print_discovery(found)
    elif format == "latex":
        print(found.latex(), end="")
    elif format == "python":
        print(found.equations.python(), end="")
    elif format == "julia":
        print(found.equations.julia(), end="")
    else:
        print((folder / "result.json").read_text(encoding="utf-8"), end="")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit code is 0 (done), 2 (call or data wrong) or 1 (no fit)."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = app(args=given or ["--help"], prog_name="odediscovery", standalone_mode=False)
        sys.stdout.flush()
        return _complain("interrupted", INTERRUPTED) if code == INTERRUPTED else int(code or 0)
    except (BrokenPipeError, SystemExit):
        # The reader (`| head`) has seen enough, which typer turns into SystemExit if it sees it
        # first; Python's own flush at exit must not complain either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except FitError as error:
        return _complain(error, 1)
    except (OdeDiscoveryError, typer.TyperException) as error:
        return _complain(error, 2)
    except OSError as error:
        return _complain(f"{error.filename or 'output'}: {error.strerror or error}", 2)
    except MemoryError:
        return _complain("out of memory; ask for fewer samples or members", 2)
    except KeyboardInterrupt:
        return _complain("interrupted", INTERRUPTED)


def _complain(error: Exception | str, code: int) -> int:
    message = error.format_message() if isinstance(error, typer.TyperException) else str(error)
    print(f"error: {' '.join(message.split())}", file=sys.stderr)
    return code


def _new_folder(folder: Path) -> Path:
    """`folder` if a result can be written there; made only when there is something to write."""
    from odediscovery.files import check_writable
    from odediscovery.result import read_document

    if folder.is_dir() and any(folder.iterdir()):
        try:
            read_document(folder / "result.json")
        except InputError:
            raise InputError(
                f"--out {folder}: a folder that holds something else; choose a new one"
            ) from None
    elif folder.exists() and not folder.is_dir():
        raise InputError(f"--out {folder}: a file of that name exists; choose a folder")
    check_writable(folder, "--out")
    return folder


def _assignments(texts: Sequence[str], option: str) -> dict[str, float]:
    """["S=100", ...] as numbers by name."""
    values = {}
    for text in texts:
        name, sign, number = text.rpartition("=")
        try:
            value = float(number)
        except ValueError:
            value = math.nan
        if not sign or not math.isfinite(value):
            raise InputError(f"{option} expects NAME=NUMBER, got {text.strip()!r}")
        values[name.strip()] = value
    return values


def _write_table(
    header: Sequence[str], times: NDArray[np.float64], values: NDArray[np.float64], out: Path | None
) -> None:
    """A CSV of states over time to a file, whole or not at all, or to standard output."""
    stream = io.StringIO()
    table = csv.writer(stream, lineterminator="\n")
    table.writerow(header)
    for time, row in zip(times.tolist(), values.tolist(), strict=True):
        table.writerow([repr(time), *("" if math.isnan(x) else repr(x) for x in row)])
    if out is None:
        print(stream.getvalue(), end="")
        return
    from odediscovery.files import write_whole

    try:
        write_whole(out, stream.getvalue().encode())
    except OSError as error:
        raise InputError(f"--out {out}: cannot be written ({error.strerror})") from error


def _print_discovery(found: Discovery) -> None:
    """Equations with error bars, messages, then the Pareto table with the chosen row marked."""
    print(found.equations_text())
    for text in (found.starts_text(), found.stability_text()):
        print(text, end="\n" if text else "")
    for message in found.messages:
        print(f"note: {message}")
    print()
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("")
    for title in ("complexity", "MSE", "R2"):
        table.add_column(title, justify="right")
    table.add_column("equations", overflow="fold")
    for row in found.front:
        plain = dataclasses.replace(row.equations, standard_errors=None)
        table.add_row("*" if row.selected else "", str(row.complexity), f"{row.mse:.3g}",
                      f"{row.r2:.6f}", Text(_shortened(plain.pretty(3))))  # fmt: skip
    console = Console(width=None if sys.stdout.isatty() else 1000, highlight=False)
    with console.capture() as captured:
        console.print(table)
    print("\n".join(line.rstrip() for line in captured.get().splitlines()))


def _shortened(equations: str) -> str:
    lines = equations.splitlines()
    return "\n".join(x if len(x) <= MOST_LETTERS else f"{x[: MOST_LETTERS - 3]}..." for x in lines)
