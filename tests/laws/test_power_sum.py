"""Sums of products of powers as numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import FSIR

from odediscovery.laws.compiled import vector_field
from odediscovery.laws.power_sum import PowerSum


def test_rhs_by_hand() -> None:
    x = np.array([[100.0, 0.01, 0.0], [4.0, 9.0, 2.0]])
    root = np.array([1.0, 6.0])
    expected = np.stack(
        [-0.06 * root + 0.01 * x[:, 2], 0.06 * root - 0.05 * x[:, 1], 0.05 * x[:, 1] - 0.01 * x[:, 2]], axis=1
    )
    np.testing.assert_allclose(FSIR.rhs(x), expected, rtol=1e-14)
    np.testing.assert_allclose(FSIR.rhs(x[1]), expected[1], rtol=1e-14)


def test_whole_powers_keep_the_sign_and_fractional_ones_stop_at_zero() -> None:
    law = PowerSum(np.eye(2), np.array([[3.0, 0.0], [0.5, 0.0]]))
    assert law.rhs(np.array([-2.0, 1.0])).tolist() == pytest.approx([-8.0, 0.0], abs=1e-140)


def test_a_row_of_zeros_is_the_constant() -> None:
    law = PowerSum(np.array([[2.5]]), np.zeros((1, 1)))
    assert law.rhs(np.array([[0.0], [np.nan]])).tolist() == [[2.5], [2.5]]


def test_no_monomials() -> None:
    law = PowerSum(np.zeros((2, 0)), np.zeros((0, 2)))
    assert law.rhs(np.ones((3, 2))).tolist() == [[0.0, 0.0]] * 3
    assert (law.complexity, law.n_monomials, law.n_states) == (0, 0, 2)


def test_complexity_counts_constants_and_states() -> None:
    assert FSIR.complexity == 13
    constant = PowerSum(np.array([[9.81, -0.9]]), np.array([[0.0], [1.6]]))
    assert constant.complexity == 2 + 1 + 1


def test_shapes_must_fit() -> None:
    with pytest.raises(ValueError, match=r"do not fit: \(1, 2\) and \(1, 2\)"):
        PowerSum(np.zeros((1, 2)), np.zeros((1, 2)))


positive = st.floats(0.01, 100.0)


@given(st.tuples(positive, positive, positive), positive, st.tuples(positive, positive, positive))
@settings(max_examples=50, deadline=None)
def test_rescaled_is_the_same_law(scale: tuple[float, ...], time_scale: float, state: tuple[float, ...]) -> None:
    s, x = np.array(scale), np.array(state)
    scaled = FSIR.rescaled(s, time_scale)
    expected = FSIR.monomials(x) * FSIR.coefficients * time_scale / s[:, None]
    terms = scaled.monomials(x / s) * scaled.coefficients
    np.testing.assert_allclose(terms, expected, rtol=1e-12)
    back = scaled.unscaled(s, time_scale)
    np.testing.assert_allclose(back.coefficients, FSIR.coefficients, rtol=1e-12)
    assert np.array_equal(back.exponents, FSIR.exponents)


def test_merged_adds_equal_monomials_and_drops_empty_ones() -> None:
    law = PowerSum(
        np.array([[1.0, 2.0, 3.0, 5.0], [0.0, 4.0, -3.0, 0.5]]),
        np.array([[0.5, 0.0], [0.5 + 1e-12, 0.0], [1.0, 0.0], [0.0, 1.0]]),
    )
    merged = law.merged()
    assert merged.exponents.tolist() == [[0.5, 0.0], [1.0, 0.0], [0.0, 1.0]]
    assert merged.coefficients.tolist() == [[3.0, 3.0, 5.0], [4.0, -3.0, 0.5]]
    cancelled = PowerSum(np.array([[1.0, -1.0]]), np.array([[2.0], [2.0]])).merged()
    assert cancelled.n_monomials == 0


def test_structure_ignores_values_and_order() -> None:
    other = PowerSum(FSIR.coefficients[:, ::-1] * 3.0, FSIR.exponents[::-1] * 0.9)
    assert other.structure() == FSIR.structure()
    coefficients = FSIR.coefficients.copy()
    coefficients[2, 0] = 1e-9
    assert PowerSum(coefficients, FSIR.exponents).structure() != FSIR.structure()


def test_many_states_and_many_points_give_what_few_do() -> None:
    """Of many states only powers that are not 0 are taken, of many points columns: the numbers stay."""
    draw, n = np.random.default_rng(0), 30
    w = np.zeros((50, n))
    for row in w[1:]:
        row[draw.choice(n, 3, replace=False)] = draw.choice([1.0, 2.0, 0.5, -1.0], 3)
    law, x = PowerSum(draw.normal(size=(n, 50)), w), draw.uniform(-1.0, 2.0, (70, n))
    with np.errstate(divide="ignore"):
        by_hand = np.prod(np.where(w % 1.0 != 0.0, np.maximum(x[:, None], 1e-300), x[:, None]) ** w, axis=-1)
    np.testing.assert_allclose(law.monomials(x), by_hand, rtol=1e-13)
    np.testing.assert_allclose(vector_field(law)(0.0, x), by_hand @ law.coefficients.T, rtol=1e-10)
    few = PowerSum(law.coefficients[:6], w[:, :6])
    np.testing.assert_allclose(few.monomials(x[:, :6])[3], few.monomials(x[3, :6]), rtol=1e-13)
