"""An equation made of what the others have: which sets are tried, and how they begin."""

from __future__ import annotations

import numpy as np

from odediscovery.laws.cost import all_free
from odediscovery.laws.power_sum import Features, PowerSum, Sums
from odediscovery.stages.polish.sharing import SHARING, share_monomials

T = np.linspace(0.0, 3.0, 40)[:, None]
X = np.hstack([np.exp(-T), 1.2 - np.exp(-T), 0.5 + 0.3 * np.cos(T)])


def law(a: list[list[float]], w: list[list[float]]) -> PowerSum:
    return PowerSum(np.array(a), np.array(w))


def test_an_equation_with_a_monomial_of_its_own_gets_those_of_the_others() -> None:
    # x' = -x^0.9, y' = x - 0.3 y, z' = -0.2 z: x^0.9 and z are of their own.
    known = law(
        [[-1.0, 0.0, 0.0, 0.0], [0.0, 1.0, -0.3, 0.0], [0.0, 0.0, 0.0, -0.2]],
        [[0.9, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
    )
    found = share_monomials(known, all_free(known), X)
    shared = [one for one, _ in found if one.n_monomials == 3]
    assert shared
    for one, (free_a, free_w, _, _) in found:
        assert one.n_monomials < known.n_monomials
        np.testing.assert_array_equal(free_a, one.coefficients != 0)
        assert free_w[one.exponents != 0].all()
        # No equation has more terms than before.
        assert ((one.coefficients != 0).sum(axis=1) <= (known.coefficients != 0).sum(axis=1)).all()
    of_x = next(one for one in shared if (one.exponents != 0.9).all())
    slopes, before = of_x.rhs(X)[:, 0], known.rhs(X)[:, 0]
    assert np.mean((slopes - before) ** 2) <= SHARING.apart**2 * np.mean(before**2)
    # The others are as they were.
    np.testing.assert_allclose(of_x.rhs(X)[:, 1:], known.rhs(X)[:, 1:])


def test_coefficients_are_those_of_least_squares_and_the_nearest_set_is_taken() -> None:
    # x' = 2 x^0.5 y - z is but for rounding 2 times what y' has, less what z' has; both have x, too.
    near = 1.0 + 1e-12
    m = [[0.5, near, 0.0], [0.0, 0.0, near], [0.5, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    known = law([[2.0, -1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0, 1.0], [0.0, 0.0, 0.0, 1.0, 1.0]], m)
    laws = [one for one, _ in share_monomials(known, all_free(known), X)]
    of_x = next(one for one in laws if (one.coefficients[0] != 0).sum() == 2)
    np.testing.assert_allclose(of_x.rhs(X), known.rhs(X), rtol=1e-9)
    assert of_x.n_monomials == 3
    assert sorted(of_x.coefficients[0][of_x.coefficients[0] != 0].round(9).tolist()) == [-1.0, 2.0]


def test_what_is_shared_already_stays_and_so_does_what_nothing_is_like() -> None:
    flux = law([[-1.0, 0.0], [1.0, -0.5], [0.0, 0.5]], [[0.7, 0.4, 0.0], [0.0, 1.0, 0.0]])
    assert share_monomials(flux, all_free(flux), X) == []
    # exp(-t) decays where 0.5 + 0.3 cos(t) goes up and down.
    apart = law([[-1.0, 0.0], [0.0, 0.0], [0.0, 1.0]], [[1.0, 0.0, 0.0], [0.0, 0.0, 4.0]])
    waves = np.hstack([np.exp(-T), T, np.cos(3.0 * T)])
    assert share_monomials(apart, all_free(apart), waves) == []


def test_samples_of_which_a_root_is_no_number_are_left_out() -> None:
    known = law([[-1.0, 0.0, 0.0], [0.0, 1.0, -0.3]], [[0.9, 0.0], [1.0, 0.0], [0.0, 1.0]])
    x = X[:, :2].copy()
    x[3, 0] = -0.1
    plain = share_monomials(known, all_free(known), np.delete(x, 3, axis=0))
    found = share_monomials(known, all_free(known), x)
    assert found and len(found) == len(plain)
    for (one, _), (other, _) in zip(found, plain, strict=True):
        np.testing.assert_array_equal(one.coefficients, other.coefficients)
    assert share_monomials(known, all_free(known), -np.abs(x)) == []


def test_the_nearest_are_tried_and_no_more_than_there_is_time_for() -> None:
    # Six equations, each with a power of x near that of the others, and a constant.
    n = 6
    a = np.hstack([np.diag(np.linspace(1.0, 2.0, n)), np.full((n, 1), 0.1)])
    w = np.zeros((n + 1, n))
    w[:n, 0] = 1.0 + 0.02 * np.arange(n)
    known, x = PowerSum(a, w), np.linspace(0.5, 2.0, 30)[:, None] * np.ones(n)
    found = [one for one, _ in share_monomials(known, all_free(known), x)]
    assert len(found) == SHARING.tries
    slopes = known.rhs(x)
    left = [(np.sum((one.rhs(x) - slopes) ** 2, axis=0) / np.sum(slopes**2, axis=0)).max() for one in found]
    assert left == sorted(left)


def test_a_sum_that_no_term_has_any_more_goes() -> None:
    # x' = -x/(1 + 0.2 x^0.5), y' = x^0.9 - 0.3 y: x^0.9 in place of the quotient.
    features = Features(2, (), Sums(np.array([[0.2]]), np.array([[0.5, 0.0]])))
    a, w = (
        np.array([[-1.0, 0.0, 0.0], [0.0, 1.0, -0.3]]),
        np.array([[1.0, 0.0, -1.0], [0.9, 0.0, 0.0], [0.0, 1.0, 0.0]]),
    )
    known = PowerSum(a, w, features)
    found = share_monomials(known, all_free(known), X[:, :2])
    shared, (_, _, free_b, _) = next(one for one in found if one[0].features is None)
    assert shared.exponents.shape[1] == 2 and not free_b.any()


def test_samples_beyond_a_pole_are_left_out() -> None:
    features = Features(2, (), Sums(np.array([[-2.0]]), np.array([[1.0, 0.0]])))
    a, w = (
        np.array([[-1.0, 0.0, 0.0], [0.0, 1.0, -0.3]]),
        np.array([[0.0, 0.0, -1.5], [0.9, 0.0, 0.0], [0.0, 1.0, 0.0]]),
    )
    known, x = PowerSum(a, w, features), np.vstack([[[0.5, 1.0]], X[:, :2]])
    for one, _ in share_monomials(known, all_free(known), x):
        assert np.isfinite(one.coefficients).all()
