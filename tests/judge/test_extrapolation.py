"""What a reader should know who continues the equations, or trusts constants beside each other."""

from __future__ import annotations

import numpy as np
import pytest

from odediscovery import Equations, TimeSeries
from odediscovery.judge.extrapolation import check_extrapolation
from odediscovery.judge.identifiability import unidentifiable_combinations
from odediscovery.laws.cost import all_free
from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.prepare import prepare
from odediscovery.stages.polish.polish import polish


@pytest.mark.slow
@pytest.mark.parametrize(
    ("right", "told"),
    [
        ("x", ["x reaches 54.6, far from the data, 1 to 7.39: "]),
        ("0.45*x**2", ["the equations blow up, at t = 2.24: use them within the measured time only"]),
    ],
)
def test_equations_that_leave_the_data_are_told(right: str, told: list[str]) -> None:
    law, t = Equations.parse(["x"], {"x": right}), np.linspace(0.0, 2.0, 9)
    series = TimeSeries.from_arrays(t, law.simulate([1.0], t), ["x"])
    found = check_extrapolation(law, series, np.array([[1.0]]))
    assert len(found) == len(told)
    assert all(note.startswith(f"continued for as long again {text}") for note, text in zip(found, told, strict=True))


def test_constants_of_which_only_the_sum_is_seen_are_named() -> None:
    t = np.linspace(0.0, 3.0, 30)
    # Both runs have x = y, so that only a + b is known in x' = a x + b y.
    series = TimeSeries.from_arrays(t, np.repeat(np.exp(-0.5 * t)[:, None], 2, axis=1), ["x", "y"])
    p = prepare(series)
    for coefficients, count in (([[-0.2, -0.3], [0.0, -0.5]], 1), ([[-0.5, 0.0], [0.0, -0.5]], 0)):
        law = PowerSum(np.array(coefficients), np.eye(2))
        law = law.rescaled(p.scale.state, p.scale.time)
        a, w, b, v = all_free(law)
        found = polish(
            law,
            p.data,
            p.initial,
            np.full(2, 1e-3),
            floor=p.floor,
            nonnegative=p.nonnegative,
            free=(a, w & False, b, v),
        )
        notes = unidentifiable_combinations(p, found)
        assert len(notes) == count
        both = "the coefficient of x in x' and the coefficient of y in x' apart"
        assert all(both in note for note in notes)
