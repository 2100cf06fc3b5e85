"""Rows on disk: one JSON line each, written as soon as it is known.

DIR/study.json   what the rows share: suite, noise, samples, seed, limit; machine and versions
DIR/rows.jsonl   a row a system and method
DIR/summary.md   the tables (see `summary`)
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

from odediscovery.errors import InputError
from odediscovery.runtime.files import write_whole
from odediscovery.runtime.versions import versions

Row: TypeAlias = dict[str, Any]

# What a row tells: `failed` is the reason why there are no scores, `outcome` how the search ended,
# `recon` and `gen` are None where the equations cannot be integrated, `complexity` counts nodes of
# the expression trees, `seconds` are those of the method.
COLUMNS = (
    "id",
    "method",
    "states",
    "representation",
    "failed",
    "outcome",
    "recon",
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
            columns: what a row tells; a line that tells anything else is no row.

        Raises:
            InputError: the folder holds another study or something else, or cannot be written.
        """
        about = folder / "study.json"
        if about.is_file():
            _check_same(folder, study)
        elif folder.is_dir() and any(folder.iterdir()):
            raise InputError(f"--out {folder}: a folder that holds something else; choose a new one")
        elif folder.exists() and not folder.is_dir():
            raise InputError(f"--out {folder}: a file of that name exists; choose a folder")
        document = {
            **study,
            "machine": {"processor": platform.machine(), "cores": os.cpu_count()},
            "versions": versions(),
        }
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if not about.is_file():
                write_whole(about, (json.dumps(document, indent=1) + "\n").encode())
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
        """Whether this system was done by this method."""
        return (id, method) in self._done

    def add(self, row: Row) -> None:
        """Keep a row, on disk before anything else; of a system done twice the first one."""
        if self.has(row["id"], row["method"]):
            return
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row, allow_nan=False) + "\n")
        self._rows.append(row)
        self._done.add((row["id"], row["method"]))


def _check_same(folder: Path, study: dict[str, Any]) -> None:
    try:
        before = json.loads((folder / "study.json").read_text(encoding="utf-8"))
        other = {key: before.get(key) for key, value in study.items() if before.get(key) != value}
    except (OSError, ValueError, AttributeError):
        raise InputError(f"--out {folder}: its study.json is no study of bench; choose a new folder") from None
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
        except ValueError:
            continue
        if line.endswith("\n") and isinstance(row, dict) and set(columns) == set(row):
            rows.append(row)
    return rows, len(rows) == len(lines)
