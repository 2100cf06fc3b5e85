"""Paths found for all steps at once against steps taken in turn."""

from __future__ import annotations

import numpy as np
import pytest

from odediscovery.ivp.all_at_once import linear_recurrence, newton_path
from odediscovery.runtime.arrays import Array

STEPS, RUNS = 40, 2


def logistic(x: Array) -> Array:
    """One step of a map with a product of two states."""
    a, b = x
    return np.stack([a + 0.1 * a * (1.0 - a) - 0.02 * a * b, b + 0.05 * a * b - 0.03 * b])


def in_turn(start: Array) -> Array:
    path = [start]
    for _ in range(STEPS):
        path.append(logistic(path[-1]))
    return np.stack(path, axis=1)


def varied(x: Array) -> tuple[Array, Array]:
    """The same, and its slopes."""
    a, b = x
    slopes = [[1.1 - 0.2 * a - 0.02 * b, -0.02 * a], [0.05 * b, 0.97 + 0.05 * a]]
    return logistic(x), np.moveaxis(np.array(slopes), (0, 1), (2, 3))


def test_a_recurrence_is_what_a_loop_gives() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((7, RUNS, 3, 3)), rng.standard_normal((7, RUNS, 3, 4))
    z = [rng.standard_normal((RUNS, 3, 4))]
    for j in range(7):
        z.append(a[j] @ z[-1] + b[j])
    np.testing.assert_allclose(linear_recurrence(a, b, z[0]), np.stack(z), rtol=1e-10)


def test_newtons_path_is_that_of_steps_in_turn() -> None:
    start = np.array([[0.2, 1.5], [1.0, 0.3]])
    guess = np.repeat(start[:, None], 1 + STEPS, axis=1)
    path = newton_path(varied, guess, np.ones((2, 1, 1)), most=20, accuracy=1e-6)
    assert path is not None
    np.testing.assert_allclose(path, in_turn(start), rtol=1e-9)


@pytest.mark.parametrize(("most", "guess"), [(1, 1.0), (20, np.nan)])
def test_a_path_that_is_not_found_is_none(most: int, guess: float) -> None:
    start = np.full((2, 1 + STEPS, RUNS), guess)
    assert newton_path(varied, start, np.ones((2, 1, 1)), most=most, accuracy=1e-6) is None
