"""What convinces in noise: short laws with usual powers, and longer ones that need all their terms."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from problems import LOGISTIC, growth

from odediscovery.families import Function
from odediscovery.laws.power_sum import Features, PowerSum
from odediscovery.problem.prepare import prepare
from odediscovery.runtime.monitor import Monitor
from odediscovery.search.convincing import has_odd_powers, is_convincing, is_rounding, leaves_noise_alone
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


@pytest.mark.parametrize("power", [1.0, 1.5])
def test_a_power_is_odd_where_the_data_tell_it_from_simple_ones(power: float) -> None:
    assert not has_odd_powers(climb_with(PowerSum(np.array([[0.5, -0.5]]), np.array([[power], [2.0]]))))


def test_powers_that_the_data_do_not_tell_are_odd() -> None:
    # Two terms that cancel: their powers could be anything.
    assert has_odd_powers(climb_with(PowerSum(np.array([[50.0, -50.0]]), np.array([[1.30], [1.31]]))))


def test_functions_of_amounts_are_odd() -> None:
    sine = PowerSum(np.array([[0.5]]), np.array([[0.0, 1.0]]), Features(1, (Function("sin", 0),)))
    assert has_odd_powers(climb_with(sine))


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
