"""What a law leaves open: exponents, combinations, and terms that are known in one equation only."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from problems import LOGISTIC, growth, series_of

from odediscovery import Equations, TimeSeries, settings_for
from odediscovery.judge.identifiability import (
    IDENTIFIABILITY,
    _constants,
    split_known,
    undetermined_exponents,
    unidentifiable_combinations,
)
from odediscovery.laws.cost import all_free, but_whole_powers
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.pose import pose
from odediscovery.problem.prepare import prepare
from odediscovery.search.refinement import refined, sigma_of
from odediscovery.stages.polish.polish import polish
from odediscovery.stages.values import Polished


@pytest.mark.slow
def test_an_exponent_whose_interval_holds_two_whole_numbers_is_named() -> None:
    p = prepare(growth(np.linspace(0.0, 20.0, 80), 0.01))
    law = LOGISTIC.rescaled(p.scale.state, p.scale.time)
    a, w, b, v = all_free(law)
    known = {"floor": p.floor, "nonnegative": p.nonnegative}
    found = polish(law, p.data, p.initial, p.noise, free=(a, w & False, b, v), **known)
    asked = []

    def refit(error: float) -> list[str]:
        def fitted(law: PowerSum, free: tuple, most: int | None = None) -> Polished:
            asked.append((free[1].ravel().tolist(), most))
            after = polish(law, p.data, p.initial, p.noise, free=free, most=most, **known)
            errors = after.law.with_constants(*(np.full_like(c, error) for c in after.law.constants))
            return dataclasses.replace(after, errors=errors)

        return undetermined_exponents(p, found, fitted)

    # Both are told although both are free: nothing is fitted.
    assert refit(0.01) == [] and asked == [([True, True], 0)]
    asked.clear()
    notes = refit(2.0)
    # Each exponent was free once, alone.
    assert asked[1:] == [([True, False], None), ([False, True], None)]
    assert len(notes) == 2
    assert notes[0].startswith("the exponent of x0 in the term x0 of x0' is known only to lie between -")


def test_a_term_that_is_known_in_one_equation_is_fitted_on_its_own_in_another() -> None:
    t = np.linspace(0.0, 4.0, 40)
    v = 2.0 - np.exp(-t)
    series = TimeSeries.from_arrays(t, np.column_stack([1.0 + 2.0 * t + np.exp(-t), v]), ["h", "v"])
    _, p, _ = pose(series, settings_for(known=["h' = v"]))
    law = PowerSum(np.array([[1.0, 0.0], [-1.0, 2.0]]), np.array([[0.0, 1.0], [0.0, 0.0]]))
    free = (np.array([[False, False], [True, True]]), np.array([[False, False], [False, False]]), *all_free(law)[2:])
    split, now = split_known(p, law, free, fit=True)
    assert split.n_monomials == 3
    assert split.coefficients.tolist() == [[1.0, 0.0, 0.0], [0.0, 2.0, -1.0]]
    assert split.exponents[2].tolist() == [0.0, IDENTIFIABILITY.beside]
    assert now[0].tolist() == [[False, False, False], [False, True, True]] and now[1][2].tolist() == [False, True]
    _, plain, _ = pose(series, settings_for())
    assert split_known(plain, law, free, fit=True) == (law, free)


@pytest.mark.slow
def test_chaos_without_noise_hides_no_constant() -> None:
    """What one combination of them does to the end of a trajectory is a million times what all others do."""
    truth = Equations.parse(["x", "y", "z"], {"x": "10*y - 10*x", "y": "28*x - x*z - y", "z": "x*y - 8/3*z"}).power_sum
    assert truth is not None
    p = prepare(series_of(truth, np.array([[1.0, 2.0, 20.0]]), [np.linspace(0.0, 30.0, 3000)]))
    law = truth.rescaled(p.scale.state, p.scale.time)
    found = refined(p, law, but_whole_powers(law), p.initial, sigma_of(p))
    assert p.clean and found.finite
    assert len(found.joint.unknown)
    assert unidentifiable_combinations(p, found) == []


def test_a_constant_of_a_flow_is_told_by_all_equations_that_have_it() -> None:
    series = TimeSeries.from_arrays(np.arange(5.0), np.full((5, 2), 2.0) + np.eye(5, 2), ["A", "B"])
    flows = np.array([[-1.0, 1.0, -1.0], [1.0, -1.0, 0.0]])
    law = PowerSum(np.array([[0.3, 0.0], [0.0, 0.2], [0.1, 0.0]]), np.eye(2), stoichiometry=flows)
    held = tuple(np.zeros(one.shape, bool) for one in law.constants[1:])
    named = _constants(prepare(series), law, (law.coefficients != 0, *held))
    of_a = "the coefficient of A in A'"
    assert named == [f"{of_a} and B'", "the coefficient of B in A' and B'", of_a]
