"""Samples far off the claimed law are told, and what is no slip is not."""

from __future__ import annotations

import numpy as np
import pytest

from odediscovery import TimeSeries, discover, settings_for
from odediscovery.result.outliers import far_off
from odediscovery.runtime.arrays import Array
from odediscovery.runtime.monitor import Monitor


def growth(seed: int = 1) -> tuple[Array, Array]:
    """Logistic growth in noise of 2 % of its spread [40]."""
    t = np.linspace(0.0, 20.0, 40)
    x = 10.0 / (1.0 + 32.0 * np.exp(-0.5 * t))
    return t, x + 0.08 * np.random.default_rng(seed).standard_normal(40)


@pytest.mark.slow
def test_a_slip_is_told_with_its_time() -> None:
    t, x = growth()
    x[17] += 2.0
    found = discover(TimeSeries.from_arrays(t, x, ["N"]), settings_for(library=["textbook"]), Monitor())
    (told,) = [text for text in found.messages if text.startswith("far off")]
    assert f"N at t = {t[17]:.6g}" in told
    assert "empty the cell" in told


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        pytest.param([10], [10], id="one"),
        pytest.param([10, 30], [10, 30], id="two"),
        pytest.param([10, 11, 12], [], id="neighbours"),
        pytest.param([2, 6, 10, 14, 18, 22], [], id="many"),
        pytest.param([0], [0], id="first"),
    ],
)
def test_only_lonely_residuals_are_far_off(places: list[int], expected: list[int]) -> None:
    residuals = np.random.default_rng(0).standard_normal(60)
    residuals[places] = 20.0
    assert list(far_off(residuals, np.zeros(60))) == expected


def test_few_samples_tell_nothing() -> None:
    assert not far_off(np.array([1.0, -1.0, 1.0, 50.0, -1.0]), np.zeros(5))


def test_residuals_that_are_large_for_a_while_are_usual_there() -> None:
    random = np.random.default_rng(0)
    residuals = random.standard_normal(200) * np.where(np.arange(200) < 30, 40.0, 1.0)
    assert not far_off(residuals, np.zeros(200))
