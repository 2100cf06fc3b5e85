"""Noise is estimated without a model, and smoothing takes it away."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.interpolate import make_smoothing_spline

from odediscovery.data.noise import estimate_noise, relative_noise
from odediscovery.data.series import TimeSeries
from odediscovery.data.smoothing import PENALTIES, of_higher_order, smooth, smoothing_spline
from odediscovery.runtime.arrays import Array

SIGNALS: dict[str, Callable[[Array], Array]] = {
    "straight": lambda t: 2.0 - 0.3 * t,
    "decay": lambda t: 5.0 * np.exp(-0.4 * t),
    "waves": lambda t: 3.0 * np.sin(1.5 * t),
    "growth": lambda t: 10.0 / (1.0 + 50.0 * np.exp(-t)),
    "peak": lambda t: 8.0 * t * np.exp(-0.7 * t),
}
EVEN = np.linspace(0.0, 10.0, 200)
IRREGULAR = np.sort(np.random.default_rng(3).uniform(0.0, 10.0, 200))


def noisy(signal: Callable[[Array], Array], t: Array, sigma: float, seed: int = 0) -> TimeSeries:
    noise = sigma * np.random.default_rng(seed).standard_normal(len(t))
    return TimeSeries.from_arrays(t, signal(t) + noise)


@pytest.mark.parametrize("name", SIGNALS)
@pytest.mark.parametrize("times", [EVEN, IRREGULAR], ids=["even", "irregular"])
@pytest.mark.parametrize("sigma", [0.5, 0.02])
def test_the_noise_is_found_within_a_quarter(name: str, times: Array, sigma: float) -> None:
    found = [estimate_noise(noisy(SIGNALS[name], times, sigma, seed))[0] for seed in range(8)]
    assert np.mean(found) == pytest.approx(sigma, rel=0.25)


def test_a_polynomial_without_noise_has_none() -> None:
    for t in (EVEN, IRREGULAR):
        cubic = TimeSeries.from_arrays(t, 1.0 + t - 0.3 * t**2 + 0.02 * t**3)
        assert estimate_noise(cubic)[0] < 1e-12


def test_a_few_outliers_are_no_noise() -> None:
    values = np.sin(EVEN) + 0.01 * np.random.default_rng(4).standard_normal(200)
    values[[40, 120]] += 5.0
    assert estimate_noise(TimeSeries.from_arrays(EVEN, values))[0] < 0.02


def smoothed(series: TimeSeries, nonnegative: bool = False) -> Array:
    flags = np.array([nonnegative] * series.n_states)
    return smooth(series, estimate_noise(series), flags).trajectories[0].values


@pytest.mark.parametrize("name", ["decay", "waves", "growth"])
@pytest.mark.parametrize("times", [EVEN, IRREGULAR], ids=["even", "irregular"])
def test_smoothing_comes_nearer_to_the_truth(name: str, times: Array) -> None:
    sigma = 0.3
    series, truth = noisy(SIGNALS[name], times, sigma), SIGNALS[name](times)
    error = np.sqrt(np.mean((smoothed(series)[:, 0] - truth) ** 2))
    assert error < 0.5 * sigma


def test_gaps_are_filled_in_clean_and_in_noisy_data() -> None:
    clean = 2.0 + 0.5 * EVEN
    for sigma in (0.0, 0.2):
        values = clean + sigma * np.random.default_rng(5).standard_normal(200)
        values[[0, 50, 51, 199]] = np.nan
        filled = smoothed(TimeSeries.from_arrays(EVEN, values))[:, 0]
        assert np.isfinite(filled).all()
        assert np.max(np.abs(filled - clean)[1:-1]) < max(0.7 * sigma, 1e-12)


def test_nonnegative_states_are_bounded_at_zero() -> None:
    series = noisy(lambda t: np.exp(-2.0 * t), EVEN, 0.1)
    assert smoothed(series).min() < 0.0
    assert smoothed(series, nonnegative=True).min() == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("count", [700])
def test_a_slow_curve_is_smoothed_as_much_as_it_bears(count: int) -> None:
    t = np.linspace(0.0, 10.0, count)
    clean = np.exp(-0.2 * t)
    y = clean + 0.05 * np.random.default_rng(0).standard_normal(count)
    unit = t * (count - 1) / 10.0  # samples one apart, as discovery has them
    error = np.sqrt(np.mean((smoothing_spline(unit, y)(unit) - clean) ** 2))
    usual = np.sqrt(np.mean((make_smoothing_spline(unit, y)(unit) - clean) ** 2))
    assert error < 0.012 and error < 0.8 * usual


@pytest.mark.slow
@pytest.mark.parametrize("count", [60])
def test_it_is_the_smoothing_spline_of_scipy(count: int) -> None:
    rng = np.random.default_rng(5)
    t = np.cumsum(rng.uniform(0.2, 1.8, count))
    y, weights = np.sin(0.1 * t) + 0.2 * rng.standard_normal(count), rng.uniform(0.3, 3.0, count)
    found, fine = smoothing_spline(t, y, weights), np.linspace(t[0], t[-1], 1000)
    unit = float(np.diff(t).mean()) ** 3
    distances = [
        np.abs(found(fine) - make_smoothing_spline(t, y, weights, lam=penalty * unit)(fine)).max()
        for penalty in PENALTIES
    ]
    assert min(distances) < 1e-9


@pytest.mark.parametrize("gap", [1e-3, 1e-6, 1e-9])
@pytest.mark.parametrize("count", [800])
def test_times_that_nearly_coincide_are_smoothed_too(gap: float, count: int) -> None:
    rng = np.random.default_rng(0)
    t = np.cumsum(np.where(rng.uniform(size=count) < 0.3, gap, 1.0))
    clean = np.sin(0.1 * t)
    spline = smoothing_spline(t, clean + 0.1 * rng.standard_normal(count))
    other, between = of_higher_order(t, spline), (t[1:] + t[:-1]) / 2.0
    assert np.isfinite(spline(t)).all() and np.isfinite(other(between)).all()
    if gap > 1e-9:  # else differences are lost in rounding
        assert np.abs(spline(t) - clean).max() < 0.2
        assert np.abs(other(between) - spline(between)).max() < 0.1


def test_trajectories_may_have_noise_of_their_own_size() -> None:
    random = np.random.default_rng(0)
    values = [np.sin(EVEN) + s * random.standard_normal(200) for s in (0.02, 0.2)]
    seen = TimeSeries.from_arrays([EVEN, EVEN], values)
    relative_sigma = relative_noise(seen)
    assert all(np.ptp(s) == 0.0 for s in relative_sigma)
    found = estimate_noise(seen, relative_sigma)[0] * np.array([s[0, 0] for s in relative_sigma])
    np.testing.assert_allclose(found, [0.02, 0.2], rtol=0.25)


def test_an_absent_species_tells_nothing_of_the_noise_of_others() -> None:
    random = np.random.default_rng(5)
    grown = [50.0 / (1.0 + 20.0 * np.exp(-0.5 * EVEN)) for _ in range(2)]
    noisy = [y + random.normal(0.0, 2.0, len(EVEN)) for y in grown]
    alone = TimeSeries.from_arrays([EVEN, EVEN], noisy, ["x"])
    absent = TimeSeries.from_arrays([EVEN, EVEN, EVEN], [*noisy, np.zeros(len(EVEN))], ["x"])
    first, second, third = relative_noise(absent)
    assert (first == 1.0).all() and (second == 1.0).all() and (third == 0.0).all()
    relative_sigma = relative_noise(absent)
    assert estimate_noise(absent, relative_sigma) == pytest.approx(estimate_noise(alone))
    assert estimate_noise(absent) == pytest.approx(estimate_noise(alone))
    assert estimate_noise(alone)[0] == pytest.approx(2.0, rel=0.3)
    # A gap says nothing either.
    noisy[0][:3] = np.nan
    gaps = TimeSeries.from_arrays([EVEN, EVEN, EVEN], [*noisy, np.full(len(EVEN), 7.0)], ["x"])
    assert all((each == 1.0).all() for each in relative_noise(gaps))
