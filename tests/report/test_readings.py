"""Every term of every kind of law is typeset and told in words that are right."""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from markupsafe import Markup
from pages import PAGES, functions

from odediscovery.laws.equations import Equations
from odediscovery.laws.power_sum import PowerSum
from odediscovery.report.mathml import MAX_SIDE_SIZE, equation_rows, name_mathml, sides, size
from odediscovery.report.readings import readings

POSITIVE = np.array([[1.0, 2.0], [3.0, 0.5]])
SIGNED = np.array([[1.0, -2.0], [-3.0, 0.5]])


def words(text: str, visited: np.ndarray = POSITIVE, of: str = "x", **options: object) -> list[str]:
    """The readings of one equation over x and y."""
    texts = {"x": "0", "y": "0", of: text}
    law = Equations.parse(["x", "y"], texts, **options)  # type: ignore[arg-type]
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
def test_terms_in_words(text: str, sentence: str) -> None:
    visited = np.array([[1.0, 2.0], [0.5, 0.5]])
    assert words(text, visited) == [sentence]


def test_paces_are_half_lives_and_doublings() -> None:
    assert words("-0.05*x") == ["x falls in proportion to itself: alone, this would halve it in 13.9 units of t."]
    assert words("0.1*x", units={"t": "days"}) == [
        "x grows in proportion to itself: alone, this would double it in 6.93 days."
    ]


def test_signs_of_states_turn_growth_round() -> None:
    assert words("2*y", SIGNED) == ["x rises while y is positive and falls while it is negative, in proportion to it."]
    assert words("-2*y", SIGNED) == ["x falls while y is positive and rises while it is negative, in proportion to it."]
    assert words("-2*y", -POSITIVE) == ["x grows in proportion to y, which is negative."]
    assert words("-2*y**2", SIGNED) == ["x falls in proportion to the square of y."]
    assert words("-2*x", SIGNED)[0].startswith("x is drawn back to 0 in proportion to itself")
    assert words("2*x", SIGNED)[0].startswith("x is driven away from 0 in proportion to itself")


def test_an_overshoot_of_the_integrator_is_no_sign() -> None:
    assert words("2*y", np.array([[1.0, 5.0], [1.0, -1e-9]])) == ["x grows in proportion to y."]


def flows(gain: float, error: float) -> list[str]:
    """Readings of x' = -0.5 x y, y' = gain x y with a standard error of both."""
    w = np.array([[1.0, 1.0]])
    law = PowerSum(np.array([[-0.5], [gain]]), w)
    errors = PowerSum(np.full((2, 1), error), 0.0 * w)
    equations = Equations.from_power_sum(["x", "y"], law, standard_errors=errors)
    return [str(row[0].striptags()) for row in readings(equations, POSITIVE)]


def test_what_leaves_here_arrives_there() -> None:
    assert flows(0.5, 1e-3) == [
        "x falls in proportion to x⋅y. What x loses here, y gains.",
        "y grows in proportion to x⋅y. It is what x loses.",
    ]
    # Equal within wide errors is not equal, nor is nearly equal beyond narrow ones.
    assert "loses" not in flows(0.55, 0.2)[0]
    assert "loses" not in flows(0.5005, 1e-6)[0]


@pytest.mark.parametrize("kind", PAGES)
def test_every_term_has_a_reading_and_a_formula(kind: str) -> None:
    found = PAGES[kind]()
    equations, n = found.equations, len(found.equations.variables)
    told = readings(equations, np.ones((3, n)))
    for side, (left, terms), own in zip(sides(equations), equation_rows(equations), told, strict=True):
        assert len(own) == len(side) or size(side) > MAX_SIDE_SIZE
        assert len(terms) == max(len(side), 1) or size(side) > MAX_SIDE_SIZE
        for formula in (left, *terms):
            ElementTree.fromstring(str(formula))


def test_numbers_of_formulas_are_those_of_the_text() -> None:
    found = PAGES["fsir"]()
    for (_, terms), row in zip(equation_rows(found.equations), found.equations_text().splitlines(), strict=True):
        for number in re.findall(r"[\d.]+\(\d+\)", row):
            assert number in Markup("").join(terms).striptags()


def test_constants_that_are_not_told_and_those_with_more_digits_stand_as_in_the_text() -> None:
    law = PowerSum(np.array([[-0.5, 0.222]]), np.array([[1.0], [2.0 / 3.0]]))
    errors = PowerSum(np.array([[0.01, 78.0]]), np.zeros((2, 1)))
    equations = replace(Equations.from_power_sum(["x"], law, standard_errors=errors), spare=2)
    assert equations.pretty() == "x' = 0.222(?)*x^(2/3) - 0.50000(1000)*x"
    ((_, terms),) = equation_rows(equations)
    assert [Markup(term).striptags() for term in terms] == ["0.222(?)x2/3", "\N{MINUS SIGN}0.50000(1000)x"]


def test_formulas_have_roots_fractions_and_functions() -> None:
    (_, first), (_, second) = equation_rows(functions().equations)
    assert "<mi>v</mi>" in first[0]
    whole = "".join(map(str, second))
    assert "<mfrac>" in whole and "<mi>sin</mi>" in whole and "<mi>exp</mi>" in whole
    held = Equations.parse(["S", "I"], {"S": "-0.06*S**0.5*I**0.5", "I": "2/(1 + S)"})
    (_, root), (_, fraction) = equation_rows(held)
    assert "<msqrt><mi>S</mi><mspace" in root[0]
    assert "<mfrac>" in fraction[0] and "(" not in fraction[0]


def test_names_become_letters_indices_or_stay() -> None:
    assert name_mathml("beta") == "<mi>β</mi>" and name_mathml("Lambda") == "<mi>Λ</mi>"
    assert name_mathml("x_12") == "<msub><mi>x</mi><mn>12</mn></msub>"
    assert name_mathml("beta") == name_mathml("β")
    assert name_mathml("<b>") == "<mi>&lt;b&gt;</mi>"
    assert name_mathml("1978") == "<mi>1978</mi>"
