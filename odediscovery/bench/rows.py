"""Studies, and their rows on disk: one JSON line each, written as soon as it is known.

DIR/study.json   what the rows share: suite, noise, samples, seed, limit; machine and versions
DIR/rows.jsonl   one row for each task
DIR/summary.md   the tables (see `summary`)

A measurement is a `Study`: tasks, each of which fills one row, and a description of their folder. All studies
resume, and turn failures into rows, in the same way.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from odediscovery.data.series import TimeSeries
from odediscovery.discovery.discover import discover
from odediscovery.errors import InputError
from odediscovery.result.discovery import Discovery
from odediscovery.runtime.arrays import Array
from odediscovery.runtime.files import write_whole
from odediscovery.runtime.monitor import Monitor, on_processor_time
from odediscovery.runtime.versions import versions
from odediscovery.runtime.workers import IN_TURN, Backend, Failure
from odediscovery.settings import Settings, settings_for

Row: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Task:
    """One row to make, for a system and a method; it is sent to the process that makes it."""

    id: str
    method: str
    fill: Callable[[Row], None]  # makes the measurement; entries of the row remain after an exception
    known: Row = field(default_factory=dict)  # entries that are known without a result


def exact_or_not(row: Row) -> str:
    """Summarise a row that was compared with a known law."""
    return "exact" if row["exact"] else "not exact"


@dataclass(frozen=True)
class Study:
    """A measurement that saves its rows in a folder; raises an `InputError` for a seed or limit out of range."""

    name: str  # of its stage, for the progress
    shared: Mapping[str, Any]  # common properties of all rows, as in study.json
    # Keys of a row, including `failed` and `seconds` (of the processor); lines with other keys are ignored.
    columns: Sequence[str]
    tasks: Sequence[Task]  # in the order of the tables
    limit: float  # largest processor time of a task in seconds
    in_words: Callable[[Row], str] = exact_or_not  # summary of a row without failure, for the progress
    ids: Sequence[str] = ()  # further rows of the folder that belong to the result, in their order

    def __post_init__(self) -> None:
        settings_for(seed=self.shared.get("seed", 0), max_seconds=self.limit)

    def run(
        self,
        folder: Path,
        *,
        backend: Backend = IN_TURN,
        monitor: Monitor | None = None,
        say: Callable[[str], None] = print,
    ) -> list[Row]:
        """Do the tasks that are not yet in `folder`, save each row at once, failures with their reason, and return
        all rows."""
        rows, monitor = Rows(folder, self.shared, self.columns), monitor or Monitor()
        tasks = [task for task in self.tasks if not rows.has(task.id, task.method)]
        monitor.stage(self.name, len(tasks))
        # Other work may slow a task fourfold, and data and scores take time beside the fit.
        function, limit = partial(filled, columns=self.columns), 4.0 * self.limit + 60.0
        ended = backend.results(function, tasks, limit, monitor.stopping)
        for done, (number, row) in enumerate(ended, start=1):
            if isinstance(row, Failure):
                row = blank(tasks[number], self.columns) | {"failed": row.reason, "seconds": row.seconds}
            rows.add(row)
            monitor.step(done)
            say(f"{done} of {len(tasks)}  {self.said(row)}")
        ids = list(dict.fromkeys([*self.ids, *(task.id for task in self.tasks)]))
        # Methods that were not requested come last.
        place = {method: k for k, method in enumerate(dict.fromkeys(task.method for task in self.tasks))}
        kept = [row for row in rows.all if row["id"] in ids]
        return sorted(kept, key=lambda row: (ids.index(row["id"]), place.get(row["method"], len(place))))

    def said(self, row: Row) -> str:
        """Describe the outcome of a task in one line."""
        head, seconds = f"{row['method']} {row['id']}", f"{row['seconds'] or 0.0:.1f} s"
        failed = row["failed"]
        return f"{head}: failed after {seconds}, {failed}" if failed else f"{head}: {self.in_words(row)}, {seconds}"


def blank(task: Task, columns: Sequence[str]) -> Row:
    """The row of a task without a result."""
    return dict.fromkeys(columns) | {"id": task.id, "method": task.method} | task.known


def filled(task: Task, columns: Sequence[str]) -> Row:
    """Do a task and return its row, with the reason of a failure. Limits within count processor time, so that
    other processes do not shorten them."""
    row, whole = blank(task, columns), {"seconds": None}
    try:
        with timed(whole), on_processor_time():
            task.fill(row)
    except Exception as error:
        row["failed"] = " ".join(f"{type(error).__name__}: {error}".split())
    if row["seconds"] is None:
        row |= whole
    return row


@contextmanager
def timed(row: Row) -> Iterator[None]:
    """Record the processor time of a context in the seconds of a row."""
    began = time.process_time()
    try:
        yield
    finally:
        row["seconds"] = round(time.process_time() - began, 3)


def fit_into(row: Row, series: TimeSeries, settings: Settings) -> Discovery:
    """Fit a series; the row gets the seconds and, where it has these columns, the outcome and the equations."""
    with timed(row):
        found = discover(series, settings)
    told = {"outcome": found.outcome, "equations": found.equations.texts()}
    row |= {key: value for key, value in told.items() if key in row}
    return found


class Rows:
    """The rows of a folder claimed by `claim_folder`; lines with keys other than `columns` are ignored."""

    def __init__(self, folder: Path, study: Mapping[str, Any], columns: Sequence[str]) -> None:
        claim_folder(folder, study)
        self._file = folder / "rows.jsonl"
        try:
            every, whole = read_rows(folder) if self._file.is_file() else ([], True)
            self.all = [row for row in every if set(row) == set(columns)]
            if not whole or len(self.all) < len(every):
                # A truncated line would be joined with the next one.
                write_whole(self._file, "".join(json.dumps(row) + "\n" for row in self.all).encode())
        except OSError as error:
            raise InputError(f"--out {folder}: cannot be written ({error.strerror})") from error
        self._done = {(row["id"], row["method"]) for row in self.all}

    def has(self, id: str, method: str) -> bool:
        """Whether there is a row for this system and method."""
        return (id, method) in self._done

    def add(self, row: Row) -> None:
        """Add a row, on disk first; of repeated rows the first one is kept."""
        if self.has(row["id"], row["method"]):
            return
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row, allow_nan=False) + "\n")
        self.all.append(row)
        self._done.add((row["id"], row["method"]))


def commit_of(path: Path) -> str:
    """First digits of the last commit that changed a file or folder of a checkout; "" elsewhere."""
    command = ["git", "-C", str(path.parent), "log", "-1", "--format=%H", "--", path.name]
    try:
        told = subprocess.run(command, capture_output=True, text=True, timeout=10.0, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
    # A fixed length: git's own short form grows with the repository, and saved names would change.
    return told.strip()[:7]


def provenance() -> dict[str, Any]:
    """The machine and the versions of a measurement."""
    commit, seconds = commit_of(Path(__file__).parent.parent), round(reference_seconds(), 4)
    machine = {"processor": platform.machine(), "cores": os.cpu_count(), "reference_seconds": seconds}
    return {**({"commit": commit} if commit else {}), "machine": machine, "versions": versions()}


def reference_seconds() -> float:
    """Processor seconds of 1,000 Runge-Kutta steps of the Lorenz system, the best of fifteen runs: machines differ
    threefold."""

    # Independent of the package, whose solvers may become faster.
    def rhs(x: Array) -> Array:
        return np.array((10.0 * (x[1] - x[0]), x[0] * (28.0 - x[2]) - x[1], x[0] * x[1] - 8.0 / 3.0 * x[2]))

    times = []
    for _ in range(15):
        began, x, step = time.process_time(), np.ones(3), 0.01
        for _ in range(1000):
            a = rhs(x)
            b = rhs(x + 0.5 * step * a)
            c = rhs(x + 0.5 * step * b)
            x = x + step / 6.0 * (a + 2.0 * (b + c) + rhs(x + step * c))
        times.append(time.process_time() - began)
    return min(times)


def claim_folder(folder: Path, study: Mapping[str, Any]) -> None:
    """Claim a folder by writing study.json, or check that it holds the same study."""
    about = folder / "study.json"
    if about.is_file():
        before = read_study(folder)
        if before is None:
            raise InputError(f"--out {folder}: its study.json is no study of bench or reproduce; choose a new folder")
        other = [key for key, value in study.items() if before.get(key) != value]
        if other:
            had, asked = (", ".join(f"{key} {of.get(key)}" for key in other) for of in (before, study))
            raise InputError(
                f"--out {folder}: it holds another study ({had}; asked for: {asked}); "
                "choose a new folder or ask for the same"
            )
        return
    if folder.is_dir() and any(folder.iterdir()):
        raise InputError(f"--out {folder}: a folder that holds something else; choose a new one")
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--out {folder}: a file of that name exists; choose a folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(about, (json.dumps({**study, **provenance()}, indent=1) + "\n").encode())
    except OSError as error:
        raise InputError(f"--out {folder}: cannot be written ({error.strerror})") from error


def read_study(folder: Path) -> dict[str, Any] | None:
    """Read what the rows of a folder share; None without a study."""
    try:
        study = json.loads((folder / "study.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return study if isinstance(study, dict) else None


def read_rows(folder: Path) -> tuple[list[Row], bool]:
    """Read the rows of a folder, and whether all its lines are rows; raises OSError without them."""
    lines = (folder / "rows.jsonl").read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
    rows = []
    for line in lines:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        named = isinstance(row, dict) and all(isinstance(row.get(key), str | int) for key in ("id", "method"))
        if line.endswith("\n") and named:
            rows.append(row)
    return rows, len(rows) == len(lines)
