"""Draws of noise, gaps, intervals and of what has no law: data, counts, what is kept."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from odediscovery.bench import draws
from odediscovery.bench.draws import Coverage, FsirGaps, FsirNoise, Lawless, contained, exponents_alone, true_terms
from odediscovery.bench.rows import filled
from odediscovery.command.cli import main
from odediscovery.discovery.discover import discover
from odediscovery.errors import InputError
from odediscovery.laws.equations import Equations
from odediscovery.laws.power_sum import PowerSum
from odediscovery.laws.systems import get_system, simulate_system
from odediscovery.settings import Settings, settings_for


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
    spread = PowerSum(np.zeros_like(truth.coefficients), errors)
    equations = Equations.from_power_sum(("S", "I", "R"), PowerSum(truth.coefficients, w), standard_errors=spread)
    assert exponents_alone(equations, "R") == [(power, error)]
    found = SimpleNamespace(outcome="converged", equations=equations)
    monkeypatch.setattr(draws, "discover", lambda _series, _settings: found)
    (row,) = FsirNoise().study(1).run(tmp_path)
    assert row["terms"] and row["hit"] is hit and row["returning"] == [(power, error)]


@pytest.mark.slow
def test_draws_are_kept_counted_and_not_done_again(
    here: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def found(_series: object, settings: Settings) -> SimpleNamespace:
        if settings.seed == 4:
            raise ZeroDivisionError("nothing\nat all")
        return SimpleNamespace(outcome="converged", equations=get_system("fsir").equations())

    monkeypatch.setattr(draws, "discover", found)
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
    assert main([*command, "--sigma", "0.1"]) == 2
    assert "holds another study (sigma 0.05" in capsys.readouterr().err


def test_runs_are_short_irregular_and_have_gaps() -> None:
    series = FsirGaps().data(3)
    sizes = [len(t.time) for t in series.trajectories]
    assert len(sizes) == 8 and min(sizes) >= 8 and max(sizes) <= 40 and len(set(sizes)) > 3
    assert all(np.ptp(np.diff(t.time)) > 1 for t in series.trajectories)
    values = np.concatenate([t.values for t in series.trajectories])
    assert 0.1 < np.isnan(values).mean() < 0.3
    again = FsirGaps().data(3)
    assert np.array_equal(again.trajectories[5].values, series.trajectories[5].values, True)


@pytest.mark.parametrize(("off", "hit"), [(0.0, True), (0.09, True), (0.2, False)])
def test_gaps_ask_for_exponents_within_a_tenth(off: float, hit: bool) -> None:
    truth = get_system("fsir").equations().power_sum
    assert truth is not None
    law = PowerSum(truth.coefficients, truth.exponents + off * (truth.exponents == 0.5))

    found: Any = SimpleNamespace(equations=Equations.from_power_sum(("S", "I", "R"), law))
    row = FsirGaps().describe(found, simulate_system("fsir"))
    assert row["hit"] is hit and row["off"] == pytest.approx(off)


@pytest.mark.parametrize(("kind", "spread"), [("white-noise", (0.7, 1.3)), ("random-walk", (1.5, 60.0))])
def test_what_has_no_law_differs_by_draw(kind: str, spread: tuple[float, float]) -> None:
    first, second = (Lawless(kind=kind).data(k).trajectories[0].values for k in (0, 1))
    assert first.shape == (60, 1) and not np.allclose(first, second)
    assert spread[0] < first.std() < spread[1]
    assert 0.7 < np.diff(first, axis=0).std() < 1.9


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["splines", "rationals"])
def test_smooth_curves_are_three_without_noise_or_poles(kind: str) -> None:
    for draw in range(5):
        (run,) = Lawless(kind=kind).data(draw).trajectories
        assert run.values.shape == (60, 3)
        assert np.isfinite(run.values).all() and np.abs(run.values).max() < 30.0
        # Second differences of what is smooth are far smaller than those of noise.
        assert np.abs(np.diff(run.values, 2, axis=0)).mean() < 0.2 * run.values.std()


@pytest.mark.slow
def test_coverage_is_told_of_every_true_constant() -> None:
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


def test_only_what_converged_is_a_claim() -> None:
    about, rows = Lawless(), []
    for outcome in ("converged", "poor-fit", "stopped"):
        found: Any = SimpleNamespace(messages=("a note",), r2=0.9, outcome=outcome)
        end = {"outcome": outcome, "seconds": 1.0, "equations": {"x": "0.1*x"}}
        rows.append({"id": outcome, "failed": None} | about.describe(found, about.data(0)) | end)
    assert [row["claimed"] for row in rows] == [True, False, False]
    assert "| white-noise | 1 of 3 | 1.0 |" in about.markdown(rows)


def test_a_law_with_other_terms_covers_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    found = SimpleNamespace(outcome="converged", equations=Equations.parse(["N"], {"N": "0.4*N - 0.01"}))
    monkeypatch.setattr(draws, "discover", lambda _series, _settings: found)
    about = Coverage(system="logistic")
    (task,) = about.study(1).tasks
    row = filled(task, about.study(1).columns)
    assert row["terms"] is False and row["constants"] is None
    right = row | {"terms": True, "constants": {"c": {"contained": True, "held": False}}}
    assert "| c | 1 of 2 | 50.0% | 0 |" in about.markdown([row, right])


@pytest.mark.parametrize(
    "about",
    [
        Lawless(kind="pink"),
        Coverage(system="nosuch"),
        Coverage(sigma=0.0),
        FsirGaps(missing=0.9),
        FsirGaps(sigma=-1.0),
        FsirGaps(trajectories=0),
        Coverage(system="pendulum"),
    ],
)
def test_what_cannot_be_drawn_is_said(about: draws.Draws) -> None:
    with pytest.raises(InputError):
        about.checked()
