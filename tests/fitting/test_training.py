"""The objective of training is that of the windows, and its networks solve as the chains do."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from problems import PREY, STARTS, chain_of_law, field_of, random_field, series_of

from odediscovery.fitting.training import TrainingWindows
from odediscovery.fitting.windows import cut

SERIES = series_of(PREY, STARTS, [np.linspace(0.0, 6.0, 13), np.array([0.0, 0.3, 1.1, 1.5, 2.6, 3.0])])


@pytest.mark.parametrize("length", [1, None])
@pytest.mark.parametrize("gradients", ["closed-form", "odeint"])
def test_a_network_and_a_chain_predict_the_same(length: int | None, gradients: str) -> None:
    plain, chain, field = cut(SERIES, SERIES, np.ones(2), length), chain_of_law(PREY, 2), field_of(PREY, 2)
    windows = TrainingWindows.of(plain, gradients)
    found = windows.predict(field, field.theta)
    np.testing.assert_allclose(found, plain.predict(chain, chain.theta), rtol=1e-12)
    theta = field.theta.clone()
    theta[1, field.place(1, "weight").start] *= 1.1
    loss = windows.loss(field, theta)
    assert loss[0] < 1e-6 and loss[1] > 10.0 * loss[0]


def test_the_loss_is_the_mean_square_of_what_was_measured() -> None:
    plain = cut(SERIES, SERIES, np.array([2.0, 3.0]), 1)
    weight = plain.weight.copy()
    weight[3, 0, 0] = 0.0
    plain = dataclasses.replace(plain, weight=weight)
    windows = TrainingWindows.of(plain)
    field = random_field(members=1)
    residual = (windows.predict(field, field.theta)[0] - windows.target).numpy()
    seen = plain.weight > 0
    expected = np.mean((residual * [2.0, 3.0])[seen] ** 2)
    assert windows.loss(field, field.theta).item() == pytest.approx(expected, rel=1e-12)
