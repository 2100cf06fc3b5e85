"""Draws of noise, gaps, populations and of what has no law: data, counts, what is kept."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from odediscovery import Equations, InputError, discover, get_system, settings_for, simulate_system
from odediscovery.bench import rows as kept
from odediscovery.bench.draws import Coverage, FsirGaps, FsirNoise, Lawless, contained, errors_of, exponents_alone
from odediscovery.bench.populations import APART, COLUMNS, PEERS, SIMPLE, TOGETHER, study, summary, summary_of_peers
from odediscovery.bench.rows import blank, filled
from odediscovery.command.cli import main
from odediscovery.laws.power_sum import PowerSum
from odediscovery.runtime.workers import Failure


def test_draws_differ_by_their_noise_and_trajectories_by_their_start():
    about = FsirNoise(trajectories=5)
    first, second = about.data(0), about.data(1)
    assert [len(t.time) for t in first.trajectories] == [40] * 5
    assert not np.array_equal(first.trajectories[0].values, second.trajectories[0].values)
    assert len({round(float(t.values[0, 0])) for t in first.trajectories}) == 5
    one = FsirNoise().data(0)
    assert np.array_equal(one.trajectories[0].values, first.trajectories[0].values)


@pytest.mark.parametrize(
    ("right", "hit"),
    [
        ("-0.06*S**0.5*I**0.5 + 0.01*R", True),
        ("-0.05*S**0.6*I**0.4 + 0.01*R", True),
        ("-0.06*S**0.5*I**0.5 + 0.01*R + 0.1*I", False),
        ("-0.06*S**0.5*I**0.5 + 0.01*R*I**0.1", False),
        ("-0.06*S**0.5*I**0.5 - 0.01*R", False),
    ],
)
def test_a_draw_needs_exactly_the_true_monomials(right, hit):
    texts = {"S": right, "I": "0.06*S**0.5*I**0.5 - 0.05*I", "R": "0.05*I - 0.01*R"}
    series = simulate_system("fsir")
    assert (errors_of(Equations.parse(["S", "I", "R"], texts), "fsir", series) is not None) is hit


@pytest.mark.parametrize(
    ("power", "error", "hit"), [(1.0, 0.0, True), (0.5, 0.0, False), (0.8, 0.1, True), (1.4, 0.1, False)]
)
def test_the_exponent_of_the_returning_may_be_three_errors_off(power, error, hit, here, tmp_path, monkeypatch):
    truth = get_system("fsir").equations().power_sum
    w, errors = truth.exponents.copy(), np.zeros_like(truth.exponents)
    place = int(np.flatnonzero(w[:, 2])[0])
    w[place, 2], errors[place, 2] = power, error
    spread = PowerSum(np.zeros_like(truth.coefficients), errors)
    equations = Equations.from_power_sum(("S", "I", "R"), PowerSum(truth.coefficients, w), standard_errors=spread)
    assert exponents_alone(equations, "R") == [(power, error)]
    found = SimpleNamespace(outcome="converged", equations=equations)
    monkeypatch.setattr(kept, "discover", lambda _series, _settings: found)
    (row,) = FsirNoise().study(1).run(tmp_path)
    assert row["terms"] and row["hit"] is hit and row["returning"] == [(power, error)]


def test_draws_are_kept_counted_and_not_done_again(here, tmp_path, monkeypatch, capsys):
    def found(_series, settings):
        if settings.seed == 4:
            raise ZeroDivisionError("nothing\nat all")
        return SimpleNamespace(outcome="converged", equations=get_system("fsir").equations())

    monkeypatch.setattr(kept, "discover", found)
    out = tmp_path / "draws"
    command = ["bench", "fsir-noise", "--out", str(out), "--seed", "3"]
    assert main([*command, "--draws", "1"]) == 0
    assert "1 of 1  ours 3: hit" in capsys.readouterr().err
    assert main([*command, "--draws", "2"]) == 0
    assert [task.id for task in here] == ["3", "4"]
    shown = capsys.readouterr()
    assert "ours 4: failed after 0.0 s, ZeroDivisionError: nothing at all" in shown.err
    assert (
        "| 0.05 | 1 | 1 of 2 | 1 |" in shown.out
        and "| 4 | - | - | - | ZeroDivisionError: nothing at all |" in shown.out
    )
    rows = [json.loads(line) for line in (out / "rows.jsonl").read_text().splitlines()]
    assert [tuple(row) for row in rows] == [FsirNoise().study(1).columns] * 2
    assert (out / "summary.md").read_text() in shown.out


def test_runs_are_short_irregular_and_have_gaps():
    series = FsirGaps().data(3)
    sizes = [len(t.time) for t in series.trajectories]
    assert len(sizes) == 8 and min(sizes) >= 8 and max(sizes) <= 40 and len(set(sizes)) > 3
    assert all(np.ptp(np.diff(t.time)) > 1 for t in series.trajectories)
    values = np.concatenate([t.values for t in series.trajectories])
    assert 0.1 < np.isnan(values).mean() < 0.3
    again = FsirGaps().data(3)
    assert np.array_equal(again.trajectories[5].values, series.trajectories[5].values, True)


@pytest.mark.parametrize(("off", "hit"), [(0.0, True), (0.09, True), (0.2, False)])
def test_gaps_ask_for_exponents_within_a_tenth(off, hit):
    truth = get_system("fsir").equations().power_sum
    law = PowerSum(truth.coefficients, truth.exponents + off * (truth.exponents == 0.5))

    found = SimpleNamespace(equations=Equations.from_power_sum(("S", "I", "R"), law))
    row = FsirGaps().describe(found, simulate_system("fsir"))
    assert row["hit"] is hit and row["off"] == pytest.approx(off)


def test_coverage_is_told_of_every_true_constant():
    settings = settings_for(members=0, integer_exponents=True)
    found = discover(Coverage(system="logistic", sigma=0.001).data(0), settings)
    truth = get_system("logistic").equations()
    told = contained(found, truth)
    assert set(told) == {
        "N': coefficient 0.4",
        "N': coefficient -0.004",
        "exponent 1 of N in N",
        "exponent 2 of N in N^2",
    }
    # Held at the true exponents; the coefficients are fitted.
    assert all(c["contained"] and c["held"] for name, c in told.items() if "exponent" in name)
    assert not any(c["held"] for name, c in told.items() if "coefficient" in name)
    # Of a law whose constants are wrong the intervals contain none of the fitted ones.
    off = Equations.parse(["N"], {"N": "0.9*N - 0.3*N**2"})
    assert not any(c["contained"] for c in contained(found, off).values() if not c["held"])


def test_only_what_converged_is_a_claim():
    about, rows = Lawless(), []
    for outcome in ("converged", "poor-fit", "stopped"):
        found = SimpleNamespace(messages=("a note",), r2=0.9, outcome=outcome)
        end = {"outcome": outcome, "seconds": 1.0, "equations": {"x": "0.1*x"}}
        rows.append({"id": outcome, "failed": None} | about.describe(found, about.data(0)) | end)
    assert [row["claimed"] for row in rows] == [True, False, False]
    assert "| white-noise | 1 of 3 | 1.0 |" in about.markdown(rows)


def test_a_law_with_other_terms_covers_nothing(monkeypatch):
    found = SimpleNamespace(outcome="converged", equations=Equations.parse(["N"], {"N": "0.4*N - 0.01"}))
    monkeypatch.setattr(kept, "discover", lambda _series, _settings: found)
    about = Coverage(system="logistic")
    (task,) = about.study(1).tasks
    row = filled(task, about.study(1).columns)
    assert row["terms"] is False and row["constants"] is None
    right = row | {"terms": True, "constants": {"c": {"contained": True, "held": False}}}
    assert "| c | 1 of 2 | 50.0% | 0 |" in about.markdown([row, right])


@pytest.mark.parametrize(
    ("measure", "options"),
    [
        (Lawless, {"kind": "pink"}),
        (Coverage, {"system": "nosuch"}),
        (Coverage, {"sigma": 0.0}),
        (FsirGaps, {"missing": 0.9}),
        (FsirGaps, {"sigma": -1.0}),
        (FsirGaps, {"trajectories": 0}),
        (Coverage, {"system": "pendulum"}),
    ],
)
def test_what_cannot_be_drawn_is_said(measure, options):
    with pytest.raises(InputError):
        measure(**options)


DESIGN = {
    "id": "cups",
    "states": ["x"],
    "terms": {"x": [{"constant": "k", "sign": -1, "powers": {"x": 1.0}}]},
    "constants": {"k": {"mean": 0.5, "sd_log": 0.3}},
    "initial": {"x": {"mean": 2.0, "sd_log": 0.2}},
    "groups": 8,
    "held_out": 3,
    "samples": [10, 10],
    "t_end": 6.0,
    "times": "even",
    "early": 1.0,
    "noise": {"kind": "additive", "relative": 0.01},
    "seed": 5,
    "expert": {"heldout_r2": {"mixed": 0.99}},
}


def written(path):
    path.write_text(json.dumps({"designs": [DESIGN]}))
    return path


class Counted:
    """A place for tasks that fits nothing: every second draw is right, the first one is lost."""

    def __init__(self):
        self.draws = []

    def results(self, function, tasks, limit=0.0, stopping=None):
        for number, task in enumerate(tasks):
            draw = task.known["draw"]
            self.draws.append(draw)
            said = {"said": [[True, draw != 3]], "figures": 2, "figures_right": 2, "figures_within": 1}
            near = {"error_mixed": 0.1, "error_apart": 0.2, "r2_heldout": 0.9, "heldout_right": draw == 1}
            right = {"exact": True, "varies": draw != 3, **said, **near} if draw % 2 else {}
            yield number, Failure("killed", 1.0) if draw == 0 else {**blank(task, COLUMNS), "seconds": 2.0, **right}


def test_draws_are_kept_and_gone_on_with(tmp_path):
    path, folder = written(tmp_path / "designs.json"), tmp_path / "rows"
    place = Counted()
    assert len(study(path, 2).run(folder, backend=place)) == 2
    rows = study(path, 4).run(folder, backend=place)
    assert place.draws == [0, 1, 2, 3]
    assert [row["failed"] for row in rows] == ["killed", None, None, None]
    text = summary(rows)
    assert "| cups | 2/4 | 1/2 | 4/4 | 2/4 | 2/2 (0.500) | 0.900 | 2.0 |" in text
    assert "precision 1.000, recall 0.500" in text
    assert "1 of 2 draws" in text
    with pytest.raises(InputError, match="there are cups"):
        study(path, 1, ["dogs"])


@pytest.mark.long
def test_a_draw_is_scored_against_its_truth(tmp_path):
    (task,) = study(written(tmp_path / "designs.json"), 1, max_seconds=120.0).tasks
    row = filled(task, COLUMNS)
    assert row["exact"]
    assert row["said"] == [(True, True)]
    assert row["figures_right"] == row["figures"] == 2
    assert row["error_mixed"] < 0.1
    assert row["heldout_right"]


@pytest.mark.long
def test_separate_fits_find_the_decay_that_pysindy_with_shared_constants_predicts_worse(tmp_path):
    pytest.importorskip("pysindy")
    peers = study(written(tmp_path / "designs.json"), 1, peers=True)
    rows = peers.run(tmp_path / "peers")
    assert rows == peers.run(tmp_path / "peers") and [row["method"] for row in rows] == list(PEERS)
    together, apart, simple = (next(row for row in rows if row["method"] == m) for m in (TOGETHER, APART, SIMPLE))
    assert simple["groups"] == DESIGN["groups"]
    assert simple["groups_exact"] > simple["groups"] / 2  # ten samples of some groups look like another law
    assert simple["r2"] > 0.99
    assert together["r2"] < simple["r2"]
    assert together["r2_heldout"] is not None
    assert apart["groups_exact"] <= DESIGN["groups"]
    assert "| cups | pysindy, all groups |" in summary_of_peers([together, apart, simple])
