"""Compiled right-hand sides are those of the law, and their slopes those of differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sympy

from odediscovery.families import StateFunction
from odediscovery.laws.compiled import (
    FUNCTIONS,
    Graph,
    GraphFunction,
    constants_of,
    form_of_expressions,
    form_of_law,
    point_field,
    vector_field,
)
from odediscovery.laws.power_sum import Features, Function, PowerSum, Sums

RICH = Features(
    2,
    (Function("sin", 0, 0.7), Function("log", 1)),
    Sums(np.array([[4.0, 0.5]]), np.array([[2.0, 0.0, 0.0, 0.0], [0.0, 0.5, 1.0, 0.0]])),
)
LAWS = {
    "whole": PowerSum(np.array([[1.0, -2.0, 0.5], [0.0, 3.0, 0.0]]), np.array([[0.0, 0.0], [2.0, 1.0], [-1.0, 3.0]])),
    "real": PowerSum(np.array([[0.3, -2.0], [1.0, 0.0]]), np.array([[0.5, -0.3], [1.0, 1.7]])),
    "rich": PowerSum(
        np.array([[1.0, -0.4], [0.2, 0.0]]), np.array([[1.0, 0.0, 1.0, 0.0, -1.0], [0.0, 0.5, 0.0, 1.0, 2.0]]), RICH
    ),
    "flows": PowerSum(np.array([[2.0]]), np.array([[1.0, 0.5]]), None, np.array([[-1.0], [1.0]])),
    "nothing": PowerSum(np.zeros((2, 0)), np.zeros((0, 2))),
}


@pytest.mark.parametrize("name", sorted(LAWS))
def test_they_are_those_of_the_law(name: str) -> None:
    law, x = LAWS[name], np.random.default_rng(0).uniform(0.1, 3.0, (4, 6, 2))
    points = [point_field(law)(0.0, one) for one in x[0]]
    np.testing.assert_allclose(points, law.rhs(x[0]), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(vector_field(law)(0.0, x), law.rhs(x), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("x", [[-1.0, 2.0], [0.0, 1.0], [1e200, 1e200], [1e-300, -1e-300]])
def test_also_where_there_is_no_power_or_too_large_a_number(x: list[float]) -> None:
    for law in LAWS.values():
        with np.errstate(all="ignore"):
            found, expected = point_field(law)(0.0, np.array(x)), law.rhs(np.array(x))
        # as a product of matrices the law has 0 times infinity where a term does not stand at all
        np.testing.assert_allclose(found, np.where(np.isnan(expected), found, expected), rtol=1e-12)


def test_what_is_no_number_stays_none() -> None:
    assert np.isnan(point_field(LAWS["real"])(0.0, np.array([np.nan, np.nan]))).all()


@pytest.mark.parametrize("name", sorted(LAWS))
def test_slopes_are_those_of_differences(name: str) -> None:
    law = LAWS[name]
    form, p = form_of_law(law), np.array(constants_of(law))
    x = np.random.default_rng(2).uniform(1.1, 2.0, (2, 5))
    _, slopes = form.linearised(x, p)
    step = 1e-6
    for k, shift in enumerate(np.eye(2)[:, :, None] * step):
        differences = (form.rates(x + shift, p) - form.rates(x - shift, p)) / (2.0 * step)
        np.testing.assert_allclose(slopes[:, k], differences, rtol=1e-5, atol=1e-6)
    for k, place in enumerate(form.sought):
        shift = np.eye(len(p))[place] * step
        differences = (form.rates(x, p + shift) - form.rates(x, p - shift)) / (2.0 * step)
        np.testing.assert_allclose(slopes[:, 2 + k], differences, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "text", ["sin(k*x)", "cos(x)/k", "exp(-k*x)", "log(x + k)", "tan(x)**k", "tanh(k*x)", "Abs(x - 9)*k"]
)
def test_slopes_of_functions_are_those_of_sympy(text: str) -> None:
    x, k = sympy.symbols("x k", real=True)
    side = sympy.sympify(text, locals={"x": x, "k": k})
    (values, (slopes,)) = form_of_expressions([side], [x], [k]).linearised(np.array([0.7]), [1.3])
    at = {x: 0.7, k: 1.3}
    np.testing.assert_allclose(values, float(side.subs(at)))
    np.testing.assert_allclose(slopes, [float(sympy.diff(side, by).subs(at).evalf()) for by in (x, k)])


def test_members_have_constants_of_their_own() -> None:
    law = PowerSum(np.array([[-0.5]]), np.array([[1.0]]))
    of_members = [np.array([-0.5, -2.0])]
    found = form_of_law(law).rates(np.ones((1, 2)), [*of_members, 1.0])
    assert found.tolist() == [[-0.5, -2.0]]


def test_laws_of_one_form_share_it() -> None:
    one = PowerSum(np.array([[-0.5]]), np.array([[1.7]]))
    other = PowerSum(np.array([[3.0]]), np.array([[0.3]]))
    assert form_of_law(one) is form_of_law(other)


@pytest.mark.parametrize(
    ("slope", "expected"),
    [
        (lambda lib, z: 1.0 - lib.tanh(z) ** 2, 1.0 - np.tanh(0.7) ** 2),
        (lambda lib, z: -lib.sin(z) / (2.0 + z), -np.sin(0.7) / 2.7),
        (lambda lib, z: 1.0 / z + lib.exp(z) * 3.0 - z, 1.0 / 0.7 + 3.0 * np.exp(0.7) - 0.7),
    ],
)
def test_a_function_of_a_new_family_brings_its_slope(
    slope: Callable[[Any, Any], Any], expected: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = StateFunction("sinh", "the hyperbolic sine of", slope)
    monkeypatch.setitem(FUNCTIONS, "sinh", GraphFunction(new.value, new.plain, new.slope))
    g = Graph()
    x = g.x(0)
    (found,) = g.compiled([g.slope(g.function("sinh", x), x)], 0, 1)(np.array([0.7]))
    np.testing.assert_allclose(found, expected)
