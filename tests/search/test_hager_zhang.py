"""Optim.jl's LBFGS: exact gradients lead to the minimum, others end at the first rise."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from odediscovery.runtime.monitor import Monitor
from odediscovery.search.published.hager_zhang import lbfgs_to_first_rise

START = torch.tensor([[-1.2, 1.0], [0.5, 2.0], [2.0, -1.0]], dtype=torch.float64)
FREE = torch.ones(3, 2, dtype=torch.bool)


def rosenbrock(theta: Tensor, progress: float) -> Tensor:
    x, y = theta[:, 0], theta[:, 1]
    return 100.0 * (y - x * x).square() + (1.0 - x).square()


def test_every_member_finds_the_minimum() -> None:
    found = lbfgs_to_first_rise(rosenbrock, START, FREE, 200, Monitor())
    np.testing.assert_allclose(found, torch.ones(3, 2), atol=1e-6)


def test_members_do_not_feel_each_other_and_what_is_not_free_stays() -> None:
    together = lbfgs_to_first_rise(rosenbrock, START, FREE, 30, Monitor())
    for m in range(3):
        alone = lbfgs_to_first_rise(rosenbrock, START[m : m + 1], FREE[:1], 30, Monitor())
        np.testing.assert_allclose(together[m : m + 1], alone, rtol=1e-9)
    held = FREE.clone()
    held[:, 1] = False
    found = lbfgs_to_first_rise(rosenbrock, START, held, 50, Monitor())
    assert torch.equal(found[:, 1], START[:, 1])
    assert (rosenbrock(found, 1.0) < rosenbrock(START, 1.0)).all()


def test_a_gradient_that_is_off_ends_it_early_and_never_higher() -> None:
    wrong = torch.tensor([0.02, -0.03], dtype=torch.float64)

    def off(theta: Tensor, progress: float) -> Tensor:
        # The value of a bowl with the gradient of another one.
        bowl = theta.square().sum(dim=1)
        return bowl + ((theta - theta.detach()) * wrong).sum(dim=1)

    found = lbfgs_to_first_rise(off, START, FREE, 200, Monitor())
    assert (off(found, 1.0) < off(START, 1.0)).all()
    # The minimum of the value is 0; the slopes vanish elsewhere, and the search ends between.
    assert (found.abs().max(dim=1).values > 1e-6).all()
    assert (found.norm(dim=1) < 0.1).all()
