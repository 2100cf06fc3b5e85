"""Rows on disk: one JSON line each, written as soon as it is known.

DIR/study.json   what the rows share: suite, noise, samples, seed, limit; machine and versions
DIR/rows.jsonl   one row for each system and method
DIR/summary.md   the tables (see `summary`)

Every study runs its tasks through `Rows.run`, so that each one resumes, and turns failures into
rows, in the same way.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from odediscovery.errors import InputError
from odediscovery.runtime.arrays import Array
from odediscovery.runtime.files import write_whole
from odediscovery.runtime.monitor import Monitor, on_processor_time
from odediscovery.runtime.versions import versions
from odediscovery.runtime.workers import Backend, Failure

Row: TypeAlias = dict[str, Any]

# By how much other work may slow a task down, and wall-clock seconds beyond that, before it is killed: before a
# fit data are made, behind it equations are scored.
SLOWED, GRACE = 4.0, 60.0
# Seconds that git may take to name a commit.
GIT_SECONDS = 10.0
# Digits of a commit that name it.
COMMIT_DIGITS = 7

# The columns of a suite: `failed` is the reason why there are no scores, `outcome` how the search
# ended, `recon` and `gen` are None where the equations cannot be integrated, `recon_front` is the best
# `recon` of all laws that the method offers, None where it offers one; `complexity` counts nodes of the
# expression trees, `seconds` are the processor's in the method.
COLUMNS = (
    "id",
    "method",
    "states",
    "representation",
    "failed",
    "outcome",
    "recon",
    "recon_front",
    "gen",
    "exact",
    "coef",
    "complexity",
    "seconds",
    "equations",
)


class Rows:
    """The rows of one folder.

    Args:
        folder: made by `claim`.
        rows: those that it holds.
    """

    def __init__(self, folder: Path, rows: list[Row]) -> None:
        self._file, self._rows = folder / "rows.jsonl", rows
        self._done = {(row["id"], row["method"]) for row in rows}

    @classmethod
    def claim(cls, folder: Path, study: dict[str, Any], columns: Sequence[str] = COLUMNS) -> Rows:
        """Make the folder ours, or find in it the same study begun before.

        Args:
            study: what all rows share.
            columns: the keys of a row; a line with any other keys is not a row.

        Raises:
            InputError: the folder holds another study or something else, or cannot be written.
        """
        claim_folder(folder, study)
        try:
            rows, whole = _read(folder / "rows.jsonl", columns)
            if not whole:
                # A line that was cut short would swallow the next one.
                text = "".join(json.dumps(row) + "\n" for row in rows)
                write_whole(folder / "rows.jsonl", text.encode())
        except OSError as error:
            raise InputError(f"--out {folder}: cannot be written ({error.strerror})") from error
        return cls(folder, rows)

    @property
    def all(self) -> list[Row]:
        """All rows, in the order in which they were done."""
        return list(self._rows)

    def has(self, id: str, method: str) -> bool:
        """Whether this method has done this system."""
        return (id, method) in self._done

    def add(self, row: Row) -> None:
        """Keep a row, on disk first; of a system done twice the first row stays."""
        if self.has(row["id"], row["method"]):
            return
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row, allow_nan=False) + "\n")
        self._rows.append(row)
        self._done.add((row["id"], row["method"]))

    def run(
        self,
        name: str,
        function: Callable[[Any], Row],
        tasks: Sequence[Any],
        *,
        blank: Callable[[Any], Row],
        in_words: Callable[[Row], str],
        limit: float,
        backend: Backend,
        monitor: Monitor | None,
        say: Callable[[str], None],
    ) -> None:
        """Run tasks and keep each row as soon as it is known; a failure is a row with its reason.

        Args:
            name: of the stage, for the progress.
            function: the row of a task.
            blank: the row of a task that has no result.
            in_words: a row for a person who watches.
            limit: seconds of the processor that a task should take at most; it is killed after `kill_after` of
                the wall's.
            backend: where the tasks run.
            monitor: hears the progress and can stop the work.
            say: hears one line for each row.
        """
        monitor = monitor or Monitor()
        monitor.stage(name, len(tasks))
        ended = backend.results(partial(_on_processor_time, function), tasks, kill_after(limit), monitor.stopping)
        for done, (number, row) in enumerate(ended, start=1):
            if isinstance(row, Failure):
                row = blank(tasks[number]) | {"failed": row.reason, "seconds": row.seconds}
            self.add(row)
            monitor.step(done)
            say(f"{done} of {len(tasks)}  {in_words(row)}")


def kill_after(limit: float) -> float:
    """Wall-clock seconds after which a task is killed that should have ended by itself.

    Args:
        limit: seconds of the processor that it should take at most.

    >>> kill_after(60.0)
    300.0
    """
    return SLOWED * limit + GRACE


def _on_processor_time(function: Callable[[Any], Row], task: Any) -> Row:
    """The row of a task whose limits count seconds of the processor, so that neighbours do not shorten it."""
    with on_processor_time():
        return function(task)


def processor_seconds(began: float) -> float:
    """Seconds of the processor since then, as rows have them: to a millisecond.

    Args:
        began: of `time.process_time`.
    """
    return round(time.process_time() - began, 3)


def reason_of(error: Exception) -> str:
    """The kind of an error and what it says, in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def commit_of(path: Path) -> str:
    """The first digits of the last commit that changed a file or folder of a checkout; nothing elsewhere."""
    command = ["git", "-C", str(path.parent), "log", "-1", "--format=%H", "--", path.name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=GIT_SECONDS, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    # cut here: git's own short form grows with the repository, and a kept row would change its name
    return done.stdout.strip()[:COMMIT_DIGITS] if done.returncode == 0 else ""


def provenance() -> dict[str, Any]:
    """The machine and the versions that a measurement was made with."""
    commit = commit_of(Path(__file__).parent.parent)
    return {
        **({"commit": commit} if commit else {}),
        "machine": {
            "processor": platform.machine(),
            "cores": os.cpu_count(),
            "reference_seconds": round(reference_seconds(), 4),
        },
        "versions": versions(),
    }


def reference_seconds() -> float:
    """Processor seconds of 1,000 Runge-Kutta steps of the Lorenz system, the best of fifteen runs.

    Machines differ threefold, which this tells roughly: it is taken once, where a study begins.

    >>> 0.0 < reference_seconds() < 10.0
    True
    """

    # Written out: a better stepper of the package must not move the unit.
    def rhs(x: Array) -> Array:
        return np.array((10.0 * (x[1] - x[0]), x[0] * (28.0 - x[2]) - x[1], x[0] * x[1] - 8.0 / 3.0 * x[2]))

    def once() -> float:
        began, x, step = time.process_time(), np.ones(3), 0.01
        for _ in range(1000):
            a = rhs(x)
            b = rhs(x + 0.5 * step * a)
            c = rhs(x + 0.5 * step * b)
            x = x + step / 6.0 * (a + 2.0 * (b + c) + rhs(x + step * c))
        return time.process_time() - began

    return min(once() for _ in range(15))


def claim_folder(folder: Path, study: dict[str, Any]) -> None:
    """Make a folder ours with its study.json, or find in it the same study begun before.

    Raises:
        InputError: the folder holds another study or something else, or cannot be written.
    """
    about = folder / "study.json"
    if about.is_file():
        _check_same(folder, study)
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


def _check_same(folder: Path, study: dict[str, Any]) -> None:
    try:
        before = json.loads((folder / "study.json").read_text(encoding="utf-8"))
        other = {key: before.get(key) for key, value in study.items() if before.get(key) != value}
    except (OSError, ValueError, AttributeError, RecursionError):
        raise InputError(
            f"--out {folder}: its study.json is no study of bench or reproduce; choose a new folder"
        ) from None
    if other:
        had = ", ".join(f"{key} {value}" for key, value in other.items())
        asked = ", ".join(f"{key} {study[key]}" for key in other)
        raise InputError(
            f"--out {folder}: it holds another study ({had}; asked for: {asked}); "
            "choose a new folder or ask for the same"
        )


def _read(file: Path, columns: Sequence[str]) -> tuple[list[Row], bool]:
    """The rows of a file, and whether all of it was rows."""
    if not file.is_file():
        return [], True
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
    rows = []
    for line in lines:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        named = isinstance(row, dict) and all(isinstance(row.get(key), str | int) for key in ("id", "method"))
        if line.endswith("\n") and named and set(columns) == set(row):
            rows.append(row)
    return rows, len(rows) == len(lines)
