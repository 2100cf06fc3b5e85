"""Inference: every rule, brute force over all assignments, contradiction, the open world."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from odediscovery.units.logic.formulas import Formula, atom, connect
from odediscovery.units.logic.inference import Bounds, infer

X, Y, Z = atom("x"), atom("y"), atom("z")
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
def test_rules_of_inference(rule: str) -> None:
    known, asked, expected = RULES[rule]
    found = infer([asked], known)
    assert found[asked] == expected and found.contradictions() == []


def test_the_example_of_the_seminar() -> None:
    z = X & Y
    assert infer([z], {X: 1.0, Y: 1.0})[z] == TRUE
    assert infer([z], {z: 0.0, Y: 1.0})[X] == FALSE


def formulas(count: int, seed: int, *, shared: bool) -> list[Formula]:
    """Random formulas of up to five atoms, each atom once unless they are shared."""
    draw, made = random.Random(seed), []
    while len(made) < count:
        n = draw.randint(3, 5)
        parts = [atom("abcde"[draw.randrange(n) if shared else k]) for k in range(n + 2 * shared)]
        while len(parts) > 1:
            draw.shuffle(parts)
            word = draw.choice(["and", "or", "implies"])
            taken, parts = parts[: draw.choice([2, 2, 3])], parts[2:] if len(parts) == 2 else parts
            parts = [p for p in parts if not any(p is t for t in taken)]
            joined = connect(word, *taken) if len(taken) > 1 else taken[0]
            parts.append(~joined if draw.random() < 0.3 else joined)
        if parts[0].parts and parts[0] not in made:
            made.append(parts[0])
    return made


def brute_force(formula: Formula, known: dict[Formula, float]) -> dict[Formula, set[float]]:
    """Truth values that every node has in some assignment that agrees with what is known."""
    names, possible = formula.atoms(), {node: set[float]() for node in formula.nodes()}
    for values in itertools.product((0.0, 1.0), repeat=len(names)):
        world = dict(zip(names, values, strict=True))
        truths = {node: node.truth(world) for node in formula.nodes()}
        if all(truths[node] == value for node, value in known.items()):
            for node, value in truths.items():
                possible[node].add(value)
    return possible


@pytest.mark.slow
@pytest.mark.parametrize("formula", formulas(30, 0, shared=False), ids=str)
def test_bounds_are_those_of_all_assignments_where_atoms_stand_once(formula: Formula) -> None:
    draw, atoms = np.random.default_rng(len(str(formula))), [n for n in formula.nodes() if not n.parts]
    for truth in (0.0, 1.0):
        for count in range(len(atoms)):
            chosen = draw.permutation(len(atoms))[:count]
            known = {formula: truth} | {atoms[k]: float(draw.integers(2)) for k in chosen}
            possible, found = brute_force(formula, known), infer([formula], known)
            if not possible[formula]:
                assert found.contradictions()
                continue
            assert not found.contradictions()
            for node, values in possible.items():
                assert found[node] == Bounds(min(values), max(values)), (node, known)


def test_degrees_go_down_exactly() -> None:
    # 0.7 = 1.1 - 0.5 (1 - x) - 1.2 (1 - 0.9), so x = 0.44.
    rule = connect("and", X, Y, weights=[0.5, 1.2], bias=1.1)
    found = infer([rule], {rule: 0.7, Y: 0.9})[X]
    assert (found.lower, found.upper) == pytest.approx((0.44, 0.44))
    assert infer([X >> Y], {X >> Y: Bounds(0.8, 1.0), X: 0.9})[Y].lower == pytest.approx(0.7)


def test_contradictions_are_found_where_they_are() -> None:
    found = infer([Y], {X >> Y: 1.0, X: 1.0, ~Y: 1.0})
    assert [found[formula].state() for formula in found.contradictions()].count("contradiction") >= 1
    assert infer([X & ~X], {X & ~X: 1.0}).contradictions()
    assert not infer([X | ~X], {X | ~X: 1.0}).contradictions()


def test_states_of_a_bound() -> None:
    assert Bounds(0.95, 1.0).state() == "true" and Bounds(0.0, 0.05).state() == "false"
    assert Bounds(0.5, 0.5).state() == "ambiguous" and Bounds(0.3, 0.95).state() == "unknown"
    assert Bounds(0.7, 0.6).state() == "contradiction" and Bounds(0.7, 1.0).state(0.7) == "true"
