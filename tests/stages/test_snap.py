"""Simple exponents: taken where the data cannot tell, refused where they can."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from odediscovery import TimeSeries
from odediscovery.judge.criterion import judge
from odediscovery.laws.cost import SIMPLE, all_free, constant_penalty, cost, snap_penalty
from odediscovery.laws.power_sum import PowerSum
from odediscovery.stages.polish.polish import polish
from odediscovery.stages.polish.snap import merge_monomials, snap
from odediscovery.stages.values import Judged, Origin

DECAY = PowerSum(np.array([[-0.3]]), np.array([[1.2]]))
POSITIVE = np.array([True])
# There are no sums among the inputs.
NONE = np.zeros((0, 0), dtype=bool)


def measured(noise: float, seed: int = 0) -> TimeSeries:
    """x' = -0.3 x^1.2 from 5, in closed form, with additive noise."""
    t = np.linspace(0.0, 8.0, 60)
    x = (5.0**-0.2 + 0.06 * t) ** -5.0
    x = x + noise * np.random.default_rng(seed).standard_normal(len(t))
    return TimeSeries.from_arrays(t, x[:, None], ["x"])


def row_of(series: TimeSeries, noise: float) -> tuple[Judged, partial]:
    sigma = np.array([max(noise, 1e-8)])

    def refit(law, free, initial) -> Judged:
        fitted = polish(law, series, initial, sigma, floor=sigma, nonnegative=POSITIVE, free=free)
        return judge(fitted, sigma, Origin(0))

    return refit(DECAY, all_free(DECAY), np.array([[5.0]])), refit


def test_a_value_the_data_tell_apart_is_kept() -> None:
    row, refit = row_of(measured(1e-4), 1e-4)
    kept = snap(row, refit).polished.law.exponents[0, 0]
    assert kept == pytest.approx(1.2, abs=1e-3)
    assert kept not in SIMPLE


@pytest.mark.slow
def test_a_value_the_data_cannot_tell_is_simple_and_not_free() -> None:
    row, refit = row_of(measured(1.0), 1.0)
    assert row.polished.errors.exponents[0, 0] > 0.1
    after = snap(row, refit)
    assert after.polished.law.exponents[0, 0] in SIMPLE
    assert not after.polished.free[1].any()
    assert after.criterion < row.criterion


def test_monomials_made_equal_are_one() -> None:
    law = PowerSum(np.array([[0.5, -0.2]]), np.array([[1.0], [1.0]]))
    free = (np.ones((1, 2), dtype=bool), np.zeros((2, 1), dtype=bool), NONE, NONE)
    merged, (free_a, free_w, *_) = merge_monomials(law, free)
    assert merged.coefficients.tolist() == [[0.3]]
    assert free_a.tolist() == [[True]] and free_w.tolist() == [[False]]


def test_held_exponents_cost_less_than_free_ones_and_exotic_values_most() -> None:
    law = PowerSum(np.array([[1.0]]), np.array([[1.0]]))
    held = (law.coefficients != 0, np.zeros((1, 1), dtype=bool), NONE, NONE)
    assert cost(law, held, 100) < cost(law, all_free(law), 100)
    assert cost(law, all_free(law), 100) == pytest.approx(2 * constant_penalty(1, 100))
    assert snap_penalty(1.0) < snap_penalty(2.0) < snap_penalty(3.0) < snap_penalty(1 / 3) == snap_penalty(0.123)
