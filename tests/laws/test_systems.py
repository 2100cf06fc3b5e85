"""The known systems and the data they make."""

from pathlib import Path

import numpy as np
import pytest

from odediscovery import SYSTEMS, FitError, InputError, get_system, load_csv, simulate_system


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_system_can_be_simulated(name):
    system = get_system(name)
    series = simulate_system(name)
    assert series.states == system.states == tuple(system.initial)
    (trajectory,) = series.trajectories
    assert trajectory.values.shape == (system.n_samples, len(system.states))
    assert trajectory.values[0].tolist() == list(system.initial.values())
    assert (trajectory.time[0], trajectory.time[-1]) == system.t_span
    assert (np.ptp(trajectory.values, axis=0) > 0).all()
    assert system.title and system.source
    assert set(system.units) <= {*system.states, "t"}


def test_the_registry_holds_what_is_promised():
    wanted = {"fsir", "sir", "lotka-volterra", "logistic", "theta-logistic", "von-bertalanffy", "torricelli", "lorenz"}
    wanted |= {"van-der-pol", "damped-oscillator", "brusselator", "fractional-drag", "s-system"}
    assert wanted <= set(SYSTEMS)
    assert all(name == system.name for name, system in SYSTEMS.items())
    sums = {name for name in SYSTEMS if SYSTEMS[name].equations().power_sum is not None}
    assert set(SYSTEMS) - sums == {"pendulum"}


def test_fsir_agrees_with_the_published_trajectory():
    published = load_csv(Path(__file__).parents[1] / "files" / "julia_fsir_trajectory.csv")
    found = simulate_system("fsir").trajectories[0]
    np.testing.assert_allclose(found.time, published.trajectories[0].time, rtol=1e-14)
    np.testing.assert_allclose(found.values, published.trajectories[0].values, rtol=1e-3)
    assert get_system("fsir").equations().complexity == 13


def test_logistic_growth_is_the_known_curve():
    series = simulate_system("logistic", {"r": 0.8, "K": 50.0, "N": 5.0}, samples=7, until=9.0)
    t = series.trajectories[0].time
    assert t.tolist() == [0.0, 1.5, 3.0, 4.5, 6.0, 7.5, 9.0]
    exact = 50.0 / (1.0 + 9.0 * np.exp(-0.8 * t))
    np.testing.assert_allclose(series.trajectories[0].values[:, 0], exact, rtol=1e-8)


def test_noise_has_the_size_asked_for_and_is_repeatable():
    def values(**options):
        series = simulate_system("lotka-volterra", samples=4000, **options)
        return series.trajectories[0].values

    clean, noisy = values(), values(noise=0.1, seed=3)
    ratio = (noisy - clean).std(axis=0) / clean.std(axis=0)
    np.testing.assert_allclose(ratio, 0.1, rtol=0.05)
    assert np.array_equal(noisy, values(noise=0.1, seed=3))
    assert not np.array_equal(noisy, values(noise=0.1, seed=4))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "fsri"}, "unknown system 'fsri': did you mean 'fsir'?"),
        ({"name": "fsir", "set": {"betta": 1.0}}, "unknown parameter or state 'betta': did you mean 'beta'?"),
        ({"name": "fsir", "set": {"beta": np.nan}}, "beta should be a finite number, got nan"),
        ({"name": "fsir", "samples": 3}, "--samples should be at least 4, got 3"),
        ({"name": "fsir", "until": -1.0}, "--until should be after the start at 0, got -1"),
        ({"name": "fsir", "until": np.inf}, "until should be a finite number, got inf"),
        ({"name": "fsir", "noise": -0.1}, "--noise should be 0 or a positive share, got -0.1"),
        ({"name": "fsir", "seed": -1}, "--seed must be at least 0, got -1"),
    ],
)
def test_mistakes_are_named(arguments, message):
    with pytest.raises(InputError) as caught:
        simulate_system(**arguments)
    assert str(caught.value).startswith(message)


def test_unknown_parameter_of_equations():
    with pytest.raises(InputError, match="unknown parameter 'S'"):
        get_system("fsir").equations({"S": 1.0})


def test_a_solution_that_ends_early_is_said():
    with pytest.raises(FitError, match=r"the solution of logistic cannot be followed beyond t = "):
        simulate_system("logistic", {"N": -50.0}, until=10.0)
