"""Bands, intervals, profiles and bootstraps: right, printed, kept and read again."""

import csv
import dataclasses
import io
import json
import math

import numpy as np
import pytest
from faces import discovery
from listening import Here
from problems import LOGISTIC, PREY, STARTS, TWINS, logistic, series_of, solved
from scipy.optimize import curve_fit
from scipy.special import stdtrit

from odediscovery import Discovery, Equations, FitError, InputError, Monitor, TimeSeries, bootstrap, fit_constants
from odediscovery.command.cli import main
from odediscovery.data.series import Scale
from odediscovery.laws.power_sum import Features, Function, PowerSum, Sums, all_free, count
from odediscovery.laws.records import constants, residual_freedom
from odediscovery.result.profiled import Profile
from odediscovery.result.survival import Survival
from odediscovery.stages.polish import polish, unscaled_errors
from odediscovery.uncertainty.bands import band, residual_deviation
from odediscovery.uncertainty.bootstrap import with_survival
from odediscovery.uncertainty.profile import profile, profiles, with_profiles

DECAY = PowerSum(np.array([[-0.4]]), np.array([[1.0]]))
TIMES = np.linspace(0.0, 8.0, 25)


def fitted(law, series):
    """The result of fitting the coefficients of the true law."""
    return fit_constants(series, Equations.from_power_sum(series.states, law), exponents=False)


def measured(law, start, times, sigma, seed):
    clean = solved(law, start, times)
    noise = sigma * np.random.default_rng(seed).standard_normal(clean.shape)
    return TimeSeries.from_arrays(times, clean + noise)


@pytest.fixture(scope="module")
def decay():
    return fitted(DECAY, measured(DECAY, np.array([30.0]), TIMES, 0.5, 0))


def test_the_band_of_a_decay_is_that_of_its_formula(decay):
    assert decay.equations.power_sum is not None and decay.degrees_of_freedom == 23
    rate, x0 = -decay.equations.power_sum.coefficients[0, 0], decay.initial_values[0, 0]
    times = np.array([0.0, 1.0, 5.0, 40.0])
    # x = x0 exp(-a t), so J = (dx/da, dx/dx0) at the samples, and C = s^2 (J^T J)^-1.

    def slopes(t):
        return np.stack([-t * x0 * np.exp(-rate * t), np.exp(-rate * t)], axis=1)

    s = residual_deviation(decay)[0]
    assert s == pytest.approx(0.5, rel=0.3)
    covariance = s**2 * np.linalg.inv(slopes(TIMES).T @ slopes(TIMES))
    deviation = np.sqrt(np.einsum("tp,pq,tq->t", slopes(times), covariance, slopes(times)))
    student = float(stdtrit(23, 0.975))
    found = band(decay, times)
    np.testing.assert_allclose(found.confidence[:, 0], student * deviation, rtol=1e-3)
    np.testing.assert_allclose(found.prediction[:, 0], student * np.hypot(deviation, s), rtol=1e-3)
    np.testing.assert_allclose(found.curve[:, 0], x0 * np.exp(-rate * times), rtol=1e-6)
    # Behind the start, too, and at times that do not hold it.
    np.testing.assert_allclose(band(decay, times[2:]).confidence, found.confidence[2:], rtol=1e-6)


def test_given_starts_are_exact(decay):
    found = band(decay, np.array([3.0, 5.0]), np.array([10.0]))
    assert found.confidence[0, 0] == 0.0
    error = decay.estimates.covariance.deviations()[0] / decay.estimates.scale.time
    student = float(stdtrit(23, 0.975))
    assert found.confidence[1, 0] == pytest.approx(student * 2.0 * found.curve[1, 0] * error)
    with pytest.raises(InputError, match="before the first sample"):
        band(decay, np.array([-1.0, 5.0]))


def test_new_measurements_are_within_as_often_as_said():
    times, start = np.linspace(0.0, 12.0, 25), np.array([1.5, 0.8])
    later = np.linspace(0.0, 18.0, 31)
    clean, inside, on_curve = solved(PREY, start, later), [], []
    for seed in range(15):
        found = band(fitted(PREY, measured(PREY, start, times, 0.05, seed)), later)
        new = clean + 0.05 * np.random.default_rng(1000 + seed).standard_normal(clean.shape)
        inside.append((found.low <= new) & (new <= found.high))
        on_curve.append(np.abs(found.curve - clean) <= found.confidence)
    assert 0.92 <= np.mean(inside) <= 0.98
    assert 0.88 <= np.mean(on_curve) <= 0.99


def predicted(capsys, folder, *options):
    """Header and rows that the command writes."""
    assert main(["predict", str(folder), *options]) == 0
    header, *rows = csv.reader(io.StringIO(capsys.readouterr().out))
    return header, rows


def test_predict_writes_the_intervals(decay, tmp_path, capsys):
    folder = tmp_path / "found"
    decay.save(folder)
    header, rows = predicted(capsys, folder, "--intervals", "--until", "10")
    assert header == ["t", "x0", "x0_low", "x0_high"]
    numbers = np.array(rows, dtype=float)
    expected = band(decay, numbers[:, 0])
    np.testing.assert_allclose(numbers[:, 1:], np.hstack([expected.curve, expected.low, expected.high]), rtol=1e-9)
    exact = np.array(predicted(capsys, folder, "--intervals", "--initial", "x0=5")[1][0], dtype=float)
    noise = float(stdtrit(23, 0.975)) * residual_deviation(decay)[0]
    np.testing.assert_allclose(exact, [0.0, 5.0, 5.0 - noise, 5.0 + noise])


def test_results_without_covariance_say_so(decay, tmp_path, capsys):
    folder = tmp_path / "found"
    decay.save(folder)
    (folder / "covariance.npz").unlink()
    # As earlier versions wrote it, without the hashes of its files.
    document = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    del document["files"]
    (folder / "result.json").write_text(json.dumps(document), encoding="utf-8")
    assert main(["predict", str(folder), "--intervals"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: this result has no covariance") and error.count("\n") == 1
    assert main(["predict", str(folder)]) == 0
    other = fitted(LOGISTIC, measured(LOGISTIC, np.array([0.1]), TIMES, 0.02, 0))
    mixed = dataclasses.replace(decay, estimates=other.estimates)
    with pytest.raises(InputError, match="other equations"):
        band(mixed)
    named = discovery(PowerSum(-np.eye(2), np.eye(2)), ("a", "a_low"), initial=(1.0, 1.0))
    named.save(tmp_path / "named")
    assert main(["predict", str(tmp_path / "named"), "--intervals"]) == 2
    assert "rename the column" in capsys.readouterr().err


def test_starts_are_printed_and_kept_with_their_errors(decay, tmp_path):
    value, error = decay.initial_values[0, 0], decay.initial_value_errors[0, 0]
    assert 0.1 < error < 0.6
    assert decay.starts_text() == f"at t = 0: x0 = {value:.2f}({round(error * 100)})"
    decay.save(tmp_path / "found")
    document = Discovery.load(tmp_path / "found").as_dict()
    assert document == decay.as_dict()
    assert document["initial_value_errors"] == [{"x0": error}]
    low, high = document["initial_value_intervals"][0]["x0"]
    half = float(stdtrit(23, 0.975)) * error
    assert (low, high) == (pytest.approx(value - half), pytest.approx(value + half))
    assert discovery().starts_text() == ""
    many = dataclasses.replace(discovery(runs=6), initial_value_errors=np.full((6, 3), np.nan))
    lines = many.starts_text().splitlines()
    assert len(lines) == 5 and "2 more trajectories" in lines[-1]
    assert lines[1] == "run 2, at t = 0: S = 50, I = 0.005, R = 0"


def test_predict_writes_every_trajectory(tmp_path, capsys):
    times = [np.arange(8.0), np.arange(2.0, 12.0)]
    values = [x0 * np.exp(-0.3 * (t - t[0])) for x0, t in zip((4.0, 9.0), times, strict=True)]
    series = TimeSeries.from_arrays(times, values, ["x"], labels=["a", "b"])
    found = fit_constants(series, Equations.parse(["x"], {"x": "-0.2*x"}), exponents=False)
    found.save(tmp_path / "two")
    header, rows = predicted(capsys, tmp_path / "two")
    assert header == ["trajectory", "t", "x"]
    assert [row[0] for row in rows] == ["a"] * 8 + ["b"] * 10
    np.testing.assert_allclose([float(row[2]) for row in rows], np.concatenate(values), rtol=1e-6)
    header, rows = predicted(capsys, tmp_path / "two", "--intervals", "--until", "20")
    assert header == ["trajectory", "t", "x", "x_low", "x_high"] and rows[-1][:2] == ["b", "20.0"]
    header, rows = predicted(capsys, tmp_path / "two", "--initial", "x=5")
    assert (header, rows[0]) == (["t", "x"], ["0.0", "5.0"])


DRAWS = 60
ONE = np.array([[1.0]])
# x' = 1 - 2 x / (1 + 0.5 x), x' = 1.2 - 0.2 x - exp(-0.7 x), x' = 3 - 0.8 x^1.5 / (1 + 0.1 x^2)
UPTAKE = PowerSum(np.array([[0.6, -2.0]]), np.array([[0.0, 0.0], [1.0, -1.0]]), Features(1, (), Sums(0.5 * ONE, ONE)))
RELEASE = PowerSum(
    np.array([[1.2, -0.2, -1.0]]), np.array([[0.0, 0.0], [1.0, 0.0], [0.0, -0.7]]), Features(1, (Function("exp", 0),))
)
HILL = PowerSum(np.array([[-3.0]]), np.array([[1.0, -1.0]]), Features(1, (), Sums(0.6 * ONE, 1.5 * ONE)))


def only(law, outer, inner=False):
    """Coefficients and weights are fitted, and the exponents named."""
    a, _, b, v = all_free(law)
    return a, outer != 0, b, v & inner


# Law, what is fitted, starts of the trajectories, their last time.
LAWS = {
    "sum": (UPTAKE, only(UPTAKE, np.zeros((2, 2))), [6.0], 6.0),
    "exponential": (RELEASE, only(RELEASE, np.minimum(RELEASE.exponents, 0.0)), [0.1, 12.0], 12.0),
    "inner exponent": (HILL, only(HILL, np.zeros((1, 2)), inner=True), [4.0], 2.5),
}
SAMPLES = 25
# Far from the size of the states, so that the way back to the user's units counts.
SCALE = Scale(np.array([30.0]), 0.05)


def polished(law, free, runs, times, sigma, seed):
    """The true law polished on one draw of the noise, in units of `SCALE`."""
    generator = np.random.default_rng(seed)
    seen = [(x + sigma * generator.standard_normal(x.shape)) / SCALE.state for x in runs]
    series = TimeSeries.from_arrays([times / SCALE.time] * len(runs), seen)
    size = np.array([sigma]) / SCALE.state
    return polish(
        law.rescaled(SCALE.state, SCALE.time),
        series,
        np.stack([x[0] for x in runs]) / SCALE.state,
        size,
        floor=1e-6 * size,
        nonnegative=np.array([True]),
        free=free,
    )


def records(equations, degrees=None):
    """The records of the constants of x by what they are."""
    return {
        tuple(row.get(k) for k in ("kind", "sum", "monomial", "of")): row for row in constants(equations, degrees)["x"]
    }


def found_in(found):
    """The equation in the user's units."""
    return Equations.from_power_sum(
        ["x"], found.law.unscaled(SCALE.state, SCALE.time), standard_errors=unscaled_errors(found, SCALE)
    )


@pytest.mark.parametrize("name", LAWS)
def test_intervals_hold_the_true_constants_as_often_as_they_say(name):
    law, free, starts, until = LAWS[name]
    true, times = Equations.from_power_sum(["x"], law), np.linspace(0.0, until, SAMPLES)
    runs, truth = [true.simulate([start], times) for start in starts], records(true)
    inside = {}
    for seed in range(DRAWS):
        found = polished(law, free, runs, times, 0.02, seed)
        for key, row in records(found_in(found), residual_freedom(found)).items():
            if row["snapped"]:
                assert row["standard_error"] == 0.0 and row["interval"] is None
            else:
                low, high = row["interval"]
                inside.setdefault(key, []).append(low <= truth[key]["value"] <= high)
    assert len(inside) == count(free)
    rates = {key: float(np.mean(hits)) for key, hits in inside.items()}
    assert all(0.88 <= rate <= 0.99 for rate in rates.values()), rates


# x' = 2 - 0.5 sin(x) x^2 / (1 + 0.25 x^1.98), y' = y exp(-0.3 x) - y^1.5
RICH = PowerSum(
    np.array([[2.0, -0.5, 0.0, 0.0], [0.0, 0.0, 1.2, -1.0]]),
    np.array([[0, 0, 0, 0, 0.0], [2, 0, 1, 0, -1], [0, 1, 0, -0.3, 0], [0, 1.5, 0, 0, 0]]),
    Features(2, (Function("sin", 0), Function("exp", 0)), Sums(0.25 * ONE, np.array([[1.98, 0.0, 0.0, 0.0]]))),
)
STATES = ("x y", "y")


def rich(change=lambda c: 0.01 * np.abs(c)):
    """The law above, its whole powers held and other errors as given (default: 1 %)."""
    a, w, b, v = (np.where(c == 0, 0.0, change(c)) for c in RICH.constants)
    held = np.isin(RICH.exponents, [0.0, 1.0, 2.0, -1.0])
    errors = RICH.with_constants(a, np.where(held, 0.0, w), b, v)
    return Equations.from_power_sum(STATES, RICH, standard_errors=errors)


def kept(equations, degrees=30):
    """A result with these equations."""
    made = discovery(PowerSum(np.diag([-0.3, -0.2]), np.eye(2)), STATES, initial=(2.0, 1.0))
    front = (dataclasses.replace(made.front[1], equations=equations),)
    return dataclasses.replace(made, equations=equations, front=front, degrees_of_freedom=degrees)


def test_extended_laws_are_printed_with_their_errors():
    assert rich().pretty().splitlines() == [
        "x y' = 2.000(20) - 0.5000(50)*x y^2*sin(x y)/(1 + 0.2500(25)*x y^1.980(20))",
        "y' = 1.200(12)*y*exp(-0.3000(30)*x y) - 1.000(10)*y^1.500(15)",
    ]
    unknown = rich(lambda c: np.full_like(c, np.nan)).pretty().splitlines()
    assert unknown[1] == "y' = 1.2*y*exp(-0.3*x y) - y^1.5"
    free = RICH.with_constants(*(np.where(c != 0, 0.01, 0.0) for c in RICH.constants))
    text = Equations.from_power_sum(STATES, RICH, standard_errors=free).pretty()
    assert "sin(x y)^1.000(10)*(1 + 0.250(10)*x y^1.980(10))^-1.000(10)" in text


@pytest.mark.parametrize(("degrees", "t"), [(30, 2.0422725), (None, None)])
def test_extended_laws_come_back_with_all_their_constants(tmp_path, degrees, t):
    before = kept(rich(), degrees)
    before.save(tmp_path / "found")
    after = Discovery.load(tmp_path / "found")
    assert after.equations_text() == before.equations_text()
    assert after.as_dict() == before.as_dict()
    assert after.degrees_of_freedom == degrees
    after.save(tmp_path / "again")
    one, other = ((tmp_path / d / "result.json").read_bytes() for d in ("found", "again"))
    assert one == other
    document = json.loads(one)
    assert document["terms"] == document["exponents"] == []
    assert document["intervals"] == {"level": 0.95, "distribution": "Student t", "degrees_of_freedom": degrees}
    kinds = [row["kind"] for row in document["constants"]["x y"]]
    assert kinds == ["coefficient"] * 2 + ["exponent"] * 3 + ["inner_weight", "inner_exponent"]
    weight = document["constants"]["x y"][-2]
    assert (weight["value"], weight["standard_error"], weight["sum"]) == (0.25, 0.0025, 0)
    expected = None if t is None else pytest.approx([0.25 - t * 0.0025, 0.25 + t * 0.0025])
    assert weight["interval"] == expected


OFTEN = np.linspace(0.0, 12.0, 25)


@pytest.fixture(scope="module")
def prey():
    return fitted(PREY, measured(PREY, np.array([1.5, 0.8]), OFTEN, 0.02, 1))


def test_ends_are_where_the_sum_of_squares_has_grown_by_t_squared():
    found = fitted(LOGISTIC, measured(LOGISTIC, np.array([0.1]), OFTEN, 0.05, 3))
    y = found.series.trajectories[0].values[:, 0]

    def left(r):
        """Sum of squares at a rate, or the least of all."""
        if r is None:
            best, _ = curve_fit(logistic, OFTEN, y, (0.5, 0.5, 0.1))
            return float(np.sum((logistic(OFTEN, *best) - y) ** 2))
        at, _ = curve_fit(lambda t, c, n0: logistic(t, r, c, n0), OFTEN, y, (r, 0.1))
        return float(np.sum((logistic(OFTEN, r, *at) - y) ** 2))

    told = profile(found, "coefficient", 0, "x0")
    least, student = left(None), float(stdtrit(22, 0.975))
    for end in (told.low, told.high):
        assert (left(end) - least) / (least / 22) == pytest.approx(student**2, rel=0.03)
    assert told.low < 0.5 < told.high
    # It is no parabola: the interval is not symmetric, unlike that of the standard error.
    assert abs((told.high - told.value) / (told.value - told.low) - 1.0) > 0.02


def test_a_constant_that_the_data_do_not_tell_has_no_end():
    found = fitted(TWINS, measured(TWINS, np.array([0.1]), OFTEN, 0.02, 0))
    told = profile(found, "coefficient", 0, "x0")
    assert (told.low, told.high) == (-math.inf, math.inf)


@pytest.mark.long
def test_any_number_of_processes_profiles_the_same_and_the_result_keeps_it(prey, tmp_path):
    found = prey
    kept = with_profiles(found, Monitor())
    told = kept.profiles
    assert [(one.kind, one.monomial, one.of) for one in told] == [
        ("coefficient", 0, "x0"),
        ("coefficient", 1, "x0"),
        ("coefficient", 1, "x1"),
        ("coefficient", 2, "x1"),
    ]
    assert told[0] == profile(found, "coefficient", 0, "x0") and kept.messages == found.messages
    assert profiles(found, jobs=2) == (told, ())
    kept.save(tmp_path / "kept")
    again = Discovery.load(tmp_path / "kept")
    assert again.profiles == told and again.as_dict() == kept.as_dict()
    assert "95 % intervals by profile likelihood\n  x0 in x0': " in again.summary()
    document = json.loads((tmp_path / "kept" / "result.json").read_text("utf-8"))
    assert document["profiles"][0]["interval"] == [told[0].low, told[0].high]
    assert "profiles" not in found.as_dict()
    for wrong in ({"monomial": 3}, {"of": "x9"}, {"kind": "power"}, {"interval": [9.0, None]}):
        with pytest.raises(InputError, match="'profiles' should "):
            Profile.from_record(told[0].record() | wrong, found.equations)


def test_a_lost_constant_costs_no_other_and_a_stop_keeps_what_is_there(prey):
    monitor = Monitor()
    told = with_profiles(prey, monitor, Here(lambda one: (one.monomial, one.of) == (0, "x0"), monitor, 2))
    assert [(one.monomial, one.of) for one in told.profiles] == [(1, "x0")]
    assert told.messages[-3:] == tuple(
        f"no profile of {name}: stopped (interrupted)" for name in ("x0 in x0'", "x0*x1 in x1'", "x1 in x1'")
    )
    assert with_profiles(prey, monitor).profiles == ()
    none = dataclasses.replace(prey, estimates=None)
    assert with_profiles(none, Monitor()).messages[-1].startswith("no profiles: this result has no covariance")


def test_what_cannot_be_profiled_is_said(prey):
    for arguments, said in (
        (("coefficient", 7, "x0"), "numbered from 0 to 2, got 7"),
        (("coefficient", 0, "x9"), "x9"),
        (("constant", 0, "x0"), "constant"),
        (("exponent", 0, "x0"), "was not fitted"),
        (("coefficient", 2, "x0"), "was not fitted"),
    ):
        with pytest.raises(InputError, match=said):
            profile(prey, *arguments)
    with pytest.raises(InputError, match="no covariance"):
        profile(dataclasses.replace(prey, estimates=None), "coefficient", 0, "x0")


LONG = [np.linspace(0.0, 15.0, 31)]
# The true law and a constant that is not there.
MORE = PowerSum(np.hstack([PREY.coefficients, [[0.002], [0.0]]]), np.vstack([PREY.exponents, [0.0, 0.0]]))


def found_with(law, runs=1, noise=0.05):
    starts = STARTS[0] * np.linspace(0.7, 1.3, runs)[:, None]
    return fitted(law, series_of(PREY, starts, LONG * runs, noise=noise))


@pytest.fixture(scope="module")
def doubtful():
    """A law with a term that is an accident."""
    return found_with(MORE)


def test_true_terms_survive_and_accidents_do_not(doubtful):
    stable = bootstrap(found_with(PREY), 24, seed=1)
    there = PREY.coefficients != 0
    assert (stable.shares[there] > 0.9).all() and np.isnan(stable.shares[~there]).all()
    assert stable.same > 0.6
    survival = bootstrap(doubtful, 24, seed=1)
    assert survival.shares[MORE.coefficients == 0.002][0] < 0.5
    assert (survival.shares[:, :3][there] > 0.9).all()


def test_a_lost_part_costs_its_draws_only_and_a_stop_keeps_what_is_there(doubtful):
    place = Here(lambda part: part.seed[1] == 0)
    found = bootstrap(doubtful, 60, seed=1, backend=place)
    # Two parts, and the lost one is asked for once more.
    lacking = "50 of 60 draws are lacking (its process ended)"
    assert (found.draws, found.lacking, place.ran) == (10, lacking, 3)
    assert f"have just these terms; {lacking}" in found.text(found.states, found.monomials)
    assert Survival.from_record(json.loads(json.dumps(found.record()))).lacking == found.lacking
    with pytest.raises(FitError, match=r"the bootstrap could not be done: its process ended"):
        bootstrap(doubtful, 4, seed=1, backend=place)
    monitor = Monitor()
    stopped = bootstrap(doubtful, 51, seed=1, monitor=monitor, backend=Here(lambda part: False, monitor, 1))
    assert (stopped.draws, stopped.lacking) == (50, "1 of 51 draws are lacking (interrupted)")
    alone = bootstrap(doubtful, 50, seed=1)
    np.testing.assert_array_equal(stopped.shares, alone.shares)
    assert stopped.same == alone.same and stopped.others == alone.others


def test_nothing_to_draw_is_said():
    found = found_with(PREY)
    for wrong, draws, kind, says in (
        (found, 5, "trajectories", "at least 5 trajectories"),
        (found, 5, "samples", "residuals or trajectories"),
        (found, 0, "residuals", "at least 1, got 0"),
        (found_with(PREY, noise=0.0), 5, "residuals", "no noise"),
        (dataclasses.replace(found, estimates=None), 5, "residuals", "no covariance"),
    ):
        with pytest.raises(InputError, match=says):
            bootstrap(wrong, draws, kind=kind)
    with pytest.raises(InputError, match="--jobs must be at least 1, got 0"):
        bootstrap(found, 5, jobs=0)
    stopped = Monitor()
    stopped.interrupt()
    with pytest.raises(FitError, match="interrupted"):
        bootstrap(found, 5, monitor=stopped)
    assert with_survival(found, 5, stopped).messages[-1].startswith("no bootstrap: the bootstrap")


def test_stability_is_printed_and_kept(tmp_path):
    shares = np.where(PREY.coefficients != 0, 0.9, np.nan)
    survival = Survival("residuals", 40, shares, 0.75, (("x1", "x0^2", 0.1),))
    found = dataclasses.replace(found_with(PREY), survival=survival)
    assert found.stability_text().splitlines() == [
        "40 bootstrap fits (residuals drawn): 75% have just these terms",
        "  x0': x0 90%, x0*x1 90%",
        "  x1': x0*x1 90%, x1 90% (also x0^2 10%)",
    ]
    found.save(tmp_path / "found")
    document = json.loads((tmp_path / "found" / "result.json").read_text("utf-8"))
    assert [term["stability"] for term in document["terms"]] == [0.9] * 4
    assert document["bootstrap"]["draws"] == 40
    after = Discovery.load(tmp_path / "found")
    assert after.as_dict() == found.as_dict()
    assert after.stability_text() == found.stability_text()
    assert dataclasses.replace(found, survival=None).stability_text() == ""


def test_a_bootstrap_that_was_asked_for_is_not_ended_by_the_time_of_the_fit():
    spent = Monitor()
    spent.spend(0.0)
    found = with_survival(found_with(PREY, noise=0.02), 5, spent)
    assert found.survival is not None and not found.survival.lacking
