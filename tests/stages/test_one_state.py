"""Several terms in one state as one over a sum."""

import numpy as np
import pytest

from odediscovery.families import Function
from odediscovery.laws.power_sum import Features, PowerSum, Sums
from odediscovery.stages.polish.one_state import shorten_functions

X = np.stack([np.linspace(0.2, 4.0, 60), np.linspace(2.0, 1.0, 60)], axis=1)


def _as_powers(rhs: np.ndarray, w: np.ndarray) -> PowerSum:
    """The law with these exponents nearest to right-hand sides [samples, states]."""
    a, *_ = np.linalg.lstsq(PowerSum(np.ones((2, len(w))), w).monomials(X), rhs)
    return PowerSum(np.atleast_2d(a.T), w)


def test_two_powers_that_bend_as_a_saturating_term_become_one() -> None:
    rhs = np.stack([X[:, 0] / (1.0 + 0.3 * X[:, 0]), np.zeros(60)], axis=1)
    long = _as_powers(rhs, np.array([[1.0, 0.0], [2.0, 0.0], [3.0, 0.0]]))
    short, free = shorten_functions(long, X)[0]
    assert short.n_monomials == 1
    assert short.rhs(X) == pytest.approx(rhs, abs=0.05)
    assert [int(mask.sum()) for mask in free] == [1, 0, 1, 0]


def test_other_factors_stay_before_the_function_and_other_terms_beside_it() -> None:
    w = np.array([[1.06, 1.0], [1.0, 1.0], [0.0, 2.0]])
    bent = X[:, 0] / (1.0 + X[:, 0])
    rhs = np.stack([bent * X[:, 1] - 0.5 * X[:, 1] ** 2, np.zeros(60)], axis=1)
    short, _ = shorten_functions(_as_powers(rhs, w), X)[0]
    assert short.rhs(X) == pytest.approx(rhs, abs=0.1)
    assert [2.0] in short.exponents[:, 1:2].tolist()
    assert short.exponents[short.exponents[:, 0] != 0][:, 1].tolist() == [1.0]


def test_a_level_shared_with_an_equation_that_does_not_bend_stays_there() -> None:
    # x' = 2, y' = 3 - x/4 + x^2/40 - x^3/800: the level is one monomial of both.
    w = np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0], [3.0, 0.0]])
    law = _as_powers(np.stack([np.full(60, 2.0), 1.0 + 2.0 / (1.0 + 0.2 * X[:, 0])], axis=1), w)
    law = PowerSum(np.where(np.abs(law.coefficients) < 1e-9, 0.0, law.coefficients), w)
    short, _ = shorten_functions(law, X)[0]
    assert short.rhs(X)[:, 0] == pytest.approx(2.0)
    assert short.rhs(X)[:, 1] == pytest.approx(law.rhs(X)[:, 1], abs=0.05)


def test_what_no_shorter_function_follows_stays() -> None:
    wave = PowerSum(np.array([[1.0, -1.0, 0.2]]), np.array([[1.0], [2.0], [3.0]]))
    assert shorten_functions(wave, np.linspace(0.1, 5.0, 50)[:, None]) == []


def test_a_sine_and_a_line_that_nearly_cancel_are_a_cube() -> None:
    sine = Features(1, (Function("sin", 0, 1.0),))
    law = PowerSum(np.array([[104.0, -105.0]]), np.array([[0.0, 1.0], [1.0, 0.0]]), sine)
    x = np.linspace(-0.8, 0.8, 41)[:, None]
    short, _ = shorten_functions(law, x)[0]
    assert short.features is None
    assert short.exponents.tolist() == [[1.0], [3.0]]
    assert short.rhs(x) == pytest.approx(law.rhs(x), abs=0.5)


def test_flows_between_states_are_left_alone() -> None:
    law = PowerSum(np.array([[1.0, -0.5, 0.1]]), np.array([[1.0], [2.0], [3.0]]))
    flows = PowerSum(law.coefficients, law.exponents, stoichiometry=np.array([[-1.0]]))
    assert shorten_functions(flows, np.linspace(0.5, 1.0, 20)[:, None]) == []


def test_terms_over_a_sum_of_the_same_state_take_part() -> None:
    hill = Features(1, (), Sums(np.array([[0.02]]), np.array([[2.0]])))  # u = 1 + x^2/50
    x = np.linspace(1.0, 3.0, 40)[:, None]
    goal = 1.0 + 2.0 / (1.0 + 0.4 * x[:, 0])
    w = np.array([[0.0, -1.0], [-1.0, 0.0], [0.0, 0.0]])
    a, *_ = np.linalg.lstsq(PowerSum(np.ones((1, 3)), w, hill).monomials(x), goal)
    found = [one for one, _ in shorten_functions(PowerSum(a[None, :], w, hill), x)]
    over = [one for one in found if one.features is not None]
    assert [one.features.sums.exponents.tolist() for one in over] == [[[1.0]]]
    assert over[0].rhs(x)[:, 0] == pytest.approx(goal, abs=0.05)
    # A power is as near along these data; the refit decides.
    assert len(found) > len(over)
