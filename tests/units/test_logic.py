"""Logic: connectives, formulas, inference by every rule, learning, norms."""

import itertools

import numpy as np
import pytest
import sympy
import torch

from odediscovery.units.connectives import And, Implies, Not, Or
from odediscovery.units.logic.formulas import atom, connect
from odediscovery.units.logic.inference import Bounds, infer
from odediscovery.units.logic.learning import Learning, learn
from odediscovery.units.logic.norms import LOGICS

pytestmark = pytest.mark.usefixtures("double_precision")

CLASSICAL = {
    And: lambda x: all(x),
    Or: lambda x: any(x),
    Not: lambda x: not any(x),
    Implies: lambda x: x[-1] or not all(x[:-1]),
}


def unit_of(kind, weights, bias=1.0, alpha=0.9):
    unit = kind(len(weights), 1, alpha=alpha)
    unit.weight.data.copy_(torch.tensor(weights))
    unit.bias.data.fill_(bias)
    return unit


def at(unit, *x):
    return unit(torch.tensor([[x]], dtype=torch.float64)).item()


@pytest.mark.parametrize("kind", CLASSICAL)
@pytest.mark.parametrize("n", [2, 3])
def test_truth_tables(kind, n):
    unit = unit_of(kind, [1.0] * n)
    for x in itertools.product((0, 1), repeat=n):
        assert at(unit, *x) == float(CLASSICAL[kind](x)), x


def test_degrees_of_truth_are_those_of_lukasiewicz():
    for a, b in itertools.product(np.linspace(0.0, 1.0, 6), repeat=2):
        expected = {And: max(0, a + b - 1), Or: min(1, a + b), Implies: min(1, 1 - a + b)}
        for kind, value in expected.items():
            assert at(unit_of(kind, [1.0, 1.0]), a, b) == pytest.approx(value, abs=1e-15)
        assert at(unit_of(Not, [1.0]), a) == pytest.approx(1 - a, abs=1e-15)


def test_weights_are_importances_and_a_weight_of_0_is_no_input():
    # x = 0.6 costs 2 * 0.4, y = 0.5 costs half of its own.
    assert at(unit_of(And, [2.0, 0.5], 1.2), 0.6, 0.5) == pytest.approx(1.2 - 0.8 - 0.25)
    assert at(unit_of(Or, [2.0, 0.5], 1.2), 0.2, 0.5) == pytest.approx(-0.2 + 0.4 + 0.25)
    assert at(unit_of(Implies, [2.0, 0.5], 1.2), 0.8, 0.5) == pytest.approx(-0.2 + 0.4 + 0.25)
    for kind in (And, Or, Not):
        unit = unit_of(kind, [1.0, 0.0])
        assert at(unit, 0.7, 0.0) == at(unit, 0.7, 1.0)
    # Weights below 0 are none.
    assert at(unit_of(And, [1.0, -3.0]), 1.0, 0.0) == 1.0


def test_the_classical_formula_of_any_weights_is_what_they_compute():
    x, y, z = sympy.symbols("x y z")
    arrays = {"weight": np.array([[1.0, 1.0, 1.0]]), "bias": np.ones(1)}
    assert And(3, 1).snapped(arrays, [x, y, z]) == [x & y & z]
    assert Or(3, 1).snapped(arrays, [x, y, z]) == [x | y | z]
    assert Not(3, 1).snapped(arrays, [x, y, z]) == [~x & ~y & ~z]
    assert Implies(3, 1).snapped(arrays, [x, y, z]) == [~x | ~y | z]
    # Two of three are enough.
    arrays["weight"][:] = 0.4
    assert And(3, 1).snapped(arrays, [x, y, z]) == [(x & y) | (x & z) | (y & z)]
    generator = np.random.default_rng(0)
    for kind in CLASSICAL:
        for _ in range(10):
            p = {"weight": generator.uniform(-0.2, 1.5, (1, 3)), "bias": generator.uniform(0.5, 1.5, 1)}
            unit = unit_of(kind, p["weight"][0].tolist(), float(p["bias"][0]))
            (formula,) = unit.snapped(p, [x, y, z])
            for values in itertools.product((False, True), repeat=3):
                told = bool(formula.subs(dict(zip((x, y, z), values, strict=True))))
                assert told is (at(unit, *map(float, values)) > 0.5)
    with pytest.raises(ValueError, match="at most 12 inputs can be read, got 13"):
        And(13, 1).snapped({"weight": np.ones((1, 13)), "bias": np.ones(1)}, sympy.symbols("x:13"))


X, Y, Z = atom("x"), atom("y"), atom("z")


def test_they_are_said_in_words():
    assert str((X & ~Y) >> Z) == "(x and not y) implies z"
    assert str(connect("not", X, Y)) == "none of x, y"
    assert str(connect("implies", X, Y, Z)) == "(x and y) implies z"
    assert str(connect("and", X, Y, Z, weights=[1.0, 0.5, 0.0])) == "x and 0.5 y"


def test_the_truth_of_a_formula_is_that_of_its_connectives():
    formula = connect("or", X & Y, ~Z, weights=[0.5, 1.0], bias=1.1)
    # 1 - 1.1 + 0.5 * max(0, 0.8 + 0.7 - 1) + (1 - 0.6)
    assert formula.truth({"x": 0.8, "y": 0.7, "z": 0.6}) == pytest.approx(-0.1 + 0.25 + 0.4)


def test_the_classical_formula():
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
def test_what_is_no_formula_is_refused(word, parts, weights, message):
    with pytest.raises(ValueError, match=message):
        connect(word, *parts, weights=weights)


TRUE, FALSE, UNKNOWN = Bounds(1.0, 1.0), Bounds(0.0, 0.0), Bounds(0.0, 1.0)

RULES = {
    "modus ponens": ({X >> Y: 1, X: 1}, Y, TRUE),
    "modus tollens": ({X >> Y: 1, Y: 0}, X, FALSE),
    "an implication that is false": ({X >> Y: 0}, X, TRUE),
    "an implication that is false, consequent": ({X >> Y: 0}, Y, FALSE),
    "no abduction": ({X >> Y: 1, Y: 1}, X, UNKNOWN),
    "no denial of the antecedent": ({X >> Y: 1, X: 0}, Y, UNKNOWN),
    "disjunctive syllogism": ({X | Y: 1, X: 0}, Y, TRUE),
    "nothing of the other": ({X | Y: 1, X: 1}, Y, UNKNOWN),
    "a disjunction that is false": ({X | Y: 0}, Y, FALSE),
    "conjunction elimination": ({X & Y: 1}, X, TRUE),
    "conjunctive syllogism": ({X & Y: 0, Y: 1}, X, FALSE),
    "nothing of a conjunction that is false": ({X & Y: 0}, X, UNKNOWN),
    "conjunction introduction": ({X: 1, Y: 1}, X & Y, TRUE),
    "one false is enough": ({X: 0}, X & Y, FALSE),
    "one true is enough": ({Y: 1}, X | Y, TRUE),
    "ex falso": ({X: 0}, X >> Y, TRUE),
    "a true consequent": ({Y: 1}, X >> Y, TRUE),
    "a true antecedent of a false consequent": ({X: 1, Y: 0}, X >> Y, FALSE),
    "negation, up": ({X: 1}, ~X, FALSE),
    "negation, down": ({~X: 1}, X, FALSE),
    "double negation": ({~~X: 1}, X, TRUE),
    "a chain": ({X >> Y: 1, Y >> Z: 1, X: 1}, Z, TRUE),
    "a chain backwards": ({X >> Y: 1, Y >> Z: 1, Z: 0}, X, FALSE),
    "several antecedents": ({connect("implies", X, Y, Z): 1, X: 1, Z: 0}, Y, FALSE),
    "none of them": ({connect("not", X, Y): 1}, Y, FALSE),
    "the open world": ({X: 1}, Y, UNKNOWN),
}


@pytest.mark.parametrize("rule", RULES)
def test_rules_of_inference(rule):
    known, asked, expected = RULES[rule]
    found = infer([asked], known)
    assert found[asked] == expected and found.contradictions() == []


def test_degrees_go_down_exactly():
    # 0.7 = 1.1 - 0.5 (1 - x) - 1.2 (1 - 0.9), so x = 0.44.
    rule = connect("and", X, Y, weights=[0.5, 1.2], bias=1.1)
    found = infer([rule], {rule: 0.7, Y: 0.9})[X]
    assert (found.lower, found.upper) == pytest.approx((0.44, 0.44))
    assert infer([X >> Y], {X >> Y: Bounds(0.8, 1.0), X: 0.9})[Y].lower == pytest.approx(0.7)


def test_contradictions_are_found_where_they_are():
    found = infer([Y], {X >> Y: 1.0, X: 1.0, ~Y: 1.0})
    assert [found[formula].state() for formula in found.contradictions()].count("contradiction") >= 1
    assert infer([X & ~X], {X & ~X: 1.0}).contradictions()
    assert not infer([X | ~X], {X | ~X: 1.0}).contradictions()


def test_states_of_a_bound():
    assert Bounds(0.95, 1.0).state() == "true" and Bounds(0.0, 0.05).state() == "false"
    assert Bounds(0.5, 0.5).state() == "ambiguous" and Bounds(0.3, 0.95).state() == "unknown"
    assert Bounds(0.7, 0.6).state() == "contradiction" and Bounds(0.7, 1.0).state(0.7) == "true"


A, B, C, D = (atom(name) for name in "abcd")
LITERALS = (A, B, C, D, ~A, ~B, ~C, ~D)


def examples(rule, truth, noise):
    draw, made = np.random.default_rng(0), []
    for _ in range(120):
        world = {atom(name): float(draw.integers(2)) for name in "abcd"}
        value = float(truth(*world.values()))
        wrong = draw.random() < noise
        made.append(world | {~x: 1.0 - v for x, v in world.items()} | {rule: 1.0 - value if wrong else value})
    return made


@pytest.mark.parametrize("noise", [0.0, 0.15])
@pytest.mark.parametrize(
    ("word", "truth", "words"),
    [("and", lambda a, b, c, d: a and not c, "a and not c"), ("or", lambda a, b, c, d: b or not d, "b or not d")],
)
def test_a_noisy_rule_is_learnt_and_read_back_in_words(word, truth, words, noise):
    rule = connect(word, *LITERALS)
    found = learn(rule, examples(rule, truth, noise))
    assert found.words() == words
    assert found.violation < 0.02 and (found.contradiction < 0.02) is (noise == 0.0)
    # The learnt rule infers as the classical one does.
    known = {found.formula: 1.0}
    sure = infer([found.formula], known)
    if word == "and":
        assert sure[A].lower > 0.5 and sure[C].upper < 0.5


def test_what_was_not_observed_contradicts_nothing():
    rule = A & B
    found = learn(rule, [{A: 1.0, rule: Bounds(0.4, 1.0)}], Learning(steps=5))
    assert found.contradiction == 0.0


def test_learning_needs_examples():
    with pytest.raises(ValueError, match="got none"):
        learn(A & B, [])


GRID = torch.linspace(0.0, 1.0, 9, dtype=torch.float64)
LEFT, RIGHT = (part.flatten() for part in torch.meshgrid(GRID, GRID, indexing="ij"))


@pytest.mark.parametrize("name", LOGICS)
def test_a_norm_is_one_and_its_residuum_is_the_largest_that_fits(name):
    logic = LOGICS[name]
    one = torch.ones_like(LEFT)
    torch.testing.assert_close(logic.conjunction(LEFT, one), LEFT)
    torch.testing.assert_close(logic.conjunction(LEFT, RIGHT), logic.conjunction(RIGHT, LEFT))
    torch.testing.assert_close(logic.disjunction(LEFT, RIGHT), 1.0 - logic.conjunction(1.0 - LEFT, 1.0 - RIGHT))
    residuum = logic.implication(LEFT, RIGHT)
    assert (logic.conjunction(LEFT, residuum) <= RIGHT + 1e-12).all()
    more = (residuum + 1e-6).clamp_max(1.0)
    larger = more > residuum
    assert larger.any() and (logic.conjunction(LEFT, more)[larger] > RIGHT[larger]).all()
