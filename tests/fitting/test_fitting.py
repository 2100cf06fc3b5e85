"""Windows, their residuals and slopes, and the optimisers: every member finds its own minimum."""

import dataclasses
import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch
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
from scipy.optimize import least_squares

from odediscovery import Monitor, TimeSeries, Trajectory
from odediscovery.fitting.training import FirstOrder, TrainingWindows, lbfgs, loss_and_gradient
from odediscovery.fitting.windows import LongResiduals, ShortResiduals, cut, is_definite, levenberg_marquardt
from odediscovery.runtime.arrays import Array
from odediscovery.solve.grids import GRIDS

EVEN = np.linspace(0.0, 6.0, 13)
# Shorter than EVEN and irregular.
UNEVEN = np.array([0.0, 0.3, 1.1, 1.5, 2.6, 3.0])
ONES = np.ones(2)


def with_gaps(series, *gaps):
    """The series without the values at (trajectory, sample, state)."""
    values = [t.values.copy() for t in series.trajectories]
    for i, j, k in gaps:
        values[i][j, k] = np.nan
    runs = [Trajectory(t.time, v, t.label) for t, v in zip(series.trajectories, values, strict=True)]
    return TimeSeries(series.states, tuple(runs))


BOTH = series_of(PREY, STARTS, [EVEN, UNEVEN])


def finest(windows):
    return dataclasses.replace(windows, grid=np.full_like(windows.grid, len(GRIDS) - 1))


@pytest.mark.parametrize(("length", "expected"), [(3, (6, 3)), (None, (2, 12))])
def test_windows_follow_one_another(length, expected):
    windows = cut(BOTH, BOTH, ONES, length)
    assert windows.size == (*expected, 2)
    assert windows.heads.tolist() == [0, -(-12 // expected[1])]
    # Every interval of both trajectories is in exactly one window.
    intervals = np.concatenate([np.diff(EVEN), np.diff(UNEVEN)])
    used = windows.duration[windows.duration > 0]
    np.testing.assert_allclose(used, intervals, rtol=1e-15)
    assert int((windows.weight[..., 0] > 0).sum()) == len(intervals)


def test_missing_values_weigh_nothing():
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
def test_the_truth_leaves_nothing(length):
    windows = finest(cut(BOTH, BOTH, ONES, length))
    chain = chain_of_law(PREY, members=2)
    theta = chain.theta.copy()
    theta[1, chain.places()[0][1].start] *= 1.1
    left = (windows.predict(chain, theta) - windows.target) * windows.weight
    assert left.shape == (2, *windows.size)
    assert np.mean(left[0] ** 2) < 1e-12 and np.mean(left[1] ** 2) > 1e-6


def test_refined_windows_are_as_accurate_as_asked():
    long = series_of(LOGISTIC, np.array([[0.02]]), [np.linspace(0.0, 20.0, 6)])
    windows = cut(long, long, np.ones(1), 1)
    chain = chain_of_law(LOGISTIC)
    fine = windows.refined(chain, chain.theta, 1e-6)
    error = np.abs(fine.predict(chain, chain.theta) - fine.target)
    assert bool((error < 2e-6).all())
    assert bool((windows.refined(chain, chain.theta, 0.1).grid <= fine.grid).all())
    assert bool((fine.grid > 0).any())


def test_short_residuals_and_their_jacobian():
    series = with_gaps(BOTH, (0, 3, 0), (1, 5, 1))
    chain = random_chain()
    problem = ShortResiduals(cut(series, BOTH, np.array([2.0, 3.0]), 1), chain)
    residual, jacobian = problem.linearised(chain.theta, np.ones_like(chain.theta, dtype=bool))
    np.testing.assert_allclose(residual, problem.residuals(chain.theta), rtol=1e-12, atol=1e-14)
    numeric = numeric_jacobian(problem.residuals, chain.theta, 1e-6)
    np.testing.assert_allclose(jacobian, numeric, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("length", [3, None])
def test_long_residuals_and_their_jacobian(length):
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


def test_a_start_at_zero_is_awake():
    series = series_of(PREY, np.array([[0.0, 0.8]]), [EVEN[:5]])
    chain = chain_of_law(PREY)
    nonnegative = np.array([True, True])
    problem = LongResiduals(cut(series, series, np.array([10.0, 10.0]), None), chain, nonnegative)
    start = problem.starts(problem.pack(chain.theta))[0, 0]
    assert start[0].item() == pytest.approx(0.01) and start[1].item() == pytest.approx(0.8)


@pytest.mark.parametrize("length", [1, None])
@pytest.mark.parametrize("gradients", ["closed-form", "odeint"])
def test_a_network_and_a_chain_predict_the_same(length, gradients):
    plain, chain, field = cut(BOTH, BOTH, np.ones(2), length), chain_of_law(PREY, 2), field_of(PREY, 2)
    windows = TrainingWindows.of(plain, gradients)
    found = windows.predict(field, field.theta)
    np.testing.assert_allclose(found, plain.predict(chain, chain.theta), rtol=1e-12)
    theta = field.theta.clone()
    theta[1, field.place(1, "weight").start] *= 1.1
    loss = windows.loss(field, theta)
    assert loss[0] < 1e-6 and loss[1] > 10.0 * loss[0]


def test_the_loss_is_the_mean_square_of_what_was_measured():
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


@dataclass
class Decays:
    """Residuals a exp(-b t) - y_m(t) of members with data of their own, unknowns (a, b, unused)."""

    y: Array
    t: Array
    cliff: float = math.inf

    def solve(self, u):
        return u[:, :1] * np.exp(-u[:, 1:2] * self.t)

    def residuals(self, u, solved=None):
        r = (self.solve(u) if solved is None else solved) - self.y[: len(u)]
        return np.where(u[:, 1:2] > self.cliff, np.nan, r)

    def linearised(self, u, free, solved=None):
        decay = np.exp(-u[:, 1:2] * self.t)
        columns = [decay, -u[:, :1] * self.t * decay, np.zeros_like(decay)]
        return self.residuals(u, solved), np.stack(columns, axis=-1)


T = np.linspace(0.0, 3.0, 12)
GUESS = np.array([[1.0, 0.1, 7.0]])


def decay(a, b):
    return a * np.exp(-b * T)


@pytest.mark.parametrize(("a", "b"), [(2.0, 0.5), (5.0, -0.2)])
def test_levenberg_marquardt_finds_exact_constants(a, b):
    problem = Decays(decay(a, b)[None], T)
    free = np.ones_like(GUESS, dtype=bool)
    found = levenberg_marquardt(problem, GUESS, free, 60, tolerance=1e-12)
    np.testing.assert_allclose(found.unknowns[0], [a, b, 7.0], rtol=1e-6)
    assert found.sum_of_squares.item() < 1e-12
    jacobian = problem.linearised(found.unknowns, free)[1][0]
    np.testing.assert_allclose(found.normal[0], jacobian.T @ jacobian, rtol=1e-8, atol=1e-12)


def test_levenberg_marquardt_members_and_masks_are_apart():
    y = np.tile(decay(2.0, 0.5), (3, 1))
    start = np.array([[1.0, 0.1, 7.0], [1.0, 0.3, 7.0], [3.0, 0.1, 7.0]])
    free = np.ones_like(start, dtype=bool)
    free[1, 1] = free[2, 0] = False
    found = levenberg_marquardt(Decays(y, T), start, free, 60, tolerance=1e-12)
    np.testing.assert_allclose(found.unknowns[0], [2.0, 0.5, 7.0], rtol=1e-6)
    assert found.unknowns[1, 1] == 0.3 and found.unknowns[2, 0] == 3.0
    for m in range(3):
        alone = levenberg_marquardt(Decays(y, T), start[m : m + 1], free[m : m + 1], 60, tolerance=1e-12)
        np.testing.assert_allclose(found.unknowns[m], alone.unknowns[0], rtol=1e-9)
    # The linear constant alone has a solution in closed form.
    basis = np.exp(-0.3 * T)
    best = (basis @ y[0]) / (basis @ basis)
    assert found.unknowns[1, 0].item() == pytest.approx(best.item(), rel=1e-8)


def test_levenberg_marquardt_steps_back_from_nan_and_leaves_hopeless_members_alone():
    y = np.tile(decay(2.0, 0.5), (2, 1))
    start = np.array([[1.0, 0.1, 7.0], [1.0, 0.9, 7.0]])
    free = np.ones_like(start, dtype=bool)
    found = levenberg_marquardt(Decays(y, T, cliff=0.6), start, free, 80, tolerance=1e-12)
    np.testing.assert_allclose(found.unknowns[0], [2.0, 0.5, 7.0], rtol=1e-6)
    assert np.array_equal(found.unknowns[1], start[1])
    assert found.sum_of_squares[1] == math.inf


def test_levenberg_marquardt_ends_where_it_is_when_asked_to_stop():
    monitor = Monitor()
    monitor.interrupt()
    problem, free = Decays(decay(2.0, 0.5)[None], T), np.ones_like(GUESS, dtype=bool)
    found = levenberg_marquardt(problem, GUESS, free, 60, monitor=monitor)
    assert np.array_equal(found.unknowns, GUESS)


def test_levenberg_marquardt_ends_where_scipy_ends():
    noise = 0.05
    y = decay(2.0, 0.5) + noise * np.random.default_rng(0).standard_normal(len(T))
    free = np.array([[True, True, False]])
    found = levenberg_marquardt(Decays(y[None], T), GUESS, free, 60, tolerance=1e-14)
    expected = least_squares(lambda v: v[0] * np.exp(-v[1] * T) - y, GUESS[0, :2], xtol=1e-14, ftol=1e-14, gtol=1e-14)
    np.testing.assert_allclose(found.unknowns[0, :2], expected.x, rtol=1e-6)
    assert found.sum_of_squares.item() == pytest.approx(2.0 * expected.cost, rel=1e-9, abs=1e-15)


@dataclass
class Linear:
    """Residuals s_m A u - y of members whose slopes have sizes of their own."""

    slopes: Array
    sizes: Array
    y: Array

    def solve(self, u):
        return self.sizes[: len(u), None] * (u @ self.slopes.T)

    def residuals(self, u, solved=None):
        return (self.solve(u) if solved is None else solved) - self.y

    def linearised(self, u, free, solved=None):
        return self.residuals(u, solved), self.sizes[: len(u), None, None] * self.slopes


def test_slopes_whose_squares_are_beyond_all_numbers_harm_nobody():
    """What is left is a number, what it changes by is one, and their products are none."""
    random = np.random.default_rng(0)
    right, slopes, sizes = random.standard_normal(12), random.standard_normal((40, 12)), np.array([1.0, 1e200, 1e200])
    problem = Linear(slopes, sizes, slopes @ right)
    start = np.zeros((3, 12))
    found = levenberg_marquardt(problem, start, np.ones_like(start, dtype=bool), 60, tolerance=1e-12)
    np.testing.assert_allclose(found.unknowns[0], right, rtol=1e-6)
    assert np.isfinite(found.unknowns).all()
    assert is_definite(np.array([np.eye(3), np.full((3, 3), np.nan), -np.eye(3)])).tolist() == [True, False, False]


# Minima of three members, far from one another and of different depth and curvature.
MINIMA = torch.tensor([[1.0, -2.0, 0.5], [3.0, 0.0, -1.0], [-0.7, 0.2, 4.0]], dtype=torch.float64)
CURVATURE = torch.tensor([[1.0], [10.0], [0.3]], dtype=torch.float64)
START = torch.zeros(3, 3, dtype=torch.float64)
FREE = torch.ones(3, 3, dtype=torch.bool)


def bowl(theta, progress):
    return (CURVATURE * (theta - MINIMA).square()).sum(dim=1) + torch.tensor([0.0, 5.0, -2.0])


def rosenbrock(theta, progress):
    x, y = theta[:, 0], theta[:, 1]
    return 100.0 * (y - x * x).square() + (1.0 - x).square()


OPTIMISERS = {
    "adam": lambda loss, theta, free: FirstOrder(1500, 0.05).run(loss, theta, free, Monitor()),
    "rmsprop": lambda loss, theta, free: FirstOrder(1500, 0.05, method="rmsprop").run(loss, theta, free, Monitor()),
    "lbfgs": lambda loss, theta, free: lbfgs(loss, theta, free, 60, Monitor()),
}
every_optimiser = pytest.mark.parametrize("run", OPTIMISERS.values(), ids=OPTIMISERS)


@every_optimiser
def test_every_member_finds_its_own_minimum(run):
    np.testing.assert_allclose(run(bowl, START, FREE), MINIMA, atol=2e-3)


@every_optimiser
def test_what_is_not_free_stays(run):
    free = FREE.clone()
    free[0, 1] = free[2, 0] = False
    start = START + 0.25
    end = run(bowl, start, free)
    assert end[0, 1] == 0.25 and end[2, 0] == 0.25
    np.testing.assert_allclose(end[free], MINIMA[free], atol=2e-3)


@every_optimiser
def test_a_member_that_turns_nan_goes_back_and_spoils_no_other(run):
    def cliff(theta, progress):
        loss = bowl(theta, progress)
        over = torch.tensor([False, True, False]) & (theta[:, 0] > 1.5)
        return torch.where(over, torch.nan, loss)

    end, undisturbed = run(cliff, START, FREE), run(bowl, START, FREE)
    np.testing.assert_allclose(end[[0, 2]], undisturbed[[0, 2]], rtol=1e-12, atol=1e-12)
    assert bool(end.isfinite().all())
    last = cliff(end, 1.0)
    assert bool(last.isfinite().all())
    assert last[1] < cliff(START, 1.0)[1]


def test_a_member_that_stepped_too_far_goes_on_with_smaller_steps():
    def edge(theta, progress):
        """Nothing is known right behind the minimum at 1."""
        return torch.where(theta[:, 0] > 1.01, torch.nan, (theta[:, 0] - 1.0).square())

    start = torch.tensor([[0.0], [0.96]], dtype=torch.float64)
    steps = FirstOrder(400, 0.2, schedule="constant")
    end = steps.run(edge, start, torch.ones_like(start, dtype=torch.bool), Monitor())
    np.testing.assert_allclose(end, 1.0, atol=0.011)


def test_lbfgs_follows_a_curved_valley_from_different_starts():
    start = torch.tensor([[-1.2, 1.0], [2.0, -1.0], [0.0, 0.0]], dtype=torch.float64)
    end = lbfgs(rosenbrock, start, torch.ones_like(start, dtype=torch.bool), 100, Monitor())
    np.testing.assert_allclose(end, torch.ones_like(end), atol=1e-4)


@pytest.mark.parametrize("method", ["adam", "rmsprop"])
def test_members_take_the_textbook_steps(method):
    leaf = START.clone().requires_grad_(True)
    by_torch = {"adam": torch.optim.Adam([leaf], lr=0.01), "rmsprop": torch.optim.RMSprop([leaf], lr=0.01, alpha=0.9)}
    for _ in range(25):
        by_torch[method].zero_grad()
        bowl(leaf, 0.0).sum().backward()
        by_torch[method].step()
    ours = FirstOrder(25, 0.01, method, schedule="constant").run(bowl, START, FREE, Monitor())
    np.testing.assert_allclose(ours, leaf.detach(), rtol=1e-10)


def test_a_stopped_run_returns_early():
    monitor, calls = Monitor(), []

    def counted(theta, progress):
        calls.append(progress)
        return bowl(theta, progress)

    monitor.interrupt()
    end = FirstOrder(1000, 0.05).run(counted, START, FREE, monitor)
    assert len(calls) < 5 and bool(end.isfinite().all())


def test_losses_that_are_not_finite_have_no_gradient():
    theta = torch.tensor([[1.0], [-1.0], [0.0]], dtype=torch.float64)
    value, gradient = loss_and_gradient(lambda t, _: t[:, 0].sqrt(), theta, 0.0)
    assert value.tolist() == [1.0, math.inf, math.inf]  # at 0 the slope is infinite
    assert gradient.tolist() == [[0.5], [0.0], [0.0]]
