"""Two coefficients of one flow have one value where the data do not tell them apart."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from odediscovery import TimeSeries, simulate_system
from odediscovery.judge.criterion import judge, judge_on, penalty, price_of_nothing
from odediscovery.judge.ties import NO_TIES, count_constants, find_ties
from odediscovery.laws.cost import all_free, constant_penalty, value_penalty
from odediscovery.laws.estimates import Covariance
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.prepare import prepare
from odediscovery.search.refinement import refined, sigma_of
from odediscovery.stages.values import Origin, Polished

ONE = np.ones(2)


def polished(a: list[list[float]], deviations: list[float], samples: float = 100.0) -> Polished:
    """A law of linear terms whose coefficients have independent errors; starts are not among them."""
    law = PowerSum(np.array(a), np.eye(len(a[0]), 2))
    free = (law.coefficients != 0, np.zeros_like(law.exponents, dtype=bool), *all_free(law)[2:])
    joint = Covariance.of(np.diag(1.0 / np.array(deviations)))
    counts = np.full(2, samples / 2)
    return Polished(law, law, np.ones((1, 2)), joint, free, counts, counts, True, counts)


def test_a_flow_from_one_state_to_another_is_one_constant() -> None:
    found = find_ties(polished([[-1.0, 0.0], [1.1, -0.5]], [0.1, 0.1, 0.1]), ONE)
    assert found.number == 1
    # (1.1 - 1.0)^2 over the variance of the difference.
    assert found.loss == pytest.approx(0.5, rel=1e-6)


@pytest.mark.parametrize(
    ("a", "scale"),
    [
        ([[1.0, 0.0], [1.0, -0.5]], ONE),  # enters both
        ([[-1.0, 0.0], [1.0, -0.5]], np.array([1.0, 5.0])),  # other rates in the user's units
        ([[-1.0, 0.0], [0.0, 1.0]], ONE),  # other monomials
    ],
)
def test_what_is_no_flow_is_not_tied(a: list[list[float]], scale: np.ndarray) -> None:
    deviations = [0.01] * np.count_nonzero(a)
    assert find_ties(polished(a, deviations), scale) is NO_TIES


def test_coefficients_that_are_told_apart_are_two() -> None:
    worth = value_penalty(100.0)
    apart = np.sqrt(2.0) * 0.01 * np.sqrt(worth)
    near, far = (polished([[-1.0, 0.0], [1.0 + f * apart, -0.5]], [0.01] * 3) for f in (0.95, 1.05))
    assert find_ties(near, ONE).number == 1
    assert find_ties(far, ONE) is NO_TIES
    # Of a state that was divided by half as much, half the coefficient is the same rate.
    assert find_ties(polished([[-1.0, 0.0], [2.0, -0.5]], [0.01] * 3), np.array([1.0, 0.5])).number == 1


def three(signs: list[float], deviations: list[float]) -> Polished:
    """One monomial in three equations, with independent errors."""
    law = PowerSum(np.array(signs)[:, None], np.array([[1.0, 0.0, 0.0]]))
    free = (law.coefficients != 0, np.zeros_like(law.exponents, dtype=bool), *all_free(law)[2:])
    counts = np.full(3, 50.0)
    return Polished(
        law,
        law,
        np.ones((1, 3)),
        Covariance.of(np.diag(1.0 / np.array(deviations))),
        free,
        counts,
        counts,
        True,
        counts,
    )


def test_what_two_states_lose_and_a_third_one_gains_is_one_constant() -> None:
    found = find_ties(three([-1.0, -1.01, 1.0], [0.01, 0.01, 0.01]), np.ones(3))
    # The mean of -a, -b and c is the rate; the squares of their distances from it are lost.
    assert found.number == 2
    assert found.loss == pytest.approx(np.sum((np.array([1.0, 1.01, 1.0]) - 3.01 / 3) ** 2) / 0.01**2, rel=1e-6)
    # What two gain from a third one: no more than two ties among three coefficients.
    assert find_ties(three([-1.0, 1.0, 1.0], [0.01, 0.01, 0.01]), np.ones(3)).number == 2


@pytest.mark.parametrize("scale", [np.ones(2), np.array([1e-4, 1e4])])
def test_units_and_unknown_coefficients_change_nothing_for_the_others(scale: np.ndarray) -> None:
    # Two flows each of which loses 3; nothing is known of the coefficients of a third one.
    off = 1.0 + 0.01 * np.sqrt(6.0)
    rates = np.array([[-1.0, -1.0, -1.0], [off, off, 5.0]])
    law = PowerSum(rates / scale[:, None], np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]))
    free = (law.coefficients != 0, np.zeros_like(law.exponents, dtype=bool), *all_free(law)[2:])
    deviations = np.array([[0.01, 0.01, 1e7], [0.01, 0.01, 1e7]]) / scale[:, None]
    counts, joint = np.full(2, 50.0), Covariance.of(np.diag(1.0 / deviations.ravel()))
    found = find_ties(Polished(law, law, np.ones((1, 2)), joint, free, counts, counts, True, counts), scale)
    assert found.number == 3 and found.loss == pytest.approx(6.0, rel=1e-6)


def test_the_loss_of_ties_that_errors_connect_is_that_of_all_together() -> None:
    law = PowerSum(np.array([[-1.0, -1.0], [1.002, 1.003]]), np.array([[1.0, 0.0], [0.0, 1.0]]))
    free = (law.coefficients != 0, np.zeros_like(law.exponents, dtype=bool), *all_free(law)[2:])
    jacobian = np.random.default_rng(0).normal(size=(30, 4)) @ np.array(
        [[90.0, 80.0, 0.0, 0.0], [0.0, 90.0, 0.0, 0.0], [0.0, 0.0, 90.0, 80.0], [0.0, 0.0, 0.0, 90.0]]
    )
    counts = np.full(2, 1e6)
    joint = Covariance.of(jacobian)
    found = find_ties(Polished(law, law, np.ones((1, 2)), joint, free, counts, counts, True, counts), ONE)
    # Least squares with the ties: the flows' rates alone are free.
    theta = law.coefficients.ravel()
    flows = np.array([[-1.0, 0.0], [0.0, -1.0], [1.0, 0.0], [0.0, 1.0]])
    rates = np.linalg.lstsq(jacobian @ flows, jacobian @ theta, rcond=None)[0]
    assert found.number == 2
    assert found.loss == pytest.approx(np.sum((jacobian @ (flows @ rates - theta)) ** 2), rel=1e-6)


def test_nothing_is_tied_where_errors_are_not_known_or_flows_are_tied_already() -> None:
    flow = polished([[-1.0, 0.0], [1.0, -0.5]], [0.01] * 3)
    assert find_ties(dataclasses.replace(flow, joint=Covariance.nothing_known(3)), ONE) is NO_TIES
    tied = dataclasses.replace(flow.law, stoichiometry=np.eye(2))
    assert find_ties(dataclasses.replace(flow, law=tied), ONE) is NO_TIES
    assert count_constants(flow, ONE) == 2 and count_constants(dataclasses.replace(flow, law=tied), ONE) == 3


def test_a_tie_saves_what_a_value_costs() -> None:
    found = polished([[-1.0, 0.0], [1.0, -0.5]], [0.01] * 3)
    untied, tied = (penalty(found.law, found.free, 100.0, 2, ties) for ties in (0, 1))
    # Two exponents held at 1 cost 1 each; three coefficients and two starts, or two and two, of 100 samples.
    cost = 3 * constant_penalty(2, 100.0) + 2.0
    assert untied == pytest.approx(cost * 100.0 / (100.0 - 5 - 2))
    assert tied == pytest.approx((cost - math.log(100.0)) * 100.0 / (100.0 - 4 - 2))


def test_infection_and_recovery_of_a_noisy_epidemic_are_three_constants_not_six() -> None:
    p = prepare(simulate_system("fsir", noise=0.01, seed=1))
    a = np.array([[0.01, -0.06, 0.0], [0.0, 0.06, -0.05], [-0.01, 0.0, 0.05]])
    law = PowerSum(a, np.array([[0.0, 0.0, 1.0], [0.5, 0.5, 0.0], [0.0, 1.0, 0.0]]))
    law = law.rescaled(p.scale.state, p.scale.time)
    free = (law.coefficients != 0, np.zeros_like(law.exponents, dtype=bool), *all_free(law)[2:])
    found = refined(p, law, free, p.initial, sigma_of(p))
    ties = find_ties(found, p.scale.state)
    assert ties.number == 3 and 0.0 < ties.loss < 12.0
    untied = judge(found, sigma_of(p), Origin(0), more=price_of_nothing(p, found)).criterion
    assert judge_on(p, found, Origin(0)).criterion < untied - 3 * value_penalty(120.0) + ties.loss


def test_rates_are_compared_in_the_users_units() -> None:
    t, random = np.linspace(0.0, 5.0, 40), np.random.default_rng(0)
    left = 4.0 * np.exp(-0.4 * t)
    values = np.stack([left, 400.0 - 60.0 * left], axis=1) * (1.0 + 1e-3 * random.standard_normal((40, 2)))
    for factor, shared in ((60.0, 1), (1.0, 0)):
        p = prepare(TimeSeries.from_arrays(t, values / [1.0, factor], ["A", "B"]))
        law = PowerSum(np.array([[-0.4], [0.4 * 60.0 / factor]]), np.array([[1.0, 0.0]]))
        law = law.rescaled(p.scale.state, p.scale.time)
        found = refined(p, law, (law.coefficients != 0, law.exponents < 0, *all_free(law)[2:]), p.initial, sigma_of(p))
        assert find_ties(found, p.scale.state).number == shared
