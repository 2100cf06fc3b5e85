"""Is a right-hand side the true one with other constants, however it is written?"""

from __future__ import annotations

import numpy as np
import pytest
import sympy

from odediscovery.bench.suites.family import ConstantErrors, constant_errors

X = sympy.Symbol("x", real=True)
BOX = np.array([[0.2, 3.0]])


def errors(truth: str, found: str) -> ConstantErrors | None:
    side = sympy.parse_expr(truth, {"x": X})
    return constant_errors(side, lambda x: np.asarray(sympy.lambdify(X, found)(x[:, 0])) + 0.0 * x[:, 0], (X,), BOX)


@pytest.mark.parametrize("found", ["1/(1 + x)", "2/(2 + 2*x)", "x/(x + x**2)"])
def test_one_function_in_three_ways_of_writing(found: str) -> None:
    same = errors("1/(1 + x)", found)
    assert same is not None
    assert same.inner == pytest.approx(0.0, abs=1e-7) and same.outer == pytest.approx(0.0, abs=1e-7)


@pytest.mark.parametrize(
    ("truth", "found", "inner", "outer"),
    [
        ("2*x**3", "2.2*x**3", 0.0, 0.1),
        ("x**0.5", "x**0.52", 0.02, 0.0),
        ("sin(2*x)", "0.5*sin(2.2*x)", 0.1, 0.5),
        # The 2 of 2 x is held: 3/(1 + 2.5 x) is 2.4/(0.8 + 2 x).
        ("3/(1 + 2*x)", "3/(1 + 2.5*x)", 0.2, 0.2),
    ],
)
def test_errors_are_those_of_the_constants(truth: str, found: str, inner: float, outer: float) -> None:
    same = errors(truth, found)
    assert same is not None
    assert (same.inner, same.outer) == (pytest.approx(inner, abs=1e-6), pytest.approx(outer, abs=1e-6))


@pytest.mark.parametrize(
    ("truth", "found"), [("x", "x + 1e-5*x**3"), ("x", "-x"), ("x + x**2", "x"), ("1/(1 + x)", "exp(-x)"), ("0", "x")]
)
def test_other_terms_and_signs_are_no_member(truth: str, found: str) -> None:
    assert errors(truth, found) is None


def test_nothing_is_nothing() -> None:
    assert errors("0", "0*x") == ConstantErrors(0.0, 0.0)
