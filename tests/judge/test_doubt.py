"""Which laws are doubted: by what they leave, and by how they look."""

from __future__ import annotations

import numpy as np
import pytest
from problems import LOGISTIC, growth

from odediscovery.judge.doubt import doubtful, interval_squares, is_explained, is_within_noise, leaves_noise
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.prepare import prepare
from odediscovery.problem.problem import Problem
from odediscovery.stages.values import STAGES, Candidate

TIMES = np.linspace(0.0, 20.0, 80)


def posed(sigma: float) -> tuple[Problem, PowerSum]:
    """The logistic law's samples and the law itself, dimensionless."""
    p = prepare(growth(TIMES, sigma))
    return p, LOGISTIC.rescaled(p.scale.state, p.scale.time)


def candidate(p: Problem, law: PowerSum, mean_square: float = 1.0) -> Candidate:
    return Candidate(law, p.initial, mean_square, 0, np.array([True]))


def test_the_true_law_leaves_nothing_between_clean_samples_and_others_do() -> None:
    p, law = posed(0.0)
    assert interval_squares(law, p)[0] < STAGES.settled
    half = PowerSum(0.5 * law.coefficients, law.exponents)
    # Half of each increment is missing, and with it a quarter of its square.
    assert interval_squares(half, p)[0] == pytest.approx(0.25, rel=0.1)
    assert interval_squares(PowerSum(np.array([[1e3]]), np.array([[3.0]])), p)[0] == np.inf


def test_what_a_law_leaves_of_noisy_data_is_noise_or_not() -> None:
    p, law = posed(0.02)
    assert leaves_noise(p, candidate(p, law))
    wrong = PowerSum(np.array([[0.05]]), np.array([[1.0]]))
    assert not leaves_noise(p, candidate(p, wrong, 50.0))
    # Twice the noise may be noise that was underestimated, if it has no memory: a wrong law's has.
    assert is_within_noise(p, candidate(p, wrong, 2.0))
    assert not leaves_noise(p, candidate(p, wrong, 2.0))


@pytest.mark.parametrize("sigma", [1e-5])
def test_what_noise_of_both_ends_explains_is_no_doubt(sigma: float) -> None:
    p, law = posed(sigma)
    assert interval_squares(law, p)[0] > 0.0 and is_explained(law, p).all() and not doubtful(law, p).any()
    # Off by much more than the noise, always to the same side.
    off = PowerSum(law.coefficients * (1.0 + 300.0 * sigma), law.exponents)
    assert not is_explained(off, p).any()
