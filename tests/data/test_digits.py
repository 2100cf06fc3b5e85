"""Digits of a table: how many there are, and how far they are off."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from odediscovery import TimeSeries, simulate_system
from odediscovery.data.recorded.digits import resolution, significant_digits
from odediscovery.problem.prepare import prepare


def written(series: TimeSeries, digits: int) -> TimeSeries:
    """The series as somebody wrote it down, with so many significant digits."""

    def shortened(values: np.ndarray) -> np.ndarray:
        return np.array([[float(f"{x:.{digits}g}") for x in row] for row in values])

    runs = tuple(dataclasses.replace(t, values=shortened(t.values)) for t in series.trajectories)
    return dataclasses.replace(series, trajectories=runs)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([3.25, 4.1], 0.01),
        ([1200.0, 500.0], 100.0),
        ([1.0, 2.0, 10.0], 1.0),
        ([0.001, 2.0], 0.001),
        ([np.nan, 0.5], 0.1),
        ([0.0, 0.0], 1e6),
        ([np.pi, np.e], 0.0),
    ],
)
def test_the_last_digit_written(values: list[float], expected: float) -> None:
    found = resolution(np.array(values))
    assert found == pytest.approx(expected, rel=1e-12) if expected else found < 1e-13


@pytest.mark.parametrize("digits", [2, 4, 8])
def test_significant_digits_are_counted(digits: int) -> None:
    values = written(simulate_system("fsir"), digits).trajectories[0].values
    assert [significant_digits(column) for column in values.T] == [digits] * 3
    assert significant_digits(simulate_system("fsir").trajectories[0].values[:, 0]) is None


def test_digits_explain_what_samples_are_off_and_say_how_far_each_one_is() -> None:
    p = prepare(written(simulate_system("fsir"), 4))
    exact = simulate_system("fsir").trajectories[0].values / p.scale.state
    off = (p.data.trajectories[0].values - exact) / (p.noise * p.relative_sigma[0])
    # Uniform within half a digit: never beyond the square root of three of its standard deviations.
    assert np.abs(off).max() < np.sqrt(3.0) * 1.001
    assert np.all(np.sqrt(np.mean(off**2, axis=0)) > 0.3)
    noise = p.relative_sigma[0][:, 0]
    assert noise[0] > 9.0 * noise[1]  # 100.0 beside 97.47
