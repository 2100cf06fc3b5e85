"""What a person asks of an installation: its version, and whether it works."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import odediscovery
from odediscovery.command import doctor
from odediscovery.command.cli import main


def test_the_version_is_an_option_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"odediscovery {odediscovery.__version__}\n"


@pytest.mark.slow
def test_an_installation_that_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("versions python 3.") and f"torch {torch.__version__}" in lines[0]
    assert any(line.startswith("fit      h' = ") and "h^0.5" in line for line in lines)
    assert any(f"{tmp_path} can be written (here)" in line for line in lines)
    assert sum(line.startswith("extra ") for line in lines) == len(doctor.EXTRAS)
    assert lines[-1] == "all is well"
    assert list(tmp_path.iterdir()) == []
