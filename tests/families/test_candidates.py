"""Candidate terms: few where states are many, usable along the path of the data."""

import numpy as np
import pytest
from problems import series_of

from odediscovery import Equations
from odediscovery.families import FAMILIES, STATE_FUNCTIONS, TRIGONOMETRIC, Function
from odediscovery.families.base import MAX_COARSE, MAX_PAIRS, MAX_TRIPLES, Seen, powers_of, products
from odediscovery.families.sums import SUMS
from odediscovery.laws.compiled import Graph
from odediscovery.laws.power_sum import Features
from odediscovery.problem.problem import prepare
from odediscovery.stages.integral_form import Integral, Product


def integral(family, signs=False):
    """The integral form of a small series, for the features of a family."""
    law = Equations.parse(["x", "y"], {"x": "1 - x", "y": "0.3*x - 0.2*y"}).power_sum
    p = prepare(series_of(law, np.array([[0.1, 2.0]]), [np.linspace(0.0, 12.0, 60)]))
    integer = np.full(2, signs)
    features = Features(2, family.features(~integer, ~integer, p.scale.state))
    return Integral.of(p.data, p.noise, family.whole(integer), features)


@pytest.mark.parametrize(("states", "largest"), [(8, 3), (9, 3), (36, 2), (200, 1)])
def test_candidates_stay_few_where_states_are_many(states, largest):
    changing = np.ones(states, dtype=bool)
    factors = np.count_nonzero(powers_of(~changing, changing), axis=1)
    assert np.count_nonzero(factors == 1) == 10 * states and factors.max() == largest
    assert np.count_nonzero(factors > 1) <= (MAX_PAIRS + MAX_TRIPLES if states < 10 else MAX_COARSE)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_every_family_proposes_terms_over_its_features(family):
    problem, every = integral(family), np.ones(2, dtype=bool)
    path = problem.interpolated()
    for vocabulary in family.vocabularies:
        shapes = vocabulary(Seen(problem.features.functions, family.functions, ~every, every, path.monomials))
        terms = [Product.of(shape, problem.features.size) for shape in shapes]
        assert len(terms) > 1 and all(np.isfinite(t.values(path)).all() for t in terms)
        assert family.sums or not any(len(t.sums) for t in terms)
    assert {f.name for f in problem.features.functions} == {f.name for f in family.functions if not f.of_signs}


def test_names_of_families_and_functions_differ():
    assert len({family.name for family in FAMILIES}) == len(FAMILIES)
    assert all(f is STATE_FUNCTIONS[f.name] for family in FAMILIES for f in family.functions)


def test_only_states_that_are_positive_have_logarithms():
    found = SUMS.features(np.array([True, False]), np.array([True, True]), np.array([2.0, 3.0]))
    assert [(f.name, f.state, f.rate) for f in found if f.name in ("log", "exp")] == [
        ("exp", 0, 1.0),
        ("log", 0, 2.0),
        ("exp", 1, 1.0),
    ]


def test_only_states_that_change_sign_have_sizes():
    found = SUMS.features(np.array([True, False]), np.array([True, True]), np.array([2.0, 3.0]))
    assert [(f.state, f.rate) for f in found if f.name == "Abs"] == [(1, 3.0)]


def test_sums_are_over_products_that_stay_positive():
    problem, every = integral(SUMS), np.ones(2, dtype=bool)
    monomials = problem.interpolated().monomials
    seen = Seen(problem.features.functions, SUMS.functions, ~every, every, monomials)
    inside = [shape.inside for shape in SUMS.vocabularies[0](seen) if len(shape.power)]
    assert inside and all(monomials(rows).min() > 0.0 for rows in inside)


@pytest.mark.parametrize("name", STATE_FUNCTIONS)
def test_a_function_says_the_same_everywhere(name):
    f, z = STATE_FUNCTIONS[name], np.linspace(0.3, 1.9, 9)
    np.testing.assert_allclose(f.value(z), [f.plain(float(x)) for x in z], rtol=1e-14)
    step = 1e-6
    np.testing.assert_allclose(f.slope(np, z), (f.value(z + step) - f.value(z - step)) / (2 * step), rtol=1e-8)


@pytest.mark.parametrize("name", STATE_FUNCTIONS)
def test_laws_with_a_function_are_compiled(name):
    graph = Graph()
    x = graph.x(0)
    slope = graph.compiled([graph.slope(graph.function(name, x), x)], 0, 1)
    z = np.linspace(0.3, 1.9, 9)
    np.testing.assert_allclose(slope(z)[0], STATE_FUNCTIONS[name].slope(np, z), rtol=1e-12)


def test_products_of_many_functions_stay_few():
    states = 100
    sines = tuple(Function("sin", k) for k in range(states))
    changing = np.ones(states, dtype=bool)
    terms = products(Seen(sines, TRIGONOMETRIC.functions, changing, changing, lambda rows: rows))
    assert len(terms) <= 1 + 10 * 2 * states + MAX_COARSE
