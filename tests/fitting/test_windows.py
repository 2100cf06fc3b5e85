"""Windows: what is cut, what weighs nothing, the residuals' Jacobians, and the loss of training."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from problems import (
    LOGISTIC,
    PREY,
    STARTS,
    chain_of_law,
    field_of,
    numeric_jacobian,
    random_chain,
    random_field,
    series_of,
)

from odediscovery.data.series import TimeSeries, Trajectory
from odediscovery.fitting.training import TrainingWindows
from odediscovery.fitting.windows import LongResiduals, ShortResiduals, Windows, cut
from odediscovery.solve.grids import GRIDS

EVEN = np.linspace(0.0, 6.0, 13)
# Shorter than EVEN and irregular.
UNEVEN = np.array([0.0, 0.3, 1.1, 1.5, 2.6, 3.0])
ONES = np.ones(2)


def with_gaps(series: TimeSeries, *gaps: tuple[int, int, int]) -> TimeSeries:
    """The series without the values at (trajectory, sample, state)."""
    values = [t.values.copy() for t in series.trajectories]
    for i, j, k in gaps:
        values[i][j, k] = np.nan
    runs = [Trajectory(t.time, v, t.label) for t, v in zip(series.trajectories, values, strict=True)]
    return TimeSeries(series.states, tuple(runs))


BOTH = series_of(PREY, STARTS, [EVEN, UNEVEN])


def finest(windows: Windows) -> Windows:
    return dataclasses.replace(windows, grid=np.full_like(windows.grid, len(GRIDS) - 1))


@pytest.mark.parametrize(("length", "expected"), [(3, (6, 3)), (None, (2, 12))])
def test_windows_follow_one_another(length: int | None, expected: tuple[int, int]) -> None:
    windows = cut(BOTH, BOTH, ONES, length)
    assert windows.size == (*expected, 2)
    assert windows.heads.tolist() == [0, -(-12 // expected[1])]
    # Every interval of both trajectories is in exactly one window.
    intervals = np.concatenate([np.diff(EVEN), np.diff(UNEVEN)])
    used = windows.duration[windows.duration > 0]
    np.testing.assert_allclose(used, intervals, rtol=1e-15)
    assert int((windows.weight[..., 0] > 0).sum()) == len(intervals)


def test_missing_values_weigh_nothing() -> None:
    gaps = with_gaps(BOTH, (0, 3, 0), (1, 5, 1))
    windows = cut(gaps, BOTH, ONES, 1)
    assert int((windows.weight == 0).sum()) == 2
    assert windows.weight[2, 0].tolist() == [0.0, 1.0]
    assert windows.weight[-1, 0].tolist() == [1.0, 0.0]
    assert bool(np.isfinite(windows.target).all())
    chain = random_chain()
    left = ShortResiduals(windows, chain).residuals(chain.theta)
    other = dataclasses.replace(windows, target=np.where(windows.weight == 0, 99.0, windows.target))
    np.testing.assert_array_equal(left, ShortResiduals(other, chain).residuals(chain.theta))


@pytest.mark.parametrize("length", [1, None])
def test_the_truth_leaves_nothing(length: int | None) -> None:
    windows = finest(cut(BOTH, BOTH, ONES, length))
    chain = chain_of_law(PREY, members=2)
    theta = chain.theta.copy()
    theta[1, chain.places()[0][1].start] *= 1.1
    left = (windows.predict(chain, theta) - windows.target) * windows.weight
    assert left.shape == (2, *windows.size)
    assert np.mean(left[0] ** 2) < 1e-12 and np.mean(left[1] ** 2) > 1e-6


def test_refined_windows_are_as_accurate_as_asked() -> None:
    long = series_of(LOGISTIC, np.array([[0.02]]), [np.linspace(0.0, 20.0, 6)])
    windows = cut(long, long, np.ones(1), 1)
    chain = chain_of_law(LOGISTIC)
    fine = windows.refined(chain, chain.theta, 1e-6)
    error = np.abs(fine.predict(chain, chain.theta) - fine.target)
    assert bool((error < 2e-6).all())
    assert bool((windows.refined(chain, chain.theta, 0.1).grid <= fine.grid).all())
    assert bool((fine.grid > 0).any())


def test_short_residuals_and_their_jacobian() -> None:
    series = with_gaps(BOTH, (0, 3, 0), (1, 5, 1))
    chain = random_chain()
    problem = ShortResiduals(cut(series, BOTH, np.array([2.0, 3.0]), 1), chain)
    residual, jacobian = problem.linearised(chain.theta, np.ones_like(chain.theta, dtype=bool))
    np.testing.assert_allclose(residual, problem.residuals(chain.theta), rtol=1e-12, atol=1e-14)
    numeric = numeric_jacobian(problem.residuals, chain.theta, 1e-6)
    np.testing.assert_allclose(jacobian, numeric, rtol=1e-5, atol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("length", [3, None])
def test_long_residuals_and_their_jacobian(length: int | None) -> None:
    times = [EVEN, UNEVEN]
    series = with_gaps(series_of(PREY, STARTS, times, noise=0.05), (0, 3, 0), (0, 0, 1))
    clean = series_of(PREY, STARTS, times)
    chain = random_chain()
    problem = LongResiduals(finest(cut(series, clean, np.array([2.0, 3.0]), length)), chain, np.array([True, False]))
    unknowns = problem.pack(chain.theta)
    b, intervals, n = problem.windows.size
    assert problem.n_starts == b * n
    assert unknowns.shape == (2, chain.theta.shape[1] + b * n)
    residual, jacobian = problem.linearised(unknowns, np.ones_like(unknowns, dtype=bool))
    assert residual.shape == (2, b * (intervals + 1) * n)
    np.testing.assert_allclose(residual, problem.residuals(unknowns), rtol=1e-12, atol=1e-14)
    numeric = numeric_jacobian(problem.residuals, unknowns, 1e-6)
    np.testing.assert_allclose(jacobian, numeric, rtol=1e-4, atol=1e-6)


def test_a_start_at_zero_is_awake() -> None:
    series = series_of(PREY, np.array([[0.0, 0.8]]), [EVEN[:5]])
    chain = chain_of_law(PREY)
    nonnegative = np.array([True, True])
    problem = LongResiduals(cut(series, series, np.array([10.0, 10.0]), None), chain, nonnegative)
    start = problem.starts(problem.pack(chain.theta))[0, 0]
    assert start[0].item() == pytest.approx(0.01) and start[1].item() == pytest.approx(0.8)


@pytest.mark.parametrize("length", [1, None])
@pytest.mark.parametrize("gradients", ["closed-form", "odeint"])
def test_a_network_and_a_chain_predict_the_same(length: int | None, gradients: str) -> None:
    plain, chain, field = cut(BOTH, BOTH, np.ones(2), length), chain_of_law(PREY, 2), field_of(PREY, 2)
    windows = TrainingWindows.of(plain, gradients)
    found = windows.predict(field, field.theta)
    np.testing.assert_allclose(found, plain.predict(chain, chain.theta), rtol=1e-12)
    theta = field.theta.clone()
    theta[1, field.place(1, "weight").start] *= 1.1
    loss = windows.loss(field, theta)
    assert loss[0] < 1e-6 and loss[1] > 10.0 * loss[0]


def test_the_loss_is_the_mean_square_of_what_was_measured() -> None:
    plain = cut(BOTH, BOTH, np.array([2.0, 3.0]), 1)
    weight = plain.weight.copy()
    weight[3, 0, 0] = 0.0
    plain = dataclasses.replace(plain, weight=weight)
    windows = TrainingWindows.of(plain)
    field = random_field(members=1)
    residual = (windows.predict(field, field.theta)[0] - windows.target).numpy()
    seen = plain.weight > 0
    expected = np.mean((residual * [2.0, 3.0])[seen] ** 2)
    assert windows.loss(field, field.theta).item() == pytest.approx(expected, rel=1e-12)
