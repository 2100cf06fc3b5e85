"""Linear algebra keeps to one thread while a fit runs, and to what it had before afterwards."""

from __future__ import annotations

import numpy as np
import pytest
from problems import growth
from threadpoolctl import threadpool_info, threadpool_limits

from odediscovery import discover, settings_for
from odediscovery.runtime.monitor import Monitor
from odediscovery.runtime.resources import blas_threads


def used() -> set[int]:
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


def test_threads_are_limited_inside_alone() -> None:
    with threadpool_limits(2, user_api="blas"):
        before = used()
        with blas_threads(None):
            assert used() == {1}
        with pytest.raises(ZeroDivisionError), blas_threads(1):
            raise ZeroDivisionError
        assert used() == before


def test_a_fit_has_one_thread_unless_somebody_asks_for_more() -> None:
    seen = []

    class Looking(Monitor):
        def stage(self, name: str, total: int) -> None:
            seen.append(used())
            super().stage(name, total)

    with threadpool_limits(2, user_api="blas"):
        discover(growth(np.linspace(0.0, 10.0, 30), 0.0), settings_for(members=0), Looking())
    assert seen and all(one == {1} for one in seen)
