"""The point at which a law comes to rest, with the error that its constants give it."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest

from odediscovery import Discovery, Equations, TimeSeries, fit_constants
from odediscovery.laws.forms import read_form
from odediscovery.result.rest import rest

T = np.linspace(0.0, 12.0, 40)


def filled(noise: float = 0.02) -> TimeSeries:
    """x' = 2 - 0.5 x from 0, which comes to rest at 4."""
    exact = 4.0 * (1.0 - np.exp(-0.5 * T))
    return TimeSeries.from_arrays(T, exact + noise * np.random.default_rng(1).standard_normal(len(T)), ["x"])


@pytest.fixture(scope="module")
def fitted() -> Discovery:
    return fit_constants(filled(), Equations.parse(["x"], {"x": "2.0 - 0.5*x"}), exponents=False)


def test_the_point_has_the_error_of_its_constants(fitted: Discovery) -> None:
    (note,) = rest(fitted)
    value, error = map(float, re.findall(r"x = ([\d.]+)\((\d+)\)", note)[0])
    assert value == pytest.approx(4.0, abs=0.05)
    # Where a + c x = 0 with c < 0: dx / da = -1 / c, dx / dc = a / c^2, in the units of the fit.
    assert fitted.estimates is not None
    law, covariance = fitted.estimates.law, fitted.estimates.covariance.matrix[:2, :2]
    constant = int(law.exponents[0, 0] != 0.0)
    a, c = law.coefficients[0, [constant, 1 - constant]]
    gradient = np.array([-1.0 / c, a / c**2])[[constant, 1 - constant]] * fitted.estimates.scale.state[0]
    expected = float(np.sqrt(gradient @ covariance @ gradient))
    digits = len(note.split("x = ")[1].split("(")[0].partition(".")[2])
    assert error * 10.0**-digits == pytest.approx(expected, rel=0.05)


@pytest.mark.slow
def test_the_constants_of_a_form_move_the_point_as_well() -> None:
    form = read_form("x' = b*(top - x)", ["x"])
    found = fit_constants(filled(), "x' = b*(top - x)")
    assert found.named is not None
    top, error = found.named.values[1], found.named.errors[1]
    (note,) = rest(found, form, np.diag(np.square(found.named.errors)))
    value, last = re.findall(r"x = ([\d.]+)\((\d+)\)", note)[0]
    assert float(value) == pytest.approx(top, abs=1e-2)
    assert float(last) * 10.0 ** -len(value.partition(".")[2]) == pytest.approx(error, rel=0.05)


def test_what_grows_or_is_driven_comes_to_no_rest(fitted: Discovery) -> None:
    growing = TimeSeries.from_arrays(T, np.exp(0.1 * T), ["x"])
    assert rest(fit_constants(growing, Equations.parse(["x"], {"x": "0.1*x"}))) == []
    driven = dataclasses.replace(fitted, series=dataclasses.replace(fitted.series, controls=("u",)))
    assert rest(driven) == []
