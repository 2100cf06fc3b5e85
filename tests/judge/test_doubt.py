"""Which laws are doubted: by what they leave, and by how they look."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from problems import LOGISTIC, growth, series_of
from scipy.integrate import solve_ivp

from odediscovery import TimeSeries
from odediscovery.judge.doubt import (
    DOUBT,
    constant_errors,
    doubtful,
    interval_squares,
    is_explained,
    is_short,
    is_within_noise,
    leaves_noise,
    needs_every_term,
)
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.prepare import prepare
from odediscovery.problem.problem import Problem
from odediscovery.stages.polish.polish import polish
from odediscovery.stages.values import STAGES, Candidate, Polished

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


def test_a_law_is_doubted_by_its_looks_even_where_it_fits() -> None:
    p, law = posed(0.0)
    assert not doubtful(law, p).any()
    nearly = PowerSum(law.coefficients, np.array([[1.0], [2.001]]))
    assert doubtful(nearly, p).all()
    # The same law, with two large terms that cancel.
    many = PowerSum(np.array([[*law.coefficients[0], 900.0, -900.0]]), np.array([[1.0], [2.0], [0.5], [0.5]]))
    assert doubtful(many, p).all()


def test_a_law_is_short_up_to_three_terms_an_equation() -> None:
    law = PowerSum(np.ones((1, DOUBT.terms)), np.arange(1.0, DOUBT.terms + 1)[:, None])
    assert is_short(law)
    assert not is_short(PowerSum(np.ones((1, DOUBT.terms + 1)), np.arange(1.0, DOUBT.terms + 2)[:, None]))


AMOUNT = np.array([True])


def test_a_long_law_needs_its_terms_where_each_is_ten_errors_from_zero() -> None:
    p, _ = posed(0.02)
    law = PowerSum(np.array([[0.5, -0.5, 0.1, 0.2]]), np.arange(4.0)[:, None])

    def found(law: PowerSum, errors: float) -> Polished:
        polished = polish(law, p.data, p.initial, p.noise, floor=p.floor, nonnegative=p.nonnegative, most=0)
        own = polished.errors.with_constants(np.full(law.coefficients.shape, errors), *polished.errors.constants[1:])
        return dataclasses.replace(polished, law=law, errors=own)

    assert needs_every_term(found(law, 0.009), AMOUNT)
    assert not needs_every_term(found(law, 0.011), AMOUNT)
    assert not needs_every_term(found(PowerSum(law.coefficients, law.exponents + 0.1), 1e-6), AMOUNT)
    # x, x^3, x^5, ... may be the series of a sine.
    assert not needs_every_term(found(PowerSum(law.coefficients, 2.0 * law.exponents + 1.0), 1e-6), AMOUNT)
    # Many terms may stand for one real power, where a state has one.
    many = PowerSum(np.ones((1, 6)), np.array([[0.0], [1.0], [2.0], [3.0], [1.0], [2.0]]))
    assert not needs_every_term(found(many, 1e-6), AMOUNT) and needs_every_term(found(many, 1e-6), ~AMOUNT)


def test_what_a_law_leaves_of_noisy_data_is_noise_or_not() -> None:
    p, law = posed(0.02)
    assert leaves_noise(p, candidate(p, law))
    wrong = PowerSum(np.array([[0.05]]), np.array([[1.0]]))
    assert not leaves_noise(p, candidate(p, wrong, 50.0))
    # Twice the noise may be noise that was underestimated, if it has no memory: a wrong law's has.
    assert is_within_noise(p, candidate(p, wrong, 2.0))
    assert not leaves_noise(p, candidate(p, wrong, 2.0))


@pytest.mark.parametrize("sigma", [1e-6, 1e-5, 1e-4])
def test_what_noise_of_both_ends_explains_is_no_doubt(sigma: float) -> None:
    p, law = posed(sigma)
    assert interval_squares(law, p)[0] > 0.0 and is_explained(law, p).all() and not doubtful(law, p).any()
    # Off by much more than the noise, always to the same side.
    off = PowerSum(law.coefficients * (1.0 + 300.0 * sigma), law.exponents)
    assert not is_explained(off, p).any()


def test_errors_of_constants_are_as_large_as_noise_makes_them() -> None:
    p, law = posed(1e-4)
    of_a, of_w = constant_errors(law, p)
    assert of_a.shape == law.coefficients.shape and (of_a > 0).all() and (of_w > 0).all()
    # Ten times the noise, ten times the error.
    more, _ = constant_errors(law, posed(1e-3)[0])
    np.testing.assert_allclose(more / of_a, posed(1e-3)[0].noise[0] / p.noise[0], rtol=0.3)


def test_many_terms_are_no_doubt_where_each_is_needed() -> None:
    x = np.linspace(0.0, 6.0, 100)
    law = PowerSum(np.array([[1.0, -1.0, 0.5, -0.3]]), np.array([[0.0], [1.0], [2.0], [3.0]]))
    p = prepare(series_of_law(law, x))
    true = law.rescaled(p.scale.state, p.scale.time)
    assert is_explained(true, p).all() and not doubtful(true, p).any()
    # A fifth term that the data could spare.
    spare = PowerSum(np.append(true.coefficients, [[1e-7]], axis=1), np.append(true.exponents, [[5.0]], axis=0))
    assert is_explained(spare, p).all() and doubtful(spare, p).all()


def series_of_law(law: PowerSum, t: np.ndarray) -> TimeSeries:
    runs = [solve_ivp(lambda _, y: law.rhs(y), (t[0], t[-1]), [y0], t_eval=t, rtol=1e-11, atol=1e-13) for y0 in (-1, 3)]
    return TimeSeries.from_arrays([t, t], [run.y.T for run in runs])


@pytest.mark.slow
def test_small_terms_are_needed_where_products_of_two_states_leave_nothing() -> None:
    # y has five terms, of which 0.0005 y is hardly anything: far more than such a law leaves, far less than a series.
    w = np.array([[1.0, 0.0], [0.0, 1.0], [2.0, 0.0], [1.0, 1.0], [0.0, 2.0]])
    law = PowerSum(np.array([[0.0, 1.0, 0.0, 0.0, 0.0], [-1.0, -0.0005, -0.4, 0.1, -0.05]]), w)
    times = np.linspace(0.0, 20.0, 120)
    p = prepare(series_of(law, np.array([[0.5, 0.0], [-0.7, 0.4]]), [times, times])).without_noise(None)
    assert not doubtful(law.rescaled(p.scale.state, p.scale.time), p).any()
    # As little of a power that a series may have is believed where the law of the inner samples holds for the others.
    cubic = PowerSum(law.coefficients, np.where(w == 2.0, 3.0, w))
    q = prepare(series_of(cubic, np.array([[0.5, 0.0], [-0.7, 0.4]]), [times, times])).without_noise(None)
    assert not doubtful(cubic.rescaled(q.scale.state, q.scale.time), q).any()
    # The first terms of a sine do not.
    runs = [
        solve_ivp(lambda _, x: [x[1], -np.sin(x[0])], (0.0, 20.0), start, t_eval=times, rtol=1e-11, atol=1e-13)
        for start in ([0.5, 0.15], [0.35, 0.15])
    ]
    s = prepare(TimeSeries.from_arrays([times, times], [run.y.T for run in runs])).without_noise(None)
    powers = np.array([[0.0, 1.0], [1.0, 0.0], [3.0, 0.0], [5.0, 0.0], [7.0, 0.0]])
    series = np.array([[1.0, 0.0, 0.0, 0.0, 0.0], [0.0, -1.0, 1 / 6, -1 / 120, 1 / 5040]])
    assert doubtful(PowerSum(series, powers).rescaled(s.scale.state, s.scale.time), s).tolist() == [False, True]
