"""What a user knows: read, imposed on laws, or refused with the place."""

import re
import time

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from odediscovery import Equations, InputError, TimeSeries, discover, settings_for, term_library, with_controls
from odediscovery.data.series import append_controls
from odediscovery.families import Function
from odediscovery.knowledge.constraints import check_known, check_signs, knowledge
from odediscovery.knowledge.dimensions import (
    check_dimensions,
    joined,
    read_unit,
    unit_text,
    units_of_constants,
    units_of_names,
)
from odediscovery.laws.power_sum import Features, PowerSum, Sums

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
def test_known_sides_are_read(text, terms, more):
    given = knowledge(["h", "v"], known=[text])
    side = next(k for k in given.known if k is not None)
    found = zip(side.coefficients.sum(axis=0).tolist(), side.exponents.tolist(), strict=True)
    assert sorted(found) == sorted(terms) and given.more.any() == more


PRODUCTS = "expected a sum of products of powers (at most 500, no functions such as sin for now)"
MARK, FORM = "expected ? once and as a summand, as in 9.81 + ?", "expected a state, ' and ="
WEIGHTED = "expected a weighted sum of states such as S + 2*I"
RANGE = "expected two numbers, the smaller first, as in exponents 0..2"
UNKNOWN = "unknown name 'Q': Known: S, I, R"


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
def test_errors_say_what_and_where(option, text, place, reason):
    shown = text if len(text) <= 60 else f"{text[:57]}..."
    with pytest.raises(InputError) as caught:
        knowledge(SIR, **{option: text if option == "bounds" else [text]})
    assert str(caught.value).startswith(f"cannot read {shown!r} at character {place}: {reason}")
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 300


def test_names_that_need_another_spelling_are_told():
    with pytest.raises(InputError, match=r"character 12: invalid syntax; 'x y' is written x_y"):
        knowledge(["x y"], known=["x y' = 2*x y"])


pieces = st.sampled_from([*"SIRQ?'=:+-*/().,#$\\ 019e\n\0", "**", "..", "sin(", "x y", "lambda"])
valid = st.sampled_from(["S' = -0.5*S*I + ? - 1", "S + 2*I - R = 763", "S: I, R", "exponents 0..2"])


@st.composite
def mutated(draw):
    text = draw(valid)
    for _ in range(draw(st.integers(1, 4))):
        at, width = draw(st.integers(0, len(text))), draw(st.integers(0, 3))
        text = text[:at] + draw(pieces) * draw(st.sampled_from([1, 1, 1, 3000])) + text[at + width :]
    return text


@given(st.one_of(st.text(), mutated()))
@example("S' = " + "S+" * 4990).via("a long sum")
@example("S' = " + "(" * 9990).via("deep")
@example("S' = " + " " * 9980 + "q").via("blanks")
@example("S' = " + "S+" * 440 + "sin(S)+" * 1200 + "S").via("many functions")
@settings(max_examples=150, deadline=None)
def test_hostile_texts(text):
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
            knowledge(SIR, **{option: given_text}).sentences()
        except InputError as error:
            assert len(str(error)) < 1000
        assert time.perf_counter() - start < 5.0


def test_terms_become_features_and_exponents():
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
def test_what_is_no_term_is_refused(term, complaint):
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
def test_units_are_read_as_powers_of_words(written, powers):
    assert read_unit(written) == powers
    again = unit_text(read_unit(written))
    assert len(joined((read_unit(again), 1.0), (read_unit(written), -1.0))) <= (2 if "10" in written else 0)


def test_a_coefficient_has_the_unit_that_its_term_lacks():
    law = Equations.parse(
        ["S", "I"], {"S": "-0.1*S**0.5*I", "I": "0.1*I + 2"}, units={"S": "g/L", "I": "mol", "t": "h"}
    )
    found = units_of_constants(law)
    assert [unit for unit in found["S"] if unit != "1"] == ["g^0.5/(L^0.5 h mol)"]
    assert {unit for unit in found["I"]} == {"1/h", "mol/h", "1"}


def test_units_of_named_constants_follow_from_the_form():
    lines = ["prey' = r*prey*(1 - prey/K) - a*prey*pred/(1 + b*prey)", "pred' = e*prey*pred - m*pred"]
    units = {"prey": "g", "pred": "kg", "t": "days"}
    found = units_of_names(lines, ["r", "K", "a", "b", "e", "m"], ["prey", "pred"], "t", units)
    assert found == ["1/day", "g", "1/(day kg)", "1/g", "1/(day g)", "1/day"]
    assert units_of_names(["x' = k*x^p"], ["k", "p"], ["x"], "t", {"x": "g", "t": "h"}) == [None, "1"]
    assert units_of_names(["x' = x + k"], ["k"], ["x"], "t", {"x": "g", "t": "h"}) == [None]


def test_statements_whose_units_differ_are_refused():
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


def test_a_fit_refuses_a_statement_that_its_units_contradict():
    pytest.importorskip("pint")
    t = np.linspace(0, 2, 20)
    series = TimeSeries.from_arrays(
        t, np.column_stack([20 - 5 * t**2, 10 * t]), ["h", "v"], units={"h": "m", "v": "km/h", "t": "s"}
    )
    with pytest.raises(InputError, match="write the factor"):
        discover(series, settings_for(known=["h' = -v"], members=0))


def law(*terms, features=None):
    """From (coefficients in every equation, exponents) of its monomials."""
    a = np.array([a for a, _ in terms], dtype=float).T
    return PowerSum(a, np.array([w for _, w in terms], dtype=float), features)


def table(of):
    return list(zip(of.coefficients.T.tolist(), of.exponents.tolist(), strict=True))


def same(one, other, rtol=0.0):
    np.testing.assert_allclose(one.coefficients, other.coefficients, rtol=rtol, atol=0)
    np.testing.assert_array_equal(one.exponents, other.exponents)


FOUND = law(([-0.5, 0.4, 0.1], [1, 1.02, 0]), ([0.3, -0.2, 0.0], [0, 0.7, 0]), ([0.2, 0.0, -0.2], [0, 0, -0.5]))


def test_any_column_name():
    states = ["x y", "lambda", "θ", "a' = b"]
    given = knowledge(states, known=["x y' = lambda_*θ", "a' = b' = 1"], forbid=["θ: lambda, x y"])
    assert given.fully_known.tolist() == [True, False, False, True]
    assert given.forbidden[2].tolist() == [True, True, False, False]
    assert given.sentences() == [
        "x_y' = lambda_*θ is given",
        "a____b' = 1 is given",
        "x_y does not appear in θ'",
        "lambda_ does not appear in θ'",
    ]


def test_sentences():
    given = knowledge(
        ["h", "v", "w"],
        known=["h' = -v", "v' = 9.81 + ?"],
        bounds="exponents 0..2",
        conserve=["h - 0.5*w = 763"],
        integer_exponents=True,
    )
    assert given.sentences() == [
        "h' = -v is given",
        "v' = 9.81 + ? is given",
        "h - 0.5*w = 763 is kept exactly",
        "exponents other than 0 lie within 0..2",
        "exponents are whole numbers",
    ]
    assert not given.empty
    assert knowledge("h", bounds="-1..1").bounds == (-1.0, 1.0)
    assert knowledge("h", bounds=" 0.5 .. 3").bounds == (0.5, 3.0)


def test_forbidden_variables():
    given = knowledge(SIR, forbid=["S: R", "I: S"])
    assert table(given.impose(FOUND)) == [
        ([-0.5, 0, 0.1], [1, 1.02, 0]),
        ([0.3, -0.2, 0], [0, 0.7, 0]),
        ([0, 0, -0.2], [0, 0, -0.5]),
    ]
    assert not given.allows(FOUND) and given.allows(given.impose(FOUND))


def test_bounds_and_whole_numbers():
    found = law(([1.0], [0.3]), ([2.0], [-2.0]), ([4.0], [0.0]), ([8.0], [2.7]), ([16.0], [9]))
    assert table(knowledge(["x"], bounds="0.5..3").impose(found)) == [
        ([3], [0.5]),
        ([4], [0]),
        ([8], [2.7]),
        ([16], [3]),
    ]
    whole = knowledge(["x"], integer_exponents=True)
    assert table(whole.impose(found)) == [([5], [0]), ([2], [-2]), ([8], [3]), ([16], [9])]
    both = knowledge(["x"], integer_exponents=True, bounds="exponents 0.5..2.6")
    assert table(both.impose(found)) == [([3], [1]), ([4], [0]), ([24], [2])]
    assert both.allows(both.impose(found)) and not both.allows(found)
    assert whole.fixed_mask(whole.impose(found))[1].all()
    inputs = Features(1, (), Sums(np.array([[2.0]]), np.array([[1.6]])))
    hill = whole.impose(law(([1], [0.9, -1.2]), features=inputs))
    assert [hill.exponents.tolist(), hill.constants[3].tolist()] == [[[1, -1]], [[2]]]
    assert not whole.allows(PowerSum(hill.coefficients, hill.exponents, inputs))


@pytest.mark.parametrize(
    ("texts", "said", "mix"),
    [
        (["S + I + R = 763"], {}, [[1, 0, 0], [0, 1, 0], [-1, -1, 0]]),
        (["2*S + I - 0.5*R"], {}, [[1, 0, 0], [0, 1, 0], [4, 2, 0]]),
        (["S + I + R"], {"known": ["R' = 0.1*I"]}, [[1, 0, 0], [-1, 0, -1], [0, 0, 1]]),
        (["S + I + R"], {"forbid": ["R: S", "I: R"]}, [[0, -1, -1], [0, 1, 0], [0, 0, 1]]),
        (["S + I + R", "S + 2*I + 2*R"], {}, [[0, 0, 0], [0, 1, 0], [0, -1, 0]]),
    ],
)
def test_tied_states_follow(texts, said, mix):
    made = knowledge(SIR, conserve=texts, **said)
    assert made.stoichiometry.tolist() == mix
    assert made.tied.tolist() == [not column.any() for column in np.array(mix).T]
    weights = np.array([one.weights for one in made.conserved])
    assert np.abs(weights @ made.stoichiometry).max() == 0
    imposed = made.impose(FOUND)
    assert not imposed.coefficients[made.tied].any() and made.allows(imposed)
    assert imposed.stoichiometry is made.stoichiometry
    whole = PowerSum(made.stoichiometry @ imposed.coefficients, imposed.exponents)
    assert made.allows(whole)
    whole.coefficients[1, 0] += 1e-6
    assert not made.allows(whole)


names = ["a", "b", "c", "d"]
weight = st.sampled_from([-3.0, -1.0, -0.3, 0.0, 0.0, 1.0, 2.5, 1e6])
exponents = st.one_of(st.sampled_from([0.0, 1.0, 0.5, 0.53, -1.0, 2.0]), st.floats(-3, 3))
coefficients = st.sampled_from([0.0, 0.0, 1.0, -0.25, 3.7])
laws = st.lists(
    st.tuples(st.lists(coefficients, min_size=4, max_size=4), st.lists(exponents, min_size=4, max_size=4)),
    min_size=1,
    max_size=6,
).map(lambda terms: law(*terms))
said = st.fixed_dictionaries(
    {
        "known": st.sets(st.sampled_from(["a' = -2*b", "b' = 3*a**0.5*b + ? - 1"])).map(sorted),
        "forbid": st.sets(st.sampled_from(["a: c, d", "b: d"])).map(sorted),
        "conserve": st.sets(st.sampled_from(["a + c = 3", "b - 2*d", "a + b + c + 3*d"]), max_size=2).map(sorted),
        "bounds": st.sampled_from([None, "exponents 0.5..2", "-1..1"]),
    }
)


def made(statements):
    return knowledge(names, **statements)


@given(st.lists(st.lists(weight, min_size=4, max_size=4), min_size=1, max_size=2), laws)
@settings(max_examples=100, deadline=None)
def test_conserved_sums_hold_exactly(rows, found):
    texts = [" + ".join(f"{c}*{x}" for c, x in zip(row, names, strict=True)) for row in rows]
    try:
        keeps = knowledge(names, conserve=texts)
    except InputError as error:
        assert re.search("a weight other than 0|follows from the other", str(error))
        return
    rates = keeps.stoichiometry @ keeps.impose(found).coefficients
    size = np.abs(rows) @ np.abs(keeps.stoichiometry) @ np.abs(found.coefficients).sum(axis=1) + 1
    # Weights of very different size make the tied rows as uncertain as their ratio is large.
    rounding = 1e-15 * np.abs(rows).max() * (1.0 + np.abs(rates).max(initial=0.0))
    assert (np.abs(rows @ rates).max(axis=1, initial=0.0) <= 1e-12 * size + rounding).all()
    assert keeps.tied.sum() == len(rows)


@given(said, laws)
@settings(max_examples=100, deadline=None)
def test_imposing_twice_changes_nothing(statements, found):
    once = made(statements).impose(found)
    same(made(statements).impose(once), once)
    assert made(statements).allows(once)


@given(said, laws, st.lists(st.floats(1e-4, 1e4), min_size=4, max_size=4), st.floats(0.01, 100))
@settings(max_examples=100, deadline=None)
def test_rescaling_commutes(statements, found, scales, time_scale):
    scale, here = np.array(scales), made(statements)
    there = here.rescaled(scale, time_scale)
    # Equal monomials that cancel in one unit cancel up to rounding in another, and a monomial
    # whose exponent is clipped has another unit than before.
    found = here._in_bounds(found).merged()
    same(here.impose(found).rescaled(scale, time_scale), there.impose(found.rescaled(scale, time_scale)), 1e-9)
    np.testing.assert_array_equal(here.tied, there.tied)
    for one in there.conserved:
        held = np.abs(one.weights) @ np.abs(there.stoichiometry)
        assert (np.abs(one.weights @ there.stoichiometry) <= 1e-12 * held).all()
    assert there.allows(there.impose(found))
    back = there.rescaled(1 / scale, 1 / time_scale)
    np.testing.assert_allclose(back.stoichiometry, here.stoichiometry, rtol=1e-12)


@pytest.mark.parametrize(
    ("statements", "message"),
    [
        (
            {"known": ["S' = I", "S' = R"]},
            'cannot read "S\' = R" at character 1: S\' is already given by "S\' = I"; join them',
        ),
        (
            {"known": ["S' = I", "I' = R"], "conserve": ["S + I"]},
            "the known equations do not keep S + I constant; change one of them or leave the sum out",
        ),
        ({"known": ["S' = S*R"], "forbid": ["S: R"]}, "S' is known with R**1, but R is forbidden there; drop one"),
        (
            {"known": ["S' = I**0.5"], "integer_exponents": True},
            "S' is known with I**0.5, but exponents are to be whole numbers; drop one",
        ),
        (
            {"conserve": ["S + I = 2", "2*S + 2*I"]},
            "that 2*S + 2*I is kept follows from the other conserved sums; leave it out",
        ),
        (
            {"conserve": ["S + I"], "forbid": ["S: R", "I: R"]},
            "I' follows from the conserved sums, so nothing else can be said of it; drop one of them",
        ),
    ],
)
def test_contradictions(statements, message):
    with pytest.raises(InputError) as caught:
        knowledge(SIR, **statements)
    assert str(caught.value) == message


def test_no_sources_and_flows_that_vanish_with_their_state():
    law = PowerSum(np.array([[1.0, -2.0, -3.0], [0.0, 2.0, 0.0]]), np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]))
    dry = knowledge(["x", "y"], sources=False)
    assert dry.impose(law).coefficients.tolist() == [[-2.0, -3.0], [2.0, 0.0]]
    safe = knowledge(["x", "y"], nonnegative_flows=True)
    assert safe.impose(law).coefficients.tolist() == [[1.0, -2.0], [0.0, 2.0]]
    assert safe.allows(safe.impose(law)) and not safe.allows(law)
    assert dry.sentences() == ["no equation has a constant term"]


SERIES = append_controls(
    with_controls(TimeSeries.from_arrays(np.arange(4.0), np.arange(8.0).reshape(4, 2), ["x", "u"]), ["u"])
)


@pytest.mark.parametrize(
    ("statements", "message"),
    [({"known": ["u' = 1"]}, "u' is given, but u is an input"), ({"conserve": ["x + u"]}, "contains u, but u is an")],
)
def test_controls_have_no_equation(statements, message):
    with pytest.raises(InputError, match=message):
        check_known(knowledge(SERIES.states, **statements), SERIES)
    check_known(knowledge(SERIES.states, known=["x' = u"]), SERIES)


def test_fractional_powers_of_negative_states_are_refused():
    given = knowledge(["x", "y"], known=["x' = y**0.5"])
    check_signs(given, given.rescaled(np.array([2.0, 3.0]), 1.0))
    with pytest.raises(InputError, match=r"x' is known with a fractional power of y, which is negative in the data"):
        check_signs(given, given.rescaled(np.array([2.0, -3.0]), 1.0))
    of_minus = knowledge(["x", "y"], known=["x' = (-y)**0.5"])
    check_signs(of_minus, of_minus.rescaled(np.array([2.0, -3.0]), 1.0))
