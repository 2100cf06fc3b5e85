"""The scikit-learn estimator: forms of data, times of frames, scores, pickles, grid search, scikit-learn's tests."""

import dataclasses
import inspect
import io
import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.utils.estimator_checks import parametrize_with_checks

from odediscovery import Equations, InputError, ODEDiscovery, Settings, TimeSeries, discover, settings_for
from odediscovery.estimator.estimator import LOWEST_SCORE

# Logistic growth x' = r x - x^2 / 10 and decay y' = -d y, solved exactly.
RATE, DECAY = 0.8, 0.3
TIME = np.linspace(0.0, 8.0, 33)


def grown(x0, y0=2.0, time=TIME):
    full = 10 * RATE
    x = full / (1 + (full / x0 - 1) * np.exp(-RATE * time))
    return np.stack([x, y0 * np.exp(-DECAY * time)], axis=1)


def rates(x):
    return np.stack([RATE * x[:, 0] - 0.1 * x[:, 0] ** 2, -DECAY * x[:, 1]], axis=1)


def frame(x0, y0=2.0):
    x = grown(x0, y0)
    return pd.DataFrame({"prey": x[:, 0], "t": TIME, "dose": x[:, 1]})


X = grown(0.5)


def quick(**options):
    return ODEDiscovery(**{"members": 0, **options})


@pytest.fixture(scope="module")
def model():
    return quick(states=["prey", "dose"]).fit([grown(0.5), grown(3.0, 5.0)], t=[TIME, TIME])


def test_parameters_are_the_settings():
    parameters = dict(inspect.signature(ODEDiscovery).parameters)
    assert parameters.pop("states").default is None
    assert {p.kind for p in parameters.values()} == {inspect.Parameter.KEYWORD_ONLY}
    # It knows as many states as X has columns, so none are hidden, and scikit-learn keeps back.
    options = {n: value for n, value in Settings().as_dict().items() if n not in ("hidden_states", "holdout")}
    assert {n: p.default for n, p in parameters.items()} == options
    given = {name: object() for name in options}
    assert ODEDiscovery(**given).get_params() == {"states": None, **given}


def test_settings_of_a_fit_are_those_of_the_recipe():
    options = {"members": np.int64(1), "hidden": 2, "adam_steps": np.int64(2), "lbfgs_steps": 0}
    found = quick(recipe="as-run", **options).fit(grown(0.5)).discovery_
    assert found.settings == settings_for("as-run", members=1, hidden=2, adam_steps=2, lbfgs_steps=0)
    assert not found.settings.grow


def test_fit_finds_what_discover_finds(model):
    series = TimeSeries.from_arrays([TIME, TIME], [grown(0.5), grown(3.0, 5.0)], ["prey", "dose"])
    found = discover(series, settings_for(members=0))
    assert model.discovery_.equations_text() == found.equations_text()
    assert model.equations() == found.equations_text().splitlines()
    assert model.latex() == found.latex()
    assert model.equations_ is model.discovery_.equations
    assert model.n_features_in_ == 2
    assert model.feature_names_in_.tolist() == ["prey", "dose"]
    assert model.interval_ is None
    x = np.array([[1.0, 2.0], [5.0, 0.1]])
    np.testing.assert_allclose(model.predict(x), rates(x), rtol=1e-6)
    at = np.array([1.0, 1.5, 4.0])
    np.testing.assert_allclose(model.simulate([0.5, 2.0], at), grown(0.5, 2.0, at - 1), rtol=1e-6)


@pytest.mark.parametrize(
    ("x", "t", "interval"),
    [
        (grown(0.5), 0.25, 0.25),
        ([grown(0.5), grown(3.0)], [0.25, TIME], None),
        (frame(0.5), None, None),
        (frame(0.5).convert_dtypes(), None, None),
    ],
)
def test_times_come_with_the_data_or_beside_them(x, t, interval):
    model = quick().fit(x, t=t)
    assert model.feature_names_in_.tolist() == (["prey", "dose"] if hasattr(x, "columns") else ["x0", "x1"])
    assert model.interval_ == interval and model.discovery_.series.time_name == "t"
    # Along one trajectory other laws are as right, so rates are compared there.
    np.testing.assert_allclose(model.predict(grown(0.5)), rates(grown(0.5)), rtol=1e-5)
    assert model.score(x, t=t) > 1 - 1e-6
    if interval is not None:
        assert model.score(x) > 1 - 1e-6


def test_missing_values_of_any_kind_are_gaps(model):
    holes = frame(1.0).convert_dtypes()
    holes.loc[[3, 7], "prey"] = pd.NA
    assert model.score(holes) > 1 - 1e-8
    assert np.isnan(model.predict(holes)[:, 0]).nonzero()[0].tolist() == [3, 7]
    found = quick(states=["prey"]).fit(holes).discovery_
    assert np.isnan(found.series.trajectories[0].values[:, 0]).nonzero()[0].tolist() == [3, 7]
    assert found.r2 > 1 - 1e-6


def test_columns_are_taken_by_name(model):
    shuffled = frame(1.0)[["dose", "t", "prey"]]
    np.testing.assert_allclose(model.predict(shuffled), rates(grown(1.0)), rtol=1e-6)
    assert model.score(shuffled) > 1 - 1e-8
    only = quick(states=["dose"]).fit(frame(0.5))
    assert only.feature_names_in_.tolist() == ["dose"]
    assert only.discovery_.series.time_name == "t"
    np.testing.assert_allclose(only.predict([[2.0]]), [[-2 * DECAY]], rtol=1e-6)
    with pytest.raises(InputError, match="unknown column 'prey'"):
        model.predict(frame(1.0)[["dose"]])


def test_score_is_r2_of_the_simulation(model):
    wrong = grown(1.0) + np.where(TIME > 4, 0.5, 0.0)[:, None]
    left = (grown(1.0) - wrong) ** 2
    expected = 1 - left.sum() / ((wrong - wrong.mean(axis=0)) ** 2).sum()
    assert model.score(wrong, t=TIME) == pytest.approx(expected, abs=1e-6)
    assert expected < 0.99
    # Missing values do not count, and a trajectory starts where all states are known.
    gaps = wrong.copy()
    gaps[0, 0] = gaps[5, 1] = np.nan
    seen = np.isfinite(gaps[1:])
    spread = (gaps[1:] - np.nanmean(gaps[1:], axis=0)) ** 2
    expected = 1 - left[1:][seen].sum() / spread[seen].sum()
    assert model.score(gaps, t=TIME) == pytest.approx(expected, abs=1e-6)


def test_the_score_has_a_lowest_value():
    decay = np.exp(-0.1 * np.arange(20.0))[:, None]
    model = quick().fit(decay)
    # A pole, and a solution that leaves the range of floats.
    for text in ("x0**2", "50*x0"):
        model.equations_ = Equations.parse(["x0"], {"x0": text})
        model.discovery_ = dataclasses.replace(model.discovery_, equations=model.equations_)
        assert model.score(decay) == LOWEST_SCORE == -1e6


@pytest.mark.parametrize("library", [pickle, joblib])
def test_pickles_give_the_same_predictions(model, library):
    copy = model
    for _ in range(2):
        buffer = io.BytesIO()
        library.dump(copy, buffer)
        buffer.seek(0)
        copy = library.load(buffer)
    np.testing.assert_array_equal(copy.predict(grown(1.0)), model.predict(grown(1.0)))
    assert copy.score(grown(1.0), t=TIME) == model.score(grown(1.0), t=TIME)
    assert copy.get_params() == model.get_params()
    assert copy.discovery_.as_dict() == model.discovery_.as_dict()
    assert copy.equations() == model.equations()
    assert (copy.interval_, copy.n_features_in_) == (model.interval_, model.n_features_in_)


def test_a_pickle_holds_files_and_no_objects_of_ours(model):
    state = model.__getstate__()
    assert "equations_" not in state
    assert {"result.json", "model.npz", "data.csv"} <= set(state["discovery_"])
    assert {type(content) for content in state["discovery_"].values()} == {bytes}
    named = pickle.dumps(model)
    assert b"odediscovery.estimator" in named
    for inner in (b"odediscovery.result", b"odediscovery.laws.equations", b"odediscovery.laws.power_sum"):
        assert inner not in named
    assert isinstance(model.equations_, Equations)  # pickling left the model as it was
    unfitted = pickle.loads(pickle.dumps(quick(states=["a"])))
    assert unfitted.get_params() == quick(states=["a"]).get_params()


def test_a_clone_is_not_fitted(model):
    fresh = clone(model)
    assert fresh.get_params() == model.get_params()
    for name, arguments in {"predict": [X], "simulate": [X[0], TIME], "score": [X]}.items():
        with pytest.raises(NotFittedError):
            getattr(fresh, name)(*arguments)
    for name in ("equations", "print", "latex"):
        with pytest.raises(NotFittedError):
            getattr(fresh, name)()


def test_grid_search_over_trajectories():
    runs = [frame(0.5), frame(1.0, 4.0), frame(3.0, 1.0)]
    # One hidden unit, hardly trained, against laws grown on the integral form.
    poor = {"recipe": ["as-run"], "members": [1], "hidden": [1], "adam_steps": [1], "lbfgs_steps": [0]}
    search = GridSearchCV(quick(), [poor, {"recipe": ["default"]}], cv=KFold(3), error_score="raise")
    search.fit(runs)
    assert search.best_params_ == {"recipe": "default"}
    assert search.best_score_ > 1 - 1e-6
    worse = search.cv_results_["mean_test_score"][0]
    assert LOWEST_SCORE <= worse < 0.9
    np.testing.assert_allclose(search.predict(grown(1.0)), rates(grown(1.0)), rtol=1e-5)


@pytest.mark.parametrize(
    ("options", "x", "t", "message"),
    [
        ({"members": -1}, X, None, r"^members must be at least 0, got -1"),
        ({"members": 0, "recipe": "paper", "grow": False}, X, None, "needs grow and recipe"),
        ({"vary": "all", "tries": ["x' = -k*x"]}, X, None, "^tries is not yet possible beside vary"),
        ({"states": 2}, X, None, "states: expected a list of names, got 2"),
        ({"states": ["a"]}, frame(0.5), None, "unknown column 'a'"),
        ({}, X[:, 0], None, r"\[samples, states\], got shape \(33,\)"),
        ({}, X + np.inf, None, "got infinity"),
        ({}, X.astype(str), None, "expected an array of real numbers, got text"),
        ({}, [X, X[:, :1]], None, "same number of states"),
        ({}, X, [0, 1, 2], r"t: expected 33 times, one a sample, got shape \(3,\)"),
        ({}, X, -0.1, "t: expected a positive sample interval, got -0.1"),
        ({}, [X, X], [TIME], "one entry for each of 2 trajectories, got 1"),
        ({}, frame(0.5), TIME, "expected times once, got t and column 't'"),
        ({}, pd.DataFrame(X), None, "different names that are text"),
        ({}, frame(0.5).assign(word="x"), None, "column 'word': expected an array of real numbers"),
    ],
)
def test_mistakes_are_told_in_one_line(options, x, t, message):
    with pytest.raises(InputError, match=message) as caught:
        quick(**options).fit(x, t=t)
    assert isinstance(caught.value, ValueError)
    assert "\n" not in str(caught.value)


def test_mistakes_after_the_fit(model):
    calls = [
        (lambda: model.predict(X[:, :1]), "X has 1 features, but ODEDiscovery is expecting 2"),
        (lambda: model.score(X[:, :1], t=TIME), "X has 1 features"),
        (lambda: model.score(X), "t: expected the times of X"),
        (lambda: model.score(X * np.nan, t=TIME), "a sample with all states"),
        (lambda: model.score(X[:1], t=1.0), "at least 2 samples"),
        (lambda: model.simulate([1.0], TIME), "u0: expected 2 finite numbers"),
        (lambda: model.simulate([1.0, np.nan], TIME), "u0: expected 2 finite numbers"),
        (lambda: model.simulate([1.0, 1.0], -TIME), "increase"),
        (lambda: model.simulate([1.0, 1.0], 3.0), "list of finite numbers"),
    ]
    for call, message in calls:
        with pytest.raises(InputError, match=message) as caught:
            call()
        assert "\n" not in str(caught.value)


@pytest.mark.long
@parametrize_with_checks(
    # Textbook laws alone: a second a fit, and no limit of time, which two fits of one table reach at different places.
    [ODEDiscovery(members=0, library=["textbook"])]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# x' = -0.4 x per hour, sampled every half hour.
PER_HOUR, STEP, COUNT = 0.4, 0.5, 24
HOURS = STEP * np.arange(COUNT)
VALUES = {"mass": 3.0 * np.exp(-PER_HOUR * HOURS)}
HALF_HOURS = pd.date_range("2020-03-01", periods=COUNT, freq="30min")


def fitted(x, **options):
    return ODEDiscovery(members=0).fit(x, **options)


def rate(model):
    return float(-model.predict(pd.DataFrame({"mass": [1.0]}))[0, 0])


@pytest.mark.parametrize(
    ("index", "expected", "unit", "name"),
    [
        (pd.Index(HOURS, name="t"), PER_HOUR, None, "t"),
        (HALF_HOURS, PER_HOUR / 60, "minutes", "time"),
        (pd.to_timedelta(HOURS, "h"), PER_HOUR / 60, "minutes", "time"),
        (pd.RangeIndex(COUNT), PER_HOUR * STEP, None, "t"),
    ],
)
def test_every_kind_of_index_gives_the_right_rate(index, expected, unit, name):
    frame = pd.DataFrame(VALUES, index)
    model = fitted(frame)
    assert rate(model) == pytest.approx(expected, rel=1e-6)
    assert model.time_unit_ == unit and model.discovery_.series.time_name == name
    assert model.discovery_.series.units == ({name: unit} if unit else {})
    assert any("counted in minutes" in text for text in model.discovery_.messages) is (unit is not None)
    assert model.score(frame) > 1 - 1e-9
    assert model.feature_names_in_.tolist() == ["mass"]


@pytest.mark.parametrize("index", [HOURS, [f"s{k}" for k in range(COUNT)]])
def test_an_index_that_says_nothing_is_refused(index):
    frame = pd.DataFrame(VALUES, index)
    for call in (lambda: fitted(frame), lambda: fitted([frame, frame])):
        with pytest.raises(InputError, match=r"rename_axis\('t'\).*reset_index\(drop=True\)") as caught:
            call()
        assert "\n" not in str(caught.value)
    assert rate(fitted(frame, t=HOURS)) == pytest.approx(PER_HOUR, rel=1e-6)
    assert rate(fitted(frame.reset_index(drop=True), t=STEP)) == pytest.approx(PER_HOUR, rel=1e-6)


def test_times_are_said_once():
    frame = pd.DataFrame(VALUES, HALF_HOURS)
    with pytest.raises(InputError, match=r"expected times once, got the interval t=0\.5 and the index 'time'"):
        fitted(frame, t=STEP)
    assert rate(fitted(frame.assign(t=HOURS))) == pytest.approx(PER_HOUR, rel=1e-6)
    with pytest.raises(InputError, match="2 levels: give a list of frames"):
        fitted(pd.DataFrame(VALUES, pd.MultiIndex.from_product([["a"], HOURS], names=["run", "t"])))


def test_dates_as_a_column_and_beside_the_data():
    assert rate(fitted(pd.DataFrame({"t": HALF_HOURS, **VALUES}))) == pytest.approx(PER_HOUR / 60, rel=1e-6)
    assert rate(fitted(pd.DataFrame(VALUES), t=HALF_HOURS)) == pytest.approx(PER_HOUR / 60, rel=1e-6)
    both = [pd.DataFrame(VALUES, HALF_HOURS), pd.DataFrame(VALUES, HALF_HOURS + pd.Timedelta("1h"))]
    assert rate(fitted(both)) == pytest.approx(PER_HOUR / 60, rel=1e-6)


def test_a_score_and_a_simulation_count_as_the_fit_did():
    model = fitted(pd.DataFrame(VALUES, HALF_HOURS))
    hourly = pd.DataFrame({"mass": VALUES["mass"][::2]}, HALF_HOURS[::2])
    assert model.score(hourly) > 1 - 1e-9
    later = pickle.loads(pickle.dumps(model)).simulate([3.0], HALF_HOURS[[0, 4]])
    np.testing.assert_allclose(later[:, 0], [3.0, 3.0 * np.exp(-2 * PER_HOUR)], rtol=1e-6)
    with pytest.raises(InputError, match="t: expected the times of X"):
        model.score(VALUES["mass"][:, None])
    plain = fitted(pd.DataFrame(VALUES, pd.Index(HOURS, name="t")))
    with pytest.raises(InputError, match="expected times that are numbers, as the fit had"):
        plain.score(hourly)
    with pytest.raises(InputError, match="t: expected numbers, as the fit had"):
        plain.simulate([3.0], HALF_HOURS)


def test_rows_without_times_are_counted_and_that_is_told():
    rows = np.exp(-0.1 * np.arange(30.0))
    for block in (rows[:, None], pd.DataFrame({"x": rows})):
        assert any("No times were given" in text for text in fitted(block).discovery_.messages)
    assert not any("No times" in text for text in fitted(rows[:, None], t=0.5).discovery_.messages)
