"""What is left of the data is told from noise."""

from __future__ import annotations

import numpy as np
import pytest

from odediscovery import Equations, TimeSeries, fit_constants
from odediscovery.judge.claim import autocorrelated, correlations, is_walk_as_good, runs, too_few_runs, walk_misfit
from odediscovery.judge.criterion import penalty
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.problem import prepare
from odediscovery.stages.polish import polish


def test_noise_has_as_many_runs_as_expected() -> None:
    random = np.random.default_rng(0)
    many = [random.standard_normal((60, 2)) for _ in range(200)]
    far = sum(bool(too_few_runs([r])) for r in many)
    assert far <= 1  # four standard deviations
    found, expected, spread = runs(many)
    np.testing.assert_allclose(found, expected, atol=4.0 * spread.max())


def test_runs_end_with_their_trajectory_and_gaps_are_none() -> None:
    column = np.array([1.0, 2.0, np.nan, 3.0, -1.0, 0.0, -2.0])[:, None]
    found, expected, _ = runs([column, column])
    assert found.tolist() == [4.0]
    assert expected[0] == pytest.approx(2 * (1 + 2 * 3 * 2 / 5))


def test_waves_are_no_noise_and_few_samples_tell_nothing() -> None:
    t = np.linspace(0.0, 20.0, 100)
    waves = np.stack([np.sin(t), np.random.default_rng(1).standard_normal(100)], axis=1)
    ((state, found, expected),) = too_few_runs([waves])
    assert state == 0 and found < 10 < 45 < expected
    assert too_few_runs([waves[:15]]) == []


def test_noise_has_no_memory_and_a_random_walk_has() -> None:
    random = np.random.default_rng(3)
    many = [random.standard_normal((60, 2)) for _ in range(200)]
    assert sum(bool(autocorrelated([r])) for r in many) <= 2  # four standard deviations
    r, pairs = correlations(many)
    np.testing.assert_allclose(r, 0.0, atol=4.0 / np.sqrt(pairs.max()))
    walk = np.cumsum(random.standard_normal((60, 1)), axis=0)
    ((state, found),) = autocorrelated([walk - walk.mean(axis=0)])
    assert state == 0 and found > 0.6
    gap = walk.copy()
    gap[::2] = np.nan
    assert correlations([gap])[1].tolist() == [0]


def test_a_walk_explains_walks_and_no_law() -> None:
    random, t = np.random.default_rng(6), np.arange(60.0)
    path = np.cumsum(random.standard_normal(60))
    grown = 10.0 / (1.0 + 9.0 * np.exp(-0.2 * t))
    noisy = grown + 0.5 * random.standard_normal(60)
    misfit = [float(walk_misfit(TimeSeries.from_arrays(t, x))[0]) for x in (path, noisy)]
    fits = [np.polynomial.Polynomial.fit(t, path, 3)(t) - path, grown - noisy]
    laws = [60 * np.log(np.mean(r**2)) for r in fits]
    assert misfit[0] < laws[0] - 20 and misfit[1] > laws[1] + 10


@pytest.mark.slow
def test_a_law_is_claimed_where_no_walk_does_as_well() -> None:
    random, t = np.random.default_rng(4), np.arange(60.0)
    grown = 10.0 / (1.0 + 9.0 * np.exp(-0.2 * t)) + 0.5 * random.standard_normal(60)
    wandered = 5.0 + np.cumsum(random.standard_normal(60))
    law = PowerSum(np.array([[0.2, -0.2]]), np.array([[1.0], [2.0]]))
    claimed = []
    for x in (grown, wandered):
        p = prepare(TimeSeries.from_arrays(t, x))
        found = polish(
            law,
            p.data,
            p.initial,
            np.maximum(p.noise, p.floor),
            floor=p.floor,
            nonnegative=p.nonnegative,
            relative_sigma=p.relative_sigma,
        )
        price = penalty(found.law, found.free, 60.0, 1)
        claimed.append(found.finite and not is_walk_as_good(p, found.squares, found.counts, price, 1))
    assert claimed == [True, False]


@pytest.mark.slow
def test_errors_are_wider_where_residuals_have_memory() -> None:
    random, t = np.random.default_rng(0), np.linspace(0.0, 10.0, 200)
    drift = np.convolve(random.standard_normal(239), np.full(40, 0.05))[39:239]
    law = Equations.parse(["x"], {"x": "-0.3*x"})
    exact, told = law.simulate([10.0], t), {}
    for name, noise in (("white", random.standard_normal(200)), ("drifting", drift)):
        series = TimeSeries.from_arrays(t, exact + 0.2 * noise[:, None] / noise.std(), ["x"])
        found = fit_constants(series, law, exponents=False)
        errors = found.equations.standard_errors
        assert errors is not None
        told[name] = float(np.nanmax(errors.coefficients)), found.messages
    assert told["drifting"][0] > 2.5 * told["white"][0]
    assert any("times as large" in m for m in told["drifting"][1])
    assert not any("times as large" in m for m in told["white"][1])
