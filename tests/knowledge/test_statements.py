"""Statements of a user: read, or refused with the character at which reading ends."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from odediscovery.errors import InputError
from odediscovery.knowledge.constraints import knowledge

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
    side = next(k for k in knowledge(["h", "v"], known=[text]).known if k is not None)
    found = zip(side.coefficients.tolist(), side.exponents.tolist(), strict=True)
    assert sorted(found) == sorted(terms) and side.more is more


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
