"""The parts of a page: drawings as SVG and tables, of results whose numbers are known."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pages
import pytest
from faces import discovery

from odediscovery import Discovery, Equations, TimeSeries, fit_constants
from odediscovery.plots.axes import COLOURS
from odediscovery.report.drawings import (
    correlation_drawing,
    drawn_runs,
    fits,
    front,
    groups,
    left_out,
    network,
    portraits,
    state_checks,
    svg,
)
from odediscovery.report.forecast import forecast_of, forecast_panels, forecast_rows
from odediscovery.report.words import between, constant_rows, stability_rows, start_rows


def decay() -> Discovery:
    t = np.linspace(0.0, 4.0, 9)
    series = TimeSeries.from_arrays(t, 2.0 * np.exp(-0.5 * t), ["x"], units={"x": "g"})
    return pages.told(series, Equations.parse(["x"], {"x": "-0.5*x"}), [[2.0]])


@pytest.fixture(scope="module")
def filled() -> Discovery:
    """x' = 2 - 0.5 x in noise."""
    times = np.linspace(0.0, 8.0, 40)
    noise = 0.05 * np.random.default_rng(3).standard_normal(len(times))
    series = TimeSeries.from_arrays(times, 4.0 * (1.0 - np.exp(-0.5 * times)) + noise, ["x"])
    return fit_constants(series, Equations.parse(["x"], {"x": "2.0 - 0.5*x"}), exponents=False)


def test_a_drawing_takes_its_colours_from_the_page_and_keeps_names_as_they_are() -> None:
    def draw(axes, below) -> None:  # type: ignore[no-untyped-def]
        axes.plot([1.0, 2.0], [1e3, 1e4], color=COLOURS[0], gid="row-3-on")
        axes.plot([1.0, 2.0], [2e3, 1e4], color=COLOURS[1], gid="row-4")
        below.set_xlabel('$x$ & <y> style="fill: #222222" id="row-5"')

    drawing = svg(draw, "own", "what is <seen>", below=0.8)
    assert drawing is not None and drawing == svg(draw, "own", "what is <seen>", below=0.8)
    assert drawing.startswith("<svg") and 'aria-label="what is &lt;seen&gt;"' in drawing
    assert "var(--c0)" in drawing and 'class="row on" data-row="3"' in drawing and 'class="row" data-row="4"' in drawing
    assert '>$x$ &amp; &lt;y&gt; style="fill: #222222" id="row-5"<' in drawing
    other = svg(draw, "other", "", below=0.8)
    ids = [set(re.findall(r'<\w+ id="([^"]+)"', str(one))) for one in (drawing, other)]
    assert ids[0] and not ids[0] & ids[1]
    assert svg(lambda axes: False, "nothing", "") is None


def test_curves_pass_through_the_samples_that_are_drawn() -> None:
    found = decay()
    (drawn,) = drawn_runs(found)
    np.testing.assert_allclose(drawn.residuals, 0.0, atol=1e-6)
    assert left_out(found.series, [drawn]) == ""
    ((state, measured, drawing),) = fits(found, [drawn])
    assert (state, measured) == ("x", True) and "residual" in str(drawing)


def test_rows_of_the_front_are_sorted_and_the_chosen_one_is_shown() -> None:
    found = decay()
    row = found.front[0]
    rows = (dataclasses.replace(row, complexity=9, selected=False, initial_values=np.array([[1.0]])), row)
    shown = front(dataclasses.replace(found, front=rows), drawn_runs(found)[0])
    assert [r.complexity for r in shown["rows"]] == [row.complexity, 9] and shown["chosen"] == 0
    ((name, panel),) = shown["panels"]
    assert not shown["borrowed"] and name == "x"
    assert 'class="row on" data-row="0"' in panel and 'class="row" data-row="1"' in panel
    assert 'class="mark on" data-row="0"' in shown["points"] and 'class="point" data-row="1"' in shown["points"]


def test_portraits_begin_with_the_states_that_act_on_each_other() -> None:
    found = discovery()
    drawn = portraits(found, drawn_runs(found), [])
    assert drawn[0][0] == ("S", "I") and {of for of, _ in drawn} == {("S", "I"), ("S", "R"), ("I", "R")}
    ((of, single),) = portraits(decay(), drawn_runs(decay()), [])
    assert of == ("x",) and "rate of x" in str(single)


def test_a_network_is_drawn_with_its_exponents_and_factors() -> None:
    drawing = network(pages.complex_units())
    assert drawing is not None and "dS/dt" in drawing and "imaginary exponents" in drawing
    numbers = re.findall(r">(−?[0-9.]+)<", drawing)
    assert {"0.5", "0.4", "0.05", "0.2", "−1", "1", "−0.5"} <= set(numbers)
    assert network(decay()) is None and network(pages.wide()) is None


def test_a_single_state_has_its_terms_and_residuals_but_no_rate(filled: Discovery) -> None:
    (one,) = state_checks(filled)
    assert one["state"] == "x" and len(one["terms"]) == 2
    # Its rate stands among the portraits.
    assert [title.split()[0] for title in one["drawings"]] == ["terms", "autocorrelation", "normal"]
    known = correlation_drawing(filled)
    assert known is not None and len(known["names"]) == 2 and "correlations of the constants" in known["svg"]


@pytest.mark.slow
def test_several_states_are_drawn_in_their_order_with_their_rates() -> None:
    found = discovery()
    checks = state_checks(found)
    assert [one["state"] for one in checks] == list(found.equations.states)
    assert all("rate against state" in one["drawings"] for one in checks)
    assert correlation_drawing(found) is None and groups(found) is None


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
    shares = [(s.share, s.printed) for s in stability_rows(found)["biomass"]]
    assert shares == [(1.0, True), (0.98, True), (0.04, False)]
    assert stability_rows(decay()) == {}
