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


OF_TORCH = RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("raised", "code", "expected"),
    [
        (FitError("no equations could be\nintegrated"), 1, "error: no equations could be integrated\n"),
        (MemoryError(), 2, "error: out of memory; ask for fewer samples or members"),
        (OF_TORCH, 2, "error: out of memory; ask for fewer samples or members"),
        (RuntimeError("a fault"), None, ""),  # of ours is no mistake of the user
    ],
)
def test_what_a_fit_raises_ends_in_one_line(
    raised: Exception,
    code: int | None,
    expected: str,
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def discover(*_: object) -> None:
        raise raised

    monkeypatch.setattr("odediscovery.discovery.discover.discover", discover)
    (place / "data.csv").write_text(GOOD)
    if code is None:
        with pytest.raises(RuntimeError, match="a fault"):
            main(["fit", "data.csv", "--quiet"])
        return
    assert complaint(["fit", "data.csv", "--quiet"], capsys, code).startswith(expected)


OTHERS: list[tuple[str, str]] = [
    ("fit missing.csv", "missing.csv"),
    ("fit mine", "mine"),
    ("fit", "DATA.csv"),
    ("fitt", "'fit'"),
    ("simulate fsri", "did you mean 'fsir'"),
    ("simulate", "SYSTEM"),
    ("simulate fsir --set betta=1", "did you mean 'beta'"),
    ("simulate fsir --set beta=fast", "--set expects NAME=NUMBER"),
    ("simulate fsir --samples 1", "samples"),
    ("simulate fsir --out mine", "--out mine"),
    ("simulate fsir --out mine/thesis.txt/a.csv", "--out"),
    *((f"{command} {folder}", folder) for command in ("show", "predict") for folder in ("none", "mine/thesis.txt")),
    ("predict found --initial Z=1", "unknown state 'Z'"),
    ("predict found --initial S=lots", "--initial expects NAME=NUMBER, got 'S=lots'"),
    ("predict found --until -1", "--until"),
    ("predict found --until 1e12", "rows"),
    ("predict found --until 5 --times times.csv", "together"),
    ("predict found --times none.csv", "--times none.csv"),
    ("predict found --times mine", "--times mine"),
    ("predict found --times words.csv", "row 3"),
    ("predict found --times back.csv", "increase"),
]


@pytest.mark.parametrize(("call", "expected"), OTHERS)
def test_other_commands_refuse(found: Path, call: str, expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in {"times.csv": "t\n1\n2\n", "words.csv": "t\n1\ntwo\n", "back.csv": "2\n1\n"}.items():
        Path(name).write_text(text)
    assert expected in complaint(call.split(), capsys)


@pytest.mark.slow
def test_the_process_itself_exits_with_the_code(place: Path) -> None:
    command = [sys.executable, "-m", "odediscovery", "fit", "missing.csv"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1
