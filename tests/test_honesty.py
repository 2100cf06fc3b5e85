"""What is left of the data is told from noise."""

from __future__ import annotations

import re

import numpy as np
import pytest

from odediscovery import Equations, TimeSeries, discover, settings_for
from odediscovery.honesty import alike, correlations, runs, structured


def test_noise_has_as_many_runs_as_expected() -> None:
    random = np.random.default_rng(0)
    many = [random.standard_normal((60, 2)) for _ in range(200)]
    far = sum(bool(structured([r])) for r in many)
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
    ((state, found, expected),) = structured([waves])
    assert state == 0 and found < 10 < 45 < expected
    assert structured([waves[:15]]) == []


def test_a_law_that_leaves_more_than_noise_says_so() -> None:
    t = np.linspace(0.0, 30.0, 120)
    noise = 0.05 * np.random.default_rng(2).standard_normal(120)
    # Driven from outside: no law of x alone can follow.
    driven = 2.0 + np.exp(-0.1 * t) + 0.5 * np.sin(1.7 * t) + 0.3 * np.sin(4.1 * t) + noise
    found = discover(TimeSeries.from_arrays(t, driven[:, None], ["x"]),
                     settings_for(members=2, max_seconds=20))  # fmt: skip
    assert any(m.startswith("what the equations leave of x is no noise") for m in found.messages)
    assert found.outcome in ("poor-fit", "stopped")


def test_noise_has_no_memory_and_a_random_walk_has() -> None:
    random = np.random.default_rng(3)
    many = [random.standard_normal((60, 2)) for _ in range(200)]
    assert sum(bool(alike([r])) for r in many) <= 2  # four standard deviations
    r, pairs = correlations(many)
    np.testing.assert_allclose(r, 0.0, atol=4.0 / np.sqrt(pairs.max()))
    walk = np.cumsum(random.standard_normal((60, 1)), axis=0)
    ((state, found),) = alike([walk - walk.mean(axis=0)])
    assert state == 0 and found > 0.6
    gap = walk.copy()
    gap[::2] = np.nan
    assert correlations([gap])[1].tolist() == [0]


def test_a_random_walk_is_no_law() -> None:
    claimed = 0
    for seed in range(4):
        walk = np.cumsum(np.random.default_rng(seed).standard_normal((60, 1)), axis=0)
        series = TimeSeries.from_arrays(np.arange(60.0), walk, ["x"])
        found = discover(series, settings_for(members=0))
        claimed += found.outcome == "converged"
    assert claimed <= 1


@pytest.mark.parametrize(("noise", "told"), [(0.15, False), (0.01, True)])
def test_discover_says_that_an_exponent_is_hardly_known(noise: float, told: bool) -> None:
    t = np.linspace(0.0, 1.5, 30)
    exact = Equations.parse(["v"], {"v": "10 - 0.05*v"}).simulate([0.5], t)
    seen = exact + noise * np.random.default_rng(0).standard_normal(exact.shape)
    known = settings_for(known=["v' = 10 + ?"], bounds="0..3", members=0)
    found = discover(TimeSeries.from_arrays(t, seen, ["v"]), known)
    notes = [m for m in found.messages if m.startswith("the exponent of v in the term v of v' is")]
    assert len(notes) == (not told)
    for note in notes:
        low, high = map(float, re.findall(r"-?[\d.]+", note))
        assert low < 1 < high and high - low > 1
