"""The two readers, of tables and of result folders, on whatever bytes hypothesis thinks of."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import folders
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.database import DirectoryBasedExampleDatabase

from odediscovery.data.series import load_csv
from odediscovery.errors import InputError
from odediscovery.result.discovery import Discovery

# What has failed once is tried first, for as long as the folder is kept.
CORPUS = DirectoryBasedExampleDatabase(Path(__file__).parents[2] / ".hypothesis" / "examples")
FEW = settings(max_examples=60, deadline=None, database=CORPUS, suppress_health_check=list(HealthCheck))
MANY = settings(FEW, max_examples=3000)

CELLS = st.sampled_from(
    ["", "1", "-2.5", "1e308", "nan", "inf", "2020-01-01", "x", '"', "a b", "1,5", "\x00", "\ufeff"]
)
TABLES = st.one_of(
    st.binary(max_size=200),
    st.text(max_size=200).map(lambda text: text.encode(errors="surrogatepass")),
    st.lists(st.lists(CELLS, min_size=1, max_size=4), max_size=8).map(
        lambda rows: "\n".join(["t,x,y", *(",".join(row) for row in rows)]).encode()
    ),
)


def check_table(content: bytes, ending: str) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"table{ending}"
        path.write_bytes(content)
        try:
            series = load_csv(path)
        except InputError as error:
            assert "\n" not in str(error)
        else:
            assert series.n_states and series.n_samples >= 4


def check_folder(name: str, at: float, piece: bytes, dropped: int) -> None:
    with TemporaryDirectory() as above:
        folder = Path(above) / "found"
        folder.mkdir()
        for path in folders.whole_folders()[0].iterdir():
            (folder / path.name).write_bytes(path.read_bytes())
        content = (folder / name).read_bytes()
        k = int(at * len(content))
        (folder / name).write_bytes(content[:k] + piece + content[k + dropped :])
        if name != "result.json":
            folders.signed(folder)
        try:
            found = Discovery.load(folder)
        except InputError as error:
            assert "\n" not in str(error)
        else:
            assert found.equations.states == found.series.states


NAMES = st.sampled_from(["result.json", "model.npz", "covariance.npz", "data.csv", "log.jsonl"])
PIECES = st.one_of(st.binary(max_size=12), st.sampled_from([b"null", b"-1", b"1e999", b"[", b"{}", b'"', b"nan,"]))
PLACES, LENGTHS = st.floats(0.0, 1.0), st.integers(0, 40)


@FEW
@given(TABLES, st.sampled_from([".csv", ".tsv", ".xlsx", ".xls"]))
def test_any_bytes_are_a_table_or_one_line(content: bytes, ending: str) -> None:
    check_table(content, ending)


@FEW
@given(NAMES, PLACES, PIECES, LENGTHS)
def test_any_damage_is_a_result_or_one_line(name: str, at: float, piece: bytes, dropped: int) -> None:
    check_folder(name, at, piece, dropped)


@pytest.mark.accept
@MANY
@given(TABLES, st.sampled_from([".csv", ".tsv", ".xlsx", ".xls", ".parquet"]))
def test_thousands_of_tables(content: bytes, ending: str) -> None:
    check_table(content, ending)


@pytest.mark.accept
@MANY
@given(NAMES, PLACES, PIECES, LENGTHS)
def test_thousands_of_folders(name: str, at: float, piece: bytes, dropped: int) -> None:
    check_folder(name, at, piece, dropped)
