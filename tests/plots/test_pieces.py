"""What pictures share: bands, axes of residuals, limits, powers of ten, marks."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure

from odediscovery.plots.axes import (
    COLOURS,
    LIGHT,
    LINE,
    MUTED,
    SAMPLE,
    SMALL_MARK,
    Depth,
    draw_band,
    frame,
    frame_residuals,
    power_of_ten,
    rings,
)
from odediscovery.plots.figures import stack


def test_matplotlib_draws_areas_behind_and_lines_with_the_data() -> None:
    axes = Figure().add_subplot()
    assert axes.fill_between([0, 1], [0, 1]).get_zorder() == Depth.BEHIND
    assert axes.plot([0, 1])[0].get_zorder() == Depth.DATA


def test_rings_are_small_where_they_are_many() -> None:
    assert rings(120)["markersize"] == SAMPLE and rings(121)["markersize"] == SMALL_MARK


def test_a_stack_grows_by_its_rows_until_it_is_high_enough() -> None:
    assert stack(3, 0.2) - stack(2, 0.2) == pytest.approx(0.2)
    assert stack(1000, 0.2) == stack(2000, 0.2)


def test_limits_follow_the_data_and_curves_only_so_far() -> None:
    axes = Figure().add_subplot()
    frame(axes, [np.array([-100.0, 1.0, np.nan])], np.array([0.0, 1.0, np.nan]))
    assert axes.get_ylim() == pytest.approx((-0.3 - 0.06, 1.0 + 0.06))
    frame(axes, [np.array([3.0, 5.0])], np.zeros(0))
    assert axes.get_ylim() == pytest.approx((3.0 - 0.12, 5.0 + 0.12))


def test_a_band_ends_where_the_state_does_unless_the_curve_goes_farther() -> None:
    axes, times = Figure().add_subplot(), np.arange(3.0)
    draw_band(axes, times, times, np.full(3, np.nan), (0.0, 3.0), **LIGHT)
    assert not axes.collections
    draw_band(axes, times, times - 1.0, np.full(3, 5.0), (0.0, 3.0), **LIGHT)
    (path,) = axes.collections[0].get_paths()
    assert path.vertices[:, 1].min() == -1.0 and path.vertices[:, 1].max() == 3.0


@pytest.mark.parametrize(("runs", "colour"), [(1, COLOURS[0]), (2, MUTED)])
def test_residuals_lie_around_a_zero_line_of_the_colour_of_the_one_curve(runs: int, colour: str) -> None:
    axes = Figure().add_subplot()
    frame_residuals(axes, [np.array([0.5, -2.0, np.nan])] * runs)
    low, high = axes.get_ylim()
    assert -low == high > 2.0
    assert axes.lines[0].get_color() == colour and axes.lines[0].get_linewidth() == LINE["lw"]
    frame_residuals(axes, [np.full(2, np.nan)])
    assert axes.get_ylim()[1] > 1.0


def test_numbers_of_an_axis_are_plain_where_they_are_short() -> None:
    written = [power_of_ten(value) for value in (1e-4, 5e-4, 1e-3, 0.2, 5000.0, 1e4, 3e4)]
    assert written == ["10⁻⁴", "5·10⁻⁴", "0.001", "0.2", "5000", "10⁴", "3·10⁴"]
