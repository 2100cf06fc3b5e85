"""What constants, functions and exponents cost."""

import numpy as np
import pytest

from odediscovery.families import Function
from odediscovery.laws.cost import COSTS, cost, none_free
from odediscovery.laws.power_sum import Features, PowerSum


def test_exponentials_and_logarithms_are_dear_and_dearer_beside_another_factor():
    def price(name, w):
        law = PowerSum(np.array([[1.0]]), np.array([w]), Features(1, (Function(name, 0),)))
        return cost(law, none_free(law), 100)

    plain = price("sin", [0.0, 1.0])
    assert price("log", [0.0, 1.0]) - plain == pytest.approx(COSTS.dimensional)
    assert price("exp", [-1.0, 1.0]) - price("sin", [-1.0, 1.0]) == pytest.approx(COSTS.dimensional + COSTS.mixed)
