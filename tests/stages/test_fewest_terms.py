"""The shortest of the laws that have the same rates."""

from __future__ import annotations

import numpy as np

from odediscovery import Equations, TimeSeries
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.prepare import prepare
from odediscovery.stages.grow.fewest_terms import fewest_terms

EPIDEMIC = Equations.parse(["S", "I", "R"], {"S": "-0.002*S*I", "I": "0.002*S*I - 0.5*I", "R": "0.5*I"})
TIMES = np.linspace(0.0, 25.0, 40)


def epidemics(*susceptible: float) -> TimeSeries:
    starts = [np.array([s, 3.0, 0.0]) for s in susceptible]
    values = [EPIDEMIC.simulate(start, TIMES) for start in starts]
    return TimeSeries.from_arrays([TIMES] * len(values), values, EPIDEMIC.states)


def long_law() -> PowerSum:
    """The epidemic of 803 people with 0.5 (S + I + R) / 803 in the place of 0.5."""
    rate = 0.5 / 803.0
    exponents = np.array([[1.0, 1.0, 0.0], [0.0, 2.0, 0.0], [0.0, 1.0, 1.0]])
    return PowerSum(np.array([[-0.002, 0.0, 0.0], [0.002 - rate, -rate, -rate], [rate, rate, rate]]), exponents)


def test_a_conserved_sum_hides_no_shorter_law() -> None:
    p = prepare(epidemics(800.0))
    short = fewest_terms(long_law().rescaled(p.scale.state, p.scale.time), p)
    assert short is not None
    found = Equations.from_power_sum(EPIDEMIC.states, short.unscaled(p.scale.state, p.scale.time))
    assert found.power_sum is not None and found.power_sum.n_monomials == 2
    x = EPIDEMIC.simulate([800.0, 3.0, 0.0], TIMES)
    np.testing.assert_allclose(found.rhs(x), EPIDEMIC.rhs(x), rtol=1e-6, atol=1e-6)


def test_a_law_that_is_as_short_as_may_be_stays() -> None:
    p, q = prepare(epidemics(800.0)), prepare(epidemics(800.0, 300.0))
    law = EPIDEMIC.power_sum
    assert law is not None
    assert fewest_terms(law.rescaled(p.scale.state, p.scale.time), p) is None
    # Where the sum is another one, the terms are others too.
    assert fewest_terms(long_law().rescaled(q.scale.state, q.scale.time), q) is None
