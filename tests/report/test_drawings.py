"""The parts of a page: drawings as SVG and tables, of results whose numbers are known."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pages
import pytest
from faces import discovery
from matplotlib import rc_context

from odediscovery.data.series import TimeSeries
from odediscovery.laws.equations import Equations
from odediscovery.plots.figures import COLOURS
from odediscovery.report.chain import network_svg
from odediscovery.report.curves import drawn_runs, fit_panel, left_out, ring, with_unit
from odediscovery.report.drawing import DRAWN, inline, limited, logarithmic, panel
from odediscovery.report.forecast import forecast_of, forecast_panels, forecast_rows
from odediscovery.report.front import front
from odediscovery.report.portraits import portraits
from odediscovery.report.tables import between, constant_rows, stability_rows, start_rows
from odediscovery.result.discovery import Discovery


def decay() -> Discovery:
    t = np.linspace(0.0, 4.0, 9)
    series = TimeSeries.from_arrays(t, 2.0 * np.exp(-0.5 * t), ["x"], units={"x": "g"})
    return pages.told(series, Equations.parse(["x"], {"x": "-0.5*x"}), [[2.0]])


def test_limits_follow_the_data_and_curves_only_so_far() -> None:
    with rc_context(DRAWN):
        _, (axes,) = panel()
        limited(axes, [np.array([-100.0, 1.0, np.nan])], np.array([0.0, 1.0, np.nan]))
        assert axes.get_ylim() == pytest.approx((-0.5 - 0.06, 1.0 + 0.06))
        limited(axes, [np.array([3.0, 5.0])], np.zeros(0))
        assert axes.get_ylim() == pytest.approx((3.0 - 0.12, 5.0 + 0.12))


def test_a_drawing_takes_its_colours_from_the_page_and_keeps_its_names_to_itself() -> None:
    with rc_context(DRAWN):
        figure, (top, below) = panel(below=0.8)
        top.plot([1.0, 2.0], [1e3, 1e7], color=COLOURS[0], gid="row-3")
        logarithmic(top)
        below.set_xlabel("$x$ & <y>")
        svg = inline(figure, "own", "what is seen", ["wide"], shown=3)
    assert svg.startswith("<svg") and 'aria-label="what is seen"' in svg and 'class="drawing wide"' in svg
    assert "var(--c0)" in svg and 'class="row on"' in svg and 'data-row="3"' in svg
    assert "$x$ &amp; &lt;y&gt;" in svg and "10⁵" in svg
    assert all(name.startswith("own-") for name in re.findall(r' id="([^"]+)"', svg))


def test_curves_pass_through_the_samples_that_are_drawn() -> None:
    found = decay()
    (drawn,) = drawn_runs(found)
    np.testing.assert_allclose(drawn.fitted, drawn.points, rtol=1e-6)
    assert left_out(found.series, [drawn]) == "" and with_unit(found.series, "x") == "x [g]"
    assert ring(1, 0, 121)["markersize"] < ring(1, 0, 120)["markersize"]
    assert "residual" in fit_panel(found, [drawn], 0)


def test_what_is_not_drawn_is_said() -> None:
    found = pages.wide()
    runs = drawn_runs(found)
    assert len(runs) == 6
    assert left_out(found.series, runs) == "Drawn are the first 12 of 24 states, and 6 of 9 trajectories."


def test_rows_of_the_front_are_sorted_and_the_chosen_one_is_shown() -> None:
    found = decay()
    row = found.front[0]
    rows = (dataclasses.replace(row, complexity=9, selected=False, initial_values=np.array([[1.0]])), row)
    shown = front(dataclasses.replace(found, front=rows), drawn_runs(found))
    assert [r.complexity for r in shown.rows] == [row.complexity, 9] and shown.chosen == 0
    assert not shown.borrowed and [name for name, _ in shown.panels] == ["x"]
    assert 'class="row on" data-row="0"' in shown.panels[0][1] and 'class="row" data-row="1"' in shown.panels[0][1]


def test_portraits_begin_with_the_states_that_act_on_each_other() -> None:
    found = discovery()
    drawn = portraits(found, drawn_runs(found))
    assert drawn[0].of == ("S", "I") and {p.of for p in drawn} == {("S", "I"), ("S", "R"), ("I", "R")}
    (single,) = portraits(decay(), drawn_runs(decay()))
    assert single.of == ("x",) and "rate of x" in single.svg


def test_a_network_is_drawn_with_its_exponents_and_factors() -> None:
    svg = network_svg(pages.complex_units())
    assert svg is not None and "dS/dt" in svg
    # Exponents 0.5, 0.5 and 1 behind gates of 1, 0.4 and 0.4; the one behind a gate of 0 is not there.
    numbers = re.findall(r">(−?[0-9.]+)<", svg)
    assert sorted(numbers) == sorted(["0.5", "0.2", "0.4", "−1", "1", "−0.5", "0.5"])
    assert network_svg(decay()) is None and network_svg(pages.dense()) is None


def test_a_forecast_goes_on_from_the_data_unless_it_starts_elsewhere() -> None:
    found = decay()
    ahead = forecast_of(found, np.array([0.0, 8.0]))
    assert ahead.goes_on and ahead.half is None and "covariance" in ahead.notes[0]
    rows = forecast_rows(found, ahead)
    assert [when for when, _ in rows] == ["0", "8"] and rows[1][1] == [("0.03663", "")]
    other = forecast_of(found, np.array([0.0, 2.0]), {"x": 4.0})
    assert not other.goes_on and other.values[-1, 0] == pytest.approx(4.0 * np.exp(-1.0), rel=1e-7)
    assert [name for name, _ in forecast_panels(found, other)] == ["x"]


@pytest.mark.slow
def test_tables_give_values_to_the_place_of_their_error() -> None:
    found = pages.fitted()
    first, second, power = constant_rows(found)["biomass"]
    assert (power.value, power.error) == ("2", "held")
    assert first.what.startswith("factor of <math>") and first.error == first.error.strip()
    assert float(first.value) == pytest.approx(0.55, abs=0.02) and " to " in first.interval
    assert "×" in second.value or float(second.value.replace("−", "-")) < 0
    assert between(None, 0.1) == "" and between([0.123, 0.456], 0.01) == "0.123 to 0.456"
    ((label, time, (start,)),) = start_rows(found)
    assert (label, time) == ("", "0") and start.what == "<var>biomass</var>"
    assert [(s.share, s.printed) for s in stability_rows(found)["biomass"]] == [
        (1.0, True),
        (0.98, True),
        (0.04, False),
    ]
    assert stability_rows(decay()) == {}
    held = [row for row in constant_rows(pages.functions())["v"] if row.error == "held"]
    assert held and all(row.interval == "" for row in held)
