"""When is a found law the true one?"""

from __future__ import annotations

import numpy as np
import pytest
from problems import FSIR

from odediscovery.bench.suites.scoring import same_terms, worst_errors
from odediscovery.laws.power_sum import PowerSum


def changed(exponents: float = 0.0, coefficients: float = 0.0) -> PowerSum:
    """FSIR with monomials in another order and constants a little off."""
    order = [2, 0, 1]
    w = FSIR.exponents[order] + exponents * (FSIR.exponents[order] != 0)
    return PowerSum(FSIR.coefficients[:, order] * (1.0 + coefficients), w)


def test_order_and_small_errors_do_not_matter() -> None:
    assert same_terms(changed(0.04, 0.5), FSIR)
    assert same_terms(FSIR, FSIR)


def test_exponents_that_are_off_do() -> None:
    assert not same_terms(changed(0.06), FSIR)
    assert same_terms(changed(0.06), FSIR, tolerance=0.1)


def test_large_exponents_are_compared_relatively() -> None:
    cube = PowerSum(np.array([[1.0]]), np.array([[3.0]]))
    near = PowerSum(np.array([[1.0]]), np.array([[3.1]]))
    assert same_terms(near, cube)
    assert not same_terms(PowerSum(cube.coefficients, np.array([[3.2]])), cube)


def test_a_missing_or_spurious_term_is_another_law() -> None:
    a = FSIR.coefficients.copy()
    a[2, 2] = 0.0
    assert not same_terms(PowerSum(a, FSIR.exponents), FSIR)
    assert not same_terms(FSIR, PowerSum(a, FSIR.exponents))
    more = PowerSum(
        np.hstack([FSIR.coefficients, [[0.0], [1e-6], [0.0]]]), np.vstack([FSIR.exponents, [[1.0, 0.0, 0.0]]])
    )
    assert not same_terms(more, FSIR)


def test_equal_monomials_count_once_and_empty_ones_not_at_all() -> None:
    split = PowerSum(
        np.hstack([0.5 * FSIR.coefficients, 0.5 * FSIR.coefficients, np.zeros((3, 1))]),
        np.vstack([FSIR.exponents, FSIR.exponents, [[2.0, 0.0, 0.0]]]),
    )
    assert same_terms(split, FSIR)


def test_each_true_monomial_needs_its_own() -> None:
    near = PowerSum(np.array([[1.0, 1.0]]), np.array([[1.0], [1.04]]))
    one_of_them = PowerSum(np.array([[1.0, 1.0]]), np.array([[1.02], [3.0]]))
    assert not same_terms(one_of_them, near)


def test_a_sign_or_a_state_too_many_is_another_term() -> None:
    assert not same_terms(PowerSum(-FSIR.coefficients, FSIR.exponents), FSIR)
    nearly = np.where(FSIR.exponents == 0, 0.01, FSIR.exponents)
    assert not same_terms(PowerSum(FSIR.coefficients, nearly), FSIR)


def test_terms_are_paired_as_well_as_they_can_be() -> None:
    # The nearest to 1 is 1.02, but then nothing is left that is near 1.04.
    truth = PowerSum(np.array([[1.0, 1.0]]), np.array([[1.0], [1.04]]))
    found = PowerSum(np.array([[1.0, 1.0]]), np.array([[1.02], [0.97]]))
    assert same_terms(found, truth, 0.035) and not same_terms(found, truth, 0.025)


def test_worst_errors() -> None:
    exponent, coefficient = worst_errors(changed(0.03, -0.02), FSIR)
    assert exponent == pytest.approx(0.03)
    assert coefficient == pytest.approx(0.02)
    assert worst_errors(FSIR, FSIR) == (0.0, 0.0)
    assert worst_errors(PowerSum(-FSIR.coefficients, FSIR.exponents), FSIR) == (np.inf, np.inf)
