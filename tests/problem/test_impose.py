"""Knowledge applied to single laws, against answers written by hand."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from odediscovery.data.series import TimeSeries
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.impose import apply_knowledge, fixed_mask, in_user_units
from odediscovery.problem.pose import pose, pose_known, with_known_states
from odediscovery.problem.problem import Problem
from odediscovery.settings import settings_for

T = np.linspace(0.0, 4.0, 41)
# h' = -v,  v' = 9 - 0.5 v: the user's units are 30 and 5 times the dimensionless ones, about.
SERIES = TimeSeries.from_arrays(T, np.column_stack([60.0 - 10.0 * T, 18.0 - 17.0 * np.exp(-0.5 * T)]), ["h", "v"])
FOUND = PowerSum(np.array([[-1.2, 0.3], [-0.4, 0.0]]), np.array([[0.0, 1.0], [0.0, 0.0]]))


def posed(**known: object) -> Problem:
    return pose(SERIES, settings_for(**known))[1]  # type: ignore[arg-type]


def test_known_terms_replace_found_ones_and_are_fixed() -> None:
    p = posed(known=["h' = -v"])
    law = apply_knowledge(p, FOUND)
    # -v in user's units: c = -1 * T s_v / s_h.
    c = -p.scale.time * p.scale.state[1] / p.scale.state[0]
    assert law.exponents.tolist() == [[0.0, 1.0]]
    np.testing.assert_allclose(law.coefficients, [[c], [-0.4]], rtol=1e-15)
    of_a, of_w = fixed_mask(p, law) or pytest.fail("nothing is fixed")
    assert of_a.tolist() == [[True], [False]]
    assert of_w.all()
    # The constant that the user gave comes back without rounding.
    assert in_user_units(p, law).coefficients[0].tolist() == [-1.0]


def test_a_sum_infers_a_latent_state_and_ties_an_equation() -> None:
    settings = settings_for(conserve=["h + v + w = 100"], hidden_states=["w"])
    series, known = with_known_states(SERIES, settings)
    x = series.trajectories[0].values
    np.testing.assert_allclose(x.sum(axis=1), 100.0)
    assert series.messages == ("w was not measured: its samples follow from the conserved sum",)
    p = pose_known(series, known, settings)
    assert p.knowledge is not None
    assert p.knowledge.tied.tolist() == [False, False, True]
    assert dataclasses.astuple(p.scale)[1] == pytest.approx(0.1)
