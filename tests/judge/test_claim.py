"""Whether a law is claimed: what it explains, which terms act, what is left of the data."""

import dataclasses

import numpy as np
import pytest
from problems import LOGISTIC, growth, series_of

from odediscovery import Equations, Monitor, TimeSeries, fit_constants
from odediscovery.discovery.changes import drop_idle_terms
from odediscovery.judge.claim import (
    EXPLAINED,
    Claim,
    ResidualTests,
    autocorrelated,
    correlations,
    idle_terms,
    interval_squares,
    is_needed,
    is_walk_as_good,
    is_within_noise,
    least_shares,
    leaves_noise,
    runs,
    shares_explained,
    too_few_runs,
    turning_state,
    unlike_a_law,
    walk_misfit,
)
from odediscovery.judge.criterion import Verdict, judge, penalty
from odediscovery.judge.remarks import unidentifiable_combinations
from odediscovery.laws.power_sum import PowerSum, all_free, but_whole_powers
from odediscovery.laws.records import SETTLED, Candidate, Origin
from odediscovery.problem.problem import prepare
from odediscovery.search.refinement import refined
from odediscovery.stages.polish import polish

TIMES = np.linspace(0.0, 10.0, 60)


def two_states(noise=0.01):
    """A large state that decays, and a small one that follows a wave of its own."""
    random = np.random.default_rng(0)
    large, small = 100.0 * np.exp(-0.3 * TIMES), 2.0 + np.sin(TIMES)
    values = np.stack([large, small], axis=1)
    return TimeSeries.from_arrays(TIMES, values + noise * random.standard_normal(values.shape), ["large", "small"])


def test_a_state_that_is_not_explained_is_no_law_however_small_it_is():
    series = two_states()
    p = prepare(series)
    law = PowerSum(np.array([[-0.3], [0.0]]), np.array([[1.0, 0.0]])).rescaled(p.scale.state, p.scale.time)
    found = refined(p, law, all_free(law), p.initial, p.sigma)
    each = shares_explained(series, found.plain_squares * p.scale.state**2)
    assert each[0] > 0.999 and each[1] < 0.1
    least = least_shares(p, series, ResidualTests())
    assert least == pytest.approx([EXPLAINED] * 2, rel=0.01)
    outcome, notes = Claim(0.9999, EXPLAINED, each, least).outcome(Monitor(), series.states)
    assert outcome == "poor-fit" and notes[0].startswith("small is not explained (R2 = 0.0")


def test_a_state_of_noise_alone_has_nothing_to_explain():
    series = two_states()
    run = series.trajectories[0]
    values = run.values.copy()
    values[:, 1] = 2.0 + 0.1 * np.random.default_rng(1).standard_normal(len(TIMES))
    series = dataclasses.replace(series, trajectories=(dataclasses.replace(run, values=values),))
    least = least_shares(prepare(series), series, ResidualTests())
    assert least[0] > 0.49 and least[1] == -np.inf


def test_a_law_that_explains_too_little_is_none_also_where_the_time_was_up():
    monitor = Monitor()
    monitor.interrupt()
    outcome, notes = Claim(0.12).outcome(monitor, ["x"])
    assert outcome == "poor-fit"
    assert [note.split()[0] for note in notes] == ["stopped", "the"]
    assert Claim(0.8).outcome(monitor, ["x"])[0] == "stopped" and Claim(0.8).outcome(Monitor(), ["x"])[0] == "converged"
    assert Claim(np.nan).outcome(Monitor(), ["x"])[0] == "poor-fit"
    assert Claim(0.9, walk=True).outcome(Monitor(), ["x"])[0] == "poor-fit"


def test_the_share_of_a_state_that_never_moves_is_unknown():
    values = np.column_stack([TIMES, np.full(60, 7.0), np.where(TIMES > 5.0, np.nan, TIMES)])
    series = TimeSeries.from_arrays(TIMES, values, ["a", "b", "c"])
    each = shares_explained(series, np.array([0.0, 0.0, 0.0]))
    assert each[0] == each[2] == 1.0 and np.isnan(each[1])


def test_one_state_that_turns_back_needs_something_else():
    rises = np.exp(-0.2 * TIMES) - np.exp(-1.5 * TIMES)
    noise = 0.01 * np.random.default_rng(0).standard_normal(60)
    (note,) = turning_state(prepare(TimeSeries.from_arrays(TIMES, rises + noise, ["conc"])))
    assert note.startswith("conc both rises and falls")
    for x in (np.exp(-0.2 * TIMES) + noise, noise):
        assert turning_state(prepare(TimeSeries.from_arrays(TIMES, x, ["conc"]))) == []
    assert turning_state(prepare(two_states())) == []


LATER = np.linspace(0.0, 20.0, 80)


def verdict_on(law, noise, *, powers=False):
    series = growth(LATER, noise)
    p = prepare(series)
    law = law.rescaled(p.scale.state, p.scale.time)
    a, w, b, v = all_free(law)
    found = refined(p, law, (a, w & powers, b, v), p.initial, p.sigma)
    return Verdict.of(p, [judge(found, p.sigma, Origin(0))]), series


def test_a_term_beside_the_right_ones_is_taken_out():
    wide = PowerSum(np.array([[0.5, -0.01, 1e-3]]), np.array([[1.0], [2.0], [0.0]]))
    before, _ = verdict_on(wide, 0.05)
    assert (0, 2) in idle_terms(before.best.polished, 1.0)
    after = drop_idle_terms(before, Monitor())
    assert after.best.polished.law.n_monomials == 2
    assert idle_terms(after.best.polished, 1.0) == []


def test_the_terms_of_the_right_law_all_act_until_errors_are_wide():
    right, _ = verdict_on(PowerSum(np.array([[0.5, -0.01]]), np.array([[1.0], [2.0]])), 0.05)
    assert idle_terms(right.best.polished, 1.0) == []
    assert drop_idle_terms(right, Monitor()) is right
    assert len(idle_terms(right.best.polished, 1e4)) == 2


def test_a_constant_is_needed_where_a_fit_without_it_is_clearly_worse():
    right = verdict_on(PowerSum(np.array([[0.5, -0.01]]), np.array([[1.0], [2.0]])), 0.05)[0].best.polished
    floor, n = np.zeros(1), right.counts
    by_chance = dataclasses.replace(right, squares=right.squares * (1.0 + 3.0 / n))
    clearly = dataclasses.replace(right, squares=right.squares * (1.0 + 12.0 / n))
    assert not is_needed(right, by_chance, floor, 1.0) and is_needed(right, clearly, floor, 1.0)
    # Residuals with a memory say less.
    assert not is_needed(right, clearly, floor, 2.0)


POSITIVE = np.array([True])


def posed(sigma):
    """The logistic law's samples and the law itself, dimensionless."""
    p = prepare(growth(LATER, sigma))
    return p, LOGISTIC.rescaled(p.scale.state, p.scale.time)


def candidate(p, law, mean_square=1.0):
    return Candidate(law, p.initial, mean_square, 0, np.array([True]))


def test_the_true_law_leaves_nothing_between_clean_samples_and_others_do():
    p, law = posed(0.0)
    assert interval_squares(law, p)[0] < SETTLED
    half = PowerSum(0.5 * law.coefficients, law.exponents)
    # Half of each increment is missing, and with it a quarter of its square.
    assert interval_squares(half, p)[0] == pytest.approx(0.25, rel=0.1)
    assert interval_squares(PowerSum(np.array([[1e3]]), np.array([[3.0]])), p)[0] == np.inf


def test_what_a_law_leaves_of_noisy_data_is_noise_or_not():
    p, law = posed(0.02)
    assert leaves_noise(p, candidate(p, law))
    wrong = PowerSum(np.array([[0.05]]), np.array([[1.0]]))
    assert not leaves_noise(p, candidate(p, wrong, 50.0))
    # Twice the noise may be noise that was underestimated, if it has no memory: a wrong law's has.
    assert is_within_noise(p, candidate(p, wrong, 2.0))
    assert not leaves_noise(p, candidate(p, wrong, 2.0))


def test_chaos_without_noise_hides_no_constant():
    """What one combination of them does to the end of a trajectory is a million times what all others do."""
    truth = Equations.parse(["x", "y", "z"], {"x": "10*y - 10*x", "y": "28*x - x*z - y", "z": "x*y - 8/3*z"}).power_sum
    p = prepare(series_of(truth, np.array([[1.0, 2.0, 20.0]]), [np.linspace(0.0, 30.0, 3000)]))
    law = truth.rescaled(p.scale.state, p.scale.time)
    found = refined(p, law, but_whole_powers(law), p.initial, p.sigma)
    assert p.clean and found.finite
    assert len(found.joint.unknown)
    assert unidentifiable_combinations(p, found) == []


def test_noise_has_as_many_runs_as_expected():
    random = np.random.default_rng(0)
    many = [random.standard_normal((60, 2)) for _ in range(200)]
    far = sum(bool(too_few_runs([r])) for r in many)
    assert far <= 1  # four standard deviations
    found, expected, spread = runs(many)
    np.testing.assert_allclose(found, expected, atol=4.0 * spread.max())


def test_runs_end_with_their_trajectory_and_gaps_are_none():
    column = np.array([1.0, 2.0, np.nan, 3.0, -1.0, 0.0, -2.0])[:, None]
    found, expected, _ = runs([column, column])
    assert found.tolist() == [4.0]
    assert expected[0] == pytest.approx(2 * (1 + 2 * 3 * 2 / 5))


def test_waves_are_no_noise_and_few_samples_tell_nothing():
    t = np.linspace(0.0, 20.0, 100)
    waves = np.stack([np.sin(t), np.random.default_rng(1).standard_normal(100)], axis=1)
    ((state, found, expected),) = too_few_runs([waves])
    assert state == 0 and found < 10 < 45 < expected
    assert too_few_runs([waves[:15]]) == []


def test_noise_has_no_memory_and_a_random_walk_has():
    random = np.random.default_rng(3)
    many = [random.standard_normal((60, 2)) for _ in range(200)]
    assert sum(bool(autocorrelated([r])) for r in many) <= 2  # four standard deviations
    r, pairs = correlations(many)
    np.testing.assert_allclose(r, 0.0, atol=4.0 / np.sqrt(pairs.max()))
    walk = np.cumsum(random.standard_normal((60, 1)), axis=0)
    ((state, found),) = autocorrelated([walk - walk.mean(axis=0)])
    assert state == 0 and found > 0.6
    gap = walk.copy()
    gap[::2] = np.nan
    assert correlations([gap])[1].tolist() == [0]


def test_a_walk_explains_walks_and_no_law():
    random, t = np.random.default_rng(6), np.arange(60.0)
    path = np.cumsum(random.standard_normal(60))
    grown = 10.0 / (1.0 + 9.0 * np.exp(-0.2 * t))
    noisy = grown + 0.5 * random.standard_normal(60)
    misfit = [float(walk_misfit(TimeSeries.from_arrays(t, x))[0]) for x in (path, noisy)]
    fits = [np.polynomial.Polynomial.fit(t, path, 3)(t) - path, grown - noisy]
    laws = [60 * np.log(np.mean(r**2)) for r in fits]
    assert misfit[0] < laws[0] - 20 and misfit[1] > laws[1] + 10


def test_a_law_is_claimed_where_no_walk_does_as_well():
    random, t = np.random.default_rng(4), np.arange(60.0)
    grown = 10.0 / (1.0 + 9.0 * np.exp(-0.2 * t)) + 0.5 * random.standard_normal(60)
    wandered = 5.0 + np.cumsum(random.standard_normal(60))
    law = PowerSum(np.array([[0.2, -0.2]]), np.array([[1.0], [2.0]]))
    claimed = []
    for x in (grown, wandered):
        p = prepare(TimeSeries.from_arrays(t, x))
        found = polish(
            law, p.data, p.initial, p.sigma, floor=p.floor, nonnegative=p.nonnegative, relative_sigma=p.relative_sigma
        )
        price = penalty(found.law, found.free, 60.0, 1)
        claimed.append(found.finite and not is_walk_as_good(p, found.squares, found.counts, price, 1))
    assert claimed == [True, False]


def test_errors_are_wider_where_residuals_have_memory():
    random, t = np.random.default_rng(0), np.linspace(0.0, 10.0, 200)
    drift = np.convolve(random.standard_normal(239), np.full(40, 0.05))[39:239]
    law = Equations.parse(["x"], {"x": "-0.3*x"})
    exact, told = law.simulate([10.0], t), {}
    for name, noise in (("white", random.standard_normal(200)), ("drifting", drift)):
        series = TimeSeries.from_arrays(t, exact + 0.2 * noise[:, None] / noise.std(), ["x"])
        found = fit_constants(series, law, exponents=False)
        errors = found.equations.standard_errors
        told[name] = float(np.nanmax(errors.coefficients)), found.messages
    assert told["drifting"][0] > 2.5 * told["white"][0]
    assert any("standard errors were widened" in m for m in told["drifting"][1])
    assert not any("standard errors were widened" in m for m in told["white"][1])


def test_a_rate_that_is_infinite_inside_the_data_is_unlike_a_law():
    t = np.linspace(0.0, 6.0, 80)
    p = prepare(TimeSeries.from_arrays(t, np.stack([np.sin(t), np.cos(t)], axis=1), ["x", "v"]))
    plain = PowerSum(np.array([[1.0, 0.0], [0.0, -1.0]]), np.array([[0.0, 1.0], [1.0, 0.0]]))
    with_pole = PowerSum(
        np.array([[1.0, 0.0, 0.0], [0.0, -1.0, 1e-9]]), np.array([[0.0, 1.0], [1.0, 0.0], [2.0, -1.0]])
    )
    assert unlike_a_law(plain, p).tolist() == [False, False]
    assert unlike_a_law(with_pole, p).tolist() == [False, True]
