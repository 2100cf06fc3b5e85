"""Noise estimated before any law is known: its size, its shape, and whether it is there."""

from __future__ import annotations

import numpy as np
import pytest

from odediscovery import TimeSeries
from odediscovery.data.noise import estimate_noise, relative_noise, shows_noise

TIMES = np.linspace(0.0, 5.0, 120)
DECAY = 10.0 * np.exp(-TIMES)


def measured(sigma: float, grows: bool) -> TimeSeries:
    """Decay in noise that is the same everywhere, or a share of what is measured."""
    noise = np.random.default_rng(3).standard_normal(len(TIMES)) * sigma
    return TimeSeries.from_arrays(TIMES, DECAY + noise * (DECAY if grows else 1.0))


@pytest.mark.parametrize("sigma", [1e-6, 1e-5, 1e-4, 1e-3])
def test_noise_that_grows_with_a_state_is_told_however_small(sigma: float) -> None:
    series = measured(sigma, grows=True)
    (relative,) = relative_noise(series)
    assert relative[0, 0] > 20.0 * relative[-1, 0]
    whole = sigma * np.sqrt(np.mean(DECAY**2))
    assert 0.6 * whole < estimate_noise(series, [relative])[0] < 1.5 * whole
    assert shows_noise(series).all()


def test_curvature_is_no_noise() -> None:
    assert not shows_noise(TimeSeries.from_arrays(TIMES, DECAY)).any()
    assert not shows_noise(TimeSeries.from_arrays(TIMES, np.zeros(len(TIMES)))).any()
    assert shows_noise(measured(1e-5, grows=False)).all()


def test_no_state_is_estimated_twice_nor_where_nobody_asks() -> None:
    t, draw = np.linspace(0.0, 10.0, 60), np.random.default_rng(0)
    values = np.exp(-np.outer(t, [0.2, 0.5, 0.9])) + 0.05 * draw.standard_normal((60, 3))
    series = TimeSeries.from_arrays(t, values)
    whole, ones = estimate_noise(series), [np.ones((60, 3))]
    other = [np.where([False, True, False], 1.0 + t[:, None], 1.0)]
    afresh = estimate_noise(series, other)
    told = np.array([7.0, 8.0, np.nan])
    assert estimate_noise(series, other, earlier=[(ones, told)]).tolist() == [7.0, afresh[1], whole[2]]
    asked = estimate_noise(series, other, np.array([False, True, False]))
    np.testing.assert_array_equal(asked, [np.nan, afresh[1], np.nan])
