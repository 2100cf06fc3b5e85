"""Knowledge applied to laws, and states that follow from conserved sums."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from odediscovery import InputError, TimeSeries
from odediscovery.data.series import with_latent_states
from odediscovery.knowledge.constraints import knowledge
from odediscovery.laws.power_sum import PowerSum
from odediscovery.laws.systems import simulate_system
from odediscovery.problem.problem import (
    Problem,
    apply_knowledge,
    fixed_mask,
    in_user_units,
    infer_latent_states,
    pose,
    pose_known,
    with_known_states,
)
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


def test_one_hidden_state_can_tell_another() -> None:
    t = np.arange(5.0)
    series = TimeSeries.from_arrays(t, np.stack([t, 10.0 - 2.0 * t], axis=1), ["a", "b"])
    wide = with_latent_states(series, ["c", "d"])
    known = knowledge(wide.states, conserve=["c + 2*d = 8", "a + b - 2*c = 4"])
    x = infer_latent_states(wide, ["c", "d"], known).trajectories[0].values
    np.testing.assert_allclose(x[:, 2], (t + 10.0 - 2.0 * t - 4.0) / 2.0)
    np.testing.assert_allclose(x[:, 3], (8.0 - x[:, 2]) / 2.0)


def test_error_bars_and_gaps_pass_on() -> None:
    t = np.arange(6.0)
    values = np.stack([t + 1.0, 2.0 * t + 1.0], axis=1)
    values[2, 0] = np.nan
    series = TimeSeries.from_arrays(t, values, ["a", "b"], sigma=np.tile([3.0, 4.0], (6, 1)))
    wide = with_latent_states(series, ["c"])
    told = infer_latent_states(wide, ["c"], knowledge(wide.states, conserve=["a + b + 0.5*c = 3"]))
    run = told.trajectories[0]
    assert run.sigma is not None
    assert run.sigma[0, 2] == pytest.approx(10.0) and np.isnan(run.values[2, 2])
    assert np.isnan(run.sigma[2, 2])


def test_what_no_sum_tells_keeps_no_samples() -> None:
    run = simulate_system("fsir").trajectories[0]
    series = TimeSeries.from_arrays(run.time, run.values[:, :2], ["S", "I"])
    wide = with_latent_states(series, ["R", "D"])
    known = knowledge(wide.states, conserve=["S + I + R + D = 100"])
    told = infer_latent_states(wide, ["R", "D"], known)
    assert np.isnan(told.trajectories[0].values[:, 2:]).all() and not told.messages
    with pytest.raises(InputError, match="'S'"):
        with_latent_states(series, ["S"])
