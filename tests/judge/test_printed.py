"""Numbers as printed are the law, and undetermined ones are named."""

from __future__ import annotations

import dataclasses
import re

import numpy as np

from odediscovery import Equations, TimeSeries
from odediscovery.judge.printed import PRINTED, name_undetermined, with_enough_digits
from odediscovery.laws.power_sum import PowerSum
from odediscovery.laws.printing import as_printed
from odediscovery.runtime.monitor import Monitor

T = np.linspace(0.0, 4.0, 60)


def law_of(coefficients: list[float], exponents: list[float], errors: list[float], powers: list[float]) -> Equations:
    """One equation with standard errors."""
    return Equations.from_power_sum(
        ["x"],
        PowerSum(np.array([coefficients]), np.array(exponents)[:, None]),
        standard_errors=PowerSum(np.array([errors]), np.array(powers)[:, None]),
    )


def series_of(equations: Equations, start: float) -> TimeSeries:
    return TimeSeries.from_arrays(T, equations.simulate([start], T), ["x"])


def test_two_digits_of_an_error_are_enough_for_constants_known_alone() -> None:
    decay = law_of([-0.5003721], [1.0], [0.0031], [0.0])
    printed = with_enough_digits(decay, series_of(decay, 5.0), np.array([[5.0]]), np.array([0.1]), Monitor())
    assert printed.spare == 0 and printed.pretty() == "x' = -0.5004(31)*x"


def test_constants_that_nearly_cancel_get_the_digits_that_they_need() -> None:
    """Known far better together than one by one: two terms of nearly the same power."""
    law = law_of([12.34567891, -12.88567891], [1.0, 1.001], [4.2, 4.3], [0.0, 0.0])
    series, sigma = series_of(law, 5.0), np.array([0.01])
    printed = with_enough_digits(law, series, np.array([[5.0]]), sigma, Monitor())
    assert printed.spare >= 1

    def away(spare: int) -> float:
        assert law.standard_errors is not None and law.power_sum is not None
        copied = Equations.from_power_sum(["x"], as_printed(law.power_sum, law.standard_errors, 4, spare))
        return float(np.sqrt(np.sum(((copied.simulate([5.0], T) - series.trajectories[0].values) / sigma) ** 2)))

    assert away(printed.spare) <= PRINTED.away * np.sqrt(2.0)
    assert printed.spare == 0 or away(printed.spare - 1) > PRINTED.away * np.sqrt(2.0)
    # What a reader copies from the printed line is that law.
    copied = re.sub(r"\(\d+\)", "", printed.pretty().split("= ")[1]).replace("^", "**")
    again = Equations.parse(["x"], {"x": copied}).simulate([5.0], T)
    assert np.sqrt(np.sum(((again - series.trajectories[0].values) / sigma) ** 2)) <= PRINTED.away * np.sqrt(2.0)


def test_an_undetermined_exponent_keeps_its_value_and_is_named() -> None:
    law = law_of([-0.5, 0.1], [1.0, 0.222], [0.01, 0.02], [0.0, 78.0])
    assert law.pretty() == "x' = 0.100(20)*x^0.222(?) - 0.500(10)*x"
    (note,) = name_undetermined(law)
    assert "the exponent of x in x^0.222" in note and "coefficient" not in note


def test_an_undetermined_coefficient_is_named_and_others_are_not() -> None:
    law = law_of([-0.5, 1e-36], [1.0, 11.0], [0.01, 6.4e-35], [0.0, 0.0])
    assert law.pretty() == "x' = 1(?)e-36*x^11 - 0.500(10)*x"
    (note,) = name_undetermined(law)
    assert "the coefficient of x^11 in x'" in note and "of x in x'" not in note
    assert name_undetermined(law_of([-0.5], [1.0], [0.01], [0.0])) == []
    (plain,) = name_undetermined(law_of([0.1, -0.5], [0.0, 1.0], [0.2, 0.01], [0.0, 0.0]))
    assert "do not determine the constant term in x'" in plain


def test_laws_without_errors_stay_as_they_are() -> None:
    plain = Equations.parse(["x"], {"x": "-0.5*x"})
    assert with_enough_digits(plain, series_of(plain, 1.0), np.array([[1.0]]), np.array([0.1]), Monitor()) is plain
    assert name_undetermined(dataclasses.replace(plain)) == []


def test_two_digits_are_enough_where_the_curve_hardly_moves() -> None:
    """Predator and prey: constants that correlate, of which the printed ones are the law all the same."""
    law = Equations.from_power_sum(
        ["hare", "lynx"],
        PowerSum(
            np.array([[0.4811, -0.02478, 0.0], [0.0, 0.0272, -0.9151]]), np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
        ),
        standard_errors=PowerSum(np.array([[0.0654, 0.0031, 0.0], [0.0, 0.0035, 0.124]]), np.zeros((3, 2))),
    )
    t, start = np.arange(0.0, 21.0), np.array([[30.0, 4.0]])
    series = TimeSeries.from_arrays(t, law.simulate(start[0], t), ["hare", "lynx"])
    printed = with_enough_digits(law, series, start, np.array([9.0, 6.0]), Monitor())
    assert printed.spare == 0
    assert printed.pretty().startswith("hare' = 0.481(65)*hare - 0.0248(31)*hare*lynx")


def test_a_long_sensitive_series_needs_no_digits_that_a_start_takes_back() -> None:
    """x' = 0.3 x from a fitted start: the growth of what rounding shifts at the start is the start's."""
    law = law_of([0.30004], [1.0], [0.0021], [0.0])
    t = np.linspace(0.0, 30.0, 200)
    series = TimeSeries.from_arrays(t, law.simulate([0.01], t), ["x"])
    printed = with_enough_digits(law, series, np.array([[0.01]]), np.array([2.0]), Monitor())
    assert printed.spare == 0 and printed.pretty() == "x' = 0.3000(21)*x"


def test_without_time_what_other_starts_take_back_gets_digits() -> None:
    law = law_of([0.5, -0.02], [1.0, 2.0], [0.01, 0.001], [0.0, 0.0])
    series, sigma = series_of(law, 5.0), np.array([0.05])
    late = with_enough_digits(law, series, np.array([[5.0]]), sigma, Monitor(max_seconds=1.0, started=-1e6))
    assert late.spare >= with_enough_digits(law, series, np.array([[5.0]]), sigma, Monitor()).spare
