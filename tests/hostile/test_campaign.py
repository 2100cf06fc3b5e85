"""The campaign: generated cases in classes, each seeded, each of which has to keep the promise.

A sample runs in `make test`, all of them in `make accept`.
"""

import batches
import calls
import folders
import names
import programs
import pytest
import tables

# Class of cases: what runs one seed, how many seeds in all, how many of them in `make test`.
CLASSES = {
    "tampered result.json": (folders.tampered_document, 400, 3),
    "damaged bytes in a folder": (folders.damaged_file, 200, 4),
    "tampered archives": (folders.tampered_archive, 200, 4),
    "tampered data and log": (folders.tampered_lines, 150, 3),
    "hostile names": (names.hostile_names, 167, 1),
    "damaged tables": (tables.fitted_damage, 150, 2),
    "damaged batches of reproduce": (batches.damaged_batch, 150, 3),
    "damaged rows of bench": (batches.damaged_rows, 150, 3),
    "odd small tables": (tables.fitted_oddity, 200, 1),
    "little time": (programs.little_time, 80, 1),
    "thousands of columns": (programs.wide_tables, 8, 0),
    "two fits into one folder": (programs.two_fits, 12, 0),
    "reproduce killed in the middle": (programs.killed_reproduce, 8, 0),
    "hostile options": (calls.hostile_options, 300, 4),
    "foreign encodings": (calls.foreign_encoding, 150, 3),
    "broken streams": (calls.broken_streams, 48, 0),
    "signals at any moment": (calls.signal_at_any_moment, 24, 0),
    "odd arrays": (calls.odd_arrays, 200, 3),
}


@pytest.mark.parametrize("part", ["sample", pytest.param("rest", marks=pytest.mark.accept)])
@pytest.mark.parametrize("name", CLASSES)
def test_the_promise_is_kept(name, part, tmp_path, monkeypatch):
    keep, count, sample = CLASSES[name]
    for seed in range(sample) if part == "sample" else range(sample, count):
        (tmp_path / str(seed)).mkdir()
        monkeypatch.chdir(tmp_path / str(seed))
        try:
            keep(seed)
        except BaseException as error:
            error.add_note(f"seed {seed} of {name}")
            raise
