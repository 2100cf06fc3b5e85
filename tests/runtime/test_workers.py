"""Tasks in processes of their own: limits, deaths, requests to stop, and what is left behind."""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from odediscovery.errors import FitError, InputError
from odediscovery.runtime.workers import Processes

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_tasks_that_hang_or_die_are_failures_and_the_others_go_on() -> None:
    ended = dict(Processes(2).results(time.sleep, [0.1, 60.0, -1.0, 0.2], 1.0))
    assert ended[0] is None and ended[3] is None
    assert ended[1].reason == "no result within 1 s" and 1.0 <= ended[1].seconds < 10
    assert ended[2].reason == "ValueError: sleep length must be non-negative"
    died = dict(Processes(1).results(os._exit, [3, 0], 60.0))
    assert [died[k].reason for k in (0, 1)] == [
        "its process ended with exit code 3",
        "its process ended with exit code 0",
    ]


@pytest.mark.slow
def test_a_request_to_stop_ends_the_processes() -> None:
    asked = iter([None] * 5 + ["interrupted"] * 100)
    stopping = lambda: next(asked)  # noqa: E731
    assert list(Processes(2).results(time.sleep, [60.0, 60.0], 100.0, stopping)) == []
    assert not multiprocessing.active_children()


def test_processes_have_one_thread_and_leave_ctrl_c_to_their_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    assert dict(Processes(1).results(os.getenv, ["OMP_NUM_THREADS", "MKL_NUM_THREADS"])) == {0: "1", 1: "1"}
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "65536")
    assert dict(Processes(1).results(os.getenv, ["MALLOC_TRIM_THRESHOLD_"])) == {0: None}
    assert os.environ["OMP_NUM_THREADS"] == "7" and os.environ["MALLOC_TRIM_THRESHOLD_"] == "65536"
    ((_, interrupted),) = Processes(1).results(signal.raise_signal, [signal.SIGINT])
    assert interrupted is None


@pytest.mark.slow
def test_processes_end_with_a_parent_that_was_killed() -> None:
    script = "import time; from odediscovery.runtime.workers import IN_TURN; list(IN_TURN.results(time.sleep, [60.0]))"
    with subprocess.Popen([sys.executable, "-c", script], cwd=ROOT) as parent:
        while not (children := [c for c in psutil.Process(parent.pid).children() if "spawn_main" in str(c.cmdline())]):
            time.sleep(0.05)
        parent.kill()
    assert psutil.wait_procs(children, timeout=30)[1] == []


def test_what_cannot_start_is_an_error_and_no_tasks_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(Processes(3).results(time.sleep, [])) == []
    with pytest.raises(InputError, match="--jobs must be at least 1, got 0"):
        Processes(0)
    monkeypatch.setattr(multiprocessing.spawn, "get_executable", lambda: b"/bin/false")
    with pytest.raises(FitError, match="could not start: its process ended with exit code 1"):
        list(Processes(1).results(time.sleep, [0.0], math.inf))
