"""Optimisers: every member finds its own minimum, and one that fails spoils no other."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from odediscovery.fitting.training import FirstOrder, Loss, lbfgs, loss_and_gradient
from odediscovery.runtime.monitor import Monitor

# Minima of three members, far from one another and of different depth and curvature.
MINIMA = torch.tensor([[1.0, -2.0, 0.5], [3.0, 0.0, -1.0], [-0.7, 0.2, 4.0]], dtype=torch.float64)
CURVATURE = torch.tensor([[1.0], [10.0], [0.3]], dtype=torch.float64)
START = torch.zeros(3, 3, dtype=torch.float64)
FREE = torch.ones(3, 3, dtype=torch.bool)

Optimiser = Callable[[Loss, Tensor, Tensor], Tensor]


def bowl(theta: Tensor, progress: float) -> Tensor:
    return (CURVATURE * (theta - MINIMA).square()).sum(dim=1) + torch.tensor([0.0, 5.0, -2.0])


def rosenbrock(theta: Tensor, progress: float) -> Tensor:
    x, y = theta[:, 0], theta[:, 1]
    return 100.0 * (y - x * x).square() + (1.0 - x).square()


OPTIMISERS: dict[str, Optimiser] = {
    "adam": lambda loss, theta, free: FirstOrder(1500, 0.05).run(loss, theta, free, Monitor()),
    "rmsprop": lambda loss, theta, free: FirstOrder(1500, 0.05, method="rmsprop").run(loss, theta, free, Monitor()),
    "lbfgs": lambda loss, theta, free: lbfgs(loss, theta, free, 60, Monitor()),
}
every_optimiser = pytest.mark.parametrize("run", OPTIMISERS.values(), ids=OPTIMISERS)


@every_optimiser
def test_every_member_finds_its_own_minimum(run: Optimiser) -> None:
    np.testing.assert_allclose(run(bowl, START, FREE), MINIMA, atol=2e-3)


@pytest.mark.slow
@every_optimiser
def test_what_is_not_free_stays(run: Optimiser) -> None:
    free = FREE.clone()
    free[0, 1] = free[2, 0] = False
    start = START + 0.25
    end = run(bowl, start, free)
    assert end[0, 1] == 0.25 and end[2, 0] == 0.25
    np.testing.assert_allclose(end[free], MINIMA[free], atol=2e-3)


@pytest.mark.slow
@every_optimiser
def test_a_member_that_turns_nan_goes_back_and_spoils_no_other(run: Optimiser) -> None:
    def cliff(theta: Tensor, progress: float) -> Tensor:
        loss = bowl(theta, progress)
        over = torch.tensor([False, True, False]) & (theta[:, 0] > 1.5)
        return torch.where(over, torch.nan, loss)

    end, undisturbed = run(cliff, START, FREE), run(bowl, START, FREE)
    np.testing.assert_allclose(end[[0, 2]], undisturbed[[0, 2]], rtol=1e-12, atol=1e-12)
    assert bool(end.isfinite().all())
    last = cliff(end, 1.0)
    assert bool(last.isfinite().all())
    assert last[1] < cliff(START, 1.0)[1]


def test_a_member_that_stepped_too_far_goes_on_with_smaller_steps() -> None:
    def edge(theta: Tensor, progress: float) -> Tensor:
        """Nothing is known right behind the minimum at 1."""
        return torch.where(theta[:, 0] > 1.01, torch.nan, (theta[:, 0] - 1.0).square())

    start = torch.tensor([[0.0], [0.96]], dtype=torch.float64)
    steps = FirstOrder(400, 0.2, schedule="constant")
    end = steps.run(edge, start, torch.ones_like(start, dtype=torch.bool), Monitor())
    np.testing.assert_allclose(end, 1.0, atol=0.011)


def test_lbfgs_follows_a_curved_valley_from_different_starts() -> None:
    start = torch.tensor([[-1.2, 1.0], [2.0, -1.0], [0.0, 0.0]], dtype=torch.float64)
    end = lbfgs(rosenbrock, start, torch.ones_like(start, dtype=torch.bool), 100, Monitor())
    np.testing.assert_allclose(end, torch.ones_like(end), atol=1e-4)


@pytest.mark.parametrize("method", ["adam", "rmsprop"])
def test_members_take_the_textbook_steps(method: str) -> None:
    leaf = START.clone().requires_grad_(True)
    by_torch = {"adam": torch.optim.Adam([leaf], lr=0.01), "rmsprop": torch.optim.RMSprop([leaf], lr=0.01, alpha=0.9)}
    for _ in range(25):
        by_torch[method].zero_grad()
        bowl(leaf, 0.0).sum().backward()
        by_torch[method].step()
    ours = FirstOrder(25, 0.01, method, schedule="constant").run(bowl, START, FREE, Monitor())
    np.testing.assert_allclose(ours, leaf.detach(), rtol=1e-10)


def test_a_stopped_run_returns_early() -> None:
    monitor, calls = Monitor(), []

    def counted(theta: Tensor, progress: float) -> Tensor:
        calls.append(progress)
        return bowl(theta, progress)

    monitor.interrupt()
    end = FirstOrder(1000, 0.05).run(counted, START, FREE, monitor)
    assert len(calls) < 5 and bool(end.isfinite().all())


def test_losses_that_are_not_finite_have_no_gradient() -> None:
    theta = torch.tensor([[1.0], [-1.0], [0.0]], dtype=torch.float64)
    value, gradient = loss_and_gradient(lambda t, _: t[:, 0].sqrt(), theta, 0.0)
    assert value.tolist() == [1.0, math.inf, math.inf]  # at 0 the slope is infinite
    assert gradient.tolist() == [[0.5], [0.0], [0.0]]
