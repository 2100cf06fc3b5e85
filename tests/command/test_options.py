"""Options in groups, what people write in them, and the times that they ask for."""

from __future__ import annotations

import pytest
import typer
from typer.testing import CliRunner

from odediscovery.command.cli import main
from odediscovery.command.console import opened
from odediscovery.command.flags import RunOptions, Where, assignments, names_in, with_groups
from odediscovery.errors import InputError


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
    ],
)
def test_what_is_asked_besides_is_checked_before_the_fit(
    options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fit", "data/orange_trees.csv", *options]) == 2
    assert message in capsys.readouterr().err
