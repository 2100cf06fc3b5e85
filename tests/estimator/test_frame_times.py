"""Times of frames that are handed to the estimator: right rates, or an error that says how."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest

from odediscovery import InputError, ODEDiscovery

# x' = -0.4 x per hour, sampled every half hour.
RATE, STEP, COUNT = 0.4, 0.5, 24
HOURS = STEP * np.arange(COUNT)
VALUES = {"mass": 3.0 * np.exp(-RATE * HOURS)}
HALF_HOURS = pd.date_range("2020-03-01", periods=COUNT, freq="30min")


pytestmark = pytest.mark.slow


def fitted(x: Any, **options: Any) -> ODEDiscovery:
    return ODEDiscovery(members=0).fit(x, **options)


def rate(model: ODEDiscovery) -> float:
    return float(-model.predict(pd.DataFrame({"mass": [1.0]}))[0, 0])


@pytest.mark.parametrize(
    ("index", "expected", "unit", "name"),
    [
        (pd.Index(HOURS, name="t"), RATE, None, "t"),
        (HALF_HOURS, RATE / 60, "minutes", "time"),
        (pd.to_timedelta(HOURS, "h"), RATE / 60, "minutes", "time"),
        (pd.RangeIndex(COUNT), RATE * STEP, None, "t"),
    ],
)
def test_every_kind_of_index_gives_the_right_rate(
    index: pd.Index, expected: float, unit: str | None, name: str
) -> None:
    frame = pd.DataFrame(VALUES, index)
    model = fitted(frame)
    assert rate(model) == pytest.approx(expected, rel=1e-6)
    assert model.time_unit_ == unit and model.discovery_.series.time_name == name
    assert model.discovery_.series.units == ({name: unit} if unit else {})
    assert any("counted in minutes" in text for text in model.discovery_.messages) is (unit is not None)
    assert model.score(frame) > 1 - 1e-9
    assert model.feature_names_in_.tolist() == ["mass"]


@pytest.mark.parametrize("index", [HOURS, [f"s{k}" for k in range(COUNT)]])
def test_an_index_that_says_nothing_is_refused(index: Any) -> None:
    frame = pd.DataFrame(VALUES, index)
    for call in (lambda: fitted(frame), lambda: fitted([frame, frame])):
        with pytest.raises(InputError, match=r"rename_axis\('t'\).*reset_index\(drop=True\)") as caught:
            call()
        assert "\n" not in str(caught.value)
    assert rate(fitted(frame, t=HOURS)) == pytest.approx(RATE, rel=1e-6)
    assert rate(fitted(frame.reset_index(drop=True), t=STEP)) == pytest.approx(RATE, rel=1e-6)


def test_times_are_said_once() -> None:
    frame = pd.DataFrame(VALUES, HALF_HOURS)
    with pytest.raises(InputError, match=r"expected times once, got the interval t=0\.5 and the index 'time'"):
        fitted(frame, t=STEP)
    with pytest.raises(InputError, match="expected times once, got t and column 't'"):
        fitted(frame.assign(t=HOURS), t=HOURS)
    assert rate(fitted(frame.assign(t=HOURS))) == pytest.approx(RATE, rel=1e-6)
    with pytest.raises(InputError, match="2 levels: give a list of frames"):
        fitted(pd.DataFrame(VALUES, pd.MultiIndex.from_product([["a"], HOURS], names=["run", "t"])))


def test_dates_as_a_column_and_beside_the_data() -> None:
    assert rate(fitted(pd.DataFrame({"t": HALF_HOURS, **VALUES}))) == pytest.approx(RATE / 60, rel=1e-6)
    assert rate(fitted(pd.DataFrame(VALUES), t=HALF_HOURS)) == pytest.approx(RATE / 60, rel=1e-6)
    both = [pd.DataFrame(VALUES, HALF_HOURS), pd.DataFrame(VALUES, HALF_HOURS + pd.Timedelta("1h"))]
    assert rate(fitted(both)) == pytest.approx(RATE / 60, rel=1e-6)


def test_a_score_and_a_simulation_count_as_the_fit_did() -> None:
    model = fitted(pd.DataFrame(VALUES, HALF_HOURS))
    hourly = pd.DataFrame({"mass": VALUES["mass"][::2]}, HALF_HOURS[::2])
    assert model.score(hourly) > 1 - 1e-9
    later = pickle.loads(pickle.dumps(model)).simulate([3.0], HALF_HOURS[[0, 4]])
    np.testing.assert_allclose(later[:, 0], [3.0, 3.0 * np.exp(-2 * RATE)], rtol=1e-6)
    with pytest.raises(InputError, match="t: expected the times of X"):
        model.score(VALUES["mass"][:, None])
    plain = fitted(pd.DataFrame(VALUES, pd.Index(HOURS, name="t")))
    with pytest.raises(InputError, match="expected times that are numbers, as the fit had"):
        plain.score(hourly)
    with pytest.raises(InputError, match="t: expected numbers, as the fit had"):
        plain.simulate([3.0], HALF_HOURS)


def test_rows_without_times_are_counted_and_that_is_told() -> None:
    rows = np.exp(-0.1 * np.arange(30.0))
    for block in (rows[:, None], pd.DataFrame({"x": rows})):
        assert any("No times were given" in text for text in fitted(block).discovery_.messages)
    assert not any("No times" in text for text in fitted(rows[:, None], t=0.5).discovery_.messages)
