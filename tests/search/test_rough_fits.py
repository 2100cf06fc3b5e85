"""Structures of flows fitted roughly: the true one wins, with its constants."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from odediscovery import Monitor, TimeSeries
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.prepare import prepare
from odediscovery.search.flows.flows import Flow, law_of
from odediscovery.search.flows.rough_fits import rough_fits
from odediscovery.solve.initial_values import Starts

OUT = Flow((-1.0, 0.0), (0,))
PASSED = Flow((-1.0, 1.0), (0,))
GONE = Flow((0.0, -1.0), (1,))


@pytest.fixture(scope="module")
def chain() -> TimeSeries:
    """a' = -0.8 a, b' = 0.8 a - 0.3 b from (2, 0.5)."""
    t = np.linspace(0.0, 8.0, 40)
    a = 2.0 * np.exp(-0.8 * t)
    b = (0.5 + 3.2) * np.exp(-0.3 * t) - 3.2 * np.exp(-0.8 * t)
    return TimeSeries.from_arrays(t, np.column_stack([a, b]), ["a", "b"])


@pytest.mark.slow
def test_the_true_structure_fits_best_with_its_constants(chain: TimeSeries) -> None:
    p = prepare(chain)
    given = PowerSum(np.zeros((2, 0)), np.zeros((0, 2)))
    structures = [frozenset({OUT, GONE}), frozenset({PASSED, GONE})]
    fits = rough_fits(p, structures, Starts(p.nonnegative, ()), given, np.random.default_rng(0), Monitor())
    best = fits[0]
    assert set(best.structure) == {PASSED, GONE} and best.mean_square < 1e-2
    assert all(a.mean_square <= b.mean_square for a, b in itertools.pairwise(fits))
    law, fitted = law_of(best.structure, best.constants, given, p.scale.state)
    user = law.unscaled(p.scale.state, p.scale.time)
    rates = {tuple(w): user.stoichiometry @ user.coefficients[:, j] for j, w in enumerate(user.exponents.tolist())}
    assert rates[1.0, 0.0] == pytest.approx([-0.8, 0.8], rel=0.02)
    assert rates[0.0, 1.0] == pytest.approx([0.0, -0.3], abs=0.02)
    assert fitted.any()
    assert (best.initial * p.scale.state)[0] == pytest.approx([2.0, 0.5], rel=0.02)
