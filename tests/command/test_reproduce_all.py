"""All experiments of the papers by one command."""

from __future__ import annotations

from pathlib import Path

import pytest

from odediscovery.command.cli import main
from odediscovery.experiments.studies.registry import EXPERIMENTS


@pytest.mark.long
@pytest.mark.slow
def test_all_are_run_each_in_its_folder_and_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    few = {name: EXPERIMENTS[name] for name in ("gradient-surface", "expectations")}
    monkeypatch.setattr("odediscovery.experiments.studies.registry.EXPERIMENTS", few)
    call = ["reproduce", "all", "--quick", "--quiet", "--out", str(tmp_path / "papers")]
    assert main(call) == 0
    said = capsys.readouterr().out
    assert all(f"written to {tmp_path / 'papers' / name}" in said for name in few)
    assert "2 of 2 experiments" in said.splitlines()[-1]
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "papers").glob("*/batches/*")}
    assert main(call) == 0 and len(kept) >= 17
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
