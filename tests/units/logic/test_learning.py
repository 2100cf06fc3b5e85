"""Weights of rules learnt from examples that are partly wrong, and read back in words."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from odediscovery.units.logic.formulas import Formula, atom, connect
from odediscovery.units.logic.inference import Bounds, infer
from odediscovery.units.logic.learning import Learning, learn

A, B, C, D = (atom(name) for name in "abcd")
LITERALS = (A, B, C, D, ~A, ~B, ~C, ~D)


def examples(rule: Formula, truth: object, noise: float, seed: int = 0, count: int = 120) -> list[dict[Formula, float]]:
    draw, made = np.random.default_rng(seed), []
    for _ in range(count):
        world = {atom(name): float(draw.integers(2)) for name in "abcd"}
        value = float(truth(*world.values()))  # type: ignore[operator]
        wrong = draw.random() < noise
        made.append(world | {~x: 1.0 - v for x, v in world.items()} | {rule: 1.0 - value if wrong else value})
    return made


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.0, 0.15])
@pytest.mark.parametrize(
    ("word", "truth", "words"),
    [("and", lambda a, b, c, d: a and not c, "a and not c"), ("or", lambda a, b, c, d: b or not d, "b or not d")],
)
def test_a_noisy_rule_is_learnt_and_read_back_in_words(word: str, truth: object, words: str, noise: float) -> None:
    rule = connect(word, *LITERALS)
    found = learn(rule, examples(rule, truth, noise))
    assert found.words() == words
    assert found.violation < 0.02 and (found.contradiction < 0.02) is (noise == 0.0)
    # The learnt rule infers as the classical one does.
    known = {found.formula: 1.0}
    sure = infer([found.formula], known)
    if word == "and":
        assert all(sure[x].lower > 0.5 for x in (A, B, C, D) if x.name in words.replace("and not c", ""))
        assert "not c" not in words or sure[C].upper < 0.5


@pytest.mark.slow
def test_an_implication_learns_which_antecedents_count() -> None:
    rule = connect("implies", A, B, C, D)
    seen = [
        dict(zip((A, B, C, D), map(float, x), strict=True)) | {rule: float(x[3] or not (x[0] and x[1]))}
        for x in itertools.product((0, 1), repeat=4)
    ]
    assert learn(rule, seen).formula.weights[2] == 0.0
    assert learn(rule, seen).words() == "d or not a or not b"


def test_what_was_not_observed_contradicts_nothing() -> None:
    rule = A & B
    found = learn(rule, [{A: 1.0, rule: Bounds(0.4, 1.0)}], Learning(steps=5))
    assert found.contradiction == 0.0


def test_learning_needs_examples() -> None:
    with pytest.raises(ValueError, match="got none"):
        learn(A & B, [])
