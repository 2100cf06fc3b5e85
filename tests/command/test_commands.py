"""What people ask of the commands beside a fit: options, dates, versions, an installation that works."""

import ast
import importlib
import runpy
import sys
from datetime import date, timedelta
from importlib.metadata import entry_points
from pathlib import Path

import numpy as np
import pytest
import torch
import typer
from typer.testing import CliRunner

import odediscovery
from odediscovery import Discovery, InputError, TimeSeries, cli, fit_constants
from odediscovery.cli import main
from odediscovery.command import doctor
from odediscovery.command.console import opened
from odediscovery.command.flags import RunOptions, Where, assignments, names_in, with_groups


def run(command, *arguments):
    app = typer.Typer()
    app.command()(command)
    return CliRunner().invoke(app, arguments, catch_exceptions=False).output


def test_every_field_of_a_group_is_an_option_with_the_default_of_the_command():
    @with_groups
    def command(name: str, where: Where = Where(jobs=3), run: RunOptions = RunOptions(max_seconds=60.0)) -> None:  # noqa: B008
        print(name, where, run.max_seconds, run.seed)

    assert run(command, "a") == "a Where(jobs=3, backend='processes', scheduler=None) 60.0 0\n"
    given = run(command, "b", "--jobs", "2", "--backend", "dask", "--seed", "7", "--max-seconds", "5")
    assert given == "b Where(jobs=2, backend='dask', scheduler=None) 5.0 7\n"
    assert "60.0)" in run(command, "--help")


def test_names_and_assignments():
    assert names_in(None, "--ids") is None and names_in(" a, b,", "--ids") == ["a", "b"]
    assert assignments(["a=b=2.5", "c=-1e3"], "--set") == {"a=b": 2.5, "c": -1000.0}
    for text in ("a", "=", "a=", "a=nan", "a=1x"):
        with pytest.raises(InputError, match="--set expects NAME=NUMBER"):
            assignments([text], "--set")
    with pytest.raises(InputError, match="--ids expects names"):
        names_in(" ,", "--ids")


@pytest.mark.parametrize(
    "where, message",
    [
        (Where(backend="cloud"), "backend"),
        (Where(scheduler="tcp://node1:8786"), "needs --backend dask"),
        (Where(jobs=2, backend="dask", scheduler="tcp://node1:8786"), "leave it out"),
    ],
)
def test_backends_that_do_not_go_together(where, message):
    with pytest.raises(InputError, match=message), opened(where, lambda _: None):
        pass


@pytest.mark.parametrize(
    "options, message",
    [
        (["--jobs", "2"], "--jobs, --backend and --scheduler need --bootstrap, --profile or --each"),
        (["--bootstrap", "0"], "--bootstrap must be at least 1, got 0"),
        (["--profile", "--group", "tree", "--vary", "auto"], "leave them out"),
    ],
)
def test_what_is_asked_besides_is_checked_before_the_fit(options, message, capsys):
    assert main(["fit", "data/orange_trees.csv", *options]) == 2
    assert message in capsys.readouterr().err


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Logistic growth from 2024-05-01 on, in g/L."""
    days = np.array([np.datetime64(date(2024, 5, 1) + timedelta(days=k)) for k in range(25)])
    cells = 100.0 / (1.0 + 49.0 * np.exp(-0.4 * np.arange(25)))
    series = TimeSeries.from_arrays(days, cells, ["cells"], units={"cells": "g/L"})
    found = fit_constants(series, "cells' = r*cells*(1 - cells/K)")
    place = tmp_path_factory.mktemp("dated") / "found"
    found.save(place)
    return place


def test_units_of_constants_and_the_date_of_the_start_are_printed(folder, capsys):
    assert main(["show", str(folder)]) == 0
    printed = capsys.readouterr().out
    assert "at t = 0 (2024-05-01): cells = 2.000" in printed
    line = next(line for line in printed.splitlines() if line.startswith("with units: "))
    assert line.startswith("with units: r = 0.") and " 1/day, K = 100.0" in line and line.endswith(" g/L")
    assert Discovery.load(folder).constants["unit"].tolist() == ["1/day", "g/L"]


def test_a_prediction_until_a_date_has_dates(folder, capsys):
    assert main(["predict", str(folder), "--until", "2024-05-04"]) == 0
    dated = [line.split(",") for line in capsys.readouterr().out.splitlines()]
    assert [row[0] for row in dated[1:]] == ["2024-05-01", "2024-05-02", "2024-05-03", "2024-05-04"]
    assert main(["predict", str(folder), "--until", "3"]) == 0
    counted = [line.split(",") for line in capsys.readouterr().out.splitlines()]
    assert [row[0] for row in counted[1:]] == ["0.0", "1.0", "2.0", "3.0"]
    assert [row[1] for row in counted] == [row[1] for row in dated]


def test_what_is_no_date_is_refused(folder, capsys):
    assert main(["predict", str(folder), "--until", "soon"]) == 2
    assert "--until expects a number or a date such as 2024-05-01, got 'soon'" in capsys.readouterr().err
    assert main(["predict", str(folder), "--until", "2023-01-01"]) == 2
    assert "later than the data's start" in capsys.readouterr().err


def test_the_version_is_an_option_of_the_command(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"odediscovery {odediscovery.__version__}\n"


def test_an_installation_that_works(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("versions python 3.") and f"torch {torch.__version__}" in lines[0]
    assert any(line.startswith("fit      h' = ") and "h^0.5" in line for line in lines)
    assert any(f"{tmp_path} can be written (here)" in line for line in lines)
    assert sum(line.startswith("extra ") for line in lines) == len(doctor.EXTRAS)
    assert lines[-1] == "all is well"
    assert list(tmp_path.iterdir()) == []


def test_the_console_script_is_the_command():
    (script,) = entry_points(group="console_scripts", name="odediscovery")
    assert script.value == "odediscovery.cli:main"
    assert script.load() is cli.main is main


@pytest.mark.parametrize(("arguments", "code"), [(["--help"], 0), (["no-such-command"], 2)])
def test_the_module_ends_with_the_exit_code_of_the_command(arguments, code, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["odediscovery", *arguments])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("odediscovery", run_name="__main__")
    shown = capsys.readouterr()
    assert ended.value.code == code
    assert "Usage: odediscovery" in shown.out if code == 0 else shown.err.startswith("error: ")


@pytest.mark.parametrize("script", sorted((Path(__file__).parents[2] / ".ci").glob("*.py")), ids=lambda path: path.name)
def test_scripts_of_the_project_import_names_that_exist(script):
    for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "odediscovery":
            module = importlib.import_module(node.module or "")
            assert [each.name for each in node.names if not hasattr(module, each.name)] == []
