"""Fits with controls u(t): found in laws, kept in the folder and asked for again."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from problems import FEED, SINE, TIMES, driven, stirred
from scipy.integrate import solve_ivp

from odediscovery.command.cli import main
from odediscovery.data.controls import explain_two_values, with_controls
from odediscovery.data.series import TimeSeries
from odediscovery.data.signals import Signal
from odediscovery.discovery.discover import discover
from odediscovery.laws.equations import Equations
from odediscovery.plots.figures import save_figures
from odediscovery.result.discovery import Discovery
from odediscovery.runtime.arrays import Array
from odediscovery.settings import Settings


def terms_of(found: Discovery, state: int) -> dict[tuple[float, ...], float]:
    """Coefficients of an equation by exponents of states and controls, to three decimals."""
    law = found.equations.power_sum
    assert law is not None
    return {
        tuple((w.round(3) + 0.0).tolist()): round(float(a), 3)
        for a, w in zip(law.coefficients[state], law.exponents, strict=True)
        if a
    }


def quick(series: TimeSeries) -> Discovery:
    return discover(series, Settings(members=0))


@pytest.mark.long
@pytest.mark.parametrize(("u", "held"), [(SINE, False), (FEED, True)], ids=["sine", "steps"])
def test_a_linear_law_under_an_input_is_found(u: Array, held: bool) -> None:
    found = quick(driven({"x": "-0.5*x + 0.8*u"}, [2.0], u=(u, held)))
    assert terms_of(found, 0) == {(1.0, 0.0): -0.5, (0.0, 1.0): 0.8}
    assert found.equations.controls == ("u",)
    assert found.r2 > 1 - 1e-9


@pytest.mark.slow
def test_a_driven_damped_oscillator_is_found() -> None:
    force = np.sin(1.7 * TIMES)
    found = quick(driven({"x": "v", "v": "-x - 0.2*v + F"}, [1.0, 0.0], F=(force, False)))
    assert terms_of(found, 0) == {(0.0, 1.0, 0.0): 1.0}
    assert terms_of(found, 1) == {(1.0, 0.0, 0.0): -1.0, (0.0, 1.0, 0.0): -0.2, (0.0, 0.0, 1.0): 1.0}


@pytest.mark.slow
def test_trained_members_find_a_law_with_controls_in_noise() -> None:
    series = driven({"x": "0.9*x - 0.6*u*x"}, [1.0], u=(1.5 + np.sin(1.3 * TIMES), False))
    run = series.trajectories[0]
    noise = 0.02 * run.values.std() * np.random.default_rng(2).standard_normal(run.values.shape)
    columns = np.hstack([run.values + noise, run.controls.values])  # type: ignore[union-attr]
    noisy = with_controls(TimeSeries.from_arrays(TIMES, columns, ["x", "u"]), ["u"])
    found = discover(noisy, Settings(grow=False, members=2, hidden=4, adam_steps=400))
    law = found.equations.power_sum
    assert law is not None
    rates = law.rhs(np.array([[1.0, 1.0], [1.0, 2.0], [2.0, 1.0]]))[:, 0]
    np.testing.assert_allclose(rates, [0.3, -0.3, 0.6], atol=0.06)


@pytest.mark.slow
def test_time_is_a_variable_on_demand() -> None:
    t = np.linspace(0.0, 8.0, 50)
    x = t - 1.0 + 4.0 * np.exp(-t)  # x' = t - x
    series = with_controls(TimeSeries.from_arrays(t, x, ["x"]), ["t"])
    found = quick(series)
    assert terms_of(found, 0) == {(1.0, 0.0): -1.0, (0.0, 1.0): 1.0}
    assert found.equations.pretty().startswith("x' = ")
    np.testing.assert_allclose(found.simulate(times=np.array([0.0, 12.0]))[-1], [11.0], atol=1e-3)


@pytest.mark.slow
def test_a_power_of_time_is_found_from_two_trajectories() -> None:
    t = np.linspace(0.1, 6.0, 40)
    paths = [x0 * np.exp(-0.2 * (t**1.5 - t[0] ** 1.5)) for x0 in (3.0, 0.7)]  # x' = -0.3 x t^0.5
    series = with_controls(TimeSeries.from_arrays([t, t], paths, ["x"]), ["t"])
    assert terms_of(quick(series), 0) == {(1.0, 0.5): -0.3}


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Discovery]:
    """A fit with a held input called like a keyword and time, and its folder."""
    u = FEED
    t = TIMES
    law = Equations.parse(["x"], {"x": "0.8*lambda_ - 0.5*x + 0.1*t"}, controls=["lambda", "t"])
    x = law.simulate([2.0], t, controls=Signal(t, np.column_stack([u, t]), np.array([True, False])))
    series = TimeSeries.from_arrays(t, np.column_stack([x, u]), ["x", "lambda"])
    found = quick(with_controls(series, ["t"], ["lambda"]))
    folder = tmp_path_factory.mktemp("driven") / "out"
    found.save(folder)
    save_figures(found, folder)
    return folder, found


@pytest.mark.slow
def test_a_result_with_controls_comes_back_from_its_folder(kept: tuple[Path, Discovery]) -> None:
    folder, found = kept
    document = json.loads((folder / "result.json").read_text())
    assert document["states"] == ["x"]
    assert document["inputs"] == {"t": "linear", "lambda": "held"}
    back = Discovery.load(folder)
    assert back.equations_text() == found.equations_text()
    assert back.series.controls == found.series.controls
    np.testing.assert_allclose(back.simulate(), found.simulate(), rtol=1e-9)
    np.testing.assert_allclose(back.simulate(), back.series.trajectories[0].values, atol=1e-5)
    assert "lambda" in back.latex()


@pytest.mark.slow
def test_printed_python_runs_with_numpy_and_scipy_alone(kept: tuple[Path, Discovery]) -> None:
    found = kept[1]
    source = found.equations.python()
    names: dict[str, object] = {}
    code = compile(source, "printed", "exec")
    exec(code, names)
    signal = found.series.trajectories[0].controls
    assert signal is not None

    # A short piece in which the feed stays: scipy must not step over a jump.
    def u(t: float) -> Array:
        return np.array([FEED[0]])

    end = float(TIMES[5])
    solved = solve_ivp(names["rates"], (0.0, end), found.initial_values[0], args=(u,), rtol=1e-9)
    np.testing.assert_allclose(solved.y[:, -1], found.simulate()[5], rtol=1e-6)
    assert "p(t)" in found.equations.julia()


@pytest.mark.slow
def test_predict_takes_other_controls_and_says_what_it_holds(
    kept: tuple[Path, Discovery], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = tmp_path / "plan.csv"
    plan.write_text("t,lambda\n0,1\n1,1\n4,0\n")
    assert main(["predict", str(kept[0]), "--inputs", str(plan)]) == 0
    captured = capsys.readouterr()
    rows = captured.out.splitlines()
    assert rows[0] == "t,x"
    assert [row.split(",")[0] for row in rows[1:]] == ["0.0", "1.0", "4.0"]
    assert captured.err == ""
    # x' = 0.8 - 0.5 x + 0.1 t from x0 at 0: x = a + b t + (x0 - a) exp(-t / 2).
    b, a = 0.2, 1.2
    x0 = float(rows[1].split(",")[1])
    last = a + b * 4 + (x0 - a) * np.exp(-2)
    assert float(rows[3].split(",")[1]) == pytest.approx(last, abs=1e-4)
    assert main(["predict", str(kept[0]), "--until", "40", "--out", str(tmp_path / "p.csv")]) == 0
    assert "later their last values are held" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("t,lamda\n0,1\n", "expected columns t, lambda, got t, lamda"),
        ("t,lambda\n1,1\n0,1\n", "increase"),
        ("t,lambda\n5,1\n6,1\n", "known from 5 on"),
        ("t,lambda\n0,\n1,2\n", "first row"),
        ("t,lambda\n0,on\n1,2\n", "'on'"),
    ],
)
def test_wrong_controls_of_a_prediction_are_one_line(
    kept: tuple[Path, Discovery], tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, message: str
) -> None:
    plan = tmp_path / "plan.csv"
    plan.write_text(content)
    assert main(["predict", str(kept[0]), "--inputs", str(plan)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert message in error


TABLE = "run,t,x,y,feed,mode\n" + "".join(f"a,{k},{9 - k},{k},{k % 3},on\n" for k in range(9))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--inputs", "fed"], "unknown input 'fed': did you mean 'feed'"),
        (["--inputs", "feed", "--states", "x,feed"], "as a state and as an input"),
        (["--held-inputs", "run", "--group", "run"], "group column"),
        (["--held-inputs", "t"], "cannot be held"),
        (["--inputs", "feed", "--held-inputs", "feed"], "named twice"),
        (["--inputs", "mode"], "'on'"),
        (["--inputs", "x,y,feed"], "no state is left"),
        (["--inputs", "feed", "--noise-level", "feed=0.1"], "taken as exact"),
        (["--inputs", "feed", "--recipe", "paper"], "--recipe default"),
        (["--inputs", "feed", "--known", "feed' = 1"], "feed is an input"),
        (["--inputs", "feed", "--conserve", "x + feed"], "feed is an input"),
    ],
)
def test_wrong_controls_of_a_fit_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    data, out = tmp_path / "data.csv", tmp_path / "out"
    data.write_text(TABLE)
    code = main(["fit", str(data), "--quiet", "--members", "1", "--out", str(out), *arguments])
    error = capsys.readouterr().err
    assert code == 2
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert message in error
    assert not out.exists()


@pytest.mark.slow
def test_two_values_of_an_input_do_not_tell_its_powers() -> None:
    switched = np.where(FEED > 0.9, 2.0, 0.5)
    series = driven({"x": "-0.5*x + 0.8*u"}, [2.0], u=(switched, True))
    told = "u takes only 2 values: its powers, and a constant beside it, cannot be told apart"
    assert told in quick(series).messages
    assert explain_two_values(stirred()) == []


@pytest.mark.slow
def test_what_is_known_may_name_controls() -> None:
    series = driven({"x": "-0.5*x + 0.8*u"}, [2.0], u=(SINE, False))
    found = discover(series, Settings(members=0, known=("x' = 0.8*u + ?",)))
    assert terms_of(found, 0) == {(1.0, 0.0): -0.5, (0.0, 1.0): 0.8}
    assert "is given" in " ".join(found.messages)
