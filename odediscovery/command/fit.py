"""`odediscovery fit`, from a table to a folder, and `fit-constants`, for the constants of a given law."""

# Imports inside the functions let help appear before torch is loaded.
# ruff: noqa: PLC0415

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from odediscovery.command.console import load_pictures, note, opened, print_discovery, say, sayer
from odediscovery.command.flags import (
    Columns,
    GivenSettings,
    Where,
    argument,
    assignments,
    flag,
    kinds_in,
    names_in,
    option,
    setting,
)
from odediscovery.errors import FitError, InputError, OdeDiscoveryError
from odediscovery.settings import Settings, settings_for

if TYPE_CHECKING:
    from odediscovery.command.progress import TerminalMonitor
    from odediscovery.many.alone import Alone
    from odediscovery.result.discovery import Discovery
    from odediscovery.runtime.files import Claim
    from odediscovery.runtime.workers import Backend


@dataclass(frozen=True)
class Draws:
    """Requested additions to a result, and where their tasks run."""

    bootstrap: int | None = option(None, "drawn data sets, for stability of terms")
    profile: bool = option(False, "95 % intervals of all constants by profile likelihood")
    jobs: int = option(1, "processes that share --bootstrap, --profile or --each")
    backend: str = option("processes", "where these run: processes of this machine or dask")
    scheduler: str | None = option(None, "address of a dask scheduler: tcp://node1:8786")

    @property
    def where(self) -> Where:
        """Where the tasks run."""
        return Where(self.jobs, self.backend, self.scheduler)

    def check(self, vary: str | None) -> None:
        """Check that the options are compatible."""
        if self.bootstrap is not None and self.bootstrap < 1:
            raise InputError(f"--bootstrap must be at least 1, got {self.bootstrap}")
        asked = self.bootstrap is not None or self.profile
        if not asked and self.where != Where():
            raise InputError(
                "--jobs, --backend and --scheduler need --bootstrap, --profile or --each: the members of a fit are "
                "one batch, which more processes do not make faster"
            )
        if asked and vary is not None:
            raise InputError(
                "--bootstrap and --profile ask about the constants of one series of trajectories; beside --vary means "
                "and spreads are printed with errors of their own: leave them out"
            )


COLUMNS, DRAWS, GIVEN = Columns(), Draws(), GivenSettings()


def fit(
    data: Annotated[Path | None, argument("DATA.csv", "table, one row a sample: .csv, .tsv, .xlsx or .parquet")] = None,
    resume: Annotated[Path | None, flag("folder of a fit to go on with, instead of data")] = None,
    columns: Columns = COLUMNS,
    recipe: Annotated[str, setting("recipe")] = "default",
    given: GivenSettings = GIVEN,
    hidden_states: Annotated[str | None, flag("states without a column: R,D")] = None,
    holdout: Annotated[float | None, setting("holdout")] = None,
    draws: Draws = DRAWS,
    each: Annotated[bool, flag("every group its own simple law: a folder with summary.csv")] = False,
    folders: Annotated[str | None, flag("with --each: series that get a result folder of their own: A1,B3")] = None,
    out: Annotated[Path | None, flag("folder to write", "DATA.odediscovery")] = None,
    figures: Annotated[str | None, flag("kinds of pictures beside PNG: pdf,svg")] = None,
    quiet: Annotated[bool, flag("no progress on standard error")] = False,
) -> None:
    """Find equations for the series in a table (CSV, Excel, Parquet) and write a folder."""
    began = time.monotonic()
    if given["template"] == ["list"]:
        from odediscovery.textbook.registry import table

        return say(table())
    latent = names_in(hidden_states, "--hidden-states")
    watch = _Watch(began, draws, quiet, kinds_in(figures))
    if resume is not None:
        others = (data, latent, holdout, None if recipe == "default" else recipe)
        if columns != COLUMNS or others != (None,) * 4 or each or folders is not None:
            raise InputError(
                "--resume goes on with the data of its folder: expected no table, nothing "
                "about columns, no --each, no --holdout and no --recipe beside it"
            )
        with _destination(out or resume) as place:
            return _resume(resume, place, given, watch)
    if data is None:
        raise InputError("expected a table, DATA.csv, or a folder to go on with, --resume DIR")
    settings = settings_for(recipe, hidden_states=latent, holdout=holdout, **given)
    if each:
        own = names_in(folders, "--folders") or []
        return _fit_each(data, columns, settings, out or Path(f"{data.stem}.each"), watch, own)
    if folders is not None:
        raise InputError("--folders names series of a table that is fitted with --each: it needs --each")
    _begin(data, columns, settings, out, watch)


@dataclass(frozen=True)
class _Watch:
    """Start of the command, requested additions, whether it is quiet, and kinds of pictures."""

    began: float
    draws: Draws
    quiet: bool
    kinds: tuple[str, ...]

    def monitor(self, limit: float | None) -> TerminalMonitor:
        """Make the monitor of the progress."""
        from odediscovery.command.progress import TerminalMonitor

        return TerminalMonitor(limit, quiet=self.quiet, started=self.began)


def _fit_each(
    data: Path, columns: Columns, settings: Settings, folder: Path, watch: _Watch, chosen: Sequence[str]
) -> None:
    """Find a separate law for every series of a table, and write result folders for chosen ones."""
    from odediscovery.command.reading import each_table
    from odediscovery.many.run import fit_many, told

    table, draws = each_table(data, columns, folder), watch.draws
    if draws.bootstrap is not None or draws.profile or settings.vary is not None:
        raise InputError(
            "--bootstrap, --profile and --vary are not for --each: go on with the folder of one series, "
            f"--folders A1, then fit --resume {folder}/A1.odediscovery"
        )
    monitor, hears = watch.monitor(settings.max_seconds), sayer(watch.quiet)
    with opened(draws.where, hears) as backend:
        with monitor.shown():
            found = fit_many(table, backend, monitor, say=hears)
        say(told(found, str(columns.group), data.name), end="")
        more = "" if found.finished else "; stopped early, the same command goes on"
        say(f"written to {folder}/summary.csv ({monitor.seconds():.1f} s{more})")
        if chosen:
            from odediscovery.many.alone import chosen_alone
            from odediscovery.result.folder import source_of

            _fit_folders(chosen_alone(table, chosen, settings, source_of(data)), watch, backend, monitor)


def _fit_folders(chosen: Sequence[Alone], watch: _Watch, backend: Backend, monitor: TerminalMonitor) -> None:
    """Fit chosen series by the whole search, each into a separate folder."""
    from odediscovery.many.alone import fit_alone

    waiting = [one for one in chosen if not one.is_done]
    for one in chosen:
        if one not in waiting:
            say(f"{one.label}: kept in {one.folder}")
    failed, left = list[str](), len(waiting)
    with monitor.shown():
        monitor.end()  # a bar would interfere with the printing of results
        sayer(watch.quiet)(f"{len(waiting)} series to fit alone, by the whole search")
        for one, found in fit_alone(waiting, backend, monitor):
            left -= 1
            if isinstance(found, str):
                failed.append(f"{one.label}: {found}")
                continue
            say(f"\nseries {one.label}")
            with _destination(one.folder) as place:
                _keep(found, place, one.source, monitor, watch)
    if failed:
        raise FitError(f"{len(failed)} of {len(chosen)} series have no folder: {'; '.join(failed)}")
    if left:
        say(f"stopped early ({monitor.stopping()}): the same command makes the other folders")


def _begin(data: Path, columns: Columns, settings: Settings, out: Path | None, watch: _Watch) -> None:
    from odediscovery.command.reading import check_same_table, measured_series
    from odediscovery.result.folder import source_of

    source = source_of(data)
    with ExitStack() as shown:
        watch.draws.check(settings.vary)
        monitor = watch.monitor(settings.max_seconds)
        backend = shown.enter_context(opened(watch.draws.where, sayer(watch.quiet)))
        shown.enter_context(monitor.shown())
        monitor.name("read the table")
        series = measured_series(data, columns, settings)
        place = shown.enter_context(_destination(out or Path(f"{data.stem}.odediscovery")))
        if out is None:
            check_same_table(place.folder, source, series)
        monitor.name("load the libraries")
        from odediscovery.discovery.discover import discover

        found = _finish(discover(series, settings, monitor), monitor, watch.draws, backend)
        monitor.end()
        _keep(found, place, source, monitor, watch)


def _resume(before: Path, place: Claim, options: GivenSettings, watch: _Watch) -> None:
    from odediscovery.discovery.resume import resume
    from odediscovery.result.discovery import Discovery
    from odediscovery.result.folder import read_document

    earlier = Discovery.load(before)
    watch.draws.check(earlier.settings.vary)
    monitor = watch.monitor(options["max_seconds"])
    source = read_document(before / "result.json").get("source")
    with opened(watch.draws.where, sayer(watch.quiet)) as backend, monitor.shown():
        found = _finish(resume(earlier, monitor, **options), monitor, watch.draws, backend)
    if found is earlier and place.folder.resolve() == before.resolve():
        return say(
            f"{before} keeps its result: {monitor.seconds():.1f} s found none that is as good; give more time, "
            "--max-seconds, or other members, --seed"
        )
    _keep(found, place, source, monitor, watch)


def _finish(found: Discovery, monitor: TerminalMonitor, draws: Draws, backend: Backend) -> Discovery:
    """Add a bootstrap and profiles to a result if requested."""
    # A single job runs in this process, which need not load anything again.
    place = None if draws.where == Where() else backend
    if draws.bootstrap is not None:
        from odediscovery.uncertainty.bootstrap import with_survival

        found = with_survival(found, draws.bootstrap, monitor, place)
    if draws.profile:
        from odediscovery.uncertainty.profile import with_profiles

        found = with_profiles(found, monitor, place)
    return found


def _keep(found: Discovery, place: Claim, source: object, monitor: TerminalMonitor, watch: _Watch) -> None:
    """Print the result and write the folder."""
    from odediscovery.result.folder import write_folder

    document = found.as_dict() | ({} if source is None else {"source": source})
    # Print the result first: pictures take seconds, and a full disk must not lose the work of hours.
    unheard: OSError | SystemExit | None = None
    try:
        print_discovery(found)
        sys.stdout.flush()
    except (OSError, SystemExit) as error:
        # Standard output is closed, which rich reports by SystemExit: write the folder nevertheless.
        unheard = error
    add = partial(_add_pictures, found, monitor, watch)
    write_folder(place.folder, found.series, found.files(), document, claim=place, add=add)
    if unheard is not None:
        raise unheard
    what = "the best so far is written" if found.outcome == "stopped" else "written"
    say(f"{what} to {place.folder} ({found.seconds:.1f} s)")


def _add_pictures(found: Discovery, monitor: TerminalMonitor, watch: _Watch, folder: Path) -> None:
    """Add pictures and the page; if this fails, the result remains valid."""
    from odediscovery.runtime.monitor import DRAWING

    late = "for want of time some pictures are left out; `odediscovery report` makes the page"
    if monitor.is_overdue(DRAWING):
        return note(late)
    drawing = watch.monitor(None)
    with drawing.shown():
        drawing.name("load the pictures")
        load_pictures()
        files = _shown_in(found, watch.kinds)
        drawing.stage("pictures and page", len(files))
        for done, (name, write) in enumerate(files.items()):
            try:
                if monitor.in_time(DRAWING, partial(write, folder), late):
                    return note(late)
            except (OdeDiscoveryError, OSError, MemoryError):
                raise
            except Exception as error:
                reason = " ".join(str(error).split())[:200]
                note(f"{name} could not be made ({type(error).__name__}: {reason}); all the rest is written")
            drawing.step(done + 1)


def _shown_in(found: Discovery, kinds: Sequence[str]) -> dict[str, Callable[[Path], None]]:
    """The functions that write pictures and the page into a folder."""
    from odediscovery.plots.figures import FIGURES, checks_figure, groups_figure, save_figures
    from odediscovery.report import write_report

    drawn = FIGURES | {"checks": checks_figure} | ({} if found.population is None else {"groups": groups_figure})
    files = {f"{one}.png": partial(save_figures, found, kinds=kinds, pictures={one: drawn[one]}) for one in drawn}
    return files | {"report.html": lambda folder: write_report(found, folder / "report.html")}


@contextmanager
def _destination(folder: Path) -> Iterator[Claim]:
    """Claim the folder of a result for one writer; it is made only when a result is written."""
    from odediscovery.result.folder import read_document
    from odediscovery.runtime.files import check_writable, claimed

    if folder.exists() and not folder.is_dir():
        raise InputError(f"--out {folder}: a file of that name exists; choose a folder")
    check_writable(folder, "--out")
    with ExitStack() as held:
        try:
            claim = held.enter_context(claimed(folder))
        except OSError as error:
            raise InputError(f"--out {folder}: cannot be written ({error.strerror})") from error
        if folder.is_dir() and any(path.name[:1] != "." for path in folder.iterdir()):
            try:
                read_document(folder / "result.json")
            except InputError:
                raise InputError(f"--out {folder}: a folder that holds something else; choose a new one") from None
        yield claim


def fit_constants(
    data: Annotated[Path, argument("DATA.csv", "table, one row a sample")],
    law: Annotated[Path | None, flag("text file of the law, a line a state: N' = r*N*(1 - N/K)")] = None,
    start: Annotated[list[str] | None, flag("where the fit of a constant begins: r=0.5", "sought")] = None,
    columns: Columns = COLUMNS,
    beside: Annotated[Path | None, flag("folder of a fit of the same table, to compare with")] = None,
    vary: Annotated[str | None, setting("vary")] = None,
    starts: Annotated[list[str] | None, setting("starts")] = None,
    doses: Annotated[list[str] | None, setting("doses")] = None,
    covariate: Annotated[list[str] | None, setting("covariate")] = None,
    hidden_states: Annotated[str | None, flag("with --vary: states without a column, whose starts are known")] = None,
    max_seconds: Annotated[float | None, setting("max_seconds")] = None,
    out: Annotated[Path | None, flag("folder to write", "none")] = None,
    quiet: Annotated[bool, flag("no progress on standard error")] = False,
) -> None:
    """Fit the named constants of a law of your own, with error bars."""
    from odediscovery.command.reading import law_text, measured_series

    began = time.monotonic()
    if law is None:
        raise InputError("expected a law, --law FILE: a text file with a line such as N' = r*N*(1 - N/K)")
    text, given = law_text(law), assignments(start or [], "--start")
    latent = names_in(hidden_states, "--hidden-states")
    if vary is None and (starts or covariate or latent or doses):
        raise InputError("--starts, --doses, --covariate and --hidden-states belong to groups: they need --vary")
    settings = settings_for(
        vary=vary, starts=starts, doses=doses, covariate=covariate, hidden_states=latent, max_seconds=max_seconds
    )
    monitor = _Watch(began, DRAWS, quiet, ()).monitor(settings.max_seconds)
    with monitor.shown():
        monitor.name("read the table")
        series = measured_series(data, columns, settings)
        from odediscovery.discovery.fit_constants import fit_constants as fitted

        monitor.name("fit the constants")
        found = fitted(series, text, settings, start=given or None, monitor=monitor)
        monitor.end()
    if out is not None:
        found.save(out)  # before printing, which may fail
    print_discovery(found)
    if beside is not None:
        from odediscovery.result.compare import compare
        from odediscovery.result.discovery import Discovery

        say()
        say(repr(compare(found, Discovery.load(beside), names=[law.stem, str(beside)])))
    if out is not None:
        note(f"written to {out}; `odediscovery report {out}` makes its page")
