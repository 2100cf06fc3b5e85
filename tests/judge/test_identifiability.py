"""What a law leaves open: exponents, combinations, and terms that are known in one equation only."""

from __future__ import annotations

import numpy as np
import pytest
from problems import series_of

from odediscovery import Equations, TimeSeries, settings_for
from odediscovery.judge.identifiability import IDENTIFIABILITY, split_known, unidentifiable_combinations
from odediscovery.laws.cost import all_free, but_whole_powers
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.pose import pose
from odediscovery.problem.prepare import prepare
from odediscovery.search.refinement import refined, sigma_of


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
