"""Controls u(t) and what the user knows: found in laws, kept in the folder and asked for again."""

import json

import numpy as np
import pytest
import sympy
from problems import FEED, TIMES, driven, solved

from odediscovery import Discovery, TimeSeries, discover, settings_for
from odediscovery.command.cli import main
from odediscovery.data.series import with_controls
from odediscovery.data.signals import Signal
from odediscovery.laws.equations import Equations
from odediscovery.laws.power_sum import PowerSum
from odediscovery.laws.systems import simulate_system
from odediscovery.plots.figures import save_figures
from odediscovery.problem.problem import where_starts_hold, without_still_controls
from odediscovery.settings import Settings


def terms_of(found, state):
    """Coefficients of an equation by exponents of states and controls, to three decimals."""
    law = found.equations.power_sum
    return {
        tuple((w.round(3) + 0.0).tolist()): round(float(a), 3)
        for a, w in zip(law.coefficients[state], law.exponents, strict=True)
        if a
    }


def quick(series):
    return discover(series, Settings(members=0))


def test_a_driven_damped_oscillator_is_found():
    force = np.sin(1.7 * TIMES)
    found = quick(driven({"x": "v", "v": "-x - 0.2*v + F"}, [1.0, 0.0], F=(force, False)))
    assert terms_of(found, 0) == {(0.0, 1.0, 0.0): 1.0}
    assert terms_of(found, 1) == {(1.0, 0.0, 0.0): -1.0, (0.0, 1.0, 0.0): -0.2, (0.0, 0.0, 1.0): 1.0}
    assert not any("taken as straight" in message for message in found.messages)  # which it is, and known


def oscillation(drive):
    """Samples of x'' = 0.5 u - x - 0.3 x', which a smooth u drives that is known at the samples only."""
    t = np.linspace(0.0, 24.0, 121)
    law = Equations.parse(["x", "v"], {"x": "v", "v": "0.5*u - x - 0.3*v"}, controls=["u"])
    fine = np.linspace(0.0, 24.0, 24001)
    x = law.simulate([1.0, 0.0], t, controls=Signal(fine, drive(fine)[:, None], np.array([False])))
    return with_controls(TimeSeries.from_arrays(t, np.column_stack([x, drive(t)]), ["x", "v", "u"]), ["u"])


@pytest.mark.long
def test_the_sampling_of_a_smooth_input_belongs_to_the_error_of_its_terms():
    series = oscillation(lambda t: np.sin(1.7 * t))
    found = quick(series)
    law, errors = found.equations.power_sum, found.equations.standard_errors
    term = int(np.flatnonzero(law.exponents[:, 2])[0])
    off, error = abs(law.coefficients[1, term] - 0.5), errors.coefficients[1, term]
    # A chord misses (1.7 h)^2 / 12 of a sine.
    assert error == pytest.approx(0.5 * (1.7 * 0.2) ** 2 / 12.0, rel=0.3) and 0.5 * error < off < 2.0 * error
    assert [m for m in found.messages if m.startswith("between samples u is taken as straight, which misses 0.")]


def test_an_input_that_never_changes_is_left_out_unless_it_is_named():
    """What it does cannot be told from constants, and with an input no law with a name is tried."""
    t = np.linspace(0.0, 10.0, 40)
    x = 4.0 - 3.0 * np.exp(-0.5 * t) + 0.01 * np.random.default_rng(0).standard_normal(len(t))
    series = with_controls(TimeSeries.from_arrays(t, np.column_stack([x, np.full(40, 50.0)]), ["x", "Q"]), ["Q"])
    # A name that is also one of an option is none that a statement has.
    seed = with_controls(TimeSeries.from_arrays(t, np.column_stack([x, np.full(40, 50.0)]), ["x", "seed"]), ["seed"])
    assert without_still_controls(seed, Settings()).controls == ()
    found = quick(series)
    assert found.name == "approach to a resting value" and found.equations.controls == ()
    assert "the input Q is 50 throughout" in " ".join(found.messages)
    told = discover(series, Settings(members=0, known=("x' = 0.04*Q + ?",)))
    assert told.equations.controls == ("Q",)


@pytest.mark.long
def test_a_state_that_never_changes_raises_no_doubts():
    """Its residuals are rounding errors, and its exponent could be any."""
    t = np.linspace(0.0, 10.0, 60)
    x = 4.0 - 3.0 * np.exp(-0.5 * t) + 0.01 * np.random.default_rng(0).standard_normal(len(t))
    found = quick(TimeSeries.from_arrays(t, np.column_stack([x, np.full(60, 100.0)]), ["x", "fan"]))
    told = " ".join(found.messages)
    assert "fan never changes" in told
    assert "residuals of fan" not in told and "exponent of fan" not in told


def test_where_known_starts_hold_is_said():
    t, x = np.linspace(0.5, 6.0, 12), np.exp(-0.5 * np.linspace(0.5, 6.0, 12))
    series = TimeSeries.from_arrays(t, x, ["x"])
    (note,) = where_starts_hold(series, Settings(starts=("x = 1",)))
    assert note.startswith("known starts hold at the first sample, at t = 0.5: where they hold earlier")
    assert not where_starts_hold(series, Settings())
    assert not where_starts_hold(TimeSeries.from_arrays(t - 0.5, x, ["x"]), Settings(starts=("x = 1",)))


def test_an_input_in_no_equation_is_named():
    t = np.linspace(0.0, 6.0, 40)
    series = TimeSeries.from_arrays(t, np.column_stack([4.0 * np.exp(-0.5 * t), np.cos(t)]), ["x", "u"])
    found = quick(with_controls(series, ["u"]))
    assert "the input u is in no equation" in " ".join(found.messages)


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
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


def test_a_result_with_controls_comes_back_from_its_folder(kept):
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


def test_predict_takes_other_controls_and_says_what_it_holds(kept, tmp_path, capsys):
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


TABLE = "run,t,x,y,feed,mode\n" + "".join(f"a,{k},{9 - k},{k},{k % 3},on\n" for k in range(9))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--inputs", "fed"], "unknown input 'fed': did you mean 'feed'"),
        (["--inputs", "feed", "--states", "x,feed"], "as a state and as an input"),
        (["--inputs", "feed", "--held-inputs", "feed"], "named twice"),
        (["--inputs", "x,y,feed"], "no state is left"),
        (["--inputs", "feed", "--noise-level", "feed=0.1"], "taken as exact"),
        (["--inputs", "feed", "--known", "feed' = 1"], "feed is an input"),
    ],
)
def test_wrong_controls_of_a_fit_are_one_line(tmp_path, capsys, arguments, message):
    data, out = tmp_path / "data.csv", tmp_path / "out"
    data.write_text(TABLE)
    code = main(["fit", str(data), "--quiet", "--members", "1", "--out", str(out), *arguments])
    error = capsys.readouterr().err
    assert code == 2
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert message in error
    assert not out.exists()


T = np.linspace(0.0, 6.0, 61)


def noisy(law, start, states, noise):
    x = solved(law, np.array(start), T)
    x = x + noise * x.std(axis=0) * np.random.default_rng(1).standard_normal(x.shape)
    return TimeSeries.from_arrays(T, x, states)


def terms(found, state):
    """Coefficients of an equation by what they multiply."""
    side = sympy.expand(found.equations.right_hand_sides[found.equations.states.index(state)])
    return {k: float(v) for k, v in side.as_coefficients_dict().items()}


def fall():
    # h' = -v, v' = 9.81 - 0.05 v^2
    law = PowerSum(np.array([[-1.0, 0.0, 0.0], [0.0, 9.81, -0.05]]), np.array([[0.0, 1.0], [0.0, 0.0], [0.0, 2.0]]))
    return noisy(law, [120.0, 0.5], ["h", "v"], 0.01)


@pytest.mark.long
def test_known_sides_are_printed_as_they_were_given():
    found = discover(fall(), settings_for(known=["h' = -v", "v' = 9.81 + ?"], members=0))
    _, v = found.equations.symbols
    assert terms(found, "h") == {v: -1.0}
    assert terms(found, "v")[sympy.S.One] == 9.81
    assert terms(found, "v")[v**2] == pytest.approx(-0.05, rel=0.05)
    assert len(terms(found, "v")) == 2
    assert any("h' = -v is given" in m for m in found.messages)


def test_a_conserved_sum_is_kept_exactly():
    series = simulate_system("sir", samples=30, noise=0.02, seed=2)
    states = series.states
    found = discover(series, settings_for(conserve=[" + ".join(states)], members=0))
    total = sympy.expand(sum(found.equations.right_hand_sides))
    assert max((abs(float(c)) for c in total.as_coefficients_dict().values()), default=0.0) < 1e-15
    x = found.simulate()
    assert np.ptp(x.sum(axis=1)) < 1e-6 * x.max()
    assert found.outcome == "converged" and found.r2 > 0.98


@pytest.mark.long
def test_forbidden_states_do_not_appear():
    series = simulate_system("lotka-volterra", noise=0.02, seed=0)
    prey, predator = series.states
    found = discover(series, settings_for(forbid=[f"{predator}: {prey}"], members=0, max_seconds=4))
    side = found.equations.right_hand_sides[1]
    assert found.equations.symbols[0] not in side.free_symbols
    for row in found.front:
        assert row.equations.symbols[0] not in row.equations.right_hand_sides[1].free_symbols
