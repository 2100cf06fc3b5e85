"""A single closed orbit is named: other equations may be as exact on it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from odediscovery import TimeSeries
from odediscovery.judge.extrapolation import closed_orbit
from odediscovery.laws.equations import Equations


def oscillator(damping: float, starts: list[float], until: float, noise: float = 0.0) -> TimeSeries:
    """x'' = -4 x - damping x', of period pi without damping."""
    t = np.linspace(0.0, until, max(80, int(8 * until)))
    runs = [
        solve_ivp(lambda _, y: [y[1], -4 * y[0] - damping * y[1]], (0, until), [x, 0], t_eval=t, rtol=1e-11, atol=1e-12)
        for x in starts
    ]
    random = np.random.default_rng(0)
    values = [run.y.T + noise * random.standard_normal(run.y.T.shape) for run in runs]
    return TimeSeries.from_arrays([t] * len(values), values, ["x", "v"])


def notes_on(series: TimeSeries, damping: float, starts: list[float]) -> list[str]:
    law = Equations.parse(["x", "v"], {"x": "v", "v": f"-4*x - {damping}*v"})
    return [str(note) for note in closed_orbit(law, series, np.array([[x, 0.0] for x in starts]))]


def test_a_closed_orbit_is_told_with_its_period() -> None:
    (note,) = notes_on(oscillator(0.0, [1.0], 5.0, noise=0.1), 0.0, [1.0])
    assert "closed orbit, gone round in 3.14:" in note


@pytest.mark.parametrize(
    ("damping", "starts", "until"),
    [
        pytest.param(0.2, [1.0], 12.0, id="a spiral does not come back"),
        pytest.param(0.0, [1.0, 0.5], 5.0, id="two orbits tell"),
    ],
)
def test_others_are_not(damping: float, starts: list[float], until: float) -> None:
    assert notes_on(oscillator(damping, starts, until), damping, starts) == []


def test_a_slow_spiral_is_no_orbit() -> None:
    assert notes_on(oscillator(0.001, [1.0], 40.0), 0.001, [1.0]) == []
