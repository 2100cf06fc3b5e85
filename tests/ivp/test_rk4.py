"""The classical Runge-Kutta step against known solutions."""

from __future__ import annotations

import numpy as np
import pytest

from odediscovery.ivp.solvers import rk4_step
from odediscovery.runtime.arrays import Array


def solved(steps: int) -> Array:
    """x' = -2 t x on [0, 2] from 1 in equal steps: its solution is exp(-t^2)."""
    x, h = np.array([1.0]), 2.0 / steps
    for k in range(steps):
        x = rk4_step(lambda share, x, t=k * h: -2.0 * (t + share * h) * x, x, h)  # type: ignore[misc]
    return x


def test_halving_the_step_makes_the_error_sixteen_times_smaller() -> None:
    errors = [abs(solved(steps)[0] - np.exp(-4.0)) for steps in (40, 80, 160)]
    orders = np.log2(np.divide(errors[:-1], errors[1:]))
    assert orders == pytest.approx([4.0, 4.0], abs=0.2)


def test_polynomials_of_degree_four_in_time_are_exact() -> None:
    x = rk4_step(lambda share, x: np.full_like(x, 4.0 * (2.0 * share) ** 3), np.zeros(2), 2.0)
    np.testing.assert_allclose(x, 16.0, rtol=1e-15)


def test_every_row_has_a_step_of_its_own() -> None:
    x, h = np.ones((3, 2)), np.array([[0.0], [0.1], [0.2]])
    together = rk4_step(lambda _, x: -x, x, h)
    alone = np.stack([rk4_step(lambda _, x: -x, row, float(length[0])) for row, length in zip(x, h, strict=True)])
    np.testing.assert_array_equal(together, alone)
    assert (together[0] == 1.0).all()
