"""Trajectories that no law follows from one start are cut; others stay whole."""

from __future__ import annotations

import numpy as np
import pytest
from problems import LOGISTIC, growth
from scipy.integrate import solve_ivp

from odediscovery import Monitor, TimeSeries, settings_for
from odediscovery.data.controls import with_controls
from odediscovery.discovery import chaos
from odediscovery.discovery.chaos import cannot_follow, cut_until_followed
from odediscovery.discovery.task import pose_task
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.prepare import prepare
from odediscovery.problem.problem import Problem
from odediscovery.stages.prune.paths import window_length
from odediscovery.stages.values import Candidate, Polished

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


@pytest.fixture(scope="module")
def waves() -> Problem:
    """Two hundred oscillations in noise."""
    t, random = np.linspace(0.0, 400.0 * np.pi, 1200), np.random.default_rng(0)
    values = np.column_stack([np.sin(t), np.cos(t)]) + 0.1 * random.standard_normal((len(t), 2))
    return prepare(TimeSeries.from_arrays(t, values, ["x", "y"]))


@pytest.mark.slow
def test_a_law_that_is_out_of_phase_cannot_follow_and_short_series_are_never_cut(waves: Problem) -> None:
    wrong = candidate(waves, PowerSum(np.array([[0.0, 0.3], [-0.3, 0.0]]), np.eye(2)))
    length = window_length(waves)
    lost, polished = cannot_follow(waves, [wrong], length)
    assert lost and list(polished) == [wrong]
    assert cannot_follow(waves, [wrong], 600) == (False, {})


@pytest.mark.slow
def test_pieces_are_tried_before_shorter_ones_and_a_stop_ends_it(waves: Problem) -> None:
    wrong = candidate(waves, PowerSum(np.array([[0.0, 0.3], [-0.3, 0.0]]), np.eye(2)))
    pieces, _ = cut_until_followed(waves, [wrong], Monitor())
    longest = max(len(t.time) for t in pieces.data.trajectories)
    assert pieces.heads == (0,) and longest <= 2 * window_length(waves)
    stopped = Monitor()
    stopped.interrupt()
    assert cut_until_followed(waves, [wrong], stopped) == (waves, {})


def noisy_lorenz(span: float) -> tuple[Problem, Candidate]:
    """Chaos from one start, and its law."""
    t = np.linspace(0.0, span, int(60 * span))
    values = solve_ivp(lambda _, x: lorenz(x), (0.0, span), [1.0, 1.0, 20.0], t_eval=t, rtol=1e-9).y.T
    values = values + 0.2 * np.random.default_rng(0).standard_normal(values.shape)
    p = prepare(TimeSeries.from_arrays(t, values, ["x", "y", "z"]))
    return p, candidate(p, LORENZ.rescaled(p.scale.state, p.scale.time))


@SPANS
def test_where_errors_outgrow_every_state_nothing_is_polished(
    span: float, lost: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def polish_candidate(*_: object) -> Polished:
        raise InterruptedError

    monkeypatch.setattr(chaos, "polish_candidate", polish_candidate)
    p, law = noisy_lorenz(span)
    if lost:
        assert cannot_follow(p, [law], 50) == (True, {})
    else:
        with pytest.raises(InterruptedError):
            cannot_follow(p, [law], 50)


@SPANS
def test_a_stop_cuts_what_errors_of_the_start_outgrow(span: float, lost: bool) -> None:
    p, law = noisy_lorenz(span)
    stopped = Monitor()
    stopped.interrupt()
    cut, polished = cut_until_followed(p, [law], stopped)
    assert (cut.heads is not None) == lost and polished == {}


def test_a_stop_cuts_what_a_law_that_blows_up_cannot_follow() -> None:
    p, law = noisy_lorenz(30.0)
    a, w = law.law.coefficients, law.law.exponents
    wild = PowerSum(np.column_stack([a, [0.0, 0.0, 9.0]]), np.vstack([w, [0.0, 0.0, 2.0]]))
    stopped = Monitor()
    stopped.interrupt()
    cut, _ = cut_until_followed(p, [candidate(p, wild)], stopped)
    assert cut.heads is not None


def test_a_law_that_follows_leaves_the_series_whole_and_is_polished_once() -> None:
    p = prepare(growth(np.linspace(0.0, 40.0, 300), 0.01))
    law = candidate(p, LOGISTIC.rescaled(p.scale.state, p.scale.time))
    whole, polished = cut_until_followed(p, [law], Monitor())
    assert whole is p and list(polished) == [law]
    assert polished[law].law.coefficients[0] == pytest.approx(law.law.coefficients[0], rel=0.05)


def test_controls_are_followed_too() -> None:
    t = np.linspace(0.0, 40.0, 300)
    values = np.column_stack([growth(t, 0.01).trajectories[0].values, np.sin(t), np.cos(t)])
    series = with_controls(TimeSeries.from_arrays(t, values, ["x", "u", "v"]), ["u", "v"])
    p = pose_task(series, settings_for(), Monitor()).p
    grows = PowerSum(np.pad(LOGISTIC.coefficients, ((0, 2), (0, 0))), np.pad(LOGISTIC.exponents, ((0, 0), (0, 2))))
    law = candidate(p, grows.rescaled(p.scale.state, p.scale.time))
    whole, polished = cut_until_followed(p, [law], Monitor())
    assert whole is p and list(polished) == [law]
