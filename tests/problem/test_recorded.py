"""What is known of the data: starts, limits of detection, counts, doses, breaks, sums and terms."""

import dataclasses

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from odediscovery import InputError, TimeSeries, discover, settings_for
from odediscovery.command.cli import main
from odediscovery.data.recorded import Recorded
from odediscovery.data.series import read_doses, with_controls, with_latent_states
from odediscovery.knowledge.constraints import knowledge
from odediscovery.laws.equations import Equations
from odediscovery.laws.power_sum import PowerSum
from odediscovery.laws.systems import simulate_system
from odediscovery.problem.problem import (
    apply_knowledge,
    fixed_mask,
    given_amounts,
    in_user_units,
    infer_latent_states,
    pose,
    pose_known,
    prepare,
    with_known_states,
    with_recorded,
)
from odediscovery.runtime.monitor import Monitor
from odediscovery.settings import Settings
from odediscovery.textbook.broken import find_break
from odediscovery.textbook.fit import fit_textbook
from odediscovery.textbook.registry import TEXTBOOK

QUICK = {"library": ("textbook",), "members": 0}


def epidemic(seed):
    """A logistic epidemic of which each day's new cases are counted: rate 0.2, size 5000."""
    t = np.arange(0.0, 60.0)
    curve = 5000.0 / (1.0 + 249.0 * np.exp(-0.2 * t))
    counts = np.cumsum(np.append(20.0, np.random.default_rng(seed).poisson(np.diff(curve))))
    return TimeSeries.from_arrays(t, counts, ["cases"])


def constant(found, place=0):
    row = found.constants.iloc[place]
    return float(row["value"]), float(row["standard_error"])


@pytest.mark.long
def test_increments_of_cumulative_counts_have_honest_errors():
    """Noise that adds up is no noise about the curve: as that it promises errors several times too small."""
    off, errors = [], []
    for seed in range(2):
        found = discover(epidemic(seed), settings_for(cumulative=("cases",), **QUICK))
        assert found.name == "logistic growth" and found.outcome == "converged"
        value, error = constant(found)
        off.append((value - 0.2) / error)
        errors.append(error)
    assert np.sqrt(np.mean(np.square(off))) < 2.0
    plain = [constant(discover(epidemic(seed), settings_for(**QUICK)))[1] for seed in range(2)]
    assert np.mean(errors) > 1.5 * np.mean(plain)


@pytest.mark.long
def test_values_below_a_limit_only_hold_the_curve_down():
    rng = np.random.default_rng(4)
    t = np.arange(0.0, 10.0, 0.4)
    values = 40.0 * np.exp(-0.5 * t) + 0.5 * rng.standard_normal(len(t))
    series = TimeSeries.from_arrays(t, np.where(values < 3.0, 0.0, values), ["virus"])
    found = discover(series, settings_for(censored=("virus=3",), **QUICK))
    value, error = constant(found)
    assert found.name == "exponential decay" and abs(value + 0.5) < 2.5 * error < 0.1
    assert any("values of virus lie below the limit 3" in note for note in found.messages)
    taken = constant(discover(series, settings_for(**QUICK)))
    assert abs(taken[0] + 0.5) > abs(value + 0.5)


@pytest.mark.long
def test_a_known_start_is_kept_by_every_law():
    t = np.arange(0.0, 10.0, 0.5)
    values = 8.0 * np.exp(-0.4 * t) + 0.3 * np.random.default_rng(5).standard_normal(len(t))
    series = TimeSeries.from_arrays(t, values, ["x"])
    found = discover(series, settings_for(starts=("x=8",), **QUICK))
    free = discover(series, settings_for(**QUICK))
    assert found.initial_values[0, 0] == 8.0 != free.initial_values[0, 0]
    assert constant(found)[1] < constant(free)[1]  # what is known is not estimated
    assert abs(constant(found)[0] + 0.4) < 3.0 * constant(found)[1]
    assert all(row.initial_values is None or row.initial_values[0, 0] == 8.0 for row in found.front)


def test_a_column_may_hold_the_starts():
    t = np.arange(0.0, 6.0)
    blocks = [np.column_stack([dose * np.exp(-0.3 * t), np.full(6, dose)]) for dose in (4.0, 9.0)]
    series = with_controls(TimeSeries.from_arrays([t, t], blocks, ["x", "dose"]), held=["dose"])
    known = with_recorded(series, Settings(starts=("x = dose",)))
    assert known.controls == () and [run.known_start.tolist() for run in known.trajectories] == [[4.0], [9.0]]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"starts": ("x",)}, "--starts expects STATE = NUMBER, COLUMN or measured"),
        ({"starts": ("x=dose",)}, "unknown column of groups 'dose'"),
        ({"censored": ("x=0",)}, "expects STATE = LIMIT above 0"),
        ({"cumulative": ("x",)}, "'x' falls from 3 to 2 at time 3: expected a cumulative count"),
    ],
)
def test_mistakes_are_told(options, reason):
    series = TimeSeries.from_arrays([0, 1, 2, 3], [1.0, 2.0, 3.0, 2.0], ["x"])
    with pytest.raises(InputError) as caught:
        with_recorded(series, Settings(**options))
    assert reason in str(caught.value) and "\n" not in str(caught.value)


def test_slopes_of_what_was_recorded_are_those_of_its_values():
    rng = np.random.default_rng(6)
    x, dx = rng.uniform(0.0, 4.0, (8, 2)), rng.standard_normal((8, 2, 3))
    seen = np.ones((8, 2), bool)
    seen[3, 1] = False
    limit = np.full((8, 2), np.nan)
    limit[5:, 0] = 2.0
    one = Recorded(np.full(2, np.nan), limit, seen, np.array([False, True]))
    h = 1e-7
    moved = (one.observed(x[..., None] + h * dx) - one.observed(x)[..., None]) / h
    np.testing.assert_allclose(moved[seen], one.linearised(dx, x)[seen], atol=1e-6)
    left = one.observed(x) - one.observed(x - 1.0)
    np.testing.assert_allclose(one.summed(left)[seen[:, 1], 1], 1.0)
    assert one.part(slice(2, None)).start.tolist() != one.start.tolist() or np.isnan(one.start).all()


HOURS = np.arange(0.0, 48.0)
DOSES = np.where(HOURS % 12 == 0, 10.0, 0.0)


def dosed(rates, start):
    """States before each dose, which enters the last one."""
    x, found = np.array(start), []
    for k, dose in enumerate(DOSES):
        found.append(x)
        x = x + dose * np.eye(len(x))[-1]
        if k + 1 < len(HOURS):
            x = solve_ivp(rates, (HOURS[k], HOURS[k + 1]), x, rtol=1e-9, atol=1e-12).y[:, -1]
    return np.array(found)


def with_doses(values, name, noise):
    noisy = values + noise * np.random.default_rng(0).standard_normal(len(values))
    table = TimeSeries.from_arrays(HOURS, np.column_stack([noisy, np.where(DOSES > 0, DOSES, np.nan)]), [name, "dose"])
    return with_controls(table, impulses=["dose"])


def coefficients(found):
    return {(row.state, row.term): row.coefficient for row in found.terms.itertuples()}


def test_a_dose_is_a_moment_after_its_sample():
    series = with_doses(np.zeros(48), "gut", 0.0)
    (run,) = series.trajectories
    assert len(run.time) == 52 and run.controls is not None
    added = given_amounts(series, run, Settings(doses=("gut = dose",)))
    np.testing.assert_allclose(added[:, 0], 10.0 * np.searchsorted([0.0, 12.0, 24.0, 36.0], run.time, side="left"))


@pytest.mark.accept
def test_doses_of_a_state_that_nobody_measured():
    blood = dosed(lambda _, x: [0.8 * x[1] - 0.2 * x[0], -0.8 * x[1]], [0.0, 0.0])[:, 0]
    found = discover(
        with_doses(blood, "blood", 0.1),
        settings_for(doses=("gut=dose",), hidden_states=("gut",), starts=("gut=0",), bounds="0..1"),
    )
    terms = coefficients(found)
    assert abs(terms["blood", "gut"] - 0.8) < 0.06 and abs(terms["blood", "blood"] + 0.2) < 0.02
    assert abs(terms["gut", "gut"] + 0.8) < 0.06


def outbreak():
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


@pytest.mark.long
def test_one_rate_changes_and_everything_else_is_fixed():
    found = discover(outbreak(), settings_for(breaks="t=20.5", **QUICK))
    assert found.name == "infection by contact (mass action)" and found.named is not None
    values = dict(zip(found.named.names, zip(found.named.values, found.named.errors, strict=True), strict=True))
    for name, true in {"b": 0.0005, "g": 0.1, "b_after_20_5": 0.00015}.items():
        value, error = values[name]
        assert abs(value - true) < 3.0 * error < 0.1 * true
    assert any(note.startswith("b changes: 0.000") and "clearly worse" in note for note in found.messages)
    assert np.isfinite(found.simulate(times=np.array([0.0, 30.0, 80.0]))).all()


def test_the_time_of_a_change_is_found():
    t = np.arange(0.0, 30.0)
    x = 50.0 * np.exp(0.12 * t - np.where(t > 13.0, 0.17 * (t - 13.0), 0.0))
    p = prepare(TimeSeries.from_arrays(t, x * (1.0 + 0.02 * np.random.default_rng(0).standard_normal(30)), ["x"]))
    growth = [law for law in TEXTBOOK if law.says == "exponential growth"]
    change = find_break(p, fit_textbook(p, Monitor(), growth, most_left=np.inf), Monitor())
    assert change is not None and change.first <= change.time == 13.0 <= change.last
    assert change.behind > 20.0


def test_another_plan_of_doses_is_predicted(tmp_path):
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
def test_doses_and_breaks_that_cannot_be_meant_are_told(options, reason):
    with pytest.raises(InputError) as caught:
        with_known_states(outbreak(), Settings(**options))
    assert reason in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.long
def test_breaks_from_the_command_line(tmp_path, capsys):
    path = tmp_path / "d.csv"
    values = [9.0 * 0.8 ** min(k, 8) * 1.1 ** max(k - 8, 0) for k in range(16)]
    path.write_text("t,x\n" + "".join(f"{k},{value:.3f}\n" for k, value in enumerate(values)))
    assert main(["fit", str(path), "--breaks", "t=8", "--out", str(tmp_path / "out"), "--quiet"]) == 0
    assert "r changes: -0.2" in capsys.readouterr().out
    assert main(["predict", str(tmp_path / "out"), "--until", "20"]) == 0
    assert main(["show", str(tmp_path / "out")]) == 0


T = np.linspace(0.0, 4.0, 41)
# h' = -v,  v' = 9 - 0.5 v: the user's units are 30 and 5 times the dimensionless ones, about.
SERIES = TimeSeries.from_arrays(T, np.column_stack([60.0 - 10.0 * T, 18.0 - 17.0 * np.exp(-0.5 * T)]), ["h", "v"])
FOUND = PowerSum(np.array([[-1.2, 0.3], [-0.4, 0.0]]), np.array([[0.0, 1.0], [0.0, 0.0]]))


def posed(**known):
    return pose(SERIES, settings_for(**known))[1]


def test_known_terms_replace_found_ones_and_are_fixed():
    p = posed(known=["h' = -v"])
    law = apply_knowledge(p, FOUND)
    # -v in user's units: c = -1 * T s_v / s_h.
    c = -p.scale.time * p.scale.state[1] / p.scale.state[0]
    assert law.exponents.tolist() == [[0.0, 1.0]]
    np.testing.assert_allclose(law.coefficients, [[c], [-0.4]], rtol=1e-15)
    of_a, of_w = fixed_mask(p, law) or pytest.fail("nothing is fixed")
    assert of_a.tolist() == [[True], [False]]
    assert of_w.all()
    # The constant that the user gave comes back without rounding.
    assert in_user_units(p, law).coefficients[0].tolist() == [-1.0]


def test_a_sum_infers_a_latent_state_and_ties_an_equation():
    settings = settings_for(conserve=["h + v + w = 100"], hidden_states=["w"])
    series, known = with_known_states(SERIES, settings)
    x = series.trajectories[0].values
    np.testing.assert_allclose(x.sum(axis=1), 100.0)
    assert series.messages == ("w was not measured: its samples follow from the conserved sum",)
    p = pose_known(series, known, settings)
    assert p.knowledge.tied.tolist() == [False, False, True]
    assert dataclasses.astuple(p.scale)[1] == pytest.approx(0.1)


def test_one_hidden_state_can_tell_another():
    t = np.arange(5.0)
    series = TimeSeries.from_arrays(t, np.stack([t, 10.0 - 2.0 * t], axis=1), ["a", "b"])
    wide = with_latent_states(series, ["c", "d"])
    known = knowledge(wide.states, conserve=["c + 2*d = 8", "a + b - 2*c = 4"])
    x = infer_latent_states(wide, ["c", "d"], known).trajectories[0].values
    np.testing.assert_allclose(x[:, 2], (t + 10.0 - 2.0 * t - 4.0) / 2.0)
    np.testing.assert_allclose(x[:, 3], (8.0 - x[:, 2]) / 2.0)


def test_error_bars_and_gaps_pass_on():
    t = np.arange(6.0)
    values = np.stack([t + 1.0, 2.0 * t + 1.0], axis=1)
    values[2, 0] = np.nan
    series = TimeSeries.from_arrays(t, values, ["a", "b"], sigma=np.tile([3.0, 4.0], (6, 1)))
    wide = with_latent_states(series, ["c"])
    told = infer_latent_states(wide, ["c"], knowledge(wide.states, conserve=["a + b + 0.5*c = 3"]))
    run = told.trajectories[0]
    assert run.sigma[0, 2] == pytest.approx(10.0) and np.isnan(run.values[2, 2])
    assert np.isnan(run.sigma[2, 2])


def test_what_no_sum_tells_keeps_no_samples():
    run = simulate_system("fsir").trajectories[0]
    series = TimeSeries.from_arrays(run.time, run.values[:, :2], ["S", "I"])
    wide = with_latent_states(series, ["R", "D"])
    known = knowledge(wide.states, conserve=["S + I + R + D = 100"])
    told = infer_latent_states(wide, ["R", "D"], known)
    assert np.isnan(told.trajectories[0].values[:, 2:]).all() and not told.messages
    with pytest.raises(InputError, match="'S'"):
        with_latent_states(series, ["S"])
