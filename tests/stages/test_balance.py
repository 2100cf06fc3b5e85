"""A monomial that only passes from one state to another leaves nothing in the tied equation."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from problems import series_of

from odediscovery import discover, settings_for
from odediscovery.laws.power_sum import PowerSum, expanded
from odediscovery.laws.systems import simulate_system
from odediscovery.stages.polish.balance import balance
from odediscovery.stages.polish.polish import polish
from odediscovery.stages.values import Polished

# S' = -0.4 S I, I' = 0.4 S I - 0.3 I, R' = 0.3 I; R's equation is tied.
MIX = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [-1.0, -1.0, 0.0]])
SIR = PowerSum(
    np.array([[-0.4, 0.0], [0.4, -0.3], [0.0, 0.0]]), np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 0.0]]), None, MIX
)
TIMES = np.linspace(0.0, 10.0, 50)


def fitted(noise: float, law: PowerSum = SIR) -> Polished:
    series = series_of(expanded(law), np.array([[3.0, 0.1, 0.0]]), [TIMES], noise)
    free = (law.coefficients != 0, *(np.zeros_like(c, dtype=bool) for c in law.constants[1:]))
    return polish(
        law,
        series,
        np.array([[3.0, 0.1, 0.01]]),
        np.full(3, noise),
        free=free,
        floor=np.full(3, 1e-9),
        nonnegative=np.ones(3, bool),
    )


def test_what_is_no_more_than_error_is_left_out_of_the_tied_equation() -> None:
    found = fitted(0.02)
    before, after = expanded(found.law), expanded(balance(found).law)
    assert before.coefficients[2, 0] != 0.0 == after.coefficients[2, 0]
    assert after.coefficients[:, 1] == pytest.approx(before.coefficients[:, 1], abs=0.02)
    np.testing.assert_allclose(after.coefficients.sum(axis=0), 0.0, atol=1e-16)


@pytest.mark.slow
def test_constants_are_those_of_a_fit_under_the_constraint() -> None:
    """One constant for both: the same law with S' = -r and I' = r - b I tied the other way."""
    found = balance(fitted(0.02))
    other = PowerSum(
        np.array([[0.0, 0.0], [0.4, 0.0], [0.0, 0.3]]),
        SIR.exponents,
        None,
        np.array([[0.0, -1.0, -1.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
    )
    # There S' follows from I' and R': r stands in I', b I in R' and is taken from S', not I'.
    direct = dataclasses.replace(other, stoichiometry=np.array([[0.0, -1.0, 0.0], [0.0, 1.0, -1.0], [0.0, 0.0, 1.0]]))
    best = fitted(0.02, direct)
    ours = expanded(found.law).coefficients
    error = best.errors.coefficients.max()
    np.testing.assert_allclose(ours, expanded(best.law).coefficients, atol=0.2 * error)
    assert found.errors.coefficients[0, 0] == pytest.approx(best.errors.coefficients[1, 0], rel=0.1)


def test_a_term_that_the_data_ask_for_stays() -> None:
    # A third of r goes to R at once.
    law = dataclasses.replace(SIR, coefficients=np.array([[-0.6, 0.0], [0.4, -0.3], [0.0, 0.0]]))
    found = fitted(0.01, law)
    assert balance(found) is found or expanded(balance(found).law).coefficients[2, 0] != 0.0


@pytest.mark.long
def test_printed_equations_of_a_conserved_epidemic_are_short() -> None:
    series = simulate_system("sir", noise=0.01, seed=4)
    found = discover(series, settings_for(conserve=[" + ".join(series.states)], members=0))
    law = found.equations.power_sum
    assert law is not None
    assert np.count_nonzero(law.coefficients) == 4


def test_a_fitted_constant_meets_the_known_one_that_it_is_balanced_by() -> None:
    """R' = -0.3 I is known and I' follows from the sum: what I makes of S comes from R alone."""
    mix = np.array([[1.0, 0.0, 0.0], [-1.0, 0.0, -1.0], [0.0, 0.0, 1.0]])
    waning = dataclasses.replace(SIR, coefficients=np.array([[-0.4, 0.3], [0.0, 0.0], [0.0, -0.3]]), stoichiometry=mix)
    series = series_of(expanded(waning), np.array([[3.0, 0.5, 0.0]]), [TIMES], 0.01)
    known = np.array([[False, False], [False, False], [False, True]])
    free = ((waning.coefficients != 0) & ~known, *(np.zeros_like(c, dtype=bool) for c in waning.constants[1:]))
    found = polish(
        waning,
        series,
        np.array([[3.0, 0.5, 0.01]]),
        np.full(3, 0.01),
        free=free,
        floor=np.full(3, 1e-9),
        nonnegative=np.ones(3, bool),
    )
    after = balance(found)
    assert expanded(found.law).coefficients[1, 1] != 0.0 == expanded(after.law).coefficients[1, 1]
    assert after.law.coefficients[0, 1] == 0.3
    assert not after.free[0][0, 1] and after.errors.coefficients[0, 1] == 0.0
    # One constant less is fitted, and the others are known as they were or better.
    assert len(after.joint.matrix) == len(found.joint.matrix) - 1
    assert 0.0 < after.errors.coefficients[0, 0] <= found.errors.coefficients[0, 0]


@pytest.mark.long
def test_more_samples_leave_what_is_balanced_so() -> None:
    """Laws of a long series are found in some of its samples; all of them move the constants once more."""
    series = simulate_system("fsir", samples=6000, noise=0.01)
    found = discover(series, settings_for(conserve=["S + I + R"], known=["R' = 0.05*I - 0.01*R"], members=0))
    law = found.equations.power_sum
    assert law is not None
    assert np.count_nonzero(law.coefficients) == 6
