"""Textbook laws fitted to made-up data: the right one, its constants, and within how much time."""

from dataclasses import replace

import numpy as np
import pytest

from odediscovery.data.series import TimeSeries
from odediscovery.laws.equations import Equations
from odediscovery.problem.problem import prepare
from odediscovery.runtime.monitor import Monitor
from odediscovery.textbook.fit import (
    Fitter,
    criterion_of,
    fit_textbook,
    is_left_to_noise,
    named_constants,
    path_of,
    positive_start,
    recognise,
    start_of,
)
from odediscovery.textbook.registry import TEXTBOOK, find


def made(sides, start, until, samples=30, noise=0.01, seed=0):
    states = list(sides)
    t = np.linspace(0.0, until, samples)
    x = Equations.parse(states, sides).simulate(start, t)
    x = x + noise * np.std(x, axis=0) * np.random.default_rng(seed).standard_normal(x.shape)
    return TimeSeries.from_arrays(t, x, states)


CASES = {
    "logistic growth": ({"N": "0.5*N*(1 - N/80)"}, [2.0], 20.0, {"r": 0.5, "K": 80.0}),
    "Gompertz growth": ({"N": "0.4*N*log(80/N)"}, [2.0], 15.0, {"r": 0.4, "K": 80.0}),
    "approach to a resting value": ({"T": "0.2*(20 - T)"}, [90.0], 15.0, {"k": 0.2, "L": 20.0}),
    "outflow through an opening above the zero (Torricelli)": (
        {"h": "-0.5*(h - 4)**0.5"}, [20.0], 12.0, {"k": 0.5, "x0": 4.0},
    ),
    "saturating elimination (Michaelis-Menten, Monod)": ({"c": "-2*c/(3 + c)"}, [12.0], 12.0, {"V": 2.0, "K": 3.0}),
    "an enzyme reaction and its product (Michaelis-Menten)": (
        {"P": "2*S/(1.5 + S)", "S": "-2*S/(1.5 + S)"}, [0.0, 7.0], 8.0, {"V": 2.0, "K": 1.5},
    ),
    "predator and prey (Lotka-Volterra)": (
        {"x": "x - 0.1*x*y", "y": "0.05*x*y - 0.8*y"}, [20.0, 8.0], 15.0, {"a": 1.0, "b": 0.1, "c": 0.05, "d": 0.8},
    ),
    "a damped oscillator": ({"v": "-2*x - 0.3*v", "x": "v"}, [0.0, 1.0], 8.0, {"k": 2.0, "c": 0.3}),
    "an epidemic (SIR)": (
        {"R": "0.4*I", "S": "-0.002*S*I", "I": "0.002*S*I - 0.4*I"}, [0.0, 760.0, 3.0], 15.0, {"b": 0.002, "g": 0.4},
    ),
    "an epidemic with waning immunity (SIRS)": (
        {"R": "0.4*I - 0.1*R", "S": "0.1*R - 0.002*S*I", "I": "0.002*S*I - 0.4*I"}, [0.0, 760.0, 3.0], 20.0,
        {"b": 0.002, "g": 0.4, "w": 0.1},
    ),
    "an epidemic with latency (SEIR)": (
        {"E": "0.002*S*I - 0.5*E", "I": "0.5*E - 0.4*I", "R": "0.4*I", "S": "-0.002*S*I"}, [0.0, 3.0, 0.0, 760.0], 30.0,
        {"b": 0.002, "a": 0.5, "g": 0.4},
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_law_behind_the_data_is_the_best(name):
    sides, start, until, wanted = CASES[name]
    p = prepare(made(sides, start, until))
    found = fit_textbook(p, Monitor())
    best = min(found, key=lambda one: criterion_of(p, one))
    assert best.says == name
    constants = named_constants(Fitter.of(p), best)
    for constant, value in wanted.items():
        k = constants.names.index(constant)
        assert abs(constants.values[k] - value) < 4.0 * constants.errors[k] < 0.4 * value


def test_a_law_is_recognised_however_it_is_written():
    p = prepare(made(*CASES["logistic growth"][:3]))
    start = np.array([[2.0]]) / p.scale.state
    found = recognise(p, Equations.parse(["N"], {"N": "0.5*N - 0.00625*N**2"}), start)
    assert found is not None and found.says == "logistic growth"
    assert recognise(p, Equations.parse(["N"], {"N": "0.5*N - 0.00625*N**2 + 0.1*N**0.3"}), start) is None


@pytest.mark.slow
def test_each_state_alone():
    p = prepare(made({"a": "0.5*a*(1 - a/80)", "b": "0.3*b*(1 - b/9)"}, [2.0, 1.0], 20.0))
    best = min(fit_textbook(p, Monitor()), key=lambda one: criterion_of(p, one))
    assert best.says == "logistic growth"
    np.testing.assert_allclose(best.constants, [0.5, 80.0, 0.3, 9.0], rtol=0.05)


def test_constants_beyond_all_numbers_are_no_law():
    """A power of thousands of a state in other units cannot be written, so it is passed over."""
    t = np.arange(8.0)
    p = prepare(TimeSeries.from_arrays(t, np.minimum(1.0 + t, 6.0), ["x"]))
    law = find("theta-logistic")
    form, _ = law.form(("x",))
    fitter = Fitter.of(p)
    values = dict(zip(law.constants, (0.5, 1e-3, 4000.0), strict=True))
    constants = np.array([values[name] for name in form.names])
    assert fitter.taken(form, constants, np.array([[1.0]]), law.says) is None


def test_growth_is_found_where_its_first_sample_says_nothing() -> None:
    series = made({"N": "0.76*N*(1 - N/540)"}, [2.5], 24.0, 25, noise=0.1, seed=1)
    fitter = Fitter.of(prepare(series))
    # Far below the truth: grown from there with nearly the right constants, the curve is late by two weeks.
    fitter = replace(fitter, begun=4e-5 / fitter.scale.state[None])
    (law,) = (law for law in TEXTBOOK if law.says == "logistic growth")
    fitted = fitter.fit(law.form(["N"])[0], np.array([0.758, 547.0]), law.says, worst=0.2)
    assert fitted is not None
    assert fitted.constants[0] == pytest.approx(0.76, rel=0.2)
    assert fitted.constants[1] == pytest.approx(540.0, rel=0.05)


def test_a_law_that_leaves_more_than_noise_is_told_from_one_that_does_not() -> None:
    p = prepare(made({"N": "0.5*N*(1 - N/80)"}, [2.0], 20.0, noise=0.02))
    left = {one.says: is_left_to_noise(p, one) for one in fit_textbook(p, Monitor())}
    assert left["logistic growth"]
    assert not left["exponential growth"]


@pytest.mark.slow
def test_noise_does_not_turn_the_sign_of_a_small_constant_for_good():
    """One species hardly harms the other, which the smoothed path of few samples takes for a benefit."""
    sides = {"x": "x*(0.9 - 0.009*x - 0.0002*y)", "y": "y*(0.8 - 0.004*x - 0.01*y)"}
    p = prepare(made(sides, [3.0, 4.0], 14.0, samples=18, noise=0.06, seed=1))
    law, path = find("competition"), path_of(p)
    form, sought = law.form(["x", "y"])
    (start,) = start_of(form, sought, path, most=1)
    assert start.constants.min() < 0.0 and law.called(form.names, start.constants) == ""
    mended = positive_start(form, list(sought), path, start, law.signed)
    assert mended.constants.min() > 0.0 and mended.misfit < 2.0 * start.misfit
    best = min(fit_textbook(p, Monitor()), key=lambda one: criterion_of(p, one))
    assert best.says == "competition (Lotka-Volterra)"


@pytest.mark.slow
@pytest.mark.parametrize("first", [-3.0, 0.0, 2.0])
def test_growth_is_found_whatever_noise_made_of_its_first_sample(first: float) -> None:
    """From x = 0 a power below 1 may stay at 0 for ever, and the fit with it."""
    t = np.linspace(0.0, 60.0, 60)
    x = (8.0 * (1.0 - np.exp(-0.05 * t))) ** 3
    x = x + 5.0 * np.random.default_rng(0).standard_normal(60)
    x[0] = first
    p = prepare(TimeSeries.from_arrays(t, x, ["m"]))
    best = min(fit_textbook(p, Monitor()), key=lambda one: criterion_of(p, one))
    assert best.says == "von Bertalanffy growth"
