"""What constants, functions and exponents cost."""

import numpy as np
import pytest

from odediscovery.families import Function
from odediscovery.laws.power_sum import STRANGE_COST, Features, PowerSum, Sums, but_whole_powers, cost, none_free


def test_exponentials_and_logarithms_are_dear_and_dearer_beside_another_factor():
    def price(name, w):
        law = PowerSum(np.array([[1.0]]), np.array([w]), Features(1, (Function(name, 0),)))
        return cost(law, none_free(law), 100)

    plain = price("sin", [0.0, 1.0])
    assert price("log", [0.0, 1.0]) - plain == pytest.approx(STRANGE_COST)
    assert price("exp", [-1.0, 1.0]) - price("sin", [-1.0, 1.0]) == pytest.approx(2.0 * STRANGE_COST)


def test_whole_powers_are_no_free_constants_where_only_the_others_are_wanted() -> None:
    sums = Sums(np.array([[3.0, 0.0]]), np.array([[2.0, 0.0], [0.7, 0.0]]))
    law = PowerSum(
        np.array([[1.0, 0.0], [2.0, 3.0]]), np.array([[1.0, 0.5, 0.0], [0.0, 2.0, -1.0]]), Features(2, (), sums)
    )
    a, w, b, v = but_whole_powers(law)
    assert a.tolist() == [[True, False], [True, True]]
    assert w.tolist() == [[False, True, False], [False, False, False]]
    assert b.tolist() == [[True, False]] and v.tolist() == [[False, False], [True, False]]
