"""Terms over one sum in as few terms as can be."""

from __future__ import annotations

import numpy as np

from odediscovery.families import Function
from odediscovery.laws.power_sum import Features, PowerSum, Sums
from odediscovery.stages.polish.quotients import shorten_quotients

X = np.linspace(0.1, 5.0, 30)[:, None] * np.array([[1.0, 0.7]])
# u = 1 + 2 x
U = Features(2, (), Sums(np.array([[2.0]]), np.array([[1.0, 0.0]])))


def test_a_saturating_loss_written_as_a_difference_becomes_one_term() -> None:
    # x' = x - 3 y + 3 y/u = x - 6 x y/u,  y' = -y/u + 0.4 y = 0.4 y - y/u
    a = np.array([[1.0, -3.0, 3.0], [0.0, 0.4, -1.0]])
    w = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 1.0, -1.0]])
    law = PowerSum(a, w, U)
    short, (free_a, free_w, free_b, free_v) = shorten_quotients(law, X)[0]
    np.testing.assert_allclose(short.rhs(X), law.rhs(X), rtol=1e-12)
    assert np.count_nonzero(short.coefficients[0]) == 2 and np.count_nonzero(short.coefficients[1]) == 2
    assert free_a.sum() == 4 and not free_w.any() and free_b.sum() == 1 and not free_v.any()


def test_a_whole_part_that_hides_a_quotient_is_taken_apart() -> None:
    # x - 2 x^2/u = x/u
    law = PowerSum(np.array([[1.0, -2.0], [0.0, 0.0]]), np.array([[1.0, 0.0, 0.0], [2.0, 0.0, -1.0]]), U)
    found = shorten_quotients(law, X)[0]
    assert found[0].exponents.tolist() == [[1.0, 0.0, -1.0]]
    np.testing.assert_allclose(found[0].rhs(X), law.rhs(X), rtol=1e-9)


def test_the_sine_of_a_small_angle_is_tried_as_the_angle() -> None:
    # x' = y,  y' = -2 sin(x) - 0.1 y, of which the data reach 0.4 rad.
    sine = Features(2, (Function("sin", 0),))
    law = PowerSum(np.array([[1.0, 0.0], [-0.1, -2.0]]), np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]), sine)
    x = np.linspace(-0.4, 0.4, 30)[:, None] * np.array([[1.0, 0.7]])
    (short, _), *_ = shorten_quotients(law, x)
    assert short.features is None and short.exponents.tolist() == [[0.0, 1.0], [1.0, 0.0]]
    np.testing.assert_allclose(short.coefficients[1], [-0.1, -2.0], rtol=0.05)
    # Over whole turns a sine is no line.
    assert shorten_quotients(law, 10.0 * x) == []
