"""A state without a column follows from a conserved sum whose other states were measured."""

from __future__ import annotations

import numpy as np
import pytest

from odediscovery import InputError, TimeSeries, discover, load_csv, settings_for
from odediscovery.data.samples import with_latent_states
from odediscovery.knowledge.constraints import knowledge
from odediscovery.laws.systems import simulate_system
from odediscovery.problem.latent_states import infer_latent_states


def measured(states: list[str], noise: float = 0.0) -> TimeSeries:
    full = simulate_system("fsir", noise=noise)
    run = full.trajectories[0]
    columns = [full.states.index(s) for s in states]
    return TimeSeries.from_arrays(run.time, run.values[:, columns], states)


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
    wide = with_latent_states(measured(["S", "I"]), ["R", "D"])
    known = knowledge(wide.states, conserve=["S + I + R + D = 100"])
    told = infer_latent_states(wide, ["R", "D"], known)
    assert np.isnan(told.trajectories[0].values[:, 2:]).all() and not told.messages
    with pytest.raises(InputError, match="'S'"):
        with_latent_states(measured(["S", "I"]), ["S"])


@pytest.mark.slow
def test_the_folder_of_a_result_holds_all_states(tmp_path) -> None:
    settings = settings_for(hidden_states=["I"], conserve=["S + I = 10"], members=0)
    t = np.linspace(0.0, 10.0, 30)
    found = discover(TimeSeries.from_arrays(t, 9.0 * np.exp(-0.3 * t)[:, None], ["S"]), settings)
    found.save(tmp_path / "out")
    assert load_csv(tmp_path / "out" / "data.csv").states == ("S", "I")
