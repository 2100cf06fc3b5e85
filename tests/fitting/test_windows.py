"""Windows: what is cut, what weighs nothing, and the residuals' Jacobians."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from problems import LOGISTIC, PREY, STARTS, field_of, numeric_jacobian, random_field, series_of

from odediscovery.data.series import TimeSeries, Trajectory
from odediscovery.fitting.windows import LongResiduals, ShortResiduals, Windows, cut
from odediscovery.solve.fixed_step import GRIDS

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


def both() -> TimeSeries:
    return series_of(PREY, STARTS, [EVEN, UNEVEN])


def finest(windows: Windows) -> Windows:
    return Windows(**{**vars_of(windows), "grid": torch.full_like(windows.grid, len(GRIDS) - 1)})


def vars_of(windows: Windows) -> dict[str, object]:
    return {name: getattr(windows, name) for name in windows.__dataclass_fields__}


@pytest.mark.parametrize(
    ("length", "expected"), [(1, (17, 1)), (3, (6, 3)), (4, (5, 4)), (100, (2, 12)), (None, (2, 12))]
)
def test_windows_follow_one_another(length: int | None, expected: tuple[int, int]) -> None:
    windows = cut(both(), both(), ONES, length)
    assert windows.size == (*expected, 2)
    assert windows.heads.tolist() == [0, -(-12 // expected[1])]
    # Every interval of both trajectories is in exactly one window.
    intervals = np.concatenate([np.diff(EVEN), np.diff(UNEVEN)])
    used = windows.duration[windows.duration > 0]
    np.testing.assert_allclose(used, intervals, rtol=1e-15)
    assert int((windows.weight[..., 0] > 0).sum()) == len(intervals)


def test_what_follows_the_end_of_a_trajectory_weighs_nothing() -> None:
    windows = cut(both(), both(), ONES, None)
    assert bool((windows.duration[1, 5:] == 0).all())
    assert bool((windows.weight[1, 5:] == 0).all()) and bool((windows.target[1, 5:] == 0).all())
    assert bool((windows.weight[1, :5] == 1).all())
    np.testing.assert_array_equal(windows.start, STARTS)


def test_starts_are_the_smoothed_states_and_first_the_measured_ones() -> None:
    smooth = both()
    measured = with_gaps(series_of(PREY, STARTS, [EVEN, UNEVEN], noise=0.1), (0, 4, 1), (1, 0, 0))
    windows = cut(measured, smooth, np.array([2.0, 3.0]), 4)
    np.testing.assert_array_equal(windows.start[1], smooth.trajectories[0].values[4])
    assert windows.first[1, 0] == measured.trajectories[0].values[4, 0]
    assert windows.first_weight.tolist()[1] == [2.0, 0.0]
    assert windows.first_weight.tolist()[3] == [0.0, 3.0]
    assert bool(windows.first.isfinite().all())


def test_missing_values_weigh_nothing() -> None:
    gaps = with_gaps(both(), (0, 3, 0), (1, 5, 1))
    windows = cut(gaps, both(), ONES, 1)
    assert int((windows.weight == 0).sum()) == 2
    assert windows.weight[2, 0].tolist() == [0.0, 1.0]
    assert windows.weight[-1, 0].tolist() == [1.0, 0.0]
    assert bool(windows.target.isfinite().all())
    field = random_field()
    loss = windows.loss(field, field.theta)
    changed = windows.target.masked_fill(windows.weight == 0, 99.0)
    other = Windows(**{**vars_of(windows), "target": changed})
    assert torch.equal(loss, other.loss(field, field.theta))


@pytest.mark.parametrize("length", [1, 4, None])
def test_the_truth_has_no_loss(length: int | None) -> None:
    windows = finest(cut(both(), both(), ONES, length))
    field = field_of(PREY, members=2)
    assert windows.predict(field, field.theta).shape == (2, *windows.size)
    assert bool((windows.loss(field, field.theta) < 1e-12).all())
    wrong = field.theta.clone()
    wrong[1, field.place(1, "weight").start] *= 1.1
    loss = windows.loss(field, wrong)
    assert loss[0] < 1e-12 and loss[1] > 1e-6


def test_the_loss_is_the_mean_square_of_what_was_measured() -> None:
    series = with_gaps(both(), (0, 3, 0))
    windows = cut(series, both(), np.array([2.0, 3.0]), 1)
    field = random_field(members=1)
    residual = (windows.predict(field, field.theta)[0] - windows.target).numpy()
    seen = (windows.weight > 0).numpy()
    expected = np.mean((residual * [2.0, 3.0])[seen] ** 2)
    assert windows.loss(field, field.theta).item() == pytest.approx(expected, rel=1e-12)


def test_refined_windows_are_as_accurate_as_asked() -> None:
    long = series_of(LOGISTIC, np.array([[0.02]]), [np.linspace(0.0, 20.0, 6)])
    windows = cut(long, long, np.ones(1), 1)
    field = field_of(LOGISTIC)
    fine = windows.refined(field, field.theta, 1e-6)
    error = (fine.predict(field, field.theta) - fine.target).abs()
    assert bool((error < 2e-6).all())
    assert bool((windows.refined(field, field.theta, 0.1).grid <= fine.grid).all())
    assert bool((fine.grid > 0).any())


def test_short_residuals_and_their_jacobian() -> None:
    series = with_gaps(both(), (0, 3, 0), (1, 5, 1))
    field = random_field()
    problem = ShortResiduals(cut(series, both(), np.array([2.0, 3.0]), 1), field)
    residual, jacobian = problem.linearised(field.theta, torch.ones_like(field.theta, dtype=torch.bool))
    np.testing.assert_allclose(residual, problem.residuals(field.theta), rtol=1e-12, atol=1e-14)
    numeric = numeric_jacobian(problem.residuals, field.theta, 1e-6)
    np.testing.assert_allclose(jacobian, numeric, rtol=1e-5, atol=1e-7)
    count = (problem.windows.weight > 0).sum()
    np.testing.assert_allclose(
        residual.square().sum(dim=1) / count, problem.windows.loss(field, field.theta), rtol=1e-12
    )


@pytest.mark.slow
@pytest.mark.parametrize("runs", [1, 2])
@pytest.mark.parametrize("length", [3, None])
def test_long_residuals_and_their_jacobian(runs: int, length: int | None) -> None:
    times = [EVEN, UNEVEN][:runs] if runs == 2 else [EVEN]
    series = with_gaps(series_of(PREY, STARTS[:runs], times, noise=0.05), (0, 3, 0), (0, 0, 1))
    clean = series_of(PREY, STARTS[:runs], times)
    field = random_field()
    problem = LongResiduals(
        finest(cut(series, clean, np.array([2.0, 3.0]), length)), field, torch.tensor([True, False])
    )
    unknowns = problem.pack(field.theta)
    b, intervals, n = problem.windows.size
    assert problem.n_starts == b * n
    assert unknowns.shape == (2, field.theta.shape[1] + b * n)
    residual, jacobian = problem.linearised(unknowns, torch.ones_like(unknowns, dtype=torch.bool))
    assert residual.shape == (2, b * (intervals + 1) * n)
    np.testing.assert_allclose(residual, problem.residuals(unknowns), rtol=1e-12, atol=1e-14)
    numeric = numeric_jacobian(problem.residuals, unknowns, 1e-6)
    np.testing.assert_allclose(jacobian, numeric, rtol=1e-4, atol=1e-6)


def test_long_residuals_begin_at_the_starts_and_nonnegative_ones_stay_so() -> None:
    field = field_of(PREY)
    problem = LongResiduals(cut(both(), both(), np.array([10.0, 10.0]), None), field, torch.tensor([True, False]))
    unknowns = problem.pack(field.theta)
    np.testing.assert_allclose(problem.starts(unknowns)[0], STARTS, rtol=1e-14)
    unknowns[:, -problem.n_starts :] = -0.3
    starts = problem.starts(unknowns)[0]
    np.testing.assert_allclose(starts, [[0.09, -0.3]] * 2)


def test_a_start_at_zero_is_awake() -> None:
    series = series_of(PREY, np.array([[0.0, 0.8]]), [EVEN[:5]])
    field = field_of(PREY)
    nonnegative = torch.tensor([True, True])
    problem = LongResiduals(cut(series, series, np.array([10.0, 10.0]), None), field, nonnegative)
    start = problem.starts(problem.pack(field.theta))[0, 0]
    assert start[0].item() == pytest.approx(0.01) and start[1].item() == pytest.approx(0.8)
