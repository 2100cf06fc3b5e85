"""Laws that a user asks for: which of their constants are sought, and what is fitted of them."""

from __future__ import annotations

import numpy as np
import pytest

from odediscovery import InputError, TimeSeries, settings_for, with_controls
from odediscovery.discovery.task import Task, pose_task
from odediscovery.discovery.tried import check_asked, laws_asked_for
from odediscovery.runtime.monitor import Monitor

T = np.linspace(0.0, 12.0, 40)


def task(**asked: list[str]) -> Task:
    """Logistic growth at rate 0.8 to 50."""
    values = 50.0 / (1.0 + (50.0 / 2.0 - 1.0) * np.exp(-0.8 * T))
    return pose_task(TimeSeries.from_arrays(T, values, ["N"]), settings_for(**asked), Monitor())


def test_laws_by_name_and_laws_written_down_are_fitted() -> None:
    asked = task(template=["logistic"], tries=["N' = r*N*(1 - N/K)", "N' = r*N"])
    by_name, written, poor = laws_asked_for(asked, asked.p)
    assert written.says == "as it was tried" != by_name.says
    np.testing.assert_allclose(written.constants, [0.8, 50.0], rtol=1e-4)
    assert by_name.mse == pytest.approx(written.mse, abs=1e-6)
    assert poor.mse > 1e4 * written.mse
    assert laws_asked_for(task(), task().p) == []


def test_what_cannot_be_tried_is_refused_before_the_search() -> None:
    with pytest.raises(InputError, match="M"):
        check_asked(task(tries=["M' = r*M"]))
    with pytest.raises(InputError, match="logistic"):
        check_asked(task(template=["logistik"]))
    series = TimeSeries.from_arrays(T, np.column_stack([np.exp(-T), np.sin(T)]), ["N", "u"])
    driven = with_controls(series, linear=["u"])
    with pytest.raises(InputError, match="without inputs"):
        check_asked(pose_task(driven, settings_for(tries=["N' = r*N"]), Monitor()))
