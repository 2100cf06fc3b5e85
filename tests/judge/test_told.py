"""What a reader is told: digits, resting points, closed orbits, and where equations lead."""

import dataclasses
import re

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from odediscovery import Equations, Monitor, TimeSeries
from odediscovery.judge.remarks import (
    PRINTED_AWAY,
    check_extrapolation,
    closed_orbit,
    name_undetermined,
    resting_point,
    unidentifiable_combinations,
    with_enough_digits,
)
from odediscovery.laws.equations import read_form
from odediscovery.laws.expressions import as_printed
from odediscovery.laws.power_sum import PowerSum, all_free
from odediscovery.problem.problem import prepare
from odediscovery.stages.polish import polish

T = np.linspace(0.0, 4.0, 60)


def law_of(coefficients, exponents, errors, powers):
    """One equation with standard errors."""
    return Equations.from_power_sum(
        ["x"],
        PowerSum(np.array([coefficients]), np.array(exponents)[:, None]),
        standard_errors=PowerSum(np.array([errors]), np.array(powers)[:, None]),
    )


def series_of(equations, start):
    return TimeSeries.from_arrays(T, equations.simulate([start], T), ["x"])


def test_constants_that_nearly_cancel_get_the_digits_that_they_need():
    """Known far better together than one by one: two terms of nearly the same power."""
    law = law_of([12.34567891, -12.88567891], [1.0, 1.001], [4.2, 4.3], [0.0, 0.0])
    series, sigma = series_of(law, 5.0), np.array([0.01])
    printed = with_enough_digits(law, series, np.array([[5.0]]), sigma, Monitor())
    assert printed.spare >= 1

    def away(spare):
        assert law.standard_errors is not None and law.power_sum is not None
        copied = Equations.from_power_sum(["x"], as_printed(law.power_sum, law.standard_errors, 4, spare))
        return float(np.sqrt(np.sum(((copied.simulate([5.0], T) - series.trajectories[0].values) / sigma) ** 2)))

    assert away(printed.spare) <= PRINTED_AWAY * np.sqrt(2.0)
    assert printed.spare == 0 or away(printed.spare - 1) > PRINTED_AWAY * np.sqrt(2.0)
    # What a reader copies from the printed line is that law.
    copied = re.sub(r"\(\d+\)", "", printed.pretty().split("= ")[1]).replace("^", "**")
    again = Equations.parse(["x"], {"x": copied}).simulate([5.0], T)
    assert np.sqrt(np.sum(((again - series.trajectories[0].values) / sigma) ** 2)) <= PRINTED_AWAY * np.sqrt(2.0)


def test_an_undetermined_coefficient_is_named_and_others_are_not():
    law = law_of([-0.5, 1e-36], [1.0, 11.0], [0.01, 6.4e-35], [0.0, 0.0])
    assert law.pretty() == "x' = 1(?)e-36*x^11 - 0.500(10)*x"
    (note,) = name_undetermined(law)
    assert "the coefficient of x^11 in x'" in note and "of x in x'" not in note
    assert name_undetermined(law_of([-0.5], [1.0], [0.01], [0.0])) == []
    (plain,) = name_undetermined(law_of([0.1, -0.5], [0.0, 1.0], [0.2, 0.01], [0.0, 0.0]))
    assert "do not determine the constant term in x'" in plain


def test_laws_without_errors_stay_as_they_are():
    plain = Equations.parse(["x"], {"x": "-0.5*x"})
    assert with_enough_digits(plain, series_of(plain, 1.0), np.array([[1.0]]), np.array([0.1]), Monitor()) is plain
    assert name_undetermined(dataclasses.replace(plain)) == []


def rest(text, constants, start, until, covariance):
    form = read_form(text, [f"x{i}" for i in range(len(start))] if len(start) > 1 else ["x"])
    times = np.linspace(0.0, until, 20)

    def solve(c, t):
        return form.with_constants(c.tolist()).simulate(start, t)

    def rates(c, x):
        return form.with_constants(c.tolist()).rhs(x)

    c = np.array(constants)
    x = solve(c, times)
    return resting_point(solve, rates, c, np.array(covariance), (0.0, until), x.min(axis=0), x.max(axis=0))


def test_a_logistic_law_rests_at_its_capacity():
    value, error = rest("x' = r*x*(1 - x/K)", [0.5, 80.0], [2.0], 20.0, [[1e-4, 0.0], [0.0, 4.0]])
    np.testing.assert_allclose(value, [80.0], rtol=1e-6)
    np.testing.assert_allclose(error, [2.0], rtol=1e-3)


def test_an_outflow_rests_at_its_offset_which_it_reaches():
    value, error = rest("x' = -k*(x - x0)**0.5", [0.5, 4.0], [20.0], 12.0, [[1e-4, 0.0], [0.0, 0.01]])
    np.testing.assert_allclose(value, [4.0], atol=1e-3)
    np.testing.assert_allclose(error, [0.1], rtol=1e-2)


def test_what_grows_forever_vanishes_or_turns_rests_nowhere_worth_telling():
    assert rest("x' = r*x", [0.5], [2.0], 4.0, [[1e-4]]) is None
    assert rest("x' = -r*x", [0.5], [2.0], 4.0, [[1e-4]]) is None


def test_a_conserved_sum_holds_the_point_that_solutions_tell():
    """x0 + x1 stays 3: the Jacobian is singular, and the point moves with the constants all the same."""
    value, error = rest("x0' = -a*x0 + b*x1\nx1' = a*x0 - b*x1", [1.0, 0.5], [2.0, 1.0], 20.0, np.diag([1e-4, 1e-4]))
    np.testing.assert_allclose(value, [1.0, 2.0], rtol=1e-5)
    # x0 = 3 b / (a + b)
    np.testing.assert_allclose(error, [0.01 * np.hypot(1.5, 3.0) / 2.25] * 2, rtol=1e-2)


def oscillator(damping, starts, until, noise=0.0):
    """x'' = -4 x - damping x', of period pi without damping."""
    t = np.linspace(0.0, until, max(80, int(8 * until)))
    runs = [
        solve_ivp(lambda _, y: [y[1], -4 * y[0] - damping * y[1]], (0, until), [x, 0], t_eval=t, rtol=1e-11, atol=1e-12)
        for x in starts
    ]
    random = np.random.default_rng(0)
    values = [run.y.T + noise * random.standard_normal(run.y.T.shape) for run in runs]
    return TimeSeries.from_arrays([t] * len(values), values, ["x", "v"])


def notes_on(series, damping, starts):
    law = Equations.parse(["x", "v"], {"x": "v", "v": f"-4*x - {damping}*v"})
    return [str(note) for note in closed_orbit(law, series, np.array([[x, 0.0] for x in starts]))]


def test_a_closed_orbit_is_told_with_its_period():
    (note,) = notes_on(oscillator(0.0, [1.0], 5.0, noise=0.1), 0.0, [1.0])
    assert "closed orbit of period 3.14:" in note


@pytest.mark.parametrize(
    ("damping", "starts", "until"),
    [
        pytest.param(0.2, [1.0], 12.0, id="a spiral does not come back"),
        pytest.param(0.0, [1.0, 0.5], 5.0, id="two orbits tell"),
    ],
)
def test_others_are_not(damping, starts, until):
    assert notes_on(oscillator(damping, starts, until), damping, starts) == []


@pytest.mark.parametrize(
    ("right", "told"),
    [
        ("x", ["x reaches 54.6, far outside the data (1 to 7.39): "]),
        ("0.45*x**2", ["the equations diverge at t = 2.24: use them within the measured time only"]),
    ],
)
def test_equations_that_leave_the_data_are_told(right, told):
    law, t = Equations.parse(["x"], {"x": right}), np.linspace(0.0, 2.0, 9)
    series = TimeSeries.from_arrays(t, law.simulate([1.0], t), ["x"])
    found = check_extrapolation(law, series, np.array([[1.0]]))
    assert len(found) == len(told)
    assert all(
        note.startswith(f"integrated for twice the measured time, {text}")
        for note, text in zip(found, told, strict=True)
    )


def test_constants_of_which_only_the_sum_is_seen_are_named():
    t = np.linspace(0.0, 3.0, 30)
    # Both runs have x = y, so that only a + b is known in x' = a x + b y.
    series = TimeSeries.from_arrays(t, np.repeat(np.exp(-0.5 * t)[:, None], 2, axis=1), ["x", "y"])
    p = prepare(series)
    for coefficients, count in (([[-0.2, -0.3], [0.0, -0.5]], 1), ([[-0.5, 0.0], [0.0, -0.5]], 0)):
        law = PowerSum(np.array(coefficients), np.eye(2))
        law = law.rescaled(p.scale.state, p.scale.time)
        a, w, b, v = all_free(law)
        found = polish(
            law,
            p.data,
            p.initial,
            np.full(2, 1e-3),
            floor=p.floor,
            nonnegative=p.nonnegative,
            free=(a, w & False, b, v),
        )
        notes = unidentifiable_combinations(p, found)
        assert len(notes) == count
        both = "the coefficient of x in x' and the coefficient of y in x' separately"
        assert all(both in note for note in notes)
