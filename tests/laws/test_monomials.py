"""Expressions read as sums of products of powers, and left alone where they are none."""

from __future__ import annotations

import numpy as np
import pytest
import sympy

from odediscovery.laws.equations import read_law

x, y = SYMBOLS = sympy.symbols("x y")


def test_a_law_is_read_with_shared_monomials() -> None:
    law = read_law([3 * x * y - 2 * x, -3.0 * x * y + 0.5 * sympy.sqrt(y)], SYMBOLS)
    assert law is not None
    at = np.array([[2.0, 9.0], [0.5, 4.0]])
    a, b = at.T
    np.testing.assert_allclose(law.rhs(at), np.stack([3 * a * b - 2 * a, -3 * a * b + 0.5 * np.sqrt(b)], axis=1))
    assert law.n_monomials == 3


def test_products_of_sums_are_multiplied_out_and_what_cancels_is_gone() -> None:
    law = read_law([(x + y) * (x - y) + y**2, sympy.Integer(0)], SYMBOLS)
    assert law is not None
    assert law.exponents.tolist() == [[2.0, 0.0]] and law.coefficients.tolist() == [[1.0], [0.0]]
    nothing = read_law([sympy.Integer(0)] * 2, SYMBOLS)
    assert nothing is not None and nothing.n_monomials == 0


def test_a_symbol_without_an_equation_is_a_control() -> None:
    law = read_law([0.8 * y - 0.5 * x], SYMBOLS)
    assert law is not None
    np.testing.assert_allclose(law.rhs(np.array([[2.0, 3.0]])), [[0.8 * 3 - 0.5 * 2, 0.0]])


@pytest.mark.parametrize(
    "side", [sympy.sin(x), 1 / (1 + x), x**y, sympy.Symbol("z"), (x + y + 1) ** 60, x**0.5 + (-x) ** 0.5]
)
def test_what_is_no_readable_sum_is_none(side: sympy.Expr) -> None:
    assert read_law([side, x], SYMBOLS) is None


def test_fractional_powers_of_a_negative_state_are_mirrored() -> None:
    law = read_law([-2.0 * (-x) ** 0.5 * x**2, 3.0 * x], SYMBOLS)
    assert law is not None and law.mirrored == (0,)
    np.testing.assert_allclose(law.rhs(np.array([[-4.0, 1.0]])), [[-2.0 * 2.0 * 16.0, -12.0]])
