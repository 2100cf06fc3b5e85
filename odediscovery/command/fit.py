"""`odediscovery fit`: a table goes in, a folder with equations and pictures comes out.

The flags take their help from `Settings`, so that help is instant.
"""

# Imports inside the functions are the point: help has to come before torch could be loaded.
# ruff: noqa: PLC0415

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from odediscovery.command.console import argument, assignments, flag, print_discovery
from odediscovery.errors import InputError, OdeDiscoveryError
from odediscovery.settings import Settings, settings_for

if TYPE_CHECKING:
    from odediscovery.command.progress import TerminalMonitor
    from odediscovery.data.series import TimeSeries
    from odediscovery.result.discovery import Discovery


def setting(name: str) -> Any:
    """The flag of one field of `Settings`: its help and default stand there."""
    field = next(f for f in dataclasses.fields(Settings) if f.name == name)
    return flag(field.metadata["help"], field.default)


# How many data sets are drawn, if any, and by how many processes.
Draws: TypeAlias = tuple[int | None, int]

DataFile = Annotated[Path | None, argument("DATA.csv", "table, one row a sample: .csv, .tsv, .xlsx or .parquet")]


def fit(
    data: DataFile = None,
    resume: Annotated[Path | None, flag("folder of a fit to go on with, instead of data")] = None,
    time: Annotated[str | None, flag("column of times", "t, time or the first")] = None,
    states: Annotated[str | None, flag("columns to model: S,I,R", "all other numbers")] = None,
    group: Annotated[str | None, flag("columns that tell trajectories apart: a,b")] = None,
    sigma_columns: Annotated[str | None, flag("columns of error bars: S=S_sd,I=I_sd")] = None,
    noise_level: Annotated[str | None, flag("known noise, in the states' units: S=2")] = None,
    inputs: Annotated[str | None, flag("columns that act on the states: T,force; or t")] = None,
    held_inputs: Annotated[str | None, flag("inputs that jump at samples: feed")] = None,
    recipe: Annotated[str, setting("recipe")] = "default",
    seed: Annotated[int | None, setting("seed")] = None,
    members: Annotated[int | None, setting("members")] = None,
    hidden: Annotated[int | None, setting("hidden")] = None,
    max_seconds: Annotated[float | None, setting("max_seconds")] = None,
    holdout: Annotated[float | None, setting("holdout")] = None,
    threads: Annotated[int | None, setting("threads")] = None,
    device: Annotated[str | None, setting("device")] = None,
    unit: Annotated[str | None, setting("unit")] = None,
    grow: Annotated[bool | None, setting("grow")] = None,
    l1: Annotated[float | None, setting("l1")] = None,
    adam_steps: Annotated[int | None, setting("adam_steps")] = None,
    learning_rate: Annotated[float | None, setting("learning_rate")] = None,
    lbfgs_steps: Annotated[int | None, setting("lbfgs_steps")] = None,
    prune_long: Annotated[bool | None, setting("prune_long")] = None,
    known: Annotated[list[str] | None, setting("known")] = None,
    conserve: Annotated[list[str] | None, setting("conserve")] = None,
    hidden_states: Annotated[str | None, flag("states without a column: R,D")] = None,
    forbid: Annotated[list[str] | None, setting("forbid")] = None,
    bounds: Annotated[str | None, setting("bounds")] = None,
    integer_exponents: Annotated[bool | None, setting("integer_exponents")] = None,
    bootstrap: Annotated[int | None, flag("drawn data sets, for stability of terms")] = None,
    jobs: Annotated[int, flag("processes for --bootstrap above 250", 1)] = 1,
    out: Annotated[Path | None, flag("folder to write", "DATA.odediscovery")] = None,
    quiet: Annotated[bool, flag("no progress on standard error")] = False,
) -> None:
    """Find equations for the series in a table (CSV, Excel, Parquet) and write a folder."""
    given = dict(locals())
    options = {name: given[name] for name in _settings() if name in given}
    hidden_names, acting = _names(hidden_states), (_names(inputs), _names(held_inputs))
    if resume is not None:
        _check_alone(
            data,
            time,
            states,
            group,
            sigma_columns,
            noise_level,
            hidden_names,
            *acting,
            holdout,
            None if recipe == "default" else recipe,
        )
        _resume(resume, _new_folder(out or resume), options, (bootstrap, jobs), quiet=quiet)
        return
    if data is None:
        raise InputError("expected a table, DATA.csv, or a folder to go on with, --resume DIR")
    settings = settings_for(recipe, hidden_states=hidden_names, holdout=holdout, **options)
    series = _measured(data, time, states, group, sigma_columns, noise_level, acting)
    folder = _new_folder(out or Path(f"{data.stem}.odediscovery"))
    _begin(series, folder, settings, (bootstrap, jobs), quiet=quiet)


def _settings() -> list[str]:
    """Settings that a fit and one that goes on both take."""
    apart = ("recipe", "holdout", "hidden_states")
    return [field.name for field in dataclasses.fields(Settings) if field.name not in apart]


def _begin(series: TimeSeries, folder: Path, settings: Settings, draws: Draws, *, quiet: bool) -> None:
    """A fit from the start."""
    monitor, finish = _watched(settings.max_seconds, draws, quiet=quiet)
    from odediscovery.discovery.discover import discover

    with monitor.shown():
        found = finish(discover(series, settings, monitor))
    _keep(found, folder)


def _check_alone(*others: object) -> None:
    if any(other is not None for other in others):
        raise InputError(
            "--resume goes on with the data of its folder: expected no table, nothing "
            "about columns, no --holdout and no --recipe beside it"
        )


def _resume(before: Path, folder: Path, options: dict[str, Any], draws: Draws, *, quiet: bool) -> None:
    """A fit that goes on from the folder of another."""
    from odediscovery.discovery.resume import resume
    from odediscovery.result.discovery import Discovery

    monitor, finish = _watched(options["max_seconds"], draws, quiet=quiet)
    found = Discovery.load(before)
    with monitor.shown():
        found = finish(resume(found, monitor, **options))
    _keep(found, folder)


def _watched(
    limit: float | None, draws: Draws, *, quiet: bool
) -> tuple[TerminalMonitor, Callable[[Discovery], Discovery]]:
    """Who hears the progress, and what is done with a result: a bootstrap, if it was asked for."""
    count, jobs = draws
    if count is not None and count < 1:
        raise InputError(f"--bootstrap must be at least 1, got {count}")
    if jobs < 1:
        raise InputError(f"--jobs must be at least 1, got {jobs}")
    if jobs > 1 and count is None:
        raise InputError(
            f"--jobs {jobs} needs --bootstrap: the members of a fit are one batch, "
            "which more processes do not make faster"
        )
    from odediscovery.command.progress import TerminalMonitor
    from odediscovery.uncertainty.bootstrap import with_survival

    monitor = TerminalMonitor(limit, quiet=quiet)
    if count is None:
        return monitor, lambda found: found
    return monitor, lambda found: with_survival(found, count, monitor, jobs)


def _keep(found: Discovery, folder: Path) -> None:
    """Write the folder and say what was found."""
    from odediscovery.plots.figures import save_figures

    found.save(folder)
    save_figures(found, folder)
    _write_report(found, folder / "report.html")
    print_discovery(found)
    what = "the best so far is written" if found.outcome == "stopped" else "written"
    print(f"{what} to {folder} ({found.seconds:.1f} s)")


def _write_report(found: Discovery, path: Path) -> None:
    """The page; a result that it cannot show is a result all the same."""
    from odediscovery.report import write_report

    try:
        write_report(found, path)
    except OdeDiscoveryError:
        raise
    except Exception as error:
        print(
            f"note: {path} could not be made ({type(error).__name__}: {error}); all the rest is "
            f"written, and `odediscovery report {path.parent}` shows where it "
            "failed",
            file=sys.stderr,
        )


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",")]


def _measured(
    data: Path,
    time: str | None,
    states: str | None,
    group: str | None,
    sigma_columns: str | None,
    noise_level: str | None,
    inputs: Sequence[list[str] | None],
) -> TimeSeries:
    """The series in the table, with its inputs and the standard deviations that are known."""
    from odediscovery.data.controls import load_with_controls

    noise = assignments(noise_level.split(",") if noise_level else [], "--noise-level")
    linear, held = ([] if names is None else names for names in inputs)
    return load_with_controls(
        data, linear, held, time=time, states=_names(states), group=group, sigma=sigma_columns, noise=noise
    )


def _new_folder(folder: Path) -> Path:
    """`folder` if a result can be written there; made only when there is something to write."""
    from odediscovery.result.folder import read_document
    from odediscovery.runtime.files import check_writable

    if folder.is_dir() and any(folder.iterdir()):
        try:
            read_document(folder / "result.json")
        except InputError:
            raise InputError(f"--out {folder}: a folder that holds something else; choose a new one") from None
    elif folder.exists() and not folder.is_dir():
        raise InputError(f"--out {folder}: a file of that name exists; choose a folder")
    check_writable(folder, "--out")
    return folder
