"""Steps of plain numbers are those of arrays."""

from __future__ import annotations

import numpy as np
import pytest

from odediscovery.ivp.solvers import CLASSICAL, THREE_EIGHTHS, march, rk4_step
from odediscovery.solve.grids import three_eighths_step

STEPS = [0.1, 0.0, 0.2]


def rates(x, y):
    return -x * y, x - y * y


def of_array(x):
    return np.array(rates(*x))


@pytest.mark.parametrize(
    ("rule", "step"),
    [
        (CLASSICAL, lambda x, h: rk4_step(lambda _, y: of_array(y), x, h)),
        (THREE_EIGHTHS, lambda x, h: three_eighths_step(of_array, x, np.array([h]))),
    ],
    ids=["classical", "three eighths"],
)
def test_they_are_those_of_arrays(rule, step):
    x = np.array([1.0, 0.5])
    expected = [x] + [x := step(x, h) for h in STEPS]
    np.testing.assert_allclose(list(march(2, rule)(rates, [1.0, 0.5], STEPS)), expected, rtol=1e-14)


def test_what_was_reached_before_a_number_became_too_large_stays() -> None:
    reached = []
    with pytest.raises(OverflowError):
        for x in march(1, CLASSICAL)(lambda x: (x**9,), [1.5], [0.5] * 9):
            reached.append(x)
    assert reached[0] == (1.5,) and 1 <= len(reached) < 9
