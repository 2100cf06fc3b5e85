"""What rungs ask of a climb has the answer that its words promise."""

from __future__ import annotations

import numpy as np
import pytest

from odediscovery import settings_for, simulate_system
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.prepare import prepare
from odediscovery.problem.problem import Problem
from odediscovery.runtime.monitor import Monitor
from odediscovery.search import conditions
from odediscovery.search.candidates import as_grown
from odediscovery.search.conditions import CLEAN, EXACT_AND_PLAIN, NO_SERIES, NOISY, NONE_YET, SERIES, SETTLED_BY_A_LAW
from odediscovery.search.rungs import Climb, Condition

# theta'' = -7.75 theta + ...: the series of the sine that a pendulum on one orbit follows.
SERIES_OF_A_SINE = PowerSum(
    np.array([[1.0, 0.0, 0.0, 0.0, 0.0], [0.0, -7.7501228, 0.90793164, -0.074139463, -0.021357154]]),
    np.array([[0.0, 1.0], [1.0, 0.0], [3.0, 0.0], [1.0, 2.0], [5.0, 0.0]]),
)
LOTKA_VOLTERRA = PowerSum(
    np.array([[1.0, -0.1, 0.0], [0.0, 0.075, -1.5]]), np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
)


def climb_at(p: Problem, *laws: PowerSum) -> Climb:
    """A climb that found laws in the user's units."""
    scaled = [law.rescaled(p.scale.state, p.scale.time) for law in laws]
    return Climb(p, settings_for(), Monitor(), candidates=[as_grown(p, law) for law in scaled])


@pytest.fixture(scope="module")
def pendulum() -> Problem:
    return prepare(simulate_system("pendulum")).without_noise(None)


@pytest.fixture(scope="module")
def predators() -> Problem:
    return prepare(simulate_system("lotka-volterra")).without_noise(None)


def test_every_condition_says_what_it_asks() -> None:
    every = [value for value in vars(conditions).values() if isinstance(value, Condition)]
    assert len(every) > 20
    assert len({condition.says for condition in every}) == len(every)


def test_nothing_is_settled_before_there_is_a_law(predators: Problem) -> None:
    at = climb_at(predators)
    assert NONE_YET.holds(at) and CLEAN.holds(at) and not NOISY.holds(at)
    assert not SETTLED_BY_A_LAW.holds(at) and not SERIES.holds(at)


def test_the_law_of_exact_data_is_plain_and_no_series(predators: Problem) -> None:
    at = climb_at(predators, LOTKA_VOLTERRA)
    assert SETTLED_BY_A_LAW.holds(at) and EXACT_AND_PLAIN.holds(at) and NO_SERIES.holds(at)


def test_a_series_is_exact_and_plain_and_yet_a_series(pendulum: Problem) -> None:
    at = climb_at(pendulum, SERIES_OF_A_SINE)
    assert EXACT_AND_PLAIN.holds(at) and SERIES.holds(at) and not NO_SERIES.holds(at)


def test_a_wrong_law_settles_nothing(predators: Problem) -> None:
    wrong = PowerSum(LOTKA_VOLTERRA.coefficients * 1.1, LOTKA_VOLTERRA.exponents)
    assert not EXACT_AND_PLAIN.holds(climb_at(predators, wrong))
