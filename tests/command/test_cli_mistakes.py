"""A person's mistake ends in one line on standard error, exit code 2, and nothing written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from faces import discovery

from odediscovery.command.cli import main
from odediscovery.errors import FitError

GOOD = "t,S,I\n" + "".join(f"{k},{100 - k},{k + 1}\n" for k in range(12))

# name of the case: (content of data.csv, further arguments of fit, what the message says)
FIT: dict[str, tuple[str | bytes, list[str], str]] = {
    "empty file": ("", [], "empty"),
    "binary garbage": (bytes(range(256)) * 8, [], "data.csv"),
    "not UTF-8": ("t,S\n0,1\n1,é\n".encode("latin-1"), [], "UTF-8"),
    "text in a cell": (GOOD + "12,many,3\n", [], "'many'"),
    "time goes back": (GOOD + "3,1,3\n", [], "line 14"),
    "unknown part of a column": (GOOD, ["--column", "R=S+deaths"], "unknown column 'deaths'"),
    "a column without a name": (GOOD, ["--column", "S+I"], "--column expects NAME=SUM OF COLUMNS"),
    "too few samples": ("t,S\n0,1\n1,2\n", [], "at least"),
    "unknown state": (GOOD, ["--states", "S,Infected"], "unknown state 'Infected'"),
    "unknown group": (GOOD, ["--group", "run"], "'run'"),
    "no members": (GOOD, ["--members", "0", "--no-grow"], "leaves nothing to start from"),
    "no time": (GOOD, ["--max-seconds", "0"], "--max-seconds must be positive"),
    "unknown recipe": (GOOD, ["--recipe", "defualt"], "did you mean 'default'"),
    "unknown option": (GOOD, ["--memberz", "3"], "--memberz"),
    "two files": (GOOD, ["other.csv"], "other.csv"),
    "out is a file": (GOOD, ["--out", "data.csv"], "choose a folder"),
    "out below a file": (GOOD, ["--out", "data.csv/below"], "cannot be written"),
    "out is another's folder": (GOOD, ["--out", "mine"], "holds something else"),
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a folder that is not ours."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.txt").write_text("years of work")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def found(place: Path) -> Path:
    discovery().save(place / "found")
    return place / "found"


def complaint(arguments: list[str], capsys: pytest.CaptureFixture[str], code: int = 2) -> str:
    """The one line that `arguments` end in; nothing is printed and no file appears or changes."""
    before = {p: p.read_bytes() for p in Path().rglob("*") if p.is_file()}
    assert main(arguments) == code
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("error: ") and shown.err.count("\n") == 1, shown.err
    assert {p: p.read_bytes() for p in Path().rglob("*") if p.is_file()} == before
    return shown.err


@pytest.mark.slow
@pytest.mark.parametrize("case", FIT)
def test_fit_refuses(place: Path, case: str, capsys: pytest.CaptureFixture[str]) -> None:
    content, arguments, expected = FIT[case]
    data = content if isinstance(content, bytes) else content.encode()
    (place / "data.csv").write_bytes(data)
    assert expected in complaint(["fit", "data.csv", *arguments], capsys)


def test_fit_refuses_what_is_no_file(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "missing.csv" in complaint(["fit", "missing.csv"], capsys)
    assert "mine" in complaint(["fit", "mine"], capsys)
    assert "DATA.csv" in complaint(["fit"], capsys)


@pytest.mark.slow
def test_a_fit_that_could_not_be_done_exits_with_1(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def discover(*_: object) -> None:
        raise FitError("no equations could be\nintegrated")

    monkeypatch.setattr("odediscovery.discovery.discover.discover", discover)
    (place / "data.csv").write_text(GOOD)
    shown = complaint(["fit", "data.csv", "--quiet"], capsys, code=1)
    assert shown == "error: no equations could be integrated\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    "raised", [MemoryError(), RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to")]
)
def test_too_little_memory_ends_in_one_line(
    raised: Exception, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def discover(*_: object) -> None:
        raise raised

    monkeypatch.setattr("odediscovery.discovery.discover.discover", discover)
    (place / "data.csv").write_text(GOOD)
    shown = complaint(["fit", "data.csv", "--quiet"], capsys)
    assert shown.startswith("error: out of memory; ask for fewer samples or members")


@pytest.mark.slow
def test_a_fault_of_ours_is_no_mistake_of_the_user(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def discover(*_: object) -> None:
        raise RuntimeError("a fault")

    monkeypatch.setattr("odediscovery.discovery.discover.discover", discover)
    (place / "data.csv").write_text(GOOD)
    with pytest.raises(RuntimeError, match="a fault"):
        main(["fit", "data.csv", "--quiet"])


SIMULATE: dict[str, tuple[list[str], str]] = {
    "unknown system": (["fsri"], "did you mean 'fsir'"),
    "no system": ([], "SYSTEM"),
    "unknown parameter": (["fsir", "--set", "betta=1"], "did you mean 'beta'"),
    "no number": (["fsir", "--set", "beta=fast"], "--set expects NAME=NUMBER"),
    "one sample": (["fsir", "--samples", "1"], "samples"),
    "out is a folder": (["fsir", "--out", "mine"], "--out mine"),
    "out below a file": (["fsir", "--out", "mine/thesis.txt/a.csv"], "--out"),
}


@pytest.mark.parametrize("case", SIMULATE)
def test_simulate_refuses(place: Path, case: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments, expected = SIMULATE[case]
    assert expected in complaint(["simulate", *arguments], capsys)


PREDICT: dict[str, tuple[list[str], str]] = {
    "unknown state": (["--initial", "Z=1"], "unknown state 'Z'"),
    "no number": (["--initial", "S=lots"], "--initial expects NAME=NUMBER, got 'S=lots'"),
    "until before the start": (["--until", "-1"], "--until"),
    "until far away": (["--until", "1e12"], "rows"),
    "until and times": (["--until", "5", "--times", "times.csv"], "together"),
    "no such times": (["--times", "none.csv"], "--times none.csv"),
    "times are a folder": (["--times", "mine"], "--times mine"),
    "times are words": (["--times", "words.csv"], "row 3"),
    "times go back": (["--times", "back.csv"], "increase"),
}


@pytest.mark.parametrize("case", PREDICT)
def test_predict_refuses(found: Path, case: str, capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in {"times.csv": "t\n1\n2\n", "words.csv": "t\n1\ntwo\n", "back.csv": "2\n1\n"}.items():
        Path(name).write_text(text)
    arguments, expected = PREDICT[case]
    assert expected in complaint(["predict", "found", *arguments], capsys)


@pytest.mark.parametrize("command", ["show", "predict"])
@pytest.mark.parametrize("folder", ["none", "mine", "mine/thesis.txt"])
def test_no_result_there(place: Path, command: str, folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert folder in complaint([command, folder], capsys)


def test_unknown_command(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "'fit'" in complaint(["fitt"], capsys)


@pytest.mark.slow
def test_the_process_itself_exits_with_the_code(place: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "odediscovery", "fit", "missing.csv"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1
