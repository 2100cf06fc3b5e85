"""The two ways to start the command: the console script and `python -m odediscovery`."""

from __future__ import annotations

import ast
import importlib
import runpy
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from odediscovery import cli
from odediscovery.command.cli import main


def test_the_console_script_is_the_command() -> None:
    (script,) = entry_points(group="console_scripts", name="odediscovery")
    assert script.value == "odediscovery.cli:main"
    assert script.load() is cli.main is main


@pytest.mark.parametrize(("arguments", "code"), [(["--help"], 0), (["no-such-command"], 2)])
def test_the_module_ends_with_the_exit_code_of_the_command(
    arguments: list[str], code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["odediscovery", *arguments])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("odediscovery", run_name="__main__")
    shown = capsys.readouterr()
    assert ended.value.code == code
    assert "Usage: odediscovery" in shown.out if code == 0 else shown.err.startswith("error: ")


@pytest.mark.parametrize(
    "script", sorted((Path(__file__).parent.parent / ".ci").glob("*.py")), ids=lambda path: path.name
)
def test_scripts_of_the_project_import_names_that_exist(script: Path) -> None:
    for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "odediscovery":
            module = importlib.import_module(node.module or "")
            assert [each.name for each in node.names if not hasattr(module, each.name)] == []
