"""What pictures share: scales whose steps say what they are, bands, axes of residuals, powers of ten."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from matplotlib.figure import Figure

from odediscovery.plots import theme
from odediscovery.plots.pieces import draw_band, draw_legend, frame_residuals, power_of_ten
from odediscovery.plots.theme import COLOURS, LIGHT, LINE, MARKS, MUTED, SIZES, Depth, rings
from odediscovery.runtime.thresholds import Thresholds

SCALES = [theme.STROKES, theme.MARKS, theme.LETTERS, theme.SHADES, theme.ROOM, theme.TICKS, theme.SIZES]


@pytest.mark.parametrize("scale", SCALES, ids=lambda scale: type(scale).__name__)
def test_a_scale_says_what_its_steps_are_and_is_none_of_the_engine(scale: object) -> None:
    assert dataclasses.is_dataclass(scale) and not isinstance(scale, Thresholds)
    for step in dataclasses.fields(scale):
        assert step.metadata["says"] and step.metadata["origin"], step.name
        assert step.default > 0


def test_strokes_marks_and_letters_go_up_in_steps() -> None:
    assert theme.STROKES.hair < theme.STROKES.line < theme.STROKES.curve
    sizes = [MARKS.small, MARKS.sample, MARKS.point, MARKS.named, MARKS.chosen]
    assert sizes == sorted(set(sizes))
    letters = list(dataclasses.astuple(theme.LETTERS))
    assert letters == sorted(set(letters))


def test_matplotlib_draws_areas_behind_and_lines_with_the_data() -> None:
    axes = Figure().add_subplot()
    assert axes.fill_between([0, 1], [0, 1]).get_zorder() == Depth.BEHIND
    assert axes.plot([0, 1])[0].get_zorder() == Depth.DATA


def test_rings_are_small_where_they_are_many() -> None:
    assert rings(MARKS.many)["markersize"] == MARKS.sample
    assert rings(MARKS.many + 1)["markersize"] == MARKS.small


def test_a_stack_grows_by_its_rows_until_it_is_high_enough() -> None:
    assert SIZES.stack(3, 0.2) - SIZES.stack(2, 0.2) == pytest.approx(0.2)
    assert SIZES.stack(1000, 0.2) == SIZES.most


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
    frame_residuals(axes, [np.array([0.5, -2.0, np.nan])] * runs, "residual")
    low, high = axes.get_ylim()
    assert -low == high > 2.0
    assert axes.lines[0].get_color() == colour and axes.lines[0].get_linewidth() == LINE["lw"]


def test_residuals_of_nothing_have_an_axis_all_the_same() -> None:
    axes = Figure().add_subplot()
    frame_residuals(axes, [np.full(2, np.nan)], "residual")
    assert axes.get_ylim()[1] > 1.0


def test_numbers_of_an_axis_are_plain_where_they_are_short() -> None:
    written = [power_of_ten(value) for value in (1e-4, 5e-4, 1e-3, 0.2, 5000.0, 1e4, 3e4)]
    assert written == ["10⁻⁴", "5·10⁻⁴", "0.001", "0.2", "5000", "10⁴", "3·10⁴"]


@pytest.mark.parametrize(("label", "columns"), [("short", 2), ("long " * 10, 1), ("two\n" * 20, 2)])
def test_a_legend_of_long_labels_has_one_column(label: str, columns: int) -> None:
    figure = Figure()
    axes = figure.subplots()
    for name in (f"{label} a", f"{label} b"):
        axes.plot([0.0], [0.0], label=name)
    draw_legend(figure, axes)
    assert figure.legends[0]._ncols == columns
