"""Laws of whole powers by regression: whole small libraries, and what equations need of large ones."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from odediscovery import TimeSeries
from odediscovery.judge.doubt import interval_squares
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.prepare import prepare
from odediscovery.problem.problem import Problem
from odediscovery.stages.grow.polynomials import (
    POLYNOMIALS,
    library_law,
    polynomials,
    polynomials_along,
    shared_products,
)
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


TERMS = [
    {(1, 0, 0), (1, 0, 1), (0, 1, 0)},
    {(1, 0, 0), (0, 1, 0), (0, 1, 1)},
    {(0, 0, 0), (0, 0, 1), (0, 0, 3), (2, 0, 0), (0, 2, 0), (2, 0, 1), (0, 2, 1), (3, 0, 1)},
]


def terms_of(law: PowerSum) -> list[set[tuple[int, ...]]]:
    """The products in each equation."""
    return [{tuple(law.exponents[j].astype(int)) for j in np.flatnonzero(row)} for row in law.coefficients]


def test_a_small_library_is_taken_whole(swirl: Problem) -> None:
    law = library_law(swirl, 2)
    assert law is not None
    assert (law.coefficients != 0).sum(axis=1).tolist() == [10, 10, 10]


def test_of_a_large_library_each_equation_keeps_what_it_needs(swirl: Problem) -> None:
    law = library_law(swirl, 4)
    assert law is not None
    assert interval_squares(law, swirl).max() < STAGES.settled
    # The whole library has 35 products; the true equations 3, 3 and 8.
    assert ((law.coefficients != 0).sum(axis=1) < 20).all()
    needed = {(3.0, 0.0, 1.0), (0.0, 0.0, 3.0), (2.0, 0.0, 1.0)}
    assert needed <= {tuple(row) for row, used in zip(law.exponents, law.coefficients[2] != 0, strict=True) if used}


def test_there_are_libraries_that_are_too_large(swirl: Problem) -> None:
    assert POLYNOMIALS.selected_library < 3 * 84
    assert library_law(swirl, 6) is None


def test_a_strict_penalty_gives_the_smaller_law(swirl: Problem) -> None:
    sizes = [int((law.coefficients != 0).sum()) for law in polynomials(swirl)]
    assert len(sizes) > 1 and min(sizes) < max(sizes)


def test_equations_have_the_degree_that_they_need(swirl: Problem) -> None:
    noisy = noise_on(swirl, 1e-4)
    laws = polynomials(noisy)
    largest = [law.exponents.sum(axis=1).max() for law in laws]
    assert max(largest) == 4
    assert all(most <= POLYNOMIALS.alone for most in largest[:-2])
    assert any(terms_of(law)[:2] == TERMS[:2] and TERMS[2] <= terms_of(law)[2] for law in laws)


def test_regression_along_a_law_finds_the_terms_that_it_has_too_many(swirl: Problem) -> None:
    noisy = noise_on(swirl, 1e-3)
    pieces = noisy.pieces(40)
    more = PowerSum(
        np.array([[-0.7, 1.0, -3.5, 0.0, 0.02], [3.5, 0.0, -0.7, 1.0, 0.0], [0.0] * 5]),
        np.array([[1.0, 0, 0], [1.0, 0, 1.0], [0, 1.0, 0], [0, 1.0, 1.0], [0, 2.0, 0]]),
    )
    third = PowerSum(
        np.array([[0.0] * 8, [0.0] * 8, [0.6, 0.95, -1 / 3, -1.0, -1.0, -0.25, -0.25, 0.1]]),
        np.array([[0, 0, 0], [0, 0, 1.0], [0, 0, 3], [2, 0, 0], [0, 2, 0], [2, 0, 1], [0, 2, 1], [3, 0, 1]]),
    )
    law = PowerSum(
        np.hstack([more.coefficients, third.coefficients]), np.vstack([more.exponents, third.exponents])
    ).merged()
    own = law.rescaled(noisy.scale.state, noisy.scale.time)
    found = polynomials_along(pieces, own, pieces.initial, np.maximum(noisy.noise, noisy.floor))
    assert any(terms_of(one) == TERMS for one in found)


def test_nothing_is_sought_along_what_is_no_polynomial(swirl: Problem) -> None:
    quotient = PowerSum(np.eye(3), np.diag([1.0, -1.0, 1.0]))
    assert polynomials_along(swirl, quotient, swirl.initial, np.ones(3)) == []


def noise_on(p: Problem, sigma: float) -> Problem:
    """The same series in its own units with noise, as a share of each state's spread."""
    random = np.random.default_rng(5)
    (t,) = p.data.trajectories
    values = t.values * p.scale.state
    noisy = values + sigma * values.std(axis=0) * random.standard_normal(values.shape)
    return prepare(TimeSeries.from_arrays(t.time * p.scale.time, noisy, ["x", "y", "z"]))


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


def test_nothing_is_proposed_beside_a_law_whose_products_are_the_best_set(reaction: Problem) -> None:
    products = [[0, 0, 0], [0, 0, 2], [1, 0, 1]]
    (found,) = [law for law in shared_products(reaction) if law.exponents.astype(int).tolist() == products]
    assert not shared_products(reaction, found)
    other = PowerSum(found.coefficients, np.array([[0.0, 0.0, 0.0], [0.0, 0.0, 2.0], [1.0, 1.0, 0.0]]))
    assert len(shared_products(reaction, other)) == len(shared_products(reaction))


def test_few_sets_of_each_size_are_proposed(reaction: Problem) -> None:
    laws = shared_products(reaction)
    sizes = [law.n_monomials for law in laws]
    assert max(sizes) <= POLYNOMIALS.most_shared
    for size in set(sizes):
        assert sizes.count(size) <= POLYNOMIALS.kept_sets * len(POLYNOMIALS.shared_degrees)
