"""First terms of a series meet exact data of one orbit: sines are tried, and what does not look like a law is named."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from odediscovery import TimeSeries, discover, settings_for, simulate_system
from odediscovery.bench.random_laws.systems import random_system
from odediscovery.bench.suites.protocol import Protocol, training_data
from odediscovery.bench.suites.scores import score
from odediscovery.discovery.conclude import conclude
from odediscovery.families import TRIGONOMETRIC
from odediscovery.judge.criterion import judge_on
from odediscovery.judge.verdict import Verdict
from odediscovery.laws.cost import all_free
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.prepare import prepare
from odediscovery.runtime.arrays import Array
from odediscovery.runtime.monitor import Monitor
from odediscovery.search.candidates import as_grown, simplest
from odediscovery.search.convincing import begins_a_sine
from odediscovery.search.proposals import sines_for_a_series
from odediscovery.search.refinement import refined, sigma_of
from odediscovery.search.rungs import Climb
from odediscovery.stages.values import FoundBy, Origin

# theta' = omega, omega' = -7.75 theta + 0.908 theta^3 - 0.0741 theta omega^2 - 0.0214 theta^5
SERIES = PowerSum(
    np.array([[1.0, 0.0, 0.0, 0.0, 0.0], [0.0, -7.7501, 0.90793, -0.074139, -0.021357]]),
    np.array([[0.0, 1.0], [1.0, 0.0], [3.0, 0.0], [1.0, 2.0], [5.0, 0.0]]),
)
MESSAGE = "does not look like a law"


def oscillation(force: str, start: float, until: float) -> TimeSeries:
    """x'' = force(x) from rest, exact."""
    forces = {"duffing": lambda x: x - x**3, "sine": lambda x: -1.3 * np.sin(x)}

    def rhs(_: float, y: Array) -> list[float]:
        return [y[1], forces[force](y[0])]

    t = np.linspace(0.0, until, 120)
    run = solve_ivp(rhs, (0.0, until), [start, 0.0], t_eval=t, rtol=1e-12, atol=1e-12)
    return TimeSeries.from_arrays([t], [run.y.T], ["x", "v"])


def decay(power: float) -> TimeSeries:
    """x' = -0.3 x^w from 5, in closed form."""
    t = np.linspace(0.0, 8.0, 60)
    x = (5.0 ** (1.0 - power) + (power - 1.0) * 0.3 * t) ** (1.0 / (1.0 - power))
    return TimeSeries.from_arrays(t, x[:, None], ["x"])


@pytest.mark.slow
@pytest.mark.parametrize("start", [0.4, 1.9, 2.6])
def test_a_pendulum_without_friction_is_a_sine_on_its_one_orbit(start: float) -> None:
    found = discover(oscillation("sine", start, 20.0), settings_for(members=0))
    assert found.equations.texts() == {"x": "v", "v": "-1.3*sin(x)"}


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "number"), [(61, 0), (61, 4), (63, 0)])
def test_a_pendulum_in_noise_that_hides_the_fifth_power_is_a_sine(seed: int, number: int) -> None:
    system = random_system(seed, "trigonometric", number)
    protocol = Protocol(0.01, trajectories=2, seed=seed)
    found = discover(training_data(system, protocol), settings_for(members=0)).equations
    assert score(found, system, protocol).exact, found.texts()


@pytest.mark.slow
def test_a_cubic_spring_is_no_sine() -> None:
    found = discover(oscillation("duffing", 1.2, 15.0), settings_for(members=0))
    assert found.equations.texts() == {"x": "v", "v": "x - x**3"}


def test_terms_that_begin_a_sine_are_seen_where_a_state_changes_its_sign() -> None:
    p = prepare(simulate_system("pendulum"))
    assert begins_a_sine(SERIES, p).tolist() == [False, True]
    linear = PowerSum(np.array([[0.0, 1.0], [-1.0, 0.0]]), np.eye(2))
    assert not begins_a_sine(linear, p).any()
    positive = prepare(TimeSeries.from_arrays(np.arange(9.0), np.full((9, 2), 2.0) + np.eye(9)[:, :2], ["x", "v"]))
    assert not begins_a_sine(SERIES, positive).any()


def test_sines_are_grown_in_place_of_a_series_without_a_name() -> None:
    p = prepare(simulate_system("pendulum")).without_noise(None)
    series = SERIES.rescaled(p.scale.state, p.scale.time)
    at = Climb(p, settings_for(), Monitor(), candidates=[as_grown(p, series)])
    laws = [law for proposal in sines_for_a_series(at) for law in proposal.laws]
    law = simplest([as_grown(p, law) for law in laws], p).law
    assert law.features is not None
    assert [f.name for f in law.features.functions] == [TRIGONOMETRIC.functions[0].name]
    assert np.count_nonzero(law.coefficients) == 2


@pytest.mark.parametrize(
    ("power", "origin", "doubted"), [(1.01, "growing", 1), (1.01, "textbook", 0), (1.2, "growing", 0)]
)
def test_what_does_not_look_like_a_law_is_named_in_exact_data(power: float, origin: FoundBy, doubted: int) -> None:
    series = decay(power)
    p = prepare(series).without_noise(None)
    law = PowerSum(np.array([[-0.3]]), np.array([[power]])).rescaled(p.scale.state, p.scale.time)
    found = refined(p, law, all_free(law), p.initial, sigma_of(p))
    told = conclude(Verdict.of(p, [judge_on(p, found, Origin(0, origin))]), series, settings_for(), Monitor())
    assert [MESSAGE in message for message in told.messages].count(True) == doubted
