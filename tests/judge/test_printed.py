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
