"""Noise estimated before any law is known, digits that explain it, and smoothing that takes it away."""

import numpy as np
import pytest
from scipy.interpolate import make_smoothing_spline

from odediscovery import TimeSeries, simulate_system
from odediscovery.data.noise import PENALTIES, estimate_noise, relative_noise, shows_noise, smooth, smoothing_spline
from odediscovery.data.signals import resolution
from odediscovery.problem.problem import prepare

SIGNALS = {
    "straight": lambda t: 2.0 - 0.3 * t,
    "decay": lambda t: 5.0 * np.exp(-0.4 * t),
    "waves": lambda t: 3.0 * np.sin(1.5 * t),
    "growth": lambda t: 10.0 / (1.0 + 50.0 * np.exp(-t)),
    "peak": lambda t: 8.0 * t * np.exp(-0.7 * t),
}
EVEN = np.linspace(0.0, 10.0, 200)
IRREGULAR = np.sort(np.random.default_rng(3).uniform(0.0, 10.0, 200))


def noisy(signal, t, sigma, seed=0):
    noise = sigma * np.random.default_rng(seed).standard_normal(len(t))
    return TimeSeries.from_arrays(t, signal(t) + noise)


@pytest.mark.parametrize("name", SIGNALS)
@pytest.mark.parametrize("times", [EVEN, IRREGULAR], ids=["even", "irregular"])
@pytest.mark.parametrize("sigma", [0.5, 0.02])
def test_the_noise_is_found_within_a_quarter(name, times, sigma):
    found = [estimate_noise(noisy(SIGNALS[name], times, sigma, seed))[0] for seed in range(4)]
    assert np.mean(found) == pytest.approx(sigma, rel=0.25)


def test_a_polynomial_without_noise_has_none():
    for t in (EVEN, IRREGULAR):
        cubic = TimeSeries.from_arrays(t, 1.0 + t - 0.3 * t**2 + 0.02 * t**3)
        assert estimate_noise(cubic)[0] < 1e-12


def test_a_few_outliers_are_no_noise():
    values = np.sin(EVEN) + 0.01 * np.random.default_rng(4).standard_normal(200)
    values[[40, 120]] += 5.0
    assert estimate_noise(TimeSeries.from_arrays(EVEN, values))[0] < 0.02


def smoothed(series, nonnegative=False):
    flags = np.array([nonnegative] * series.n_states)
    return smooth(series, estimate_noise(series), flags).trajectories[0].values


def test_gaps_are_filled_in_clean_and_in_noisy_data():
    clean = 2.0 + 0.5 * EVEN
    for sigma in (0.0, 0.2):
        values = clean + sigma * np.random.default_rng(5).standard_normal(200)
        values[[0, 50, 51, 199]] = np.nan
        filled = smoothed(TimeSeries.from_arrays(EVEN, values))[:, 0]
        assert np.isfinite(filled).all()
        assert np.max(np.abs(filled - clean)[1:-1]) < max(0.7 * sigma, 1e-12)


def test_it_is_the_smoothing_spline_of_scipy():
    count, rng = 60, np.random.default_rng(5)
    t = np.cumsum(rng.uniform(0.2, 1.8, count))
    y, weights = np.sin(0.1 * t) + 0.2 * rng.standard_normal(count), rng.uniform(0.3, 3.0, count)
    (found, _), fine = smoothing_spline(t, y, weights), np.linspace(t[0], t[-1], 1000)
    unit = float(np.diff(t).mean()) ** 3
    others = (make_smoothing_spline(t, y, weights, lam=penalty * unit) for penalty in PENALTIES)
    assert min(np.abs(found(fine) - other(fine)).max() for other in others) < 1e-9


def test_trajectories_may_have_noise_of_their_own_size():
    random = np.random.default_rng(0)
    values = [np.sin(EVEN) + s * random.standard_normal(200) for s in (0.02, 0.2)]
    seen = TimeSeries.from_arrays([EVEN, EVEN], values)
    relative_sigma = relative_noise(seen)
    assert all(np.ptp(s) == 0.0 for s in relative_sigma)
    found = estimate_noise(seen, relative_sigma)[0] * np.array([s[0, 0] for s in relative_sigma])
    np.testing.assert_allclose(found, [0.02, 0.2], rtol=0.25)


def test_an_absent_species_tells_nothing_of_the_noise_of_others():
    random = np.random.default_rng(5)
    grown = [50.0 / (1.0 + 20.0 * np.exp(-0.5 * EVEN)) for _ in range(2)]
    noisy = [y + random.normal(0.0, 2.0, len(EVEN)) for y in grown]
    alone = TimeSeries.from_arrays([EVEN, EVEN], noisy, ["x"])
    absent = TimeSeries.from_arrays([EVEN, EVEN, EVEN], [*noisy, np.zeros(len(EVEN))], ["x"])
    relative_sigma = relative_noise(absent)
    assert [set(sigma[:, 0]) for sigma in relative_sigma] == [{1.0}, {1.0}, {0.0}]
    assert estimate_noise(absent, relative_sigma) == pytest.approx(estimate_noise(alone))
    assert estimate_noise(absent) == pytest.approx(estimate_noise(alone))
    assert estimate_noise(alone)[0] == pytest.approx(2.0, rel=0.3)
    # A gap says nothing either.
    noisy[0][:3] = np.nan
    gaps = TimeSeries.from_arrays([EVEN, EVEN, EVEN], [*noisy, np.full(len(EVEN), 7.0)], ["x"])
    assert all((each == 1.0).all() for each in relative_noise(gaps))


TIMES = np.linspace(0.0, 5.0, 120)
DECAY = 10.0 * np.exp(-TIMES)


def measured(sigma, grows):
    """Decay in noise that is the same everywhere, or a share of what is measured."""
    noise = np.random.default_rng(3).standard_normal(len(TIMES)) * sigma
    return TimeSeries.from_arrays(TIMES, DECAY + noise * (DECAY if grows else 1.0))


@pytest.mark.parametrize("sigma", [1e-6, 1e-5, 1e-4, 1e-3])
def test_noise_that_grows_with_a_state_is_told_however_small(sigma):
    series = measured(sigma, grows=True)
    (relative,) = relative_noise(series)
    assert relative[0, 0] > 20.0 * relative[-1, 0]
    whole = sigma * np.sqrt(np.mean(DECAY**2))
    assert 0.6 * whole < estimate_noise(series, [relative])[0] < 1.5 * whole
    assert shows_noise(series).all()


def test_curvature_is_no_noise():
    assert not shows_noise(TimeSeries.from_arrays(TIMES, DECAY)).any()
    assert not shows_noise(TimeSeries.from_arrays(TIMES, np.zeros(len(TIMES)))).any()
    assert shows_noise(measured(1e-5, grows=False)).all()


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([3.25, 4.1], 0.01),
        ([1200.0, 500.0], 100.0),
        ([1.0, 2.0, 10.0], 1.0),
        ([0.001, 2.0], 0.001),
        ([np.nan, 0.5], 0.1),
        ([0.0, 0.0], 1e6),
        ([np.pi, np.e], 0.0),
    ],
)
def test_the_last_digit_written(values, expected):
    found = resolution(np.array(values))
    assert found == pytest.approx(expected, rel=1e-12) if expected else found < 1e-13


def test_digits_explain_what_samples_are_off_and_say_how_far_each_one_is():
    (run,) = simulate_system("fsir").trajectories
    written = np.vectorize(lambda x: float(f"{x:.4g}"))(run.values)
    p = prepare(TimeSeries.from_arrays(run.time, written))
    exact = run.values / p.scale.state
    off = (p.data.trajectories[0].values - exact) / (p.noise * p.relative_sigma[0])
    # Uniform within half a digit: never beyond the square root of three of its standard deviations.
    assert np.abs(off).max() < np.sqrt(3.0) * 1.001
    assert np.all(np.sqrt(np.mean(off**2, axis=0)) > 0.3)
    noise = p.relative_sigma[0][:, 0]
    assert noise[0] > 9.0 * noise[1]  # 100.0 beside 97.47
