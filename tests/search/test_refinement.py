"""Laws that leave nothing of windows have to leave nothing of whole trajectories."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from problems import LOGISTIC, growth
from scipy.integrate import solve_ivp

from odediscovery import Monitor, Settings, TimeSeries, discover, load_csv
from odediscovery.judge.criterion import judge_on
from odediscovery.judge.verdict import Verdict
from odediscovery.laws.cost import all_free
from odediscovery.problem.prepare import prepare
from odediscovery.search.refinement import count_independent, refined, sigma_of
from odediscovery.solve.trajectories import residuals
from odediscovery.stages.values import Origin


@pytest.mark.parametrize(("smooth", "fewer"), [(0.0, False), (0.02, True)])
def test_samples_of_a_smooth_error_are_not_independent(smooth: float, fewer: bool) -> None:
    times = np.linspace(0.0, 20.0, 100)
    p = prepare(growth(times, 1e-3))
    shift = smooth * np.sin(times)[:, None] / p.scale.state
    off = dataclasses.replace(p.data.trajectories[0], values=p.data.trajectories[0].values + shift)
    p = dataclasses.replace(p, data=dataclasses.replace(p.data, trajectories=(off,)))
    law = LOGISTIC.rescaled(p.scale.state, p.scale.time)
    found = refined(p, law, all_free(law), p.initial, sigma_of(p))
    before = Verdict.of(p, [judge_on(p, found, Origin(0))])
    after = count_independent(before)
    assert (after is not before) is fewer
    if fewer:
        assert after.p.independent is not None and (after.p.independent < 0.2).all()
        assert after.best.criterion > before.best.criterion  # less is certain


def test_a_law_that_follows_even_a_smooth_error_does_not_hide_its_memory() -> None:
    times = np.linspace(0.0, 20.0, 100)
    p = prepare(growth(times, 1e-4))
    law = LOGISTIC.rescaled(p.scale.state, p.scale.time)
    nearest = refined(p, law, all_free(law), p.initial, sigma_of(p))
    p = dataclasses.replace(p, noise=p.noise / 5.0)
    rows = [judge_on(p, nearest, Origin(0))]
    # What it leaves is more than noise, but has no memory.
    assert count_independent(Verdict.of(p, rows)).p.independent is None
    a, *others = nearest.law.constants
    slow, wrong = (dataclasses.replace(nearest, law=law.with_constants(f * a, *others)) for f in (1.0003, 1.3))
    for other, fewer in ((slow, True), (wrong, False)):
        left = np.concatenate(residuals(other.law, p.data, other.initial))
        other = dataclasses.replace(other, squares=(left**2).sum(axis=0))
        after = count_independent(Verdict.of(p, [*rows, judge_on(p, other, Origin(1))]))
        share = after.p.independent
        assert share is None if not fewer else share is not None and (share < 0.5).all()


def test_the_error_of_our_own_solver_takes_no_evidence_away() -> None:
    """Without noise it made a law that explains half of the data win."""
    p = prepare(growth(np.linspace(0.0, 40.0, 300), 0.0))
    law = LOGISTIC.rescaled(p.scale.state, p.scale.time)
    found = refined(p, law, all_free(law), p.initial, sigma_of(p))
    smooth = dataclasses.replace(found, law=law.with_constants(1.000001 * law.coefficients, *law.constants[1:]))
    before = Verdict.of(p, [judge_on(p, smooth, Origin(0))])
    assert p.clean and count_independent(before) is before


@pytest.mark.long
@pytest.mark.parametrize("tolerance", [1e-3])
def test_the_error_of_a_solver_is_no_structure(tolerance: float) -> None:
    """What scipy's solver leaves at its usual tolerance was told as sums of quotients."""
    times = np.linspace(0.0, 20.0, 60)
    level = solve_ivp(lambda _, h: 0.3 - 0.35 * h**0.5, (0.0, 20.0), [4.0], t_eval=times, rtol=tolerance).y[0]
    found = discover(TimeSeries.from_arrays(times, level), Settings(seed=0, members=0), Monitor())
    law = found.equations.power_sum
    assert law is not None and sorted(law.exponents.ravel().tolist()) == [0.0, 0.5]
    assert np.sort(law.coefficients.ravel()) == pytest.approx([-0.35, 0.3], rel=2e-3)


@pytest.mark.long
def test_the_law_behind_the_published_points_is_found() -> None:
    """The solver of the Julia code left 7e-4 there, which terms such as I^11 R^12 follow."""
    found = discover(load_csv(Path(__file__).parents[1] / "files" / "julia_fsir_trajectory.csv"), Settings(seed=0))
    law = found.equations.power_sum
    assert found.outcome == "converged" and law is not None
    assert sorted(law.exponents.tolist()) == [[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [0.5, 0.5, 0.0]]
    assert np.count_nonzero(law.coefficients) == 6
