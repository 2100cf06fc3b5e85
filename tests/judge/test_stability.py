"""A law that a start within its error leaves behind is doubted."""

from __future__ import annotations

import numpy as np
from problems import LOGISTIC, series_of

from odediscovery.judge.stability import runs_away
from odediscovery.laws.power_sum import PowerSum

# x' = x^2 - x: beyond 1 it blows up.
EDGE = PowerSum(np.array([[1.0, -1.0]]), np.array([[2.0], [1.0]]))
TIMES = np.linspace(0.0, 8.0, 60)
POSITIVE = np.array([True])


def test_a_law_that_blows_up_beyond_its_start_runs_away() -> None:
    start = np.array([[0.97]])
    series = series_of(EDGE, start, [TIMES])
    assert runs_away(EDGE, series, start, np.array([[0.1]]), POSITIVE)
    assert not runs_away(EDGE, series, start, np.array([[0.01]]), POSITIVE)


def test_a_law_that_comes_back_does_not() -> None:
    start = np.array([[0.1]])
    series = series_of(LOGISTIC, start, [TIMES])
    for error in (0.01, 0.5):  # a start below 0 would run away, but the state has none
        assert not runs_away(LOGISTIC, series, start, np.array([[error]]), POSITIVE)


def test_growth_without_bound_is_seen_before_it_is_infinite() -> None:
    # x'' = x on its way down to 0 along the stable direction: x' = y, y' = x.
    saddle = PowerSum(np.array([[0.0, 1.0], [1.0, 0.0]]), np.eye(2))
    start = np.array([[1.0, -1.0]])
    series = series_of(saddle, start, [TIMES])
    signed = np.array([False, False])
    assert runs_away(saddle, series, start, np.full((1, 2), 0.05), signed)
    assert not runs_away(saddle, series, start, np.full((1, 2), 1e-4), signed)
