"""What a fit is asked, and the claimed law refined on more than it was found with."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest
from problems import LOGISTIC, growth

from odediscovery import InputError, Monitor, Settings, TimeSeries, discover, settings_for
from odediscovery.data.controls import with_controls
from odediscovery.discovery.refine import judge_all_samples
from odediscovery.discovery.task import Task, pose_task
from odediscovery.judge.criterion import judge
from odediscovery.judge.verdict import Verdict
from odediscovery.laws.cost import all_free
from odediscovery.problem.problem import Problem
from odediscovery.search.refinement import refined, sigma_of
from odediscovery.stages.values import Origin


def verdict_on(p: Problem) -> Verdict:
    """The logistic law with its exponents held, polished on a problem."""
    law = LOGISTIC.rescaled(p.scale.state, p.scale.time)
    a, w, b, v = all_free(law)
    found = refined(p, law, (a, w & False, b, v), p.initial, sigma_of(p))
    return Verdict.of(p, [judge(found, sigma_of(p), Origin(0))])


def task_of(samples: int, sigma: float) -> Task:
    return pose_task(growth(np.linspace(0.0, 20.0, samples), sigma), Settings(), Monitor())


def test_a_missing_device_and_controls_of_a_published_recipe_are_refused() -> None:
    series = growth(np.linspace(0.0, 20.0, 80), 0.01)
    with pytest.raises(InputError, match="device"):
        pose_task(series, dataclasses.replace(Settings(), device="no such device"), Monitor())
    t = np.linspace(0.0, 20.0, 80)
    values = np.column_stack([series.trajectories[0].values, np.sin(t)])
    from_controls = with_controls(TimeSeries.from_arrays(t, values, ["x", "u"]), linear=["u"])
    with pytest.raises(InputError, match=r"inputs \(u\) need --recipe default"):
        pose_task(from_controls, settings_for("paper"), Monitor())


@pytest.mark.slow
def test_the_verdict_of_a_thinned_series_moves_to_all_samples() -> None:
    task = task_of(3000, 0.01)
    few = verdict_on(task.p)
    moved, series = judge_all_samples(task, few)
    assert series is task.every and moved.best.polished.counts.tolist() == [3000]
    assert (
        "laws were sought in 300 of the 3000 samples" in moved.p.messages[-1]
        and "are those of all" in moved.p.messages[-1]
    )
    law = moved.best.polished.law.unscaled(moved.p.scale.state, moved.p.scale.time)
    assert law.coefficients[0] == pytest.approx([0.5, -0.5], rel=0.01)
    # Ten times as many samples tell the constants about three times as well.
    assert (moved.best.polished.errors.coefficients < few.best.polished.errors.coefficients).all()
    task.monitor.interrupt()
    kept, series = judge_all_samples(task, few)
    assert series is task.few and kept.rows == few.rows and "are of these" in kept.p.messages[-1]
    short = task_of(80, 0.01)
    verdict = verdict_on(short.p)
    assert judge_all_samples(short, verdict)[0] is verdict


@pytest.mark.parametrize("given", [pd.DataFrame({"t": [0, 1], "x": [1, 2]}), "table.csv"])
def test_what_is_no_series_is_refused_with_the_way_to_one(given: object) -> None:
    with pytest.raises(InputError, match=r"expects a TimeSeries, got a (DataFrame|str); load_csv reads a file"):
        discover(given)  # type: ignore[arg-type]
