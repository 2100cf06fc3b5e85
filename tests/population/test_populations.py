"""One law for many groups: the engine against known answers, and laws that somebody wrote down."""

import re
from pathlib import Path

import numpy as np
import pytest

from odediscovery import Discovery, InputError, Monitor, TimeSeries, Trajectory, discover, fit_constants, settings_for
from odediscovery.command.cli import main
from odediscovery.laws.equations import read_form
from odediscovery.population.choose import leave_out_strangers
from odediscovery.population.groups import ANY, POSITIVE, GroupModel, Measured, Start, fit_each, padded, structure_of
from odediscovery.population.mixed import Sums, choose_varying, criterion, estimate, fit_mixed, may_vary
from odediscovery.population.pose import pose_groups
from odediscovery.population.screen import screen
from odediscovery.population.told import strange_groups
from odediscovery.population.written import written_law
from odediscovery.result.discovery import head
from odediscovery.result.population import GroupConstant, Population
from odediscovery.uncertainty.newcomer import meet

LOGISTIC, DECAY = structure_of([[(1, [1.0]), (-1, [2.0])]]), structure_of([[(-1, [1.0])]])
HOURS = np.linspace(0.0, 10.0, 13)


def wells(groups=10):
    """Logistic growth n' = r n - q n^2 at HOURS: ln r varies by 0.4, q = 1 does not."""
    rng = np.random.default_rng(3)
    z = rng.standard_normal(groups)
    r = np.exp(0.4 * (z - z.mean()) / z.std())
    n0 = 0.05 * np.exp(0.2 * rng.standard_normal(groups))
    runs = [k / (1 + (k / n - 1) * np.exp(-k * HOURS)) for k, n in zip(r, n0, strict=True)]
    return [x + 0.01 * rng.standard_normal(len(HOURS)) for x in runs], r


def series_of_wells(values):
    labels = [f"w{g}" for g in range(len(values))]
    return TimeSeries.from_arrays([HOURS] * len(values), values, ["n"], labels=labels)


def model_of(structure, t, values, kind):
    """Groups with a start of each group's own."""
    data = padded([(t, x[:, None]) for x in values])
    first = data[1][0, 0] if kind == ANY else np.maximum(data[1][0, 0], 0.01)
    labels = tuple(str(g) for g in range(len(values)))
    return GroupModel(structure, Measured(*data, (Start(kind, first),), np.zeros(1, bool), labels))


def test_curves_are_those_of_the_closed_form_with_their_derivatives():
    values, _ = wells(groups=3)
    model, r = model_of(LOGISTIC, HOURS, values, POSITIVE), np.array([0.5, 1.0, 2.0])
    at = np.log([r, np.ones(3), np.full(3, 0.1)])
    exact = r / (1 + (r / 0.1 - 1) * np.exp(-r * HOURS[:, None]))
    np.testing.assert_allclose(model.fitted(at)[:, 0], exact, rtol=5e-4)
    _, slopes = model.curves(at)
    for p in range(3):
        shift = np.zeros(at.shape)
        shift[p] = 1e-5
        up, down = (model.residual(at + sign * shift) for sign in (1, -1))
        assert np.allclose((down - up) / 2e-5, slopes[:, :, p], atol=1e-6)


def test_the_linear_mixed_model_is_that_of_its_closed_form():
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


def test_what_varies_is_told_from_what_is_shared():
    values, r = wells()
    model = model_of(LOGISTIC, HOURS, values, POSITIVE)
    begin = np.vstack([np.zeros((2, len(r))), model.measured.first_starts()])
    found = choose_varying(fit_mixed(model, begin, may_vary(model)))
    assert found.estimate.deviations[0] == pytest.approx(0.4, rel=0.1)
    assert found.estimate.deviations[1] == 0.0
    assert np.exp(found.estimate.beta[:2]) == pytest.approx([1.0, 1.0], rel=0.02)
    assert np.exp(found.unknowns[0]) == pytest.approx(r, rel=0.03)


def test_a_new_group_leans_on_the_population_where_it_has_few_samples():
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


def test_a_population_is_found_kept_and_predicted(tmp_path):
    values, r = wells(groups=6)
    found = discover(series_of_wells(values), vary="auto")
    assert sorted(found.equations.power_sum.exponents.ravel()) == [1.0, 2.0]
    vary = {one.name: one for one in found.population.constants}
    assert [one.varies for one in found.population.constants] == [True, False]
    assert vary["k1"].sd_log == pytest.approx(0.4, rel=0.1)
    assert "n' = k1*n - " in found.equations_text()
    found.save(tmp_path / "kept")
    again = Discovery.load(tmp_path / "kept")
    assert again.equations_text() == found.equations_text()
    assert again.as_dict()["population"] == found.as_dict()["population"]
    alone = [one.apart for one in again.population.constants]
    assert alone[0] == pytest.approx(r, rel=0.1)
    assert alone[1] == pytest.approx(np.ones(len(r)), rel=0.2)
    own = again.of_group("w3")
    assert np.abs(own.simulate()[:, 0] - values[3]).max() < 0.05
    with pytest.raises(InputError, match="no group 'w99'"):
        again.of_group("w99")


def test_one_group_is_no_population_and_what_tells_of_groups_is_no_state():
    times = np.arange(6.0)
    with pytest.raises(InputError, match="two or more"):
        discover(TimeSeries.from_arrays(times, times, ["x"]), vary="auto")
    runs = [np.column_stack([size * np.exp(-0.3 * times), np.full(6, 1988 + size)]) for size in (1.0, 2.0)]
    series = TimeSeries.from_arrays([times, times], runs, ["weight", "year"])
    with pytest.raises(InputError, match=r"year: expected states that change.*--states weight"):
        discover(series, vary="auto")


def test_a_group_of_another_law_is_left_out_and_the_others_keep_theirs():
    values, _ = wells()
    values[4] = 0.9 * np.exp(-0.4 * HOURS) + 0.01 * np.random.default_rng(7).standard_normal(len(HOURS))
    series = series_of_wells(values)
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


def test_a_group_in_another_unit_is_named():
    values, _ = wells()
    values[2] = 1000.0 * values[2]
    told = strange_groups(series_of_wells(values), np.zeros(10, bool))
    assert len(told) == 1 and told[0].startswith("n of group 'w2' is about ") and "another unit?" in told[0]


def test_without_time_groups_get_one_law_and_are_told_so():
    values, _ = wells(groups=4)
    found = discover(series_of_wells(values), settings_for(vary="auto"), Monitor(max_seconds=0.001, started=-1e6))
    assert found.population is None and found.outcome in ("stopped", "poor-fit")
    assert any("no time to fit constants for each group" in message for message in found.messages)
    assert found.settings.vary == "auto" and np.isfinite(found.r2)


T = np.linspace(0.0, 4.0, 9)


def test_an_expectation_weighs_as_much_as_its_precision():
    """A rate that is held at nearly 0 leaves a constant, of which the most likely value is a weighted mean."""
    values = 3.0 + 0.3 * np.cos(5.0 * np.arange(9.0))
    sigma, expected, width = 0.3, 1.0, 0.2
    begin, model = np.array([[-25.0], [2.0]]), model_of(DECAY, T, [values], ANY)
    centre, widths = np.array([[-25.0], [expected]]), np.array([1e-6, width])
    unknowns, squares = fit_each(model, begin, np.full(1, sigma), centre, widths, steps=100)
    n = values.size
    mean = (values.sum() / sigma**2 + expected / width**2) / (n / sigma**2 + 1.0 / width**2)
    assert unknowns[1, 0] == pytest.approx(mean, rel=1e-4)
    assert squares[0, 0] == pytest.approx(((values - mean) ** 2).sum(), rel=1e-4)


def test_a_group_without_a_value_of_a_state_leaves_its_terms_to_the_others():
    """Two of six groups say nothing of y' = a x - b y."""
    t, starts = np.linspace(0.0, 6.0, 15), np.linspace(1.0, 2.0, 6)
    runs = [np.stack([k * np.exp(-t), k * t * np.exp(-t)], axis=1) for k in starts]
    for run in runs[:2]:
        run[:, 1] = np.nan
    _, measured = pose_groups(TimeSeries.from_arrays([t] * 6, runs, ["x", "y"]), settings_for(vary="auto"))
    found = {frozenset(one.terms): one for one in screen(measured, whole=False)[1]}
    true = found[frozenset({(1, (1.0, 0.0)), (-1, (0.0, 1.0))})]
    np.testing.assert_allclose(true.coefficients, 1.0, rtol=0.1)


SAMPLED = np.linspace(0.0, 10.0, 15)
DATA = Path(__file__).parents[2] / "data"


def growth(power, groups=8):
    """n' = r n - n^p in closed form, where r varies by a fifth and n comes to rest at r^(1/(p - 1))."""
    rng = np.random.default_rng(4)
    z = rng.standard_normal(groups)
    r = np.exp(0.2 * (z - z.mean()) / z.std())
    # u = n^(1 - p) is linear: u' = -(p - 1) (r u - 1).
    u = 1.0 / r + (0.05 ** (1.0 - power) - 1.0 / r) * np.exp(-(power - 1.0) * np.outer(SAMPLED, r))
    values = u ** (1.0 / (1.0 - power)) + 0.004 * rng.standard_normal(u.shape)
    labels = [f"w{g}" for g in range(groups)]
    return TimeSeries.from_arrays([SAMPLED] * groups, list(values.T), ["n"], labels=labels), r


def test_terms_of_a_form_and_the_products_of_their_constants():
    law = written_law(read_form("n' = r*n*(1 - (n/K)^v)", ["n"]))
    assert [{str(s) for s in one.free_symbols} for one in law.constants] == [{"r"}, {"r", "K", "v"}]
    assert law.names == {0: "r"}
    assert [str(one) for one in law.exponents] == ["v + 1"] and law.structure.free == ((1, 0),)
    assert [entry.sign for entry in law.structure.entries] == [1, -1]
    plain = written_law(read_form("n' = r*n*(1 - n/K)", ["n"]))
    assert plain.places_of("r,r/K") == [0, 1] and plain.places_of("auto") is None
    for name in "rK":
        with pytest.raises(InputError, match=f"--vary {name}: .* here r, r/K, and r/K would be the same"):
            plain.places_of(name)
    flow = written_law(read_form(["gut' = -ka*gut", "conc' = ka*gut - ke*conc"], ["gut", "conc"]))
    assert flow.names == {0: "ka", 1: "ke"} and flow.structure.n_constants == 2


@pytest.mark.parametrize(
    ("law", "message"),
    [
        ("n' = r*n/(1 + b*n)", r"expected sums of products of powers, got 1/\(b\*n \+ 1\) in the equation of n"),
        ("n' = r*n - 0.1*n", r"expected a constant in every term, got -0.1\*n in the equation of n; give it a name"),
        ("n' = r*n - r*K*n^2 + K*n^3", "got 2 constants in K, r, K"),
        ("n' = a*n^p - b*n^p", "the equation of n has two terms alike; write them as one"),
    ],
)
def test_what_is_no_mixed_model_is_refused(law, message):
    with pytest.raises(InputError, match=message):
        written_law(read_form(law, ["n"]))


@pytest.mark.long
def test_the_spread_of_a_constant_and_the_exponent_of_all_are_found():
    series, r = growth(1.3)
    found = fit_constants(series, "n' = r*n - q*n^p", settings_for(vary="auto"))
    population = found.population
    assert population is not None and population.written and head(found) == "constants fitted"
    varying = {one.name: one for one in population.constants if one.varies}
    assert list(varying) == ["r"]
    assert np.corrcoef(np.log(varying["r"].values), np.log(r))[0, 1] > 0.95
    assert varying["r"].sd_log == pytest.approx(0.2, rel=0.35)
    told = re.search(r"the exponent p = ([\d.]+)\((\d+)\) is one for all groups", " ".join(found.messages))
    assert told and float(told[1]) == pytest.approx(1.3, abs=0.06)
    assert any(message.startswith("equilibrium at n = ") for message in found.messages)


@pytest.mark.long
def test_an_unmeasured_state_needs_starts_of_all_constants(tmp_path, monkeypatch, capsys):
    """Theophylline, as nlme has it: ke 0.0859, ka 1.593 with sd_log 0.644."""
    monkeypatch.chdir(tmp_path)
    Path("law.txt").write_text("gut' = -ka*gut\nconc' = ka*gut - ke*conc\n", encoding="utf-8")
    call = ["fit-constants", str(DATA / "theoph.csv"), "--group", "subject", "--states", "conc", "--law", "law.txt"]
    call += ["--hidden-states", "gut", "--starts", "gut = dose_mg_per_kg", "--starts", "conc = 0", "--vary", "auto"]
    assert main(call) == 2
    assert "every constant needs a start" in capsys.readouterr().err
    assert main([*call, "--start", "ka=1", "--start", "ke=0.1", "--out", "found"]) == 0
    out = capsys.readouterr().out
    assert "conc' = ka*gut - 0.0859(45)*conc" in out and "ka = 1.59(31), log-normal over groups" in out
    kept = Discovery.load("found")
    assert kept.population is not None and kept.population.written and head(kept) == "constants fitted"
    assert kept.r2 == pytest.approx(0.9487, abs=5e-4)
    assert main(["fit-constants", str(DATA / "theoph.csv"), "--law", "law.txt", "--starts", "conc = 0"]) == 2
    assert "they need --vary" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        (dict(template=["logistic"]), "--template"),
        (dict(tries=["n' = r*n"]), "--try"),
        (dict(recipe="neural"), "--recipe"),
    ],
)
def test_what_the_search_of_groups_does_not_hear_is_refused(asked, named):
    recipe = str(asked.pop("recipe", "default"))
    with pytest.raises(InputError, match=f"{named} is not yet possible beside --vary"):
        settings_for(recipe, vary="auto", **asked).checked()
