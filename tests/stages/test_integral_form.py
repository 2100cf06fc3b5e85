"""Increments that equal integrals, and how far the integrals are believed."""

from __future__ import annotations

import numpy as np
import pytest
from problems import series_of

from odediscovery.laws.power_sum import Features, PowerSum
from odediscovery.problem.prepare import prepare
from odediscovery.stages.grow.integral_form import Integral

DECAY = PowerSum(np.array([[-3.0, 0.2]]), np.array([[1.0], [0.0]]))


@pytest.mark.parametrize("noise", [0.0, 0.002])
def test_intervals_between_which_a_curve_bends_are_believed_less(noise: float) -> None:
    p = prepare(series_of(DECAY, np.array([[2.0]]), [np.linspace(0.0, 12.0, 25)], noise))
    integer = np.zeros(1, dtype=bool)
    problem = Integral.of(p.data, p.noise, integer, Features(1))
    weighted = problem.weighted(problem.interpolated(), np.array([[1.0], [2.0], [0.5]]))
    first, later = weighted.factors[0][0, 0], np.median(weighted.factors[0][0, 1:])
    assert bool(problem.smoothed[0]) is (noise > 0.0)
    assert first > 3.0 * later
    assert weighted.counts[0] < problem.counts[0]


def test_the_mean_of_others_stands_for_a_state_that_a_trajectory_lacks() -> None:
    series = series_of(DECAY, np.array([[2.0], [1.0], [1.5]]), [np.linspace(0.0, 5.0, 9)] * 3)
    series.trajectories[1].values[:] = np.nan
    p = prepare(series)
    values = np.stack([run.values for run in p.data.trajectories])
    path = Integral.of(p.data, p.noise, np.zeros(1, dtype=bool), Features(1)).interpolated()
    np.testing.assert_allclose(np.exp(path.log[8:16]), np.nanmean(values))
    np.testing.assert_allclose(p.smooth.trajectories[1].values, np.nanmean(values))
