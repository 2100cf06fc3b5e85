"""Two coefficients of one flow have one value where the data do not tell them apart."""

from __future__ import annotations

import math

import numpy as np
import pytest

from odediscovery.judge.criterion import penalty
from odediscovery.judge.ties import NO_TIES, find_ties
from odediscovery.laws.cost import all_free, constant_penalty, value_penalty
from odediscovery.laws.estimates import Covariance
from odediscovery.laws.power_sum import PowerSum
from odediscovery.stages.values import Polished

ONE = np.ones(2)


def polished(a: list[list[float]], deviations: list[float], samples: float = 100.0) -> Polished:
    """A law of linear terms whose coefficients have independent errors; starts are not among them."""
    law = PowerSum(np.array(a), np.eye(len(a[0]), 2))
    free = (law.coefficients != 0, np.zeros_like(law.exponents, dtype=bool), *all_free(law)[2:])
    joint = Covariance.of(np.diag(1.0 / np.array(deviations)))
    counts = np.full(2, samples / 2)
    return Polished(law, law, np.ones((1, 2)), joint, free, counts, counts, True, counts)


def test_a_flow_from_one_state_to_another_is_one_constant() -> None:
    found = find_ties(polished([[-1.0, 0.0], [1.1, -0.5]], [0.1, 0.1, 0.1]), ONE)
    assert found.number == 1
    # (1.1 - 1.0)^2 over the variance of the difference.
    assert found.loss == pytest.approx(0.5, rel=1e-6)


@pytest.mark.parametrize(
    ("a", "scale"),
    [
        ([[1.0, 0.0], [1.0, -0.5]], ONE),  # enters both
        ([[-1.0, 0.0], [1.0, -0.5]], np.array([1.0, 5.0])),  # other rates in the user's units
    ],
)
def test_what_is_no_flow_is_not_tied(a: list[list[float]], scale: np.ndarray) -> None:
    deviations = [0.01] * np.count_nonzero(a)
    assert find_ties(polished(a, deviations), scale) is NO_TIES


def test_coefficients_that_are_told_apart_are_two() -> None:
    worth = value_penalty(100.0)
    apart = np.sqrt(2.0) * 0.01 * np.sqrt(worth)
    near, far = (polished([[-1.0, 0.0], [1.0 + f * apart, -0.5]], [0.01] * 3) for f in (0.95, 1.05))
    assert find_ties(near, ONE).number == 1
    assert find_ties(far, ONE) is NO_TIES
    # Of a state that was divided by half as much, half the coefficient is the same rate.
    assert find_ties(polished([[-1.0, 0.0], [2.0, -0.5]], [0.01] * 3), np.array([1.0, 0.5])).number == 1


def three(signs: list[float], deviations: list[float]) -> Polished:
    """One monomial in three equations, with independent errors."""
    law = PowerSum(np.array(signs)[:, None], np.array([[1.0, 0.0, 0.0]]))
    free = (law.coefficients != 0, np.zeros_like(law.exponents, dtype=bool), *all_free(law)[2:])
    counts = np.full(3, 50.0)
    return Polished(
        law,
        law,
        np.ones((1, 3)),
        Covariance.of(np.diag(1.0 / np.array(deviations))),
        free,
        counts,
        counts,
        True,
        counts,
    )


def test_a_tie_saves_what_a_value_costs() -> None:
    found = polished([[-1.0, 0.0], [1.0, -0.5]], [0.01] * 3)
    untied, tied = (penalty(found.law, found.free, 100.0, 2, ties) for ties in (0, 1))
    # Two exponents held at 1 cost 1 each; three coefficients and two starts, or two and two, of 100 samples.
    cost = 3 * constant_penalty(2, 100.0) + 2.0
    assert untied == pytest.approx(cost * 100.0 / (100.0 - 5 - 2))
    assert tied == pytest.approx((cost - math.log(100.0)) * 100.0 / (100.0 - 4 - 2))
