"""One law for many groups: the engine against known answers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from odediscovery.data.controls import load_with_controls
from odediscovery.data.series import TimeSeries, Trajectory
from odediscovery.discovery.discover import discover
from odediscovery.discovery.fit_constants import fit_constants
from odediscovery.errors import InputError
from odediscovery.estimator.estimator import ODEDiscovery
from odediscovery.population.choose import simple_exponents
from odediscovery.population.hidden import choose_flows
from odediscovery.population.model.linear_mixed import Sums, estimate
from odediscovery.population.model.measured import ANY, POSITIVE, GroupModel, Measured, Start
from odediscovery.population.model.members import Field, members_of, solve
from odediscovery.population.model.mixed import fit_mixed
from odediscovery.population.model.structures import structure_of, tied, without
from odediscovery.population.model.vary import choose_varying, criterion, may_vary
from odediscovery.population.notes import _followed, _odd_groups, strange_groups
from odediscovery.population.pose import asked_to_vary, pose_groups
from odediscovery.population.resting import resting_point
from odediscovery.population.screen import SCREEN, _subsets, screen
from odediscovery.population.strangers import leave_out_strangers
from odediscovery.result.discovery import Discovery
from odediscovery.result.population import GroupConstant, Population
from odediscovery.runtime.monitor import Monitor
from odediscovery.settings import settings_for
from odediscovery.uncertainty.newcomer import meet

LOGISTIC = structure_of([[(1, [1.0]), (-1, [2.0])]])


def wells(
    groups: int = 10, noise: float = 0.01, spread: float = 0.4
) -> tuple[list[np.ndarray], list[np.ndarray], np.ndarray]:
    """Logistic growth n' = r n - q n^2: r varies, q = 1 does not."""
    rng = np.random.default_rng(3)
    z = rng.standard_normal(groups)
    r = np.exp(spread * (z - z.mean()) / z.std())
    t = np.linspace(0.0, 10.0, 13)
    n0 = 0.05 * np.exp(0.2 * rng.standard_normal(groups))
    runs = [k / (1 + (k / n - 1) * np.exp(-k * t)) for k, n in zip(r, n0, strict=True)]
    return [t] * groups, [x + noise * rng.standard_normal(len(t)) for x in runs], r


def measured_wells(**options: float) -> tuple[Measured, np.ndarray]:
    times, values, r = wells(**options)  # type: ignore[arg-type]
    data = members_of([(t, x[:, None]) for t, x in zip(times, values, strict=True)])
    start = Start(POSITIVE, np.maximum(data.values[0, 0], 0.01))
    labels = tuple(str(g) for g in range(len(r)))
    return Measured(data, (start,), np.zeros(1, bool), labels, {}), r


def test_curves_are_those_of_the_closed_form_with_their_derivatives() -> None:
    measured, _ = measured_wells(groups=3)
    logs = np.log(np.array([[0.5, 1.0, 2.0], [1.0, 1.0, 1.0]]))
    start = np.full((1, 3), 0.1)
    x = solve(measured.data, Field(LOGISTIC, logs, np.ones(1)), start)
    for g, r in enumerate((0.5, 1.0, 2.0)):
        exact = r / (1 + (r / 0.1 - 1) * np.exp(-r * measured.data.times[:, g]))
        assert np.allclose(x[:, 0, g], exact, rtol=5e-4)
    model, at = GroupModel(LOGISTIC, measured), np.vstack([logs, np.log(start)])
    slopes = model.curves(at).slopes
    assert slopes is not None
    for p in range(3):
        shift = np.zeros(at.shape)
        shift[p] = 1e-5
        up, down = (model.curves(at + sign * shift, slopes=False).residual for sign in (1, -1))
        assert np.allclose((down - up) / 2e-5, slopes[:, :, p], atol=1e-6)


def test_the_linear_mixed_model_is_that_of_its_closed_form() -> None:
    """One mean over balanced groups: the estimates of an analysis of variance."""
    rng = np.random.default_rng(0)
    groups, n = 30, 5
    y = 2.0 + 0.7 * rng.standard_normal((groups, 1)) + 0.3 * rng.standard_normal((groups, n))
    sums = Sums(
        np.full((1, groups, 1, 1), float(n)),
        y.sum(axis=1)[None, :, None],
        np.array([np.sum(y**2)]),
        np.array([y.size * 1.0]),
    )
    found = estimate(sums, np.ones((groups, 1, 1)), np.array([True]), np.array([0.3]), np.array([1.0]))
    within = np.sum((y - y.mean(axis=1, keepdims=True)) ** 2) / (groups * (n - 1))
    between = np.var(y.mean(axis=1)) - within / n
    assert found.beta[0] == pytest.approx(y.mean(), abs=1e-6)
    assert found.sigma[0] ** 2 == pytest.approx(within, rel=1e-3)
    assert found.deviations[0] ** 2 == pytest.approx(between, rel=1e-3)


def test_what_varies_is_told_from_what_is_shared() -> None:
    measured, r = measured_wells()
    model = GroupModel(LOGISTIC, measured)
    begin = np.vstack([np.zeros((2, len(r))), measured.first_starts()])
    found = choose_varying(fit_mixed(model, begin, may_vary(model)))
    assert found.estimate.deviations[0] == pytest.approx(0.4, rel=0.1)
    assert found.estimate.deviations[1] == 0.0
    assert np.exp(found.estimate.beta[:2]) == pytest.approx([1.0, 1.0], rel=0.02)
    assert np.exp(found.unknowns[0]) == pytest.approx(r, rel=0.03)


def test_terms_are_chosen_with_coefficients_of_each_groups_own() -> None:
    measured, _ = measured_wells(noise=0.0)
    best = next(one for one in screen(measured, whole=False)[0] if len(one.terms) == 2)
    assert sorted(best.terms) == [(-1, (2.0,)), (1, (1.0,))]


def test_a_blank_that_took_too_much_leaves_a_state_positive() -> None:
    """Growth from nearly nothing, less a blank; a swing about zero is of both signs."""
    t = np.linspace(0.0, 10.0, 30)
    noise = 0.002 * np.random.default_rng(1).standard_normal((2, 30))
    wells = [1 / (1 + 400 * np.exp(-1.2 * t)) - 0.002 + e for e in noise]
    assert min(x.min() for x in wells) < 0
    swings = [np.sin(t), np.cos(t)]
    for runs, kind in ((wells, POSITIVE), (swings, ANY)):
        series = TimeSeries.from_arrays([t] * 2, runs, ["n"])
        assert pose_groups(series, settings_for(vary="auto"))[1].starts[0].kind == kind


@pytest.mark.slow
def test_the_exponent_of_richards_growth_is_found_beside_one_that_is_known() -> None:
    """n' = r n - n^1.3: the two exponents cannot both be fitted, one can."""
    t, r = np.linspace(0.0, 12.0, 25), np.array([0.9, 1.0, 1.1, 1.2, 1.0, 0.95])
    noise = np.random.default_rng(2).standard_normal((6, 25))
    runs = []
    for rate, e in zip(r, noise, strict=True):
        level = rate ** (1 / 0.3)
        runs.append(level * (1 + ((level / 0.02) ** 0.3 - 1) * np.exp(-0.3 * rate * t)) ** (-1 / 0.3) + 0.002 * e)
    _, measured = pose_groups(TimeSeries.from_arrays([t] * 6, runs, ["n"]), settings_for(vary="auto"))
    model = GroupModel(structure_of([[(1, [1.0]), (-1, [1.5])]]), measured)
    begin = np.vstack([np.zeros((2, 6)), measured.first_starts()])
    found = simple_exponents(fit_mixed(model, begin, may_vary(model)))
    low, high = sorted(found.model.structure.with_exponents(found.unknowns[2:3].mean(axis=1)).exponents[:, 0])
    assert low == pytest.approx(1.0, abs=0.05)
    assert high == pytest.approx(1.3, abs=0.06)


def test_structures_lose_and_tie_terms() -> None:
    flow = structure_of([[(-1, [1.0, 0.0])], [(1, [1.0, 0.0]), (-1, [0.0, 1.0])]])
    assert tied(flow, 0, 1).n_constants == 2
    assert without(flow, 2).n_constants == 2
    assert len(without(flow, 2).exponents) == 1


def test_the_user_says_which_constants_vary() -> None:
    terms = [(0, "n"), (0, "n^2")]
    assert asked_to_vary("auto", ["n"], terms) is None
    assert asked_to_vary("n^2 in n'", ["n"], terms) == {0: False, 1: True}
    with pytest.raises(InputError, match="has the terms n, n"):
        asked_to_vary("x in n'", ["n"], terms)


def test_one_group_is_no_population() -> None:
    series = TimeSeries.from_arrays(np.arange(5.0), np.arange(5.0), ["x"])
    with pytest.raises(InputError, match="two or more"):
        pose_groups(series, settings_for(vary="auto"))


def test_a_new_group_leans_on_the_population_where_it_has_few_samples() -> None:
    """Two samples tell two constants only because the population says what to expect."""
    law = LOGISTIC.law(np.zeros(2))
    one = GroupConstant("k1", (0,), 1.0, 0.1, 0.4, 0.1, np.ones(1), np.ones(1))
    two = GroupConstant("k2", (1,), 1.0, 0.1, 0.0, np.nan, np.ones(1), np.ones(1))
    population = Population(("a",), (one, two), {"n": ("log-normal", 0.05, 0.3)}, {"n": 0.01}, (), {"mixed": 0.0}, {})
    t, r = np.array([0.0, 4.0]), 1.4
    exact = r / (1 + (r / 0.05 - 1) * np.exp(-r * np.array([0.0, 4.0, 10.0])))
    run = Trajectory(t, exact[:2, None], "new")
    met = meet(law, population, TimeSeries(("n",), (run,)), np.array([4.0, 10.0]), {})
    assert met.constants["k1"] == pytest.approx(r, rel=0.05)
    assert met.constants["k2"] == pytest.approx(1.0, rel=1e-3)
    assert abs(met.values[1, 0] - exact[2]) < 2 * met.deviations[1, 0]
    blank = Trajectory(t, np.array([[0.05], [np.nan]]), "new")
    alone = meet(law, population, TimeSeries(("n",), (blank,)), np.array([10.0]), {})
    assert alone.deviations[0, 0] > 3 * met.deviations[1, 0]
    with pytest.raises(InputError, match="before the first sample"):
        meet(law, population, TimeSeries(("n",), (run,)), np.array([-1.0]), {})


def test_odd_groups_are_fitted_beside_the_others() -> None:
    """Two samples, another length and start: the others lend such groups their constants."""
    times, values, _ = wells()
    times[0], values[0] = times[0][[0, -1]], values[0][[0, -1]]
    times[1], values[1] = times[1][:5] + 3.0, values[1][:5]
    series = TimeSeries.from_arrays(times, values, ["n"])
    _, measured = pose_groups(series, settings_for(vary="auto"))
    model = GroupModel(LOGISTIC, measured)
    begin = np.vstack([np.zeros((2, measured.data.n_groups)), measured.first_starts()])
    found = fit_mixed(model, begin, may_vary(model))
    assert np.isfinite(found.unknowns).all()
    assert np.exp(found.estimate.beta[:2]) == pytest.approx([1.0, 1.0], rel=0.25)
    assert found.estimate.spread[0, 0, 0] > found.estimate.spread[3, 0, 0]


def test_groups_that_tell_nothing_are_named() -> None:
    times, values, _ = wells(groups=3)
    once = np.where(np.arange(len(times[0])) == 3, 0.3, np.nan)
    for run, said in ((once, "'once' has 1 sample"), (np.full(len(once), np.nan), "'once' has 0 samples")):
        with pytest.raises(InputError, match=said):
            TimeSeries.from_arrays([*times, times[0]], [*values, run], ["n"], labels=["a", "b", "c", "once"])


@pytest.mark.slow
def test_a_group_of_another_law_is_said_not_to_follow() -> None:
    """The law of the others is held; one group falls where they grow."""
    times, values, _ = wells()
    falls = np.exp(-0.4 * times[0]) + 0.01 * np.random.default_rng(5).standard_normal(len(times[0]))
    labels = [*"abcdefghij", "falls"]
    series = TimeSeries.from_arrays([*times, times[0]], [*values, falls], ["n"], labels=labels)
    _, measured = pose_groups(series, settings_for(vary="auto"))
    model = GroupModel(LOGISTIC, measured)
    begin = np.vstack([np.zeros((2, measured.data.n_groups)), measured.first_starts()])
    told = [text for text in _odd_groups(fit_mixed(model, begin, may_vary(model))) if "does not follow" in text]
    assert len(told) == 1
    assert told[0].startswith("group falls does not follow the law")


@pytest.mark.long
def test_where_a_mixed_model_ends_is_no_chance() -> None:
    path = Path(__file__).parents[2] / "data" / "theoph.csv"
    series = load_with_controls(path, held=["dose_mg_per_kg"], states=["conc"], group="subject")
    starts = ["gut = dose_mg_per_kg", "conc = 0"]
    _, measured = pose_groups(series, settings_for(vary="auto", hidden_states=["gut"], starts=starts))
    best = choose_flows(measured, Monitor())[0][0]
    # Without a spread of elimination whole steps go round in circles, from 354 to 367.
    random = np.array([False, True, True])
    ends = [
        fit_mixed(best.model, best.unknowns * (1.0 + shift), random, deviations=best.estimate.deviations * random)
        for shift in (0.0, 1e-7, 1e-6, 1e-5)
    ]
    assert np.ptp([one.minus_2_log_likelihood for one in ends]) < 0.2


@pytest.mark.slow
def test_a_population_is_found_kept_and_predicted(tmp_path: Path) -> None:
    times, values, r = wells()
    labels = [f"w{g}" for g in range(len(r))]
    series = TimeSeries.from_arrays(times, values, ["n"], labels=labels)
    found = discover(series, vary="auto")
    assert found.equations.power_sum is not None
    assert sorted(found.equations.power_sum.exponents.ravel()) == [1.0, 2.0]
    assert found.population is not None
    vary = {one.name: one for one in found.population.constants}
    assert [one.varies for one in found.population.constants] == [True, False]
    assert vary["k1"].sd_log == pytest.approx(0.4, rel=0.1)
    assert "n' = k1*n - " in found.equations_text()
    found.save(tmp_path / "kept")
    again = Discovery.load(tmp_path / "kept")
    assert again.population is not None
    assert again.equations_text() == found.equations_text()
    assert again.as_dict()["population"] == found.as_dict()["population"]
    alone = [one.apart for one in again.population.constants]
    assert alone[0] == pytest.approx(r, rel=0.1)
    assert alone[1] == pytest.approx(np.ones(len(r)), rel=0.2)
    own = again.of_group("w3")
    assert np.abs(own.simulate()[:, 0] - values[3]).max() < 0.05
    with pytest.raises(InputError, match="no group 'w99'"):
        again.of_group("w99")


@pytest.mark.slow
def test_the_estimator_takes_groups() -> None:
    t, rates = np.linspace(0.0, 5.0, 12), (0.3, 0.5, 0.8, 0.6, 0.4)
    noise = np.random.default_rng(0).standard_normal((5, 12))
    runs = [(3 * np.exp(-k * t) + 0.02 * e)[:, None] for k, e in zip(rates, noise, strict=True)]
    model = ODEDiscovery(states=["c"], vary="auto").fit(runs, t=[t] * 5, groups=list("abcde"))
    population = model.discovery_.population
    assert population is not None
    assert population.labels == tuple("abcde")
    assert population.constants[0].values == pytest.approx(rates, rel=0.03)


def test_a_column_that_tells_of_groups_is_no_state() -> None:
    times = np.arange(6.0)
    runs = [
        np.column_stack([np.exp(-0.3 * times) * size, np.full(6, year)]) for size, year in ((1.0, 1988), (2.0, 1990))
    ]
    series = TimeSeries.from_arrays([times, times], runs, ["weight", "year"])
    with pytest.raises(InputError, match=r"year: expected states that change.*--states weight"):
        discover(series, vary="auto")


@pytest.mark.slow
def test_residuals_that_follow_each_other_are_told() -> None:
    """Growth that slows down is fitted as if it did not; with the right law nothing is said."""
    times, values, _ = wells()
    series = TimeSeries.from_arrays(times, values, ["n"])
    _, measured = pose_groups(series, settings_for(vary="auto"))
    told = {}
    for structure in (LOGISTIC, structure_of([[(1, [1.0])]])):
        model = GroupModel(structure, measured)
        begin = np.vstack([np.full((structure.n_constants, 10), -1.0), measured.first_starts()])
        told[structure.n_constants] = _followed(fit_mixed(model, begin, may_vary(model)), series)
    assert told[2] == []
    assert "residuals of n follow each other" in told[1][0]


@pytest.mark.slow
def test_a_group_of_another_law_is_left_out_and_the_others_keep_theirs() -> None:
    times, values, _ = wells()
    values[4] = 0.9 * np.exp(-0.4 * times[0]) + 0.01 * np.random.default_rng(7).standard_normal(len(times[0]))
    series = TimeSeries.from_arrays(times, values, ["n"], labels=[f"w{g}" for g in range(10)])
    _, measured = pose_groups(series, settings_for(vary="auto"))
    rows = []
    for structure in (LOGISTIC, structure_of([[(-1, [0.5]), (1, [1.0]), (-1, [1.5])]])):
        model = GroupModel(structure, measured)
        begin = np.vstack([np.zeros((structure.n_constants, 10)), measured.first_starts()])
        rows.append(fit_mixed(model, begin, may_vary(model)))
    found, strange = leave_out_strangers(sorted(rows, key=criterion), Monitor())
    assert np.flatnonzero(strange).tolist() == [4]
    assert found.model.measured.labels == tuple(f"w{g}" for g in range(10) if g != 4)
    if found.model.structure is LOGISTIC:
        assert np.exp(found.estimate.beta[:2]) == pytest.approx([1.0, 1.0], rel=0.25)
    told = strange_groups(series, strange)
    assert told == ["group 'w4' follows another law: left out, the law is that of the other 9; fit them alone"]


def test_no_group_is_left_out_where_all_follow_one_law() -> None:
    times, values, _ = wells()
    series = TimeSeries.from_arrays(times, values, ["n"])
    _, measured = pose_groups(series, settings_for(vary="auto"))
    model = GroupModel(LOGISTIC, measured)
    begin = np.vstack([np.zeros((2, 10)), measured.first_starts()])
    row = fit_mixed(model, begin, may_vary(model))
    found, strange = leave_out_strangers([row], Monitor())
    assert found is row and not strange.any() and strange_groups(series, strange) == []


def test_a_group_in_another_unit_is_named() -> None:
    times, values, _ = wells()
    values[2] = 1000.0 * values[2]
    series = TimeSeries.from_arrays(times, values, ["n"], labels=[f"w{g}" for g in range(10)])
    told = strange_groups(series, np.zeros(10, bool))
    assert len(told) == 1 and told[0].startswith("n of group 'w2' is about ") and "another unit?" in told[0]


def test_a_state_that_most_groups_lack_asks_for_no_unit() -> None:
    times, values, _ = wells()
    both = [np.column_stack([x, 0.0 * x if g else x]) for g, x in enumerate(values)]
    series = TimeSeries.from_arrays(times, both, ["n", "rare"])
    assert strange_groups(series, np.zeros(10, bool)) == []


def test_many_terms_are_screened_by_making_the_best_sets_longer() -> None:
    assert len(list(_subsets(31, 3, [(0, 1)]))) == 4495  # of three states: all
    longer = list(_subsets(600, 3, [(4, 7), (2, 9)]))
    assert len(longer) == 2 * 598 and (4, 7, 9) in longer and (2, 7, 9) in longer
    assert len(list(_subsets(600, 3, [(4, 7)] * 50 + [(1, 2)]))) == 598 and SCREEN.longer == 30


def test_without_time_groups_get_one_law_and_are_told_so() -> None:
    times, values, _ = wells(groups=4)
    series = TimeSeries.from_arrays(times, [x[:, None] for x in values], ["n"])
    found = discover(series, settings_for(vary="auto"), Monitor(max_seconds=0.001, started=-1e6))
    assert found.population is None and found.outcome in ("stopped", "poor-fit")
    assert any("no time for constants of each group" in message for message in found.messages)
    assert found.settings.vary == "auto" and np.isfinite(found.r2)


def test_where_groups_come_to_rest_is_told_with_its_spread() -> None:
    """n' = r n - q n^2 rests at r/q, whose logarithm is as wide as that of r where q is shared."""
    times, values, r = wells(noise=0.005)
    series = TimeSeries.from_arrays(times, values, ["n"])
    _, measured = pose_groups(series, settings_for(vary="auto"))
    model = GroupModel(LOGISTIC, measured)
    begin = np.vstack([np.zeros((2, 10)), measured.first_starts()])
    rest = resting_point(fit_mixed(model, begin, np.array([True, False, True])))
    assert rest is not None
    assert rest.median == pytest.approx(1.0, abs=3.0 * rest.error) and 0.05 < rest.error < 0.25
    assert rest.sd_log == pytest.approx(np.log(r).std(), rel=0.1) and 0.05 < rest.sd_log_error < 0.2
    shared = resting_point(fit_mixed(model, begin, np.array([False, False, True])))
    assert shared is not None and shared.sd_log == 0.0 and "in every group" in shared.sentence("n")
    growing = GroupModel(structure_of([[(1, [2.0]), (-1, [1.0])]]), measured)
    assert resting_point(fit_mixed(growing, np.vstack([np.full((2, 10), -3.0), begin[2:]]), may_vary(growing))) is None


@pytest.mark.slow
def test_constants_that_go_together_are_told_and_kept() -> None:
    """r and q of n' = r n - q n^2 that all wells have in one ratio: they come to rest at one size."""
    rng = np.random.default_rng(5)
    z = rng.standard_normal(16)
    r = np.exp(0.3 * (z - z.mean()) / z.std())
    t = np.linspace(0.0, 10.0, 15)
    values = [1.0 / (1.0 + 19.0 * np.exp(-k * t)) + 0.003 * rng.standard_normal(15) for k in r]
    series = TimeSeries.from_arrays([t] * 16, values, ["n"])
    found = fit_constants(series, "n' = r*n - q*n^2", settings_for(vary="all"))
    population = found.population
    assert population is not None and population.correlation is not None
    assert population.correlation[0, 1] > 0.95
    assert any(
        message.startswith("constants that go together over groups") and "r and q" in message
        for message in found.messages
    )
    kept = Population.from_record(population.record())
    assert kept is not None and kept.correlation is not None
    np.testing.assert_allclose(kept.correlation, population.correlation)
