"""A monomial that only passes from one state to another leaves nothing in the tied equation."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from problems import series_of

from odediscovery.laws.power_sum import PowerSum, expanded
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


def test_a_term_that_the_data_ask_for_stays() -> None:
    # A third of r goes to R at once.
    law = dataclasses.replace(SIR, coefficients=np.array([[-0.6, 0.0], [0.4, -0.3], [0.0, 0.0]]))
    found = fitted(0.01, law)
    assert balance(found) is found or expanded(balance(found).law).coefficients[2, 0] != 0.0
