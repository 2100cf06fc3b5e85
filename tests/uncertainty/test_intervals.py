"""Standard errors and intervals of all constants: right, printed, kept and read again."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faces import discovery

from odediscovery.data.series import Scale, TimeSeries
from odediscovery.laws.equations import Equations
from odediscovery.laws.power_sum import Features, Free, Function, PowerSum, Sums, all_free, count
from odediscovery.laws.records import Polished, constants, residual_freedom
from odediscovery.result.discovery import Discovery
from odediscovery.runtime.arrays import Array
from odediscovery.stages.polish import polish, unscaled_errors

DRAWS = 60
ONE = np.array([[1.0]])
# x' = 1 - 2 x / (1 + 0.5 x), x' = 1.2 - 0.2 x - exp(-0.7 x), x' = 3 - 0.8 x^1.5 / (1 + 0.1 x^2)
UPTAKE = PowerSum(np.array([[0.6, -2.0]]), np.array([[0.0, 0.0], [1.0, -1.0]]), Features(1, (), Sums(0.5 * ONE, ONE)))
RELEASE = PowerSum(
    np.array([[1.2, -0.2, -1.0]]), np.array([[0.0, 0.0], [1.0, 0.0], [0.0, -0.7]]), Features(1, (Function("exp", 0),))
)
HILL = PowerSum(np.array([[-3.0]]), np.array([[1.0, -1.0]]), Features(1, (), Sums(0.6 * ONE, 1.5 * ONE)))


def only(law: PowerSum, outer: Array, inner: bool = False) -> Free:
    """Coefficients and weights are fitted, and the exponents named."""
    a, _, b, v = all_free(law)
    return a, outer != 0, b, v & inner


# Law, what is fitted, starts of the trajectories, their last time.
LAWS: dict[str, tuple[PowerSum, Free, list[float], float]] = {
    "sum": (UPTAKE, only(UPTAKE, np.zeros((2, 2))), [6.0], 6.0),
    "exponential": (RELEASE, only(RELEASE, np.minimum(RELEASE.exponents, 0.0)), [0.1, 12.0], 12.0),
    "inner exponent": (HILL, only(HILL, np.zeros((1, 2)), inner=True), [4.0], 2.5),
}
SAMPLES = 25
# Far from the size of the states, so that the way back to the user's units counts.
SCALE = Scale(np.array([30.0]), 0.05)
Records = dict[tuple[Any, ...], dict[str, Any]]


def polished(law: PowerSum, free: Free, runs: list[Array], times: Array, sigma: float, seed: int) -> Polished:
    """The true law polished on one draw of the noise, in units of `SCALE`."""
    generator = np.random.default_rng(seed)
    seen = [(x + sigma * generator.standard_normal(x.shape)) / SCALE.state for x in runs]
    series = TimeSeries.from_arrays([times / SCALE.time] * len(runs), seen)
    size = np.array([sigma]) / SCALE.state
    return polish(
        law.rescaled(SCALE.state, SCALE.time),
        series,
        np.stack([x[0] for x in runs]) / SCALE.state,
        size,
        floor=1e-6 * size,
        nonnegative=np.array([True]),
        free=free,
    )


def records(equations: Equations, degrees: int | None = None) -> Records:
    """The records of the constants of x by what they are."""
    return {
        tuple(row.get(k) for k in ("kind", "sum", "monomial", "of")): row for row in constants(equations, degrees)["x"]
    }


def found_in(found: Polished) -> Equations:
    """The equation in the user's units."""
    return Equations.from_power_sum(
        ["x"], found.law.unscaled(SCALE.state, SCALE.time), standard_errors=unscaled_errors(found, SCALE)
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", LAWS)
def test_intervals_hold_the_true_constants_as_often_as_they_say(name: str) -> None:
    law, free, starts, until = LAWS[name]
    true, times = Equations.from_power_sum(["x"], law), np.linspace(0.0, until, SAMPLES)
    runs, truth = [true.simulate([start], times) for start in starts], records(true)
    inside: dict[tuple[Any, ...], list[bool]] = {}
    for seed in range(DRAWS):
        found = polished(law, free, runs, times, 0.02, seed)
        for key, row in records(found_in(found), residual_freedom(found)).items():
            if row["snapped"]:
                assert row["standard_error"] == 0.0 and row["interval"] is None
            else:
                low, high = row["interval"]
                inside.setdefault(key, []).append(low <= truth[key]["value"] <= high)
    assert len(inside) == count(free)
    rates = {key: float(np.mean(hits)) for key, hits in inside.items()}
    assert all(0.88 <= rate <= 0.99 for rate in rates.values()), rates


# x' = 2 - 0.5 sin(x) x^2 / (1 + 0.25 x^1.98), y' = y exp(-0.3 x) - y^1.5
RICH = PowerSum(
    np.array([[2.0, -0.5, 0.0, 0.0], [0.0, 0.0, 1.2, -1.0]]),
    np.array([[0, 0, 0, 0, 0.0], [2, 0, 1, 0, -1], [0, 1, 0, -0.3, 0], [0, 1.5, 0, 0, 0]]),
    Features(2, (Function("sin", 0), Function("exp", 0)), Sums(0.25 * ONE, np.array([[1.98, 0.0, 0.0, 0.0]]))),
)
STATES = ("x y", "y")


def rich(change: Callable[[Array], Array] = lambda c: 0.01 * np.abs(c)) -> Equations:
    """The law above, its whole powers held and other errors as given (default: 1 %)."""
    a, w, b, v = (np.where(c == 0, 0.0, change(c)) for c in RICH.constants)
    held = np.isin(RICH.exponents, [0.0, 1.0, 2.0, -1.0])
    errors = RICH.with_constants(a, np.where(held, 0.0, w), b, v)
    return Equations.from_power_sum(STATES, RICH, standard_errors=errors)


def kept(equations: Equations, degrees: int | None = 30) -> Discovery:
    """A result with these equations."""
    made = discovery(PowerSum(np.diag([-0.3, -0.2]), np.eye(2)), STATES, initial=(2.0, 1.0))
    front = (dataclasses.replace(made.front[1], equations=equations),)
    return dataclasses.replace(made, equations=equations, front=front, degrees_of_freedom=degrees)


def test_extended_laws_are_printed_with_their_errors() -> None:
    assert rich().pretty().splitlines() == [
        "x y' = 2.000(20) - 0.5000(50)*x y^2*sin(x y)/(1 + 0.2500(25)*x y^1.980(20))",
        "y' = 1.200(12)*y*exp(-0.3000(30)*x y) - 1.000(10)*y^1.500(15)",
    ]
    unknown = rich(lambda c: np.full_like(c, np.nan)).pretty().splitlines()
    assert unknown[1] == "y' = 1.2*y*exp(-0.3*x y) - y^1.5"
    free = RICH.with_constants(*(np.where(c != 0, 0.01, 0.0) for c in RICH.constants))
    text = Equations.from_power_sum(STATES, RICH, standard_errors=free).pretty()
    assert "sin(x y)^1.000(10)*(1 + 0.250(10)*x y^1.980(10))^-1.000(10)" in text


@pytest.mark.parametrize(("degrees", "t"), [(30, 2.0422725), (None, None)])
def test_extended_laws_come_back_with_all_their_constants(tmp_path: Path, degrees: int | None, t: float | None) -> None:
    before = kept(rich(), degrees)
    before.save(tmp_path / "found")
    after = Discovery.load(tmp_path / "found")
    assert after.equations_text() == before.equations_text()
    assert after.as_dict() == before.as_dict()
    assert after.degrees_of_freedom == degrees
    after.save(tmp_path / "again")
    one, other = ((tmp_path / d / "result.json").read_bytes() for d in ("found", "again"))
    assert one == other
    document = json.loads(one)
    assert document["terms"] == document["exponents"] == []
    assert document["intervals"] == {"level": 0.95, "distribution": "Student t", "degrees_of_freedom": degrees}
    kinds = [row["kind"] for row in document["constants"]["x y"]]
    assert kinds == ["coefficient"] * 2 + ["exponent"] * 3 + ["inner_weight", "inner_exponent"]
    weight = document["constants"]["x y"][-2]
    assert (weight["value"], weight["standard_error"], weight["sum"]) == (0.25, 0.0025, 0)
    expected = None if t is None else pytest.approx([0.25 - t * 0.0025, 0.25 + t * 0.0025])
    assert weight["interval"] == expected
