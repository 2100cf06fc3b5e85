"""Ordinary small tables: absent species, constants, a handful of samples, groups of two."""

from __future__ import annotations

import numpy as np
import pytest

from odediscovery import TimeSeries, discover, settings_for
from odediscovery.ivp.lsoda import solve_until_failure
from odediscovery.laws.equations import Equations

QUICK = settings_for(members=0, max_seconds=3.0)


@pytest.mark.parametrize("value", [0.0, -2.0])
def test_states_that_never_change_have_no_right_hand_side(value: float) -> None:
    found = discover(TimeSeries.from_arrays(range(4), np.full((4, 2), value), ["x", "y"]), QUICK)
    assert found.equations_text() == "x' = 0\ny' = 0"
    np.testing.assert_allclose(found.initial_values, value, atol=0.1)
    assert not any("far from the data" in message for message in found.messages)


def test_an_absent_species_beside_a_decay_leaves_its_law_alone() -> None:
    t = np.arange(12.0)
    values = np.column_stack([5.0 * np.exp(-0.3 * t), np.zeros(12)])
    found = discover(TimeSeries.from_arrays(t, values, ["A", "B"]), QUICK)
    assert found.equations.pretty(3).splitlines()[1] == "B' = 0"
    law = found.equations.power_sum
    assert law is not None and np.count_nonzero(law.coefficients) == 1
    assert law.coefficients[0].sum() == pytest.approx(-0.3, rel=1e-4)


def test_a_solution_over_times_whose_squares_are_no_numbers() -> None:
    for unit in (1e-250, 1e250):
        times = np.linspace(0.0, 2.0, 5) * unit
        states = solve_until_failure(lambda t, x: -x / unit, np.array([1.0]), times, 1e-9, 1e-12)  # noqa: B023
        np.testing.assert_allclose(states[:, 0], np.exp(-np.linspace(0.0, 2.0, 5)), rtol=1e-6)


def runs_of_predators(noise: float, *blank: tuple[int, int]) -> TimeSeries:
    """Three trajectories of Lotka and Volterra's equations, some of them without any value of a state."""
    law, t = Equations.parse(["x", "y"], {"x": "x - 0.5*x*y", "y": "0.25*x*y - 0.75*y"}), np.linspace(0.0, 12.0, 40)
    random = np.random.default_rng(0)
    runs = [law.simulate(np.array(start), t) for start in ([2.0, 1.0], [1.0, 2.0], [1.5, 0.5])]
    runs = [x * (1.0 + noise * random.standard_normal(x.shape)) for x in runs]
    for run, state in blank:
        runs[run][:, state] = np.nan
    return TimeSeries.from_arrays([t] * 3, runs, ["x", "y"])


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.02])
def test_a_trajectory_without_a_state_is_fitted_with_the_law_of_the_others(noise: float) -> None:
    found = discover(runs_of_predators(noise, (1, 1)), settings_for(members=0))
    law = found.equations.power_sum
    assert law is not None and sorted(law.exponents.tolist()) == [[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]
    assert any(text.startswith("Trajectory '2' has no value of y: ") for text in found.messages)
    # Its start of that state is found from the other one.
    np.testing.assert_allclose(found.initial_values, [[2.0, 1.0], [1.0, 2.0], [1.5, 0.5]], rtol=3.0 * noise + 1e-6)
