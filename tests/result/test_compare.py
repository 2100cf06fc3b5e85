"""Results side by side: the criterion by hand, and what is counted as fitted."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from odediscovery import Discovery, Equations, InputError, TimeSeries, fit_constants
from odediscovery.result.compare import compare, criterion

T = np.linspace(0.0, 8.0, 30)
NOISY = 5.0 * np.exp(-0.4 * T) + 0.05 * np.random.default_rng(2).standard_normal(len(T))


@pytest.fixture(scope="module")
def decay() -> Discovery:
    return fit_constants(TimeSeries.from_arrays(T, NOISY, ["x"]), "x' = -k*x")


@pytest.fixture(scope="module")
def richer(decay: Discovery) -> Discovery:
    return fit_constants(decay.series, "x' = -k*x + c*x^2")


def test_the_criterion_is_that_of_schwarz(decay: Discovery) -> None:
    value, count = criterion(decay)
    curve = decay.simulate()[:, 0]
    assert count == 2  # the rate and the start
    assert value == pytest.approx(30 * np.log(np.mean((NOISY - curve) ** 2)) + 2 * np.log(30), abs=1e-6)


def test_weights_are_those_of_the_differences(decay: Discovery, richer: Discovery) -> None:
    table = compare(decay, richer, names=["decay", "richer"]).table.set_index("law")
    gap = abs(criterion(richer)[0] - criterion(decay)[0])
    assert table["difference"].min() == 0.0 and table["difference"].max() == pytest.approx(gap)
    assert table["weight"].sum() == pytest.approx(1.0)
    assert table["weight"].max() / table["weight"].min() == pytest.approx(np.exp(gap / 2.0))
    assert list(table.index) == sorted(table.index, key=lambda name: float(table.loc[name, "difference"]))


def test_a_curve_that_has_ended_explains_nothing(decay: Discovery) -> None:
    lost = dataclasses.replace(decay, equations=Equations.parse(["x"], {"x": "5.0*x**2"}))
    assert criterion(lost)[0] == np.inf


def test_only_results_of_the_same_samples_are_compared(decay: Discovery) -> None:
    other = fit_constants(TimeSeries.from_arrays(T, NOISY + 1e-3, ["x"]), "x' = -k*x")
    with pytest.raises(InputError, match="other data"):
        compare(decay, other)
    with pytest.raises(InputError, match="at least two"):
        compare(decay)
    with pytest.raises(InputError, match="expected 2 names"):
        compare(decay, decay, names=["one"])
