"""Doses, rates that change at a day, and inputs beside states that nobody measured."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from odediscovery import discover, settings_for
from odediscovery.command.cli import main
from odediscovery.data.series import TimeSeries, read_doses, with_controls
from odediscovery.errors import InputError
from odediscovery.laws.equations import Equations
from odediscovery.problem.problem import given_amounts, prepare, with_known_states
from odediscovery.runtime.arrays import Array
from odediscovery.runtime.monitor import Monitor
from odediscovery.settings import Settings
from odediscovery.textbook.broken import find_break
from odediscovery.textbook.fit import fit_textbook
from odediscovery.textbook.registry import TEXTBOOK

HOURS = np.arange(0.0, 48.0)
DOSES = np.where(HOURS % 12 == 0, 10.0, 0.0)


def dosed(rates: Callable[[float, Array], list[float]], start: list[float]) -> Array:
    """States before each dose, which enters the last one."""
    x, found = np.array(start), []
    for k, dose in enumerate(DOSES):
        found.append(x)
        x = x + dose * np.eye(len(x))[-1]
        if k + 1 < len(HOURS):
            x = solve_ivp(rates, (HOURS[k], HOURS[k + 1]), x, rtol=1e-9, atol=1e-12).y[:, -1]
    return np.array(found)


def with_doses(values: Array, name: str, noise: float) -> TimeSeries:
    noisy = values + noise * np.random.default_rng(0).standard_normal(len(values))
    table = TimeSeries.from_arrays(HOURS, np.column_stack([noisy, np.where(DOSES > 0, DOSES, np.nan)]), [name, "dose"])
    return with_controls(table, impulses=["dose"])


def coefficients(found: object) -> dict[tuple[str, str], float]:
    return {(row.state, row.term): row.coefficient for row in found.terms.itertuples()}  # type: ignore[attr-defined]


def test_a_dose_is_a_moment_after_its_sample() -> None:
    series = with_doses(np.zeros(48), "gut", 0.0)
    (run,) = series.trajectories
    assert len(run.time) == 52 and run.controls is not None
    added = given_amounts(series, run, Settings(doses=("gut = dose",)))
    assert added is not None
    np.testing.assert_allclose(added[:, 0], 10.0 * np.searchsorted([0.0, 12.0, 24.0, 36.0], run.time, side="left"))


@pytest.mark.accept
def test_doses_of_a_state_that_nobody_measured() -> None:
    blood = dosed(lambda _, x: [0.8 * x[1] - 0.2 * x[0], -0.8 * x[1]], [0.0, 0.0])[:, 0]
    found = discover(
        with_doses(blood, "blood", 0.1),
        settings_for(doses=("gut=dose",), hidden_states=("gut",), starts=("gut=0",), bounds="0..1"),
    )
    terms = coefficients(found)
    assert abs(terms["blood", "gut"] - 0.8) < 0.06 and abs(terms["blood", "blood"] + 0.2) < 0.02
    assert abs(terms["gut", "gut"] + 0.8) < 0.06


def epidemic() -> TimeSeries:
    t = np.arange(0.0, 60.0)
    rate = lambda s: 0.0005 if s < 20.5 else 0.00015  # noqa: E731
    x = solve_ivp(
        lambda s, y: [-rate(s) * y[0] * y[1], rate(s) * y[0] * y[1] - 0.1 * y[1]],
        (0.0, 59.0),
        [1000.0, 3.0],
        t_eval=t,
        max_step=0.1,
        rtol=1e-8,
    ).y.T
    return TimeSeries.from_arrays(t, x + np.array([3.0, 3.0]) * np.random.default_rng(0).standard_normal(x.shape), "SI")


@pytest.mark.slow
def test_one_rate_changes_and_everything_else_is_fixed() -> None:
    found = discover(epidemic(), settings_for(breaks="t=20.5"))
    assert found.name == "infection by contact (mass action)" and found.named is not None
    values = dict(zip(found.named.names, zip(found.named.values, found.named.errors, strict=True), strict=True))
    for name, true in {"b": 0.0005, "g": 0.1, "b_after_20_5": 0.00015}.items():
        value, error = values[name]
        assert abs(value - true) < 3.0 * error < 0.1 * true
    assert any(note.startswith("b changes: 0.000") and "clearly worse" in note for note in found.messages)
    assert np.isfinite(found.simulate(times=np.array([0.0, 30.0, 80.0]))).all()


def test_the_time_of_a_change_is_found() -> None:
    t = np.arange(0.0, 30.0)
    x = 50.0 * np.exp(0.12 * t - np.where(t > 13.0, 0.17 * (t - 13.0), 0.0))
    p = prepare(TimeSeries.from_arrays(t, x * (1.0 + 0.02 * np.random.default_rng(0).standard_normal(30)), ["x"]))
    growth = [law for law in TEXTBOOK if law.says == "exponential growth"]
    change = find_break(p, fit_textbook(p, Monitor(), growth, most_left=np.inf), Monitor())
    assert change is not None and change.first <= change.time == 13.0 <= change.last
    assert change.behind > 20.0


def test_another_plan_of_doses_is_predicted(tmp_path: Path) -> None:
    level = dosed(lambda _, x: [-0.2 * x[0]], [0.0])[:, 0]
    series = with_doses(level, "gut", 0.0)
    law = Equations.parse(["gut"], {"gut": "dose - 0.2*gut"}, controls=["dose"])
    plan = tmp_path / "plan.csv"
    plan.write_text("t,dose\n3,5\n7,\n20,8\n")
    acting = read_doses(plan, series, ["dose"])
    at = np.array([0.0, 2.9, 4.0, 19.9, 21.0, 30.0])
    known = np.where(at > 3.0, 5.0 * np.exp(-0.2 * (at - 3.0)), 0.0)
    known += np.where(at > 20.0, 8.0 * np.exp(-0.2 * (at - 20.0)), 0.0)
    np.testing.assert_allclose(law.simulate(np.zeros(1), at, controls=acting)[:, 0], known, rtol=1e-2, atol=1e-3)
    with pytest.raises(InputError, match="no doses; fit with --doses"):
        read_doses(plan, series, [])


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"breaks": "20"}, "--breaks expects times"),
        ({"breaks": "t=99"}, "99 is not within the data, 0 to 59"),
        ({"doses": ("S=pills",)}, "unknown column of doses 'pills'"),
        ({"doses": ("T=pills",)}, "unknown state with doses 'T'"),
    ],
)
def test_mistakes_are_told(options: dict[str, object], reason: str) -> None:
    with pytest.raises(InputError) as caught:
        with_known_states(epidemic(), Settings(**options))  # type: ignore[arg-type]
    assert reason in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.long
def test_breaks_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "d.csv"
    values = [9.0 * 0.8 ** min(k, 8) * 1.1 ** max(k - 8, 0) for k in range(16)]
    path.write_text("t,x\n" + "".join(f"{k},{value:.3f}\n" for k, value in enumerate(values)))
    assert main(["fit", str(path), "--breaks", "t=8", "--out", str(tmp_path / "out"), "--quiet"]) == 0
    assert "r changes: -0.2" in capsys.readouterr().out
    assert main(["predict", str(tmp_path / "out"), "--until", "20"]) == 0
    assert main(["show", str(tmp_path / "out")]) == 0
