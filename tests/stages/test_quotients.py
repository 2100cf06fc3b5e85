"""Denominators by regression of D(x) x' = N(x)."""

import numpy as np
from published import RATES, sampled

from odediscovery.laws.power_sum import Features
from odediscovery.problem.problem import prepare
from odediscovery.stages.integral_form import Integral
from odediscovery.stages.quotients import denominators

PRODUCTS = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [2.0, 0.0], [1.0, 1.0], [0.0, 2.0], [2.0, 1.0]])


def denominators_of(name, i, below):
    """Denominators of one equation of a published law in its own units, and its samples."""
    _, series = sampled(*RATES[name])
    p = prepare(series).without_noise(None)
    problem = Integral.of(p.data, p.noise, ~p.nonnegative, Features(2))
    found = denominators(problem, problem.interpolated(), i, PRODUCTS, np.array(below), 10.0, 0.25)
    x = np.concatenate([run.values for run in series.trajectories])
    return [(z, d / np.prod(p.scale.state**z, axis=1)) for z, d in found], x


def test_the_denominator_behind_exact_samples_comes_first():
    (z, d), *_ = denominators_of("substrate inhibition", 1, [[1.0, 0.0], [0.0, 1.0], [2.0, 0.0]])[0]
    assert z.tolist() == [[1.0, 0.0], [2.0, 0.0]]
    np.testing.assert_allclose(d, [1.0 / 0.4, 1.0 / 0.6], rtol=1e-3)


def test_products_of_states_below_are_told_from_states():
    (z, d), *_ = denominators_of("uncompetitive inhibition", 0, [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])[0]
    assert z.tolist() == [[1.0, 0.0], [1.0, 1.0]]
    np.testing.assert_allclose(d, [2.0, 1.6], rtol=1e-3)


def test_no_denominator_is_zero_on_the_way():
    found, x = denominators_of("a diode", 0, [[1.0, 0.0], [0.0, 1.0], [2.0, 0.0]])
    for z, d in found:
        assert (1.0 + np.prod(x[:, None] ** z, axis=2) @ d > 0.0).all()
