"""Connectives: truth tables, weights, the classical limit and the constraints that keep it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import sympy
import torch

from odediscovery.units.connectives import And, Connective, Implies, Not, Or

pytestmark = pytest.mark.usefixtures("double_precision")

CLASSICAL = {
    And: lambda x: all(x),
    Or: lambda x: any(x),
    Not: lambda x: not any(x),
    Implies: lambda x: x[-1] or not all(x[:-1]),
}


def unit_of(kind: type[Connective], weights: list[float], bias: float = 1.0, alpha: float = 0.9) -> Connective:
    unit = kind(len(weights), 1, alpha=alpha)
    unit.weight.data.copy_(torch.tensor(weights))
    unit.bias.data.fill_(bias)
    return unit


def at(unit: Connective, *x: float) -> float:
    return unit(torch.tensor([[x]], dtype=torch.float64)).item()


@pytest.mark.parametrize("kind", CLASSICAL)
@pytest.mark.parametrize("n", [2, 3])
def test_truth_tables(kind: type[Connective], n: int) -> None:
    unit = unit_of(kind, [1.0] * n)
    for x in itertools.product((0, 1), repeat=n):
        assert at(unit, *x) == float(CLASSICAL[kind](x)), x


def test_degrees_of_truth_are_those_of_lukasiewicz() -> None:
    for a, b in itertools.product(np.linspace(0.0, 1.0, 6), repeat=2):
        expected = {And: max(0, a + b - 1), Or: min(1, a + b), Implies: min(1, 1 - a + b)}
        for kind, value in expected.items():
            assert at(unit_of(kind, [1.0, 1.0]), a, b) == pytest.approx(value, abs=1e-15)
        assert at(unit_of(Not, [1.0]), a) == pytest.approx(1 - a, abs=1e-15)


def test_weights_are_importances_and_a_weight_of_0_is_no_input() -> None:
    # x = 0.6 costs 2 * 0.4, y = 0.5 costs half of its own.
    assert at(unit_of(And, [2.0, 0.5], 1.2), 0.6, 0.5) == pytest.approx(1.2 - 0.8 - 0.25)
    assert at(unit_of(Or, [2.0, 0.5], 1.2), 0.2, 0.5) == pytest.approx(-0.2 + 0.4 + 0.25)
    assert at(unit_of(Implies, [2.0, 0.5], 1.2), 0.8, 0.5) == pytest.approx(-0.2 + 0.4 + 0.25)
    for kind in (And, Or, Not):
        unit = unit_of(kind, [1.0, 0.0])
        assert at(unit, 0.7, 0.0) == at(unit, 0.7, 1.0)
    # Weights below 0 are none.
    assert at(unit_of(And, [1.0, -3.0]), 1.0, 0.0) == 1.0


def test_the_classical_formula_of_any_weights_is_what_they_compute() -> None:
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
