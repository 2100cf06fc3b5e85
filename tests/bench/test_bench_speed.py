"""Speed is measured, never asserted: that the right things are measured, and told as they are."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from odediscovery.bench.peers import diffrax_peer, plain_loop, sindy_peer
from odediscovery.bench.rows import Row
from odediscovery.bench.speed import pace, races
from odediscovery.bench.speed.gradients import _check_same, measure_gradients
from odediscovery.bench.speed.growth import growth_figure, markdown
from odediscovery.bench.speed.networks import network, network_series
from odediscovery.bench.speed.pace import measured, run_tasks
from odediscovery.bench.speed.races import _exact, chain_equations, fsir_race
from odediscovery.bench.speed.sizes import StageClock, measure_fit, measure_throughput, measure_training, measured_size
from odediscovery.bench.speed.speed import NO_GPU, PARTS, ratios, tasks_of, throughput
from odediscovery.bench.speed.speed import markdown as speed_markdown
from odediscovery.bench.speed.task import Measurement, row_of
from odediscovery.bench.speed.timing import alternate, peak_megabytes
from odediscovery.bench.suites.scoring import same_equations
from odediscovery.command.cli import main
from odediscovery.errors import FitError
from odediscovery.laws.equations import Equations
from odediscovery.laws.systems import get_system, simulate_system
from odediscovery.runtime.workers import Failure, Processes

# What is timed


def test_turns_alternate_and_the_first_call_is_none_of_them() -> None:
    called: list[str] = []
    ways = {name: lambda name=name: called.append(name) for name in "ab"}
    found = alternate(ways, seconds=0.0, least=2)
    # The second turn knows that the calls are short: it warms the caches.
    assert called == [*"ab", *"ab", *"aabb"] and len(found["a"].rounds) == 2
    row = found["b"].row(scale=10.0)
    assert row["seconds"] == 10.0 * min(found["b"].rounds) <= row["median_seconds"]
    assert found["a"].best <= sum(alternate(ways, seconds=1.0, most=5)["a"].rounds)


def test_the_clock_adds_up_stages() -> None:
    clock = StageClock()
    for name in ("grow", "prune", "grow"):
        clock.stage(name, 1)
    spent = clock.spent()
    assert list(spent) == ["prepare", "grow", "prune"]
    assert sum(spent.values()) == pytest.approx(clock.seconds(), abs=0.1)


@pytest.mark.long
@pytest.mark.parametrize("what", ["windows", "whole"])
def test_gradients_of_all_agree_before_they_are_timed(what: str) -> None:
    rows = measure_gradients(what, members=3, seconds=0.0)
    names = [row["method"] for row in rows]
    assert names[:2] == ["ours", plain_loop.NAME]
    assert any(name.startswith("diffrax") for name in names) is diffrax_peer.installed()
    assert all(row["seconds"] > 0 and row["members"] == 3 for row in rows)


def test_a_peer_that_computes_something_else_is_not_timed() -> None:
    mine = np.array([1.0, 2.0]), np.eye(2)
    _check_same("peer", mine, mine)
    with pytest.raises(FitError, match="peer computes another loss or gradient than ours"):
        _check_same("peer", (mine[0] * [1.0, 1.1], mine[1]), mine)


@pytest.mark.slow
def test_the_plain_loop_learns() -> None:
    theta = torch.tensor([0.9, 1.0, -0.3], dtype=torch.float64)
    times = torch.linspace(0.0, 4.0, 5, dtype=torch.float64)
    values, start = torch.exp(-0.5 * times)[:, None], torch.ones(1, dtype=torch.float64)
    net = plain_loop.PowerNetwork(theta, 1, False)
    first = plain_loop.as_run_steps(net, start, times, values, times, 1, 0.01, 0.0)
    last = plain_loop.as_run_steps(net, start, times, values, times, 20, 0.01, 0.0)
    assert last < 0.5 * first


@pytest.mark.long
def test_the_recipe_takes_its_share_of_near_misses(monkeypatch: pytest.MonkeyPatch) -> None:
    class Found:
        equations = get_system("fsir").equations()

    monkeypatch.setattr(races, "discover", lambda _series, _settings: Found)
    ours, loop, *others = fsir_race(runs=1, pace=1)
    assert ours["method"] == "ours" and ours["exact"]
    assert loop["method"] == plain_loop.NAME and loop["members"] == 1
    assert loop["seconds"] == pytest.approx(loop["seconds_of_a_run"] / 0.03)
    assert bool(others) is diffrax_peer.installed()
    for other in others:
        assert other["seconds"] == pytest.approx(other["seconds_of_a_run"] / 3.0)


def test_what_goes_wrong_is_a_row() -> None:
    row = measured(Measurement("polynomials", "nothing"))[0]
    assert row["id"] == "polynomials nothing" and row["failed"].startswith("InputError: unknown")
    (row,) = measured_size(Measurement("samples", size=2))
    assert row["failed"] == "InputError: --samples should be at least 4, got 2"


@pytest.mark.slow
def test_peak_memory_is_that_of_a_process_and_not_of_its_parent() -> None:
    # In a process of its own: here other tests may have had more than what is added.
    code = """
import numpy as np
from odediscovery.bench.speed.timing import peak_megabytes
before = peak_megabytes()
block = np.ones(40 * 2**17)
print(before, peak_megabytes() - before)
"""
    block = np.ones(100 * 2**17)
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    before, added = map(float, told.stdout.split())
    assert 1.0 < before < peak_megabytes() - 100 * block[-1] and 30 < added < 60


# Systems of any size


@pytest.mark.parametrize("states", [1, 2, 7, 20])
def test_networks_are_sparse_and_bounded(states: int) -> None:
    law = network(states, seed=3)
    again = network(states, seed=3)
    assert np.array_equal(law.coefficients, again.coefficients)
    powers = law.exponents[:states]
    assert ((powers != 0).sum(axis=1) <= 2).all() and (powers.diagonal() == 0).all()
    assert np.abs(np.linalg.eigvals(np.abs(powers))).max() <= 0.9
    series = network_series(law, trajectories=2, samples=20, seed=1)
    values = np.stack([t.values for t in series.trajectories])
    assert values.shape == (2, 20, states) and (values > 0).all() and values.max() < 1e4
    # The rates of the samples are those of the law: it is the law that was integrated.
    step = series.trajectories[0].time[1]
    slope = (values[0, 2] - values[0, 0]) / (2 * step)
    assert np.allclose(law.rhs(values[0, 1:2])[0], slope, rtol=0.3, atol=0.3)


def test_equations_are_counted_one_by_one() -> None:
    truth = chain_equations().power_sum
    found = Equations.parse(["A", "B", "C"], {"A": "-0.4*A", "B": "0.5*A", "C": "0.3*B**1.1"})
    assert truth is not None and found.power_sum is not None
    assert same_equations(found.power_sum, truth) == [True, False, False]
    assert same_equations(network(2), truth) == [False] * 3
    assert _exact(chain_equations(), chain_equations()) and not _exact(found, chain_equations())


@pytest.mark.skipif(not sindy_peer.installed(), reason="pysindy is not installed")
def test_pysindy_finds_lotka_volterra() -> None:
    found = sindy_peer.threshold_search(simulate_system("lotka-volterra"))
    assert _exact(found, get_system("lotka-volterra").equations())


@pytest.mark.slow
def test_a_fit_and_a_training_are_measured() -> None:
    row = measure_fit("states", 1, seed=0, max_seconds=60.0)
    assert row["exact_equations"] == 1 and row["outcome"] == "converged"
    assert sum(row["stages"].values()) == pytest.approx(row["seconds"], abs=0.2)
    assert row["megabytes"] > 50
    for what in ("members", "hidden"):
        assert measure_training(what, 2, seed=0)["seconds"] > 0
    ours, *others = measure_throughput(2, seed=0, seconds=0.0)
    assert ours["method"] == "ours" and ours["seconds"] > 0
    assert bool(others) is torch.cuda.is_available()


# Rows, tables, pictures


def here(
    _backend: Processes,
    function: Callable[[Any], Any],
    tasks: Sequence[Any],
    limit: float,
    _stopping: Callable[[], object],
) -> Iterator[tuple[int, Any]]:
    """`Processes.results` without processes; the limit is kept by name."""
    for number, task in enumerate(tasks):
        yield number, Failure("too slow", limit) if task.size == 13 else function(task)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Measurement]:
    """Which tasks are run; each takes as many seconds as its size."""
    found: list[Measurement] = []

    def fake(task: Measurement) -> list[Row]:
        found.append(task)
        figures = {"megabytes": 400.0 + task.size, "exact_equations": 1, "processor_seconds": 0.05 * task.size}
        return [row_of(task, "ours", 0.1 * task.size, None, figures)]

    monkeypatch.setattr(Processes, "results", here)
    monkeypatch.setattr(pace, "measured_size", fake)
    return found


def test_a_run_goes_on_where_it_stopped(asked: list[Measurement], tmp_path: Path) -> None:
    tasks, folder, said = [Measurement("samples", "", n) for n in (10, 13, 20)], tmp_path / "out", []
    rows = run_tasks({"measure": "growth"}, tasks[:2], folder, say=said.append)
    assert [row["failed"] for row in rows] == [None, "too slow"]
    assert said == ["1 of 2  samples 10, ours: 1.00 s, 410 MB", "2 of 2  samples 13, ours: too slow"]
    rows = run_tasks({"measure": "growth"}, tasks, folder, say=said.append)
    assert [task.size for task in asked] == [10, 20] and len(rows) == 3
    kept = (folder / "rows.jsonl").read_text().splitlines()
    assert [json.loads(line)["id"] for line in kept] == ["samples 10", "samples 13", "samples 20"]


@pytest.mark.slow
def test_growth_writes_a_table_and_a_picture(
    asked: list[Measurement], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "growth"
    call = ["bench", "growth", "--quick", "--axes", "states, samples", "--out", str(out)]
    assert main([*call, "--quiet"]) == 0
    assert [task.id for task in asked] == ["states 1", "states 2", "states 3", "samples 40", "samples 80"]
    shown = capsys.readouterr().out
    # Twice the size takes twice the time.
    assert "| 80 | 8.00 s | 4.00 s | 1.00 | 480 | 1 of 3 |" in shown and shown.endswith(f"to {out}\n")
    assert (out / "summary.md").read_text() in shown
    assert (out / "growth.png").read_bytes()[:4] == b"\x89PNG"
    assert json.loads((out / "study.json").read_text())["versions"]["torch"]


def test_a_size_that_failed_is_in_the_table_and_not_in_the_picture() -> None:
    rows = [
        row_of(Measurement("states", "", n), "ours", 1.0 * n, "no result" if n == 3 else None, {"megabytes": 10.0})
        for n in (2, 3, 4)
    ]
    lines = markdown(rows, "bench growth").splitlines()
    assert "| 3 | no result | - | - | 10 | - |" in lines and "| 4 | 4.00 s | - | - | 10 | - |" in lines
    above, below = growth_figure(rows).axes
    (line, _) = above.lines
    assert list(line.get_xdata()) == [2, 4] and list(below.lines[0].get_ydata()) == [10.0, 10.0]


def row(id: str, method: str, seconds: float | None, **figures: Any) -> Row:
    failed = None if seconds is not None else "not installed"
    return {"id": id, "method": method, "failed": failed, "seconds": seconds, "figures": figures}


ROWS = [
    row("gradients windows", "ours", 0.004, members=100),
    row("gradients windows", plain_loop.NAME, 0.2, members=100),
    row("gradients windows", "diffrax, slow", 0.02, members=100),
    row("gradients windows", "diffrax, fast", 0.005, members=100),
    row("gradients whole", "ours", 0.03, members=100),
    row("gradients whole", "diffrax", None),
    row("fsir", "ours", 2.0, exact=True),
    row("fsir", plain_loop.NAME, 5000.0, members=1),
    row("fsir", "diffrax, fast", 8.0, members=100),
    row("polynomials lorenz", "ours", 4.0, exact=True),
    row("polynomials lorenz", "pysindy, one library", 0.1, exact=True),
    row(
        "samples 100000", "ours", 50.0, megabytes=900.0, exact_equations=3, processor_seconds=40.0, stages={"grow": 1.0}
    ),
    row("noisy samples 100000", "ours", 50.0, megabytes=2500.0, exact_equations=3, processor_seconds=40.0),
    row(
        "states 20", "ours", 500.0, megabytes=900.0, exact_equations=18, processor_seconds=400.0, stages={"prune": 3.0}
    ),
]


def test_ratios_are_told_with_what_is_asked_of_them() -> None:
    found = {r.what: (r.value, r.holds) for r in ratios(ROWS)}
    near_miss = "exact fSIR from its CSV: a near miss of as-run by"
    assert found == {
        "gradient of 100 members, one-interval windows: ours / diffrax": ("0.80", True),
        "gradient of 100 members, one-interval windows: plain loop / ours": ("50", True),
        f"{near_miss} a plain loop / ours": ("2500", True),
        f"{near_miss} diffrax, 100 at once / ours": ("4", False),
        "lorenz: ours / pysindy, one library": ("40.00", False),
        "fit, samples 100000": ("3 of 3 exact", True),
        "fit, noisy samples 100000": ("3 of 3 exact", False),
        "fit, states 20": ("18 of 20 exact", True),
    }
    text = speed_markdown(ROWS, "odediscovery bench speed")
    assert text.index("ratio") < text.index("middle") < text.index("| fit | seconds | grow | prune |")
    assert "| gradients whole | diffrax | - | - | - | - | - | not installed |" in text


def test_throughput_is_told_beside_a_gpu_or_without() -> None:
    rows = [row(f"throughput {n}", "ours", n / 1e4, members=n) for n in (1000, 100)]
    assert throughput([*rows, *ROWS]) == [
        ("100", "10.0 ms", "1e+04", "-", "-", "-"),
        ("1 000", "100 ms", "1e+04", "-", "-", "-"),
    ]
    assert NO_GPU in speed_markdown(rows, "odediscovery bench speed")
    assert not ratios(rows) and NO_GPU not in speed_markdown(ROWS, "odediscovery bench speed")
    rows.append(row("throughput 1000", "ours, GPU", 0.002, members=1000))
    assert throughput(rows)[1][3:] == ("2.00 ms", "5e+05", "50")
    assert NO_GPU not in speed_markdown(rows, "odediscovery bench speed")


def test_parts_share_what_they_measure() -> None:
    tasks = tasks_of(list(PARTS))
    assert len({task.id for task in tasks}) == len(tasks) == 32
    assert [t.id for t in tasks_of(["profile", "sizes"], quick=True)] == [
        "samples 2000",
        "noisy samples 400",
        "states 4",
        "samples 40",
    ]


def test_speed_prints_ratios_and_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    of_task = {"gradients windows": ROWS[:4], "gradients whole": ROWS[4:6]}
    monkeypatch.setattr(Processes, "results", here)
    monkeypatch.setattr(pace, "measured", lambda task: [dict(r) for r in of_task[task.id]])
    out = tmp_path / "speed"
    assert main(["bench", "speed", "--parts", "gradients", "--out", str(out), "--quiet"]) == 0
    shown = capsys.readouterr().out
    assert "0.80" in shown and "at most 1" in shown and "gradients whole, diffrax: not installed" in shown
    assert len((out / "rows.jsonl").read_text().splitlines()) == 6
    assert (out / "summary.md").read_text().startswith("# speed")


def test_a_missing_peer_is_a_row_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diffrax_peer, "jax", None)
    alone = [{"method": "ours", "seconds": 1.0, "members": 2}]
    monkeypatch.setattr(pace, "measure_gradients", lambda case, **_: alone)
    ours, missing = measured(Measurement("gradients", "whole", quick=True))
    assert ours["figures"] == {"members": 2} and math.isclose(ours["seconds"], 1.0)
    assert missing["method"] == "diffrax" and "odediscovery[bench]" in missing["failed"]
