"""Statements, terms and units of a user: read, or refused with the place."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from odediscovery import Equations, InputError, TimeSeries, discover, settings_for, term_library
from odediscovery.families import Function
from odediscovery.knowledge.constraints import knowledge
from odediscovery.knowledge.dimensions import (
    check_dimensions,
    joined,
    read_unit,
    unit_text,
    units_of_constants,
    units_of_names,
)

SIR = ["S", "I", "R"]


@pytest.mark.parametrize(
    ("text", "terms", "more"),
    [
        ("h' = -v", [(-1, [0, 1])], False),
        ("v' = 9.81 + ?", [(9.81, [0, 0])], True),
        ("v' = 2 + ? - h**0.5/v", [(2, [0, 0]), (-1, [0.5, -1])], True),
        ("v' = (h + 2)*v + sqrt(v)", [(1, [1, 1]), (2, [0, 1]), (1, [0, 0.5])], False),
    ],
)
def test_known_sides_are_read(text: str, terms: list[Any], more: bool) -> None:
    given = knowledge(["h", "v"], known=[text])
    side = next(k for k in given.known if k is not None)
    found = zip(side.coefficients.sum(axis=0).tolist(), side.exponents.tolist(), strict=True)
    assert sorted(found) == sorted(terms) and given.more.any() == more


PRODUCTS = "expected a sum of products of powers (at most 500, no functions such as sin for now)"
MARK, FORM = "expected ? once and as a summand, as in 9.81 + ?", "expected a state, ' and ="
WEIGHTED = "expected a weighted sum of states such as S + 2*I"
RANGE = "expected two numbers, the smaller first, as in exponents 0..2"
UNKNOWN = "unknown name 'Q': Known: S, I, R"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("option", "text", "place", "reason"),
    [
        ("known", "S = -I", 3, FORM),
        ("known", " s' = 3", 2, "unknown state 's': did you mean 'S'? Known: S, I, R"),
        ("known", "S' = sin(I)*2 + S", 6, PRODUCTS),
        ("known", "S' = (S + I)**400", 6, PRODUCTS),
        ("known", "S' = (1e200*S + 1e200*I)**2", 6, PRODUCTS),
        ("known", "S' = S*+?", 9, MARK),
        ("known", "S' = S*?", 8, MARK),
        ("known", "S' = 1e+?", 8, "invalid decimal literal"),
        ("known", "S' = 3 # S", 8, "invalid syntax"),
        ("known", "S' = I + Q", 10, UNKNOWN),
        ("known", "S' = S + 1e999", 10, "a number beyond the range"),
        ("conserve", "", 1, WEIGHTED),
        ("conserve", "  S - I**2", 7, WEIGHTED),
        ("conserve", "0*S", 1, "expected a weight other than 0"),
        ("forbid", "S:", 3, "expected a state"),
        ("forbid", "S: I R", 4, "unknown state 'I R'"),
        ("bounds", "2..0", 1, RANGE),
    ],
)
def test_errors_say_what_and_where(option: str, text: str, place: int, reason: str) -> None:
    shown = text if len(text) <= 60 else f"{text[:57]}..."
    with pytest.raises(InputError) as caught:
        knowledge(SIR, **{option: text if option == "bounds" else [text]})  # type: ignore[arg-type]
    assert str(caught.value).startswith(f"cannot read {shown!r} at character {place}: {reason}")
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 300


def test_names_that_need_another_spelling_are_told() -> None:
    with pytest.raises(InputError, match=r"character 12: invalid syntax; 'x y' is written x_y"):
        knowledge(["x y"], known=["x y' = 2*x y"])


pieces = st.sampled_from([*"SIRQ?'=:+-*/().,#$\\ 019e\n\0", "**", "..", "sin(", "x y", "lambda"])
valid = st.sampled_from(["S' = -0.5*S*I + ? - 1", "S + 2*I - R = 763", "S: I, R", "exponents 0..2"])


@st.composite
def mutated(draw: st.DrawFn) -> str:
    text = draw(valid)
    for _ in range(draw(st.integers(1, 4))):
        at, width = draw(st.integers(0, len(text))), draw(st.integers(0, 3))
        text = text[:at] + draw(pieces) * draw(st.sampled_from([1, 1, 1, 3000])) + text[at + width :]
    return text


@pytest.mark.slow
@given(st.one_of(st.text(), mutated()))
@example("S' = " + "S+" * 4990).via("a long sum")
@example("S' = " + "(" * 9990).via("deep")
@example("S' = " + " " * 9980 + "q").via("blanks")
@example("S' = " + "S+" * 440 + "sin(S)+" * 1200 + "S").via("many functions")
@settings(max_examples=150, deadline=None)
def test_hostile_texts(text: str) -> None:
    for option, given_text in (
        ("known", [text]),
        ("known", [f"S' = {text}"]),
        ("conserve", [text]),
        ("forbid", [text]),
        ("forbid", [f"S: {text}"]),
        ("bounds", text),
    ):
        start = time.perf_counter()
        try:
            knowledge(SIR, **{option: given_text}).sentences()  # type: ignore[arg-type]
        except InputError as error:
            assert len(str(error)) < 1000
        assert time.perf_counter() - start < 5.0


def test_terms_become_features_and_exponents() -> None:
    family = term_library("waves", ["x", "y"], ["1", "x", "x*sin(2*y)^2/y", "exp(-0.5*x)"])
    assert family.placed == (Function("sin", 1, 2.0), Function("exp", 0, -0.5))
    scaled = family.features(np.array([True, True]), np.array([True, True]), np.array([10.0, 3.0]))
    assert [f.rate for f in scaled] == [6.0, -5.0]


@pytest.mark.parametrize(
    ("term", "complaint"),
    [
        ("2*x", "coefficients are fitted"),
        ("x + y", "powers of states and of functions of one state"),
        ("sin(x*y)", "powers of states and of functions of one state"),
        ("x^y", "fixed exponents"),
        ("tan(x)", "unknown function 'tan'"),
        ("q", "unknown"),
        ("__import__('os')", "unknown function '__import__'"),
    ],
)
def test_what_is_no_term_is_refused(term: str, complaint: str) -> None:
    with pytest.raises(InputError, match="(?s)" + complaint.replace("(", "[(]")):
        term_library("mine", ["x", "y"], [term])


@pytest.mark.parametrize(
    ("written", "powers"),
    [
        ("g/L", {"g": 1, "L": -1}),
        ("kg*m^2/s**3", {"kg": 1, "m": 2, "s": -3}),
        ("L/(g h)", {"L": 1, "g": -1, "h": -1}),
        ("1/days", {"day": -1}),
        ("10^3 cells", {"(10^3 cells)": 1}),
    ],
)
def test_units_are_read_as_powers_of_words(written: str, powers: dict[str, float]) -> None:
    assert read_unit(written) == powers
    again = unit_text(read_unit(written))
    assert again is not None
    assert len(joined((read_unit(again), 1.0), (read_unit(written), -1.0))) <= (2 if "10" in written else 0)


def test_a_coefficient_has_the_unit_that_its_term_lacks() -> None:
    law = Equations.parse(
        ["S", "I"], {"S": "-0.1*S**0.5*I", "I": "0.1*I + 2"}, units={"S": "g/L", "I": "mol", "t": "h"}
    )
    found = units_of_constants(law)
    assert [unit for unit in found["S"] if unit != "1"] == ["g^0.5/(L^0.5 h mol)"]
    assert {unit for unit in found["I"]} == {"1/h", "mol/h", "1"}


def test_units_of_named_constants_follow_from_the_form() -> None:
    lines = ["prey' = r*prey*(1 - prey/K) - a*prey*pred/(1 + b*prey)", "pred' = e*prey*pred - m*pred"]
    units = {"prey": "g", "pred": "kg", "t": "days"}
    found = units_of_names(lines, ["r", "K", "a", "b", "e", "m"], ["prey", "pred"], "t", units)
    assert found == ["1/day", "g", "1/(day kg)", "1/g", "1/(day g)", "1/day"]
    assert units_of_names(["x' = k*x^p"], ["k", "p"], ["x"], "t", {"x": "g", "t": "h"}) == [None, "1"]
    assert units_of_names(["x' = x + k"], ["k"], ["x"], "t", {"x": "g", "t": "h"}) == [None]


@pytest.mark.slow
def test_statements_whose_units_differ_are_refused() -> None:
    pytest.importorskip("pint")
    fall = knowledge(["h", "v"], known=["h' = -v"])
    check_dimensions(fall, "t", {"h": "m", "v": "m/s", "t": "s"})
    check_dimensions(fall, "t", {"h": "km", "v": "m/ms", "t": "s"})
    check_dimensions(fall, "t", {"h": "m", "t": "s"})
    with pytest.raises(InputError, match=r"km/h, where the equation has m/s: write the factor 0\.2777777778"):
        check_dimensions(fall, "t", {"h": "m", "v": "km/h", "t": "s"})
    with pytest.raises(InputError, match="no units of the same kind"):
        check_dimensions(fall, "t", {"h": "m", "v": "kg", "t": "s"})
    with pytest.raises(InputError, match="a conserved sum has a state of unit kg, where another has g: write the fac"):
        check_dimensions(knowledge(["S", "I"], conserve=["S + I"]), "t", {"S": "g", "I": "kg"})
    # A number that was written may have any unit.
    check_dimensions(knowledge(["v", "h"], known=["v' = 9.81 + ?"]), "t", {"v": "m/s", "t": "s"})


def test_a_fit_refuses_a_statement_that_its_units_contradict() -> None:
    pytest.importorskip("pint")
    t = np.linspace(0, 2, 20)
    series = TimeSeries.from_arrays(
        t, np.column_stack([20 - 5 * t**2, 10 * t]), ["h", "v"], units={"h": "m", "v": "km/h", "t": "s"}
    )
    with pytest.raises(InputError, match="write the factor"):
        discover(series, settings_for(known=["h' = -v"], members=0))
