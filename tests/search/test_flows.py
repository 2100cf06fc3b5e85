"""States without samples: structures of flows compete on whole trajectories."""

import dataclasses

import numpy as np
import pytest

from odediscovery import Equations, InputError, TimeSeries, discover, settings_for
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.problem import pose
from odediscovery.search.flows.contest import _compartments, _sums
from odediscovery.search.flows.flows import elementary
from odediscovery.solve.sensitivities import Starts
from odediscovery.stages.polish import polish

SIR = {"S": "-0.0005*S*I", "I": "0.0005*S*I - 0.1*I", "R": "0.1*I"}


def coefficients(found):
    """Coefficient of each product of powers by equation."""
    law = found.equations.power_sum
    return {
        state: {tuple(w): a for w, a in zip(law.exponents.tolist(), row, strict=True) if a}
        for state, row in zip(found.equations.states, law.coefficients.tolist(), strict=True)
    }


@pytest.mark.long
def test_an_epidemic_is_found_from_the_infected_alone():
    t = np.linspace(0.0, 60.0, 25)
    ill = Equations.parse(tuple(SIR), SIR).simulate(np.array([990.0, 10.0, 0.0]), t)[:, 1]
    series = TimeSeries.from_arrays(t, ill + 0.01 * ill.std() * np.random.default_rng(0).normal(size=25), ["I"])
    epidemic = discover(series, settings_for(hidden_states=["S", "R"], conserve=["S + I + R = 1000"]))
    a = coefficients(epidemic)
    assert epidemic.equations.states == ("I", "S", "R")
    assert set(a["I"]) == {(1.0, 1.0, 0.0), (1.0, 0.0, 0.0)}
    assert a["I"][1.0, 1.0, 0.0] == pytest.approx(0.0005, rel=0.1)
    assert a["I"][1.0, 0.0, 0.0] == pytest.approx(-0.1, rel=0.1)
    # What leaves one state enters another, exactly.
    assert a["S"] == {(1.0, 1.0, 0.0): -a["I"][1.0, 1.0, 0.0]}
    assert a["R"] == {(1.0, 0.0, 0.0): -a["I"][1.0, 0.0, 0.0]}
    assert epidemic.initial_values.sum() == pytest.approx(1000.0)
    assert epidemic.outcome == "converged"
    told = " ".join(epidemic.messages)
    assert "S was not measured: its start is fitted" in told and "the first named" in told


@pytest.mark.parametrize(
    ("states", "options", "said"),
    [
        (
            1,
            {"hidden_states": ["a", "b", "c", "d"]},
            "at most 4 states and inputs can be searched, got 5; choose fewer with --states",
        ),
        (1, {"hidden_states": ["a"], "known": ["a' = -0.1*a"], "conserve": ["a + x"]}, "one of"),
        (1, {"hidden_states": ["a", "b"], "conserve": ["a - b + x = 3"]}, "positive weights"),
        (-1, {"hidden_states": ["a"]}, "changes its sign"),
    ],
)
def test_what_cannot_be_searched_is_refused(states, options, said):
    t = np.linspace(0.0, 6.0, 20)
    x = np.exp(-t) if states > 0 else np.cos(t)
    with pytest.raises(InputError) as raised:
        discover(TimeSeries.from_arrays(t, x, ["x"]), settings_for(**options))
    assert said in str(raised.value) and "\n" not in str(raised.value)


def search_of(settings, states=("x",)):
    t = np.linspace(0.0, 6.0, 20)
    x = np.exp(-t)[:, None] * np.ones(len(states))
    _, p, known = pose(TimeSeries.from_arrays(t, x, states), settings)
    return p, _compartments(p, known), Starts(p.nonnegative, _sums(p, known))


def test_flows_keep_sums_and_need_what_they_take():
    enzymes = np.array([[1.0, 1.0, 0.0, 0.0], [0.0, 1.0, 1.0, 1.0]])  # E + C, C + S + P
    changes = elementary(enzymes, 4)
    assert (-1.0, 1.0, -1.0, 0.0) in changes  # E + S -> C
    assert all(np.allclose(enzymes @ c, 0.0) for c in changes)
    _, problem, _ = search_of(settings_for(hidden_states=["a"]))
    for flow in problem.flows:
        lost = {i for i, c in enumerate(flow.change) if c < 0}
        assert lost <= set(flow.factors)


def test_standard_errors_count_the_measured_states_only():
    t = np.linspace(0.0, 4.0, 30)
    noise = 0.01 * np.random.default_rng(0).normal(size=30)
    alone = TimeSeries.from_arrays(t, np.exp(-t) + noise, ["x"])
    values = np.column_stack([alone.trajectories[0].values, np.full(30, np.nan)])
    run = dataclasses.replace(alone.trajectories[0], values=values)
    beside = dataclasses.replace(alone, states=("x", "y"), trajectories=(run,))
    decay = PowerSum(np.array([[-1.0]]), np.array([[1.0]]))
    one = polish(decay, alone, np.ones((1, 1)), np.array([0.01]), floor=np.array([1e-8]), nonnegative=np.array([True]))
    law = PowerSum(np.array([[-1.0], [0.0]]), np.array([[1.0, 0.0]]))
    two = polish(
        law, beside, np.ones((1, 2)), np.full(2, 0.01), floor=np.full(2, 1e-8), nonnegative=np.array([True, True])
    )
    # One start more is fitted, in vain.
    assert two.errors.coefficients[0, 0] == pytest.approx(one.errors.coefficients[0, 0], rel=0.05)
