"""Benchmarks measure; these tests only see that they measure the right thing and say so."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from faces import discovery

from odediscovery.bench import peers, suites
from odediscovery.bench.rows import Row, filled
from odediscovery.bench.scores import score
from odediscovery.bench.suites import COLUMNS, study_of
from odediscovery.bench.systems import Protocol, load_suite, training_data
from odediscovery.command.cli import main
from odediscovery.data.series import TimeSeries
from odediscovery.result.discovery import Discovery
from odediscovery.runtime.monitor import Monitor
from odediscovery.settings import Settings


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["bench"], "Missing command"),
        (["bench", "sped"], "Did you mean 'speed'"),
        (["bench", "speed", "--seed", "-1"], "--seed must be at least 0, got -1"),
        (["bench", "speed", "--parts", "unit"], "did you mean 'units'?"),
        (["bench", "speed", "--parts", ","], "--parts expects names"),
        (["bench", "speed", "--max-seconds", "0"], "--max-seconds must be positive"),
        (["bench", "speed", "--out", "."], "holds something else"),
        (["bench", "speed", "--out", "file"], "a file of that name exists"),
        (["bench", "moves", "--each", "0"], "--each must be at least 1, got 0"),
        (["bench", "moves", "--names", "nothing"], "unknown move 'nothing'"),
        (["bench", "fractal"], "Known: series, moves, page, fractional, odebench, classics, random"),
        (["bench", "odebench", "--ids", "1,2"], "unknown system of odebench '2': "),
        (["bench", "odebench", "--ids", ","], "--ids expects names"),
        (["bench", "odebench", "--method", "sindy"], "did you mean 'pysindy'? Known: ours"),
        (["bench", "odebench", "--sigma", "-1"], "--sigma must be at least 0"),
        (["bench", "odebench", "--drop", "1"], "--drop must be at least 0 and below 1"),
        (["bench", "odebench", "--trajectories", "2"], "have at most 1 to train on"),
        (["bench", "odebench", "--jobs", "0"], "--jobs must be at least 1"),
        (["bench", "odebench", "--max-seconds", "0"], "--max-seconds must be positive"),
        (["bench", "odebench", "--seed", "-1"], "--seed must be at least 0"),
        (["bench", "odebench", "--out", "file"], "a file of that name exists"),
        (["bench", "odebench", "--out", "."], "holds something else"),
        (["bench", "fsir-noise", "--sigma", "-1"], "--sigma must be at least 0"),
        (["bench", "fsir-noise", "--trajectories", "6"], "at least 1 and at most 5, got 6"),
        (["bench", "fsir-noise", "--draws", "0"], "--draws must be at least 1"),
        (["bench", "fsir-noise", "--seed", "-1"], "--seed must be at least 0"),
        (["bench", "fsir-noise", "--max-seconds", "0"], "--max-seconds must be positive"),
        (["bench", "fsir-noise", "--out", "."], "holds something else"),
    ],
)
def test_mistakes_end_in_one_line_before_anything_is_measured(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("mine")
    assert main(arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == "" and shown.err.startswith("error: ") and said in shown.err
    assert shown.err.count("\n") == 1
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


# Suites


def broken(_series: TimeSeries, _settings: Settings) -> Discovery:
    raise ZeroDivisionError("a law\nof nothing")


def row_of(id: str = "torricelli_inflow", protocol: Protocol = Protocol(), max_seconds: float = 180.0) -> Row:  # noqa: B008
    study = study_of("fractional", protocol, max_seconds, {"ours": suites.ours}, ids=[id])
    return filled(study.tasks[0], COLUMNS)


@pytest.mark.slow
def test_a_row_tells_what_became_of_a_system() -> None:
    row = row_of()
    assert tuple(row) == COLUMNS and json.loads(json.dumps(row, allow_nan=False)) == row
    assert row["exact"] and row["coef"] and row["recon"] > 0.999 and row["gen"] > 0.999
    assert row["recon_front"] >= row["recon"]
    assert row["failed"] is None and row["outcome"] == "converged" and row["seconds"] > 0
    assert row["equations"]["h"].endswith("*h**0.5")


def test_a_method_sees_the_noisy_training_data_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[TimeSeries, Settings]] = []

    def watched(series: TimeSeries, settings: Settings) -> Discovery:
        seen.append((series, settings))
        return discovery()

    monkeypatch.setattr(suites, "discover", watched)
    row = row_of("sir_fractional", Protocol(0.05, 0.5, 2, 7), 12.0)
    assert row["exact"] and row["complexity"] == 31
    ((series, settings),) = seen
    assert [len(t.time) for t in series.trajectories] == [20, 20]
    assert (settings.seed, settings.max_seconds, settings.recipe) == (7, 12.0, "default")


def test_a_failure_is_a_row_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suites, "discover", broken)
    row = row_of()
    assert row["failed"] == "ZeroDivisionError: a law of nothing"
    assert row["recon"] is None and row["equations"] is None and not row["exact"]
    said = study_of("fractional", Protocol(), 9.0, {}).said(row)
    assert said.startswith("ours torricelli_inflow: failed after") and said.endswith("a law of nothing")


@pytest.mark.slow
def test_rows_are_kept_and_not_run_again(here: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "below" / "rows"
    begin = ["bench", "fractional", "--out", str(out), "--ids"]
    assert main([*begin, "torricelli_inflow"]) == 0
    shown = capsys.readouterr()
    assert "1 of 1  ours torricelli_inflow: exact" in shown.err
    assert "| ours | 1 of 25 | 1 (100%) |" in shown.out and "h' = 0.3 - 0.35*h^0.5" in shown.out
    # A line that was cut short is done again, a whole one is not.
    with (out / "rows.jsonl").open("a") as file:
        file.write('{"id": "von_bertal')
    assert main([*begin, "von_bertalanffy,torricelli_inflow", "--quiet"]) == 0
    assert [t.id for t in here] == ["torricelli_inflow", "von_bertalanffy"]
    rows = [json.loads(line) for line in (out / "rows.jsonl").read_text().splitlines()]
    assert [row["id"] for row in rows] == ["torricelli_inflow", "von_bertalanffy"]
    summary = (out / "summary.md").read_text()
    assert "2 of 25" in summary and summary in capsys.readouterr().out
    assert json.loads((out / "study.json").read_text())["versions"]
    assert sorted(p.name for p in out.iterdir()) == ["rows.jsonl", "study.json", "summary.md"]


@pytest.mark.slow
def test_a_stopped_run_keeps_what_is_done(here: list[Any], tmp_path: Path) -> None:
    ids, monitor = ["torricelli_inflow", "von_bertalanffy"], Monitor()
    study = study_of("fractional", Protocol(), 180.0, {"ours": suites.ours}, ids=ids)

    def go_on(monitor: Monitor, say: Callable[[str], None]) -> list[str]:
        return [row["id"] for row in study.run(tmp_path, monitor=monitor, say=say)]

    assert len(go_on(monitor, lambda _: monitor.interrupt())) == 1
    assert go_on(Monitor(), lambda _: None) == ["von_bertalanffy", "torricelli_inflow"]
    assert len(here) == 2


def test_another_study_in_the_folder_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "study.json").write_text(json.dumps(study_of("fractional", Protocol(), 180.0, {}).shared))
    assert main(["bench", "fractional", "--sigma", "0.1", "--out", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert "holds another study (sigma 0.0; asked for: sigma 0.1)" in said
    assert said.count("\n") == 1
    (tmp_path / "study.json").write_text("[")
    assert main(["bench", "fractional", "--out", str(tmp_path)]) == 2
    assert "no study of bench" in capsys.readouterr().err


def test_a_missing_package_is_told_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(peers, "pysindy", None)
    monkeypatch.setattr(peers, "SymbolicRegressor", None)
    for method, name in (("all", "pysindy"), ("pyoperon", "pyoperon")):
        assert main(["bench", "odebench", "--method", method]) == 2
        said = capsys.readouterr().err
        assert said == (
            f"error: --method {method if method != 'all' else name} needs the package "
            f'{name}: pip install "odediscovery[bench]"\n'
        )
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize(("method", "package"), [("sindy", "pysindy"), ("operon", "pyoperon")])
def test_peers_find_a_straight_law(method: str, package: str) -> None:
    pytest.importorskip(package)
    problem = load_suite("odebench")["1"]
    found, _ = getattr(peers, method)(training_data(problem, Protocol()), 4.0, 0)
    assert score(found, problem, Protocol()).recon > 0.999
