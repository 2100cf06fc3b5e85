"""A fit goes on where another ended: on its data, beside its laws, with other members."""

from __future__ import annotations

import dataclasses
import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from faces import discovery

from odediscovery.command.cli import main
from odediscovery.data.series import write_csv
from odediscovery.discovery.discover import discover
from odediscovery.discovery.fit_constants import fit_constants
from odediscovery.discovery.resume import resume
from odediscovery.errors import InputError
from odediscovery.laws.systems import simulate_system
from odediscovery.result.discovery import Discovery
from odediscovery.runtime.monitor import Monitor
from odediscovery.settings import settings_for


@pytest.mark.long
def test_a_stopped_fit_goes_on_with_other_members(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, folder = tmp_path / "data.csv", tmp_path / "found"
    write_csv(simulate_system("logistic", noise=0.02, seed=1), data)
    assert main(["fit", str(data), "--out", str(folder), "--members", "2", "--quiet"]) == 0
    before = Discovery.load(folder)
    assert main(["fit", "--resume", str(folder), "--max-seconds", "60", "--quiet"]) == 0
    after = Discovery.load(folder)
    assert after.settings.seed == before.settings.seed + 1 and after.settings.members == 2
    assert after.settings.max_seconds == 60 and before.settings.max_seconds is None
    criteria = [next(r.criterion for r in d.front if r.selected) for d in (before, after)]
    assert criteria[1] <= criteria[0] + 1e-6
    np.testing.assert_array_equal(after.series.trajectories[0].values, before.series.trajectories[0].values)
    capsys.readouterr()


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["data.csv"], "no table"),
        (["--states", "N"], "nothing about columns"),
        (["--each"], "no --each"),
        (["--holdout", "0.2"], "no --holdout"),
        (["--recipe", "paper"], "no --recipe"),
    ],
)
def test_a_fit_goes_on_with_its_own_data_only(
    more: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fit", "--resume", str(tmp_path), *more]) == 2
    assert told in capsys.readouterr().err
    assert main(["fit"]) == 2
    assert "expected a table, DATA.csv" in capsys.readouterr().err


@pytest.mark.slow
def test_what_cannot_go_on_is_said(tmp_path: Path) -> None:
    series = simulate_system("logistic")
    held = discover(series, settings_for(members=0, holdout=0.2))
    with pytest.raises(InputError, match="kept back"):
        resume(held)
    held.save(tmp_path / "held")
    document = json.loads((tmp_path / "held" / "result.json").read_text())
    document["settings"] |= {"recipe": "as-run", "holdout": 0.0, "members": 4}
    (tmp_path / "held" / "result.json").write_text(json.dumps(document))
    with pytest.raises(InputError, match="recipe 'as-run'"):
        resume(Discovery.load(tmp_path / "held"))


@pytest.mark.slow
def test_a_fit_that_is_stopped_at_once_gives_the_earlier_result_back() -> None:
    series, looks = simulate_system("lotka-volterra", noise=0.02, seed=1), itertools.count()
    # A second passes at each look: the half second of a stop is long enough for a law on a fast machine.
    stopped = Monitor(started=0.0, clock=lambda: float(next(looks)))
    law = "prey' = a*prey - b*prey*predator\npredator' = c*prey*predator - d*predator"
    stopped.interrupt()
    alone = discover(series, settings_for(members=0), stopped)
    # A limit of its own: the default one is short for a machine that is busy.
    whole = discover(series, settings_for(members=0, max_seconds=60.0))
    for found in (whole, fit_constants(series, law)):
        assert alone.r2 < found.r2 - 0.01
        assert resume(found, stopped) is found


def anew(found: Discovery, behind: float, outcome: str, samples: int) -> Discovery:
    """A result whose criterion is so far behind, on the first samples."""
    front = tuple(dataclasses.replace(row, criterion=row.criterion + behind) for row in found.front)
    (run,) = found.series.trajectories
    series = dataclasses.replace(found.series, trajectories=(run.part(slice(0, samples)),))
    return dataclasses.replace(found, front=front, outcome=outcome, series=series, seconds=77.0)


@pytest.mark.parametrize(
    ("behind", "outcome", "samples", "kept"),
    [
        (0.0, "stopped", 40, False),
        (3.0, "converged", 40, False),  # about as good, and judged in all ways
        (3.0, "stopped", 40, True),
        (9.0, "poor-fit", 40, True),
        (-1.0, "converged", 20, True),
    ],
)
def test_a_folder_is_replaced_by_a_result_as_good_only(
    behind: float,
    outcome: str,
    samples: int,
    kept: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("odediscovery.command.fit._shown_in", lambda found, kinds: {})  # pictures take seconds
    monkeypatch.setattr(
        "odediscovery.discovery.resume.discover", lambda *_, **__: anew(discovery(), behind, outcome, samples)
    )
    folder = tmp_path / "found"
    discovery().save(folder)
    before = (folder / "result.json").read_bytes()
    assert main(["fit", "--resume", str(folder), "--max-seconds", "1", "--quiet"]) == 0
    said = capsys.readouterr().out
    assert ((folder / "result.json").read_bytes() == before) is kept
    assert (said.startswith(f"{folder} keeps its result: ") and said.count("\n") == 1) is kept
    # A folder that is named gets the best there is.
    assert main(["fit", "--resume", str(folder), "--out", str(tmp_path / "other"), "--quiet"]) == 0
    assert Discovery.load(tmp_path / "other").seconds == (1.5 if kept else 77.0)
