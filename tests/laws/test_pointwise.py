"""Right-hand sides at one point are those of the law."""

from __future__ import annotations

import numpy as np
import pytest

from odediscovery.laws.pointwise import POINTWISE, point_field
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
    field = point_field(LAWS[name])
    for x in np.random.default_rng(0).uniform(0.1, 3.0, (5, 2)):
        np.testing.assert_allclose(field(0.0, x), LAWS[name].rhs(x), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("x", [[-1.0, 2.0], [0.0, 1.0], [1e200, 1e200], [1e-300, -1e-300]])
def test_also_where_there_is_no_power_or_too_large_a_number(x: list[float]) -> None:
    for law in LAWS.values():
        with np.errstate(all="ignore"):
            found, expected = point_field(law)(0.0, np.array(x)), law.rhs(np.array(x))
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_what_is_no_number_stays_none() -> None:
    assert np.isnan(point_field(LAWS["real"])(0.0, np.array([np.nan, np.nan]))).all()


def test_a_large_law_is_left_to_numpy() -> None:
    n = POINTWISE.max_constants
    law = PowerSum(-np.eye(n), np.eye(n))
    assert isinstance(point_field(law)(0.0, np.ones(n)), np.ndarray)
