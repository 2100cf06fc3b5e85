"""Terms by regression on exact samples, and along the trajectory of a law that follows noisy ones."""

import itertools

import numpy as np
import pytest
from problems import logistic
from published import RATES, sampled
from scipy.integrate import solve_ivp

from odediscovery import Equations, Monitor, TimeSeries, discover, settings_for
from odediscovery.bench.scores import same_terms
from odediscovery.data.series import append_controls, with_controls
from odediscovery.families import FAMILIES, POWERS, SUMS, Shape
from odediscovery.laws.power_sum import PowerSum, Sums, but_whole_powers, count
from odediscovery.problem.problem import prepare
from odediscovery.search.refinement import detect_noiseless, refined
from odediscovery.solve.sensitivities import LinearisedTrajectory
from odediscovery.stages import regression as sets_of_blocks
from odediscovery.stages import terms
from odediscovery.stages.integral_form import Path, Product, products_of
from odediscovery.stages.regression import block_sets
from odediscovery.stages.terms import (
    MOST_INTERVALS,
    Choice,
    Place,
    Pool,
    Regression,
    Screening,
    changes_of,
    compete,
    distinct,
    terms_along,
    together,
    unique,
)

PREY, GOMPERTZ = "predators in each other's way", "Gompertz and his predator"


def but_long(names, *quick):
    """Parameters: `make test` has the quick ones, which tests of the predators add to."""
    return [name if name in quick else pytest.param(name, marks=pytest.mark.long) for name in names]


def rounded_to_four_digits(name):
    """A published law, its number of terms, samples of four digits, and their problem."""
    law, series = sampled(*RATES[name])
    values = [np.array([[float(f"{x:.4g}") for x in row] for row in t.values]) for t in series.trajectories]
    p = prepare(TimeSeries.from_arrays([t.time for t in series.trajectories], values, series.states))
    terms = sum(side.count(" + ") + side.count(" - ") + 1 for side in RATES[name][0].values())
    return law, terms, np.concatenate(values), p


def screened_of(p):
    """What each vocabulary says of a problem, the likeliest first."""
    found = [Screening.of(p, family, k, Monitor()) for family in FAMILIES for k in range(len(family.vocabularies))]
    return sorted(found, key=lambda one: one.criterion)


@pytest.mark.long
@pytest.mark.parametrize("name", ["ratio dependence", PREY, GOMPERTZ])
def test_the_likeliest_vocabulary_finds_published_rates_in_samples_of_four_digits(name):
    law, terms, x, p = rounded_to_four_digits(name)
    assert not p.clean
    found = screened_of(p)[0].mended(Monitor())[0].unscaled(p.scale.state, p.scale.time)
    np.testing.assert_allclose(found.rhs(x), law.rhs(x), atol=1e-2 * np.abs(law.rhs(x)).max())
    # One term more may be another way to write a quotient.
    assert np.count_nonzero(found.coefficients) <= 1 + terms


@pytest.mark.parametrize("name", but_long(RATES, "a diode"))
def test_published_rates_are_found_on_exact_samples(name):
    law, series = sampled(*RATES[name])
    p = prepare(series).without_noise(None)
    best = min((Screening.of(p, SUMS, k, Monitor()) for k in range(2)), key=lambda one: one.criterion)
    found = best.mended(Monitor())[0].unscaled(p.scale.state, p.scale.time)
    x = np.concatenate([t.values for t in series.trajectories])
    rates = law.rhs(x)
    np.testing.assert_allclose(found.rhs(x), rates, atol=1e-4 * np.abs(rates).max())
    # As few terms as were written: one more may be another way to write a quotient.
    assert np.count_nonzero(found.coefficients) <= 1 + sum(
        side.count(" + ") + side.count(" - ") + 1 for side in RATES[name][0].values()
    )


@pytest.mark.long
def test_long_series_are_screened_on_a_part_of_their_intervals():
    law, series = sampled(*RATES[PREY], samples=200)
    p = prepare(series).without_noise(None)
    screened = Screening.of(p, SUMS, 0, Monitor())
    assert screened.at.samples <= 2 * MOST_INTERVALS < p.samples
    found = screened.mended(Monitor())[0].unscaled(p.scale.state, p.scale.time)
    x = np.concatenate([t.values for t in series.trajectories])
    np.testing.assert_allclose(found.rhs(x), law.rhs(x), atol=1e-9)


@pytest.mark.long
def test_samples_too_coarse_to_look_exact_are_found_to_be_exact():
    law, series = sampled(*RATES[GOMPERTZ][:2], 40.0, samples=30)
    assert not prepare(series).clean
    found = discover(series, settings_for(members=0), Monitor()).equations
    x = np.concatenate([t.values for t in series.trajectories])
    np.testing.assert_allclose(found.rhs(x), law.rhs(x), rtol=1e-4, atol=1e-5)


@pytest.mark.long
def test_real_powers_are_likelier_than_what_comes_near_them():
    law, series = sampled({"x": "-0.4*x**1.3*y**0.6", "y": "0.4*x**1.3*y**0.6 - y**0.7"}, [[2.0, 0.5], [1.0, 1.5]], 8.0)
    p = prepare(series).without_noise(None)
    first, second, *_ = screened_of(p)
    assert first.family is POWERS and first.criterion < second.criterion - 100.0
    found = first.mended(Monitor())[0].unscaled(p.scale.state, p.scale.time)
    assert same_terms(found, law.power_sum, 1e-4)


GATE = "x/(1 + 38.8*exp(-5.4*y))"


@pytest.mark.long
def test_a_law_may_need_what_two_vocabularies_of_a_family_have():
    rates = {"x": f"0.22 - 1.16*{GATE}", "y": f"0.72*{GATE} - 1.3*y/(1 + 3*x + 0.7*y)"}
    law, series = sampled(rates, [[1.0, 0.3], [0.4, 1.2]], 30.0)
    p = prepare(series).without_noise(None)
    found = next(compete(p, [SUMS], Monitor()))[0].unscaled(p.scale.state, p.scale.time)
    x = np.concatenate([t.values for t in series.trajectories])
    np.testing.assert_allclose(found.rhs(x), law.rhs(x), atol=1e-4)


@pytest.fixture(scope="module")
def late():
    """A vocabulary whose laws are asked for after the end, and the monitor that says so."""
    *_, p = rounded_to_four_digits(PREY)
    monitor = Monitor()
    monitor.spend(60.0)
    with monitor.part(0.0):
        yield Screening.of(p, SUMS, 0, monitor), monitor


def test_each_equation_on_the_data_has_rows_and_a_variance_of_its_own(late):
    at = late[0].at
    x = at.columns([Product(np.eye(at.place.features.size)[0])])
    first, second = at.rows
    assert not x[second, 0].any() and not x[first, 1].any() and x[first, 0].any()
    left = at.squares(at.y)
    assert float(at.misfit(left)) == pytest.approx(sum(float(at.misfit_of(i)(left[i])) for i in range(2)))


def test_a_vocabulary_is_not_screened_after_the_end(late):
    screened, monitor = late
    assert screened.criterion == np.inf and not screened.mended(monitor)


def test_sums_that_outgrow_their_one_lose_it():
    product = Product(np.array([1.0, 1.0]), Sums(np.array([[4.0, 2.0]]), np.eye(2)), -np.ones(1))
    path = Path.of(np.array([[1e6, 3e6], [2e6, 5e6]]), np.zeros(2, dtype=bool), np.full(2, 1e-9))
    wanted = product.values(path)
    ratios = [t.values(path) / wanted for t in product.simpler(2)]
    # z (1 + (c/b) y/z) for 1 + b z + c y, with either product as z, differs by a factor only.
    assert sum(np.ptp(ratio) < 1e-5 * ratio.mean() for ratio in ratios) == 2


def in_noise(name, share=0.01):
    """The true law, the states along it, the noisy problem, and a polynomial that follows the noisy samples."""
    law, series = sampled(*RATES[name])
    runs, random = [run.values for run in series.trajectories], np.random.default_rng(0)
    noise = share * np.concatenate(runs).std(axis=0)
    values = [run + noise * random.standard_normal(run.shape) for run in runs]
    p = prepare(TimeSeries.from_arrays([run.time for run in series.trajectories], values, series.states))
    x = np.concatenate(runs)
    n = x.shape[1]
    w = np.array([row for row in itertools.product(range(5), repeat=n) if sum(row) <= 4], dtype=float)
    columns = np.prod(x[:, None] ** w, axis=2)
    begun = PowerSum(np.linalg.lstsq(columns, law.rhs(x), rcond=1e-8)[0].T, w).rescaled(p.scale.state, p.scale.time)
    return law, x, p, refined(p, begun, but_whole_powers(begun), p.initial, p.sigma)


def regression(p, fitted, family=SUMS):
    followed = LinearisedTrajectory.of(p, fitted.law, fitted.initial, p.sigma)
    place = Place.along(p, followed, fitted.law, family)
    terms = [Product.of(shape, place.features.size) for shape in family.vocabularies[0](place.seen)]
    return Regression.along(place, followed, fitted.law, terms), terms


@pytest.fixture(scope="module")
def prey():
    law, x, p, fitted = in_noise(PREY)
    return law, x, p, fitted, *regression(p, fitted)


@pytest.mark.parametrize("name", but_long(["two substrates", PREY, "a product that inhibits", GOMPERTZ], GOMPERTZ))
def test_published_rates_are_found_along_a_polynomial_that_follows_noisy_samples(name):
    law, x, p, fitted = in_noise(name)
    truth = law.rhs(x)
    for _ in range(2):  # again along what was found
        best = terms_along(p, fitted.law, fitted.initial, p.sigma, SUMS, Monitor())[0]
        fitted = refined(p, best, but_whole_powers(best), p.initial, p.sigma)
    found = fitted.law.unscaled(p.scale.state, p.scale.time)
    np.testing.assert_allclose(found.rhs(x), truth, atol=0.1 * np.abs(truth).max())
    written = sum(side.count(" + ") + side.count(" - ") + 1 for side in RATES[name][0].values())
    assert np.count_nonzero(found.coefficients) <= written + 1


def test_what_costs_less_is_found_and_what_costs_more_is_not_proposed(prey):
    _, _, p, polynomial, *_ = prey
    (best, *_) = terms_along(p, polynomial.law, polynomial.initial, p.sigma, SUMS, Monitor(), cheaper=True)
    over = best.exponents[:, best.features.simple :].any(axis=1)
    assert over.sum() == 1 and (best.coefficients[:, over] != 0).all()  # a flux has one shape in both of its equations
    fitted = refined(p, best, but_whole_powers(best), p.initial, p.sigma)
    again = terms_along(p, fitted.law, fitted.initial, p.sigma, SUMS, Monitor(), cheaper=True)
    own, others = count(but_whole_powers(best)), [count(but_whole_powers(law)) for law in again]
    assert others[0] == own and max(others) <= own + 1


def test_a_state_without_terms_may_keep_none():
    """Nothing costs less than an empty equation, and the other one is found beside it."""
    times = np.linspace(0.0, 20.0, 60)
    noise = 0.02 * np.random.default_rng(0).standard_normal((60, 2))
    values = np.column_stack([logistic(times, 0.5, 0.5, 0.1), np.ones(60)]) + noise
    p = prepare(TimeSeries.from_arrays(times, values, ["x", "y"]))
    cubic = PowerSum(np.array([[0.5, -0.4, -0.1], [0.0, 0.0, 0.0]]), np.array([[1.0, 0.0], [2.0, 0.0], [3.0, 0.0]]))
    law = cubic.rescaled(p.scale.state, p.scale.time)
    fitted = refined(p, law, but_whole_powers(law), p.initial, p.sigma)
    best, *_ = terms_along(p, fitted.law, fitted.initial, p.sigma, POWERS, Monitor(), cheaper=True)
    assert (best.coefficients[0] != 0).sum() == 2 and not best.coefficients[1].any()


def test_constants_from_a_coarse_grid_settle_in_little_noise(monkeypatch):
    _, _, p, fitted = in_noise(PREY, share=3e-3)
    at, every = regression(p, fitted)
    pool, start = Pool.of(at, every), Choice(at.law, at.coefficients, np.inf)
    settled = pool.sets(0, start, alone=True)
    monkeypatch.setattr(terms, "SETTLING", 1)
    once = pool.sets(0, start, alone=True)
    assert settled[0][0] < once[0][0] - 50.0
    assert [value for value, _ in settled] == sorted(value for value, _ in settled)


def test_inputs_act_in_terms_along_a_law():
    """A flow that feeds what a saturating reaction consumes, along a cubic polynomial."""
    t, random = np.linspace(0.0, 30.0, 121), np.random.default_rng(0)
    feed = np.append(np.repeat(random.uniform(0.1, 1.0, 12), 10), 0.5)
    x = [0.1]
    for k, now in enumerate(feed[:-1]):
        x.append(solve_ivp(lambda _, x, u=now: u - 1.2 * x / (0.4 + x), t[k : k + 2], [x[-1]], rtol=1e-9).y[0, -1])
    x = np.array(x)
    rate, noisy = feed - 1.2 * x / (0.4 + x), x + 0.01 * np.std(x) * random.standard_normal(len(x))
    series = with_controls(TimeSeries.from_arrays(t, np.column_stack([noisy, feed]), ["x", "u"]), held=["u"])
    p = prepare(append_controls(series))
    a = np.linalg.lstsq(np.column_stack([x, x**2, x**3]), rate - feed)[0]
    begun = PowerSum(np.array([[1.0, *a], np.zeros(4)]), np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 0.0], [3.0, 0.0]]))
    begun = begun.rescaled(p.scale.state, p.scale.time)
    fitted = refined(p, begun, but_whole_powers(begun), p.initial, p.sigma)
    best = terms_along(p, fitted.law, fitted.initial, p.sigma, SUMS, Monitor())[0]
    found = best.unscaled(p.scale.state, p.scale.time).compact()
    np.testing.assert_allclose(found.rhs(np.column_stack([x, feed]))[:, 0], rate, atol=0.02)
    assert not found.coefficients[1].any() and found.n_monomials <= 3


def test_real_powers_are_found_by_their_family(prey):
    _, _, p, fitted, *_ = prey
    laws = terms_along(p, fitted.law, fitted.initial, p.sigma, POWERS, Monitor())
    assert laws and all(law.features is None or not len(law.features.sums) for law in laws)


def test_a_law_that_cannot_be_followed_has_no_proposals(prey):
    _, _, p, fitted, *_ = prey
    wild = PowerSum(np.full((2, 1), 1e3), np.full((1, 2), 2.0))
    assert terms_along(p, wild, fitted.initial, p.sigma, SUMS, Monitor()) == []


def test_what_was_found_is_kept_when_time_ends(prey, late):
    _, _, p, fitted, *_ = prey
    assert terms_along(p, fitted.law, fitted.initial, p.sigma, SUMS, late[1])


def test_directions_keep_what_responses_and_data_have(prey):
    _, _, p, fitted, at, terms = prey
    followed = LinearisedTrajectory.of(p, fitted.law, fitted.initial, p.sigma)
    starts = followed.starts()
    ends = np.cumsum([len(x) for x in followed.x])[:-1]

    def rest(columns):
        return columns - starts @ np.linalg.lstsq(starts, columns, rcond=None)[0]

    chosen = terms[::7]
    x = at.columns(chosen)
    for e in range(2):
        forces = np.split(np.stack([t.values(at.place.path) for t in chosen], axis=-1), ends)
        whole = rest(followed.responses(e, forces))
        np.testing.assert_allclose(
            x[:, e].T @ x[:, e], whole.T @ whole, rtol=1e-3, atol=1e-6 * np.abs(whole.T @ whole).max()
        )


def test_coefficients_are_least_squares_without_what_is_not_worth_its_price(prey):
    *_, at, terms = prey
    some = [t for t in terms if not at.has_constants(t)][:8]
    best = at.best(some)
    x, used = at.columns(best.products), best.coefficients != 0
    columns = x[:, used]
    a = np.linalg.lstsq(columns, at.y, rcond=None)[0]
    np.testing.assert_allclose(best.coefficients[used], a, rtol=1e-2)
    left = np.sum((at.y - columns @ a) ** 2)
    price = at.worth * used.sum() + sum(at.price(t) for t in best.products)
    assert best.criterion == pytest.approx(float(at.misfit(np.array([left]))) + price, abs=0.1)
    assert best.criterion < float(at.misfit(np.array([at.y @ at.y])))


def test_constants_move_to_where_the_criterion_is_less(prey):
    *_, at, _ = prey
    unit = np.eye(at.place.features.size)
    away = Product(unit[0] + unit[1], Sums(np.array([[1.5, 0.2]]), unit[:2]), -np.ones(1))
    plain = [Product(row) for row in (unit[0], 2.0 * unit[0], unit[1])]
    first = at.best([away, *plain])
    best = at.refined(first, 10)
    assert best.criterion < first.criterion - 10.0
    moved = next(t for t in best.products if len(t.sums))
    scale = at.place.features.states
    assert scale == 2 and (moved.sums.weights > 0).all() and not np.allclose(moved.sums.weights, [[1.5, 0.2]])


def test_sets_of_blocks_are_those_of_all_subsets():
    random = np.random.default_rng(3)
    x = random.standard_normal((40, 9, 2))
    x /= np.linalg.norm(x, axis=0)
    y = x[:, 2, 0] - 2.0 * x[:, 5, 1] + 0.5 * x[:, 7, 0] + 0.01 * random.standard_normal(40)
    charge = random.uniform(1.0, 2.0, 9)

    def value(subset):
        columns = x[:, list(subset)].reshape(40, -1)
        left = y - columns @ np.linalg.lstsq(columns, y, rcond=None)[0]
        return 40.0 * np.log(left @ left) + charge[list(subset)].sum()

    def misfit(left):
        return 40.0 * np.log(left)

    found = block_sets(x, y, charge, np.arange(9), misfit)
    every = [s for k in range(1, 5) for s in itertools.combinations(range(9), k)]
    assert tuple(sorted(found[0])) == min(every, key=value)
    cheap = [own for own in every if charge[list(own)].sum() < 3.2]
    found = {tuple(sorted(own)) for own in block_sets(x, y, charge, np.arange(9), misfit, 3.2)}
    assert min(cheap, key=value) in found and found <= {*cheap}
    assert not block_sets(x, y, charge, np.arange(9), misfit, 1.0)


def test_of_sets_of_one_kind_the_best_is_kept():
    random = np.random.default_rng(3)
    x = random.standard_normal((40, 4, 1))
    kinds = np.array([0, 0, 1, 1])
    x /= np.linalg.norm(x, axis=0)
    found = block_sets(x, x[:, 1, 0] + x[:, 2, 0], np.full(4, 1e-3), kinds, lambda left: np.log(left))
    assert sorted(found[0]) == [1, 2]
    assert sum(sorted(kinds[list(s)].tolist()) == [0, 1] for s in found if len(s) == 2) == 1


def test_what_several_equations_have_is_paid_for_once(prey):
    *_, at, terms = prey
    shared = next(t for t in terms if len(t.sums))
    lists = [
        [(1.0, [shared])],
        [(2.0, [Product(shared.row, Sums(2.0 * shared.sums.weights, shared.sums.exponents), shared.power)])],
    ]
    assert together(at, lists) == [[shared]]


def test_laws_of_the_same_kinds_are_one():
    one, other = Product(np.array([1.5])), Product(np.array([1.6]))
    a = np.ones((1, 1))
    laws = distinct([Choice((other,), a, 2.0), Choice((one,), a, 1.0), Choice((Product(np.array([2.0])),), a, 3.0)])
    assert [c.criterion for c in laws] == [1.0, 3.0]


def test_changes_are_by_one_factor_or_one_product_in_a_sum(prey):
    *_, at, _ = prey
    unit = np.eye(at.place.features.size)
    product = Product(unit[0], Sums(np.ones((1, 1)), unit[[0]]), -np.ones(1))
    kinds = {t.kind for t in changes_of([product], at.place.seen)}
    wider = Product(unit[0], Sums(np.ones((1, 2)), unit[:2]), -np.ones(1))
    two = Product(unit[0] + unit[1], Sums(np.eye(2), unit[:2]), -np.ones(2))
    assert (
        wider.kind in kinds
        and two.kind in kinds
        and Product(unit[0] + unit[1], product.sums, product.power).kind in kinds
    )


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_vocabularies_are_finite_and_without_repetitions(prey, family):
    _, _, p, fitted, *_ = prey
    at, _ = regression(p, fitted, family)
    for vocabulary in family.vocabularies:
        terms = [Product.of(shape, at.place.features.size) for shape in vocabulary(at.place.seen)]
        assert len(unique(terms)) == len(terms)
        assert all(np.isfinite(t.values(at.place.path)).all() for t in terms)


def some_products():
    unit = np.eye(3)
    inside = Sums(np.array([[0.7, 0.0], [0.0, 0.4]]), np.array([[1.0, 0.0, 0.0], [0.0, 1.5, 0.0]]))
    return [
        Product(unit[0] + 2.0 * unit[1]),
        Product(0.5 * unit[0] - 1.3 * unit[2]),
        Product(unit[0], inside, np.array([-1.0, -2.0])),
        Product(0.4 * unit[1], Sums(np.array([[0.7, 0.4]]), inside.exponents), np.array([-0.5])),
    ]


RATE = np.array([False, False, True])


def fitted_exponents(rows):
    return (rows != 0) & (RATE | (rows != np.round(rows)))


@pytest.mark.parametrize("product", some_products())
def test_slopes_are_what_small_steps_do(product):
    path = Path.of(np.random.default_rng(0).uniform(0.5, 2.0, (7, 3)), np.zeros(3, dtype=bool), np.full(3, 1e-9))
    slopes = product.slopes(path, fitted_exponents)
    for k, slope in enumerate(slopes):
        steps = np.zeros(len(slopes))
        steps[k] = 1e-6
        other = product.moved(steps.tolist(), fitted_exponents, RATE)
        np.testing.assert_allclose((other.values(path) - product.values(path)) / 1e-6, slope, rtol=1e-4, atol=1e-6)
    same = product.moved([0.0] * len(slopes), fitted_exponents, RATE)
    assert same.key == product.key


def test_no_constant_moves_far_in_one_step():
    power, _, over, _ = some_products()
    moved = over.moved([50.0, -50.0, 50.0], fitted_exponents, RATE)
    np.testing.assert_allclose(moved.sums.weights, [[2.1, 0.0], [0.0, 0.12]])
    np.testing.assert_allclose(moved.sums.exponents[1, 1], 2.4)
    assert power.moved([], fitted_exponents, RATE).key == power.key


def test_kinds_ignore_the_values_of_constants_alone():
    unit = np.eye(2)
    one, other = (Product(unit[0], Sums(np.array([[b]]), unit[[0]]), -np.ones(1)) for b in (0.3, 3.0))
    assert one.kind == other.kind and one.key != other.key
    assert Product(-0.0 * unit[0]).key == Product(0.0 * unit[0]).key


def test_simpler_products_lack_a_sum_or_a_function():
    *_, over, _ = some_products()
    kinds = {t.kind for t in over.simpler(2)}
    assert Product(over.row, over.sums.select(np.array([1])), np.array([-2.0])).kind in kinds
    assert Product(np.zeros(3), over.sums.select(np.array([1])), np.array([-2.0])).kind in kinds
    assert Product(np.array([1.0, 0.0, 0.0])).kind in {t.kind for t in Product(np.array([1.0, 0.0, 2.0])).simpler(2)}
    wide = Product(np.zeros(3), Sums(np.array([[2.0, 0.5]]), np.eye(3)[:2]), -np.ones(1))
    narrow = Product(np.zeros(3), Sums(np.array([[2.0]]), np.eye(3)[:1]), -np.ones(1))
    assert narrow.key in {t.key for t in wide.simpler(2)}


def test_products_of_a_law_are_its_monomials():
    shape = Shape(np.array([1.0, 0.0]), np.eye(2)[[1]], np.array([[0.5]]), -np.ones(1))
    product = Product.of(shape, 3)
    assert product.row.tolist() == [1.0, 0.0, 0.0] and product.sums.exponents.tolist() == [[0.0, 1.0, 0.0]]
    (plain, over) = products_of(np.array([[0.0, 1.0, 0.0, 0.0], [1.0, 0.0, 0.0, -1.0]]), product.sums)
    assert over.key == product.key and plain.key == Product(np.array([0.0, 1.0, 0.0])).key


@pytest.mark.parametrize(
    ("law", "start", "span"),
    [({"x": "0.2*z", "z": "-0.2*x", "y": "100 + 50*x - 50*y"}, [1.0, 0.0, 3.0], 100.0), ({"h": "-h**0.5"}, [1.0], 3.0)],
)
def test_a_law_too_stiff_for_its_samples_or_that_reaches_zero_has_no_proposals(law, start, span):
    truth, t = Equations.parse(list(law), law), np.linspace(0.0, span, 101)
    x = truth.simulate(start, t)
    values = x + 0.01 * np.random.default_rng(0).standard_normal(x.shape)
    p = prepare(TimeSeries.from_arrays([t], [values], list(law)))
    scaled = truth.power_sum.rescaled(p.scale.state, p.scale.time)
    for family in (POWERS, SUMS):
        found = terms_along(p, scaled, np.array([start]) / p.scale.state, p.sigma, family, Monitor())
        assert all(np.isfinite(part).all() for one in found for part in one.constants)


def test_of_many_blocks_the_likeliest_are_compared(monkeypatch):
    monkeypatch.setattr(sets_of_blocks, "MOST_BLOCKS", 5)
    random = np.random.default_rng(0)
    x = random.standard_normal((40, 20, 1))
    x /= np.linalg.norm(x, axis=0)
    found = block_sets(x, x[:, 17, 0], np.full(20, 0.1), np.arange(20), lambda left: np.log(left + 1e-9))
    assert found[0] == (17,)


def test_real_powers_of_coarse_samples_are_found_to_be_exact():
    law, series = sampled(
        {"S": "0.01*R - 0.06*S**0.5*I**0.5", "I": "0.06*S**0.5*I**0.5 - 0.05*I", "R": "0.05*I - 0.01*R"},
        [[100.0, 0.01, 0.0]],
        200.0,
        samples=40,
    )
    p = prepare(series)
    assert not p.clean
    found = detect_noiseless(p, Monitor()).exact
    assert found is not None and same_terms(found.unscaled(p.scale.state, p.scale.time), law.power_sum, 1e-4)
