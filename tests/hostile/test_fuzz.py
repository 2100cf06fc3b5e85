"""The two readers, of tables and of result folders, on whatever bytes hypothesis thinks of, and on those kept of it.

For everything that a reader has to say, `corpus.jsonl` has the shortest bytes seen that make it say so. What once
broke a reader is added by hand, as a line of the same form.
"""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import folders
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.database import DirectoryBasedExampleDatabase

from odediscovery import Discovery, InputError, load_csv

KEPT = Path(__file__).with_name("corpus.jsonl")

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
ENDINGS = st.sampled_from([".csv", ".tsv", ".xlsx", ".xls", ".parquet"])
NAMES = st.sampled_from(["result.json", "model.npz", "covariance.npz", "data.csv", "log.jsonl"])
PIECES = st.one_of(st.binary(max_size=12), st.sampled_from([b"null", b"-1", b"1e999", b"[", b"{}", b'"', b"nan,"]))
PLACES, LENGTHS = st.floats(0.0, 1.0), st.integers(0, 40)


def check_table(content, ending):
    """What is said of a table, in one line; nothing where it is read."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"table{ending}"
        path.write_bytes(content)
        try:
            series = load_csv(path)
        except InputError as error:
            assert "\n" not in str(error)
            return str(error)
        assert series.n_states and series.n_samples >= 4
        return ""


def check_folder(name, at, piece, dropped):
    """What is said of a damaged folder, in one line; nothing where it is read."""
    with TemporaryDirectory() as above:
        folder = Path(above) / "found"
        folder.mkdir()
        for path in folders.whole("hand").iterdir():
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
            return str(error)
        assert found.equations.states == found.series.states
        return ""


def said_of(entry):
    """What is said of a table or a damaged folder of the kept corpus."""
    if "content" in entry:
        return check_table(entry["content"].encode("latin-1"), entry["ending"])
    return check_folder(entry["name"], entry["at"], entry["piece"].encode("latin-1"), entry["dropped"])


def kept():
    """Tables as {"ending", "content"}, damages of a folder as {"name", "at", "piece", "dropped"}; bytes in Latin-1."""
    return [json.loads(line) for line in KEPT.read_text(encoding="ascii").splitlines()] if KEPT.exists() else []


# What has failed once is tried first, for as long as the folder is kept.
EXAMPLES = DirectoryBasedExampleDatabase(Path(__file__).parents[2] / ".hypothesis" / "examples")
FEW = settings(max_examples=60, deadline=None, database=EXAMPLES, suppress_health_check=list(HealthCheck))
MANY = settings(FEW, max_examples=3000)


@pytest.mark.parametrize("entry", kept(), ids=lambda entry: entry.get("name", entry.get("ending")))
def test_the_kept_corpus_is_read_or_refused_in_one_line(entry):
    said_of(entry)


@FEW
@given(TABLES, ENDINGS)
def test_any_bytes_are_a_table_or_one_line(content, ending):
    check_table(content, ending)


@FEW
@given(NAMES, PLACES, PIECES, LENGTHS)
def test_any_damage_is_a_result_or_one_line(name, at, piece, dropped):
    check_folder(name, at, piece, dropped)


@pytest.mark.accept
@MANY
@given(TABLES, ENDINGS)
def test_thousands_of_tables(content, ending):
    check_table(content, ending)


@pytest.mark.accept
@MANY
@given(NAMES, PLACES, PIECES, LENGTHS)
def test_thousands_of_folders(name, at, piece, dropped):
    check_folder(name, at, piece, dropped)
