"""Candidate terms on the integral form: the increments that they would make."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from problems import growth

from odediscovery.families import FAMILIES, POWERS, Terms
from odediscovery.stages.grow import integral_form
from odediscovery.stages.grow.integral_form import Integral
from odediscovery.stages.grow.libraries import columns_of, features_for, grid_for, values_of

# N' = 0.5 N - 0.5 N^2 without noise.
SERIES = growth(np.linspace(0.0, 14.0, 60), 0.0)
REAL, CHANGING = np.array([False]), np.array([True])


def test_the_increments_of_the_data_are_a_sum_of_two_candidates() -> None:
    problem = Integral.of(SERIES, np.zeros(1), REAL, features_for(POWERS, REAL, CHANGING, np.ones(1)))
    grid = grid_for(problem, POWERS, REAL, CHANGING)
    columns = columns_of(grid, problem, problem.interpolated(), np.array([0]))[0]
    np.testing.assert_allclose(np.linalg.norm(columns, axis=0), 1.0, rtol=1e-12)
    true = [grid.rows.tolist().index([power]) for power in (1.0, 2.0)]
    target = problem.target[0]
    _, left, *_ = np.linalg.lstsq(columns[:, true], target, rcond=None)
    assert left[0] < 1e-6 * float(target @ target)


def test_values_are_those_of_the_formula_in_every_family() -> None:
    for family in FAMILIES:
        features = features_for(family, REAL, CHANGING, np.ones(1))
        problem = Integral.of(SERIES, np.zeros(1), family.whole(REAL), features)
        grid, path = grid_for(problem, family, REAL, CHANGING), problem.interpolated()
        values = values_of(grid, path)
        assert values.shape[2] == len(grid) > 1, family.name
        inner = 1.0 + grid.constant * path.monomials(grid.inner)
        plain = np.flatnonzero(inner.min(axis=(0, 1)) > 1e-6)
        expected = path.monomials(grid.rows)[..., plain] * inner[..., plain] ** grid.power[plain]
        np.testing.assert_allclose(values[..., plain], expected, rtol=1e-9)


def test_integrals_by_one_product_are_those_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    features = features_for(POWERS, REAL, CHANGING, np.ones(1))
    quick, slow = (Integral.of(SERIES, np.full(1, 1e-3), REAL, features) for _ in range(2))
    nodes = quick.interpolated().monomials(np.array([[1.0], [0.5], [-2.0]]))
    states, in_rows = np.array([0]), nodes.reshape(-1, 3).T[None, None]
    expected = slow.reduced(slow.cumulative(nodes), states)
    np.testing.assert_allclose(quick.integrals(nodes, states), expected, rtol=1e-9)
    np.testing.assert_allclose(quick.rows(in_rows, states)[0].transpose(0, 2, 1), expected, rtol=1e-9)
    monkeypatch.setattr(integral_form, "INTEGRAL", dataclasses.replace(integral_form.INTEGRAL, largest_operator=1))
    assert slow.operators == ()
    np.testing.assert_allclose(slow.integrals(nodes, states), expected, rtol=1e-12)
    np.testing.assert_allclose(slow.rows(in_rows, states)[0].transpose(0, 2, 1), expected, rtol=1e-12)


def test_the_length_of_a_term_is_its_number_of_factors() -> None:
    terms = Terms(
        np.array([[0.0, 0.0], [1.0, 2.0]]), np.array([0.0, 0.5]), np.array([[0.0, 0.0], [0.0, 1.0]]), np.zeros(2)
    )
    assert terms.lengths.tolist() == [0, 3]
