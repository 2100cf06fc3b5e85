"""Acceptance: textbook systems as people measure them, few samples or many, in other units, irregular, with gaps."""

from __future__ import annotations

import numpy as np
import pytest

from odediscovery import Equations, TimeSeries, discover
from odediscovery.runtime.arrays import Array

pytestmark = pytest.mark.accept

# Right-hand sides, ranges of the first values, and the last time.
SYSTEMS: dict[str, tuple[dict[str, str], list[tuple[float, float]], float]] = {
    "decay": ({"x": "-0.5*x"}, [(2, 6)], 8.0),
    "cooling": ({"T": "-0.3*(T - 20)"}, [(60, 90)], 12.0),
    "logistic": ({"N": "0.8*N - 0.01*N**2"}, [(2, 8)], 12.0),
    "predation": ({"x": "1.1*x - 0.4*x*y", "y": "0.1*x*y - 0.4*y"}, [(5, 12), (2, 5)], 30.0),
    "epidemic": ({"S": "-0.002*S*I", "I": "0.002*S*I - 0.5*I", "R": "0.5*I"}, [(600, 900), (1, 5), (0, 0)], 25.0),
    "oscillator": ({"x": "v", "v": "-4*x - 0.3*v"}, [(1, 2), (-1, 1)], 12.0),
    "van der Pol": ({"x": "v", "v": "v - x - v*x**2"}, [(0.5, 2), (-1, 1)], 20.0),
    "enzyme": ({"S": "-2*S/(1.5 + S)", "P": "2*S/(1.5 + S)"}, [(5, 9), (0, 0)], 8.0),
    "chain": ({"A": "-0.7*A", "B": "0.7*A - 0.3*B", "C": "0.3*B"}, [(4, 6), (0, 0), (0, 0)], 14.0),
    "outflow": ({"h": "0.4 - 0.5*h**0.5"}, [(3, 6)], 14.0),
}
KINDS = ("plain", "irregular", "gaps", "units")


def measured(name: str, samples: int, runs: int, noise: float, kind: str) -> tuple[TimeSeries, float, float]:
    """A table of a system, and by what values and times were multiplied."""
    sides, starts, until = SYSTEMS[name]
    law = Equations.parse(list(sides), sides)
    random = np.random.default_rng([samples, runs, *map(ord, name + kind)])
    times: list[Array] = []
    clean: list[Array] = []
    for _ in range(runs):
        t = np.linspace(0.0, until, samples)
        if kind == "irregular":
            t[1:-1] = np.sort(random.uniform(0.0, until, samples - 2))
        times.append(t)
        clean.append(law.simulate([random.uniform(*ends) for ends in starts], t))
    spread = np.std(np.concatenate(clean), axis=0)
    values = [x + noise * spread * random.standard_normal(x.shape) for x in clean]
    if kind == "gaps":
        values = [np.where(random.uniform(size=x.shape) < 0.15, np.nan, x) for x in values]
    size, seconds = (1e-6, 86400.0) if kind == "units" else (1.0, 1.0)
    late = 1e6 * (kind == "units")
    series = TimeSeries.from_arrays([late + seconds * t for t in times], [size * x for x in values], list(sides))
    return series, size, seconds


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("samples", "runs", "noise"), [(40, 1, 0.0), (40, 3, 0.02), (300, 3, 1e-3), (5000, 1, 0.02)])
@pytest.mark.parametrize("name", SYSTEMS)
def test_the_rates_of_a_textbook_system_are_found(name: str, samples: int, runs: int, noise: float, kind: str) -> None:
    series, size, seconds = measured(name, samples, runs, noise, kind)
    found = discover(series)
    sides = SYSTEMS[name][0]
    truth = Equations.parse(list(sides), sides)
    x = np.concatenate([run.values for run in series.trajectories])
    x = x[np.isfinite(x).all(axis=1)] / size
    rates, own = truth.rhs(x), found.equations.rhs(size * x) * seconds / size
    usual = np.sqrt(np.nanmean(rates**2, axis=0))
    off = np.sqrt(np.nanmean((own - rates) ** 2, axis=0)) / usual
    assert found.outcome == "converged" and (off < 0.05 + 5.0 * noise).all()
    if found.equations.power_sum is not None and truth.power_sum is not None:
        assert found.equations.complexity <= truth.complexity + 2
