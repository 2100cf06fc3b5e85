"""What hypothesis thinks of for the two readers, and the corpus that is kept of it.

For everything that a reader has to say, `corpus.jsonl` has the shortest bytes seen that make it say so.
`PYTHONPATH=tests python tests/hostile/corpus.py` lets hypothesis think of some thousands more and keeps what is
new or shorter. What once broke a reader is added by hand, as a line of the same form.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import folders
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from odediscovery.data.series import load_csv
from odediscovery.errors import InputError
from odediscovery.result.discovery import Discovery

KEPT = Path(__file__).with_name("corpus.jsonl")
MORE = settings(
    max_examples=3000, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
)

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


def check_table(content: bytes, ending: str) -> str:
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


def check_folder(name: str, at: float, piece: bytes, dropped: int) -> str:
    """What is said of a damaged folder, in one line; nothing where it is read."""
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
            return str(error)
        assert found.equations.states == found.series.states
        return ""


def said_of(entry: dict[str, Any]) -> str:
    """What is said of a table or a damaged folder of the kept corpus."""
    if "content" in entry:
        return check_table(entry["content"].encode("latin-1"), entry["ending"])
    return check_folder(entry["name"], entry["at"], entry["piece"].encode("latin-1"), entry["dropped"])


def kept() -> list[dict[str, Any]]:
    """Tables as {"ending", "content"}, damages of a folder as {"name", "at", "piece", "dropped"}; bytes in Latin-1."""
    return [json.loads(line) for line in KEPT.read_text(encoding="ascii").splitlines()] if KEPT.exists() else []


def kind_of(said: str) -> str:
    """What a message says, whatever the paths, names and numbers are."""
    words = re.sub(r"\S*/\S*|'(\\.|[^'])*'|\"[^\"]*\"", "", said)
    return " ".join(re.findall(r"[A-Za-z]{2,}", words)[:9])


def grow() -> None:
    """Add what says something new, and replace what can be said by less."""
    best: dict[str, dict[str, Any]] = {}

    def offer(entry: dict[str, Any]) -> None:
        kind = f"{entry.get('name', 'table')} {kind_of(said_of(entry))}"
        if kind not in best or len(json.dumps(entry)) < len(json.dumps(best[kind])):
            best[kind] = entry

    for entry in kept():
        offer(entry)

    @MORE
    @given(TABLES, ENDINGS)
    def tables(content: bytes, ending: str) -> None:
        offer({"ending": ending, "content": content.decode("latin-1")})

    @MORE
    @given(NAMES, PLACES, PIECES, LENGTHS)
    def damages(name: str, at: float, piece: bytes, dropped: int) -> None:
        offer({"name": name, "at": at, "piece": piece.decode("latin-1"), "dropped": dropped})

    tables()
    damages()
    KEPT.write_text("".join(json.dumps(best[kind]) + "\n" for kind in sorted(best)), encoding="ascii")
    print(f"{len(best)} kept")


if __name__ == "__main__":
    grow()
