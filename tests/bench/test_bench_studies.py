"""Draws of noise: what is varied, what counts, what is kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from odediscovery.bench.draws import draw as draws
from odediscovery.bench.draws.noise import FsirNoise, exponents_alone, true_terms
from odediscovery.command.cli import main
from odediscovery.laws.equations import Equations
from odediscovery.laws.power_sum import PowerSum
from odediscovery.laws.systems import get_system, simulate_system
from odediscovery.settings import Settings


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
    power: float, error: float, hit: bool, here: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
    (row,) = FsirNoise().study(1).run(tmp_path)
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
    assert "1 of 1  ours 3: hit" in capsys.readouterr().err
    assert main([*command, "--draws", "2"]) == 0
    assert [task.draw for task in here] == [3, 4]
    shown = capsys.readouterr()
    assert "ours 4: failed after 0.0 s, ZeroDivisionError: nothing at all" in shown.err
    assert (
        "| 0.05, 1 | 1 of 2 | 1 |" in shown.out and "| 4 | - | - | - | ZeroDivisionError: nothing at all |" in shown.out
    )
    rows = [json.loads(line) for line in (out / "rows.jsonl").read_text().splitlines()]
    assert [tuple(row) for row in rows] == [FsirNoise().study(1).columns] * 2
    assert (out / "summary.md").read_text() in shown.out
    assert main([*command, "--sigma", "0.1"]) == 2
    assert "holds another study (sigma 0.05" in capsys.readouterr().err
