"""The parts of a page: terms typeset and told in words, drawings and tables."""

import dataclasses
import re
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pages
import pytest
from faces import discovery
from markupsafe import Markup
from pages import PAGES, functions

from odediscovery import Equations, TimeSeries
from odediscovery.laws.power_sum import PowerSum
from odediscovery.plots.axes import COLOURS
from odediscovery.report.drawings import (
    correlation_drawing,
    drawn_runs,
    front,
    groups,
    network,
    portraits,
    state_checks,
    svg,
)
from odediscovery.report.forecast import forecast_of, forecast_panels, forecast_rows
from odediscovery.report.mathml import MAX_SIDE_SIZE, equation_rows, name_mathml, sides, size
from odediscovery.report.readings import readings
from odediscovery.report.words import between, constant_rows, stability_rows, start_rows

POSITIVE = np.array([[1.0, 2.0], [3.0, 0.5]])
SIGNED = np.array([[1.0, -2.0], [-3.0, 0.5]])


def words(text, visited=POSITIVE, of="x", **options):
    """The readings of one equation over x and y."""
    texts = {"x": "0", "y": "0", of: text}
    law = Equations.parse(["x", "y"], texts, **options)
    return [str(one.striptags()) for one in readings(law, visited)[["x", "y"].index(of)]]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("0.2", "x grows at a constant rate."),
        ("-0.2", "x falls at a constant rate."),
        ("2*y", "x grows in proportion to y."),
        ("-2*x*y", "x falls in proportion to x⋅y."),
        ("2*x**0.5*y**0.5", "x grows in proportion to the square root of x⋅y."),
        ("-x**2", "x falls in proportion to the square of itself."),
        ("y**3", "x grows in proportion to the cube of y."),
        ("y**1.25", "x grows in proportion to y to the power 1.25."),
        ("-2/y", "x falls in inverse proportion to y."),
        ("3*y/x**2", "x grows in proportion to y, divided by the square of x."),
        ("x*y**2", "x grows in proportion to x times the square of y."),
        ("y/(1 + 0.5*y)", "x grows in proportion to y, divided by (1 + 0.5⋅y), which levels off."),
        ("1/(1 + 0.5*y)", "x grows in inverse proportion to (1 + 0.5⋅y)."),
        ("exp(-0.5*y)", "x grows in proportion to the exponential of −0.5⋅y."),
        ("-log(x)*y", "x grows in proportion to y⋅(the logarithm of x), which is negative."),
        ("sin(3*y)", "x rises while the sine of 3⋅y is positive and falls while it is negative, in proportion to it."),
        ("y**x", "x grows in proportion to y to the power of x."),
    ],
)
def test_terms_in_words(text, sentence):
    visited = np.array([[1.0, 2.0], [0.5, 0.5]])
    assert words(text, visited) == [sentence]


def test_paces_are_half_lives_and_doublings():
    assert words("-0.05*x") == ["x falls in proportion to itself: alone, this would halve it in 13.9 units of t."]
    assert words("0.1*x", units={"t": "days"})[0].endswith("alone, this would double it in 6.93 days.")


def test_signs_of_states_turn_growth_round():
    assert words("2*y", SIGNED) == ["x rises while y is positive and falls while it is negative, in proportion to it."]
    assert words("-2*y", SIGNED)[0].startswith("x falls while y is positive and rises while it is negative")
    assert words("-2*y", -POSITIVE) == ["x grows in proportion to y, which is negative."]
    assert words("-2*y**2", SIGNED) == ["x falls in proportion to the square of y."]
    assert words("-2*x", SIGNED)[0].startswith("x is drawn back to 0 in proportion to itself")
    assert words("2*x", SIGNED)[0].startswith("x is driven away from 0 in proportion to itself")
    # An overshoot of the integrator is no sign.
    assert words("2*y", np.array([[1.0, 5.0], [1.0, -1e-9]])) == ["x grows in proportion to y."]


def flows(gain, error):
    """Readings of x' = -0.5 x y, y' = gain x y with a standard error of both."""
    w = np.array([[1.0, 1.0]])
    law = PowerSum(np.array([[-0.5], [gain]]), w)
    errors = PowerSum(np.full((2, 1), error), 0.0 * w)
    equations = Equations.from_power_sum(["x", "y"], law, standard_errors=errors)
    return [str(row[0].striptags()) for row in readings(equations, POSITIVE)]


def test_what_leaves_here_arrives_there():
    assert flows(0.5, 1e-3) == [
        "x falls in proportion to x⋅y. What x loses here, y gains.",
        "y grows in proportion to x⋅y. It is what x loses.",
    ]
    # Equal within wide errors is not equal, nor is nearly equal beyond narrow ones.
    assert "loses" not in flows(0.55, 0.2)[0]
    assert "loses" not in flows(0.5005, 1e-6)[0]


@pytest.mark.parametrize("kind", PAGES)
def test_every_term_has_a_reading_and_a_formula(kind):
    found = PAGES[kind]()
    equations, n = found.equations, len(found.equations.variables)
    told = readings(equations, np.ones((3, n)))
    for side, (left, terms), own in zip(sides(equations), equation_rows(equations), told, strict=True):
        assert len(own) == len(terms) == max(len(side), 1) or size(side) > MAX_SIDE_SIZE
        for formula in (left, *terms):
            ElementTree.fromstring(str(formula))


def test_numbers_of_formulas_are_those_of_the_text():
    found = PAGES["fsir"]()
    for (_, terms), row in zip(equation_rows(found.equations), found.equations_text().splitlines(), strict=True):
        for number in re.findall(r"[\d.]+\(\d+\)", row):
            assert number in Markup("").join(terms).striptags()


def test_constants_that_are_not_told_and_those_with_more_digits_stand_as_in_the_text():
    law = PowerSum(np.array([[-0.5, 0.222]]), np.array([[1.0], [2.0 / 3.0]]))
    errors = PowerSum(np.array([[0.01, 78.0]]), np.zeros((2, 1)))
    equations = replace(Equations.from_power_sum(["x"], law, standard_errors=errors), spare=2)
    assert equations.pretty() == "x' = 0.222(?)*x^(2/3) - 0.50000(1000)*x"
    ((_, terms),) = equation_rows(equations)
    assert [Markup(term).striptags() for term in terms] == ["0.222(?)x2/3", "\N{MINUS SIGN}0.50000(1000)x"]


def test_formulas_have_roots_fractions_and_functions():
    (_, first), (_, second) = equation_rows(functions().equations)
    assert "<mi>v</mi>" in first[0]
    whole = "".join(map(str, second))
    assert "<mfrac>" in whole and "<mi>sin</mi>" in whole and "<mi>exp</mi>" in whole
    held = Equations.parse(["S", "I"], {"S": "-0.06*S**0.5*I**0.5", "I": "2/(1 + S)"})
    (_, root), (_, fraction) = equation_rows(held)
    assert "<msqrt><mi>S</mi><mspace" in root[0]
    assert "<mfrac>" in fraction[0] and "(" not in fraction[0]


def test_names_become_letters_indices_or_stay():
    assert name_mathml("beta") == "<mi>β</mi>" and name_mathml("Lambda") == "<mi>Λ</mi>"
    assert name_mathml("x_12") == "<msub><mi>x</mi><mn>12</mn></msub>"
    assert name_mathml("beta") == name_mathml("β")
    assert name_mathml("<b>") == "<mi>&lt;b&gt;</mi>"
    assert name_mathml("1978") == "<mi>1978</mi>"


def decay():
    t = np.linspace(0.0, 4.0, 9)
    series = TimeSeries.from_arrays(t, 2.0 * np.exp(-0.5 * t), ["x"], units={"x": "g"})
    return pages.told(series, Equations.parse(["x"], {"x": "-0.5*x"}), [[2.0]])


def test_a_drawing_takes_its_colours_from_the_page_and_keeps_names_as_they_are():
    def draw(axes, below):
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


def test_rows_of_the_front_are_sorted_and_the_chosen_one_is_shown():
    found = decay()
    row = found.front[0]
    rows = (dataclasses.replace(row, complexity=9, selected=False, initial_values=np.array([[1.0]])), row)
    shown = front(dataclasses.replace(found, front=rows), drawn_runs(found)[0])
    assert [r.complexity for r in shown["rows"]] == [row.complexity, 9] and shown["chosen"] == 0
    ((name, panel),) = shown["panels"]
    assert name == "x"
    assert 'class="row on" data-row="0"' in panel and 'class="row" data-row="1"' in panel
    assert 'class="mark on" data-row="0"' in shown["points"] and 'class="point" data-row="1"' in shown["points"]


def test_portraits_begin_with_the_states_that_act_on_each_other():
    found = discovery()
    drawn = portraits(found, drawn_runs(found), [])
    assert drawn[0][0] == ("S", "I") and {of for of, _ in drawn} == {("S", "I"), ("S", "R"), ("I", "R")}
    ((of, single),) = portraits(decay(), drawn_runs(decay()), [])
    assert of == ("x",) and "rate of x" in str(single)


def test_a_network_is_drawn_with_its_exponents_and_factors():
    drawing = network(pages.complex_units())
    assert drawing is not None and "dS/dt" in drawing and "imaginary exponents" in drawing
    numbers = re.findall(r">(−?[0-9.]+)<", drawing)
    assert {"0.5", "0.4", "0.05", "0.2", "−1", "1", "−0.5"} <= set(numbers)
    assert network(decay()) is None and network(pages.wide()) is None


def test_every_state_has_its_terms_and_residuals_and_where_there_are_several_its_rate():
    (one,) = state_checks(pages.fitted())
    assert one["state"] == "biomass" and len(one["terms"]) == 2
    # The rate of a single state stands among the portraits.
    assert [title.split()[0] for title in one["drawings"]] == ["terms", "autocorrelation", "normal"]
    known = correlation_drawing(pages.fitted())
    assert known is not None and len(known["names"]) == 2 and "correlations of the constants" in known["svg"]
    found = discovery()
    checks = state_checks(found)
    assert [one["state"] for one in checks] == list(found.equations.states)
    assert all("rate against state" in one["drawings"] for one in checks)
    assert correlation_drawing(found) is None and groups(found) is None


def test_a_forecast_goes_on_from_the_data_unless_it_starts_elsewhere():
    found = decay()
    ahead = forecast_of(found, np.array([0.0, 8.0]))
    assert ahead.goes_on and ahead.half is None and "covariance" in ahead.notes[0]
    rows = forecast_rows(found, ahead)
    assert [when for when, _ in rows] == ["0", "8"] and rows[1][1] == [("0.03663", "")]
    other = forecast_of(found, np.array([0.0, 2.0]), {"x": 4.0})
    assert not other.goes_on and other.values[-1, 0] == pytest.approx(4.0 * np.exp(-1.0), rel=1e-7)
    assert [name for name, _ in forecast_panels(found, other)] == ["x"]


def test_tables_give_values_to_the_place_of_their_error():
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
