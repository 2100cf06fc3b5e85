"""Options in groups, what people write in them, and the times that they ask for."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from odediscovery.command.bench import bench
from odediscovery.command.cli import main
from odediscovery.command.console import opened, print_table
from odediscovery.command.fit import Columns, Draws, fit
from odediscovery.command.flags import GivenSettings, RunOptions, Where, assignments, names_in, with_groups
from odediscovery.command.reading import asked_times
from odediscovery.data.series import TimeSeries
from odediscovery.errors import InputError
from odediscovery.settings import Settings


def run(command: object, *arguments: str) -> str:
    app = typer.Typer()
    app.command()(command)  # type: ignore[type-var]
    return CliRunner().invoke(app, arguments, catch_exceptions=False).output


def test_every_field_of_a_group_is_an_option_with_the_default_of_the_command() -> None:
    @with_groups
    def command(name: str, where: Where = Where(jobs=3), run: RunOptions = RunOptions(max_seconds=60.0)) -> None:  # noqa: B008
        print(name, where, run.max_seconds, run.seed)

    assert run(command, "a") == "a Where(jobs=3, backend='processes', scheduler=None) 60.0 0\n"
    given = run(command, "b", "--jobs", "2", "--backend", "dask", "--seed", "7", "--max-seconds", "5")
    assert given == "b Where(jobs=2, backend='dask', scheduler=None) 5.0 7\n"
    assert "60.0)" in run(command, "--help")


def test_settings_that_were_not_given_are_none() -> None:
    @with_groups
    def command(given: GivenSettings = GivenSettings()) -> None:  # noqa: B008
        print({name: value for name, value in given.items() if value is not None})

    assert run(command) == "{}\n"
    shown = run(command, "--members", "4", "--known", "h' = -v", "--known", "v' = 1", "--no-grow")
    assert shown == """{'members': 4, 'grow': False, 'known': ["h' = -v", "v' = 1"]}\n"""


def test_a_fit_has_a_flag_for_every_setting() -> None:
    shown = run(with_groups(fit), "--help")
    for field in (*fields(Settings), *fields(Columns), *fields(Draws)):
        name = field.metadata.get("flag") or f"--{field.name.replace('_', '-')[:12]}"
        assert name in shown, field.name


def test_names_and_assignments() -> None:
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
        (Where(backend="dask"), "needs --scheduler"),
        (Where(jobs=2, backend="dask", scheduler="tcp://node1:8786"), "leave it out"),
    ],
)
def test_backends_that_do_not_go_together(where: Where, message: str) -> None:
    with pytest.raises(InputError, match=message), opened(where, lambda _: None):
        pass


@pytest.mark.parametrize(
    "options, message",
    [
        (["--jobs", "2"], "--jobs, --backend and --scheduler need --bootstrap, --profile or --each"),
        (["--bootstrap", "0"], "--bootstrap must be at least 1, got 0"),
        (["--profile", "--group", "tree", "--vary", "auto"], "leave them out"),
        (["--bootstrap", "9", "--backend", "dask"], "needs --scheduler"),
    ],
)
def test_what_is_asked_besides_is_checked_before_the_fit(
    options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fit", "data/orange_trees.csv", *options]) == 2
    assert message in capsys.readouterr().err


def test_a_table_has_numbers_flush_right_and_no_blanks_at_its_ends(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("name", "n"), [("a", "1"), ("[b]", "10")])
    head, _, first, second = capsys.readouterr().out.splitlines()
    assert head.endswith(" n") and first.endswith("  1") and second.startswith("[b]") and second.endswith(" 10")


SERIES = TimeSeries.from_arrays([1.0, 1.5, 2.0, 2.5], [[1.0], [2.0], [3.0], [4.0]], ["x"])


def test_times_go_on_at_the_pace_of_the_data(tmp_path: Path) -> None:
    assert asked_times(SERIES, None, None).tolist() == [1.0, 1.5, 2.0, 2.5]
    assert asked_times(SERIES, "3.0", None).tolist() == [1.0, 1.5, 2.0, 2.5, 3.0]
    file = tmp_path / "times.csv"
    file.write_text("x,t\n9,1\n9,4\n")
    assert asked_times(SERIES, None, file).tolist() == [1.0, 4.0]
    file.write_text("1\n4\n")
    assert asked_times(SERIES, None, file).tolist() == [1.0, 4.0]


def test_times_that_cannot_be(tmp_path: Path) -> None:
    file = tmp_path / "times.csv"
    for text, message in (("", "no times in it"), ("t\n1\nx\n", "row 3 holds no number")):
        file.write_text(text)
        with pytest.raises(InputError, match=message):
            asked_times(SERIES, None, file)
    with pytest.raises(InputError, match="cannot be read"):
        asked_times(SERIES, None, tmp_path / "none.csv")
    with pytest.raises(InputError, match="later than the data's start 1"):
        asked_times(SERIES, "1.0", None)
    with pytest.raises(InputError, match="at most 100000"):
        asked_times(SERIES, "1e9", None)


@pytest.mark.parametrize(
    "name", ["fractional", "random", "chaos", "speed", "rungs", "series", "coverage", "populations"]
)
def test_measurements_share_their_options(name: str) -> None:
    shown = CliRunner().invoke(bench, [name, "--help"]).output
    assert all(f"--{field.name.replace('_', '-')}" in shown for field in fields(RunOptions))
    assert ("--scheduler" in shown) is (name != "speed")


@pytest.mark.slow
def test_a_shell_completes_commands_and_options() -> None:
    for words, expected in (("odediscovery pre", "predict"), ("odediscovery fit --unit", "--units")):
        asked = {"_ODEDISCOVERY_COMPLETE": "complete_bash", "COMP_WORDS": words}
        asked["COMP_CWORD"] = str(len(words.split()) - 1)
        command = [sys.executable, "-m", "odediscovery"]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **asked}, check=True)
        assert expected in done.stdout.split()


def test_a_rule_stays_short_where_lines_are_whole(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("system", "law"), [("long", "x" * 600)], numbers=(), width=1000)
    header, rule, row = capsys.readouterr().out.splitlines()
    assert (header.split(), set(rule), len(rule)) == (["system", "law"], {"─"}, 120)
    assert row.endswith("x" * 600)
