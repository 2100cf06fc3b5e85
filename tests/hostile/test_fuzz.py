"""The two readers, of tables and of result folders, on whatever bytes hypothesis thinks of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from corpus import ENDINGS, LENGTHS, NAMES, PIECES, PLACES, TABLES, check_folder, check_table, kept, said_of
from hypothesis import HealthCheck, given, settings
from hypothesis.database import DirectoryBasedExampleDatabase

# What has failed once is tried first, for as long as the folder is kept.
CORPUS = DirectoryBasedExampleDatabase(Path(__file__).parents[2] / ".hypothesis" / "examples")
FEW = settings(max_examples=60, deadline=None, database=CORPUS, suppress_health_check=list(HealthCheck))
MANY = settings(FEW, max_examples=3000)


@pytest.mark.slow
@pytest.mark.parametrize("entry", kept(), ids=lambda entry: entry.get("name", entry.get("ending")))
def test_the_kept_corpus_is_read_or_refused_in_one_line(entry: dict[str, Any]) -> None:
    said_of(entry)


@pytest.mark.slow
@FEW
@given(TABLES, ENDINGS)
def test_any_bytes_are_a_table_or_one_line(content: bytes, ending: str) -> None:
    check_table(content, ending)


@pytest.mark.slow
@FEW
@given(NAMES, PLACES, PIECES, LENGTHS)
def test_any_damage_is_a_result_or_one_line(name: str, at: float, piece: bytes, dropped: int) -> None:
    check_folder(name, at, piece, dropped)


@pytest.mark.accept
@MANY
@given(TABLES, ENDINGS)
def test_thousands_of_tables(content: bytes, ending: str) -> None:
    check_table(content, ending)


@pytest.mark.accept
@MANY
@given(NAMES, PLACES, PIECES, LENGTHS)
def test_thousands_of_folders(name: str, at: float, piece: bytes, dropped: int) -> None:
    check_folder(name, at, piece, dropped)
