"""What pictures share: bands, axes of residuals, limits, powers of ten."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure

from odediscovery.plots.axes import COLOURS, LIGHT, MUTED, draw_band, frame, frame_residuals, power_of_ten


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
    assert axes.lines[0].get_color() == colour
    frame_residuals(axes, [np.full(2, np.nan)])
    assert axes.get_ylim()[1] > 1.0


def test_numbers_of_an_axis_are_plain_where_they_are_short() -> None:
    written = [power_of_ten(value) for value in (1e-4, 5e-4, 1e-3, 0.2, 5000.0, 1e4, 3e4)]
    assert written == ["10⁻⁴", "5·10⁻⁴", "0.001", "0.2", "5000", "10⁴", "3·10⁴"]
