"""The command does what its help says, and a mistake ends in one line, exit code 2, and nothing written."""

import csv
import dataclasses
import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from faces import AWKWARD, awkward, discovery

import odediscovery
from odediscovery import Discovery, FitError, Settings, write_csv
from odediscovery.command.cli import main
from odediscovery.laws.power_sum import PowerSum

RESULT_FILES = {"result.json", "equations.tex", "model.npz", "covariance.npz", "data.csv", "log.jsonl", "report.html"}
RESULT_FILES |= {"fit.png", "pareto.png", "weights.png", "checks.png"}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli") / "found"
    discovery().save(folder)
    return folder


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A CSV in an empty working directory."""
    monkeypatch.chdir(tmp_path)
    write_csv(discovery().series, tmp_path / "sir.csv")
    return tmp_path / "sir.csv"


@pytest.fixture
def engine(monkeypatch):
    """`discover` replaced by one that answers at once; the list holds what it was asked."""
    calls = []

    def discover(series, settings, monitor):
        calls.append((series, settings))
        monitor.stage("train", 10)
        monitor.step(5, 0.25)
        return dataclasses.replace(discovery(), series=series, settings=settings)

    monkeypatch.setattr("odediscovery.discovery.discover.discover", discover)
    return calls


def table(text):
    rows = list(csv.reader(io.StringIO(text)))
    return rows[0], np.array([[float(cell or "nan") for cell in row] for row in rows[1:]])


def test_public_names_are_where_they_say():
    for name in odediscovery.__all__:
        assert getattr(odediscovery, name) is not None, name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = odediscovery.nothing


def test_fit_prints_and_writes(data, engine, capsys):
    assert main(["fit", "sir.csv", "--states", "S, I,R", "--members", "3", "--seed", "7"]) == 0
    series, settings = engine[0]
    assert series.states == ("S", "I", "R")
    assert (settings.members, settings.seed, settings.hidden) == (3, 7, Settings().hidden)
    folder = data.parent / "sir.odediscovery"
    assert {path.name for path in folder.iterdir()} == RESULT_FILES
    shown = capsys.readouterr()
    lines = shown.out.splitlines()
    assert lines[:3] == discovery().equations_text().splitlines()
    assert "note: made by hand" in lines
    assert [line for line in lines if line.startswith("*") and " 13 " in line]
    assert lines[-1].startswith("written to sir.odediscovery")
    assert "train" in shown.err and "\x1b" not in shown.err


@pytest.mark.parametrize("signals", [1, 2])
def test_ctrl_c_keeps_the_best_so_far_and_a_second_one_ends_at_once(data, signals, monkeypatch, capfd):
    def discover(series, settings, monitor):
        for _ in range(signals):
            os.kill(os.getpid(), signal.SIGINT)
        assert monitor.stopping() == "interrupted"
        return dataclasses.replace(discovery(), outcome="stopped", messages=("stopped",))

    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr("odediscovery.command.fit._shown_in", lambda found, kinds: {})  # pictures take seconds
    monkeypatch.setattr("odediscovery.discovery.discover.discover", discover)
    assert main(["fit", "sir.csv"]) == (0 if signals == 1 else 130)
    shown = capfd.readouterr()
    assert "once more" in shown.err and signal.getsignal(signal.SIGINT) is before
    if signals == 1:
        assert "the best so far is written to sir.odediscovery" in shown.out
        assert Discovery.load("sir.odediscovery").outcome == "stopped"
    else:
        assert shown.err.endswith("error: interrupted\n") and not Path("sir.odediscovery").exists()


def test_simulate_obeys_its_options(capsys):
    fsir, runs = "simulate fsir --samples 7 --until 50 --set beta=0.1 --set S=90", []
    for more in ("", *(f" --noise 0.05 --seed {seed}" for seed in (1, 1, 2))):
        assert main((fsir + more).split()) == 0
        runs.append(table(capsys.readouterr().out)[1])
    clean, first, again, other = runs
    assert clean.shape == (7, 4) and clean[-1, 0] == 50.0 and clean[0, 1] == 90.0
    np.testing.assert_array_equal(first, again)
    assert np.any(first != other) and np.any(first != clean)


def test_predict_elsewhere(saved, tmp_path, capsys):
    assert main(["predict", str(saved), "--until", "300", "--initial", "I=2, S=50"]) == 0
    _, values = table(capsys.readouterr().out)
    assert values[0].tolist() == [0.0, 50.0, 2.0, 0.0] and values[-1, 0] == 300.0
    times = tmp_path / "times.csv"
    for content in ("t\n10\n20.5\n", "10\n20.5\n", "x,t\n1,10\n2,20.5\n"):
        times.write_text(content)
        assert main(["predict", str(saved), "--times", str(times)]) == 0
        assert table(capsys.readouterr().out)[1][:, 0].tolist() == [10.0, 20.5]


def test_a_solution_that_blows_up_leaves_empty_cells(tmp_path, capsys):
    square = PowerSum(np.array([[1.0]]), np.array([[2.0]]))
    discovery(square, ("x",), until=0.5, initial=(1.0,)).save(tmp_path / "found")
    assert main(["predict", str(tmp_path / "found"), "--until", "3"]) == 0
    shown = capsys.readouterr()
    assert "grows without bound" in shown.err
    _, values = table(shown.out)
    assert np.isnan(values[-1, 1]) and values[0, 1] == 1.0


def test_awkward_names_print_as_named(tmp_path, capsys):
    awkward().save(tmp_path / "found")
    assert main(["show", str(tmp_path / "found")]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in AWKWARD)
    for form in ("latex", "python", "julia"):
        assert main(["show", str(tmp_path / "found"), "--format", form]) == 0
    capsys.readouterr()
    assert main(["predict", str(tmp_path / "found"), "--initial", "x y=2,β=0.5,I0=0"]) == 0
    header, values = table(capsys.readouterr().out)
    assert tuple(header) == ("t", *AWKWARD)
    start = dict(zip(header, values[0], strict=True))
    assert (start["x y"], start["β"], start["I0"], start["Q"]) == (2.0, 0.5, 0.0, 1.0)


@pytest.mark.parametrize(
    ("command", "reader", "shown"), [("simulate fsir --samples 20000", "head -1", "t,S,I,R\n"), ("show {}", "true", "")]
)
def test_a_closed_pipe_ends_quietly(saved, command, reader, shown):
    call = f"'{sys.executable}' -m odediscovery {command.format(saved)} | {reader}"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", call], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, shown, "")


def test_a_pipe_is_written_to_and_a_link_stays_one(tmp_path):
    simulate = ["simulate", "fsir", "--samples", "5", "--out"]
    command = [sys.executable, "-m", "odediscovery", *simulate, "/dev/stdout"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.startswith("t,S,I,R\n")
    (tmp_path / "link.csv").symlink_to(tmp_path / "real.csv")
    assert main([*simulate, str(tmp_path / "link.csv")]) == 0
    assert (tmp_path / "link.csv").is_symlink() and (tmp_path / "real.csv").is_file()


GOOD = "t,S,I\n" + "".join(f"{k},{100 - k},{k + 1}\n" for k in range(12))

# name of the case: (content of data.csv, further arguments of fit, what the message says)
FIT = {
    "not UTF-8": ("t,S\n0,1\n1,é\n".encode("latin-1"), [], "UTF-8"),
    "time goes back": (GOOD + "3,1,3\n", [], "line 14"),
    "unknown part of a column": (GOOD, ["--column", "R=S+deaths"], "unknown column 'deaths'"),
    "unknown state": (GOOD, ["--states", "S,Infected"], "unknown state 'Infected'"),
    "unknown group": (GOOD, ["--group", "run"], "'run'"),
    "no members": (GOOD, ["--members", "0", "--no-grow"], "leaves nothing to start from"),
    "unknown recipe": (GOOD, ["--recipe", "defualt"], "did you mean 'default'"),
    "unknown option": (GOOD, ["--memberz", "3"], "--memberz"),
    "two files": (GOOD, ["other.csv"], "other.csv"),
    "out is a file": (GOOD, ["--out", "data.csv"], "choose a folder"),
    "out below a file": (GOOD, ["--out", "data.csv/below"], "cannot be written"),
    "out is another's folder": (GOOD, ["--out", "mine"], "holds something else"),
}


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A working directory with a folder that is not ours."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.txt").write_text("years of work")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def found(place):
    discovery().save(place / "found")
    return place / "found"


def complaint(arguments, capsys, code=2):
    """The one line that `arguments` end in; nothing is printed and no file appears or changes."""
    before = {p: p.read_bytes() for p in Path().rglob("*") if p.is_file()}
    assert main(arguments) == code
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("error: ") and shown.err.count("\n") == 1, shown.err
    assert {p: p.read_bytes() for p in Path().rglob("*") if p.is_file()} == before
    return shown.err


@pytest.mark.parametrize("case", FIT)
def test_fit_refuses(place, case, capsys):
    content, arguments, expected = FIT[case]
    (place / "data.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    assert expected in complaint(["fit", "data.csv", *arguments], capsys)


OF_TORCH = RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to")


@pytest.mark.parametrize(
    ("raised", "code", "expected"),
    [
        (FitError("no equations could be\nintegrated"), 1, "error: no equations could be integrated\n"),
        (MemoryError(), 2, "error: out of memory; ask for fewer samples or members"),
        (OF_TORCH, 2, "error: out of memory; ask for fewer samples or members"),
        (RuntimeError("a fault"), None, ""),  # of ours is no mistake of the user
    ],
)
def test_what_a_fit_raises_ends_in_one_line(raised, code, expected, place, monkeypatch, capsys):
    def discover(*_):
        raise raised

    monkeypatch.setattr("odediscovery.discovery.discover.discover", discover)
    (place / "data.csv").write_text(GOOD)
    if code is None:
        with pytest.raises(RuntimeError, match="a fault"):
            main(["fit", "data.csv", "--quiet"])
        return
    assert complaint(["fit", "data.csv", "--quiet"], capsys, code).startswith(expected)


OTHERS = [
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
def test_other_commands_refuse(found, call, expected, capsys):
    for name, text in {"times.csv": "t\n1\n2\n", "words.csv": "t\n1\ntwo\n", "back.csv": "2\n1\n"}.items():
        Path(name).write_text(text)
    assert expected in complaint(call.split(), capsys)
