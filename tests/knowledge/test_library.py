"""A user's own term library: read from text, grown from, printed like every other law."""

from __future__ import annotations

import numpy as np
import pytest

from odediscovery import Equations, InputError, TimeSeries, discover, settings_for, term_library
from odediscovery.families import FAMILIES, Function


def test_terms_become_features_and_exponents() -> None:
    family = term_library("waves", ["x", "y"], ["1", "x", "x*sin(2*y)^2/y", "exp(-0.5*x)"])
    assert family.placed == (Function("sin", 1, 2.0), Function("exp", 0, -0.5))
    scaled = family.features(np.array([True, True]), np.array([True, True]), np.array([10.0, 3.0]))
    assert [f.rate for f in scaled] == [6.0, -5.0]


@pytest.mark.parametrize(
    ("term", "complaint"),
    [
        ("2*x", "coefficients are fitted"),
        ("x + y", "powers of states and of functions of one state"),
        ("sin(x*y)", "powers of states and of functions of one state"),
        ("x^y", "fixed exponents"),
        ("tan(x)", "unknown function 'tan'"),
        ("q", "unknown"),
        ("__import__('os')", "unknown function '__import__'"),
    ],
)
def test_what_is_no_term_is_refused(term: str, complaint: str) -> None:
    with pytest.raises(InputError, match="(?s)" + complaint.replace("(", "[(]")):
        term_library("mine", ["x", "y"], [term])


@pytest.mark.long
def test_a_law_of_its_terms_is_found() -> None:
    # Frequencies that no family tries.
    truth = Equations.parse(["x", "y"], {"x": "y", "y": "-0.5*x*cos(3*x) - 0.3*sin(5*x)*y"})
    t = np.linspace(0.0, 10.0, 150)
    series = TimeSeries.from_arrays(t, truth.simulate([0.4, 0.9], t), ["x", "y"])
    mine = term_library("mine", ["x", "y"], ["x", "y", "x*cos(3*x)", "y*sin(5*x)", "x^2*y"])
    found = discover(series, settings_for(members=0), families=(FAMILIES[0], mine))
    points = np.random.default_rng(0).uniform(-1.0, 1.0, (50, 2))
    np.testing.assert_allclose(found.equations.rhs(points), truth.rhs(points), rtol=1e-4, atol=1e-5)
    assert "cos(3*x)" in found.equations_text() and "sin(5*x)" in found.equations_text()
