"""An equation made of what the others have: which sets are tried, and how they begin."""

from __future__ import annotations

import numpy as np

from odediscovery.laws.cost import all_free
from odediscovery.laws.power_sum import PowerSum
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


def test_what_is_shared_already_stays_and_so_does_what_nothing_is_like() -> None:
    flux = law([[-1.0, 0.0], [1.0, -0.5], [0.0, 0.5]], [[0.7, 0.4, 0.0], [0.0, 1.0, 0.0]])
    assert share_monomials(flux, all_free(flux), X) == []
    # exp(-t) decays where 0.5 + 0.3 cos(t) goes up and down.
    apart = law([[-1.0, 0.0], [0.0, 0.0], [0.0, 1.0]], [[1.0, 0.0, 0.0], [0.0, 0.0, 4.0]])
    waves = np.hstack([np.exp(-T), T, np.cos(3.0 * T)])
    assert share_monomials(apart, all_free(apart), waves) == []
