"""Laws with quotients, read as numbers."""

import numpy as np
import pytest
import sympy

from odediscovery import TimeSeries
from odediscovery.laws.equations import Equations, read_law
from odediscovery.problem.problem import prepare
from odediscovery.runtime.monitor import Monitor
from odediscovery.textbook.fit import as_law, fit_textbook
from odediscovery.textbook.registry import TEXTBOOK

X, Y = sympy.symbols("x y")


@pytest.mark.parametrize(
    "sides",
    [
        ["0.5*x*(1 - x/9) - 0.3*x*y/(1 + 0.2*x)", "0.1*x*y/(1 + 0.2*x) - 0.4*y"],
        ["0.1 - 0.7*x**2/(4 + x**2)", "y - 2*x"],
        ["0.3/(1 + 0.4*x**3.5) - 0.2*x", "1.5*sin(x) - 0.1*y"],
        ["x*y/(2 + 3*x*y)", "-exp(-0.5*x)"],
    ],
)
def test_a_law_as_numbers_has_the_same_rates(sides: list[str]) -> None:
    expressions = [sympy.sympify(side) for side in sides]
    law = read_law(expressions, [X, Y], features=True)
    assert law is not None
    at = np.random.default_rng(3).uniform(0.5, 4.0, (20, 2))
    expected = [[float(e.subs({X: x, Y: y})) for e in expressions] for x, y in at]
    np.testing.assert_allclose(law.rhs(at), expected, rtol=1e-12)


@pytest.mark.parametrize("side", ["log(9/x)", "1/(1 + x + y)", "(x - 2)**0.5", "1/(x**2 - 1)", "x**y"])
def test_what_is_no_such_law_is_none(side: str) -> None:
    assert read_law([sympy.sympify(side)], [X, Y], features=True) is None


@pytest.mark.parametrize(
    ("name", "text", "begin"),
    [
        ("hill", {"x": "0.1 - 0.08/(1 + 1.3*x**3.5) - 0.02*x"}, [1.0]),
        ("chemostat", {"x": "0.4*(5 - x) - 7*x*y/(1.2 + x)", "y": "x*y/(1.2 + x) - 0.4*y"}, [3.0, 0.2]),
        ("van-der-pol", {"x": "y", "y": "0.8*(1 - (x/2)**2)*y - x"}, [1.0, 0.0]),
        ("adler", {"x": "1.5 - sin(x)"}, [0.2]),
        ("source-power", {"x": "0.5 - 0.3*x**1.4"}, [4.0]),
    ],
)
def test_common_laws_are_fitted_from_the_smoothed_path(name: str, text: dict[str, str], begin: list[float]) -> None:
    equations = Equations.parse(list(text), text)
    time = np.linspace(0.0, 30.0, 90)
    values = equations.simulate(np.array(begin), time)
    p = prepare(TimeSeries.from_arrays(time, values, list(text)))
    law = next(one for one in TEXTBOOK if one.name == name)
    found = fit_textbook(p, Monitor(), [law])
    assert found and np.sqrt(found[0].squares / found[0].counts).max() < 1e-4 * np.ptp(values)
    assert name == "adler" or as_law(found[0]) is not None
