"""A library of terms written as text: which powers and functions they are, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from odediscovery.errors import InputError
from odediscovery.families import Function
from odediscovery.knowledge.library import _factors, term_library


@pytest.mark.parametrize(
    ("term", "factors"),
    [
        ("x*y^2", {("", 0, 1.0): 1.0, ("", 1, 1.0): 2.0}),
        ("y/x", {("", 0, 1.0): -1.0, ("", 1, 1.0): 1.0}),
        ("sqrt(x)", {("", 0, 1.0): 0.5}),
        ("sin(2*x)/y", {("sin", 0, 2.0): 1.0, ("", 1, 1.0): -1.0}),
        ("exp(-0.5*y)", {("exp", 1, -0.5): 1.0}),
        ("cos(x)^2", {("cos", 0, 1.0): 2.0}),
        ("1", {}),
    ],
)
def test_a_term_is_a_product_of_powers_of_states_and_functions(term: str, factors: dict[object, float]) -> None:
    assert _factors(["x", "y"], term) == factors


@pytest.mark.parametrize(
    ("term", "says"),
    [
        ("2*x", "leave it out"),
        ("x^y", "fixed exponents"),
        ("sin(x*y)", "functions of one state"),
        ("sin(x + 1)", "functions of one state"),
        ("x + y", "functions of one state"),
    ],
)
def test_what_is_no_such_product_is_refused(term: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        term_library("own", ["x", "y"], [term])


def test_functions_are_placed_once_and_rows_have_their_powers() -> None:
    family = term_library("waves", ["x", "y"], ["x*sin(2*y)", "sin(2*y)^2", "sin(y)"])
    assert family.placed == (Function("sin", 1, 2.0), Function("sin", 1, 1.0))
    assert np.size(family.placed, 0) == 2
