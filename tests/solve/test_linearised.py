"""What small forces do along a trajectory, against solutions of the law with them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from problems import PREY, STARTS, series_of

from odediscovery.laws.power_sum import PowerSum
from odediscovery.problem.problem import Problem, prepare
from odediscovery.solve.linearised import LinearisedTrajectory

LAW = PowerSum(np.array([[-0.02, 0.03], [0.04, -0.02]]), np.eye(2))


def problem(samples: int = 30) -> Problem:
    """Predator and prey with a little noise."""
    return prepare(series_of(PREY, STARTS, [np.linspace(0.0, 8.0, samples)] * 2, 0.02))


def along_of(p: Problem, law: PowerSum = LAW) -> LinearisedTrajectory:
    found = LinearisedTrajectory.of(p, law, p.initial, np.maximum(p.noise, p.floor))
    assert found is not None
    return found


def responses(along: LinearisedTrajectory) -> np.ndarray:
    return along.responses(1, [LAW.monomials(x)[..., :1] for x in along.x])[:, 0]


@pytest.mark.parametrize("samples", [30, 1000])
def test_responses_are_what_small_forces_do(samples: int) -> None:
    p = problem(samples)
    size = 1e-5
    along = along_of(p)
    other = along_of(p, PowerSum(LAW.coefficients + np.array([[0.0, 0.0], [size, 0.0]]), LAW.exponents))
    expected = (along.residual - other.residual) / size
    assert responses(along) == pytest.approx(expected, rel=1e-2, abs=1e-3 * float(np.abs(expected).max()))


def test_starts_are_what_other_starts_do() -> None:
    p = problem()
    along, size = along_of(p), 1e-5
    moved = p.initial + size * np.array([[0.0, 1.0], [0.0, 0.0]])
    other = LinearisedTrajectory.of(p, LAW, moved, np.maximum(p.noise, p.floor))
    assert other is not None
    expected = (along.residual - other.residual) / size
    assert along.starts()[:, 1] == pytest.approx(expected, rel=1e-2, abs=1e-3 * float(np.abs(expected).max()))


def test_no_forces_have_no_responses() -> None:
    along = along_of(problem())
    assert along.responses(1, [LAW.monomials(x)[..., :0] for x in along.x]).shape == (len(along.residual), 0)


def test_missing_values_count_for_nothing_in_means_of_neighbours() -> None:
    p = problem(1000)
    gone = [
        dataclasses.replace(t, values=np.where(np.arange(1000)[:, None] % 2, np.nan, t.values))
        for t in p.data.trajectories
    ]
    p = dataclasses.replace(p, data=dataclasses.replace(p.data, trajectories=tuple(gone)))
    along = along_of(p)
    assert len(along.residual) == 1000 and along.samples == 2000
    # Of four neighbours two are known: their sum over the root of two.
    first = along.left[0][:4, 0]
    assert np.count_nonzero(first) == 2
    assert along.residual[0] == pytest.approx(first.sum() / np.sqrt(2.0))
