"""Benchmarks measure; these tests only see that they measure the right thing and say so."""

import json
from functools import partial

import pytest
from faces import discovery

from odediscovery import FitError, Monitor, fit_constants
from odediscovery.bench import peers, speed, suites
from odediscovery.bench.rows import Task, filled
from odediscovery.bench.scores import score
from odediscovery.bench.speed import BY_HAND, COLUMNS, markdown, measure_unit, timed_fit
from odediscovery.bench.suites import COLUMNS as FIELDS
from odediscovery.bench.suites import study_of
from odediscovery.bench.systems import Protocol, load_suite, training_data
from odediscovery.command.cli import main
from odediscovery.runtime.monitor import on_processor_time
from odediscovery.runtime.workers import Processes
from odediscovery.units import UNITS


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["bench"], "Missing command"),
        (["bench", "sped"], "Did you mean 'speed'"),
        (["bench", "speed", "--seed", "-1"], "--seed must be at least 0, got -1"),
        (["bench", "speed", "--parts", "unit"], "did you mean 'units'?"),
        (["bench", "speed", "--parts", ","], "--parts expects names"),
        (["bench", "speed", "--max-seconds", "0"], "--max-seconds must be positive"),
        (["bench", "speed", "--out", "."], "holds something else"),
        (["bench", "speed", "--out", "file"], "a file of that name exists"),
        (["bench", "moves", "--each", "0"], "--each must be at least 1, got 0"),
        (["bench", "moves", "--names", "nothing"], "unknown move 'nothing'"),
        (["bench", "fractal"], "Known: series, moves, page, fractional, odebench, classics, random"),
        (["bench", "odebench", "--ids", "1,2"], "unknown system of odebench '2': "),
        (["bench", "odebench", "--ids", ","], "--ids expects names"),
        (["bench", "odebench", "--method", "sindy"], "did you mean 'pysindy'? Known: ours"),
        (["bench", "odebench", "--sigma", "-1"], "--sigma must be at least 0"),
        (["bench", "odebench", "--drop", "1"], "--drop must be at least 0 and below 1"),
        (["bench", "odebench", "--trajectories", "2"], "have at most 1 to train on"),
        (["bench", "odebench", "--jobs", "0"], "--jobs must be at least 1"),
        (["bench", "fsir-noise", "--sigma", "-1"], "--sigma must be at least 0"),
        (["bench", "fsir-noise", "--trajectories", "6"], "at least 1 and at most 5, got 6"),
        (["bench", "fsir-noise", "--draws", "0"], "--draws must be at least 1"),
    ],
)
def test_mistakes_end_in_one_line_before_anything_is_measured(arguments, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("mine")
    assert main(arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == "" and shown.err.startswith("error: ") and said in shown.err
    assert shown.err.count("\n") == 1
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


# Suites


def broken(_series, _settings):
    raise ZeroDivisionError("a law\nof nothing")


def row_of(id="torricelli_inflow", protocol=Protocol(), max_seconds=180.0):  # noqa: B008
    study = study_of("fractional", protocol, max_seconds, {"ours": suites.ours}, ids=[id])
    return filled(study.tasks[0], FIELDS)


def test_a_method_sees_the_noisy_training_data_alone(monkeypatch):
    seen = []

    def watched(series, settings):
        seen.append((series, settings))
        return discovery()

    monkeypatch.setattr(suites, "discover", watched)
    row = row_of("sir_fractional", Protocol(0.05, 0.5, 2, 7), 12.0)
    assert row["exact"] and row["complexity"] == 31
    ((series, settings),) = seen
    assert [len(t.time) for t in series.trajectories] == [20, 20]
    assert (settings.seed, settings.max_seconds, settings.recipe) == (7, 12.0, "default")


def test_a_failure_is_a_row_with_its_reason(monkeypatch):
    monkeypatch.setattr(suites, "discover", broken)
    row = row_of()
    assert row["failed"] == "ZeroDivisionError: a law of nothing"
    assert row["recon"] is None and row["equations"] is None and not row["exact"]
    said = study_of("fractional", Protocol(), 9.0, {}).said(row)
    assert said.startswith("ours torricelli_inflow: failed after") and said.endswith("a law of nothing")


def test_rows_are_kept_and_not_run_again(here, tmp_path, capsys, monkeypatch):
    laws = {problem.states: problem.equations for problem in load_suite("fractional").values()}
    monkeypatch.setattr(suites, "discover", lambda series, _: fit_constants(series, laws[series.states]))
    out = tmp_path / "below" / "rows"
    begin = ["bench", "fractional", "--out", str(out), "--ids"]
    assert main([*begin, "torricelli_inflow"]) == 0
    shown = capsys.readouterr()
    assert "1 of 1  ours torricelli_inflow: exact" in shown.err
    assert "| ours | 1 of 25 | 1 (100%) |" in shown.out and "h' = 0.3 - 0.35*h^0.5" in shown.out
    # A line that was cut short is done again, a whole one is not.
    with (out / "rows.jsonl").open("a") as file:
        file.write('{"id": "von_bertal')
    assert main([*begin, "von_bertalanffy,torricelli_inflow", "--quiet"]) == 0
    assert [t.id for t in here] == ["torricelli_inflow", "von_bertalanffy"]
    rows = [json.loads(line) for line in (out / "rows.jsonl").read_text().splitlines()]
    assert [row["id"] for row in rows] == ["torricelli_inflow", "von_bertalanffy"]
    summary = (out / "summary.md").read_text()
    assert "2 of 25" in summary and summary in capsys.readouterr().out
    assert json.loads((out / "study.json").read_text())["versions"]
    assert sorted(p.name for p in out.iterdir()) == ["rows.jsonl", "study.json", "summary.md"]


@pytest.mark.long
def test_a_stopped_run_keeps_what_is_done(here, tmp_path):
    ids, monitor = ["torricelli_inflow", "von_bertalanffy"], Monitor()
    study = study_of("fractional", Protocol(), 180.0, {"ours": suites.ours}, ids=ids)

    def go_on(monitor, say):
        return [row["id"] for row in study.run(tmp_path, monitor=monitor, say=say)]

    assert len(go_on(monitor, lambda _: monitor.interrupt())) == 1
    assert go_on(Monitor(), lambda _: None) == ["von_bertalanffy", "torricelli_inflow"]
    assert len(here) == 2


def test_another_study_in_the_folder_is_refused(tmp_path, capsys):
    (tmp_path / "study.json").write_text(json.dumps(study_of("fractional", Protocol(), 180.0, {}).shared))
    assert main(["bench", "fractional", "--sigma", "0.1", "--out", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert "holds another study (sigma 0.0; asked for: sigma 0.1)" in said
    assert said.count("\n") == 1
    (tmp_path / "study.json").write_text("[")
    assert main(["bench", "fractional", "--out", str(tmp_path)]) == 2
    assert "no study of bench" in capsys.readouterr().err


def test_a_missing_package_is_told_with_what_to_install(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(peers, "pysindy", None)
    monkeypatch.setattr(peers, "SymbolicRegressor", None)
    for method, name in (("all", "pysindy"), ("pyoperon", "pyoperon")):
        assert main(["bench", "odebench", "--method", method]) == 2
        said = capsys.readouterr().err
        assert said == (
            f"error: --method {method if method != 'all' else name} needs the package "
            f'{name}: pip install "odediscovery[bench]"\n'
        )
    assert not list(tmp_path.iterdir())


@pytest.mark.long
@pytest.mark.parametrize(("method", "package"), [("sindy", "pysindy"), ("operon", "pyoperon")])
def test_peers_find_a_straight_law(method, package):
    pytest.importorskip(package)
    problem = load_suite("odebench")["1"]
    with on_processor_time():
        found, _ = getattr(peers, method)(training_data(problem, Protocol()), 4.0, 0)
    assert score(found, problem, Protocol()).recon > 0.999


def test_every_unit_has_a_forward_pass_by_hand_that_computes_the_same(monkeypatch):
    assert BY_HAND.keys() <= UNITS.keys()
    for name in BY_HAND:
        assert measure_unit(f"{name} small", seconds=0.0).keys() == {"ours", "by hand"}
    monkeypatch.setitem(speed.BY_HAND, "NAU", lambda p, x: x @ p.weight.T + 1.0)
    with pytest.raises(FitError, match="NAU by hand computes something else"):
        measure_unit("NAU small")


def fit_of(samples):
    return filled(Task("fSIR", "ours", partial(timed_fit, samples, 0.0, 0, 60.0)), COLUMNS)


@pytest.mark.long
def test_a_fit_has_its_time_and_memory_and_what_goes_wrong_is_a_row():
    row = fit_of(40)
    assert row["exact"] and row["seconds"] > 0 and row["megabytes"] > 50 and row["outcome"] == "converged"
    assert json.loads(json.dumps(row, allow_nan=False)) == row
    assert fit_of(2)["failed"].startswith("InputError: --samples")


def process_of(_task):
    """The number of the process that does a task."""
    import os  # noqa: PLC0415 (travels with the task)

    return os.getpid()


@pytest.mark.long
def test_each_measurement_has_a_process_of_its_own():
    numbers = dict(Processes(fresh=True).results(process_of, ["a", "b"]))
    assert numbers[0] != numbers[1]


def test_tables_show_ratios_fits_and_what_failed():
    row = dict.fromkeys(COLUMNS) | {"method": "ours", "seconds": 1.2e-4}
    unit = row | {"id": "NAU small", "by_hand": 1e-4}
    fit = row | {"id": "40 samples", "seconds": 1.5, "clock": 1.6, "megabytes": 377, "exact": True, "outcome": "done"}
    said = markdown([unit, fit, row | {"id": "x", "failed": "killed"}], "odediscovery bench speed")
    assert "| NAU small | 120 us | 100 us | 1.20 | no |" in said
    assert "| 40 samples | 1.5 | 1.6 | 377 | yes | done |" in said and said.endswith("x: killed\n")


def test_the_command_keeps_rows_and_goes_on(here, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(speed, "SIZES", {"small": (4, 3, 6, 2)})
    monkeypatch.setattr(speed, "measure_unit", lambda case, seed, seconds: measure_unit(case, seed, 0.1 * seconds))
    command = ["bench", "speed", "--parts", "units", "--quick", "--out", str(tmp_path / "speed"), "--quiet"]
    assert main(command) == 0 and "| RealNPU small |" in capsys.readouterr().out
    assert main(command) == 0 and len(here) == len(BY_HAND)
