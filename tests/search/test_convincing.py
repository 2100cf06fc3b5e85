"""What convinces in noise: short laws with usual powers, and longer ones that need all their terms."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from problems import LOGISTIC, PISTON, bouncing, growth

from odediscovery import simulate_system
from odediscovery.data.series import TimeSeries
from odediscovery.families import Function
from odediscovery.laws.power_sum import Features, PowerSum
from odediscovery.problem.prepare import prepare
from odediscovery.runtime.monitor import Monitor
from odediscovery.search import convincing
from odediscovery.search.convincing import (
    CONVINCING_LAW,
    has_odd_powers,
    in_doubt,
    is_convincing,
    is_rounding,
    is_unrivalled,
    leaves_noise_alone,
    likeliest,
    may_be_it,
    may_be_long,
)
from odediscovery.search.rungs import Climb
from odediscovery.settings import settings_for
from odediscovery.stages.values import Candidate

TIMES = np.linspace(0.0, 20.0, 80)


def climb_with(law: PowerSum, mean_square: float = 1.0) -> Climb:
    """A climb whose best law is this one, on noisy logistic growth."""
    p = prepare(growth(TIMES, 0.02))
    own = law.rescaled(p.scale.state, p.scale.time)
    at = Climb(p, settings_for(), Monitor())
    at.candidates = [Candidate(own, p.initial, mean_square, 0, np.array([True]))]
    return at


def test_nothing_convinces_of_no_law() -> None:
    at = climb_with(LOGISTIC)
    at.candidates = []
    assert not is_convincing(at) and not leaves_noise_alone(at) and has_odd_powers(at)


def test_the_true_law_convinces() -> None:
    at = climb_with(LOGISTIC)
    assert is_convincing(at) and leaves_noise_alone(at) and not has_odd_powers(at)


def test_a_law_that_leaves_more_than_noise_does_not() -> None:
    assert not is_convincing(climb_with(LOGISTIC, 50.0))


def test_a_short_law_that_leaves_noise_of_windows_alone_does_not() -> None:
    decay = PowerSum(np.array([[0.1, -0.1]]), np.array([[0.0], [1.0]]))
    assert not is_convincing(climb_with(decay, 1.0))


@pytest.mark.parametrize(("noise", "simple"), [(1e-5, True), (0.02, False)])
def test_in_little_noise_a_fit_closer_than_noise_earns_little(noise: float, simple: bool) -> None:
    p = prepare(growth(TIMES, noise))
    at, short = Climb(p, settings_for(), Monitor()), LOGISTIC.rescaled(p.scale.state, p.scale.time)
    long = PowerSum(np.array([[0.5, -0.5, 1e-8]]), np.array([[1.0], [2.0], [7.0]]))
    pairs = ((short, 0.2), (long, 0.1))
    at.candidates = [Candidate(law, p.initial, left, 0, np.array([True])) for law, left in pairs]
    assert (likeliest(at).law is short) is simple


@pytest.mark.parametrize("power", [1.0, 1.5])
def test_a_power_is_odd_where_the_data_tell_it_from_simple_ones(power: float) -> None:
    assert not has_odd_powers(climb_with(PowerSum(np.array([[0.5, -0.5]]), np.array([[power], [2.0]]))))


def test_powers_that_the_data_do_not_tell_are_odd() -> None:
    # Two terms that cancel: their powers could be anything.
    assert has_odd_powers(climb_with(PowerSum(np.array([[50.0, -50.0]]), np.array([[1.30], [1.31]]))))


def test_functions_of_amounts_are_odd() -> None:
    sine = PowerSum(np.array([[0.5]]), np.array([[0.0, 1.0]]), Features(1, (Function("sin", 0),)))
    assert has_odd_powers(climb_with(sine))


def test_first_terms_of_a_sine_are_odd_where_noise_hides_the_others() -> None:
    t = np.linspace(0.0, 12.0, 80)
    swing = TimeSeries.from_arrays(t, np.column_stack([np.sin(t), np.cos(t)]), ["q", "v"])
    cubic = PowerSum(np.array([[0.0, 0.0, 1.0], [-1.0, 0.16, 0.0]]), np.array([[1.0, 0.0], [3.0, 0.0], [0.0, 1.0]]))
    mixed = PowerSum(cubic.coefficients, np.array([[1.0, 0.0], [2.0, 1.0], [0.0, 1.0]]))
    for noise, law, odd in ((0.02, cubic, True), (0.02, mixed, False), (0.001, cubic, False)):
        p = dataclasses.replace(prepare(swing), noise=np.array([noise, noise]))
        at = Climb(p, settings_for(), Monitor())
        at.candidates = [Candidate(law, p.initial, 1.0, 0, np.array([True, True]))]
        assert has_odd_powers(at) is odd


def test_a_law_stands_once_nothing_along_its_trajectory_does_as_well() -> None:
    # Noise may be underestimated: a short law that leaves a little more than it is not convincing at once.
    at = climb_with(LOGISTIC, 2.0)
    best = at.candidates[0]
    assert may_be_it(at) and not is_unrivalled(at)
    at.unrivalled = best
    assert is_unrivalled(at)
    assert not may_be_it(climb_with(LOGISTIC, 50.0))
    # Unless a law of another kind is about as good.
    a, w, *_ = best.law.constants
    sine = PowerSum(a, np.hstack([w, [[0.0], [1.0]]]), Features(1, (Function("sin", 0),)))
    at.candidates.append(Candidate(sine, best.initial, 2.05, 0, np.array([True, True])))
    assert not is_unrivalled(at)
    at.candidates[1] = dataclasses.replace(at.candidates[1], mean_square=4.0)
    assert is_unrivalled(at)


def test_a_long_polynomial_may_be_it_only_where_there_are_many_values(monkeypatch: pytest.MonkeyPatch) -> None:
    powers = np.arange(1.0, 7.0)[:, None]
    at = climb_with(PowerSum(np.array([[0.5, -0.3, 0.1, -0.01, 1e-3, -1e-4]]), powers))
    at.candidates = [dataclasses.replace(at.candidates[0], whole=np.array([True]))]
    assert not may_be_it(at) and not may_be_long(at)
    monkeypatch.setattr(convincing, "CONVINCING_LAW", dataclasses.replace(CONVINCING_LAW, large=at.problem.samples))
    assert may_be_long(at) and not may_be_it(at)
    at.candidates = [dataclasses.replace(at.candidates[0], mean_square=50.0)]
    assert not may_be_long(at)
    # Its terms stand for the logistic ones: none of them is needed.
    at.candidates = [dataclasses.replace(at.candidates[0], mean_square=1.0)]
    at.unrivalled = at.candidates[0]
    assert not is_unrivalled(at)


def test_residuals_within_half_a_digit_are_rounding_and_normal_ones_of_the_same_size_are_not() -> None:
    exact = growth(TIMES, 0.0)
    run = exact.trajectories[0]
    rounded = dataclasses.replace(exact, trajectories=(dataclasses.replace(run, values=np.round(run.values, 2)),))
    p = prepare(rounded)
    left = [run.values / p.scale.state - p.data.trajectories[0].values]
    assert is_rounding(p, left)
    normal = np.random.default_rng(1).normal(0.0, 1.0, run.values.shape) * p.noise * p.relative_sigma[0]
    assert not is_rounding(p, [normal])
    few = dataclasses.replace(p, relative_sigma=(p.relative_sigma[0][:20],))
    assert not is_rounding(few, [left[0][:20]])


def test_a_law_that_leaves_small_noise_alone_is_beyond_doubt() -> None:
    # Noise of 1e-6 cannot be estimated beside so much curvature: a law tells it.
    for noise in (0.0, 1e-6):
        p = prepare(bouncing(noise))
        at = Climb(p, settings_for(), Monitor())
        a, w = PISTON.coefficients, PISTON.exponents
        # As pruning leaves it, nearly right.
        near = PowerSum(a * (1.0 + 2e-6), np.where(w == -1.3, -1.30001, w)).rescaled(p.scale.state, p.scale.time)
        assert not in_doubt(at, near).any()
        curved = PowerSum(a, np.where(w == -1.3, -1.31, w)).rescaled(p.scale.state, p.scale.time)
        other = PowerSum(np.hstack([curved.coefficients, [[0.0], [0.01]]]), np.vstack([curved.exponents, [[1.0, 0.0]]]))
        assert in_doubt(at, PowerSum(other.coefficients, np.round(other.exponents)))[1]


def test_an_unusual_power_is_not_odd_where_the_law_leaves_next_to_no_noise() -> None:
    # As if curvature were taken for even more noise.
    p = prepare(bouncing(1e-6))
    p = dataclasses.replace(p, noise=3.0 * p.noise)
    at = Climb(p, settings_for(), Monitor())
    law = PISTON.rescaled(p.scale.state, p.scale.time)
    at.candidates = [Candidate(law, p.initial, 1.0, 0, np.array([False, True]))]
    assert p.noisiness > CONVINCING_LAW.telling
    assert not has_odd_powers(at)


def test_many_whole_powers_of_an_amount_may_be_a_real_one_until_real_ones_were_grown() -> None:
    at = climb_with(PowerSum(np.array([[0.1, 0.3, -0.3, -0.1]]), np.arange(4.0)[:, None]))
    assert has_odd_powers(at)
    at.reference = LOGISTIC
    assert not has_odd_powers(at)
    # Three are what laws of nature have: growth with an Allee effect.
    at = climb_with(PowerSum(np.array([[-0.1, 0.3, -0.2]]), np.array([[1.0], [2.0], [3.0]])))
    assert not has_odd_powers(at)


@pytest.mark.slow
def test_a_law_is_beyond_doubt_although_chaos_loses_whole_trajectories() -> None:
    p = prepare(simulate_system("lorenz", samples=1000, until=25.0)).without_noise(None)
    at = Climb(p, settings_for(), Monitor())
    w = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 1.0], [1.0, 1.0, 0.0]])
    lorenz = PowerSum(np.array([[-10.0, 10.0, 0, 0, 0], [28.0, -1.0, 0, -1.0, 0], [0, 0, -8.0 / 3.0, 0, 1.0]]), w)
    near = PowerSum(lorenz.coefficients * (1.0 + 1e-8), w).rescaled(p.scale.state, p.scale.time)
    assert not in_doubt(at, near).any()
