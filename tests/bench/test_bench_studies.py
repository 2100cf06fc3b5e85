"""The ablation and the draws of noise: what is varied, what counts, what is kept."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from listening import Stages

from odediscovery.bench.draws import draw as draws
from odediscovery.bench.draws.noise import FsirNoise, exponents_alone, true_terms
from odediscovery.bench.suites import ablation
from odediscovery.bench.suites.ablation import CONDITIONS, VARIANTS, changed
from odediscovery.command.cli import main
from odediscovery.data.series import TimeSeries
from odediscovery.discovery.discover import discover
from odediscovery.laws.equations import Equations
from odediscovery.laws.power_sum import PowerSum
from odediscovery.laws.systems import get_system, simulate_system
from odediscovery.runtime.workers import Processes
from odediscovery.search import rungs
from odediscovery.settings import Settings


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Tasks run in this process; which ones they were."""
    seen: list[Any] = []

    def one_by_one(
        _backend: Processes,
        function: Callable[[Any], Any],
        tasks: Sequence[Any],
        _limit: float,
        stopping: Callable[[], object],
    ) -> Iterator[tuple[int, Any]]:
        for number, task in enumerate(tasks):
            if stopping() is None:
                seen.append(task)
                yield number, function(task)

    monkeypatch.setattr(Processes, "results", one_by_one)
    return seen


@pytest.mark.long
@pytest.mark.parametrize(
    ("variant", "data", "warm", "trained"),
    [
        ("default", "clean", True, False),
        ("warm only", "clean", True, False),
        ("random only", "clean", False, True),
        ("default", "noisy", True, True),
        ("warm only", "noisy", True, False),
        ("random only", "noisy", False, True),
    ],
)
def test_a_variant_leaves_out_its_stage(variant: str, data: str, warm: bool, trained: bool) -> None:
    series = simulate_system("logistic")
    if data == "noisy":
        # A wave of one state turns where no law of it can: none explains it, so that all stages have their turn.
        t = np.linspace(0.0, 6.0, 80)
        noise = 0.01 * np.random.default_rng(1).standard_normal(80)
        series = TimeSeries.from_arrays(t, 1.0 + 0.5 * np.sin(2.0 * t) + noise)
    small = {"members": 2, "hidden": 2, "adam_steps": 10, "lbfgs_steps": 2}
    seen = Stages()
    discover(series, Settings(**(small | dict(VARIANTS[variant]))), seen)
    assert (seen.names[0] != "Adam") is warm
    assert ("LBFGS" in seen.names) is trained


@pytest.mark.slow
def test_noise_is_pruned_on_whole_trajectories_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    series = simulate_system("logistic", noise=0.02, seed=1)
    asked: list[bool | None] = []
    prune = rungs.prune_laws

    def watched(*arguments: Any, long: bool | None = None, **others: Any) -> Any:
        asked.append(long)
        return prune(*arguments, long=long, **others)

    monkeypatch.setattr(rungs, "prune_laws", watched)
    for variant in ("default", "short windows"):
        options = {"members": 2, "hidden": 2, "adam_steps": 10} | dict(VARIANTS[variant])
        found = discover(series, Settings(**options))
        assert found.r2 > 0.9
    whole = asked.count(True)
    assert whole and asked == [True] * whole + [False] * (len(asked) - whole)
    assert False in asked


@pytest.mark.slow
def test_a_variant_travels_to_another_process_and_gives_equations() -> None:
    methods = {name: pickle.loads(pickle.dumps(partial(changed, variant=name))) for name in VARIANTS}
    equations, outcome = methods["warm only"](simulate_system("torricelli"), 60.0, 0)
    assert outcome == "converged" and equations.power_sum is not None


@pytest.mark.slow
def test_the_ablation_has_a_line_a_variant_and_condition_and_goes_on(
    here: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = discover(simulate_system("logistic"), Settings(members=0))
    asked: list[Settings] = []

    def quick(_series: object, settings: Settings) -> object:
        asked.append(settings)
        return found

    monkeypatch.setattr(ablation, "discover", quick)
    out = tmp_path / "table"
    command = ["bench", "ablation", "--ids", "torricelli_inflow", "--out", str(out)]
    assert main([*command, "--quiet", "--max-seconds", "9", "--seed", "3"]) == 0
    assert len(here) == sum(len(variants) for _, _, variants in CONDITIONS.values()) == 9
    assert {(s.seed, s.max_seconds) for s in asked} == {(3, 9.0)}
    # On clean data all pruning is on short windows, so that the variant would be the default.
    assert [not s.prune_long for s in asked] == [False] * 7 + [True, False]
    text = capsys.readouterr().out
    assert "| short windows | sigma 0.02, trajectories 2 | 0 of 1 |" in text
    assert "| random only | sigma 0, trajectories 1 | 0 of 1 |" in text
    assert (out / "summary.md").read_text() in text
    rows = [json.loads(line) for line in (out / "noisy" / "rows.jsonl").read_text().splitlines()]
    assert [row["method"] for row in rows] == list(VARIANTS)
    # Nothing is left to do.
    assert main([*command, "--max-seconds", "9", "--seed", "3"]) == 0
    assert len(here) == 9


def test_draws_differ_by_their_noise_and_trajectories_by_their_start() -> None:
    about = FsirNoise(trajectories=5)
    first, second = about.data(0), about.data(1)
    assert [len(t.time) for t in first.trajectories] == [40] * 5
    clean = simulate_system("fsir").trajectories[0].values
    off = np.stack([s.trajectories[0].values - clean for s in (first, second)])
    assert off.std(axis=1) == pytest.approx(np.tile(0.05 * clean.std(axis=0), (2, 1)), rel=0.4)
    assert abs(np.corrcoef(off[0].ravel(), off[1].ravel())[0, 1]) < 0.3
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
def test_a_draw_needs_exactly_the_true_monomials(right: str, hit: bool) -> None:
    texts = {"S": right, "I": "0.06*S**0.5*I**0.5 - 0.05*I", "R": "0.05*I - 0.01*R"}
    series = simulate_system("fsir")
    assert true_terms(Equations.parse(["S", "I", "R"], texts), "fsir", series) is hit


@pytest.mark.parametrize(
    ("power", "error", "hit"), [(1.0, 0.0, True), (0.5, 0.0, False), (0.8, 0.1, True), (1.4, 0.1, False)]
)
def test_the_exponent_of_the_returning_may_be_three_errors_off(
    power: float, error: float, hit: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    truth = get_system("fsir").equations().power_sum
    assert truth is not None
    w, errors = truth.exponents.copy(), np.zeros_like(truth.exponents)
    place = int(np.flatnonzero(w[:, 2])[0])
    w[place, 2], errors[place, 2] = power, error
    found = Equations.from_power_sum(
        ("S", "I", "R"),
        PowerSum(truth.coefficients, w),
        standard_errors=PowerSum(np.zeros_like(truth.coefficients), errors),
    )
    assert exponents_alone(found, "R") == [(power, error)]

    class Found:
        outcome = "converged"
        equations = found

    monkeypatch.setattr(draws, "discover", lambda _series, _settings: Found)
    row = draws.fitted((FsirNoise(), 0))
    assert row["terms"] and row["hit"] is hit and row["returning"] == [(power, error)]


@pytest.mark.slow
def test_draws_are_kept_counted_and_not_done_again(
    here: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Found:
        outcome = "converged"
        equations = get_system("fsir").equations()

    def found(_series: object, settings: Settings) -> type[Found]:
        if settings.seed == 4:
            raise ZeroDivisionError("nothing\nat all")
        return Found

    monkeypatch.setattr(draws, "discover", found)
    out = tmp_path / "draws"
    command = ["bench", "fsir-noise", "--out", str(out), "--seed", "3"]
    assert main([*command, "--draws", "1"]) == 0
    assert "1 of 1  draw 3: hit" in capsys.readouterr().err
    assert main([*command, "--draws", "2"]) == 0
    assert [draw for _, draw in here] == [3, 4]
    shown = capsys.readouterr()
    assert "draw 4: ZeroDivisionError: nothing at all" in shown.err
    assert "| 0.05 | 1 | 1 of 2 | 1 |" in shown.out and "| 4 | failed |" in shown.out
    rows = [json.loads(line) for line in (out / "rows.jsonl").read_text().splitlines()]
    assert [tuple(row) for row in rows] == [FsirNoise().columns] * 2
    assert (out / "summary.md").read_text() in shown.out
    assert main([*command, "--sigma", "0.1"]) == 2
    assert "holds another study (sigma 0.05" in capsys.readouterr().err
