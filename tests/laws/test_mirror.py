"""States that are negative throughout: fitted as mirror images, told as they are."""

import dataclasses
from functools import cache

import numpy as np
import pytest

from odediscovery import Discovery, Equations, TimeSeries, discover, fit_constants, settings_for, simulate_system
from odediscovery.data.series import with_controls
from odediscovery.errors import InputError
from odediscovery.knowledge.constraints import knowledge
from odediscovery.laws.power_sum import Features, PowerSum, Sums
from odediscovery.laws.records import extended, monomial_names, with_law
from odediscovery.report.readings import readings
from odediscovery.uncertainty.bands import band
from odediscovery.uncertainty.profile import profile

QUICK = {"members": 0, "seed": 0}


def mirrored(series, *names):
    """The series with the values of some states times -1."""
    sign = np.array([-1.0 if name in names else 1.0 for name in series.states])
    runs = tuple(dataclasses.replace(t, values=t.values * sign) for t in series.trajectories)
    return dataclasses.replace(series, trajectories=runs)


def fall(noise=0.0, starts=(-0.2,)):
    """v' = -9.81 + 0.4 (-v)^1.5, in free fall for 3 s."""
    t = np.linspace(0.0, 3.0, 60)
    law = Equations.parse(["v"], {"v": "-9.81 + 0.4*(-v)**1.5"})
    random = np.random.default_rng(0)
    runs = [law.simulate([v], t) for v in starts]
    return TimeSeries.from_arrays([t] * len(runs), [v + noise * random.standard_normal(v.shape) for v in runs], ["v"])


@cache
def found_fall(noise=0.0):
    return discover(fall(noise), settings_for(**QUICK))


@cache
def found_fsir():
    # Both images are judged to the end, however slow the machine is.
    return discover(simulate_system("fsir"), settings_for(**QUICK, thorough=True, conserve=["S + I + R"]))


# Numbers and text


def test_fractional_powers_are_of_minus_x_and_whole_ones_of_x():
    law = PowerSum(np.array([[1.0, 10.0, 100.0]]), np.array([[0.5], [2.0], [-1.0]]), mirrored=(0,))
    assert law.rhs(np.array([[-4.0]])).tolist() == [[2.0 + 160.0 - 25.0]]


@pytest.mark.parametrize("scale", ([-2.0, 3.0], [-0.5, -7.0]))
def test_rescaling_by_a_negative_scale_keeps_the_law(scale):
    s = np.array(scale)
    w = np.array([[0.5, 1.0], [3.0, 0.0], [-1.0, 2.0], [0.0, 0.3]])
    law = PowerSum(np.array([[1.0, -2.0, 0.5, 1.0], [3.0, 0.0, 1.0, 4.0]]), w)
    user = law.unscaled(s, 0.25)
    assert user.mirrored == tuple(np.flatnonzero(s < 0.0))
    x = np.random.default_rng(0).uniform(0.5, 2.0, (9, 2))
    np.testing.assert_allclose(user.rhs(x * s), law.rhs(x) * s / 0.25, rtol=1e-13)
    back = user.rescaled(s, 0.25)
    assert back.mirrored == ()
    np.testing.assert_allclose(back.coefficients, law.coefficients, rtol=1e-13)


def test_sums_and_functions_of_a_mirrored_state_keep_their_values():
    inner = Features(1, (), Sums(np.array([[4.0]]), np.array([[1.5]])))
    law = PowerSum(np.array([[2.0]]), np.array([[0.5, -1.0]]), inner)
    user, s = law.unscaled(np.array([-3.0]), 1.0), np.array([-3.0])
    x = np.array([[0.5], [2.0]])
    np.testing.assert_allclose(user.rhs(x * s), law.rhs(x) * s, rtol=1e-13)
    printed = Equations.from_power_sum(
        ["v"], user, standard_errors=user.with_constants(*(0.0 * c for c in user.constants))
    )
    np.testing.assert_allclose(printed.rhs(x * s), user.rhs(x * s), rtol=1e-12)
    assert printed.pretty().count("(-v)^") == 2
    again = with_law(Equations.parse(["v"], printed.texts()), extended(printed)).law
    assert again is not None and again.mirrored == (0,)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("0.4*(-v)**1.5 - 9.81", "0.4*(-v)**1.5 - 9.81"),
        ("v**3*(-v)**0.3", "-(-v)**3.3"),
        ("(-v)**0.5*(-v)**0.5", "-v"),
        ("(-v)**3 + (-v)**2", "v**2 - v**3"),
        ("(-v)**(-0.5)", "(-v)**(-0.5)"),
        ("sqrt(-4*v)", "2*(-v)**0.5"),
    ],
)
def test_powers_of_minus_x_are_read_as_numbers(text, same):
    law = Equations.parse(["v"], {"v": text})
    assert law.power_sum is not None
    assert law.texts() == {"v": same} or Equations.parse(["v"], {"v": same}).texts() == law.texts()
    x = np.array([[-0.3], [-2.0]])
    v = x[:, 0]
    np.testing.assert_allclose(law.rhs(x)[:, 0], eval(text, {"v": v, "sqrt": np.sqrt}), rtol=1e-12)


def test_powers_of_x_and_of_minus_x_are_no_sum_of_monomials():
    law = Equations.parse(["v"], {"v": "(-v)**0.5 + v**0.5"})
    assert law.power_sum is None and law.texts() == {"v": "(-v)**0.5 + v**0.5"}


def test_every_notation_writes_minus_x():
    law = Equations.parse(["v"], {"v": "0.4*(-v)**1.5 - 2*v - v**2"})
    assert law.pretty() == "v' = 0.4*(-v)^1.5 - 2*v - v^2"
    assert r"0.4\,\left(-v\right)^{1.5}" in law.latex()["v"]
    assert "0.4*(-v)^1.5" in law.julia() and monomial_names(law)[-1:] != []
    space = {}
    exec(law.python(), space)
    expected = 0.4 * 4.0**1.5 + 8.0 - 16.0
    assert space["rates"](0.0, [-4.0]).tolist() == pytest.approx([expected])
    (first, *_) = readings(law, np.array([[-4.0], [-1.0]]))[0]
    assert "(−v) to the power 1.5" in first.striptags()


# Fits


@pytest.mark.long
@pytest.mark.parametrize("noise", (0.0, 0.1))
def test_drag_on_a_fall_has_its_power(noise):
    found = found_fall(noise)
    law, errors = found.equations.power_sum, found.equations.standard_errors
    assert law.mirrored == (0,) and sorted(law.exponents.ravel()) == [0.0, 1.5]
    for power, true in ((0.0, -9.81), (1.5, 0.4)):
        (j,) = np.flatnonzero(law.exponents[:, 0] == power)
        assert abs(law.coefficients[0, j] - true) <= 4.0 * errors.coefficients[0, j]
    assert "(-v)^1.5" in found.equations_text()
    assert found.initial_values[0, 0] == pytest.approx(-0.2, abs=0.1)
    assert found.initial_value_errors is not None and found.initial_value_errors[0, 0] > 0.0


def test_a_mirrored_result_is_kept_and_predicts(tmp_path):
    found = found_fall(0.1)
    found.save(tmp_path)
    again = Discovery.load(tmp_path)
    assert again.equations.texts() == found.equations.texts()
    assert again.equations_text() == found.equations_text()
    assert again.equations.power_sum.mirrored == (0,)
    (entry,) = [e for e in again.as_dict()["terms"] if e["powers"]]
    assert entry["of_minus"] == ["v"] and entry["powers"] == {"v": 1.5}
    times = np.linspace(0.0, 4.0, 9)
    ahead = band(again, times)
    np.testing.assert_array_equal(ahead.curve, found.simulate(times=times))
    assert (ahead.confidence > 0.0).all() and (ahead.curve < 0.0).all()
    space = {}
    exec(again.equations.python(), space)
    np.testing.assert_allclose(space["rates"](0.0, [-3.0]), again.equations.rhs([-3.0]))


def test_the_profile_of_a_mirrored_constant_is_that_of_its_image():
    series = fall(0.1)
    forms = {"": ("v", "-9.81 + 0.4*(-v)**1.4"), "v": ("v", "9.81 - 0.4*v**1.4")}
    found = {}
    for names, (state, text) in forms.items():
        there = fit_constants(mirrored(series, *names), Equations.parse([state], {state: text}))
        j = int(np.argmax(there.equations.power_sum.exponents[:, 0]))
        found[names] = [profile(there, kind, j, "v") for kind in ("coefficient", "exponent")]
    for one, other, sign in zip(found[""], found["v"], (-1.0, 1.0), strict=True):
        assert one.value == pytest.approx(sign * other.value, rel=1e-6)
        ends = sorted((sign * other.low, sign * other.high))
        assert (one.low, one.high) == pytest.approx(ends, rel=1e-3)


@pytest.mark.long
@pytest.mark.parametrize("names", (("S", "I", "R"), ("I",)))
def test_the_mirror_image_of_fsir_has_the_mirrored_law(names):
    series, signs_of = simulate_system("fsir"), ["-" if n in names else "+" for n in "SIR"]
    total = "{} S {} I {} R".format(*signs_of).removeprefix("+ ")
    here = found_fsir()
    there = discover(mirrored(series, *names), settings_for(**QUICK, thorough=True, conserve=[total]))
    x = np.random.default_rng(0).uniform(1.0, 50.0, (20, 3))
    sign = np.where(np.isin(list("SIR"), names), -1.0, 1.0)
    np.testing.assert_allclose(there.equations.rhs(x * sign), here.equations.rhs(x) * sign, rtol=1e-9)
    assert there.equations_text().count("^0.5") == here.equations_text().count("^0.5") == 4
    np.testing.assert_allclose(there.initial_values, here.initial_values * sign, rtol=1e-9)
    assert here.initial_value_errors is not None and there.initial_value_errors is not None
    np.testing.assert_allclose(there.initial_value_errors, here.initial_value_errors, rtol=1e-6)
    assert there.mse == pytest.approx(here.mse, rel=1e-6)
    np.testing.assert_allclose(there.noise, here.noise, rtol=1e-6)


def test_one_trajectory_that_rises_above_zero_leaves_whole_powers():
    t = np.linspace(0.0, 3.0, 40)
    law = Equations.parse(["v"], {"v": "-9.81 - 0.5*v"})
    runs = [law.simulate([v], t) for v in (-0.2, 15.0)]
    found = discover(TimeSeries.from_arrays([t, t], runs, ["v"]), settings_for(**QUICK))
    assert found.equations.power_sum.mirrored == ()
    assert sorted(found.equations.power_sum.exponents.ravel()) == [0.0, 1.0]


def test_an_input_that_is_negative_throughout_has_real_powers_too():
    t = np.linspace(0.0, 8.0, 40)
    feed = -2.0 - 1.5 * np.sin(t)
    law = Equations.parse(["x"], {"x": "0.7*(-u)**0.5 - 0.5*x"}, controls=["u"])
    driven = with_controls(TimeSeries.from_arrays(t, np.column_stack([t, feed]), ["x", "u"]), linear=["u"])
    values = law.simulate([1.0], t, controls=driven.trajectories[0].controls)
    run = dataclasses.replace(driven.trajectories[0], values=values)
    found = discover(dataclasses.replace(driven, trajectories=(run,)), settings_for(**QUICK))
    assert "(-u)^0.5" in found.equations_text()
    assert found.r2 > 0.999999


@pytest.mark.long
def test_a_hidden_state_that_a_sum_tells_may_be_negative():
    series = mirrored(simulate_system("fsir"), "S", "I", "R")
    known = TimeSeries.from_arrays(series.trajectories[0].time, series.trajectories[0].values[:, :2], ["S", "I"])
    found = discover(known, settings_for(**QUICK, hidden_states=("R",), conserve=["S + I + R = -100.01"]))
    assert found.equations_text().count("(-S)^0.5*(-I)^0.5") == 2


def test_flows_of_unmeasured_states_ask_for_amounts():
    t = np.linspace(0.0, 5.0, 20)
    series = TimeSeries.from_arrays(t, -np.exp(-t), ["v"])
    with pytest.raises(InputError, match=r"'v' is negative.*times -1"):
        discover(series, settings_for(**QUICK, hidden_states=("h",)))


# What is known


@pytest.mark.long
def test_a_fall_with_known_kinematics_has_its_drag():
    t = np.linspace(0.0, 3.0, 60)
    law = Equations.parse(["h", "v"], {"h": "v", "v": "-9.81 + 0.4*(-v)**1.5"})
    series = TimeSeries.from_arrays(t, law.simulate([40.0, -0.2], t), ["h", "v"])
    options = settings_for(**QUICK, known=["h' = v", "v' = -9.81 + ?"], forbid=["v: h"])
    found = discover(series, options)
    assert found.equations_text().startswith("h' = v\nv' = 0.4")
    assert "*(-v)^1.5 - 9.81" in found.equations_text()
    assert "v' = -9.81 + ? is given" in found.messages


@pytest.mark.parametrize(
    ("text", "sign", "told"),
    [
        ("v' = v**0.5 + ?", 1.0, "power of v, which is negative in the data; expected one of -v"),
        ("v' = (-v)**0.5 + ?", -1.0, "power of -v, which is negative in the data; expected one of v"),
    ],
)
def test_known_powers_of_the_wrong_sign_are_refused(text, sign, told):
    series = fall() if sign > 0 else mirrored(fall(), "v")
    with pytest.raises(InputError, match=told.replace("(", r"\(")):
        discover(series, settings_for(**QUICK, known=[text]))


def test_knowledge_rescales_by_negative_scales_and_back():
    given = knowledge(["h", "v"], known=["v' = 2*(-v)**1.5 - 3*v + h + ?"], conserve=["h + 2*v"])
    scale = np.array([4.0, -2.0])
    there = given.rescaled(scale, 0.5)
    assert there.known[1] is not None and there.known[1].mirrored == ()
    back = there.rescaled(1.0 / scale, 2.0)
    assert back.known[1] is not None and back.known[1].mirrored == (1,)
    assert given.sentences() == back.sentences()
