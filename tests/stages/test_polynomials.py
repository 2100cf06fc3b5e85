"""Laws of whole powers by regression: whole small libraries, and what equations need of large ones."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from odediscovery import TimeSeries
from odediscovery.judge.doubt import interval_squares
from odediscovery.problem.prepare import prepare
from odediscovery.problem.problem import Problem
from odediscovery.stages.grow.polynomials import library_law, shared_products
from odediscovery.stages.values import STAGES


@pytest.fixture(scope="module")
def swirl() -> Problem:
    """Aizawa's attractor, a law of degree four in three states, densely sampled."""

    def rhs(_: float, s: list[float]) -> list[float]:
        x, y, z = s
        radial = (x**2 + y**2) * (1.0 + 0.25 * z)
        return [(z - 0.7) * x - 3.5 * y, 3.5 * x + (z - 0.7) * y, 0.6 + 0.95 * z - z**3 / 3 - radial + 0.1 * z * x**3]

    t = np.linspace(0.0, 12.0, 800)
    x = solve_ivp(rhs, (0.0, 12.0), [0.1, 0.4, 0.1], t_eval=t, rtol=1e-10, atol=1e-12).y.T
    return prepare(TimeSeries.from_arrays(t, x, ["x", "y", "z"]))


def test_of_a_large_library_each_equation_keeps_what_it_needs(swirl: Problem) -> None:
    law = library_law(swirl, 4)
    assert law is not None
    assert interval_squares(law, swirl).max() < STAGES.settled
    # The whole library has 35 products; the true equations 3, 3 and 8.
    assert ((law.coefficients != 0).sum(axis=1) < 20).all()
    needed = {(3.0, 0.0, 1.0), (0.0, 0.0, 3.0), (2.0, 0.0, 1.0)}
    assert needed <= {tuple(row) for row, used in zip(law.exponents, law.coefficients[2] != 0, strict=True) if used}


@pytest.fixture(scope="module")
def reaction() -> Problem:
    """A and C react to more C, two C to B, C flows in; noise of 2 % of their spread, one trajectory."""

    def rhs(_: float, x: list[float]) -> list[float]:
        a, c = 0.958 * x[0] * x[2], 1.07 * x[2] ** 2
        return [-a, c, 0.123 + a - c]

    t = np.linspace(0.0, 8.0, 150)
    x = solve_ivp(rhs, (0.0, 8.0), [1.5, 0.1, 0.2], t_eval=t, rtol=1e-9, atol=1e-12).y.T
    x = x + 0.02 * x.std(axis=0) * np.random.default_rng(0).standard_normal(x.shape)
    return prepare(TimeSeries.from_arrays(t, x, list("ABC")))


def test_products_that_equations_share_are_found_in_noise(reaction: Problem) -> None:
    sets = [{tuple(row) for row in law.exponents.astype(int).tolist()} for law in shared_products(reaction)]
    assert {(0, 0, 0), (1, 0, 1), (0, 0, 2)} in sets
