"""A fit goes on where another ended; samples that are kept back score it."""

import dataclasses
import itertools
import json

import numpy as np
import pytest
from faces import discovery
from sklearn.metrics import r2_score

from odediscovery.command.cli import main
from odediscovery.data.series import TimeSeries, write_csv
from odediscovery.discovery.discover import discover
from odediscovery.discovery.fit_constants import fit_constants
from odediscovery.discovery.resume import resume
from odediscovery.discovery.task import continue_over, continue_solutions, split
from odediscovery.errors import InputError
from odediscovery.laws.equations import Equations
from odediscovery.laws.systems import simulate_system
from odediscovery.result.discovery import Discovery
from odediscovery.runtime.monitor import Monitor
from odediscovery.settings import settings_for


@pytest.mark.long
def test_a_stopped_fit_goes_on_with_other_members(tmp_path, capsys):
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
def test_a_fit_goes_on_with_its_own_data_only(more, told, tmp_path, capsys):
    assert main(["fit", "--resume", str(tmp_path), *more]) == 2
    assert told in capsys.readouterr().err
    assert main(["fit"]) == 2
    assert "expected a table, DATA.csv" in capsys.readouterr().err


def test_what_cannot_go_on_is_said(tmp_path):
    series = simulate_system("logistic")
    held = discover(series, settings_for(members=0, holdout=0.2))
    with pytest.raises(InputError, match="held out"):
        resume(held)
    held.save(tmp_path / "held")
    document = json.loads((tmp_path / "held" / "result.json").read_text())
    document["settings"] |= {"recipe": "as-run", "holdout": 0.0, "members": 4}
    (tmp_path / "held" / "result.json").write_text(json.dumps(document))
    with pytest.raises(InputError, match="recipe 'as-run'"):
        resume(Discovery.load(tmp_path / "held"))


@pytest.mark.long
def test_a_fit_that_is_stopped_at_once_gives_the_earlier_result_back():
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


def anew(found, behind, outcome, samples):
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
def test_a_folder_is_replaced_by_a_result_as_good_only(behind, outcome, samples, kept, tmp_path, monkeypatch, capsys):
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


TIME = np.linspace(0.0, 10.0, 41)


def growth(start, time=TIME):
    """Logistic growth to 10 with a rate of 0.6."""
    return 10.0 / (1.0 + (10.0 / start - 1.0) * np.exp(-0.6 * time))


def test_the_last_share_of_each_trajectory_is_kept_back():
    times = [np.array([0.0, 1.0, 2.0, 9.0, 10.0]), np.array([5.0, 5.5, 6.0, 6.5, 7.0, 7.5])]
    series = TimeSeries.from_arrays(times, [t**2 for t in times])
    earlier, later = split(series, 0.2)
    assert [t.time.tolist() for t in earlier.trajectories] == [[0.0, 1.0, 2.0], [5.0, 5.5, 6.0, 6.5, 7.0]]
    assert [t.time.tolist() for t in later.trajectories] == [[9.0, 10.0], [7.5]]
    assert [t.label for t in later.trajectories] == ["1", "2"]
    assert split(series, 0.0) == (series, None)


@pytest.mark.parametrize(
    ("share", "message"), [(0.85, "leaves 2 values of 'x' to fit, at least 4"), (0.01, "keeps 1 values of 'x' back")]
)
def test_too_few_samples_on_either_side_are_refused(share, message):
    series = TimeSeries.from_arrays(np.arange(12.0), np.arange(12.0), ["x"])
    with pytest.raises(InputError, match=message):
        split(series, share)


def test_equations_continue_from_the_fitted_start_over_the_gap():
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
        (1.05, "converged", "constant last fitted values"),
        (8.0, "poor-fit", "does not hold at later times"),
    ],
)
def test_equations_farther_off_than_the_last_values_are_refused(factor, outcome, said):
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


def test_discover_fits_the_first_part_and_scores_the_last():
    noise = np.random.default_rng(1).normal(scale=0.05, size=(2, len(TIME)))
    values = [growth(0.5) + noise[0], growth(2.0) + noise[1]]
    series = TimeSeries.from_arrays([TIME, TIME], values, ["x"])
    found = discover(series, settings_for(holdout=0.25, members=0))
    assert [t.time[-1] for t in found.series.trajectories] == [7.5, 7.5]
    ends = [found.equations.simulate(start, TIME)[31:, 0] for start in found.initial_values]
    expected = r2_score(np.concatenate([v[31:] for v in values]), np.concatenate(ends))
    assert found.r2_heldout == pytest.approx(expected, abs=1e-9)
    assert expected > 0.5
    assert "20 samples were held out" in "\n".join(found.messages)


def test_the_command_writes_the_score(tmp_path, capsys):
    write_csv(TimeSeries.from_arrays(TIME, growth(0.5), ["x"]), tmp_path / "data.csv")
    out = tmp_path / "found"
    call = ["fit", str(tmp_path / "data.csv"), "--members", "0", "--quiet", "--out", str(out)]
    assert main([*call, "--holdout", "0.2"]) == 0
    document = json.loads((out / "result.json").read_text(encoding="utf-8"))
    assert document["scores"]["r2_heldout"] == pytest.approx(1.0, abs=1e-6)
    assert document["settings"]["holdout"] == 0.2
    assert "note: 8 samples were held out" in capsys.readouterr().out
    assert Discovery.load(out).r2_heldout == document["scores"]["r2_heldout"]
    assert main([*call, "--holdout", "1.5"]) == 2
    assert "--holdout must be at most 0.9, got 1.5" in capsys.readouterr().err
