"""Rates that several states limit together, as people publish them, found on exact samples."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from odediscovery import Equations, Monitor, TimeSeries, discover, settings_for
from odediscovery.families import Seen
from odediscovery.families.sums import SUMS
from odediscovery.laws.power_sum import Features, PowerSum, Sums, but_whole_powers
from odediscovery.problem.problem import prepare
from odediscovery.search.refinement import refined, sigma_of
from odediscovery.stages import chains
from odediscovery.stages.chains import along_law, few_products, grow_along, grow_chains, grow_together, smooth_functions
from odediscovery.stages.integral_form import Draft, Fit, Integral, features_for, grid_for

UPTAKE = "X*S/(0.5 + S)*O/(0.3 + O)"
SHARED = "x*y/(1 + 0.6*x + 0.4*y)"
HALDANE = "X*s/(0.4 + s + s**2/1.5)"
DIMER = "y**3/(0.5 + y**3)"

# Equations, starts of two trajectories, and the last time.
RATES = {
    "a chain of two enzymes": (
        {"a": "0.25 - 1.2*a/(0.6 + a)", "b": "1.2*a/(0.6 + a) - 0.8*c*b/(0.3 + b)", "c": "0.5*a - 0.4*c"},
        [[2.0, 0.1, 0.2], [0.3, 1.5, 1.0]],
        10.0,
    ),
    "two substrates": (
        {"S": f"0.4 - 0.2*S - {UPTAKE}", "O": f"0.5 - 0.5*O - 0.6*{UPTAKE}", "X": f"0.7*{UPTAKE} - 0.2*X"},
        [[2.0, 1.0, 0.1], [0.5, 0.3, 0.8]],
        15.0,
    ),
    "predators in each other's way": (
        {"x": f"x - x**2/3 - 1.2*{SHARED}", "y": f"0.72*{SHARED} - 0.25*y"},
        [[2.0, 0.3], [0.5, 1.5]],
        20.0,
    ),
    "substrate inhibition": (
        {"s": f"0.6 - 0.2*s - 1.6*{HALDANE}", "X": f"0.8*{HALDANE} - 0.2*X"},
        [[3.0, 0.2], [0.2, 0.8]],
        20.0,
    ),
    "a product that inhibits": (
        {"s": "0.1 - s/(0.5 + 1.25*p + s)", "p": "s/(0.5 + 1.25*p + s) - 0.3*p"},
        [[3.0, 0.1], [1.0, 1.5]],
        8.0,
    ),
    "a cell quota": (
        {"N": "0.3 - 0.3*N - 0.9*N*X/(0.3 + N)", "Q": "0.9*N/(0.3 + N) - 0.8*Q + 0.2", "X": "0.5*X - 0.2*X/Q"},
        [[1.0, 0.3, 0.1], [0.2, 0.8, 0.5]],
        15.0,
    ),
    "cooperation": (
        {"x": f"1.2*{DIMER} - 0.5*x", "y": f"0.8 + 0.2*x - 0.3*y - 1.2*{DIMER}"},
        [[2.0, 0.3], [0.5, 1.8]],
        12.0,
    ),
    "Gompertz and his predator": (
        {"x": "-0.7*x*log(x/2.5) - x*y/(1 + 0.8*x)", "y": "0.6*x*y/(1 + 0.8*x) - 0.25*y"},
        [[2.0, 0.3], [0.5, 0.8]],
        15.0,
    ),
    "Ivlev": (
        {"x": "x - x**2/3 - 0.9*y*(1 - exp(-1.4*x))", "y": "0.63*y*(1 - exp(-1.4*x)) - 0.3*y"},
        [[2.0, 0.3], [0.5, 0.8]],
        15.0,
    ),
    "uncompetitive inhibition": (
        {"s": "0.4 - 1.2*s/(0.5 + s + 0.8*s*p)", "p": "0.9*s/(0.5 + s + 0.8*s*p) - 0.4*p"},
        [[2.0, 0.1], [0.3, 1.5]],
        10.0,
    ),
    "ratio dependence": (
        {"x": "x - x**2/3 - 0.9*x*y/(x + 0.7*y)", "y": "0.6*x*y/(x + 0.7*y) - 0.25*y"},
        [[2.0, 0.3], [0.5, 0.8]],
        15.0,
    ),
    "a steep gate": ({"x": "0.3 - 0.6*x/(1 + exp(4*(1 - y)))", "y": "0.5*x - 0.4*y"}, [[2.0, 0.3], [0.4, 1.8]], 12.0),
    "Arrhenius": (
        {"T": "2.0 + 30*exp(-12/T)*c - 0.5*T", "c": "0.8 - 0.2*c - 20*exp(-12/T)*c"},
        [[4.0, 2.0], [6.0, 0.5]],
        10.0,
    ),
    "a Hill function as measured": (
        {"m": "0.9/(1 + p**2.4) - 0.5*m", "p": "0.8*m - 0.3*p"},
        [[0.1, 2.0], [1.5, 0.3]],
        15.0,
    ),
    "quadratic drag": ({"x": "v", "v": "-x - 0.4*v*Abs(v)"}, [[2.0, 0.3], [-1.0, 1.5]], 12.0),
    "drag along the path": (
        {"u": "w - 0.3*u*(u**2 + w**2)**0.5", "w": "-1.5*u - 0.3*w*(u**2 + w**2)**0.5"},
        [[2.0, 0.3], [-0.7, 1.5]],
        8.0,
    ),
    "plates that attract each other": (
        {"l": "v", "v": "0.08/(1 - l)**2 - 0.4*v - l"},
        [[0.0, 0.2], [0.35, -0.1]],
        12.0,
    ),
    "a diode": ({"v": "0.5 + 0.3*i - 0.4*exp(1.5*v)", "i": "-0.4*i - 0.8*v"}, [[1.0, 1.3], [-1.5, 0.8]], 15.0),
}


def sampled(sides, starts, span, samples=60):
    """The true law and its exact samples."""
    law, t = Equations.parse(list(sides), sides), np.linspace(0.0, span, samples)
    runs = [
        solve_ivp(lambda _, x: law.rhs(x), (0.0, span), x0, t_eval=t, rtol=1e-11, atol=1e-12, method="LSODA").y.T
        for x0 in starts
    ]
    return law, TimeSeries.from_arrays([t] * len(runs), runs, list(sides))


@pytest.mark.parametrize("name", RATES)
def test_published_rates_are_found_on_exact_samples(name):
    law, series = sampled(*RATES[name])
    p = prepare(series).without_noise(None)
    found = grow_chains(p, family=SUMS)[0].unscaled(p.scale.state, p.scale.time)
    x = np.concatenate([t.values for t in series.trajectories])
    rates = law.rhs(x)
    np.testing.assert_allclose(found.rhs(x), rates, atol=1e-4 * np.abs(rates).max())
    # As few terms as were written: one more may be another way to write a quotient.
    assert np.count_nonzero(found.coefficients) <= 1 + sum(
        side.count(" + ") + side.count(" - ") + 1 for side in RATES[name][0].values()
    )


def test_long_series_grow_on_a_part_of_their_intervals_and_are_fitted_to_all():
    law, series = sampled(*RATES["a chain of two enzymes"], samples=400)
    p = prepare(series).without_noise(None)
    found = grow_chains(p, family=SUMS)[0].unscaled(p.scale.state, p.scale.time)
    x = np.concatenate([t.values for t in series.trajectories])
    np.testing.assert_allclose(found.rhs(x), law.rhs(x), atol=1e-9)


def test_samples_too_coarse_to_look_exact_are_found_to_be_exact():
    law, series = sampled(*RATES["Gompertz and his predator"][:2], 40.0, samples=30)
    assert not prepare(series).clean
    found = discover(series, settings_for(members=0), Monitor()).equations
    x = np.concatenate([t.values for t in series.trajectories])
    np.testing.assert_allclose(found.rhs(x), law.rhs(x), rtol=1e-4, atol=1e-5)


def test_if_no_equation_is_easy_none_is_grown():
    _, series = sampled({"x": "-0.4*x**1.3*y**0.6", "y": "0.4*x**1.3*y**0.6 - y**0.7"}, [[2.0, 0.5], [1.0, 1.5]], 8.0)
    assert grow_chains(prepare(series).without_noise(None), family=SUMS, if_easy=True) == ()


def test_regression_ends_with_its_part_of_the_time(monkeypatch):
    _, series = sampled(*RATES["two substrates"])

    def called(*_, **__):
        raise AssertionError("regression went on")

    monkeypatch.setattr(chains, "best_subsets", called)
    monitor = Monitor()
    monitor.spend(60.0)
    with monitor.part(0.0):
        assert not grow_chains(prepare(series).without_noise(None), family=SUMS, if_easy=True, monitor=monitor)


@pytest.mark.parametrize("name", ["a chain of two enzymes", "ratio dependence"])
def test_rates_are_found_on_samples_of_four_digits(name):
    law, series = sampled(*RATES[name])
    values = [np.array([[float(f"{x:.4g}") for x in row] for row in t.values]) for t in series.trajectories]
    p = prepare(TimeSeries.from_arrays([t.time for t in series.trajectories], values, series.states))
    assert not p.clean
    grown = grow_chains(p, family=SUMS, if_easy=True)[0]
    found, x = grown.unscaled(p.scale.state, p.scale.time), np.concatenate(values)
    rates = law.rhs(x)
    np.testing.assert_allclose(found.rhs(x), rates, atol=5e-3 * np.abs(rates).max())
    assert np.count_nonzero(grown.coefficients) <= 1 + sum(
        side.count(" + ") + side.count(" - ") + 1 for side in RATES[name][0].values()
    )


def test_what_a_fitted_trajectory_owes_to_noise_is_no_evidence_against_the_true_law():
    """Along fitted trajectories, true rates leave as much as noise: their errors grow over 10 periods if ignored."""
    law = Equations.parse(["x", "y"], {"x": "y", "y": "-x"})
    w = np.array([[i, j] for i in range(4) for j in range(4 - i)], dtype=float)
    full = PowerSum(np.where((w == [0, 1]).all(axis=1), 1.0, 1e-3) * np.ones((2, 1)), w)
    full.coefficients[1] = np.where((w == [1, 0]).all(axis=1), -1.0, 1e-3)
    t, random = np.linspace(0.0, 63.0, 120), np.random.default_rng(0)
    exact, left = np.column_stack([np.cos(t), -np.sin(t)]), []
    for _ in range(12):
        values = exact + 0.05 * random.standard_normal(exact.shape)
        p = prepare(TimeSeries.from_arrays([t], [values], ["x", "y"]))
        begun = full.rescaled(p.scale.state, p.scale.time)
        fitted = refined(p, begun, but_whole_powers(begun), p.initial, sigma_of(p))
        plain = Integral.of(p.data, sigma_of(p), np.ones(2, dtype=bool), Features(2))
        whitened, path = along_law(plain, p, fitted.law, fitted.initial)
        x = np.exp(path.log) * np.where(path.negative, -1.0, 1.0) * p.scale.state
        rates = law.rhs(x) / p.scale.state * p.scale.time
        for problem in (whitened, plain):
            missed = problem.target - problem.integrals(rates, np.arange(2)).diagonal(axis1=0, axis2=2).T
            left.append(np.sum(missed**2) / problem.counts.sum())
    along, ignored = np.array(left).reshape(-1, 2).mean(axis=0)
    assert 0.8 < along < 1.2 and ignored > 1.5


def in_noise(name, share=0.01):
    """The true law, its noisy series, and the law found on exact samples, fitted to the noisy ones."""
    law, series = sampled(*RATES[name])
    runs, random = [run.values for run in series.trajectories], np.random.default_rng(0)
    noise = share * np.concatenate(runs).std(axis=0)
    values = [run + noise * random.standard_normal(run.shape) for run in runs]
    p = prepare(TimeSeries.from_arrays([run.time for run in series.trajectories], values, series.states))
    exact = prepare(series).without_noise(None)
    known = grow_chains(exact, family=SUMS)[0].unscaled(exact.scale.state, exact.scale.time)
    rescaled = known.rescaled(p.scale.state, p.scale.time)
    return law, np.concatenate(runs), p, known, refined(p, rescaled, but_whole_powers(rescaled), p.initial, sigma_of(p))


@pytest.mark.parametrize("name", ["a chain of two enzymes", "ratio dependence", "predators in each other's way"])
def test_in_noise_terms_are_told_apart_on_trajectories_that_follow_the_data(name):
    law, x, p, known, fitted = in_noise(name)
    truth = law.rhs(x)

    def is_near(found):
        few = np.count_nonzero(found.coefficients) <= np.count_nonzero(known.coefficients) + 1
        rates = found.unscaled(p.scale.state, p.scale.time).rhs(x)
        return few and np.allclose(rates, truth, atol=0.1 * np.abs(truth).max(), rtol=0.0)

    # Which of the likeliest is best is left to fits on trajectories.
    tried = (grow_along(p, fitted.law, fitted.initial, SUMS, Monitor(), rich=rich) for rich in (False, True))
    assert any(is_near(found) for laws in tried for found in laws)


def test_a_flux_is_grown_in_both_of_its_equations():
    _, _, p, _, fitted = in_noise("predators in each other's way")
    every = np.ones(2, dtype=bool)
    problem = Integral.of(p.data, p.noise, every, features_for(SUMS, ~p.nonnegative, every, p.scale.state))
    problem, path = along_law(problem, p, fitted.law, fitted.initial)
    grid = grid_for(problem, SUMS, ~every, every)
    problem, path = problem.compressed(path, smooth_functions(path, grid, np.arange(2)))
    fit = Fit(problem, np.arange(2), problem.counts, np.full(2, 0.01))
    words = SUMS.inner(Seen(problem.features.functions, (), ~every, every, path.monomials))[0]
    starts = few_products(fit, path, grid, Monitor())
    best = grow_together(fit, path, grid, words, starts, Monitor())[0]
    over = best.exponents[:, problem.features.size :].any(axis=1)
    assert len(best.sums) == 1 and np.count_nonzero(best.sums.weights) == 2 and best.used[:, over].all()


def test_compressed_rows_and_intervals_tell_laws_apart_as_all_do():
    _, _, p, _, fitted = in_noise("predators in each other's way")
    every = np.ones(2, dtype=bool)
    problem = Integral.of(p.data, p.noise, every, features_for(SUMS, ~p.nonnegative, every, p.scale.state))
    problem, path = along_law(problem, p, fitted.law, fitted.initial)
    few, short = problem.compressed(path, smooth_functions(path, grid_for(problem, SUMS, ~every, every), np.arange(2)))
    assert few.target.shape[1] < problem.target.shape[1] / 4 and len(few.left) < len(problem.left) / 2
    w = np.pad([[1.0, 0.0], [2.0, 0.0], [1.0, 1.0], [0.0, 1.0]], ((0, 0), (0, problem.features.size - 1)))
    w[2, -1] = -1.0
    sums = Sums(np.array([[0.7, 0.4]]), np.eye(problem.features.size)[:2])
    used = np.array([[True, True, True, False], [False, False, True, True]])
    squares = [
        Fit(of, np.arange(2), of.counts, np.zeros(2)).model(Draft(w, used, w != 0, sums, on)).squares
        for of, on in ((problem, path), (few, short))
    ]
    np.testing.assert_allclose(*squares, rtol=1e-3)
