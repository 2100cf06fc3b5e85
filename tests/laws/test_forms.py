"""Laws that somebody wrote down: which names and numbers are constants, and what cannot be read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from odediscovery.errors import InputError
from odediscovery.laws.equations import read_form

HOLLING = """
prey' = r*prey*(1 - prey/K) - a*prey*pred/(1 + b*prey)
pred' = e*prey*pred/(1 + b*prey) - m*pred
"""


def test_names_that_are_no_states_are_constants() -> None:
    form = read_form(HOLLING, ["prey", "pred"], start={"K": 40})
    assert form.names == ("r", "K", "a", "b", "e", "m")
    assert form.starts == (None, 40.0, None, None, None, None)
    law = form.with_constants([0.5, 50.0, 0.1, 0.02, 0.05, 0.3])
    x, y = 20.0, 3.0
    eaten = x * y / (1 + 0.02 * x)
    np.testing.assert_allclose(law.rhs([x, y]), [0.5 * x * (1 - x / 50) - 0.1 * eaten, 0.05 * eaten - 0.3 * y])
    np.testing.assert_allclose(form.open().rhs([x, y, 0.5, 50.0, 0.1, 0.02, 0.05, 0.3]), law.rhs([x, y]))
    assert form.lines() == HOLLING.strip().splitlines()


@pytest.mark.parametrize(
    ("written", "text", "starts"),
    [
        ("x' = -k*x", "-k*x", [None]),
        ("x' = -k*x^0.5 + 2", "-k*x**0.5 + 2", [None]),
        ("x' = 0.481(65)*x - 0.02*x^2", "c1*x - c2*x**2", [0.481, 0.02]),
        ("x' = 6.4(29)e-7*x^0.51(2)", "c1*x**c2", [6.4e-7, 0.51]),
        ("x' = -0.5*x^0.5 - 3*x^-1.5", "-c1*x**0.5 - 3*x**-1.5", [0.5]),
        ("x' = 1.67(4) - 1.0000000040(68)*sin(x)", "c1 - c2*sin(x)", [1.67, 1.000000004]),
        ("x' = -k*x + 1.5(2)", "-k*x + c1", [None, 1.5]),
        ("x' = c1*x + 2.0(1)", "c1*x + c2", [None, 2.0]),
        ({"x": "-lam*x/(1.5 + x)"}, "-lam*x/(1.5 + x)", [None]),
        (["x' = -k*x", "note: of mine", "at t = 0: x = 3.0(1)"], "-k*x", [None]),
    ],
)
def test_numbers_are_constants_where_they_were_fitted(written: Any, text: str, starts: list[float | None]) -> None:
    form = read_form(written, ["x"])
    assert form.texts == {"x": text}
    assert list(form.starts) == starts


def test_names_that_are_no_identifiers_are_read_as_printed() -> None:
    form = read_form("cell count' = k*cell count*feed rate - 0.5(1)*cell count", ["cell count"], controls=["feed rate"])
    assert form.texts == {"cell count": "k*cell_count*feed_rate - c1*cell_count"}
    assert form.lines() == ["cell count' = k*cell count*feed rate - c1*cell count"]
    np.testing.assert_allclose(form.with_constants([2.0, 0.5]).rhs([3.0, 0.25]), [0.0])


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("y' = k*x", "unknown state 'y'"),
        ("x = k*x", "expected an equation such as x' = ..."),
        ("x' = k*x\nx' = 2*x", "the equation of 'x' stands twice"),
        ("", "the equation of 'x' is missing"),
        ("x' = 2*x", "no constants to fit"),
        ("x' = k*x*t", "'t' is the time"),
        ("x' = k*foo(x)", "unknown function 'foo'"),
        ("x' = k*x +", "cannot read"),
        ("x' = k*x.real", "cannot read"),
        ("x' = __import__('os')", "unknown function '__import__'"),
        ("x' = " + " + ".join(f"k{i}*x" for i in range(61)), "at most 60 can be fitted"),
    ],
)
def test_mistakes_say_what_to_write(written: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read_form(written, ["x"])
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_a_comma_between_equations_is_named_where_one_is_missing() -> None:
    with pytest.raises(InputError, match=r"'v' is missing.*; put ; or a new line between equations$"):
        read_form("x' = v, v' = -k*x", ["x", "v"])


def test_a_start_belongs_to_a_constant() -> None:
    with pytest.raises(InputError, match="unknown constant 'q'"):
        read_form("x' = -k*x", ["x"], start={"q": 1.0})


@pytest.mark.parametrize("left", ["dx/dt", "d x / d t", "dx/dtime", "x\u2019", "x\u2032", " x '"])
def test_derivatives_are_read_as_people_write_them(left: str) -> None:
    assert read_form(f"{left} = -k*x", ["x"]).texts == {"x": "-k*x"}
    with pytest.raises(InputError, match="unknown state 'y'"):
        read_form(f"{left.replace('x', 'y')} = -k*x", ["x"])
