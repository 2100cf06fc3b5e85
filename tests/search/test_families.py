"""Laws beyond sums of powers: functions, sums, logistic terms; and the ladder that finds them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import sympy

from odediscovery import discover, settings_for
from odediscovery.data.series import TimeSeries
from odediscovery.families import Function
from odediscovery.laws.equations import Equations
from odediscovery.laws.power_sum import Features, PowerSum, Sums
from odediscovery.problem.problem import linear_relation, prepare
from odediscovery.runtime.arrays import Array

T = np.linspace(0.0, 10.0, 150)
# x' = 2 - 0.5 sin(x) x^2 / (1 + 0.25 x^2), y' = y exp(-0.3 x) - y^1.5
RICH = PowerSum(
    np.array([[2.0, -0.5, 0.0, 0.0], [0.0, 0.0, 1.0, -1.0]]),
    np.array([[0, 0, 0, 0, 0.0], [2, 0, 1, 0, -1], [0, 1, 0, -0.3, 0], [0, 1.5, 0, 0, 0]]),
    Features(2, (Function("sin", 0), Function("exp", 0)), Sums(np.array([[0.25]]), np.array([[2.0, 0.0, 0.0, 0.0]]))),
)
X = np.array([[0.3, 1.2], [2.0, 0.4], [4.0, 2.5]])


def formula(x: Array) -> Array:
    a, b = x[..., 0], x[..., 1]
    first = 2.0 - 0.5 * np.sin(a) * a**2 / (1.0 + 0.25 * a**2)
    return np.stack([first, b * np.exp(-0.3 * a) - b**1.5], axis=-1)


def series_of(texts: dict[str, str], start: list[float], noise: float = 0.0) -> TimeSeries:
    law = Equations.parse(list(texts), texts)
    clean = law.simulate(start, T)
    seen = clean * (1.0 + noise * np.random.default_rng(0).standard_normal(clean.shape))
    return TimeSeries.from_arrays(T, seen, list(texts))


def test_a_law_over_functions_and_sums_is_its_formula() -> None:
    np.testing.assert_allclose(RICH.rhs(X), formula(X), rtol=1e-13)
    printed = Equations.from_power_sum(["x", "y"], RICH)
    np.testing.assert_allclose(printed.rhs(X), formula(X), rtol=1e-13)
    assert printed.power_sum is None
    again = Equations.parse(["x", "y"], printed.texts())
    np.testing.assert_allclose(again.rhs(X), formula(X), rtol=1e-13)


def test_scales_are_undone_exactly() -> None:
    scale = np.array([3.0, 0.2])
    there = RICH.rescaled(scale, 0.5)
    np.testing.assert_allclose(there.rhs(X / scale) * scale / 0.5, formula(X), rtol=1e-12)
    np.testing.assert_allclose(there.unscaled(scale, 0.5).rhs(X), formula(X), rtol=1e-12)


def test_compact_drops_what_nothing_needs() -> None:
    coefficients = RICH.coefficients.copy()
    coefficients[0, 1] = 0.0
    smaller = PowerSum(coefficients, RICH.exponents, RICH.features).merged().compact()
    assert smaller.features is not None
    assert [f.name for f in smaller.features.functions] == ["exp"] and not len(smaller.features.sums)
    kept = RICH.rhs(X)[:, 1]
    np.testing.assert_allclose(smaller.rhs(X)[:, 1], kept, rtol=1e-13)
    plain = PowerSum(np.array([[1.0]]), np.array([[1.0, 0.0]]), Features(1, (Function("sin", 0),)))
    assert plain.compact().features is None
    # 3 coefficients, 3 exponents, exp, and two states.
    assert smaller.complexity == 3 + 3 + 1 + 2


def test_states_that_cannot_be_told_apart_are_named() -> None:
    series = series_of({"S": "-0.5*S*I", "I": "0.5*S*I - 0.2*I", "R": "0.2*I"}, [2.0, 0.1, 0.0])
    relation = linear_relation(prepare(series))
    assert relation is not None
    np.testing.assert_allclose(relation[0], [1.0, 1.0, 1.0], rtol=1e-6)
    assert relation[1] == pytest.approx(2.1)
    free = series_of({"x": "-x", "y": "x*y - y"}, [2.0, 0.5])
    assert linear_relation(prepare(free)) is None


@pytest.mark.slow
def test_a_predator_that_saturates_is_found() -> None:
    """Rosenzweig and MacArthur's law: a quotient that two equations share."""
    prey = {"x": "x*(1 - x/3) - 1.2*x*y/(1 + 0.8*x)", "y": "0.9*x*y/(1 + 0.8*x) - 0.5*y"}
    first, second = series_of(prey, [1.5, 0.6]), series_of(prey, [0.4, 1.8])
    both = dataclasses.replace(first, trajectories=(*first.trajectories, *second.trajectories))
    found = discover(both, settings_for(members=0))
    assert found.r2 > 1 - 1e-12
    x, y = found.equations.symbols
    truth = 0.9 * x * y / (1 + 0.8 * x) - 0.5 * y
    rate = sympy.lambdify((x, y), found.equations.right_hand_sides[1] - truth)
    assert max(abs(rate(a, b)) for a in (0.5, 1.0, 2.0) for b in (0.3, 1.0)) < 1e-5
