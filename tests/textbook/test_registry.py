"""The registry of textbook laws: every entry is a law that can be read, integrated and named."""

import runpy
from pathlib import Path

import numpy as np
import pytest

from odediscovery.errors import InputError
from odediscovery.textbook.registry import TEXTBOOK, find, orders, table, template


@pytest.mark.parametrize("law", TEXTBOOK, ids=lambda law: law.name)
def test_a_law_can_be_integrated(law):
    states = ["a state", "K", "r", "v"][: law.n_states]
    form, sought = law.form(states)
    assert len(states) == len(form.lines()) == len(law.lines()) == law.n_states
    assert not set(form.names) & set(states)
    assert set(sought) <= set(form.names)
    equations = form.with_constants(np.full(len(form.names), 0.3))
    assert np.isfinite(equations.rhs(np.full(law.n_states, 0.9))).all()
    assert law.called(form.names, np.full(len(form.names), 0.3)) == law.says


def test_names_are_unique():
    assert len({law.name for law in TEXTBOOK}) == len(TEXTBOOK)


def test_a_law_of_one_state_serves_several():
    form, sought = find("logistic").form(["a", "b"])
    assert form.lines() == ["a' = r1*a*(1 - a/K1)", "b' = r2*b*(1 - b/K2)"]
    assert sought == {"K1": "size a", "K2": "size b"}


def test_the_order_of_states_matters_where_the_law_says_so():
    assert len(list(orders(find("epidemic"), ["S", "I", "R"]))) == 6
    assert len(list(orders(find("competition"), ["a", "b"]))) == 1
    assert list(orders(find("gompertz"), ["a", "b"])) == []


def test_signs_make_the_name():
    law = find("lotka-volterra")
    names = law.form(["x", "y"])[0].names
    assert law.called(names, [1, 1, 1, 1]) == law.called(names, [-1, -1, -1, -1]) == law.says
    assert law.called(names, [1, -1, 1, 1]) == ""


def test_a_template_of_another_number_of_states():
    with pytest.raises(InputError, match="'lotka-volterra' is of 2 states, got 1: x"):
        template("lotka-volterra", ["x"])
    with pytest.raises(InputError, match="logistic"):
        template("logistik", ["x"])


def test_the_documentation_prints_the_registry(capsys):
    runpy.run_path(str(Path(__file__).parents[2] / "docs" / "search_page.py"))
    assert table() in capsys.readouterr().out
