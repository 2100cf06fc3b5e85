"""Random members: their widths, the loss that they are trained on, and that training lowers it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from problems import growth, random_field

from odediscovery import Monitor, settings_for
from odediscovery.fitting.training import TrainingWindows
from odediscovery.fitting.windows import short_windows
from odediscovery.neural.members import random_members, trained_laws
from odediscovery.neural.train import binarise_gates, drop_small, gates, penalised_loss, train_members
from odediscovery.problem.problem import prepare

P = prepare(growth(np.linspace(0.0, 20.0, 60), 0.01))


def test_the_penalty_rises_and_gates_are_drawn_to_one() -> None:
    field, windows = random_members(P, [2], seed=0), TrainingWindows.of(short_windows(P))
    free, light = penalised_loss(field, windows, 0.0), penalised_loss(field, windows, 0.1)
    theta = field.theta
    norm = (theta * (field.free & ~gates(field))).abs().sum(dim=1)
    for progress, share in ((0.0, 0.0), (0.25, 0.5), (1.0, 1.0)):
        gained = light(theta, progress) - free(theta, progress)
        torch.testing.assert_close(gained, 0.1 * share * norm)
    opened = torch.where(gates(field), 1.0, theta)
    torch.testing.assert_close(free(theta, 1.0), windows.loss(field, opened))
    torch.testing.assert_close(free(theta, 0.4), windows.loss(field, theta))


@pytest.mark.slow
def test_training_lowers_the_loss_and_leaves_laws_that_are_read_exactly() -> None:
    settings = settings_for(members=4, hidden=2, adam_steps=150, lbfgs_steps=20)
    field, windows = random_members(P, [2] * 4, seed=0), TrainingWindows.of(short_windows(P))
    after = train_members(P, field, settings, Monitor(), keep=2)
    assert after.members == 2 and bool((after.theta[:, gates(after)] == 1.0).all())
    before = windows.loss(field, field.theta).min()
    assert float(windows.loss(after, after.theta).min()) < 0.2 * float(before)
    laws = trained_laws(P, settings, Monitor())
    assert len(laws) == 4 and all(law.n_states == 1 for law in laws)
    # Every parameter that is left is larger than what is removed.
    assert all((np.abs(law.coefficients[law.coefficients != 0]) >= 0.02).all() for law in laws)


def test_gates_end_at_one_or_take_their_exponents_with_them() -> None:
    field = random_field(members=2, states=2, width=3)
    theta = field.theta.clone()
    gate = field.place(0, "gate")
    theta[:, gate] = torch.tensor([[0.9, 0.01], [-0.3, 1.4]], dtype=torch.float64)
    after = binarise_gates(field.replace(theta))
    assert bool((after.theta[:, gate] == 1).all()) and not after.free[:, gate].any()
    (power, total), (free, _) = after.unpack(after.theta), after.unpack(after.free)
    hidden = torch.tensor([[False, True], [True, False]])[:, None].expand(-1, 3, -1)
    assert torch.equal(power["real"], field.unpack(theta)[0]["real"].masked_fill(hidden, 0.0))
    assert torch.equal(free["real"], ~hidden) and torch.equal(total["weight"], field.unpack(theta)[1]["weight"])


def test_small_parameters_are_removed_and_fixed_ones_are_not() -> None:
    field = random_field(members=1)
    theta, free = field.theta.clone(), field.free.clone()
    theta[0, :3] = torch.tensor([0.01, -0.01, -0.04])
    theta[0, 3], free[0, 3] = 0.007, False
    after = drop_small(field.replace(theta, free))
    assert after.theta[0, :4].tolist() == [0.0, 0.0, theta[0, 2].item(), theta[0, 3].item()]
    assert after.free[0, :4].tolist() == [False, False, True, False]
