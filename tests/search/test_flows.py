"""States without samples: structures of flows compete on whole trajectories."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from odediscovery import InputError, TimeSeries, discover, settings_for
from odediscovery.laws.equations import Equations
from odediscovery.laws.power_sum import PowerSum
from odediscovery.plots.figures import fit_figure
from odediscovery.problem.pose import pose
from odediscovery.result.discovery import Discovery
from odediscovery.runtime.monitor import Monitor
from odediscovery.search.flows.contest import _compartments, _sums
from odediscovery.search.flows.flows import Flow, elementary
from odediscovery.search.flows.rough_fits import rough_fits
from odediscovery.settings import Settings
from odediscovery.solve.initial_values import Starts
from odediscovery.stages.polish.polish import polish

SIR = {"S": "-0.0005*S*I", "I": "0.0005*S*I - 0.1*I", "R": "0.1*I"}
CHAIN = {"A": "-0.8*A", "B": "0.8*A - 0.3*B"}


def samples(texts: dict[str, str], starts: list[list[float]], until: float, seen: str, count: int = 25) -> TimeSeries:
    """One state of a known system with 1 % noise."""
    law = Equations.parse(tuple(texts), texts)
    t, column = np.linspace(0.0, until, count), list(texts).index(seen)
    generator, values = np.random.default_rng(0), []
    for start in starts:
        x = law.simulate(np.array(start), t)[:, column]
        values.append((x + 0.01 * x.std() * generator.normal(size=count))[:, None])
    if len(starts) == 1:
        return TimeSeries.from_arrays(t, values[0], [seen])
    return TimeSeries.from_arrays([t] * len(starts), values, [seen])


@pytest.fixture(scope="module")
def epidemic() -> Discovery:
    series = samples(SIR, [[990.0, 10.0, 0.0]], 60.0, "I")
    return discover(series, settings_for(hidden_states=["S", "R"], conserve=["S + I + R = 1000"]))


def coefficients(found: Discovery) -> dict[str, dict[tuple[float, ...], float]]:
    """Coefficient of each product of powers by equation."""
    law = found.equations.power_sum
    assert law is not None
    return {
        state: {tuple(w): a for w, a in zip(law.exponents.tolist(), row, strict=True) if a}
        for state, row in zip(found.equations.states, law.coefficients.tolist(), strict=True)
    }


@pytest.mark.long
def test_an_epidemic_is_found_from_the_infected_alone(epidemic: Discovery) -> None:
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


@pytest.mark.slow
def test_its_folder_and_picture_have_the_unmeasured_states(epidemic: Discovery, tmp_path) -> None:
    epidemic.save(tmp_path / "out")
    back = Discovery.load(tmp_path / "out")
    assert back.series.states == ("I", "S", "R") and np.isnan(back.noise[1:]).all()
    assert np.isnan(back.series.trajectories[0].values[:, 1:]).all()
    np.testing.assert_allclose(back.simulate(), epidemic.simulate(), rtol=1e-6)
    titles = [axes.get_title(loc="left") for axes in fit_figure(back).axes]
    assert "S (not measured)" in titles and "I" in titles


@pytest.fixture(scope="module")
def chain() -> Discovery:
    series = samples(CHAIN, [[5.0, 0.0], [2.0, 3.0]], 12.0, "B", count=20)
    settings = settings_for(hidden_states=["A"], forbid=["A: B"], integer_exponents=True)
    return discover(series, settings)


@pytest.mark.long
def test_a_chain_is_found_from_its_last_state(chain: Discovery) -> None:
    a = coefficients(chain)
    assert set(a["B"]) == {(1.0, 0.0), (0.0, 1.0)} and set(a["A"]) == {(0.0, 1.0)}
    assert a["B"][0.0, 1.0] == -a["A"][0.0, 1.0]
    # Which of the two constants is that of the hidden state cannot be told.
    assert sorted((-a["B"][1.0, 0.0], a["B"][0.0, 1.0])) == pytest.approx([0.3, 0.8], rel=0.1)
    told = " ".join(chain.messages)
    assert "nothing tells the scale of A" in told and "A in units of B" in told
    assert "the same flows with other constants" in told


@pytest.mark.long
def test_the_same_seed_gives_the_same_equations() -> None:
    series = samples(CHAIN, [[5.0, 0.0]], 12.0, "B", count=8)
    settings = settings_for(
        hidden_states=["A"], forbid=["A: B"], integer_exponents=True, known=["B' = 0.8*A + ?", "A' = -0.8*A"], seed=3
    )
    first, again = discover(series, settings), discover(series, settings)
    assert first.equations.texts() == again.equations.texts()
    assert "0.8*A" in first.equations.texts()["B"].replace(" ", "")


@pytest.mark.parametrize(
    ("states", "options", "said"),
    [
        (1, {"hidden_states": ["a", "b", "c", "d"]}, "too many to search"),
        (1, {"hidden_states": ["a"], "known": ["a' = -0.1*a"], "conserve": ["a + x"]}, "one of"),
        (1, {"hidden_states": ["a", "b"], "conserve": ["a - b + x = 3"]}, "positive weights"),
        (-1, {"hidden_states": ["a"]}, "changes its sign"),
    ],
)
def test_what_cannot_be_searched_is_refused(states: int, options: dict, said: str) -> None:
    t = np.linspace(0.0, 6.0, 20)
    x = np.exp(-t) if states > 0 else np.cos(t)
    with pytest.raises(InputError) as raised:
        discover(TimeSeries.from_arrays(t, x, ["x"]), settings_for(**options))
    assert said in str(raised.value) and "\n" not in str(raised.value)


def search_of(settings: Settings, states: tuple[str, ...] = ("x",)):
    t = np.linspace(0.0, 6.0, 20)
    x = np.exp(-t)[:, None] * np.ones(len(states))
    _, p, known = pose(TimeSeries.from_arrays(t, x, states), settings)
    return p, _compartments(p, known), Starts(p.nonnegative, _sums(p, known))


def test_flows_keep_sums_and_need_what_they_take() -> None:
    enzymes = np.array([[1.0, 1.0, 0.0, 0.0], [0.0, 1.0, 1.0, 1.0]])  # E + C, C + S + P
    changes = elementary(enzymes, 4)
    assert (-1.0, 1.0, -1.0, 0.0) in changes  # E + S -> C
    assert all(np.allclose(enzymes @ c, 0.0) for c in changes)
    _, problem, _ = search_of(settings_for(hidden_states=["a"]))
    for flow in problem.flows:
        lost = {i for i, c in enumerate(flow.change) if c < 0}
        assert lost <= set(flow.factors)


def test_scales_and_names_without_meaning_are_no_other_structures() -> None:
    _, problem, _ = search_of(settings_for(hidden_states=["a"]))
    out, over = Flow((-1.0, 0.0), (0,)), Flow((1.0, -1.0), (1,))
    assert problem.is_sensible(frozenset({out, over}))
    # a would decay for itself: how much of it reaches x, nobody could say.
    assert not problem.is_sensible(frozenset({out, over, Flow((0.0, -1.0), (1,))}))
    assert not problem.is_sensible(frozenset({out}))
    _, problem, _ = search_of(settings_for(hidden_states=["a", "b"], conserve=["a + x + b = 2"]))
    down = frozenset({Flow((1.0, -1.0, 0.0), (0, 1)), Flow((-1.0, 0.0, 1.0), (0,))})
    up = frozenset({Flow((1.0, 0.0, -1.0), (0, 2)), Flow((-1.0, 1.0, 0.0), (0,))})
    assert problem.canonical(up) == problem.canonical(down) == down


@pytest.mark.slow
def test_what_is_known_of_a_hidden_state_is_kept() -> None:
    settings = settings_for(hidden_states=["A"], known=["A' = -0.8*A"], forbid=["B: B"])
    p, problem, starts = search_of(settings, ("B",))
    assert problem.flows and all(0 not in f.factors for f in problem.flows)
    assert all(1 not in f.touched for f in problem.flows)  # A' is known whole
    flow = Flow((1.0, 0.0), (1,))
    generator = np.random.default_rng(0)
    best = rough_fits(p, [frozenset({flow})], starts, problem.given, generator, Monitor())[0]
    assert best.initial.shape == (1, 2) and best.mean_square > 0.0


def test_starts_keep_sums_and_their_slopes_are_right() -> None:
    starts = Starts(np.array([True, True, False]), ((np.array([1.0, 2.0, 0.0]), 7.0),))
    q = np.array([0.5, 1.5, -0.3])
    x = starts.values(q)
    assert x[0] + 2.0 * x[1] == pytest.approx(7.0) and x[2] == -0.3
    for k in range(3):
        step = 1e-6 * np.eye(3)[k]
        slope = (starts.values(q + step) - starts.values(q - step)) / 2e-6
        np.testing.assert_allclose(starts.slopes(q)[:, k], slope, atol=1e-8)


def test_a_law_of_flows_changes_units_exactly() -> None:
    mix = np.array([[1.0], [-1.0]])
    law = PowerSum(np.array([[0.3]]), np.array([[1.0, 1.0]]), None, mix)
    scale, x = np.array([2.0, 5.0]), np.array([[3.0, 4.0]])
    scaled = law.rescaled(scale, 10.0)
    np.testing.assert_allclose(scaled.rhs(x / scale), law.rhs(x) * 10.0 / scale)
    np.testing.assert_allclose(scaled.unscaled(scale, 10.0).rhs(x), law.rhs(x))
    assert law.n_states == 2 and law.complexity == 5


@pytest.mark.slow
def test_standard_errors_count_the_measured_states_only() -> None:
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
