"""Constants by what a law leaves between samples, and whether it holds outside of those it was fitted to."""

from __future__ import annotations

import numpy as np
import pytest
from problems import LOGISTIC, growth, series_of
from scipy.integrate import solve_ivp

from odediscovery import Equations, TimeSeries
from odediscovery.laws.cost import all_free
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.prepare import prepare
from odediscovery.search.noiseless import plain_law
from odediscovery.search.refinement import refined, sigma_of
from odediscovery.stages.polish.intervals import holds_outside, sharpened

LORENZ = {"x": "10*y - 10*x", "y": "28*x - x*z - y", "z": "x*y - 8/3*z"}


@pytest.mark.slow
def test_without_noise_intervals_tell_the_constants_of_chaos() -> None:
    """On trajectories that magnify errors a million times the least misfit is elsewhere."""
    truth = Equations.parse(["x", "y", "z"], LORENZ).power_sum
    assert truth is not None
    p = prepare(series_of(truth, np.array([[1.0, 2.0, 20.0]]), [np.linspace(0.0, 15.0, 1500)]))
    law = truth.rescaled(p.scale.state, p.scale.time)
    free = all_free(law)
    near = law.with_constants(law.coefficients * (1.0 + 1e-6 * np.arange(law.n_monomials)), *law.constants[1:])
    held = (free[0], free[1] & False, *free[2:])
    found = sharpened(p, near, held)
    assert found is not None
    np.testing.assert_allclose(found.coefficients, law.coefficients, rtol=1e-8)
    again = refined(p, near, held, p.initial, sigma_of(p)).law
    np.testing.assert_allclose(again.coefficients, law.coefficients, rtol=1e-8)
    # A law that leaves something, and one of noisy data, are not for intervals to tell.
    assert sharpened(p, near.with_constants(1.1 * near.coefficients, *near.constants[1:]), held) is None
    noisy = prepare(growth(np.linspace(0.0, 40.0, 300), 0.01))
    own = LOGISTIC.rescaled(noisy.scale.state, noisy.scale.time)
    assert sharpened(noisy, own, all_free(own)) is None


@pytest.mark.parametrize("terms", [2, 3, 4])
def test_the_first_terms_of_a_sine_do_not_hold_outside(terms: int) -> None:
    t = np.linspace(0.0, 12.0, 120)
    runs = [
        solve_ivp(lambda _, x: [x[1], -np.sin(x[0])], (0.0, 12.0), [a, 0.2], t_eval=t, rtol=1e-11, atol=1e-13).y.T
        for a in (0.6, 0.4)
    ]
    p = prepare(TimeSeries.from_arrays([t, t], runs)).without_noise(None)
    powers = np.array([[0.0, 1.0], *([2.0 * k + 1.0, 0.0] for k in range(terms))])
    a = np.zeros((2, terms + 1))
    a[0, 0], a[1, 1:] = 1.0, [-1.0, 1 / 6, -1 / 120, 1 / 5040][:terms]
    assert not holds_outside(p, PowerSum(a, powers).rescaled(p.scale.state, p.scale.time))


@pytest.mark.slow
def test_a_law_holds_outside_and_terms_that_are_nothing_are_left_out() -> None:
    truth = Equations.parse(["x", "y", "z"], LORENZ).power_sum
    assert truth is not None
    t = np.linspace(0.0, 5.0, 400)
    p = prepare(series_of(truth, np.array([[1.0, 2.0, 20.0], [-5.0, 3.0, 30.0]]), [t, t])).without_noise(None)
    law = truth.rescaled(p.scale.state, p.scale.time)
    assert holds_outside(p, law)
    # What regression finds has hardly anything of x y in x', and lacks the small -y in y'.
    near = law.with_constants(law.coefficients * (1.0 + 1e-6), *law.constants[1:])
    near = PowerSum(
        np.append(near.coefficients, [[1e-6], [0.0], [0.0]], axis=1), np.append(near.exponents, [[0, 0, 2.0]], axis=0)
    )
    found = plain_law(near, p)
    assert found is not None
    assert (found.coefficients != 0).sum(axis=1).tolist() == [2, 3, 2]
    assert np.count_nonzero(found.coefficients) == np.count_nonzero(law.coefficients)


def test_what_intervals_do_not_tell_apart_is_left_to_pruning() -> None:
    """Where the states have a conserved sum each product can be written in many ways."""
    sir = PowerSum(np.array([[-1.5, 0.0], [1.5, -0.4], [0.0, 0.4]]), np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 0.0]]))
    t = np.linspace(0.0, 15.0, 100)
    p = prepare(series_of(sir, np.array([[0.95, 0.05, 0.0]]), [t])).without_noise(None)
    assert plain_law(sir.rescaled(p.scale.state, p.scale.time), p) is None
