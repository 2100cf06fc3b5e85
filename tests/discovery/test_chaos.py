"""Trajectories that no law follows from one start are cut; others stay whole."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from odediscovery import Monitor, TimeSeries
from odediscovery.discovery.chaos import cut_until_followed
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.prepare import prepare
from odediscovery.problem.problem import Problem
from odediscovery.stages.values import Candidate

LORENZ = PowerSum(
    np.array([[-10.0, 10.0, 0.0, 0.0, 0.0], [28.0, -1.0, 0.0, -1.0, 0.0], [0.0, 0.0, -8.0 / 3.0, 0.0, 1.0]]),
    np.array([[1.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0], [1.0, 0, 1.0], [1.0, 1.0, 0]]),
)


SPANS = pytest.mark.parametrize(
    ("span", "lost"), [pytest.param(3.0, False, id="short"), pytest.param(30.0, True, id="long")]
)


def lorenz(x: list[float]) -> list[float]:
    return [10.0 * (x[1] - x[0]), x[0] * (28.0 - x[2]) - x[1], x[0] * x[1] - 8.0 / 3.0 * x[2]]


def candidate(p: Problem, law: PowerSum) -> Candidate:
    return Candidate(law, p.initial, 1.0, 0, np.ones(law.n_states, dtype=bool))


def noisy_lorenz(span: float) -> tuple[Problem, Candidate]:
    """Chaos from one start, and its law."""
    t = np.linspace(0.0, span, int(60 * span))
    values = solve_ivp(lambda _, x: lorenz(x), (0.0, span), [1.0, 1.0, 20.0], t_eval=t, rtol=1e-9).y.T
    values = values + 0.2 * np.random.default_rng(0).standard_normal(values.shape)
    p = prepare(TimeSeries.from_arrays(t, values, ["x", "y", "z"]))
    return p, candidate(p, LORENZ.rescaled(p.scale.state, p.scale.time))


@SPANS
def test_a_stop_cuts_what_errors_of_the_start_outgrow(span: float, lost: bool) -> None:
    p, law = noisy_lorenz(span)
    stopped = Monitor()
    stopped.interrupt()
    cut, polished = cut_until_followed(p, [law], stopped)
    assert (cut.heads is not None) == lost and polished == {}
