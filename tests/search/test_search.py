"""The search: noise that is none, evidence of samples, its tables and vocabulary, laws beyond sums of powers."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import sympy
from problems import LOGISTIC, growth
from scipy.integrate import solve_ivp

from odediscovery import Monitor, Settings, TimeSeries, discover, load_csv, simulate_system
from odediscovery.errors import InputError
from odediscovery.families import FAMILIES, Function
from odediscovery.judge.claim import interval_squares
from odediscovery.judge.criterion import Verdict, judge_on
from odediscovery.laws.equations import Equations
from odediscovery.laws.power_sum import Features, PowerSum, Sums, all_free
from odediscovery.laws.records import SETTLED, Origin
from odediscovery.problem.problem import linear_relations, prepare
from odediscovery.runtime.monitor import OUT_OF_MEMORY, TimeIsUp
from odediscovery.search import moves
from odediscovery.search.moves import Proposal, Pruning, Search
from odediscovery.search.refinement import count_independent, detect_noiseless, refined, shorten_windows
from odediscovery.search.search import MOVES, families_table, moves_table, terms_of_the_data, vocabulary
from odediscovery.settings import settings_for
from odediscovery.solve.sensitivities import residuals
from odediscovery.stages.prune import NoRoomError, window_length


def test_coarse_samples_of_an_exact_law_have_no_noise():
    p = prepare(simulate_system("lorenz", samples=200, until=10.0))
    found = detect_noiseless(p, Monitor())
    assert found.exact is not None and not found.noise.any() and found.clean


def test_noise_that_samples_show_stays():
    p = prepare(growth(np.linspace(0.0, 20.0, 80), 0.03))
    assert detect_noiseless(p, Monitor()) is p


@pytest.mark.parametrize(("name", "noise", "shorter"), [("fsir", 0.02, False), ("lorenz", 0.1, True)])
def test_windows_are_shorter_where_chaos_swells_the_errors_of_their_starts(name, noise, shorter):
    p = prepare(simulate_system(name, samples=200, noise=noise))
    found = shorten_windows(p).longest_window
    assert found <= window_length(p) // 2 if shorter else found is None


def fitted(p):
    """Logistic growth at the maximum of the likelihood."""
    law = LOGISTIC.rescaled(p.scale.state, p.scale.time)
    return refined(p, law, all_free(law), p.initial, p.sigma)


@pytest.mark.parametrize(("smooth", "fewer"), [(0.0, False), (0.02, True)])
def test_samples_of_a_smooth_error_are_not_independent(smooth, fewer):
    times = np.linspace(0.0, 20.0, 100)
    p = prepare(growth(times, 1e-3))
    shift = smooth * np.sin(times)[:, None] / p.scale.state
    off = dataclasses.replace(p.data.trajectories[0], values=p.data.trajectories[0].values + shift)
    p = dataclasses.replace(p, data=dataclasses.replace(p.data, trajectories=(off,)))
    before = Verdict.of(p, [judge_on(p, fitted(p), Origin(0))])
    after = count_independent(before)
    assert (after is not before) is fewer
    if fewer:
        assert after.p.independent is not None and (after.p.independent.share < 0.2).all()
        assert after.best.criterion > before.best.criterion  # less is certain


def test_a_law_that_follows_even_a_smooth_error_does_not_hide_its_memory():
    times = np.linspace(0.0, 20.0, 100)
    p = prepare(growth(times, 1e-4))
    nearest = fitted(p)
    p = dataclasses.replace(p, noise=p.noise / 5.0)
    rows = [judge_on(p, nearest, Origin(0))]
    # What it leaves is more than noise, but has no memory.
    assert count_independent(Verdict.of(p, rows)).p.independent is None
    a, *others = nearest.law.constants
    slow, wrong = (dataclasses.replace(nearest, law=nearest.law.with_constants(f * a, *others)) for f in (1.0003, 1.3))
    for other, fewer in ((slow, True), (wrong, False)):
        left = np.concatenate(residuals(other.law, p.data, other.initial))
        other = dataclasses.replace(other, squares=(left**2).sum(axis=0))
        after = count_independent(Verdict.of(p, [*rows, judge_on(p, other, Origin(1))]))
        few = after.p.independent
        assert few is None if not fewer else few is not None and (few.share < 0.5).all()


def test_the_error_of_our_own_solver_takes_no_evidence_away():
    """Without noise it made a law that explains half of the data win."""
    p = prepare(growth(np.linspace(0.0, 40.0, 300), 0.0))
    found = fitted(p)
    a, *others = found.law.constants
    smooth = dataclasses.replace(found, law=found.law.with_constants(1.000001 * a, *others))
    before = Verdict.of(p, [judge_on(p, smooth, Origin(0))])
    assert p.clean and count_independent(before) is before


@pytest.mark.long
def test_the_error_of_a_solver_is_no_structure():
    """What scipy's solver leaves at its usual tolerance was told as sums of quotients."""
    tolerance = 1e-3
    times = np.linspace(0.0, 20.0, 60)
    level = solve_ivp(lambda _, h: 0.3 - 0.35 * h**0.5, (0.0, 20.0), [4.0], t_eval=times, rtol=tolerance).y[0]
    found = discover(TimeSeries.from_arrays(times, level), Settings(seed=0, members=0), Monitor())
    law = found.equations.power_sum
    assert law is not None and sorted(law.exponents.ravel().tolist()) == [0.0, 0.5]
    assert np.sort(law.coefficients.ravel()) == pytest.approx([-0.35, 0.3], rel=2e-3)


@pytest.mark.long
def test_the_law_behind_the_published_points_is_found():
    """The solver of the Julia code left 7e-4 there, which terms such as I^11 R^12 follow."""
    found = discover(load_csv(Path(__file__).parents[1] / "files" / "julia_fsir_trajectory.csv"), Settings(seed=0))
    law = found.equations.power_sum
    assert found.outcome == "converged" and law is not None
    assert sorted(law.exponents.tolist()) == [[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [0.5, 0.5, 0.0]]
    assert np.count_nonzero(law.coefficients) == 6


LAW = PowerSum(np.array([[0.1, -0.1]]), np.array([[1.0], [2.0]]))


@pytest.fixture
def at():
    return Search(prepare(simulate_system("logistic")), settings_for(), Monitor())


@pytest.mark.long
def test_the_likeliest_vocabulary_is_proposed_first_on_exact_samples():
    saturating = Features(2, (), Sums(np.array([[1.0]]), np.array([[1.0, 0.0]])))
    w = np.array([[1.0, 0.0, -1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    true = PowerSum(np.array([[-1.0, 0.0, 0.0], [0.0, 1.0, -1.0]]), w, saturating)
    t = np.linspace(0.0, 6.0, 60)
    values = solve_ivp(lambda _, x: true.rhs(x), (0.0, 6.0), [3.0, 0.5], t_eval=t, rtol=1e-10, atol=1e-12).y.T
    p = prepare(TimeSeries.from_arrays(t, values)).without_noise(None)
    proposals = terms_of_the_data(Search(p, settings_for(), Monitor()))
    law = next(proposal.laws[0] for proposal in proposals if proposal.laws)
    assert law.features.sums and np.count_nonzero(law.coefficients) == 3
    assert interval_squares(law, p).max() < SETTLED


def test_a_swing_that_does_not_turn_over_is_a_sine():
    """On one orbit without friction, -x + x^3/6 and products of x and v^2 are as exact."""
    t = np.linspace(0.0, 10.0, 60)
    swing = solve_ivp(lambda _, x: [x[1], -np.sin(x[0])], (0.0, 10.0), [0.5, 0.0], t_eval=t, rtol=1e-11, atol=1e-12)
    found = discover(TimeSeries.from_arrays(t, swing.y.T, ["x", "v"]), settings_for(members=0), Monitor())
    assert found.equations.texts() == {"x": "v", "v": "-sin(x)"}


@pytest.mark.long
def test_turning_angles_in_noise_have_sines():
    """No polynomial follows a pendulum that turns over, so that no terms can be sought along one."""
    t = np.linspace(0.0, 15.0, 60)
    values = solve_ivp(lambda _, x: (0.7 * x[1], -0.2 - 0.8 * np.sin(x[0])), (0.0, 15.0), [1.0, -3.0], t_eval=t).y.T
    noise = 0.01 * values.std(axis=0) * np.random.default_rng(0).standard_normal(values.shape)
    p = prepare(TimeSeries.from_arrays(t, values + noise))
    proposals = terms_of_the_data(Search(p, settings_for(), Monitor()))
    law = next(proposal.laws[0] for proposal in proposals if proposal.laws)
    assert "sin" in [f.name for f in law.features.functions] and (interval_squares(law, p) < 0.1).all()


@pytest.mark.parametrize("samples", [60, 400])
def test_rounding_is_told_from_noise_of_the_same_size(samples):
    exact = growth(np.linspace(0.0, 20.0, samples), 0.0).trajectories[0]
    p = prepare(TimeSeries.from_arrays(exact.time, exact.values.round(3), ["x"]))
    errors = (exact.values.round(3) - exact.values) / p.scale.state
    noise = p.sigma * p.relative_sigma[0] * np.random.default_rng(0).standard_normal(errors.shape)
    assert moves.is_rounding(p, [errors]) and not moves.is_rounding(p, [noise])


def moves_made(law, start):
    """Names of the moves that a search makes of two series with three digits after the point."""
    times, made = np.linspace(0.0, 12.0, 80), list[str]()
    runs = [law.simulate(one, times).round(3) for one in start]
    at = Search(prepare(TimeSeries.from_arrays([times] * 2, runs, law.states)), settings_for(seed=0), Monitor())
    told = [dataclasses.replace(m, laws=lambda at, m=m: made.append(m.name) or m.laws(at)) for m in MOVES]
    moves.make(told, at)
    return made


@pytest.mark.long
def test_a_short_law_of_whole_powers_ends_the_search_of_rounded_samples():
    prey = Equations.parse(["x", "y"], {"x": "x - 0.8*x*y", "y": "0.6*x*y - y"})
    assert moves_made(prey, [(0.9, 1.4), (2.0, 0.7)])[-1] == "whole powers"
    # Three terms of one state may be a series.
    cubic = Equations.parse(["x"], {"x": "0.1 + 0.5*x - 0.2*x**2 - 0.05*x**3"})
    assert "terms along the best law" in moves_made(cubic, [(0.1,), (3.0,)])


def test_laws_stay_as_they_came_only_where_there_is_no_memory(at, monkeypatch):
    # Laws that all blow up leave none, which is no lack of memory.
    monkeypatch.setattr(moves, "prune_laws", lambda *_, **__: [])
    assert Pruning("to the end").candidates(at, Proposal([LAW])) == [] and not at.monitor.log

    def full(*_, **__):
        raise NoRoomError

    monkeypatch.setattr(moves, "prune_laws", full)
    assert [c.law for c in Pruning("to the end").candidates(at, Proposal([LAW]))] == [LAW]
    assert at.monitor.log[-1]["event"] == OUT_OF_MEMORY


def test_the_only_laws_are_candidates_even_if_there_is_no_time_to_prune_them(monkeypatch):
    def late(*_, **__):
        raise TimeIsUp

    monkeypatch.setattr(moves, "prune_laws", late)
    at = Search(prepare(growth(np.linspace(0.0, 20.0, 80), 0.03)), Settings(), Monitor())
    law = LOGISTIC.rescaled(at.problem.scale.state, at.problem.scale.time)
    at.candidates = Pruning("to the end").candidates(at, Proposal([law]))
    assert [c.law for c in at.candidates] == [law]
    with pytest.raises(TimeIsUp):
        Pruning("to the end").candidates(at, Proposal([law]))


@pytest.mark.parametrize(
    ("table", "place", "expected"),
    [(families_table(), 0, FAMILIES), (moves_table(), 1, MOVES)],
    ids=["families", "moves"],
)
def test_every_family_and_every_move_has_a_row_in_its_order(table, place, expected):
    head, line, *rows = ([cell.strip() for cell in row.strip("|").split("|")] for row in table.splitlines())
    assert set("".join(line)) == {"-"} and {len(row) for row in rows} == {len(head)}
    names = [row[place] for row in rows]
    assert names == [one.name for one in expected] and len(set(names)) == len(names)


def names(*given):
    return [family.name for family in vocabulary(given).families]


def test_families_by_name_and_by_what_is_left_out():
    assert vocabulary([]).families == FAMILIES and vocabulary([]).textbook
    assert vocabulary(["textbook"]).families == () and "sums" not in names("no-sums")
    assert names("powers,sums") == names("sums", "powers") == ["powers", "sums"]
    every = [family.name for family in FAMILIES]
    assert names("no-trigonometric, no-sums") == [name for name in every if name not in ("trigonometric", "sums")]
    assert names("no-sums") == [name for name in every if name != "sums"]
    assert vocabulary(["no-textbook"]).textbook is False
    assert vocabulary(["powers"]).functions == frozenset() and not vocabulary(["powers"]).has_sums


def test_unknown_and_empty_vocabularies():
    with pytest.raises(InputError, match="powers"):
        vocabulary(["power"])
    with pytest.raises(InputError, match="nothing to try"):
        vocabulary(["textbook,no-textbook"])


T = np.linspace(0.0, 10.0, 150)
# x' = 2 - 0.5 sin(x) x^2 / (1 + 0.25 x^2), y' = y exp(-0.3 x) - y^1.5
RICH = PowerSum(
    np.array([[2.0, -0.5, 0.0, 0.0], [0.0, 0.0, 1.0, -1.0]]),
    np.array([[0, 0, 0, 0, 0.0], [2, 0, 1, 0, -1], [0, 1, 0, -0.3, 0], [0, 1.5, 0, 0, 0]]),
    Features(2, (Function("sin", 0), Function("exp", 0)), Sums(np.array([[0.25]]), np.array([[2.0, 0.0, 0.0, 0.0]]))),
)
X = np.array([[0.3, 1.2], [2.0, 0.4], [4.0, 2.5]])


def formula(x):
    a, b = x[..., 0], x[..., 1]
    first = 2.0 - 0.5 * np.sin(a) * a**2 / (1.0 + 0.25 * a**2)
    return np.stack([first, b * np.exp(-0.3 * a) - b**1.5], axis=-1)


def series_of(texts, start):
    return TimeSeries.from_arrays(T, Equations.parse(list(texts), texts).simulate(start, T), list(texts))


def test_a_law_over_functions_and_sums_is_its_formula():
    np.testing.assert_allclose(RICH.rhs(X), formula(X), rtol=1e-13)
    printed = Equations.from_power_sum(["x", "y"], RICH)
    np.testing.assert_allclose(printed.rhs(X), formula(X), rtol=1e-13)
    assert printed.power_sum is None
    again = Equations.parse(["x", "y"], printed.texts())
    np.testing.assert_allclose(again.rhs(X), formula(X), rtol=1e-13)


def test_scales_are_undone_exactly():
    scale = np.array([3.0, 0.2])
    there = RICH.rescaled(scale, 0.5)
    np.testing.assert_allclose(there.rhs(X / scale) * scale / 0.5, formula(X), rtol=1e-12)
    np.testing.assert_allclose(there.unscaled(scale, 0.5).rhs(X), formula(X), rtol=1e-12)


def test_compact_drops_what_nothing_needs():
    coefficients = RICH.coefficients.copy()
    coefficients[0, 1] = 0.0
    smaller = PowerSum(coefficients, RICH.exponents, RICH.features).merged().compact()
    assert [f.name for f in smaller.features.functions] == ["exp"] and not len(smaller.features.sums)
    kept = RICH.rhs(X)[:, 1]
    np.testing.assert_allclose(smaller.rhs(X)[:, 1], kept, rtol=1e-13)
    plain = PowerSum(np.array([[1.0]]), np.array([[1.0, 0.0]]), Features(1, (Function("sin", 0),)))
    assert plain.compact().features is None
    # 3 coefficients, 3 exponents, exp, and two states.
    assert smaller.complexity == 3 + 3 + 1 + 2


def test_states_that_cannot_be_told_apart_are_named():
    series = series_of({"S": "-0.5*S*I", "I": "0.5*S*I - 0.2*I", "R": "0.2*I"}, [2.0, 0.1, 0.0])
    (weights, value) = linear_relations(prepare(series))[0]
    np.testing.assert_allclose(weights, [1.0, 1.0, 1.0], rtol=1e-6)
    assert value == pytest.approx(2.1)
    met = series_of({"A": "-A*B", "B": "-A*B", "C": "A*B"}, [1.2, 0.8, 0.1])
    both = {tuple(weights.round(6).tolist()): value for weights, value in linear_relations(prepare(met))}
    assert both == pytest.approx({(1.0, -1.0, 0.0): 0.4, (0.0, 1.0, 1.0): 0.9})
    free = series_of({"x": "-x", "y": "x*y - y"}, [2.0, 0.5])
    assert linear_relations(prepare(free)) == []


@pytest.mark.long
def test_a_predator_that_saturates_is_found():
    """Rosenzweig and MacArthur's law: a quotient that two equations share."""
    prey = {"x": "x*(1 - x/3) - 1.2*x*y/(1 + 0.8*x)", "y": "0.9*x*y/(1 + 0.8*x) - 0.5*y"}
    law, times = Equations.parse(["x", "y"], prey), np.linspace(0.0, 10.0, 60)
    runs = [law.simulate(start, times) for start in ([1.5, 0.6], [0.4, 1.8])]
    found = discover(TimeSeries.from_arrays([times] * 2, runs, ["x", "y"]), settings_for(members=0, library=["sums"]))
    assert found.r2 > 1 - 1e-12
    x, y = found.equations.symbols
    truth = 0.9 * x * y / (1 + 0.8 * x) - 0.5 * y
    rate = sympy.lambdify((x, y), found.equations.right_hand_sides[1] - truth)
    assert max(abs(rate(a, b)) for a in (0.5, 1.0, 2.0) for b in (0.3, 1.0)) < 1e-5


@pytest.mark.long
def test_growth_by_gompertz_that_is_eaten_is_found_in_noise():
    """x*log(x) is nearly a difference of two powers, and on part of its range a cubic."""
    law = {"x": "-0.4*x*log(x/10) - 0.05*x*y", "y": "0.06*x*y - 0.3*y"}
    times, random, truth = np.linspace(0.0, 30.0, 80), np.random.default_rng(0), Equations.parse(["x", "y"], law)
    runs = [truth.simulate(start, times) for start in ([1.0, 1.0], [8.0, 6.0])]
    noisy = [x + 0.01 * x.std(axis=0) * random.standard_normal(x.shape) for x in runs]
    found = discover(TimeSeries.from_arrays([times, times], noisy, ["x", "y"]), settings_for(members=0))
    x, y = found.equations.symbols
    gompertz = {term / x for term in found.equations.right_hand_sides[0].args if term.has(sympy.log)}
    assert len(gompertz) == 1 and len(found.equations.right_hand_sides[0].args) == 3
    assert {term.free_symbols == {x, y} for term in found.equations.right_hand_sides[1].args} == {True, False}
