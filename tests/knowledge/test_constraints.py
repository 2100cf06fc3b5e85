"""What a user knows: read, imposed on laws, and refused where it cannot be."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odediscovery.data.series import TimeSeries, append_controls, with_controls
from odediscovery.errors import InputError
from odediscovery.knowledge.constraints import Knowledge, check_known, check_signs, knowledge
from odediscovery.laws.power_sum import Features, PowerSum, Sums

SIR = ["S", "I", "R"]


def law(*terms: tuple[list[float], list[float]], features: Features | None = None) -> PowerSum:
    """From (coefficients in every equation, exponents) of its monomials."""
    a = np.array([a for a, _ in terms], dtype=float).T
    return PowerSum(a, np.array([w for _, w in terms], dtype=float), features)


def table(of: PowerSum) -> list[tuple[list[float], list[float]]]:
    return list(zip(of.coefficients.T.tolist(), of.exponents.tolist(), strict=True))


def same(one: PowerSum, other: PowerSum, rtol: float = 0.0) -> None:
    np.testing.assert_allclose(one.coefficients, other.coefficients, rtol=rtol, atol=0)
    np.testing.assert_array_equal(one.exponents, other.exponents)


FOUND = law(([-0.5, 0.4, 0.1], [1, 1.02, 0]), ([0.3, -0.2, 0.0], [0, 0.7, 0]), ([0.2, 0.0, -0.2], [0, 0, -0.5]))


def test_any_column_name() -> None:
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


def test_sentences() -> None:
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


def test_forbidden_variables() -> None:
    given = knowledge(SIR, forbid=["S: R", "I: S"])
    assert table(given.impose(FOUND)) == [
        ([-0.5, 0, 0.1], [1, 1.02, 0]),
        ([0.3, -0.2, 0], [0, 0.7, 0]),
        ([0, 0, -0.2], [0, 0, -0.5]),
    ]
    assert not given.allows(FOUND) and given.allows(given.impose(FOUND))


def test_bounds_and_whole_numbers() -> None:
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
def test_tied_states_follow(texts: list[str], said: dict[str, Any], mix: list[Any]) -> None:
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


def made(statements: dict[str, Any]) -> Knowledge:
    return knowledge(names, **statements)


@pytest.mark.slow
@given(st.lists(st.lists(weight, min_size=4, max_size=4), min_size=1, max_size=2), laws)
@settings(max_examples=100, deadline=None)
def test_conserved_sums_hold_exactly(rows: list[list[float]], found: PowerSum) -> None:
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


@pytest.mark.slow
@given(said, laws)
@settings(max_examples=100, deadline=None)
def test_imposing_twice_changes_nothing(statements: dict[str, Any], found: PowerSum) -> None:
    once = made(statements).impose(found)
    same(made(statements).impose(once), once)
    assert made(statements).allows(once)


@pytest.mark.slow
@given(said, laws, st.lists(st.floats(1e-4, 1e4), min_size=4, max_size=4), st.floats(0.01, 100))
@settings(max_examples=100, deadline=None)
def test_rescaling_commutes(
    statements: dict[str, Any], found: PowerSum, scales: list[float], time_scale: float
) -> None:
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
def test_contradictions(statements: dict[str, Any], message: str) -> None:
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
def test_controls_have_no_equation(statements: dict[str, list[str]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_known(knowledge(SERIES.states, **statements), SERIES)  # type: ignore[arg-type]
    check_known(knowledge(SERIES.states, known=["x' = u"]), SERIES)


def test_fractional_powers_of_negative_states_are_refused() -> None:
    given = knowledge(["x", "y"], known=["x' = y**0.5"])
    check_signs(given, given.rescaled(np.array([2.0, 3.0]), 1.0))
    with pytest.raises(InputError, match=r"x' is known with a fractional power of y, which is negative in the data"):
        check_signs(given, given.rescaled(np.array([2.0, -3.0]), 1.0))
    of_minus = knowledge(["x", "y"], known=["x' = (-y)**0.5"])
    check_signs(of_minus, of_minus.rescaled(np.array([2.0, -3.0]), 1.0))
