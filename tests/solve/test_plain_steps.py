"""Steps in plain numbers are those of arrays."""

from __future__ import annotations

import numpy as np
import pytest

from odediscovery.families import Function
from odediscovery.networks.chain import Chain, Pair, member_rates
from odediscovery.runtime.arrays import Array
from odediscovery.solve.grids import plain_nodes, rk4_nodes

POSITIVE, ANY = np.array([True, True]), np.array([False, False])
CROSSED = np.array([[0.0, 1.0], [1.0, 0.5]])


def chain_of(pairs: list[tuple[Array, Array, Array]], **options: object) -> Chain:
    """A chain of one member from (nonnegative, exponents, weights) of each pair."""
    theta = np.concatenate([part.ravel() for _, w, a in pairs for part in (w, a)])[None]
    layers = tuple(Pair(nonnegative, len(w), len(a)) for nonnegative, w, a in pairs)
    return Chain(2, options.pop("functions", ()), layers, theta, theta != 0.0, **options)  # type: ignore[arg-type]


CHAINS = {
    "real powers": chain_of([(POSITIVE, np.array([[0.5, 0.7], [0.0, -0.3]]), np.array([[-0.5, 0.2], [0.3, -0.1]]))]),
    "whole powers": chain_of(
        [(ANY, np.array([[2.0, 1.0], [-1.0, 0.0], [0.0, 3.0]]), np.array([[0.0, 0.2, -1.0]] * 2))]
    ),
    "a function": chain_of(
        [(np.array([False] * 3), np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]), np.array([[-1.0, 0.0], [0.0, 2.0]]))],
        functions=(Function("sin", 1, 0.7),),
    ),
    "a quotient": chain_of(
        [
            (POSITIVE, np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]), np.array([[1, 0, 0.0], [0, 1, 0], [0.3, 0, 1]])),
            (np.array([True] * 3), np.array([[1.0, 1.0, -1.0], [0.0, 1.0, 0.0]]), np.array([[0.5, 0], [-0.5, 0.1]])),
        ]
    ),
    "an equation that follows": chain_of(
        [(POSITIVE, CROSSED, np.array([[-0.5, 0.2], [0.0, 0.0]]))], stoichiometry=np.array([[1.0, 0.0], [-1.0, 0.0]])
    ),
}


@pytest.mark.parametrize("name", sorted(CHAINS))
def test_they_are_those_of_arrays(name: str) -> None:
    chain = CHAINS[name]
    start = np.array([[[1.0, 2.0], [0.7, 0.3], [1.5, 0.9]]])
    steps = np.array([[0.1, 0.05, 0.1], [0.1, 0.0, 0.1], [0.2, 0.1, 0.0]])
    found = plain_nodes(chain, chain.theta, start, steps)
    assert found is not None
    np.testing.assert_allclose(found, rk4_nodes(chain.rhs(chain.theta), start, steps), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("x", [(-0.5, 0.2), (0.0, 0.0), (0.3, -1e-9), (1e-18, 0.0)])
@pytest.mark.parametrize("name", sorted(CHAINS))
def test_rates_at_and_beyond_zero_are_those_of_arrays(name: str, x: tuple[float, float]) -> None:
    chain, rates = CHAINS[name], member_rates(CHAINS[name], CHAINS[name].theta[0])
    assert rates is not None
    np.testing.assert_allclose(rates(*x), chain.rhs(chain.theta)(np.array([[x]]))[0, 0], rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("place", range(8))
def test_a_trial_step_that_is_no_number_leads_to_none(place: int, value: float) -> None:
    chain = CHAINS["real powers"]
    theta, start = chain.theta.copy(), np.array([[[1.2, 2.0]]])
    theta[0, place] = value
    steps = np.full((1, 3), 0.1)
    with np.errstate(all="ignore"):
        expected = rk4_nodes(chain.rhs(theta), start, steps)
        found = plain_nodes(chain, theta, start, steps)
    assert found is None or not np.isfinite(found[0, 0, -1]).all()
    assert not np.isfinite(expected[0, 0, -1]).all() or found is None


def test_what_is_no_number_stays_none() -> None:
    for chain in CHAINS.values():
        rates = member_rates(chain, chain.theta[0])
        assert rates is not None and np.isnan(rates(np.nan, np.nan)).any()


def test_functions_whose_arguments_have_bounds_are_left_to_arrays() -> None:
    three = np.array([False] * 3)
    one = [(three, np.array([[0.0, 0.0, 1.0]]), np.array([[-1.0], [0.0]]))]
    chain = chain_of(one, functions=(Function("log", 1),))
    assert member_rates(chain, chain.theta[0]) is None


def test_powers_that_turn_and_many_points_are_left_to_arrays() -> None:
    turning = chain_of([(ANY, np.array([[0.5, 1.0]]), np.array([[1.0], [0.0]]))])
    assert plain_nodes(turning, turning.theta, np.ones((1, 1, 2)), np.full((1, 3), 0.1)) is None
    chain, many = CHAINS["real powers"], 250
    assert plain_nodes(chain, chain.theta, np.ones((1, many, 2)), np.full((many, 3), 0.1)) is None


def test_a_number_that_becomes_too_large_is_left_to_arrays() -> None:
    growing = chain_of([(POSITIVE, np.array([[300.0, 0.0]]), np.array([[1.0], [0.0]]))])
    assert plain_nodes(growing, growing.theta, np.full((1, 1, 2), 1e3), np.full((1, 3), 1.0)) is None
