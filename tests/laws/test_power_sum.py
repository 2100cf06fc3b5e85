"""Sums of products of powers as numbers, what they cost, and their compiled rates and slopes."""

import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import FSIR

from odediscovery.families import Function, StateFunction
from odediscovery.laws.compiled import (
    FUNCTIONS,
    Graph,
    GraphFunction,
    compiled_law,
    form_of_expressions,
    point_field,
    vector_field,
)
from odediscovery.laws.power_sum import (
    STRANGE_COST,
    Features,
    PowerSum,
    Sums,
    as_written,
    but_whole_powers,
    cost,
    none_free,
)


def test_rhs_by_hand():
    x = np.array([[100.0, 0.01, 0.0], [4.0, 9.0, 2.0]])
    root = np.array([1.0, 6.0])
    expected = np.stack(
        [-0.06 * root + 0.01 * x[:, 2], 0.06 * root - 0.05 * x[:, 1], 0.05 * x[:, 1] - 0.01 * x[:, 2]], axis=1
    )
    np.testing.assert_allclose(FSIR.rhs(x), expected, rtol=1e-14)
    np.testing.assert_allclose(FSIR.rhs(x[1]), expected[1], rtol=1e-14)


def test_whole_powers_keep_the_sign_and_fractional_ones_stop_at_zero():
    law = PowerSum(np.eye(2), np.array([[3.0, 0.0], [0.5, 0.0]]))
    assert law.rhs(np.array([-2.0, 1.0])).tolist() == pytest.approx([-8.0, 0.0], abs=1e-140)


@pytest.mark.parametrize("rate", [1.0, 1.0 + 2e-16, 1.0 - 1e-16])
def test_a_norm_is_written_as_one_whatever_rounding_left_of_its_unit(rate):
    # x |x| (1 + y^2 / x^2)^(1/2)
    features = Features(2, (Function("Abs", 0, rate),), Sums(np.array([[1.0]]), np.array([[-2.0, 2.0, 0.0]])))
    w, inside, first = as_written(PowerSum(np.array([[1.0], [0.0]]), np.array([[1.0, 0.0, 1.0, 0.5]]), features))
    assert w.tolist() == [[1.0, 0.0, 0.0, 0.5]]  # x (x^2 + y^2)^(1/2)
    assert (inside.tolist(), first.tolist()) == ([[0.0, 2.0, 0.0]], [[2.0, 0.0, 0.0]])


def test_a_row_of_zeros_is_the_constant():
    law = PowerSum(np.array([[2.5]]), np.zeros((1, 1)))
    assert law.rhs(np.array([[0.0], [np.nan]])).tolist() == [[2.5], [2.5]]


def test_no_monomials():
    law = PowerSum(np.zeros((2, 0)), np.zeros((0, 2)))
    assert law.rhs(np.ones((3, 2))).tolist() == [[0.0, 0.0]] * 3
    assert (law.complexity, law.n_monomials, law.n_states) == (0, 0, 2)


def test_complexity_counts_constants_and_states():
    assert FSIR.complexity == 13
    constant = PowerSum(np.array([[9.81, -0.9]]), np.array([[0.0], [1.6]]))
    assert constant.complexity == 2 + 1 + 1


def test_shapes_must_fit():
    with pytest.raises(ValueError, match=r"do not fit: \(1, 2\) and \(1, 2\)"):
        PowerSum(np.zeros((1, 2)), np.zeros((1, 2)))


positive = st.floats(0.01, 100.0)


@given(st.tuples(positive, positive, positive), positive, st.tuples(positive, positive, positive))
@settings(max_examples=50, deadline=None)
def test_rescaled_is_the_same_law(scale, time_scale, state):
    s, x = np.array(scale), np.array(state)
    scaled = FSIR.rescaled(s, time_scale)
    expected = FSIR.monomials(x) * FSIR.coefficients * time_scale / s[:, None]
    terms = scaled.monomials(x / s) * scaled.coefficients
    np.testing.assert_allclose(terms, expected, rtol=1e-12)
    back = scaled.unscaled(s, time_scale)
    np.testing.assert_allclose(back.coefficients, FSIR.coefficients, rtol=1e-12)
    assert np.array_equal(back.exponents, FSIR.exponents)


def test_merged_adds_equal_monomials_and_drops_empty_ones():
    law = PowerSum(
        np.array([[1.0, 2.0, 3.0, 5.0], [0.0, 4.0, -3.0, 0.5]]),
        np.array([[0.5, 0.0], [0.5 + 1e-12, 0.0], [1.0, 0.0], [0.0, 1.0]]),
    )
    merged = law.merged()
    assert merged.exponents.tolist() == [[0.5, 0.0], [1.0, 0.0], [0.0, 1.0]]
    assert merged.coefficients.tolist() == [[3.0, 3.0, 5.0], [4.0, -3.0, 0.5]]
    cancelled = PowerSum(np.array([[1.0, -1.0]]), np.array([[2.0], [2.0]])).merged()
    assert cancelled.n_monomials == 0


def test_many_states_and_many_points_give_what_few_do():
    """Of many states only powers that are not 0 are taken, of many points columns: the numbers stay."""
    draw, n = np.random.default_rng(0), 30
    w = np.zeros((50, n))
    for row in w[1:]:
        row[draw.choice(n, 3, replace=False)] = draw.choice([1.0, 2.0, 0.5, -1.0], 3)
    law, x = PowerSum(draw.normal(size=(n, 50)), w), draw.uniform(-1.0, 2.0, (70, n))
    with np.errstate(divide="ignore"):
        by_hand = np.prod(np.where(w % 1.0 != 0.0, np.maximum(x[:, None], 1e-300), x[:, None]) ** w, axis=-1)
    np.testing.assert_allclose(law.monomials(x), by_hand, rtol=1e-13)
    np.testing.assert_allclose(vector_field(law)(0.0, x), by_hand @ law.coefficients.T, rtol=1e-10)
    few = PowerSum(law.coefficients[:6], w[:, :6])
    np.testing.assert_allclose(few.monomials(x[:, :6])[3], few.monomials(x[3, :6]), rtol=1e-13)


def test_exponentials_and_logarithms_are_dear_and_dearer_beside_another_factor():
    def price(name, w):
        law = PowerSum(np.array([[1.0]]), np.array([w]), Features(1, (Function(name, 0),)))
        return cost(law, none_free(law), 100)

    plain = price("sin", [0.0, 1.0])
    assert price("log", [0.0, 1.0]) - plain == pytest.approx(STRANGE_COST)
    assert price("exp", [-1.0, 1.0]) - price("sin", [-1.0, 1.0]) == pytest.approx(2.0 * STRANGE_COST)


def test_whole_powers_are_no_free_constants_where_only_the_others_are_wanted():
    sums = Sums(np.array([[3.0, 0.0]]), np.array([[2.0, 0.0], [0.7, 0.0]]))
    law = PowerSum(
        np.array([[1.0, 0.0], [2.0, 3.0]]), np.array([[1.0, 0.5, 0.0], [0.0, 2.0, -1.0]]), Features(2, (), sums)
    )
    a, w, b, v = but_whole_powers(law)
    assert a.tolist() == [[True, False], [True, True]]
    assert w.tolist() == [[False, True, False], [False, False, False]]
    assert b.tolist() == [[True, False]] and v.tolist() == [[False, False], [True, False]]


RICH = Features(
    2,
    (Function("sin", 0, 0.7), Function("log", 1)),
    Sums(np.array([[4.0, 0.5]]), np.array([[2.0, 0.0, 0.0, 0.0], [0.0, 0.5, 1.0, 0.0]])),
)
LAWS = {
    "whole": PowerSum(np.array([[1.0, -2.0, 0.5], [0.0, 3.0, 0.0]]), np.array([[0.0, 0.0], [2.0, 1.0], [-1.0, 3.0]])),
    "real": PowerSum(np.array([[0.3, -2.0], [1.0, 0.0]]), np.array([[0.5, -0.3], [1.0, 1.7]])),
    "rich": PowerSum(
        np.array([[1.0, -0.4], [0.2, 0.0]]), np.array([[1.0, 0.0, 1.0, 0.0, -1.0], [0.0, 0.5, 0.0, 1.0, 2.0]]), RICH
    ),
    "flows": PowerSum(np.array([[2.0]]), np.array([[1.0, 0.5]]), None, np.array([[-1.0], [1.0]])),
    "nothing": PowerSum(np.zeros((2, 0)), np.zeros((0, 2))),
}


@pytest.mark.parametrize("name", sorted(LAWS))
def test_they_are_those_of_the_law(name):
    law, x = LAWS[name], np.random.default_rng(0).uniform(0.1, 3.0, (4, 6, 2))
    points = [point_field(law)(0.0, one) for one in x[0]]
    np.testing.assert_allclose(points, law.rhs(x[0]), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(vector_field(law)(0.0, x), law.rhs(x), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("x", [[-1.0, 2.0], [0.0, 1.0], [1e200, 1e200], [1e-300, -1e-300]])
def test_also_where_there_is_no_power_or_too_large_a_number(x):
    for law in LAWS.values():
        with np.errstate(all="ignore"):
            found, expected = point_field(law)(0.0, np.array(x)), law.rhs(np.array(x))
        # as a product of matrices the law has 0 times infinity where a term does not stand at all
        np.testing.assert_allclose(found, np.where(np.isnan(expected), found, expected), rtol=1e-12)


def test_what_is_no_number_stays_none():
    assert np.isnan(point_field(LAWS["real"])(0.0, np.array([np.nan, np.nan]))).all()


@pytest.mark.parametrize("name", sorted(LAWS))
def test_slopes_are_those_of_differences(name):
    law = LAWS[name]
    form, constants = compiled_law(law)
    p = np.array(constants)
    x = np.random.default_rng(2).uniform(1.1, 2.0, (2, 5))
    _, slopes = form.linearised(x, p)
    step = 1e-6
    for k, shift in enumerate(np.eye(2)[:, :, None] * step):
        differences = (form.rates(x + shift, p) - form.rates(x - shift, p)) / (2.0 * step)
        np.testing.assert_allclose(slopes[:, k], differences, rtol=1e-5, atol=1e-6)
    for k, place in enumerate(form.sought):
        shift = np.eye(len(p))[place] * step
        differences = (form.rates(x, p + shift) - form.rates(x, p - shift)) / (2.0 * step)
        np.testing.assert_allclose(slopes[:, 2 + k], differences, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "text", ["sin(k*x)", "cos(x)/k", "exp(-k*x)", "log(x + k)", "tan(x)**k", "tanh(k*x)", "Abs(x - 9)*k"]
)
def test_slopes_of_functions_are_those_of_sympy(text):
    x, k = sympy.symbols("x k", real=True)
    side = sympy.sympify(text, locals={"x": x, "k": k})
    (values, (slopes,)) = form_of_expressions([side], [x], [k]).linearised(np.array([0.7]), [1.3])
    at = {x: 0.7, k: 1.3}
    np.testing.assert_allclose(values, float(side.subs(at)))
    np.testing.assert_allclose(slopes, [float(sympy.diff(side, by).subs(at).evalf()) for by in (x, k)])


def test_members_have_constants_of_their_own():
    law = PowerSum(np.array([[-0.5]]), np.array([[1.0]]))
    of_members = [np.array([-0.5, -2.0])]
    found = compiled_law(law)[0].rates(np.ones((1, 2)), [*of_members, 1.0])
    assert found.tolist() == [[-0.5, -2.0]]


def test_laws_of_one_form_share_it():
    one = PowerSum(np.array([[-0.5]]), np.array([[1.7]]))
    other = PowerSum(np.array([[3.0]]), np.array([[0.3]]))
    assert compiled_law(one)[0] is compiled_law(other)[0]


@pytest.mark.parametrize(
    ("slope", "expected"),
    [
        (lambda lib, z: 1.0 - lib.tanh(z) ** 2, 1.0 - np.tanh(0.7) ** 2),
        (lambda lib, z: -lib.sin(z) / (2.0 + z), -np.sin(0.7) / 2.7),
        (lambda lib, z: 1.0 / z + lib.exp(z) * 3.0 - z, 1.0 / 0.7 + 3.0 * np.exp(0.7) - 0.7),
    ],
)
def test_a_function_of_a_new_family_brings_its_slope(slope, expected, monkeypatch):
    new = StateFunction("sinh", "the hyperbolic sine of", slope)
    monkeypatch.setitem(FUNCTIONS, "sinh", GraphFunction(new.value, new.plain, new.slope))
    g = Graph()
    x = g.x(0)
    (found,) = g.compiled([g.slope(g.function("sinh", x), x)], 0, 1)(np.array([0.7]))
    np.testing.assert_allclose(found, expected)
