"""What data are like: signs against noise, resolution, states that never change."""

from __future__ import annotations

import numpy as np
import pytest

from odediscovery.data.samples import pooled
from odediscovery.data.series import TimeSeries
from odediscovery.errors import InputError
from odediscovery.problem.prepare import PREPARATION, prepare
from odediscovery.problem.problem import Problem
from odediscovery.problem.redundancy import redundant_states
from odediscovery.runtime.arrays import Array

T = np.linspace(0.0, 10.0, 101)


def prepared(*columns: Array, time: Array = T) -> Problem:
    return prepare(TimeSeries.from_arrays(time, np.stack(columns, axis=1)))


def noise(sigma: float, seed: int = 0) -> Array:
    return sigma * np.random.default_rng(seed).standard_normal(len(T))


def test_noise_around_zero_is_no_sign() -> None:
    fades = 5.0 * np.exp(-T) + noise(0.1)
    assert fades.min() < 0
    p = prepared(fades, np.sin(T) + noise(0.1, 1), np.sin(T), np.exp(-T))
    assert p.nonnegative.tolist() == [True, False, False, True]


def test_states_below_zero_throughout_are_mirrored() -> None:
    p = prepared(-np.exp(-T), np.sin(T), np.full(len(T), -2.0), -5.0 * np.exp(-T) + noise(0.1))
    assert p.nonnegative.tolist() == [True, False, True, True]
    assert (p.scale.state < 0).tolist() == [True, False, True, True] and not p.messages
    assert np.min(pooled(p.smooth)[:, [0, 2, 3]]) >= 0.0


@pytest.mark.parametrize("value", [0.0, -2e5])
def test_states_that_never_change_are_found(value: float) -> None:
    p = prepared(np.full(len(T), value), np.exp(-T))
    assert p.constant.tolist() == [True, False]


def test_the_floor_is_rounding_or_integration() -> None:
    rounded = np.round(50.0 * np.exp(-0.3 * T), 1)
    p = prepared(rounded, np.exp(-0.3 * T))
    assert p.floor[0] == pytest.approx(0.1 / np.sqrt(12.0) / p.scale.state[0])
    assert p.floor[1] == PREPARATION.integration_error * np.sqrt(len(T) / PREPARATION.independent)
    assert prepared(np.exp(-0.3 * T[:30]), time=T[:30]).floor[0] == PREPARATION.integration_error


def test_noise_that_grows_with_a_state_is_seen_where_most_samples_are_near_zero() -> None:
    t = np.linspace(0.0, 10.0, 80)
    x = 7.0 * np.exp(-1.5 * t) + 1e-3
    noisy = x * (1.0 + 0.05 * np.random.default_rng(0).standard_normal(len(t)))
    prepared = prepare(TimeSeries.from_arrays(t, noisy[:, None]))
    relative = prepared.noise * prepared.relative_sigma[0][:, 0] * prepared.scale.state / x
    assert relative[:10] == pytest.approx(0.05, rel=0.6)
    assert prepared.unexplained < 2.0
    without = prepare(TimeSeries.from_arrays(t, x[:, None]))
    assert without.clean and (without.relative_sigma[0] == 1.0).all()


@pytest.mark.parametrize("size", [1e200, 1e-200])
def test_numbers_that_cannot_be_multiplied_are_refused(size: float) -> None:
    values = size * np.exp(-np.arange(8.0))[:, None]
    with pytest.raises(InputError, match="change its unit"):
        prepare(TimeSeries.from_arrays(np.arange(8.0), values, ["x"]))


def epidemic(population: float, sigma: float) -> list[Array]:
    """S, I and R of a wave that a thousand catch, S told by the others."""
    removed = 1000.0 / (1.0 + np.exp(5.0 - T)) + noise(sigma)
    ill = 300.0 / np.cosh(0.5 * (T - 5.0)) ** 2 + noise(sigma, 1)
    return [population - ill - removed, ill, removed]


@pytest.mark.parametrize(("population", "sigma", "spared"), [(1e6, 5.0, True), (2000.0, 5.0, False), (1e6, 0.0, False)])
def test_a_state_that_others_tell_and_that_hardly_changes_is_redundant_in_noise(
    population: float, sigma: float, spared: bool
) -> None:
    p = prepared(*epidemic(population, sigma))
    assert redundant_states(p).tolist() == [spared, False, False]


def test_noise_is_small_against_changes_not_against_size() -> None:
    changes = 100.0 * np.sin(T) + noise(10.0)
    small, large = prepared(changes), prepared(1e8 + changes)
    for p in (small, large):
        smooth = pooled(p.smooth)[:, 0] * p.scale.state[0]
        off = smooth - smooth.mean() - (100.0 * np.sin(T) - 100.0 * np.sin(T).mean())
        assert np.sqrt(np.mean(off**2)) < 5.0
