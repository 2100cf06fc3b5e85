"""Chosen series of a large table get result folders of their own, on demand."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from test_many import Here, T, curves, write

from odediscovery import settings_for
from odediscovery.command.cli import main
from odediscovery.errors import InputError
from odediscovery.many.alone import chosen_alone, fit_alone, folder_name
from odediscovery.many.run import Table, fit_many, opened_table
from odediscovery.result.discovery import Discovery
from odediscovery.runtime.monitor import Monitor
from odediscovery.runtime.workers import Failure

ALONE = settings_for(members=0, library=["textbook"], max_seconds=60.0)
SOURCE = {"table": "plate.csv", "path": "here"}


def table_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: Path | None = None) -> Table:
    monkeypatch.setattr("odediscovery.many.run.BLOCK", 2)
    table = opened_table(path or write(tmp_path / "plate.csv", curves(5)), "well", tmp_path / "each")
    fit_many(table, Here(), Monitor())
    return table


@pytest.mark.slow
def test_series_of_parquet_are_read_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "plate.parquet"
    wells = np.repeat(["a/1", "b", "c"], len(T))
    pd.DataFrame({"well": wells, "h": np.tile(T, 3), "od": np.concatenate(curves(3))}).to_parquet(path)
    monkeypatch.setattr("odediscovery.many.run.BLOCK", 2)
    table = opened_table(path, "well", tmp_path / "each", time="h")
    fit_many(table, Here(), Monitor())
    (one,) = chosen_alone(table, ["a/1"], ALONE, SOURCE)
    assert one.folder == tmp_path / "each" / "a%2F1.odediscovery" and one.series.time_name == "h"
    np.testing.assert_array_equal(one.series.trajectories[0].values[:, 0], curves(1)[0])


@pytest.mark.slow
def test_a_series_that_cannot_be_fitted_alone_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of(tmp_path, monkeypatch, write(tmp_path / "plate.csv", [*curves(1), np.full(len(T), np.nan)]))
    with pytest.raises(InputError, match="series 'w1' cannot be fitted alone: "):
        chosen_alone(table, ["w0", "w1"], ALONE, SOURCE)


class Losing(Here):
    """A place for tasks that loses every series but the last."""

    def results(
        self, function: Callable[[Any], Any], tasks: Sequence[Any], limit: float = 0.0, stopping: object = None
    ) -> Iterator[tuple[int, Any]]:
        for number, task in enumerate(tasks):
            yield number, function(task) if task is tasks[-1] and len(tasks) > 1 else Failure("killed", 1.0)


@pytest.mark.slow
def test_a_folder_that_is_there_is_not_made_again_and_a_lost_series_costs_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_of(tmp_path, monkeypatch)
    chosen = chosen_alone(table, ["w0", "w3"], ALONE, SOURCE)
    ended = {one.label: found for one, found in fit_alone(chosen, Losing(), Monitor())}
    found = ended["w3"]
    assert ended["w0"] == "killed" and isinstance(found, Discovery) and found.name == "logistic growth"
    lost, done = chosen
    found.save(done.folder)
    assert not done.is_done  # a result of some other table, as far as it says
    document = found.as_dict() | {"source": dict(done.source)}
    (done.folder / "result.json").write_text(json.dumps(document), "utf-8")
    assert done.is_done and not lost.is_done
    assert not dataclasses.replace(done, settings=settings_for(members=1)).is_done
    edited = write(tmp_path / "plate.csv", [curve[::-1] for curve in curves(5)])
    assert not chosen_alone(table_of(tmp_path, monkeypatch, edited), ["w3"], ALONE, SOURCE)[0].is_done
    (done.folder / "result.json").write_text(json.dumps(document | {"outcome": "stopped"}), "utf-8")
    assert not done.is_done


def test_names_of_folders_hold_any_label() -> None:
    assert [folder_name(one) for one in ("A1", "B 2", "a.b", ".a", "..", "é")] == [
        *("A1", "B 2", "a.b", "%2Ea", "%2E.", "é")
    ]
    long, other = folder_name("x" * 300), folder_name("x" * 299)
    assert len(long) == 89 and long != other and folder_name(" a") != folder_name("a")


@pytest.mark.slow
def test_the_command_makes_folders_that_show_and_predict_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, folder = write(tmp_path / "plate.csv", curves(3)), tmp_path / "plate.each"
    asked = ["fit", str(path), "--group", "well", "--each", "--members", "0", "--quiet", "--out", str(folder)]
    assert main(asked) == 0 and not [*folder.glob("*.odediscovery")]
    assert main([*asked, "--folders", "w2"]) == 0
    own = folder / "w2.odediscovery"
    assert "series w2" in capsys.readouterr().out and (own / "report.html").exists() and (own / "fit.png").exists()
    document = json.loads((own / "result.json").read_text("utf-8"))
    assert (document["name"], document["source"]["series"]) == ("logistic growth", "w2")
    made = (own / "result.json").stat().st_mtime_ns
    assert main([*asked, "--folders", "w2"]) == 0 and (own / "result.json").stat().st_mtime_ns == made
    assert f"w2: kept in {own}" in capsys.readouterr().out
    assert main(["show", str(own)]) == 0 and main(["predict", str(own), "--until", "9"]) == 0
    assert capsys.readouterr().out.startswith("od' = ")
    assert main([*asked, "--folders", "w9"]) == 2 and "unknown series for --folders 'w9'" in capsys.readouterr().err
    assert main([*asked, "--folders", "w1", "--bootstrap", "9"]) == 2
    assert "fit --resume" in capsys.readouterr().err
    assert main(["fit", str(path), "--folders", "w1"]) == 2 and "it needs --each" in capsys.readouterr().err
