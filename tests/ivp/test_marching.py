"""Steps of plain numbers are those of arrays."""

from __future__ import annotations

import numpy as np
import pytest

from odediscovery.ivp.solvers import march, three_eighths_step

STEPS = [0.1, 0.0, 0.2]


def rates(x, y):
    return -x * y, x - y * y


def of_array(x):
    return np.array(rates(*x))


def test_they_are_those_of_arrays():
    x = np.array([1.0, 0.5])
    expected = [x] + [x := three_eighths_step(of_array, x, np.array([h])) for h in STEPS]
    np.testing.assert_allclose(list(march(2)(rates, [1.0, 0.5], STEPS)), expected, rtol=1e-14)


def test_what_was_reached_before_a_number_became_too_large_stays() -> None:
    reached = []
    with pytest.raises(OverflowError):
        for x in march(1)(lambda x: (x**9,), [1.5], [0.5] * 9):
            reached.append(x)
    assert reached[0] == (1.5,) and 1 <= len(reached) < 9
