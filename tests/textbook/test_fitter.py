"""Forms fitted to whole trajectories against closed forms."""

from __future__ import annotations

import numpy as np
import pytest

from odediscovery.data.series import TimeSeries
from odediscovery.laws.equations import read_form
from odediscovery.problem.problem import prepare
from odediscovery.textbook.fit import Fitter

FORM = read_form("x' = -k*x", ["x"])
TIME = np.linspace(0.0, 4.0, 33)


def decay() -> Fitter:
    """Two trajectories in small units, x = 20 exp(-0.7 t) and 30 exp(-0.7 t)."""
    runs = [start * np.exp(-0.7 * TIME)[:, None] for start in (20.0, 30.0)]
    return Fitter.of(prepare(TimeSeries.from_arrays([TIME, TIME], runs, ["x"])))


def test_a_fit_finds_constants_and_starts_in_the_users_units() -> None:
    fitted = decay().fit(FORM, np.array([0.2]))
    assert fitted is not None
    np.testing.assert_allclose(fitted.constants, [0.7], rtol=1e-6)
    np.testing.assert_allclose(fitted.starts, [[20.0], [30.0]], rtol=1e-6)
    assert fitted.counts.tolist() == [66.0]
    assert fitted.squares[0] < 1e-8


def test_starts_alone_follow_the_data_best() -> None:
    fitter = decay()
    found = fitter.polished(FORM, np.array([0.7]), fitter.begun * [[0.1], [3.0]], fitter.spread, 15, starts_alone=True)
    np.testing.assert_allclose(found.initial * fitter.scale.state, [[20.0], [30.0]], rtol=1e-5)
    assert found.law.values.tolist() == [0.7]


def test_what_is_taken_stays_as_it_is() -> None:
    fitter = decay()
    taken = fitter.taken(FORM, np.array([0.5]), fitter.begun, "decay")
    assert taken is not None
    expected = sum(np.sum((start * (np.exp(-0.5 * TIME) - np.exp(-0.7 * TIME))) ** 2) for start in (20.0, 30.0))
    assert taken.squares[0] == pytest.approx(expected, rel=1e-4)


def test_a_constant_changes_where_a_step_is() -> None:
    rates = np.where(TIME < 2.0, 0.3, 1.1)
    x = 5.0 * np.exp(-np.concatenate([[0.0], np.cumsum(rates[:-1] * np.diff(TIME))]))
    fitter = Fitter.of(prepare(TimeSeries.from_arrays(TIME, x, ["x"]))).with_steps({"later": 2.0})
    form = read_form("x' = -(before*(1 - later) + after*later)*x", ["x"], controls=["later"])
    fitted = fitter.fit(form, np.array([0.5, 0.5]))
    assert fitted is not None
    values = dict(zip(form.names, fitted.constants, strict=True))
    assert values == pytest.approx({"before": 0.3, "after": 1.1}, rel=1e-4)
