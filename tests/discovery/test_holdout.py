"""Held-out samples: what is kept back, and how the continued equations are scored."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from faces import discovery
from sklearn.metrics import r2_score

from odediscovery.command.cli import main
from odediscovery.data.series import TimeSeries, write_csv
from odediscovery.discovery.discover import discover
from odediscovery.discovery.task import continue_over, continue_solutions, split
from odediscovery.errors import InputError
from odediscovery.laws.equations import Equations
from odediscovery.result.discovery import Discovery
from odediscovery.settings import settings_for

TIME = np.linspace(0.0, 10.0, 41)


def growth(start: float, time: np.ndarray = TIME) -> np.ndarray:
    """Logistic growth to 10 with a rate of 0.6."""
    return 10.0 / (1.0 + (10.0 / start - 1.0) * np.exp(-0.6 * time))


def test_the_last_share_of_each_trajectory_is_kept_back() -> None:
    times = [np.array([0.0, 1.0, 2.0, 9.0, 10.0]), np.array([5.0, 5.5, 6.0, 6.5, 7.0, 7.5])]
    series = TimeSeries.from_arrays(times, [t**2 for t in times])
    earlier, later = split(series, 0.2)
    assert later is not None
    assert [t.time.tolist() for t in earlier.trajectories] == [[0.0, 1.0, 2.0], [5.0, 5.5, 6.0, 6.5, 7.0]]
    assert [t.time.tolist() for t in later.trajectories] == [[9.0, 10.0], [7.5]]
    assert [t.label for t in later.trajectories] == ["1", "2"]
    assert split(series, 0.0) == (series, None)


@pytest.mark.parametrize(
    ("share", "message"), [(0.85, "leaves 2 values of 'x' to fit, at least 4"), (0.01, "keeps 1 values of 'x' back")]
)
def test_too_few_samples_on_either_side_are_refused(share: float, message: str) -> None:
    series = TimeSeries.from_arrays(np.arange(12.0), np.arange(12.0), ["x"])
    with pytest.raises(InputError, match=message):
        split(series, share)


def test_equations_continue_from_the_fitted_start_over_the_gap() -> None:
    found = discovery()
    run = found.series.trajectories[0]
    times = [210.0, 220.0, 230.0, 250.0]
    later = TimeSeries.from_arrays(times, np.ones((4, 3)), ["S", "I", "R"])
    whole = found.simulate(times=np.array([run.time[0], *times]))
    (ends,) = continue_solutions(found, later)
    assert ends == pytest.approx(whole[1:], rel=1e-6)
    # Of a state without a column nothing was kept back.
    fewer = TimeSeries.from_arrays(times, np.ones((4, 2)), ["R", "S"])
    (ends,) = continue_solutions(found, fewer)
    assert ends == pytest.approx(whole[1:, [2, 0]], rel=1e-6)


@pytest.mark.parametrize(
    ("factor", "outcome", "said"),
    [
        (1.0, "converged", "R2 = 1.000"),
        (1.05, "converged", "had the last fitted values simply stayed"),
        (8.0, "poor-fit", "no law of later times"),
    ],
)
def test_equations_farther_off_than_the_last_values_are_refused(factor: float, outcome: str, said: str) -> None:
    found, times = discovery(), np.array([210.0, 220.0, 230.0, 250.0])
    ends = found.simulate(times=np.array([0.0, *times]))[1:]
    later = TimeSeries.from_arrays(times, ends, ["S", "I", "R"])
    texts = found.equations.texts()
    wrong = Equations.parse(["S", "I", "R"], texts | {"I": f"{factor} * ({texts['I']})"})
    after = continue_over(dataclasses.replace(found, equations=wrong), found.series, later)
    assert after.outcome == outcome and said in "\n".join(after.messages)
    stopped = dataclasses.replace(found, equations=wrong, outcome="stopped")
    # A law that does not hold is none, also where the time was up.
    assert continue_over(stopped, found.series, later).outcome == ("stopped" if outcome == "converged" else outcome)


@pytest.mark.slow
def test_discover_fits_the_first_part_and_scores_the_last() -> None:
    noise = np.random.default_rng(1).normal(scale=0.05, size=(2, len(TIME)))
    values = [growth(0.5) + noise[0], growth(2.0) + noise[1]]
    series = TimeSeries.from_arrays([TIME, TIME], values, ["x"])
    found = discover(series, settings_for(holdout=0.25, members=0))
    assert [t.time[-1] for t in found.series.trajectories] == [7.5, 7.5]
    ends = [found.equations.simulate(start, TIME)[31:, 0] for start in found.initial_values]
    expected = r2_score(np.concatenate([v[31:] for v in values]), np.concatenate(ends))
    assert found.r2_heldout == pytest.approx(expected, abs=1e-9)
    assert expected > 0.5
    assert "20 samples were kept back" in "\n".join(found.messages)


@pytest.mark.slow
def test_the_command_writes_the_score(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_csv(TimeSeries.from_arrays(TIME, growth(0.5), ["x"]), tmp_path / "data.csv")
    out = tmp_path / "found"
    call = ["fit", str(tmp_path / "data.csv"), "--members", "0", "--quiet", "--out", str(out)]
    assert main([*call, "--holdout", "0.2"]) == 0
    document = json.loads((out / "result.json").read_text(encoding="utf-8"))
    assert document["scores"]["r2_heldout"] == pytest.approx(1.0, abs=1e-6)
    assert document["settings"]["holdout"] == 0.2
    assert "note: 8 samples were kept back" in capsys.readouterr().out
    assert Discovery.load(out).r2_heldout == document["scores"]["r2_heldout"]
    assert main([*call, "--holdout", "1.5"]) == 2
    assert "--holdout must be at most 0.9, got 1.5" in capsys.readouterr().err
