"""The campaign: generated cases in classes, each seeded, each of which has to keep the promise.

A sample runs in `make test`, all of them in `make accept`; the matrix of classes is printed at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import batches
import calls
import folders
import names
import programs
import pytest
import tables

# Class of cases: what runs one seed, how many seeds in all, how many of them in `make test`.
CLASSES: dict[str, tuple[Callable[[int], None], int, int]] = {
    "tampered result.json": (folders.tampered_document, 400, 12),
    "damaged bytes in a folder": (folders.damaged_file, 200, 10),
    "tampered archives": (folders.tampered_archive, 200, 8),
    "tampered data and log": (folders.tampered_lines, 150, 7),
    "hostile names": (names.hostile_names, 167, 2),
    "damaged tables": (tables.fitted_damage, 150, 4),
    "damaged batches of reproduce": (batches.damaged_batch, 150, 7),
    "damaged rows of bench": (batches.damaged_rows, 150, 7),
    "odd small tables": (tables.fitted_oddity, 200, 6),
    "little time": (programs.little_time, 80, 3),
    "thousands of columns": (programs.wide_tables, 8, 0),
    "two fits into one folder": (programs.two_fits, 12, 0),
    "dying workers": (programs.dying_workers, 12, 1),
    "reproduce killed in the middle": (programs.killed_reproduce, 8, 0),
    "bench killed in the middle": (programs.killed_bench, 8, 0),
    "hostile options": (calls.hostile_options, 300, 8),
    "foreign encodings": (calls.foreign_encoding, 150, 8),
    "broken streams": (calls.broken_streams, 48, 0),
    "signals at any moment": (calls.signal_at_any_moment, 24, 0),
    "odd arrays": (calls.odd_arrays, 200, 8),
}


def _cases() -> Iterator[object]:
    for name, (_, count, sample) in CLASSES.items():
        for seed in range(count):
            marks = () if seed < sample else (pytest.mark.accept,)
            yield pytest.param(name, seed, id=f"{name.replace(' ', '-')}-{seed}", marks=marks)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "seed"), list(_cases()))
def test_the_promise_is_kept(
    name: str,
    seed: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
) -> None:
    record_property("hostile class", name)
    monkeypatch.chdir(tmp_path)
    CLASSES[name][0](seed)
