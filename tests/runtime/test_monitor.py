"""The monitor and the resources of a fit: limits of time, requests to stop, threads, processes, versions, numbers."""

import math
import multiprocessing
import os
import platform
import signal
import subprocess
import sys
import time
from importlib import metadata
from multiprocessing import resource_tracker
from pathlib import Path

import numpy
import numpy as np
import psutil
import pytest
import torch
from problems import growth
from threadpoolctl import threadpool_info, threadpool_limits

import odediscovery
from odediscovery import FitError, InputError, Monitor, discover, settings_for
from odediscovery.runtime import versions
from odediscovery.runtime.arrays import column_norms, products_by_column, products_of_few
from odediscovery.runtime.monitor import DRAWING, TimeIsUp, check_time, drawn, remainder_of, searching_until
from odediscovery.runtime.workers import Processes


def test_stops_behind_the_limit_and_sooner_where_it_was_interrupted():
    now = time.monotonic()
    assert Monitor(max_seconds=60.0, started=now).stopping() is None
    monitor = Monitor(max_seconds=60.0, started=now - 61.0)
    assert monitor.stopping() == "time limit"
    monitor.interrupt()
    assert [monitor.stopping(), monitor.stopping()] == ["interrupted"] * 2


def endless():
    for _ in range(10**9):
        check_time()
    return "done"


def test_long_work_ends_in_time_for_what_follows_it():
    monitor = Monitor(max_seconds=0.5)
    # The search may take 0.375 s and leaves 0.25 s, of which 0.2 are 0.05 s.
    assert monitor.in_time(0.2, endless, "the best so far") == "the best so far"
    assert 0.42 <= monitor.seconds() < 2.0
    assert monitor.is_overdue(0.2) and monitor.stopping() == "time limit"


@pytest.mark.parametrize("limit", [0.1, 12.0, 3600.0])
def test_a_limit_is_overrun_by_at_most_a_tenth(limit):
    drawn_by = searching_until(limit) + DRAWING * remainder_of(limit)
    assert drawn_by + min(0.6, 0.1 * limit) <= 1.1 * limit + 1e-9
    assert 0.74 * limit <= searching_until(limit) <= limit


def test_long_work_ends_once_it_was_interrupted():
    monitor = Monitor()
    monitor.interrupt()
    assert monitor.in_time(0.01, endless, None) is None
    assert monitor.seconds() < 2.0


def test_nothing_is_ended_outside_and_the_outer_patience_returns():
    check_time()
    monitor = Monitor(max_seconds=10.0, started=time.monotonic() - 9.0)
    with monitor.patient(1.0):
        assert monitor.in_time(0.1, endless, "late") == "late"
        check_time()
        with pytest.raises(TimeIsUp), monitor.patient(0.1):
            check_time()
    check_time()


@pytest.mark.parametrize(("own", "during"), [(None, 6.0), (2.0, 2.0)])
def test_a_given_monitor_without_a_limit_has_that_of_the_settings(own, during):
    monitor = Monitor(own)
    with drawn(monitor, 6.0) as hears:
        assert hears is monitor and hears.max_seconds == pytest.approx(during, abs=1.0)
    assert monitor.max_seconds == own


def used():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


def test_a_fit_has_one_thread_unless_somebody_asks_for_more():
    seen = []

    class Looking(Monitor):
        def stage(self, name, total):
            seen.append(used())
            super().stage(name, total)

    with threadpool_limits(2, user_api="blas"):
        discover(growth(np.linspace(0.0, 10.0, 30), 0.0), settings_for(members=0), Looking())
    assert seen and all(one == {1} for one in seen)


ROOT = Path(__file__).resolve().parents[2]


def test_tasks_that_hang_or_die_are_failures_and_the_others_go_on():
    ended = dict(Processes(2).results(time.sleep, [0.1, 60.0, -1.0, 0.2], 1.0))
    assert ended[0] is None and ended[3] is None
    assert ended[1].reason == "no result within 1 s" and 1.0 <= ended[1].seconds < 10
    assert ended[2].reason == "ValueError: sleep length must be non-negative"
    died = dict(Processes(1).results(os._exit, [3, 0], 60.0))
    assert [died[k].reason for k in (0, 1)] == [
        "its process ended with exit code 3",
        "its process ended with exit code 0",
    ]


def test_a_request_to_stop_ends_the_processes():
    asked = iter([None] * 5 + ["interrupted"] * 100)
    stopping = lambda: next(asked)  # noqa: E731
    assert list(Processes(2).results(time.sleep, [60.0, 60.0], 100.0, stopping)) == []
    assert not multiprocessing.active_children()


def test_processes_have_one_thread_and_leave_ctrl_c_to_their_parent(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    assert dict(Processes(1).results(os.getenv, ["OMP_NUM_THREADS", "MKL_NUM_THREADS"])) == {0: "1", 1: "1"}
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "65536")
    assert dict(Processes(1).results(os.getenv, ["MALLOC_TRIM_THRESHOLD_"])) == {0: None}
    assert os.environ["OMP_NUM_THREADS"] == "7" and os.environ["MALLOC_TRIM_THRESHOLD_"] == "65536"
    ((_, interrupted),) = Processes(1).results(signal.raise_signal, [signal.SIGINT])
    assert interrupted is None


def test_processes_end_with_a_parent_that_was_killed():
    script = "import time; from odediscovery.runtime.workers import IN_TURN; list(IN_TURN.results(time.sleep, [60.0]))"
    with subprocess.Popen([sys.executable, "-c", script], cwd=ROOT) as parent:
        while not (children := [c for c in psutil.Process(parent.pid).children() if "spawn_main" in str(c.cmdline())]):
            time.sleep(0.05)
        parent.kill()
    assert psutil.wait_procs(children, timeout=30)[1] == []


def test_what_cannot_start_is_an_error_and_no_tasks_no_process(monkeypatch):
    assert list(Processes(3).results(time.sleep, [])) == []
    with pytest.raises(InputError, match="--jobs must be at least 1, got 0"):
        Processes(0)
    # The tracker starts from the same executable, once in a process.
    resource_tracker.ensure_running()
    monkeypatch.setattr(multiprocessing.spawn, "get_executable", lambda: b"/bin/false")
    with pytest.raises(FitError, match="could not start: its process ended with exit code 1"):
        list(Processes(1).results(time.sleep, [0.0], math.inf))


def test_versions_are_the_installed_ones(monkeypatch):
    known = versions.versions()
    assert known["python"] == platform.python_version()
    assert known["odediscovery"] == odediscovery.__version__
    assert (known["numpy"], known["torch"]) == (numpy.__version__, torch.__version__)
    assert set(known) == {"python", "odediscovery", "torch", "torchdiffeq", "scipy", "numpy", "sympy"}

    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    assert versions.versions()["scipy"] == "unknown"


def test_ordinary_norms_are_those_of_numpy():
    columns = np.random.default_rng(0).normal(size=(3, 7, 5))
    np.testing.assert_array_equal(column_norms(columns, axis=1), np.linalg.norm(columns, axis=1))


@pytest.mark.parametrize("size", [1e-300, 1.0, 1e155, 1e300])
def test_norms_hold_where_squares_overflow(size):
    columns = np.array([[3.0 * size, 3.0, 0.0], [-4.0 * size, 4.0, 0.0]])
    expected = [5.0 * size if size >= 1.0 else 0.0, 5.0, 0.0]
    np.testing.assert_allclose(column_norms(columns), expected, rtol=1e-12)


def test_what_is_no_number_stays_none():
    columns = np.array([[np.inf, np.nan, 1.7e308, 3.0], [1.0, 1.0, 1.7e308, 4.0]])
    norms = column_norms(columns)
    assert np.isinf(norms[[0, 2]]).all() and np.isnan(norms[1]) and norms[3] == 5.0
    assert column_norms(np.zeros((2, 0))).shape == (0,)


@pytest.mark.parametrize("products", [products_of_few, products_by_column])
def test_products_of_powers_are_those_of_numpy(products):
    """Also of a row without powers and one of a single feature, of 0 and of what is no number."""
    y = np.random.default_rng(0).standard_normal((70, 20))
    y[0], y[1, 3] = 0.0, np.nan
    w = np.zeros((6, 20))
    w[0, 3], w[1, [2, 7]], w[2, [0, 1, 19]], w[3, 5], w[4, [3, 4]] = 2.0, (1.0, -0.5), (0.5, 1.5, 3.0), 1.0, (-1.0, 3.0)
    least = np.where(w == np.round(w), -np.inf, 1e-300)
    with np.errstate(all="ignore"):
        expected = np.prod(np.maximum(y[:, None], least) ** w, axis=-1)
    np.testing.assert_allclose(products(y, w, least), expected, rtol=1e-14)
