"""Benchmarks measure; these tests only see that they measure the right thing and say so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from faces import discovery

from odediscovery.bench import speed, success
from odediscovery.bench.command import _print_success
from odediscovery.bench.success import Member
from odediscovery.cli import main
from odediscovery.settings import Settings, settings_for


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["bench"], "Missing command"),
        (["bench", "sped"], "Did you mean 'speed'"),
        (["bench", "speed", "--seed", "-1"], "--seed must be at least 0, got -1"),
        (["bench", "success", "--each", "0"], "--each must be at least 1, got 0"),
        (["bench", "success", "--out", "."], "choose a file"),
        (["bench", "speed", "--out", "file/below.json"], "cannot be written"),
    ],
)
def test_mistakes_end_in_one_line_before_anything_is_measured(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("mine")
    assert main(arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == "" and shown.err.startswith("error: ") and said in shown.err
    assert shown.err.count("\n") == 1
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """The measured things made small; what they were asked for."""
    asked: list[Settings] = []

    def found(_series: object, settings: Settings) -> object:
        asked.append(settings)
        return discovery()

    def recipe(name: str, **options: object) -> Settings:
        small = {"adam_steps": 20, "lbfgs_steps": 10} if name == "as-run" else {}
        return settings_for(name, **(options | small))

    monkeypatch.setattr(speed, "discover", found)
    monkeypatch.setattr(speed, "settings_for", recipe)
    return asked


def test_speed_tells_the_ratio_and_writes_what_repeats_it(
    small: list[Settings], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "speed.json"
    assert main(["bench", "speed", "--seed", "4", "--out", str(out)]) == 0
    table = capsys.readouterr().out.splitlines()
    assert table[2].startswith("as-run / default") and "extrapolated" not in "".join(table)
    document = json.loads(out.read_text())
    (row,) = document["rows"]
    assert row["ratio"] == pytest.approx(row["as_run_seconds"] / row["default_seconds"])
    assert row["as_run_seconds"] == pytest.approx(row["gradient_seconds"] + row["lbfgs_seconds"])
    assert not row["extrapolated"] and 20 < row["peak_megabytes"] < 1e5
    assert document["seed"] == small[0].seed == 4 and small[0].recipe == "default"
    assert {"torch", "python"} <= document["versions"].keys() and document["machine"]["cores"] >= 1


def test_quick_speed_says_that_it_extrapolates(
    small: list[Settings], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "speed", "--quick"]) == 0
    shown = capsys.readouterr()
    assert "extrapolated from a tenth" in shown.out and "extrapolated" in shown.err


def test_the_success_table_counts_by_hidden_size(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        Member(6, True, 13, 0.0, 0.0, []),
        Member(6, False, 9, 1.0, 1.0, []),
        Member(9, True, 13, 0.0, 0.0, []),
    ]
    _print_success(rows)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[2:] == [["6", "1", "of", "2", "50%"], ["9", "1", "of", "1", "100%"],
                         ["all", "2", "of", "3", "67%"]]  # fmt: skip


def test_success_runs_every_hidden_size_and_writes_a_row_a_member(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(success, "ADAM_STEPS", 30)
    monkeypatch.setattr(success, "HIDDEN", (2, 3))
    out = tmp_path / "below" / "success.json"
    assert main(["bench", "success", "--each", "1", "--out", str(out)]) == 0
    shown = capsys.readouterr()
    assert "trained 2 members" in shown.err and "of 2" in shown.out
    rows = json.loads(out.read_text())["rows"]
    assert [row["hidden"] for row in rows] == [2, 3]
