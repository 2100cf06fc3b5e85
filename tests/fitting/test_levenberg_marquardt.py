"""Levenberg-Marquardt against exact constants and scipy's least squares."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.optimize import least_squares

from odediscovery.fitting.windows import is_definite, levenberg_marquardt
from odediscovery.runtime.arrays import Array
from odediscovery.runtime.monitor import Monitor


@dataclass
class Decays:
    """Residuals a exp(-b t) - y_m(t) of members with data of their own, unknowns (a, b, unused)."""

    y: Array
    t: Array
    cliff: float = math.inf

    def solve(self, u: Array) -> Array:
        return u[:, :1] * np.exp(-u[:, 1:2] * self.t)

    def residuals(self, u: Array, solved: Array | None = None) -> Array:
        r = (self.solve(u) if solved is None else solved) - self.y[: len(u)]
        return np.where(u[:, 1:2] > self.cliff, np.nan, r)

    def linearised(self, u: Array, free: Array, solved: Array | None = None) -> tuple[Array, Array]:
        decay = np.exp(-u[:, 1:2] * self.t)
        columns = [decay, -u[:, :1] * self.t * decay, np.zeros_like(decay)]
        return self.residuals(u, solved), np.stack(columns, axis=-1)


T = np.linspace(0.0, 3.0, 12)
GUESS = np.array([[1.0, 0.1, 7.0]])


def decay(a: float, b: float) -> Array:
    return a * np.exp(-b * T)


@pytest.mark.parametrize(("a", "b"), [(2.0, 0.5), (5.0, -0.2)])
def test_levenberg_marquardt_finds_exact_constants(a: float, b: float) -> None:
    problem = Decays(decay(a, b)[None], T)
    free = np.ones_like(GUESS, dtype=bool)
    found = levenberg_marquardt(problem, GUESS, free, 60, tolerance=1e-12)
    np.testing.assert_allclose(found.unknowns[0], [a, b, 7.0], rtol=1e-6)
    assert found.sum_of_squares.item() < 1e-12
    jacobian = problem.linearised(found.unknowns, free)[1][0]
    np.testing.assert_allclose(found.normal[0], jacobian.T @ jacobian, rtol=1e-8, atol=1e-12)


def test_levenberg_marquardt_members_and_masks_are_apart() -> None:
    y = np.tile(decay(2.0, 0.5), (3, 1))
    start = np.array([[1.0, 0.1, 7.0], [1.0, 0.3, 7.0], [3.0, 0.1, 7.0]])
    free = np.ones_like(start, dtype=bool)
    free[1, 1] = free[2, 0] = False
    found = levenberg_marquardt(Decays(y, T), start, free, 60, tolerance=1e-12)
    np.testing.assert_allclose(found.unknowns[0], [2.0, 0.5, 7.0], rtol=1e-6)
    assert found.unknowns[1, 1] == 0.3 and found.unknowns[2, 0] == 3.0
    for m in range(3):
        alone = levenberg_marquardt(Decays(y, T), start[m : m + 1], free[m : m + 1], 60, tolerance=1e-12)
        np.testing.assert_allclose(found.unknowns[m], alone.unknowns[0], rtol=1e-9)
    # The linear constant alone has a solution in closed form.
    basis = np.exp(-0.3 * T)
    best = (basis @ y[0]) / (basis @ basis)
    assert found.unknowns[1, 0].item() == pytest.approx(best.item(), rel=1e-8)


def test_levenberg_marquardt_steps_back_from_nan_and_leaves_hopeless_members_alone() -> None:
    y = np.tile(decay(2.0, 0.5), (2, 1))
    start = np.array([[1.0, 0.1, 7.0], [1.0, 0.9, 7.0]])
    free = np.ones_like(start, dtype=bool)
    found = levenberg_marquardt(Decays(y, T, cliff=0.6), start, free, 80, tolerance=1e-12)
    np.testing.assert_allclose(found.unknowns[0], [2.0, 0.5, 7.0], rtol=1e-6)
    assert np.array_equal(found.unknowns[1], start[1])
    assert found.sum_of_squares[1] == math.inf


def test_levenberg_marquardt_ends_where_it_is_when_asked_to_stop() -> None:
    monitor = Monitor()
    monitor.interrupt()
    problem, free = Decays(decay(2.0, 0.5)[None], T), np.ones_like(GUESS, dtype=bool)
    found = levenberg_marquardt(problem, GUESS, free, 60, monitor=monitor)
    assert np.array_equal(found.unknowns, GUESS)


def test_levenberg_marquardt_ends_where_scipy_ends() -> None:
    noise = 0.05
    y = decay(2.0, 0.5) + noise * np.random.default_rng(0).standard_normal(len(T))
    free = np.array([[True, True, False]])
    found = levenberg_marquardt(Decays(y[None], T), GUESS, free, 60, tolerance=1e-14)
    expected = least_squares(lambda v: v[0] * np.exp(-v[1] * T) - y, GUESS[0, :2], xtol=1e-14, ftol=1e-14, gtol=1e-14)
    np.testing.assert_allclose(found.unknowns[0, :2], expected.x, rtol=1e-6)
    assert found.sum_of_squares.item() == pytest.approx(2.0 * expected.cost, rel=1e-9, abs=1e-15)


@dataclass
class Linear:
    """Residuals s_m A u - y of members whose slopes have sizes of their own."""

    slopes: Array
    sizes: Array
    y: Array

    def solve(self, u: Array) -> Array:
        return self.sizes[: len(u), None] * (u @ self.slopes.T)

    def residuals(self, u: Array, solved: Array | None = None) -> Array:
        return (self.solve(u) if solved is None else solved) - self.y

    def linearised(self, u: Array, free: Array, solved: Array | None = None) -> tuple[Array, Array]:
        return self.residuals(u, solved), self.sizes[: len(u), None, None] * self.slopes


def test_slopes_whose_squares_are_beyond_all_numbers_harm_nobody() -> None:
    """What is left is a number, what it changes by is one, and their products are none."""
    random = np.random.default_rng(0)
    right, slopes, sizes = random.standard_normal(12), random.standard_normal((40, 12)), np.array([1.0, 1e200, 1e200])
    problem = Linear(slopes, sizes, slopes @ right)
    start = np.zeros((3, 12))
    found = levenberg_marquardt(problem, start, np.ones_like(start, dtype=bool), 60, tolerance=1e-12)
    np.testing.assert_allclose(found.unknowns[0], right, rtol=1e-6)
    assert np.isfinite(found.unknowns).all()
    assert is_definite(np.array([np.eye(3), np.full((3, 3), np.nan), -np.eye(3)])).tolist() == [True, False, False]
