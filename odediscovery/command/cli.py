"""The command `odediscovery`: from a CSV to equations.

Heavy libraries are imported when a command runs, so that help is instant. User errors end with one line on standard
error that starts with `error: ` and exit code 2, failed fits with exit code 1.
"""

# Imports inside the commands let help appear before torch is loaded.
# ruff: noqa: PLC0415

from __future__ import annotations

import csv
import io
import json
import math
import signal
import sys
import traceback
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from odediscovery import __version__
from odediscovery.command.bench import bench
from odediscovery.command.console import (
    load_pictures,
    mute,
    mute_if_broken,
    note,
    prepare,
    print_discovery,
    remark,
    say,
)
from odediscovery.command.doctor import doctor
from odediscovery.command.fit import fit, fit_constants
from odediscovery.command.flags import argument, assignments, flag, with_groups
from odediscovery.command.reproduce import reproduce
from odediscovery.errors import FitError, InputError, OdeDiscoveryError, unknown_name

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from odediscovery.data.signals import Signal
    from odediscovery.report import Forecast
    from odediscovery.result.discovery import Discovery

# The exit code of a program ended by Ctrl-C, which typer makes of the exception.
INTERRUPTED = 130
app = typer.Typer(
    name="odediscovery",
    help="Find the differential equations behind measured time series.",
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.add_typer(bench)


def _print_version(asked: bool) -> None:
    if asked:
        say(f"odediscovery {__version__}")
        raise typer.Exit


@app.callback()
def about(
    version: Annotated[
        bool, typer.Option("--version", help="print the version", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Find the differential equations behind measured time series."""


app.command()(doctor)
app.command()(with_groups(fit))
app.command()(with_groups(fit_constants))
app.command()(with_groups(reproduce))


Folder = Annotated[Path, argument("DIR", "folder that `fit` wrote")]
Row = Annotated[int | None, flag("another row of the front, by its complexity", "the chosen one")]
CsvOut = Annotated[Path | None, flag("CSV file to write", "standard output")]


@app.command()
def simulate(
    system: Annotated[str, argument("SYSTEM", "name of a known system")],
    set: Annotated[list[str] | None, flag("parameter or initial value: beta=0.1")] = None,
    samples: Annotated[int | None, flag("number of samples", "the system's own")] = None,
    noise: Annotated[float, flag("noise as a share of each state's spread", "0")] = 0.0,
    seed: Annotated[int, flag("random seed of the noise", "0")] = 0,
    until: Annotated[float | None, flag("last time", "the system's own")] = None,
    out: CsvOut = None,
) -> None:
    """Simulate a known system: a CSV of samples as if they had been measured."""
    from odediscovery.laws.systems import simulate_system

    given = assignments(set or [], "--set")
    series = simulate_system(system, set=given, samples=samples, noise=noise, seed=seed, until=until)
    run = series.trajectories[0]
    _write_table((series.time_name, *series.states), _rows(map(repr, run.time.tolist()), run.values), out)


@app.command()
def predict(
    folder: Folder,
    initial: Annotated[str | None, flag("initial values: S=100,I=0.01", "the fitted ones")] = None,
    until: Annotated[str | None, flag("last time, from the start of the data; or a date: 2024-05-01")] = None,
    times: Annotated[Path | None, flag("CSV file with the times", "those of the data")] = None,
    intervals: Annotated[bool, flag("95 % intervals of new measurements: S_low, S_high")] = False,
    inputs: Annotated[Path | None, flag("table of time and inputs", "the data's")] = None,
    doses: Annotated[Path | None, flag("table of times and amounts of doses", "the data's")] = None,
    report: Annotated[Path | None, flag("HTML file to write with the curves and their bands")] = None,
    row: Row = None,
    subject: Annotated[str | None, flag("group whose constants to use, of a fit with --vary")] = None,
    new_subject: Annotated[Path | None, flag("table of first samples of a new group, of a fit with --vary")] = None,
    out: CsvOut = None,
) -> None:
    """Integrate the equations of a result: a CSV of states over time."""
    if until is not None and times is not None:
        raise InputError("--until and --times cannot be given together; choose one")
    from odediscovery.command.reading import asked_times, what_acts, written_times
    from odediscovery.result.discovery import start_values

    _check_places({"--report": report, "--out": out})
    found = _loaded(folder, row)
    if subject is not None:
        found = found.of_group(subject)
    names, given = found.equations.states, assignments(initial.split(",") if initial else [], "--initial")
    start = start_values(given, found.initial_values[0], names) if given else None
    if new_subject is not None:
        return _write_table(*_new_curve(found, new_subject, given, until, times), out)
    if len(found.series.trajectories) > 1 and not (given or inputs or doses or report):
        return _write_all(found, until, times, intervals, out)
    told = what_acts(found, inputs, doses)
    acting = told or found.series.trajectories[0].controls
    alone = inputs is not None and until is None and times is None
    when = acting.times if alone and acting is not None else asked_times(found.series, until, times)
    values = found.simulate(start, when, told)
    others = doses is None and set(found.series.controls) - {found.series.time_name}
    _note_limits(values, when, acting if others else None)
    if report is not None:
        load_pictures()
        from odediscovery.report import forecast_of

        forecast = forecast_of(found, when, given, told)
        _write_page(found, folder, report, forecast)
    if intervals:
        from odediscovery.uncertainty.bands import with_intervals

        names, values = with_intervals(found, values, when, start, acting)
    shown = written_times(found.series, when, until, times)
    _write_table((found.series.time_name, *names), _rows(shown, values), out)


def _write_all(found: Discovery, until: str | None, times: Path | None, intervals: bool, out: Path | None) -> None:
    """Write all trajectories from their own fitted starts, one below the other, labelled in the first column."""
    from odediscovery.command.reading import asked_times, written_times
    from odediscovery.data.series import group_column
    from odediscovery.uncertainty.bands import with_intervals

    names, rows = found.equations.states, list[list[object]]()
    for k, run in enumerate(found.series.trajectories):
        one = found.of_trajectory(k)
        when = asked_times(one.series, until, times)
        when = when[when >= run.time[0]]
        values = one.simulate(times=when) if len(when) else run.values[:0]
        _note_limits(values, when, None)
        if intervals and len(when):
            names, values = with_intervals(found, values, when, None, run.controls, k)
        shown = written_times(one.series, when, until, times)
        rows += [[run.label or k + 1, *row] for row in _rows(shown, values)]
    _write_table((group_column(found.series), found.series.time_name, *names), rows, out)


def _new_curve(
    found: Discovery, table: Path, known: dict[str, float], until: str | None, times: Path | None
) -> tuple[list[str], list[list[str]]]:
    """Predict a new group: header and rows of its curve, with 95 % intervals of new measurements."""
    import numpy as np

    from odediscovery.command.reading import asked_times
    from odediscovery.data.recorded import dose_column
    from odediscovery.data.series import measured
    from odediscovery.uncertainty.newcomer import first_samples, meet

    law, population = found.equations.power_sum, found.population
    if law is None or population is None:
        raise InputError("--new-subject leans on a population: expected a fit with --vary")
    hidden = [s for s, seen in zip(found.series.states, measured(found.series), strict=True) if not seen]
    series, doses = first_samples(table, found.series, hidden, [dose_column(text) for text in found.settings.doses])
    when = asked_times(found.series, until, times)
    when = when[when >= series.trajectories[0].time[0]]
    met = meet(law, population, series, when, known, doses)
    note(", ".join(f"{name} = {value:.4g}" for name, value in met.constants.items()))
    half = 1.96 * met.deviations
    names = [n for s in found.series.states for n in (s, f"{s}_low", f"{s}_high")]
    columns = np.stack([met.values, met.values - half, met.values + half], axis=2).reshape(len(when), -1)
    return [found.series.time_name, *names], _rows(map(repr, when.tolist()), columns)


def _check_places(files: dict[str, Path | None]) -> None:
    """Check that all files can be written before writing any of them, and that none belongs to a result."""
    from odediscovery.result.folder import OWN
    from odediscovery.runtime.files import check_writable

    for option, path in files.items():
        if path is None or (path.exists() and not path.is_file() and not path.is_dir()):
            continue
        above = path.absolute().parent
        if path.is_dir() or not above.is_dir():
            raise InputError(f"{option} {path}: cannot be written; name a file in a folder that exists")
        if path.name in OWN and path.is_file() and (above / "result.json").is_file():
            raise InputError(f"{option} {path}: it belongs to the result in that folder; name another file")
        check_writable(path if path.is_file() else above, option)


def _note_limits(values: NDArray[np.float64], when: NDArray[np.float64], acting: Signal | None) -> None:
    """Report where a prediction extrapolates held controls, or has diverged."""
    import numpy as np

    if acting is not None and acting.times[-1] < when[-1]:
        note(f"inputs are known up to {acting.times[-1]:g}; later their last values are held")
    if not np.isfinite(values).all():
        note("the solution grows without bound; later rows are empty")


@app.command()
def report(
    folder: Folder,
    row: Row = None,
    out: Annotated[Path | None, flag("HTML file to write", "DIR/report.html, or with --row DIR-ROW.html")] = None,
) -> None:
    """Write the page of a result: equations, curves and what to know, in one HTML file."""
    _check_places({"--out": out})
    path = out or (folder / "report.html" if row is None else _beside(folder, row, ".html"))
    _write_page(_loaded(folder, row), folder, path, None)
    say(f"written to {path}")


@app.command()
def plot(
    folder: Folder,
    row: Row = None,
    out: Annotated[Path | None, flag("picture to write: .png, .svg or .pdf", "DIR.png, with --row DIR-ROW.png")] = None,
) -> None:
    """Draw the fit of a result: data, curves with bands, residuals."""
    load_pictures()
    from odediscovery.plots.figures import fit_figure, save_figure

    _check_places({"--out": out})
    path = out or _beside(folder, row, ".png")
    save_figure(fit_figure(_loaded(folder, row)), path)
    say(f"written to {path}")


def _loaded(folder: Path, row: int | None) -> Discovery:
    """Load the result in a folder, or another row of its front."""
    from odediscovery.result.discovery import Discovery

    found = Discovery.load(folder)
    return found if row is None else found.select(row)


def _beside(folder: Path, row: int | None, ending: str) -> Path:
    """A file beside the folder, whose own files belong to the chosen row."""
    whole = folder.resolve()
    return whole.with_name(f"{whole.stem}{'' if row is None else f'-{row}'}{ending}")


def _write_page(found: Discovery, folder: Path, path: Path, forecast: Forecast | None) -> None:
    """Write a page with the versions with which the result was found."""
    load_pictures()
    from odediscovery.report import write_report
    from odediscovery.result.folder import read_document

    versions = read_document(folder / "result.json").get("versions")
    try:
        write_report(found, path, forecast, versions if isinstance(versions, dict) else None)
    except OdeDiscoveryError:
        raise
    except (ArithmeticError, ValueError) as error:
        # The values differ too much for an axis.
        raise InputError(f"{path}: the values of this result cannot be drawn ({error})") from error


@app.command()
def show(
    folder: Folder, format: Annotated[str, flag("text, latex, python, julia or json", "text")] = "text", row: Row = None
) -> None:
    """Print the equations of a result, as text or in another language."""
    if format not in (known := ("text", "latex", "python", "julia", "json")):
        raise unknown_name("format", format, known)
    found = _loaded(folder, row)
    written = {"latex": found.latex, "python": found.equations.python, "julia": found.equations.julia}
    if format == "text":
        print_discovery(found)
    elif format in written:
        say(written[format](), end="")
    elif row is None:
        say((folder / "result.json").read_text(encoding="utf-8"), end="")
    else:
        say(json.dumps(found.as_dict(), indent=1, ensure_ascii=False, allow_nan=False))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command, and return the exit code.

    0: done, even if no law is claimed; 1: no law could be fitted; 2: an invalid call, table or file; 130: interrupted.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    alone = arguments is None
    if alone:
        prepare()
        signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGINT))
    try:
        code = app(args=given or ["--help"], prog_name="odediscovery", standalone_mode=False)
        sys.stdout.flush()
        return _complain("interrupted", INTERRUPTED) if code == INTERRUPTED else int(code or 0)
    except (BrokenPipeError, SystemExit):
        # The reader (`| head`) closed the pipe, which typer turns into SystemExit if it notices
        # first; Python's own flush at exit must not complain either.
        mute(sys.stdout)
        return 0
    except FitError as error:
        return _complain(error, 1)
    except (OdeDiscoveryError, typer.TyperException) as error:
        return _complain(error, 2)
    except OSError as error:
        mute_if_broken(sys.stdout)
        return _complain(f"{error.filename or 'output'}: {error.strerror or error}", 2)
    except KeyboardInterrupt:
        return _complain("interrupted", INTERRUPTED)
    except Exception as error:
        # Python, a GPU, or torch on the processor ran out of memory; torch has no class for it.
        of_torch = type(error).__name__ == "OutOfMemoryError" or "can't allocate memory" in str(error)
        if isinstance(error, MemoryError) or of_torch:
            return _complain(
                "out of memory; ask for fewer samples or members, and where a GPU is too small leave --device out", 2
            )
        if not alone:
            raise
        place = traceback.extract_tb(error.__traceback__)[-1]
        return _complain(
            f"a fault of odediscovery, please report it with the table: {type(error).__name__}: {error} "
            f"({Path(place.filename).name}, line {place.lineno})",
            1,
        )


def _complain(error: Exception | str, code: int) -> int:
    message = error.format_message() if isinstance(error, typer.TyperException) else str(error)
    remark(f"error: {' '.join(message.split())}")
    return code


def _rows(times: Iterable[str], values: NDArray[np.float64]) -> list[list[str]]:
    """Format times and states as cells of a CSV."""
    columns = zip(times, values.tolist(), strict=True)
    return [[time, *("" if math.isnan(x) else repr(x) for x in row)] for time, row in columns]


def _write_table(header: Sequence[object], rows: Sequence[Sequence[object]], out: Path | None) -> None:
    """Write a CSV to a file, completely or not at all, or to standard output."""
    from odediscovery.runtime.files import write_whole

    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows([header, *rows])
    if out is None:
        return say(stream.getvalue(), end="")
    try:
        write_whole(out, stream.getvalue().encode())
    except OSError as error:
        raise InputError(f"--out {out}: cannot be written ({error.strerror})") from error
