"""The command does what its help says: fit, simulate, predict, show."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from faces import AWKWARD, awkward, discovery

import odediscovery
from odediscovery.command.cli import main
from odediscovery.data.series import TimeSeries, write_csv
from odediscovery.laws.power_sum import PowerSum
from odediscovery.result.discovery import Discovery
from odediscovery.runtime.monitor import Monitor
from odediscovery.settings import Settings

RESULT_FILES = {"result.json", "equations.tex", "model.npz", "covariance.npz", "data.csv", "log.jsonl", "report.html"}
RESULT_FILES |= {"fit.png", "pareto.png", "weights.png", "checks.png"}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cli") / "found"
    discovery().save(folder)
    return folder


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A CSV in an empty working directory."""
    monkeypatch.chdir(tmp_path)
    write_csv(discovery().series, tmp_path / "sir.csv")
    return tmp_path / "sir.csv"


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> list[tuple[TimeSeries, Settings]]:
    """`discover` replaced by one that answers at once; the list holds what it was asked."""
    calls: list[tuple[TimeSeries, Settings]] = []

    def discover(series: TimeSeries, settings: Settings, monitor: Monitor) -> Discovery:
        calls.append((series, settings))
        monitor.stage("train", 10)
        monitor.step(5, 0.25)
        return dataclasses.replace(discovery(), series=series, settings=settings)

    monkeypatch.setattr("odediscovery.discovery.discover.discover", discover)
    return calls


def table(text: str) -> tuple[list[str], np.ndarray]:
    rows = list(csv.reader(io.StringIO(text)))
    return rows[0], np.array([[float(cell or "nan") for cell in row] for row in rows[1:]])


def test_public_names_are_where_they_say() -> None:
    for name in odediscovery.__all__:
        assert getattr(odediscovery, name) is not None, name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = odediscovery.nothing


@pytest.mark.slow
def test_fit_prints_and_writes(
    data: Path, engine: list[tuple[TimeSeries, Settings]], capsys: pytest.CaptureFixture[str]
) -> None:
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


@pytest.mark.long
def test_quiet_is_silent_and_out_is_obeyed(
    data: Path, engine: list[object], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fit", "sir.csv", "--quiet", "--out", "new/folder"]) == 0
    assert capsys.readouterr().err == ""
    assert (data.parent / "new/folder/result.json").is_file()
    # A folder of ours is written again.
    assert main(["fit", "sir.csv", "--quiet", "--out", "new/folder"]) == 0


@pytest.mark.slow
@pytest.mark.parametrize("signals", [1, 2])
def test_ctrl_c_keeps_the_best_so_far_and_a_second_one_ends_at_once(
    data: Path, signals: int, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def discover(series: TimeSeries, settings: Settings, monitor: Monitor) -> Discovery:
        for _ in range(signals):
            os.kill(os.getpid(), signal.SIGINT)
        assert monitor.stopping() == "interrupted"
        return dataclasses.replace(discovery(), outcome="stopped", messages=("stopped",))

    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr("odediscovery.discovery.discover.discover", discover)
    assert main(["fit", "sir.csv"]) == (0 if signals == 1 else 130)
    shown = capfd.readouterr()
    assert "once more" in shown.err and signal.getsignal(signal.SIGINT) is before
    if signals == 1:
        assert "the best so far is written to sir.odediscovery" in shown.out
        assert Discovery.load("sir.odediscovery").outcome == "stopped"
    else:
        assert shown.err.endswith("error: interrupted\n") and not Path("sir.odediscovery").exists()


def test_simulate_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "fsir"]) == 0
    header, values = table(capsys.readouterr().out)
    assert header == ["t", "S", "I", "R"] and values.shape == (40, 4)
    assert values[0].tolist() == [0.0, 100.0, 0.01, 0.0] and values[-1, 0] == 200.0


def test_simulate_obeys_its_options(capsys: pytest.CaptureFixture[str]) -> None:
    fsir, runs = ["simulate", "fsir", "--samples", "7", "--until", "50", "--set", "beta=0.1", "--set", "S=90"], []
    for more in ([], *(["--noise", "0.05", "--seed", seed] for seed in ("1", "1", "2"))):
        assert main([*fsir, *more]) == 0
        runs.append(table(capsys.readouterr().out)[1])
    clean, first, again, other = runs
    assert clean.shape == (7, 4) and clean[-1, 0] == 50.0 and clean[0, 1] == 90.0
    np.testing.assert_array_equal(first, again)
    assert np.any(first != other) and np.any(first != clean)


def test_predict_repeats_the_fit(found: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", str(found)]) == 0
    header, values = table(capsys.readouterr().out)
    expected = discovery()
    assert header == ["t", "S", "I", "R"]
    np.testing.assert_array_equal(values[:, 0], expected.series.trajectories[0].time)
    np.testing.assert_allclose(values[:, 1:], expected.simulate(), rtol=1e-6, atol=1e-9)


def test_predict_elsewhere(found: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", str(found), "--until", "300", "--initial", "I=2, S=50"]) == 0
    _, values = table(capsys.readouterr().out)
    assert values[0].tolist() == [0.0, 50.0, 2.0, 0.0] and values[-1, 0] == 300.0
    times = tmp_path / "times.csv"
    for content in ("t\n10\n20.5\n", "10\n20.5\n", "x,t\n1,10\n2,20.5\n"):
        times.write_text(content)
        assert main(["predict", str(found), "--times", str(times)]) == 0
        assert table(capsys.readouterr().out)[1][:, 0].tolist() == [10.0, 20.5]


@pytest.mark.slow
def test_a_solution_that_blows_up_leaves_empty_cells(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    square = PowerSum(np.array([[1.0]]), np.array([[2.0]]))
    discovery(square, ("x",), until=0.5, initial=(1.0,)).save(tmp_path / "found")
    assert main(["predict", str(tmp_path / "found"), "--until", "3"]) == 0
    shown = capsys.readouterr()
    assert "grows without bound" in shown.err
    _, values = table(shown.out)
    assert np.isnan(values[-1, 1]) and values[0, 1] == 1.0


def test_show_json_is_the_file(found: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(found), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads((found / "result.json").read_text())


def test_awkward_names_print_as_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "reader", "shown"), [("simulate fsir --samples 20000", "head -1", "t,S,I,R\n"), ("show {}", "true", "")]
)
def test_a_closed_pipe_ends_quietly(found: Path, command: str, reader: str, shown: str) -> None:
    call = f"'{sys.executable}' -m odediscovery {command.format(found)} | {reader}"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", call], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, shown, "")


@pytest.mark.slow
def test_a_pipe_is_written_to_and_a_link_stays_one(tmp_path: Path) -> None:
    simulate = ["simulate", "fsir", "--samples", "5", "--out"]
    command = [sys.executable, "-m", "odediscovery", *simulate, "/dev/stdout"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0 and done.stdout.startswith("t,S,I,R\n")
    (tmp_path / "link.csv").symlink_to(tmp_path / "real.csv")
    assert main([*simulate, str(tmp_path / "link.csv")]) == 0
    assert (tmp_path / "link.csv").is_symlink() and (tmp_path / "real.csv").is_file()
