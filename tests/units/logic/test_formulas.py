"""Formulas: how they are written, said and evaluated."""

from __future__ import annotations

import pytest
import sympy

from odediscovery.units.logic.formulas import Formula, atom, connect

X, Y, Z = atom("x"), atom("y"), atom("z")


def test_formulas_are_values() -> None:
    assert (atom("x") & Y) == (X & Y) and (X & Y) != (Y & X)
    assert ((X & Y) >> (X & Y)).nodes() == [X, Y, X & Y, (X & Y) >> (X & Y)]
    assert ((X & ~Y) | X).atoms() == ["x", "y"]


def test_they_are_said_in_words() -> None:
    assert str((X & ~Y) >> Z) == "(x and not y) implies z"
    assert str(connect("not", X, Y)) == "none of x, y"
    assert str(connect("implies", X, Y, Z)) == "(x and y) implies z"
    assert str(connect("and", X, Y, Z, weights=[1.0, 0.5, 0.0])) == "x and 0.5 y"


def test_the_truth_of_a_formula_is_that_of_its_connectives() -> None:
    formula = connect("or", X & Y, ~Z, weights=[0.5, 1.0], bias=1.1)
    # 1 - 1.1 + 0.5 * max(0, 0.8 + 0.7 - 1) + (1 - 0.6)
    assert formula.truth({"x": 0.8, "y": 0.7, "z": 0.6}) == pytest.approx(-0.1 + 0.25 + 0.4)


def test_the_classical_formula() -> None:
    x, y, z = sympy.symbols("x y z")
    assert sympy.simplify_logic(((X & ~Y) >> Z).snapped()) == sympy.simplify_logic(~x | y | z)
    dropped = connect("and", X, Y, Z, weights=[1.2, 1.1, 0.0], bias=1.1)
    assert dropped.snapped() == x & y
    assert dropped.with_weights([1.0, 1.0, 1.0], 1.0).snapped() == x & y & z


@pytest.mark.parametrize(
    ("word", "parts", "weights", "message"),
    [
        ("xor", (X, Y), None, "one of and, or, not, implies, got 'xor'"),
        ("implies", (X,), None, "connects at least 2 formulas, got 1"),
        ("and", (), None, "connects at least 1 formulas, got 0"),
        ("and", (X, Y), [1.0], "expected 2 weights"),
        ("and", (X, Y), [1.0, -1.0], "at least 0"),
    ],
)
def test_what_is_no_formula_is_refused(
    word: str, parts: tuple[Formula, ...], weights: list[float] | None, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        connect(word, *parts, weights=weights)
